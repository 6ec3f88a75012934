"""Layers side by side: all read the same input, and their outputs are summed or joined."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from stelliferous_xp.arrays import Array, namespace_of
from stelliferous_xp.checks import check_shape
from stelliferous_xp.layers.activation import activation_layer
from stelliferous_xp.layers.base import Layer, backward
from stelliferous_xp.layers.composite import (
    CompositeLayer,
    CompositeSaved,
    checked_channels,
    checked_layers,
    checked_output_channels,
    position,
)
from stelliferous_xp.ops.arithmetic import add

__all__ = ["ConcatLayer", "ConcatSaved", "MergeLayer", "MergeSaved", "concat", "merge", "residual"]


@dataclass(frozen=True)
class MergeSaved(CompositeSaved):
    """What a merge saves."""


@dataclass(frozen=True)
class ConcatSaved(CompositeSaved):
    """What a concat saves: its layers' records, and the channels of each one's output."""

    channels: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _BranchedLayer(CompositeLayer):
    """Layers that all read the same input."""

    def _forward_each(self, x: Array) -> tuple[list[Array], tuple[Any, ...], Self]:
        outputs, records, layers = [], [], []
        for index, layer in self.positions():
            with position(index, layer):
                y, record, layer = layer.forward(x)
            outputs.append(y)
            records.append(record)
            layers.append(layer)
        return outputs, tuple(records), self.with_layers(layers)

    def _backward_each(self, gradients: Sequence[Array], saved: CompositeSaved) -> tuple[Array, Self]:
        layers: list[Layer] = []
        total = None
        for (index, layer), dy, record in zip(self.positions(), gradients, self.saved_of_each(saved), strict=True):
            with position(index, layer):
                dx, layer = backward(dy, record, layer)
            total = dx if total is None else add(total, dx)
            layers.append(layer)
        return total, self.with_layers(layers)

    def _evaluate_each(self, x: Array) -> list[Array]:
        outputs = []
        for index, layer in self.positions():
            with position(index, layer):
                outputs.append(layer.evaluate(x))
        return outputs

    def _output_channels_of_each(self, incoming: int | None) -> list[int | None]:
        channels = []
        for index, layer in self.positions():
            with position(index, layer):
                channels.append(checked_output_channels(layer, incoming))
        return channels

    @functools.cached_property
    def input_channels(self) -> int | None:
        return next((layer.input_channels for layer in self.layers if layer.input_channels is not None), None)


@dataclass(frozen=True, eq=False)
class MergeLayer(_BranchedLayer):
    """The sum of its layers' outputs; made by `merge` or `residual`."""

    kind: ClassVar[str] = "merge"
    saved_type: ClassVar[type] = MergeSaved

    def forward(self, x: Array) -> tuple[Array, MergeSaved, Self]:
        outputs, records, layer = self._forward_each(x)
        return self._sum(outputs), MergeSaved(records), layer

    def backward(self, dy: Array, saved: MergeSaved) -> tuple[Array, Self]:
        return self._backward_each([dy] * len(self.layers), saved)

    def evaluate(self, x: Array) -> Array:
        return self._sum(self._evaluate_each(x))

    def output_channels(self, incoming: int | None) -> int | None:
        known = {channels for channels in self._output_channels_of_each(incoming) if channels is not None}
        if len(known) > 1:
            raise ValueError(f"the layers of a {self.kind} must give the same number of channels; got {sorted(known)}")
        return known.pop() if known else None

    def _sum(self, outputs: Sequence[Array]) -> Array:
        total = outputs[0]
        for index, y in enumerate(outputs[1:], start=1):
            check_shape(f"output of layer {index}", y, total.shape, "the output of layer 0")
            total = add(total, y)
        return total


@dataclass(frozen=True, eq=False)
class ConcatLayer(_BranchedLayer):
    """Its layers' outputs, joined along the channels; made by `concat`."""

    kind: ClassVar[str] = "concat"
    saved_type: ClassVar[type] = ConcatSaved

    def forward(self, x: Array) -> tuple[Array, ConcatSaved, Self]:
        outputs, records, layer = self._forward_each(x)
        y = self._join(outputs)
        return y, ConcatSaved(records, tuple(output.shape[1] for output in outputs)), layer

    def backward(self, dy: Array, saved: ConcatSaved) -> tuple[Array, Self]:
        namespace_of("dy", dy)
        total = sum(saved.channels)
        if dy.ndim < 2 or dy.shape[1] != total:
            raise ValueError(f"`dy` must have {total} channels to match the output; got shape {tuple(dy.shape)}")
        starts = [sum(saved.channels[:index]) for index in range(len(saved.channels))]
        parts = [dy[:, start:start + count, ...] for start, count in zip(starts, saved.channels, strict=True)]
        return self._backward_each(parts, saved)

    def evaluate(self, x: Array) -> Array:
        return self._join(self._evaluate_each(x))

    def output_channels(self, incoming: int | None) -> int | None:
        total = 0
        for channels in self._output_channels_of_each(incoming):
            if channels is None:
                return None
            total += channels
        return total

    def _join(self, outputs: Sequence[Array]) -> Array:
        first = outputs[0]
        if first.ndim < 2:
            raise ValueError(f"the layers of a concat must give outputs (N, C, ...); got {tuple(first.shape)}")
        for index, y in enumerate(outputs[1:], start=1):
            expected = (first.shape[0], y.shape[1] if y.ndim > 1 else "C", *first.shape[2:])
            check_shape(f"output of layer {index}", y, expected, "the output of layer 0")
        return namespace_of("x", first).concat(outputs, axis=1)


def merge(layers: Sequence[Layer]) -> MergeLayer:
    """The sum of the outputs of layers that read the same input.

    Parameters
    ----------
    layers : sequence of Layer
        At least one; their outputs must have one shape.

    Returns
    -------
    MergeLayer

    Raises
    ------
    TypeError, ValueError
        If `layers` are not layers, or their channels differ.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> both = sx.merge([sx.activation_layer("relu"), sx.activation_layer("identity")])
    >>> sx.evaluate(np.asarray([[-1.0, 2.0]]), both)
    array([[-1.,  4.]])
    """
    return checked_channels(MergeLayer(checked_layers(layers)))


def residual(inner: Layer, shortcut: Layer | None = None) -> MergeLayer:
    """``inner(x) + x``, or ``inner(x) + shortcut(x)`` (He et al., 2016): a `merge` of the two.

    Parameters
    ----------
    inner : Layer
    shortcut : Layer, optional
        Where `inner` changes the shape, a layer that changes it alike; else the identity.

    Returns
    -------
    MergeLayer
        With `inner` as layer 0 and the shortcut as layer 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a layer, or the channels of the two differ.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.evaluate(np.asarray([[-1.0, 2.0]]), sx.residual(sx.activation_layer("relu")))
    array([[-1.,  4.]])
    """
    return merge([inner, activation_layer("identity") if shortcut is None else shortcut])


def concat(layers: Sequence[Layer]) -> ConcatLayer:
    """The outputs of layers that read the same input, joined along axis 1, the channels.

    Parameters
    ----------
    layers : sequence of Layer
        At least one; their outputs must agree in all but the channels.

    Returns
    -------
    ConcatLayer

    Raises
    ------
    TypeError, ValueError
        If `layers` are not layers, or need different numbers of channels.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> both = sx.concat([sx.activation_layer("relu"), sx.activation_layer("identity")])
    >>> sx.evaluate(np.asarray([[-1.0, 2.0]]), both)
    array([[ 0.,  2., -1.,  2.]])
    """
    return checked_channels(ConcatLayer(checked_layers(layers)))
