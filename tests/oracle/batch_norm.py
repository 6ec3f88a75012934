"""Batch norm of docs/order.md on x [N, C, P]."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arithmetic import ONE, float32, fma, lanes, lanes_fma, quiet, tree


class Moments(NamedTuple):
    count: int
    mean: np.ndarray
    m2: np.ndarray


def plane_moments(plane: np.ndarray) -> Moments:
    """Of one image's planes [C, P]."""
    count = plane.shape[-1]
    with quiet():
        mean = plane[:, 0] + lanes(plane - plane[:, :1]) / float32(count)
        d = plane - mean[:, None]
    return Moments(count, mean, lanes_fma(d, d))


def combined(a: Moments, b: Moments) -> Moments:
    with quiet():
        r = float32(b.count) / float32(a.count + b.count)
        delta = b.mean - a.mean
        mean = fma(delta, r, a.mean)
        m2 = fma(delta * delta, float32(a.count) * r, a.m2 + b.m2)
    return Moments(a.count + b.count, mean, m2)


def batch_moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    nothing = np.zeros(x.shape[1], np.float32)
    moments = tree((plane_moments(image) for image in x), combined, Moments(0, nothing, nothing))
    return moments.mean, moments.m2


def inverse_deviation(variance: np.ndarray, epsilon: float) -> np.ndarray:
    with quiet():
        return ONE / np.sqrt(variance + float32(epsilon))


def normalised(x: np.ndarray, mean: np.ndarray, inv: np.ndarray) -> np.ndarray:
    with quiet():
        return (x - mean[:, None]) * inv[:, None]


def forward(x: np.ndarray, mean: np.ndarray, inv: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    return fma(gamma[:, None], normalised(x, mean, inv), beta[:, None])


def backward(
    dy: np.ndarray, x: np.ndarray, mean: np.ndarray, inv: np.ndarray, gamma: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    images, channels, plane = x.shape
    count = float32(images * plane)
    xhat = normalised(x, mean, inv)
    nothing = np.zeros(channels, np.float32)
    s1 = tree((lanes(dy[n]) for n in range(images)), empty=nothing)
    s2 = tree((lanes_fma(dy[n], xhat[n]) for n in range(images)), empty=nothing)
    with quiet():
        dx = (gamma * inv)[:, None] * fma(-xhat, (s2 / count)[:, None], dy - (s1 / count)[:, None])
    return dx, s2, s1


def running(old: np.ndarray, new: np.ndarray, momentum: float) -> np.ndarray:
    with quiet():
        return float32(1.0 - momentum) * old + float32(momentum) * new
