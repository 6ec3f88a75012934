"""Losses of docs/order.md: (loss, gradient)."""

from __future__ import annotations

import numpy as np

from .activation import Elementary
from .arithmetic import ZERO, float32, fma, lanes, lanes_fma, quiet, tree


def softmax_cross_entropy(z: np.ndarray, t: np.ndarray, f: Elementary) -> tuple[np.ndarray, np.ndarray]:
    rows = float32(len(z))
    with quiet():
        m = np.array([row.max(initial=-np.inf) for row in z], np.float32)
        d = z - m[:, None]
        e = f.exp(d)
        total = lanes(e)
        logarithm = f.log(total)[:, None]
        row = lanes(np.where(t == 0, ZERO, t * (logarithm - d)))
        loss = tree(row) / rows
        gradient = fma(lanes(t)[:, None], e / total[:, None], -t) / rows
    return loss, gradient


def mse(p: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p and t [rows, columns]."""
    count = float32(p.size)
    with quiet():
        d = p - t
        return tree(lanes_fma(d, d)) / count, d / (count / np.float32(2))
