"""The elementary functions: within 1 ulp of float64 mathematics on a large sample, exact at special values, equal on every instruction set."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from .support import family, isas, same_bits

with_math = {
    name: np.frompyfunc(function, 1, 1)
    for name, function in (("sin", math.sin), ("cos", math.cos), ("erfc", math.erfc))
}

MATHEMATICS = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sigmoid": lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))),
    "tanh": np.tanh,
    "sin": lambda x: np.where(np.isfinite(x), with_math["sin"](np.where(np.isfinite(x), x, 0)), np.nan).astype(
        np.float64
    ),
    "cos": lambda x: np.where(np.isfinite(x), with_math["cos"](np.where(np.isfinite(x), x, 0)), np.nan).astype(
        np.float64
    ),
    "normal_cdf": lambda x: with_math["erfc"](-x * math.sqrt(0.5)).astype(np.float64) / 2,
    "normal_density": lambda x: np.exp(-x * x / 2) / math.sqrt(2 * math.pi),
}
every_function = pytest.mark.parametrize("name", MATHEMATICS)

INF, NAN = math.inf, math.nan
SPECIAL_RESULTS = {
    "exp": [(-INF, 0.0), (INF, INF), (0.0, 1.0), (-0.0, 1.0), (-200.0, 0.0), (89.0, INF)],
    "expm1": [(-INF, -1.0), (INF, INF), (0.0, 0.0), (-0.0, -0.0), (1e-45, 1e-45), (-1e-45, -1e-45)],
    "log": [(-INF, NAN), (INF, INF), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-1e-45, NAN)],
    "log1p": [
        (-INF, NAN),
        (INF, INF),
        (0.0, 0.0),
        (-0.0, -0.0),
        (-1.0, -INF),
        (1e-45, 1e-45),
        (-1e-45, -1e-45),
        (-1.0000001, NAN),
    ],
    "sigmoid": [(-INF, 0.0), (INF, 1.0), (0.0, 0.5), (-0.0, 0.5)],
    "tanh": [(-INF, -1.0), (INF, 1.0), (0.0, 0.0), (-0.0, -0.0), (1e-45, 1e-45), (-1e-45, -1e-45)],
    "sin": [(-INF, NAN), (INF, NAN), (0.0, 0.0), (-0.0, -0.0), (1e-45, 1e-45), (-1e-45, -1e-45)],
    "cos": [(-INF, NAN), (INF, NAN), (0.0, 1.0), (-0.0, 1.0)],
    "normal_cdf": [(-INF, 0.0), (INF, 1.0), (0.0, 0.5), (-0.0, 0.5)],
    "normal_density": [(-INF, 0.0), (INF, 0.0)],
}


def apply(name: str, x: np.ndarray, isa: str, workers: int = 1) -> np.ndarray:
    return family("elementary", isa).elementary(x, name, workers)


def place(x: np.ndarray) -> np.ndarray:
    """Consecutive float32 numbers have consecutive places; both zeros share one."""
    bits = x.view(np.int32).astype(np.int64)
    return np.where(bits >= 0, bits, -(bits & 0x7FFFFFFF))


def check_against_mathematics(name: str, x: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        expected = MATHEMATICS[name](x.astype(np.float64)).astype(np.float32)
    results = [apply(name, x, isa) for isa in isas()]
    for result in results:
        same_bits(result, results[0])
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(results[0]), nan)
    assert np.abs(place(results[0]) - place(expected))[~nan].max(initial=0) <= 1


@every_function
def test_a_spread_of_all_floats(name):
    """Every 65,521st bit pattern from several starts: all signs and exponents, many significands."""
    for start in (0, 1, 12345):
        check_against_mathematics(name, np.arange(start, 2**32, 65521, np.uint64).astype(np.uint32).view(np.float32))


@every_function
def test_where_most_is_going_on(name):
    rng = np.random.default_rng(0)
    x = np.concatenate([scale * rng.standard_normal(30_000) for scale in (1e-4, 0.1, 1, 10, 60)]).astype(np.float32)
    check_against_mathematics(name, x)
    around = np.array(
        [-104, -103.3, -88.8, -87.3, -14.5, -5, -1, -0.75, 0.5, 0.625, 1, 1.5, 10, 14.5, 17, 88.7, 2.0**30], np.float32
    )
    steps = np.arange(-500, 501, dtype=np.int32)
    check_against_mathematics(name, (around.view(np.int32)[:, None] + steps).ravel().view(np.float32))


@every_function
@given(st.integers(0, 2**32 - 1))
def test_any_float(name, bits):
    check_against_mathematics(name, np.array([bits], np.uint32).view(np.float32))


@every_function
def test_special_values(name):
    arguments, expected = zip(*SPECIAL_RESULTS[name], (NAN, NAN), strict=False)
    for isa in isas():
        same_bits(apply(name, np.array(arguments, np.float32), isa), np.array(expected, np.float32))


@every_function
@pytest.mark.parametrize("n", [0, 1, 3, 15, 17, 33, 4095, 70_001])
def test_place_and_workers_do_not_matter(name, n):
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    for isa in isas():
        whole = apply(name, x, isa)
        for workers in (2, 3, 7):
            same_bits(apply(name, x, isa, workers), whole)
        for shift in (1, 5):
            same_bits(apply(name, x[shift:].copy(), isa), whole[shift:])
