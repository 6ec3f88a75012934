"""Batch norm on C-contiguous float32 arrays [N,C,P] (any shape whose last axes make up P), and arrays [C]."""

from __future__ import annotations

import numpy as np

from .activation import code
from .library import address, function

_moments = function("batch_moments", "pppiiii")
_forward = function("batch_norm_forward", "ppppppiiiifi")
_backward = function("batch_norm_backward", "pppppppppiiiifi")


def _sizes(x: np.ndarray) -> tuple[int, int, int]:
    n, channels = x.shape[:2]
    return n, channels, int(np.prod(x.shape[2:]))


def batch_moments(x: np.ndarray, workers: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean of every channel, and the sum of its squared deviations."""
    mean, m2 = np.empty(x.shape[1], np.float32), np.empty(x.shape[1], np.float32)
    _moments(address(x), address(mean), address(m2), *_sizes(x), workers)
    return mean, m2


def batch_norm_forward(
    x: np.ndarray,
    mean: np.ndarray,
    inv: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    activation: str,
    alpha: float,
    workers: int,
) -> np.ndarray:
    """activation(gamma * ((x - mean) * inv) + beta)."""
    y = np.empty_like(x)
    channels = (address(a) for a in (mean, inv, gamma, beta))
    _forward(address(x), *channels, address(y), *_sizes(x), code(activation), alpha, workers)
    return y


def batch_norm_backward(
    dy: np.ndarray,
    x: np.ndarray,
    mean: np.ndarray,
    inv: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    activation: str,
    alpha: float,
    workers: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients of x, gamma and beta; dy is that of the activation's output."""
    dx, dgamma, dbeta = np.empty_like(x), np.empty_like(gamma), np.empty_like(gamma)
    channels = (address(a) for a in (mean, inv, gamma, beta))
    gradients = (address(a) for a in (dx, dgamma, dbeta))
    _backward(address(dy), address(x), *channels, *gradients, *_sizes(x), code(activation), alpha, workers)
    return dx, dgamma, dbeta
