"""The activations as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stelliferous_xp.checks import check_number

__all__ = ["Activation", "elu", "leaky_relu", "named_activation"]

Kept = Literal["nothing", "input", "output"]

_KEPT: dict[str, Kept] = {
    "identity": "nothing", "relu": "output", "leaky_relu": "output", "elu": "output", "sigmoid": "output",
    "tanh": "output", "softplus": "output", "silu": "input", "gelu": "input", "sinusoid": "input",
}


@dataclass(frozen=True)
class Activation:
    """An activation function: its name and, where it has one, its parameter. Made by name or by `elu(...)`."""

    name: str
    parameter: float = 0.0

    @property
    def kept(self) -> Kept:
        """Which array the derivative is taken from."""
        return _KEPT[self.name]

    def __str__(self) -> str:
        return f"{self.name}({self.parameter})" if self.name in ("leaky_relu", "elu") else self.name


IDENTITY = Activation("identity")


def leaky_relu(slope: float = 0.01) -> Activation:
    """The leaky ReLU: x where x > 0, else `slope` times x.

    Parameters
    ----------
    slope : float
        At least 0, so that the sign of the output tells that of the input.

    Returns
    -------
    Activation
        For `activation_layer`, `activate` and `conv2d`.

    Raises
    ------
    TypeError, ValueError
        If `slope` is not a finite number, or negative.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.activate(np.asarray([-2.0, 3.0]), sx.leaky_relu(slope=0.5))
    array([-1.,  3.])
    """
    return Activation("leaky_relu", check_number("slope", slope, 0.0))


def elu(alpha: float = 1.0) -> Activation:
    """The exponential linear unit: x where x > 0, else `alpha` * (exp(x) - 1) (Clevert et al., 2015).

    Parameters
    ----------
    alpha : float
        At least 0.

    Returns
    -------
    Activation
        For `activation_layer`, `activate` and `conv2d`.

    Raises
    ------
    TypeError, ValueError
        If `alpha` is not a finite number, or negative.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.activate(np.asarray([-np.inf, 3.0]), sx.elu(alpha=0.5))
    array([-0.5,  3. ])
    """
    return Activation("elu", check_number("alpha", alpha, 0.0))


def named_activation(activation: str | Activation) -> Activation:
    """The activation of a name with its default parameter; a value is passed through.

    Raises
    ------
    TypeError, ValueError
        If `activation` is neither, or the name is unknown.
    """
    if isinstance(activation, Activation):
        return activation
    if not isinstance(activation, str):
        raise TypeError(f"`activation` must be a name or an activation such as elu(alpha=0.5); got {activation!r}")
    if activation not in _KEPT:
        raise ValueError(f"`activation` must be one of {', '.join(_KEPT)}; got {activation!r}")
    return {"leaky_relu": leaky_relu(), "elu": elu()}.get(activation) or Activation(activation)
