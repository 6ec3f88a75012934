"""Layers made of layers: what they share, and the network, which runs them one after the other."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

from stelliferous_xp.arrays import Array
from stelliferous_xp.layers.activation import ActivatedLayer, ActivationLayer
from stelliferous_xp.layers.base import Layer, check_layer, check_saved

__all__ = ["CompositeLayer", "CompositeSaved", "NetworkLayer", "NetworkSaved", "network"]


@dataclass(frozen=True)
class CompositeSaved:
    """What a layer made of layers saves: their records; None for an activation that ran with the layer before it."""

    layers: tuple[Any, ...]


@dataclass(frozen=True)
class NetworkSaved(CompositeSaved):
    """What a network saves."""


@dataclass(frozen=True, eq=False)
class CompositeLayer(Layer):
    """What layers made of layers share. They nest to any depth."""

    layers: tuple[Layer, ...]

    def positions(self) -> Iterator[tuple[int, Layer]]:
        return iter(enumerate(self.layers))

    def saved_of_each(self, saved: CompositeSaved) -> tuple[Any, ...]:
        if len(saved.layers) != len(self.layers):
            raise ValueError(f"`saved` must come from this {self.kind} of {len(self.layers)} layers; "
                             f"got one of {len(saved.layers)}")
        return saved.layers

    def with_layers(self, layers: Sequence[Layer]) -> Self:
        if all(new is old for new, old in zip(layers, self.layers, strict=True)):
            return self
        return dataclasses.replace(self, layers=tuple(layers))


@dataclass(frozen=True, eq=False)
class NetworkLayer(CompositeLayer):
    """Layers one after the other; made by `network`."""

    kind: ClassVar[str] = "network"
    saved_type: ClassVar[type] = NetworkSaved

    def forward(self, x: Array) -> tuple[Array, NetworkSaved, Self]:
        records: list[Any] = [None] * len(self.layers)
        layers = list(self.layers)
        for index, layer, *taken in self._steps():
            with position(index, layer):
                x, records[index], layers[index] = layer.forward(x, *taken)
        return x, NetworkSaved(tuple(records)), self.with_layers(layers)

    def backward(self, dy: Array, saved: NetworkSaved) -> tuple[Array, Self]:
        records = self.saved_of_each(saved)
        layers = list(self.layers)
        for index, layer, *taken in reversed(self._steps()):
            with position(index, layer):
                check_saved(records[index], layer)
                dy, layers[index] = layer.backward(dy, records[index], *taken)
        return dy, self.with_layers(layers)

    def evaluate(self, x: Array) -> Array:
        for index, layer, *taken in self._steps():
            with position(index, layer):
                x = layer.evaluate(x, *taken)
        return x

    def _steps(self) -> list[tuple[Any, ...]]:
        """(index, layer) of each layer to run, and the activation behind it where the layer takes that along."""
        steps: list[tuple[Any, ...]] = []
        waiting = list(self.positions())
        while waiting:
            index, layer = waiting.pop(0)
            follower = waiting[0][1] if waiting else None
            if (isinstance(layer, ActivatedLayer) and isinstance(follower, ActivationLayer)
                    and layer.takes(follower.activation)):
                waiting.pop(0)
                steps.append((index, layer, follower.activation))
            else:
                steps.append((index, layer))
        return steps

    @functools.cached_property  # A layer in it asks its own layers, and so on: once, not again at every level.
    def input_channels(self) -> int | None:
        for layer in self.layers:
            if layer.input_channels is not None:
                return layer.input_channels
            if layer.output_channels(1) != 1:
                return None
        return None

    def output_channels(self, incoming: int | None) -> int | None:
        for index, layer in self.positions():
            with position(index, layer):
                incoming = checked_output_channels(layer, incoming)
        return incoming


Composite = TypeVar("Composite", bound=CompositeLayer)


def network(layers: Sequence[Layer]) -> NetworkLayer:
    """Layers one after the other, as one layer.

    Parameters
    ----------
    layers : sequence of Layer
        At least one. Parameters are named by position: "0.weights".

    Returns
    -------
    NetworkLayer

    Raises
    ------
    TypeError, ValueError
        If `layers` are not layers, or the channels of one do not fit the next: "layer 3, conv2d: ...".

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> net = sx.network([sx.conv2d_layer(np.ones((4, 1, 3, 3))), sx.batch_norm_layer(4, dtype="float64")])
    >>> sx.evaluate(np.ones((2, 1, 5, 5)), net).shape
    (2, 4, 3, 3)
    """
    return checked_channels(NetworkLayer(checked_layers(layers)))


def checked_layers(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Check that `layers` is a sequence of at least one layer."""
    if isinstance(layers, Layer) or not isinstance(layers, Sequence):
        raise TypeError(f"`layers` must be a sequence of layers; got {type(layers).__name__}")
    if not layers:
        raise ValueError("`layers` must hold at least one layer; got none")
    return tuple(check_layer(f"layers[{index}]", layer) for index, layer in enumerate(layers))


def checked_channels(layer: Composite) -> Composite:
    """Check that the channels of the layers inside fit each other."""
    layer.output_channels(layer.input_channels)
    return layer


def checked_output_channels(layer: Layer, incoming: int | None) -> int | None:
    """The channels that a layer gives for `incoming` ones, checked against those it needs."""
    needed = layer.input_channels
    if incoming is not None and needed is not None and incoming != needed:
        raise ValueError(f"must get {needed} channels; got {incoming}")
    return layer.output_channels(needed if incoming is None else incoming)


@contextlib.contextmanager
def position(index: int, layer: Layer) -> Iterator[None]:
    """Name a layer in the errors raised inside."""
    try:
        yield
    except (TypeError, ValueError) as error:
        error.args = (f"layer {index}, {layer.kind}: {error}",)
        raise
