"""Linear layers on C-contiguous float32 arrays: x [N,I], weights [O,I], bias [O] or None, y and dy [N,O]."""

from __future__ import annotations

import numpy as np

from .library import address, function

_forward = function("linear_forward", "ppppiiii")
_input_gradient = function("linear_input_gradient", "pppiiii")
_weight_gradient = function("linear_weight_gradient", "pppiiii")
_bias_gradient = function("linear_bias_gradient", "ppiii")


def linear_forward(x: np.ndarray, weights: np.ndarray, bias: np.ndarray | None, workers: int) -> np.ndarray:
    y = np.empty((len(x), len(weights)), np.float32)
    b = None if bias is None else address(bias)
    _forward(address(x), address(weights), b, address(y), *x.shape, len(weights), workers)
    return y


def linear_input_gradient(dy: np.ndarray, weights: np.ndarray, workers: int) -> np.ndarray:
    dx = np.empty((len(dy), weights.shape[1]), np.float32)
    _input_gradient(address(dy), address(weights), address(dx), *dx.shape, len(weights), workers)
    return dx


def linear_weight_gradient(dy: np.ndarray, x: np.ndarray, workers: int) -> np.ndarray:
    dw = np.empty((dy.shape[1], x.shape[1]), np.float32)
    _weight_gradient(address(dy), address(x), address(dw), *x.shape, dy.shape[1], workers)
    return dw


def linear_bias_gradient(dy: np.ndarray, workers: int) -> np.ndarray:
    db = np.empty(dy.shape[1], np.float32)
    _bias_gradient(address(dy), address(db), *dy.shape, workers)
    return db
