"""Activation layers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from stelliferous_xp.arrays import Array, Like
from stelliferous_xp.layers.base import Layer
from stelliferous_xp.ops.activation import activate, activation_gradient
from stelliferous_xp.ops.activation_values import IDENTITY, Activation, named_activation

__all__ = ["ActivatedLayer", "ActivationLayer", "ActivationSaved", "activation_layer"]


@dataclass(frozen=True)
class ActivationSaved:
    """What an activation saves: the one array that its derivative is taken from, or for identity its look."""

    activation: Activation
    kept: Array | Like


@dataclass(frozen=True, eq=False)
class ActivationLayer(Layer):
    """An activation; made by `activation_layer`."""

    kind: ClassVar[str] = "activation"
    saved_type: ClassVar[type] = ActivationSaved

    activation: Activation

    def forward(self, x: Array) -> tuple[Array, ActivationSaved, Self]:
        y = self.evaluate(x)
        kept = {"nothing": Like.of(x), "input": x, "output": y}[self.activation.kept]
        return y, ActivationSaved(self.activation, kept), self

    def backward(self, dy: Array, saved: ActivationSaved) -> tuple[Array, Self]:
        check_saved_activation(saved.activation, self.activation)
        if isinstance(saved.kept, Like):
            saved.kept.check("dy", dy, "x")
            return dy, self
        return activation_gradient(dy, saved.kept, self.activation), self

    def evaluate(self, x: Array) -> Array:
        return activate(x, self.activation)


@dataclass(frozen=True, eq=False)
class ActivatedLayer(Layer):
    """A layer that can run together with the activation behind it in a network, to the same bits."""

    @abstractmethod
    def takes(self, activation: Activation) -> bool:
        """Whether it can run together with this activation."""

    @abstractmethod
    def forward(self, x: Array, activation: Activation = IDENTITY) -> tuple[Array, Any, Self]:
        """As for any layer, followed by the activation."""

    @abstractmethod
    def backward(self, dy: Array, saved: Any, activation: Activation = IDENTITY) -> tuple[Array, Self]:
        """As for any layer, `dy` being the gradient of the activation's output."""

    @abstractmethod
    def evaluate(self, x: Array, activation: Activation = IDENTITY) -> Array:
        """As for any layer, followed by the activation."""


def check_saved_activation(saved: Activation, activation: Activation) -> None:
    """Check that a record was saved with the activation that it is now used with."""
    if saved != activation:
        raise ValueError(f"`saved` must come from this layer, {activation}; got one of {saved}")


def activation_layer(activation: str | Activation) -> ActivationLayer:
    """An activation layer: `activate` as a layer, for arrays of any shape.

    Parameters
    ----------
    activation : str or Activation
        "identity", "relu", "leaky_relu", "elu", "sigmoid", "tanh", "softplus", "silu", "gelu", "sinusoid",
        or a value such as `elu(alpha=0.5)`.

    Returns
    -------
    ActivationLayer

    Raises
    ------
    TypeError, ValueError
        If the activation is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.evaluate(np.asarray([-2.0, 3.0]), sx.activation_layer(sx.leaky_relu(slope=0.5)))
    array([-1.,  3.])
    """
    return ActivationLayer(named_activation(activation))
