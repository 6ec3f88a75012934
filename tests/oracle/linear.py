"""The linear layer of docs/order.md."""

from __future__ import annotations

import numpy as np

from .arithmetic import blocks, chain, quiet, tree


def forward(x: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    y = chain(((w[None, :, i], x[:, i, None]) for i in range(x.shape[1])), (x.shape[0], w.shape[0]))
    with quiet():
        return y if b is None else y + b


def input_gradient(dy: np.ndarray, w: np.ndarray) -> np.ndarray:
    return chain(((w[None, o], dy[:, o, None]) for o in range(w.shape[0])), (dy.shape[0], w.shape[1]))


def weight_gradient(dy: np.ndarray, x: np.ndarray) -> np.ndarray:
    shape = (dy.shape[1], x.shape[1])
    sums = (chain(((dy[n, :, None], x[n, None]) for n in block), shape) for block in blocks(len(x)))
    return tree(sums, empty=np.zeros(shape, np.float32))


def bias_gradient(dy: np.ndarray) -> np.ndarray:
    sums = []
    with quiet():
        for block in blocks(len(dy)):
            acc = np.zeros(dy.shape[1], np.float32)
            for n in block:
                acc = acc + dy[n]
            sums.append(acc)
    return tree(sums, empty=np.zeros(dy.shape[1], np.float32))
