"""What a layer is, and the functions over any layer.

A layer is a frozen dataclass. It names the fields that training moves and those that training mode
measures; a layer made of others has them in `layers`. From that the functions of `layers/tree.py` do their
work, so that a new layer is one file with one class.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from stelliferous_xp.arrays import Array

__all__ = ["Layer", "backward", "evaluate", "forward"]


@dataclass(frozen=True, eq=False)
class Layer(ABC):
    """A layer: a value that holds parameters, their gradients and options. Subclasses are frozen dataclasses."""

    kind: ClassVar[str]
    """The name that errors call the layer by."""
    saved_type: ClassVar[type]
    """The record that `forward` saves."""
    parameter_names: ClassVar[tuple[str, ...]] = ()
    """The fields with arrays that training moves."""
    statistic_names: ClassVar[tuple[str, ...]] = ()
    """The fields with arrays that forward in training mode moves."""

    parameter_gradients: Mapping[str, Array] = field(default_factory=dict, repr=False, kw_only=True)
    """By parameter name; empty before `backward`."""

    @abstractmethod
    def forward(self, x: Array) -> tuple[Array, Any, Self]:
        """The output in training mode, what backward needs, and the layer with its statistics moved."""

    @abstractmethod
    def backward(self, dy: Array, saved: Any) -> tuple[Array, Self]:
        """The input's gradient, and the layer with its parameter gradients replaced."""

    @abstractmethod
    def evaluate(self, x: Array) -> Array:
        """The output in inference mode."""

    @property
    def input_channels(self) -> int | None:
        """The channel count that the layer needs, or None for any."""
        return None

    def output_channels(self, incoming: int | None) -> int | None:
        """The channel count that the layer gives for `incoming` channels (None: not known)."""
        return incoming

    @property
    def own_parameters(self) -> dict[str, Array]:
        """The parameters by name; an optional one that is None is left out."""
        arrays = {name: getattr(self, name) for name in self.parameter_names}
        return {name: array for name, array in arrays.items() if array is not None}

    @property
    def own_statistics(self) -> dict[str, Array]:
        """The statistics by name."""
        return {name: getattr(self, name) for name in self.statistic_names}

    def with_gradients(self, gradients: Mapping[str, Array]) -> Self:
        """The layer holding these gradients instead of earlier ones."""
        return dataclasses.replace(self, parameter_gradients=dict(gradients))


def forward(x: Array, layer: Layer) -> tuple[Array, Any, Layer]:
    """Run a layer in training mode.

    Parameters
    ----------
    x : array
        A batch, float32 or float64, in the namespace, dtype and on the device of the layer's parameters.
    layer : Layer

    Returns
    -------
    y : array
        The output.
    saved
        What `backward` reads. It refers to arrays such as `x` and `y` without copying them: leave them as
        they are until `backward` has run. It may be used more than once.
    layer : Layer
        The layer with its statistics moved, where it has some; else the same.

    Raises
    ------
    TypeError, ValueError
        If `x` does not suit the layer. Within a network the error tells the layer's position and kind.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> y, saved, layer = sx.forward(np.asarray([[-1.0, 2.0]]), sx.activation_layer("relu"))
    >>> y
    array([[0., 2.]])
    """
    return check_layer("layer", layer).forward(x)


def backward(dy: Array, saved: Any, layer: Layer) -> tuple[Array, Layer]:
    """Run a layer backward.

    Parameters
    ----------
    dy : array
        The gradient of the loss with respect to the layer's output, in the output's shape.
    saved
        What `forward` saved for this layer.
    layer : Layer

    Returns
    -------
    dx : array
        The gradient with respect to the layer's input.
    layer : Layer
        The layer holding its parameter gradients, in place of earlier ones.

    Raises
    ------
    TypeError
        If `saved` is of another kind of layer, or `dy` of another namespace or dtype.
    ValueError
        If `dy` has not the output's shape or device, or `saved` does not fit the layer.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> y, saved, layer = sx.forward(np.asarray([[-1.0, 2.0]]), sx.activation_layer("relu"))
    >>> dx, layer = sx.backward(np.ones((1, 2)), saved, layer)
    >>> dx
    array([[0., 1.]])
    """
    check_layer("layer", layer)
    check_saved(saved, layer)
    return layer.backward(dy, saved)


def evaluate(x: Array, layer: Layer) -> Array:
    """Run a layer in inference mode: batch norm uses its running statistics, nothing is saved or moved.

    Parameters
    ----------
    x : array
        As in `forward`.
    layer : Layer

    Returns
    -------
    array
        The output.

    Raises
    ------
    TypeError, ValueError
        As `forward`.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.evaluate(np.asarray([[-1.0, 2.0]]), sx.activation_layer("relu"))
    array([[0., 2.]])
    """
    return check_layer("layer", layer).evaluate(x)


def check_layer(name: str, layer: Layer) -> Layer:
    """Check that `layer` is a layer; return it."""
    if not isinstance(layer, Layer):
        raise TypeError(f"`{name}` must be a layer; got {type(layer).__name__}")
    return layer


def check_saved(saved: Any, layer: Layer) -> None:
    """Check that `saved` is of the layer's kind."""
    if not isinstance(saved, layer.saved_type):
        raise TypeError(f"`saved` must be the {layer.saved_type.__name__} that forward gave for this layer "
                        f"({layer.kind}); got {type(saved).__name__}")
