"""The activation kernels against the oracle, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from .oracle import activation
from .support import SPECIALS, check, elementary, floats, same_bits

ACTIVATIONS = [
    ("identity", 0.0), ("relu", 0.0), ("leaky_relu", 0.01), ("leaky_relu", 0.0), ("elu", 1.0), ("elu", 0.3), ("sigmoid", 0.0),
    ("tanh", 0.0), ("softplus", 0.0), ("silu", 0.0), ("gelu", 0.0), ("sinusoid", 0.0),
]  # fmt: skip
every_activation = pytest.mark.parametrize(("name", "alpha"), ACTIVATIONS)

EDGES = np.array(
    [s * v for v in (0.0, 1e-45, 1e-38, 1e-8, 0.5, 1.2784645, 5.5, 14.4, 16.7, 88.7, 104, 127.9, 128, 128.1, 1e4, 3e9, 3.4e38, np.inf) for s in (1, -1)]
    + [np.nan],
    np.float32,
)  # fmt: skip


def check_both(x: np.ndarray, dy: np.ndarray, name: str, alpha: float, **options) -> None:
    y = activation.forward(x, name, alpha, elementary())
    check(y, "activation", "activation_forward", x, name, alpha, **options)
    saved = x if name in activation.READS_INPUT else y
    dx = activation.backward(dy, saved, name, alpha, elementary())
    check(dx, "activation", "activation_backward", dy, saved, name, alpha, **options)


@every_activation
@pytest.mark.parametrize("n", [0, 1, 2, 7, 15, 16, 17, 31, 33, 67])
def test_every_length(name, alpha, n):
    rng = np.random.default_rng(n)
    check_both(floats(rng, n, rare=0.3), floats(rng, n, rare=0.3), name, alpha, workers=(1, 2))


@every_activation
def test_every_worker(name, alpha):
    rng = np.random.default_rng(0)
    x = np.concatenate([floats(rng, 100_002) * np.float32(10.0**e) for e in (-3, 0, 1)] + [SPECIALS])
    check_both(x, floats(rng, len(x), rare=0.01), name, alpha)


@every_activation
def test_edges_meet_every_gradient(name, alpha):
    x, dy = (a.ravel() for a in np.meshgrid(EDGES, np.concatenate([SPECIALS, EDGES])))
    check_both(x, dy, name, alpha, workers=(1, 2))


@every_activation
def test_the_limits_are_not_nan(name, alpha):
    f = elementary()
    ends = np.array([-np.inf, np.inf], np.float32)
    one = np.ones(2, np.float32)
    y = activation.forward(ends, name, alpha, f)
    dx = activation.backward(one, ends if name in activation.READS_INPUT else y, name, alpha, f)
    if name == "sinusoid" or (name, alpha) == ("leaky_relu", 0.0):
        return  # sin has no limit; 0 * -inf is NaN
    assert not np.isnan(y).any()
    assert not np.isnan(dx).any()
    if name in ("silu", "gelu"):
        same_bits(y, np.array([-0.0, np.inf], np.float32))
        np.testing.assert_array_equal(dx, [0, 1])


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40), st.floats(width=32))
def test_any_bits(bits, gradient):
    x = np.array(bits, np.uint32).view(np.float32)
    for name, alpha in ACTIVATIONS:
        check_both(x, np.full(len(x), gradient, np.float32), name, alpha, workers=(1,))
