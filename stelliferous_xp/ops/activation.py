"""Applying an activation, and its gradient."""

from __future__ import annotations

from stelliferous_xp.arrays import Array, shared_namespace
from stelliferous_xp.checks import check_shape
from stelliferous_xp.ops.activation_values import Activation, named_activation
from stelliferous_xp.ops.rooms import room_of

__all__ = ["activate", "activation_gradient"]


def activate(x: Array, activation: str | Activation) -> Array:
    """Apply an activation to every element. NaN stays NaN.

    ==========  ==========================================================================
    identity    x (the same array)
    relu        max(x, 0)
    leaky_relu  x where x > 0, else slope*x
    elu         x where x > 0, else alpha*(exp(x) - 1)
    sigmoid     1/(1 + exp(-x))
    tanh        tanh(x)
    softplus    log(1 + exp(x))
    silu        x*sigmoid(x)
    gelu        x*Phi(x), Phi the standard normal distribution (Hendrycks and Gimpel, 2016)
    sinusoid    sin(x)
    ==========  ==========================================================================

    Parameters
    ----------
    x : array of any shape
        float32 or float64.
    activation : str or Activation
        A name of the table, or a value such as `elu(alpha=0.5)`.

    Returns
    -------
    array of the shape of x

    Raises
    ------
    TypeError, ValueError
        If `x` is not such an array, or the activation is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.activate(np.asarray([-1.0, 2.0]), "relu")
    array([0., 2.])
    """
    shared_namespace(x=x)
    activation = named_activation(activation)
    return x if activation.kept == "nothing" else room_of(x).activate(x, activation)


def activation_gradient(dy: Array, kept: Array, activation: str | Activation) -> Array:
    """The gradient of an activation's input: `dy` times the derivative.

    The derivative of relu is 1 where the output is above 0, else 0, also at 0 and at NaN; leaky_relu and elu
    have their lower branch there.

    Parameters
    ----------
    dy : array of any shape
        Gradient of the output, float32 or float64.
    kept : array of the shape of dy
        The input of silu, gelu and sinusoid, the output of the others (`Activation.kept` tells).
    activation : str or Activation
        As in `activate`.

    Returns
    -------
    array of the shape of dy

    Raises
    ------
    TypeError, ValueError
        If the arrays' shapes, dtypes, namespaces or devices differ, or the activation is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> y = sx.activate(np.asarray([-1.0, 2.0]), "relu")
    >>> sx.activation_gradient(np.asarray([5.0, 7.0]), y, "relu")
    array([0., 7.])
    """
    shared_namespace(kept=kept, dy=dy)
    check_shape("dy", dy, kept.shape, "`kept`")
    activation = named_activation(activation)
    return dy if activation.kept == "nothing" else room_of(dy).activation_gradient(dy, kept, activation)
