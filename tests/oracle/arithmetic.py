"""The words of docs/order.md: fma, chain, lanes, tree, blocks. Arrays hold many outputs at once; each sum is a plain loop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import numpy as np

ZERO = np.float32(0)
ONE = np.float32(1)
BLOCK = 8

quiet = functools.partial(np.errstate, all="ignore")


def float32(value: object) -> np.ndarray:
    """`value` rounded once to float32: f(n) and f64(...) of the page."""
    with quiet():
        return np.asarray(value, np.float64).astype(np.float32)


def fma(a: object, b: object, c: object) -> np.ndarray:
    """a*b + c rounded once to float32."""
    a, b, c = (np.asarray(v, np.float32).astype(np.float64) for v in (a, b, c))
    with quiet():
        product = a * b  # exact: 48 bits at most
        total = np.asarray(product + c)
        # Rounding this sum to float32 can differ from rounding the exact one only if it lies half way between two
        # float32 numbers (or is one: no harm), so has at most 25 significant bits, the last 28 of its 53 being 0.
        doubtful = (total.view(np.int64) & 0xFFFFFFF) == 0
        if doubtful.any():
            product, c = (np.broadcast_to(v, total.shape)[doubtful] for v in (product, c))
            total[doubtful] = _sum_rounded_to_odd(product, c)
        return total.astype(np.float32)


def _sum_rounded_to_odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of the two float64 around an inexact a + b the one with an odd significand. It lies on the exact sum's side of every
    number of 52 bits or fewer, so that rounding it to float32 rounds the exact sum."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)  # exact (two-sum)
    even = (total.view(np.int64) & 1) == 0
    move = even & (error != 0) & np.isfinite(total)
    outward = (error > 0) == (total > 0)
    return (total.view(np.int64) + np.where(move, np.where(outward, 1, -1), 0)).view(np.float64)


def chain(terms: Iterable[tuple[object, object]], shape: tuple[int, ...]) -> np.ndarray:
    """acc = +0; acc = fma(a, b, acc) for each term."""
    acc = np.zeros(shape, np.float32)
    for a, b in terms:
        acc = fma(a, b, acc)
    return acc


def _lanes(values: list, shape: tuple[int, ...], step: Callable) -> np.ndarray:
    lane = [np.zeros(shape, np.float32) for _ in range(32)]
    with quiet():
        for k, value in enumerate(values):
            lane[k % 32] = step(value, lane[k % 32])
        for h in (16, 8, 4, 2, 1):
            for i in range(h):
                lane[i] = lane[i] + lane[i + h]
    return lane[0]


def lanes(values: np.ndarray) -> np.ndarray:
    """The sum over the last axis in 32 lanes."""
    columns = [values[..., k] for k in range(values.shape[-1])]
    return _lanes(columns, values.shape[:-1], lambda v, acc: acc + v)


def lanes_fma(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sum of products over the last axis in 32 lanes."""
    a, b = np.broadcast_arrays(a, b)
    columns = [(a[..., k], b[..., k]) for k in range(a.shape[-1])]
    return _lanes(columns, a.shape[:-1], lambda v, acc: fma(v[0], v[1], acc))


def tree(values: Iterable, combine: Callable = np.add, empty: object = ZERO) -> object:
    """Neighbours combined until one is left; an odd last one moves up."""
    values = list(values)
    if not values:
        return empty
    with quiet():
        while len(values) > 1:
            pairs = [combine(values[i], values[i + 1]) for i in range(0, len(values) - 1, 2)]
            values = pairs + values[len(values) - len(values) % 2 :]
    return values[0]


def blocks(count: int) -> list[range]:
    """Runs of 8 from the start of the batch."""
    return [range(n, min(n + BLOCK, count)) for n in range(0, count, BLOCK)]


def power(base: float, exponent: int) -> float:
    """base**exponent in float64 by squaring, the same on every platform."""
    result = 1.0
    while exponent > 0:
        if exponent % 2:
            result = result * base
        base = base * base
        exponent //= 2
    return result
