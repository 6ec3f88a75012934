"""Pooling on C-contiguous float32 arrays."""

from __future__ import annotations

import numpy as np

from .library import address, function

_average_forward = function("average_pool_forward", "ppiiii")
_average_backward = function("average_pool_backward", "ppiiii")
_max_forward = function("max_pool_forward", "pp" + "i" * 10)
_max_backward = function("max_pool_backward", "ppp" + "i" * 10)

Pair = tuple[int, int]


def average_pool_forward(x: np.ndarray, workers: int) -> np.ndarray:
    """[N,C,P] -> [N,C]."""
    y = np.empty(x.shape[:2], np.float32)
    _average_forward(address(x), address(y), *x.shape, workers)
    return y


def average_pool_backward(dy: np.ndarray, plane: int, workers: int) -> np.ndarray:
    """[N,C] -> [N,C,plane]."""
    dx = np.empty((*dy.shape, plane), np.float32)
    _average_backward(address(dy), address(dx), *dx.shape, workers)
    return dx


def max_pool_forward(x: np.ndarray, kernel: Pair, stride: Pair, padding: Pair, workers: int) -> np.ndarray:
    """x [N,C,H,W]; the padding is smaller than the kernel."""
    n, channels, height, width = x.shape
    rows = (height + 2 * padding[0] - kernel[0]) // stride[0] + 1
    columns = (width + 2 * padding[1] - kernel[1]) // stride[1] + 1
    y = np.empty((n, channels, rows, columns), np.float32)
    _max_forward(address(x), address(y), n * channels, height, width, *kernel, *stride, *padding, workers)
    return y


def max_pool_backward(
    dy: np.ndarray, x: np.ndarray, kernel: Pair, stride: Pair, padding: Pair, workers: int
) -> np.ndarray:
    n, channels, height, width = x.shape
    dx = np.empty_like(x)
    _max_backward(
        address(dy), address(x), address(dx), n * channels, height, width, *kernel, *stride, *padding, workers
    )
    return dx
