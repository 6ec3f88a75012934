"""The oracle itself: its fma against rational arithmetic, its sums against literal loops, its operations against mathematics."""

from __future__ import annotations

import ast
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from . import oracle
from .oracle import arithmetic, batch_norm, convolution, linear, losses, masks, optimizers, pooling
from .support import same_bits

SMALLEST = Fraction(1, 2**149)
LARGEST = Fraction((2**24 - 1) * 2**104)


def rounded(value: Fraction) -> float:
    """A nonzero rational rounded to the nearest float32, ties to even."""
    size = abs(value)
    exponent = max(math.frexp(size.numerator / size.denominator)[1] if size > Fraction(1, 2**1000) else -1000, -125)
    while size >= Fraction(2) ** exponent:
        exponent += 1
    while exponent > -125 and size < Fraction(2) ** (exponent - 1):
        exponent -= 1
    unit = max(Fraction(2) ** (exponent - 24), SMALLEST)
    nearest = round(size / unit) * unit  # round() on a Fraction ties to even
    return math.copysign(float(nearest) if nearest <= LARGEST else math.inf, value)


def exact_fma(a: float, b: float, c: float) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c  # infinities and NaN need no rounding
    value = Fraction(a) * Fraction(b) + Fraction(c)
    if value:
        return rounded(value)
    return math.copysign(0.0, a) * math.copysign(1.0, b) + c if c == 0 else 0.0


FLOATS = st.floats(width=32) | st.integers(0, 2**32 - 1).map(lambda bits: float(np.uint32(bits).view(np.float32)))


def check_fma(a: float, b: float, c: float) -> None:
    same_bits(arithmetic.fma(a, b, c), np.float32(exact_fma(a, b, c)))


@given(FLOATS, FLOATS, FLOATS)
def test_fma_of_any_floats(a, b, c):
    check_fma(a, b, c)


@given(FLOATS, FLOATS, st.integers(-3, 3), st.sampled_from([0, 23, 24, 25, 26, 48]))
def test_fma_near_cancellation_and_ties(a, b, ulps, shift):
    with np.errstate(all="ignore"):
        product = np.float32(a) * np.float32(b) * np.float32(2.0**shift)
    c = np.uint32((int((-product).view(np.uint32)) + ulps) % 2**32).view(np.float32)
    check_fma(a, b, float(c))


@given(st.integers(1, 2**24 - 1), st.integers(1, 2**24 - 1), st.integers(-2, 2), st.integers(-149, -120))
def test_fma_where_the_result_is_subnormal(a, b, c, exponent):
    check_fma(a * 2.0**-24, b * 2.0**exponent / 2**20 if exponent > -129 else b % 16 * 2.0**exponent, c * 2.0**-149)


@pytest.mark.parametrize(
    ("a", "b", "c", "result"),
    [
        (1 + 2.0**-12, 1 + 2.0**-12, 0.0, 1 + 2.0**-11),  # a tie, to even
        (1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60, 1 + 2.0**-11 + 2.0**-23),  # float64 alone would see the tie
        (1 + 2.0**-12, 1 + 2.0**-12, -(2.0**-60), 1 + 2.0**-11),
        (2.0**-75, 2.0**-75, 0.0, 0.0),
        (-(2.0**-75), 2.0**-75, 0.0, -0.0),
        (2.0**-75, 2.0**-75, 2.0**-149, 2.0**-148),  # a tie among subnormals, to even
        (2.0**-75, 2.0**-75, -(2.0**-149), -0.0),
        (2.0**127, 2.0, -(2.0**127), 2.0**127),  # the product alone overflows
        (float(LARGEST), 1.0, 2.0**102, float(LARGEST)),
        (float(LARGEST), 1.0, 2.0**103, math.inf),
        (1.0, 1.0, -1.0, 0.0),
        (-1.0, 0.0, -0.0, -0.0),
        (-1.0, 0.0, 0.0, 0.0),
        (math.inf, 0.0, 1.0, math.nan),
        (math.inf, 1.0, -math.inf, math.nan),
    ],
)
def test_fma_by_hand(a, b, c, result):
    same_bits(arithmetic.fma(a, b, c), np.float32(result))
    same_bits(np.float32(exact_fma(a, b, c)), np.float32(result))


def test_lanes_and_tree_by_hand():
    big = np.float32(2**24)
    values = np.zeros(40, np.float32)
    values[[0, 1, 32]] = big, 1, 1  # lane 0 absorbs one 1; lane 1 joins last and is absorbed too
    assert arithmetic.lanes(values) == big
    values[33] = 1  # lane 1 holds 2 before it joins
    assert arithmetic.lanes(values) == big + 2
    same_bits(arithmetic.lanes(np.full(33, -0.0, np.float32)), np.float32(0))
    same_bits(arithmetic.lanes(np.empty((2, 0), np.float32)), np.zeros(2, np.float32))
    assert arithmetic.tree(["a", "b", "c", "d", "e"], lambda a, b: f"({a}{b})") == "(((ab)(cd))e)"
    assert arithmetic.tree(list("abcdefg"), lambda a, b: f"({a}{b})") == "(((ab)(cd))((ef)g))"
    same_bits(arithmetic.tree([np.float32(-0.0)]), np.float32(-0.0))
    same_bits(arithmetic.tree([]), np.float32(0))
    assert [list(b) for b in arithmetic.blocks(17)] == [list(range(8)), list(range(8, 16)), [16]]


def test_power_is_exact_where_it_can_be():
    assert arithmetic.power(0.5, 10) == 2.0**-10
    assert arithmetic.power(3.0, 5) == 243.0
    assert arithmetic.power(0.9, 0) == 1.0


WHOLE = np.random.default_rng(0)


def whole(*shape: int) -> np.ndarray:
    """Small whole numbers: every sum is exact, whatever its order."""
    return WHOLE.integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("stride", "padding"), [((1, 1), (0, 0)), ((1, 1), (1, 2)), ((2, 1), (1, 0)), ((3, 2), (2, 1)), ((4, 4), (0, 1))]
)
def test_convolution_is_the_mathematical_one(stride, padding):
    x, w, b = whole(10, 2, 7, 6), whole(3, 2, 3, 2), whole(3)
    y = convolution.forward(x, w, b, stride, padding)
    dy = whole(*y.shape)
    dx = convolution.input_gradient(dy, w, x.shape[2:], stride, padding)
    dw = convolution.weight_gradient(dy, x, w.shape[2:], stride, padding)
    expected_y = np.zeros(y.shape) + b[:, None, None]
    expected_dx, expected_dw = np.zeros(x.shape), np.zeros(w.shape)
    for i, j, ky, kx in np.ndindex(*y.shape[2:], *w.shape[2:]):
        row, column = i * stride[0] + ky - padding[0], j * stride[1] + kx - padding[1]
        if 0 <= row < 7 and 0 <= column < 6:
            expected_y[:, :, i, j] += x[:, :, row, column] @ w[:, :, ky, kx].T
            expected_dx[:, :, row, column] += dy[:, :, i, j] @ w[:, :, ky, kx]
            expected_dw[:, :, ky, kx] += dy[:, :, i, j].T @ x[:, :, row, column]
    np.testing.assert_array_equal(y, expected_y)
    np.testing.assert_array_equal(dx, expected_dx)
    np.testing.assert_array_equal(dw, expected_dw)
    np.testing.assert_array_equal(convolution.bias_gradient(dy), dy.sum((0, 2, 3)))


@given(st.data())
def test_input_gradient_takes_exactly_the_listed_terms_in_order(data):
    """Against the page read literally: all integers i, j in question, one pixel at a time."""
    size, kernel, stride, padding = (data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4))) for _ in range(4))
    padding = padding[0] - 1, padding[1] - 1
    out = convolution.output_size(size, kernel, stride, padding)
    if min(out) < 1:
        return
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    w = rng.standard_normal((2, 1, *kernel)).astype(np.float32)
    w[rng.random(w.shape) < 0.1] = np.inf
    dy = rng.standard_normal((1, 2, *out)).astype(np.float32)
    expected = np.zeros((1, 1, *size), np.float32)
    for y, x in np.ndindex(*size):
        acc = np.float32(0)
        for o in range(2):
            for i in range(-20, 20):
                for j in range(-20, 20):
                    ky, kx = y + padding[0] - i * stride[0], x + padding[1] - j * stride[1]
                    if 0 <= ky < kernel[0] and 0 <= kx < kernel[1]:
                        inside = 0 <= i < out[0] and 0 <= j < out[1]
                        acc = arithmetic.fma(w[o, 0, ky, kx], dy[0, o, i, j] if inside else 0.0, acc)
        expected[0, 0, y, x] = acc
    same_bits(convolution.input_gradient(dy, w, size, stride, padding), expected)


def test_linear_is_the_mathematical_one():
    x, w, b, dy = whole(11, 5), whole(4, 5), whole(4), whole(11, 4)
    np.testing.assert_array_equal(linear.forward(x, w, b), x @ w.T + b)
    np.testing.assert_array_equal(linear.input_gradient(dy, w), dy @ w)
    np.testing.assert_array_equal(linear.weight_gradient(dy, x), dy.T @ x)
    np.testing.assert_array_equal(linear.bias_gradient(dy), dy.sum(0))


def test_batch_norm_is_close_to_float64():
    rng = np.random.default_rng(1)
    x, dy = rng.normal(3, 2, (5, 3, 35)), rng.standard_normal((5, 3, 35))
    gamma, beta = rng.standard_normal(3), rng.standard_normal(3)
    mean, variance = x.mean((0, 2)), x.var((0, 2))
    xhat = (x - mean[:, None]) / np.sqrt(variance + 1e-5)[:, None]
    s1, s2 = dy.sum((0, 2)), (dy * xhat).sum((0, 2))
    dx = (gamma / np.sqrt(variance + 1e-5))[:, None] * (dy - s1[:, None] / 175 - xhat * s2[:, None] / 175)
    singles = [np.float32(a) for a in (x, dy, gamma, beta)]
    m, m2 = batch_norm.batch_moments(singles[0])
    inv = batch_norm.inverse_deviation(m2 / np.float32(175), 1e-5)
    close = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(m, mean, **close)
    np.testing.assert_allclose(m2 / 175, variance, **close)
    np.testing.assert_allclose(
        batch_norm.forward(singles[0], m, inv, *singles[2:]), gamma[:, None] * xhat + beta[:, None], **close
    )
    for result, expected in zip(batch_norm.backward(singles[1], singles[0], m, inv, singles[2]), (dx, s2, s1), strict=False):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_a_constant_channel_has_no_variance():
    x = np.broadcast_to(np.array([0.1, 123456.7, -3.3333333e9, 7e9], np.float32)[None, :, None], (2, 4, 63))
    mean, m2 = batch_norm.batch_moments(x)
    same_bits(mean, x[0, :, 0])
    same_bits(m2, np.zeros(4, np.float32))


def test_max_pool_by_hand():
    row = np.array([4, 6, 6.5, 1, 0, 2], np.float32).reshape(1, 1, 1, 6)
    ones = np.ones((1, 1, 1, 4), np.float32)
    same_bits(pooling.max_backward(ones, row, (1, 3), (1, 1), (0, 0)).ravel(), np.float32([0, 0, 3, 0, 0, 1]))
    grid = np.arange(25, dtype=np.float32)
    grid[8] = 50
    grid = grid.reshape(1, 1, 5, 5)
    same_bits(
        pooling.max_forward(grid, (3, 3), (2, 2), (1, 1))[0, 0], np.float32([[6, 50, 50], [16, 50, 50], [21, 23, 24]])
    )
    expected = np.float32([[0, 0, 0, 0, 0], [0, 1, 0, 4, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 1, 0, 1, 1]])
    same_bits(pooling.max_backward(np.ones((1, 1, 3, 3), np.float32), grid, (3, 3), (2, 2), (1, 1))[0, 0], expected)


class Float64Mathematics:
    exp = staticmethod(lambda x: np.exp(x.astype(np.float64)).astype(np.float32))
    log = staticmethod(lambda x: np.log(x.astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize(
    ("logits", "label", "loss", "gradient"),
    [
        ([3e8, 3e8, 3e8], 2, math.log(3), [1 / 3, 1 / 3, -2 / 3]),
        ([1e4, 0, -1e4], 0, 0.0, [0, 0, 0]),
        ([1e4, 0, -1e4], 2, 20000.0, [1, 0, -1]),
        ([-1e4, -1e4], 0, math.log(2), [-0.5, 0.5]),
        ([0, -math.inf], 0, 0.0, [0, 0]),
        ([0, -math.inf], 1, math.inf, [1, -1]),
    ],
)
def test_cross_entropy_by_hand(logits, label, loss, gradient):
    target = np.eye(len(logits), dtype=np.float32)[None, label]
    result = losses.softmax_cross_entropy(np.float32([logits]), target, Float64Mathematics)
    np.testing.assert_allclose(result[0], loss, rtol=1e-6)
    np.testing.assert_allclose(result[1][0], gradient, rtol=1e-6)


def test_mse_by_hand():
    loss, gradient = losses.mse(np.float32([[1, 2], [3, 4]]), np.float32([[1, 0], [0, 4]]))
    assert loss == 13 / 4
    np.testing.assert_array_equal(gradient, np.float32([[0, 1], [1.5, 0]]))


def test_adam_by_hand():
    w = m = v = np.float32(0)
    for t, expected in enumerate([-0.05, -0.1, -0.15], 1):
        w, m, v = optimizers.adam(w, np.float32(1e-8), m, v, t, 0.1, 0.9, 0.999, 1e-8)
        assert math.isclose(w, expected, rel_tol=1e-5)


@pytest.mark.parametrize(
    ("counter", "key", "result"),
    [  # the known answers published with the generator
        ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_known_answers(counter, key, result):
    assert masks.philox(counter, key) == result


def test_the_oracle_imports_nothing_from_the_package():
    for path in Path(oracle.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            else:
                continue
            assert {name.split(".")[0] for name in names} <= {
                "__future__",
                "collections",
                "functools",
                "math",
                "numpy",
                "typing",
            }
