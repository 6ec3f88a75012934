"""Pooling over whole planes."""

from __future__ import annotations

from stelliferous_xp.arrays import Array, array_namespace, device
from stelliferous_xp.ops.portable.blocks import map_rows


def average_pool(x: Array) -> Array:
    xp = array_namespace(x)
    return map_rows(lambda x: xp.mean(x, axis=(2, 3), keepdims=True), x, shape=(*x.shape[:2], 1, 1))


def average_pool_gradient(dy: Array, input_plane: tuple[int, int]) -> Array:
    xp = array_namespace(dy)
    height, width = input_plane

    def rows(dy: Array) -> Array:
        return dy / (height * width) * xp.ones((1, 1, height, width), dtype=dy.dtype, device=device(dy))

    return map_rows(rows, dy, shape=(*dy.shape[:2], height, width))
