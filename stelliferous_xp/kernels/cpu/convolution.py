"""Convolution on C-contiguous float32 arrays.

x [N,C,H,W], weights [O,C,kh,kw], bias [O] or None, y and dy [N,O,oh,ow].
"""

from __future__ import annotations

import numpy as np

from .library import address, function

_forward = function("conv2d_forward", "pppp" + "i" * 11 + "ifi")
_input_gradient = function("conv2d_input_gradient", "ppp" + "i" * 12)
_weight_gradient = function("conv2d_weight_gradient", "ppp" + "i" * 12)
_bias_gradient = function("conv2d_bias_gradient", "pp" + "i" * 4)

Pair = tuple[int, int]


def forward(
    x: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray | None,
    stride: Pair,
    padding: Pair,
    activation: int,
    alpha: float,
    workers: int,
) -> np.ndarray:
    n, _, height, width = x.shape
    outputs, _, kh, kw = weights.shape
    rows = (height + 2 * padding[0] - kh) // stride[0] + 1
    columns = (width + 2 * padding[1] - kw) // stride[1] + 1
    y = np.empty((n, outputs, rows, columns), np.float32)
    _forward(
        address(x),
        address(weights),
        None if bias is None else address(bias),
        address(y),
        *x.shape,
        outputs,
        kh,
        kw,
        *stride,
        *padding,
        activation,
        alpha,
        workers,
    )
    return y


def input_gradient(
    dy: np.ndarray, weights: np.ndarray, shape: tuple[int, int, int, int], stride: Pair, padding: Pair, workers: int
) -> np.ndarray:
    """The gradient of an x of this shape."""
    outputs, _, kh, kw = weights.shape
    dx = np.empty(shape, np.float32)
    _input_gradient(address(dy), address(weights), address(dx), *shape, outputs, kh, kw, *stride, *padding, workers)
    return dx


def weight_gradient(
    dy: np.ndarray, x: np.ndarray, kernel: Pair, stride: Pair, padding: Pair, workers: int
) -> np.ndarray:
    outputs = dy.shape[1]
    dw = np.empty((outputs, x.shape[1], *kernel), np.float32)
    _weight_gradient(address(dy), address(x), address(dw), *x.shape, outputs, *kernel, *stride, *padding, workers)
    return dw


def bias_gradient(dy: np.ndarray, workers: int) -> np.ndarray:
    n, outputs, rows, columns = dy.shape
    db = np.empty(outputs, np.float32)
    _bias_gradient(address(dy), address(db), n, outputs, rows * columns, workers)
    return db
