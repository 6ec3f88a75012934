"""Losses on C-contiguous float32 arrays: (loss, a 0-d array; gradient)."""

from __future__ import annotations

import numpy as np

from .library import address, function

_cross_entropy = function("softmax_cross_entropy", "ppppiii")
_mse = function("mse", "ppppiii")


def softmax_cross_entropy(logits: np.ndarray, target: np.ndarray, workers: int) -> tuple[np.ndarray, np.ndarray]:
    loss, gradient = np.empty((), np.float32), np.empty_like(logits)
    _cross_entropy(address(logits), address(target), address(loss), address(gradient), *logits.shape, workers)
    return loss, gradient


def mse(prediction: np.ndarray, target: np.ndarray, workers: int) -> tuple[np.ndarray, np.ndarray]:
    """The first axis counts the rows."""
    loss, gradient = np.empty((), np.float32), np.empty_like(prediction)
    rows = prediction.shape[0] if prediction.ndim else 1
    columns = int(np.prod(prediction.shape[1:]))
    _mse(address(prediction), address(target), address(loss), address(gradient), rows, columns, workers)
    return loss, gradient
