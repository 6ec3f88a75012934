"""The linear kernels against the oracle, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from .oracle import linear
from .support import FINITE_SPECIALS, SPECIALS, check, floats


def check_all(seed, rows, inputs, outputs, rare=0.0, among=SPECIALS, **options):
    rng = np.random.default_rng(seed)
    x, w, b, dy = (
        floats(rng, *shape, rare=rare, among=among)
        for shape in ((rows, inputs), (outputs, inputs), (outputs,), (rows, outputs))
    )
    check(linear.forward(x, w, b), "linear", "linear_forward", x, w, b, **options)
    check(linear.forward(x, w, None), "linear", "linear_forward", x, w, None, **options)
    check(linear.input_gradient(dy, w), "linear", "linear_input_gradient", dy, w, **options)
    check(linear.weight_gradient(dy, x), "linear", "linear_weight_gradient", dy, x, **options)
    check(linear.bias_gradient(dy), "linear", "linear_bias_gradient", dy, **options)


@pytest.mark.parametrize("rows", [0, 1, 3, 8, 9, 17, 40])
@pytest.mark.parametrize(("inputs", "outputs"), [(0, 2), (2, 0), (1, 1), (7, 5), (16, 33), (31, 8), (65, 10)], ids=str)
def test_odd_shapes(rows, inputs, outputs):
    check_all(rows, rows, inputs, outputs, workers=(3, 2))


@pytest.mark.parametrize(
    ("rows", "inputs", "outputs"),
    [(64, 200, 100), (130, 96, 257), (3, 700, 300), (5, 64, 48), (500, 9, 1040), (500, 1040, 9)],
    ids=str,
)
def test_every_worker(rows, inputs, outputs):
    check_all(1, rows, inputs, outputs)


@pytest.mark.parametrize(
    ("rare", "among"), [(0.005, SPECIALS), (0.1, SPECIALS), (0.6, FINITE_SPECIALS)], ids=["few", "many", "finite"]
)
def test_special_values(rare, among):
    check_all(2, 19, 37, 21, rare, among, workers=(1, 2))


def test_underflow_keeps_its_sign_without_a_bias():
    x, w = np.full((9, 40), 1e-30, np.float32), np.full((19, 40), -1e-30, np.float32)
    assert np.signbit(linear.forward(x, w, None)).all()
    check(linear.forward(x, w, None), "linear", "linear_forward", x, w, None)
    dy = np.full((9, 19), -1e-30, np.float32)
    check(linear.weight_gradient(dy, x), "linear", "linear_weight_gradient", dy, x)


@given(
    st.integers(0, 30),
    st.integers(1, 50),
    st.integers(1, 50),
    st.sampled_from([0.0, 0.01, 0.3]),
    st.sampled_from([1, 2, 3, 4, 7]),
)
def test_any_shape(rows, inputs, outputs, rare, workers):
    check_all(3, rows, inputs, outputs, rare, workers=(workers,))
