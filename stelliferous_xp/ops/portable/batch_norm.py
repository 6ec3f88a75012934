"""Batch normalisation over [N, C, P], P the elements of a plane, with the activation that follows it."""

from __future__ import annotations

from dataclasses import dataclass

from stelliferous_xp.arrays import Array, array_namespace
from stelliferous_xp.ops.activation_values import Activation
from stelliferous_xp.ops.portable.activation import activated, times_derivative
from stelliferous_xp.ops.portable.blocks import map_rows, reduce_rows


@dataclass(frozen=True)
class Moments:
    """Of `count` values per channel: their mean, and the sum of squares about it."""

    count: int
    mean: Array
    squares: Array


def batch_moments(x: Array) -> tuple[Array, Array]:
    moments = reduce_rows(_moments, _combine, x)
    return moments.mean, moments.squares / moments.count


def _moments(x: Array) -> Moments:
    xp = array_namespace(x)
    # Shifted by the first value, so that a constant channel of any magnitude has exactly its own mean.
    shift = x[0, :, 0]
    shifted = x - shift[:, None]
    mean = xp.mean(shifted, axis=(0, 2))
    deviation = shifted - mean[:, None]
    return Moments(x.shape[0] * x.shape[2], shift + mean, xp.sum(deviation * deviation, axis=(0, 2)))


def _combine(left: Moments, right: Moments) -> Moments:
    """Chan, Golub and LeVeque (1983)."""
    count = left.count + right.count
    share = right.count / count
    delta = right.mean - left.mean
    return Moments(count, left.mean + delta * share,
                   left.squares + right.squares + delta * delta * (left.count * share))


def batch_norm(x: Array, mean: Array, variance: Array, gamma: Array, beta: Array, epsilon: float,
               activation: Activation) -> Array:
    inverse = _inverse_deviation(variance, epsilon)
    return map_rows(lambda x: activated(_scaled(_normalised(x, mean, inverse), gamma, beta), activation),
                    x, shape=x.shape)


def batch_norm_gradient(dy: Array, x: Array, mean: Array, variance: Array, gamma: Array, beta: Array,
                        epsilon: float, activation: Activation) -> tuple[Array, Array, Array]:
    xp = array_namespace(x)
    inverse = _inverse_deviation(variance, epsilon)

    def through_activation(dy: Array, xhat: Array) -> Array:
        if activation.kept == "nothing":
            return dy
        z = _scaled(xhat, gamma, beta)
        return times_derivative(dy, activated(z, activation) if activation.kept == "output" else z, activation)

    def sums(dy: Array, x: Array) -> Array:
        xhat = _normalised(x, mean, inverse)
        dz = through_activation(dy, xhat)
        return xp.stack([xp.sum(dz, axis=(0, 2)), xp.sum(dz * xhat, axis=(0, 2))])

    totals = reduce_rows(sums, lambda left, right: left + right, dy, x)
    dbeta, dgamma = totals[0, :], totals[1, :]
    count = max(1, x.shape[0] * x.shape[2])

    def rows(dy: Array, x: Array) -> Array:
        dx = _normalised(x, mean, inverse)
        dz = through_activation(dy, dx)
        dx *= (dgamma / -count)[:, None]
        dx += dz
        dx -= (dbeta / count)[:, None]
        dx *= (gamma * inverse)[:, None]
        return dx

    return map_rows(rows, dy, x, shape=x.shape), dgamma, dbeta


def _inverse_deviation(variance: Array, epsilon: float) -> Array:
    return 1.0 / array_namespace(variance).sqrt(variance + epsilon)


def _normalised(x: Array, mean: Array, inverse: Array) -> Array:
    xhat = x - mean[:, None]
    xhat *= inverse[:, None]
    return xhat


def _scaled(xhat: Array, gamma: Array, beta: Array) -> Array:
    y = xhat * gamma[:, None]
    y += beta[:, None]
    return y
