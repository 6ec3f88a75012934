"""Pooling of docs/order.md."""

from __future__ import annotations

import numpy as np

from .arithmetic import float32, lanes, quiet
from .convolution import Pair, output_size


def average_forward(x: np.ndarray) -> np.ndarray:
    """[N, C, P] -> [N, C]."""
    with quiet():
        return lanes(x) / float32(x.shape[2])


def average_backward(dy: np.ndarray, plane: int) -> np.ndarray:
    with quiet():
        return np.repeat((dy / float32(plane))[:, :, None], plane, axis=2)


def _best(x: np.ndarray, kernel: Pair, stride: Pair, padding: Pair) -> tuple[np.ndarray, np.ndarray]:
    """For each window its best pixel: value and place y*W + x. Loops over windows; all planes [N, C] at once."""
    height, width = x.shape[2:]
    oh, ow = output_size((height, width), kernel, stride, padding)
    value = np.empty((*x.shape[:2], oh, ow), np.float32)
    place = np.empty(value.shape, np.int64)
    for i in range(oh):
        for j in range(ow):
            best = where = None
            for ky in range(kernel[0]):
                for kx in range(kernel[1]):
                    row, column = i * stride[0] + ky - padding[0], j * stride[1] + kx - padding[1]
                    if not (0 <= row < height and 0 <= column < width):
                        continue
                    v = x[:, :, row, column]
                    if best is None:
                        best, where = v, np.full(v.shape, row * width + column)
                        continue
                    better = (v > best) | (np.isnan(v) & ~np.isnan(best))
                    best = np.where(better, v, best)
                    where = np.where(better, row * width + column, where)
            value[:, :, i, j], place[:, :, i, j] = best, where
    return value, place


def max_forward(x: np.ndarray, kernel: Pair, stride: Pair, padding: Pair) -> np.ndarray:
    return _best(x, kernel, stride, padding)[0]


def max_backward(dy: np.ndarray, x: np.ndarray, kernel: Pair, stride: Pair, padding: Pair) -> np.ndarray:
    place = _best(x, kernel, stride, padding)[1]
    dx = np.zeros((*x.shape[:2], x.shape[2] * x.shape[3]), np.float32)
    pixels = np.arange(dx.shape[2])
    with quiet():
        for i in range(dy.shape[2]):
            for j in range(dy.shape[3]):
                chosen = place[:, :, i, j][:, :, None] == pixels
                dx = np.where(chosen, dx + dy[:, :, i, j][:, :, None], dx)
    return dx.reshape(x.shape)
