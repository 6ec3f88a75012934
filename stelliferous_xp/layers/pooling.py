"""Pooling layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from stelliferous_xp.arrays import Array, Like
from stelliferous_xp.layers.base import Layer
from stelliferous_xp.ops.pooling import average_pool, average_pool_gradient

__all__ = ["AveragePoolLayer", "AveragePoolSaved", "average_pool_layer"]


@dataclass(frozen=True)
class AveragePoolSaved:
    """What average pooling saves: the look of its input, no array."""

    x: Like


@dataclass(frozen=True, eq=False)
class AveragePoolLayer(Layer):
    """Global average pooling; made by `average_pool_layer`."""

    kind: ClassVar[str] = "average_pool"
    saved_type: ClassVar[type] = AveragePoolSaved

    def forward(self, x: Array) -> tuple[Array, AveragePoolSaved, Self]:
        return self.evaluate(x), AveragePoolSaved(Like.of(x)), self

    def backward(self, dy: Array, saved: AveragePoolSaved) -> tuple[Array, Self]:
        images, channels, height, width = saved.x.shape
        replace(saved.x, shape=(images, channels, 1, 1)).check("dy", dy, "x")
        return average_pool_gradient(dy, (height, width)), self

    def evaluate(self, x: Array) -> Array:
        return average_pool(x)


def average_pool_layer() -> AveragePoolLayer:
    """A global average pooling layer: [N, C, H, W] to the mean of each plane, [N, C, 1, 1].

    Returns
    -------
    AveragePoolLayer

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.evaluate(np.arange(4.0).reshape(1, 1, 2, 2), sx.average_pool_layer())
    array([[[[1.5]]]])
    """
    return AveragePoolLayer()
