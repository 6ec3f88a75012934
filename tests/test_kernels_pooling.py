"""The pooling kernels against the oracle, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from .oracle import pooling
from .oracle.convolution import output_size
from .support import FINITE_SPECIALS, SPECIALS, check, floats, same_bits


@pytest.mark.parametrize(
    "shape",
    [
        (0, 2, 4),
        (2, 0, 4),
        (2, 3, 0),
        (1, 1, 1),
        (3, 5, 1),
        (2, 3, 31),
        (2, 3, 32),
        (7, 2, 33),
        (3, 17, 49),
        (1, 2, 64),
        (5, 9, 127),
        (4, 160, 1024),
    ],
    ids=str,
)
@pytest.mark.parametrize("rare", [0.0, 0.05])
def test_average_pool(shape, rare):
    rng = np.random.default_rng(shape[2])
    x, dy = floats(rng, *shape, rare=rare), floats(rng, *shape[:2], rare=rare)
    check(pooling.average_forward(x), "pooling", "average_pool_forward", x)
    check(pooling.average_backward(dy, shape[2]), "pooling", "average_pool_backward", dy, shape[2])


def check_max(x, dy, kernel, stride, padding, **options):
    check(
        pooling.max_forward(x, kernel, stride, padding),
        "pooling",
        "max_pool_forward",
        x,
        kernel,
        stride,
        padding,
        **options,
    )
    dx = pooling.max_backward(dy, x, kernel, stride, padding)
    check(dx, "pooling", "max_pool_backward", dy, x, kernel, stride, padding, **options)


def draw(seed, images, channels, size, kernel, stride, padding, rare=0.0, among=SPECIALS):
    rng = np.random.default_rng(seed)
    x = floats(rng, images, channels, *size, rare=rare, among=among)
    dy = floats(rng, images, channels, *output_size(size, kernel, stride, padding), rare=rare / 4, among=among)
    return x, dy


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"),
    [((2, 2), (2, 2), (0, 0)), ((3, 3), (2, 2), (1, 1)), ((3, 3), (1, 1), (0, 0)), ((1, 1), (1, 1), (0, 0)), ((1, 1), (2, 3), (0, 0)),
     ((2, 3), (1, 2), (1, 0)), ((5, 4), (3, 3), (4, 3)), ((2, 2), (3, 4), (0, 1))],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize(
    ("rare", "among"), [(0.0, SPECIALS), (0.1, SPECIALS), (1.0, FINITE_SPECIALS)], ids=["plain", "special", "ties"]
)
def test_max_pool(kernel, stride, padding, rare, among):
    for size in ((9, 10), (8, 37)):
        x, dy = draw(1, 3, 5, size, kernel, stride, padding, rare, among)
        check_max(x, dy, kernel, stride, padding, workers=(3, 2))


def test_max_pool_on_every_worker():
    x, dy = draw(2, 9, 32, (32, 32), (3, 3), (2, 2), (1, 1), 0.01)
    check_max(x, dy, (3, 3), (2, 2), (1, 1))


def test_nan_wins_wherever_it_stands_and_minus_infinity_counts():
    for place in range(4):
        x = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.float32).reshape(1, 1, 2, 4)
        x[0, 0, place // 2, place % 2] = np.nan
        dy = np.array([[[[2, 3]]]], np.float32)
        assert np.isnan(pooling.max_forward(x, (2, 2), (2, 2), (0, 0))[0, 0, 0, 0])
        check_max(x, dy, (2, 2), (2, 2), (0, 0))
    lowest = np.full((1, 1, 2, 2), -np.inf, np.float32)
    same_bits(pooling.max_forward(lowest, (2, 2), (2, 2), (1, 1)), lowest)
    check_max(lowest, np.ones((1, 1, 2, 2), np.float32), (2, 2), (2, 2), (1, 1))
    check_max(np.full((1, 1, 2, 2), np.nan, np.float32), np.ones((1, 1, 1, 1), np.float32), (2, 2), (2, 2), (0, 0))


def test_windows_that_meet_add_in_raster_order():
    x = np.zeros((1, 1, 9, 9), np.float32)
    x[0, 0, 2, 2] = 1
    dy = np.zeros((1, 1, 4, 4), np.float32)
    dy[0, 0, 0, 1], dy[0, 0, 1, 0], dy[0, 0, 1, 1] = 1, 1e8, -1e8
    assert pooling.max_backward(dy, x, (3, 3), (2, 2), (0, 0))[0, 0, 2, 2] == 0
    check_max(x, dy, (3, 3), (2, 2), (0, 0))


def test_very_many_images():
    n = np.arange(65537)
    x = np.stack([n % 7, n * 0 + 1, n * 0 + 2, n * 0 + 3], 1).astype(np.float32).reshape(-1, 1, 2, 2)
    y = pooling.max_forward(x, (2, 2), (2, 2), (0, 0))
    assert y.sum(dtype=np.float64) == 252783
    check(y, "pooling", "max_pool_forward", x, (2, 2), (2, 2), (0, 0), workers=(1, 4))


@given(st.data())
def test_any_max_pool(data):
    size, kernel, stride = (data.draw(st.tuples(st.integers(1, top), st.integers(1, top))) for top in (12, 4, 4))
    padding = data.draw(st.tuples(st.integers(0, kernel[0] - 1), st.integers(0, kernel[1] - 1)))
    assume(min(output_size(size, kernel, stride, padding)) >= 1)
    images, channels = data.draw(st.integers(0, 4)), data.draw(st.integers(1, 4))
    rare = data.draw(st.sampled_from([0.0, 0.3, 1.0]))
    check_max(*draw(0, images, channels, size, kernel, stride, padding, rare), kernel, stride, padding, workers=(1, 2))
