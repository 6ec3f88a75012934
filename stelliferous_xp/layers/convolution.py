"""Convolution layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from stelliferous_xp.arrays import Array, copied, shared_namespace
from stelliferous_xp.checks import check_pair
from stelliferous_xp.layers.activation import ActivatedLayer, check_saved_activation
from stelliferous_xp.ops.activation import activation_gradient
from stelliferous_xp.ops.activation_values import IDENTITY, Activation
from stelliferous_xp.ops.convolution import (
    check_filters,
    conv2d,
    conv2d_bias_gradient,
    conv2d_input_gradient,
    conv2d_weight_gradient,
)

__all__ = ["Conv2dLayer", "Conv2dSaved", "conv2d_layer"]


@dataclass(frozen=True)
class Conv2dSaved:
    """What a convolution saves: its input, and where it ran together with an activation, that and its output."""

    x: Array
    activation: Activation = IDENTITY
    activated: Array | None = None


@dataclass(frozen=True, eq=False)
class Conv2dLayer(ActivatedLayer):
    """A two-dimensional convolution; made by `conv2d_layer`."""

    kind: ClassVar[str] = "conv2d"
    saved_type: ClassVar[type] = Conv2dSaved
    parameter_names: ClassVar[tuple[str, ...]] = ("weights", "bias")

    weights: Array
    bias: Array | None
    stride: tuple[int, int]
    padding: tuple[int, int]

    def takes(self, activation: Activation) -> bool:
        return activation.kept != "input"

    def forward(self, x: Array, activation: Activation = IDENTITY) -> tuple[Array, Conv2dSaved, Self]:
        y = self.evaluate(x, activation)
        return y, Conv2dSaved(x, activation, None if activation == IDENTITY else y), self

    def backward(self, dy: Array, saved: Conv2dSaved, activation: Activation = IDENTITY) -> tuple[Array, Self]:
        x = saved.x
        if x.shape[1] != self.weights.shape[1]:
            raise ValueError(f"`saved` must come from this layer, with {self.weights.shape[1]} input channels; "
                             f"got one with {x.shape[1]}")
        check_saved_activation(saved.activation, activation)
        if saved.activated is not None:
            dy = activation_gradient(dy, saved.activated, activation)
        dx = conv2d_input_gradient(dy, self.weights, x.shape[2:], self.stride, self.padding)
        gradients = {"weights": conv2d_weight_gradient(dy, x, self.weights.shape[2:], self.stride, self.padding)}
        if self.bias is not None:
            gradients["bias"] = conv2d_bias_gradient(dy)
        return dx, self.with_gradients(gradients)

    def evaluate(self, x: Array, activation: Activation = IDENTITY) -> Array:
        return conv2d(x, self.weights, self.bias, self.stride, self.padding, activation)

    @property
    def input_channels(self) -> int:
        return int(self.weights.shape[1])

    def output_channels(self, incoming: int | None) -> int:
        return int(self.weights.shape[0])


def conv2d_layer(weights: Array, bias: Array | None = None, stride: int | Sequence[int] = 1,
                 padding: int | Sequence[int] = 0) -> Conv2dLayer:
    """A two-dimensional convolution layer: `conv2d` with parameters.

    Parameters
    ----------
    weights : array of shape (O, C, kh, kw)
        Filters, float32 or float64.
    bias : array of shape (O,), optional
        None for a convolution without bias.
    stride, padding : int or pair of int
        For both axes, or (vertical, horizontal).

    Returns
    -------
    Conv2dLayer
        Holding copies of the arrays.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> layer = sx.conv2d_layer(np.ones((8, 3, 5, 5)), np.zeros(8), stride=2, padding=(2, 2))
    >>> sx.evaluate(np.ones((1, 3, 32, 32)), layer).shape
    (1, 8, 16, 16)
    """
    arrays = {"weights": weights} | ({} if bias is None else {"bias": bias})
    shared_namespace(**arrays)
    check_filters(weights, bias)
    return Conv2dLayer(copied(weights), None if bias is None else copied(bias),
                       check_pair("stride", stride, 1), check_pair("padding", padding, 0))
