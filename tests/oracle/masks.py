"""Random masks of docs/order.md: Philox 4x32-10 in Python integers."""

from __future__ import annotations

import numpy as np

from .arithmetic import ZERO, float32, quiet

LOW = 0xFFFFFFFF


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for number in range(10):
        if number > 0:
            k0, k1 = (k0 + 0x9E3779B9) & LOW, (k1 + 0xBB67AE85) & LOW
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & LOW, (a >> 32) ^ c3 ^ k1, a & LOW
    return c0, c1, c2, c3


def uniform(elements: range, seed: int, step: int, layer: int) -> np.ndarray:
    key = (seed & LOW, seed >> 32 & LOW)
    words = (philox((e // 4 & LOW, e // 4 >> 32, step & LOW, layer & LOW), key)[e % 4] for e in elements)
    return np.array([(word // 256) * 2.0**-24 for word in words], np.float32)


def dropout(x: np.ndarray, uniforms: np.ndarray, rate: float) -> np.ndarray:
    scale = float32(1.0 / (1.0 - rate)) if rate < 1 else ZERO
    with quiet():
        return np.where(uniforms >= float32(rate), x * scale, ZERO)
