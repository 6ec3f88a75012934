"""The convolution kernels against the oracle, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from .oracle import activation, convolution
from .support import FINITE_SPECIALS, SPECIALS, check, code, elementary, floats

IDENTITY = ("identity", 0.0)


def check_forward(x, w, b, stride, padding, act=IDENTITY, **options):
    y = activation.forward(convolution.forward(x, w, b, stride, padding), *act, elementary())
    check(y, "convolution", "forward", x, w, b, stride, padding, code(act[0]), act[1], **options)


def check_gradients(dy, x, w, stride, padding, **options):
    size, kernel = x.shape[2:], w.shape[2:]
    dx = convolution.input_gradient(dy, w, size, stride, padding)
    check(dx, "convolution", "input_gradient", dy, w, x.shape, stride, padding, **options)
    dw = convolution.weight_gradient(dy, x, kernel, stride, padding)
    check(dw, "convolution", "weight_gradient", dy, x, kernel, stride, padding, **options)
    check(convolution.bias_gradient(dy), "convolution", "bias_gradient", dy, **options)


def check_all(
    seed, images, channels, size, out, kernel, stride, padding, rare=0.0, among=SPECIALS, act=IDENTITY, **options
):
    rng = np.random.default_rng(seed)
    x, w, b = (
        floats(rng, *shape, rare=rare, among=among)
        for shape in ((images, channels, *size), (out, channels, *kernel), (out,))
    )
    dy = floats(rng, images, out, *convolution.output_size(size, kernel, stride, padding), rare=rare, among=among)
    check_forward(x, w, b, stride, padding, act, **options)
    check_gradients(dy, x, w, stride, padding, **options)


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (2, 3), (5, 5), (7, 7), (1, 4)], ids=str)
@pytest.mark.parametrize(
    ("stride", "padding"),
    [((1, 1), (0, 0)), ((1, 1), (1, 1)), ((2, 2), (1, 1)), ((2, 2), (0, 0)), ((2, 1), (0, 2)), ((3, 4), (2, 1))],
    ids=str,
)
def test_kernels_strides_and_paddings(kernel, stride, padding):
    check_all(kernel[0] + stride[0], 2, 3, (11, 13), 5, kernel, stride, padding, workers=(1, 2))


@pytest.mark.parametrize(
    ("images", "channels", "size", "out", "kernel", "stride", "padding"),
    [
        (1, 1, (1, 1), 1, (1, 1), (1, 1), (0, 0)),
        (1, 1, (1, 1), 1, (3, 3), (1, 1), (1, 1)),
        (1, 2, (1, 37), 3, (1, 3), (1, 1), (0, 1)),
        (17, 1, (2, 3), 1, (3, 3), (1, 1), (1, 1)),
        (3, 17, (8, 8), 9, (3, 3), (1, 1), (1, 1)),
        (2, 8, (7, 7), 33, (3, 3), (1, 1), (1, 1)),
        (9, 5, (5, 19), 8, (3, 3), (2, 2), (1, 1)),
        (9, 16, (1, 1), 31, (1, 1), (1, 1), (0, 0)),
        (2, 13, (9, 17), 16, (1, 1), (2, 2), (0, 0)),
        (1, 3, (6, 35), 11, (3, 3), (1, 1), (0, 0)),
        (1, 3, (33, 4), 2, (3, 3), (2, 2), (1, 1)),
        (2, 2, (5, 5), 2, (5, 5), (1, 1), (4, 4)),
        (1, 2, (4, 4), 2, (2, 2), (5, 5), (0, 0)),
        (2, 1, (3, 3), 1, (1, 1), (1, 1), (2, 3)),
    ],
    ids=str,
)
def test_odd_shapes(images, channels, size, out, kernel, stride, padding):
    check_all(images + out, images, channels, size, out, kernel, stride, padding)


@pytest.mark.parametrize(
    ("images", "channels", "size", "out", "kernel", "stride", "padding"),
    [
        (3, 16, (32, 32), 16, (3, 3), (1, 1), (1, 1)),
        (3, 16, (32, 32), 32, (3, 3), (2, 2), (1, 1)),
        (3, 32, (16, 16), 24, (1, 1), (1, 1), (0, 0)),
        (2, 32, (17, 15), 64, (1, 1), (2, 2), (0, 0)),
        (10, 32, (8, 8), 64, (3, 3), (1, 1), (1, 1)),
        (2, 3, (57, 56), 20, (7, 7), (2, 2), (3, 3)),
    ],
    ids=str,
)
def test_shapes_that_reach_the_fast_paths_and_every_worker(images, channels, size, out, kernel, stride, padding):
    check_all(1, images, channels, size, out, kernel, stride, padding)


@pytest.mark.parametrize(
    ("rare", "among"), [(0.003, SPECIALS), (0.05, SPECIALS), (0.5, FINITE_SPECIALS)], ids=["few", "many", "finite"]
)
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"),
    [
        ((3, 3), (1, 1), (1, 1)),
        ((3, 3), (2, 2), (1, 1)),
        ((1, 1), (1, 1), (0, 0)),
        ((1, 1), (2, 2), (0, 0)),
        ((2, 3), (1, 2), (1, 0)),
    ],
    ids=str,
)
def test_special_values(kernel, stride, padding, rare, among):
    check_all(5, 3, 4, (9, 18), 9, kernel, stride, padding, rare, among, workers=(1, 2))


def test_padding_takes_part():
    """An infinite weight on a padding zero is NaN; so is an infinite gradient, and a weight beyond dy's border."""
    x, w, dy = np.ones((1, 1, 5, 5), np.float32), np.ones((1, 1, 3, 3), np.float32), np.ones((1, 1, 5, 5), np.float32)
    w[0, 0, 0, 0] = np.inf
    dy[0, 0, 0, 0] = -np.inf
    assert np.isnan(convolution.forward(x, w, None, (1, 1), (1, 1))[0, 0, 0]).all()
    check_forward(x, w, None, (1, 1), (1, 1))
    check_gradients(dy, x, w, (1, 1), (1, 1))
    dy = np.ones((1, 1, 2, 2), np.float32)
    assert np.isnan(convolution.input_gradient(dy, w, (6, 6), (2, 2), (0, 0))[0, 0, 4]).any()
    check_gradients(dy, np.ones((1, 1, 6, 6), np.float32), w, (2, 2), (0, 0))


def test_underflow_keeps_its_sign_without_a_bias():
    x = np.full((1, 1, 4, 40), 1e-30, np.float32)
    w = np.full((2, 1, 1, 1), -1e-30, np.float32)
    assert np.signbit(convolution.forward(x, w, None, (1, 1), (0, 0))).all()
    check_forward(x, w, None, (1, 1), (0, 0))
    check_forward(x, w, np.zeros(2, np.float32), (1, 1), (0, 0))
    check_gradients(np.full((1, 2, 4, 40), 1e-30, np.float32), x, w, (1, 1), (0, 0))


@pytest.mark.parametrize(
    "act",
    [
        ("relu", 0.0),
        ("leaky_relu", 0.1),
        ("elu", 0.7),
        ("sigmoid", 0.0),
        ("tanh", 0.0),
        ("softplus", 0.0),
        ("silu", 0.0),
        ("gelu", 0.0),
        ("sinusoid", 0.0),
    ],
    ids=lambda a: a[0],
)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 1), (2, 2)], ids=str)
def test_fused_activation(act, bias, kernel):
    rng = np.random.default_rng(3)
    x, w = floats(rng, 2, 3, 9, 17, rare=0.01), floats(rng, 9, 3, *kernel)
    check_forward(x, w, floats(rng, 9) if bias else None, (1, 1), (1, 1), act, workers=(1, 2))


@pytest.mark.parametrize("images", [0, 1, 7, 8, 9, 16, 25])
def test_batches_around_the_block_size(images):
    check_all(images, images, 2, (4, 5), 3, (3, 3), (1, 1), (1, 1))


@given(st.data())
def test_any_shape(data):
    size, kernel, stride = (data.draw(st.tuples(st.integers(1, top), st.integers(1, top))) for top in (20, 5, 4))
    padding = data.draw(st.tuples(st.integers(0, 4), st.integers(0, 4)))
    assume(min(convolution.output_size(size, kernel, stride, padding)) >= 1)
    images, channels, out = (data.draw(st.integers(1, top)) for top in (10, 5, 10))
    rare = data.draw(st.sampled_from([0.0, 0.01, 0.3]))
    workers = (data.draw(st.sampled_from([1, 2, 3, 4, 7])),)
    check_all(0, images, channels, size, out, kernel, stride, padding, rare, FINITE_SPECIALS, workers=workers)
