"""Batch normalisation over [N, C, P], P the elements of a plane."""

from __future__ import annotations

from dataclasses import dataclass

from stelliferous_xp.arrays import Array, Namespace
from stelliferous_xp.ops.portable.blocks import map_rows, reduce_rows


@dataclass(frozen=True)
class Moments:
    """Of `count` values per channel: their mean, and the sum of squares about it."""

    count: int
    mean: Array
    squares: Array


def batch_moments(xp: Namespace, x: Array) -> tuple[Array, Array]:
    moments = reduce_rows(lambda x: _moments(xp, x), _combine, x)
    return moments.mean, moments.squares / moments.count


def _moments(xp: Namespace, x: Array) -> Moments:
    # Shifted by the first value, so that a constant channel of any magnitude has exactly its own mean.
    shift = x[0, :, 0]
    mean = shift + xp.mean(x - shift[:, None], axis=(0, 2))
    deviation = x - mean[:, None]
    return Moments(x.shape[0] * x.shape[2], mean, xp.sum(deviation * deviation, axis=(0, 2)))


def _combine(left: Moments, right: Moments) -> Moments:
    """Chan, Golub and LeVeque (1983)."""
    count = left.count + right.count
    share = right.count / count
    delta = right.mean - left.mean
    return Moments(count, left.mean + delta * share,
                   left.squares + right.squares + delta * delta * (left.count * share))


def batch_norm(xp: Namespace, x: Array, mean: Array, variance: Array, gamma: Array, beta: Array,
               epsilon: float) -> Array:
    inverse = 1.0 / xp.sqrt(variance + epsilon)

    def rows(x: Array) -> Array:
        y = x - mean[:, None]
        y *= inverse[:, None]
        y *= gamma[:, None]
        y += beta[:, None]
        return y

    return map_rows(rows, x, shape=x.shape)


def batch_norm_gradient(xp: Namespace, dy: Array, x: Array, mean: Array, variance: Array, gamma: Array,
                        epsilon: float) -> tuple[Array, Array, Array]:
    inverse = 1.0 / xp.sqrt(variance + epsilon)

    def normalised(x: Array) -> Array:
        xhat = x - mean[:, None]
        xhat *= inverse[:, None]
        return xhat

    def sums(dy: Array, x: Array) -> Array:
        return xp.stack([xp.sum(dy, axis=(0, 2)), xp.sum(dy * normalised(x), axis=(0, 2))])

    totals = reduce_rows(sums, lambda left, right: left + right, dy, x)
    dbeta, dgamma = totals[0, :], totals[1, :]
    count = max(1, x.shape[0] * x.shape[2])

    def rows(dy: Array, x: Array) -> Array:
        dx = normalised(x)
        dx *= (dgamma / -count)[:, None]
        dx += dy
        dx -= (dbeta / count)[:, None]
        dx *= (gamma * inverse)[:, None]
        return dx

    return map_rows(rows, dy, x, shape=x.shape), dgamma, dbeta
