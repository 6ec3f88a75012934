"""The loss kernels against the oracle, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from .oracle import losses
from .support import SPECIALS, check, elementary, floats

SHAPES = [
    (1, 1),
    (1, 7),
    (3, 1),
    (5, 10),
    (7, 31),
    (8, 32),
    (9, 33),
    (17, 64),
    (33, 65),
    (2, 1000),
    (513, 100),
    (0, 5),
    (3, 0),
]


def targets(rng: np.random.Generator, rows: int, classes: int, kind: str) -> np.ndarray:
    if kind == "labels" and classes:
        return np.eye(classes, dtype=np.float32)[rng.integers(0, classes, rows)]
    t = rng.random((rows, classes))
    return (t / t.sum(1, keepdims=True)).astype(np.float32)


def check_cross_entropy(z, t, **options):
    check(losses.softmax_cross_entropy(z, t, elementary()), "losses", "softmax_cross_entropy", z, t, **options)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["labels", "probabilities"])
def test_cross_entropy(shape, kind):
    rng = np.random.default_rng(shape[1])
    check_cross_entropy(floats(rng, *shape) * np.float32(5), targets(rng, *shape, kind))


@pytest.mark.parametrize("kind", ["labels", "probabilities"])
@pytest.mark.parametrize("rare", [0.02, 0.3])
def test_cross_entropy_of_special_values(kind, rare):
    rng = np.random.default_rng(1)
    for shape in ((40, 3), (20, 21), (9, 70)):
        t = targets(rng, *shape, kind)
        check_cross_entropy(floats(rng, *shape, rare=rare), t, workers=(1, 2))
        check_cross_entropy(
            floats(rng, *shape, rare=rare),
            np.where(rng.random(shape) < rare / 5, rng.choice(SPECIALS, shape), t),
            workers=(1, 2),
        )


@pytest.mark.parametrize(
    ("logits", "label"),
    [([3e8, 3e8, 3e8], 2), ([1e4, 0, -1e4], 0), ([1e4, 0, -1e4], 2), ([-1e4, -1e4], 0), ([0, -np.inf], 0), ([0, -np.inf], 1),
     ([-np.inf, -np.inf], 0), ([np.inf, 0], 1), ([np.nan, 0], 1), ([0.0, -0.0], 0), ([-0.0], 0)],
    ids=str,
)  # fmt: skip
def test_cross_entropy_of_extreme_rows(logits, label):
    check_cross_entropy(np.array([logits], np.float32), np.eye(len(logits), dtype=np.float32)[None, label])


def test_cross_entropy_of_very_many_rows():
    rows = 90_000
    target = np.eye(10, dtype=np.float32)[np.arange(rows) % 10]
    check_cross_entropy(np.zeros((rows, 10), np.float32), target, workers=(3, 2))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rare", [0.0, 0.01])
def test_mse(shape, rare):
    rng = np.random.default_rng(shape[1])
    p, t = floats(rng, *shape, rare=rare), floats(rng, *shape, rare=rare)
    check(losses.mse(p, t), "losses", "mse", p, t)


def test_mse_of_the_largest_differences():
    p, t = np.array([[3e38, 1e-45]], np.float32), np.array([[0.0, 0.0]], np.float32)
    check(losses.mse(p, t), "losses", "mse", p, t)
    assert np.isfinite(losses.mse(p, t)[1]).all()


@given(st.integers(1, 40), st.integers(1, 90), st.sampled_from([0.0, 0.02, 0.3]), st.sampled_from([1, 2, 3]))
def test_any_shape(rows, columns, rare, workers):
    rng = np.random.default_rng(rows)
    z, t = floats(rng, rows, columns, rare=rare), floats(rng, rows, columns)
    check_cross_entropy(z, t, workers=(workers,))
    check(losses.mse(z, t), "losses", "mse", z, t, workers=(workers,))
