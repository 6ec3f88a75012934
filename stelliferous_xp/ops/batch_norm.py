"""Batch normalisation (Ioffe and Szegedy, 2015) of [N, C, H, W] or [N, C] arrays, over all but the channels."""

from __future__ import annotations

from math import prod

from stelliferous_xp.arrays import Array, Namespace, shared_namespace
from stelliferous_xp.checks import check_number, check_rank, check_shape
from stelliferous_xp.ops.activation_values import Activation, named_activation
from stelliferous_xp.ops.rooms import room_of

__all__ = ["batch_moments", "batch_norm", "batch_norm_gradient"]

_FORMS = ("(N, C, H, W)", "(N, C)")


def batch_moments(x: Array) -> tuple[Array, Array]:
    """Mean and biased variance of each channel.

    Parameters
    ----------
    x : array of shape (N, C, H, W) or (N, C)
        float32 or float64, at least one value a channel.

    Returns
    -------
    mean, variance : arrays of shape (C,)
        A channel that is constant has exactly its value as mean and 0 as variance, whatever its magnitude.

    Raises
    ------
    TypeError, ValueError
        If `x` is not such an array, or is empty.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.batch_moments(np.asarray([[1.0, 5.0], [3.0, 5.0]]))
    (array([2., 5.]), array([1., 0.]))
    """
    xp = shared_namespace(x=x)
    check_rank("x", x, *_FORMS)
    if 0 in x.shape:
        raise ValueError(f"`x` must have at least one value a channel; got shape {tuple(x.shape)}")
    mean, variance = room_of(x).batch_moments(_planes(xp, x))
    return mean, variance


def batch_norm(x: Array, mean: Array, variance: Array, gamma: Array, beta: Array, epsilon: float = 1e-5,
               activation: str | Activation = "identity") -> Array:
    """Normalise each channel and apply an activation: ``f(gamma * (x - mean)/sqrt(variance + epsilon) + beta)``.

    Parameters
    ----------
    x : array of shape (N, C, H, W) or (N, C)
        float32 or float64; N may be 0.
    mean, variance : arrays of shape (C,)
        Of the batch in training, running ones in inference.
    gamma, beta : arrays of shape (C,)
        Scale and shift.
    epsilon : float
        At least 0.
    activation : str or Activation
        Applied to the normalised values, with the bits that `activate` would give.

    Returns
    -------
    array of the shape of x

    Raises
    ------
    TypeError, ValueError
        If shapes, dtypes, namespaces or devices do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> x, one, zero = np.asarray([[1.0], [3.0]]), np.ones(1), np.zeros(1)
    >>> sx.batch_norm(x, np.asarray([2.0]), one, one, zero, epsilon=0.0)
    array([[-1.],
           [ 1.]])
    """
    xp = shared_namespace(x=x, mean=mean, variance=variance, gamma=gamma, beta=beta)
    check_rank("x", x, *_FORMS)
    check_per_channel(x.shape[1], mean=mean, variance=variance, gamma=gamma, beta=beta)
    epsilon = check_number("epsilon", epsilon, 0.0)
    y = room_of(x).batch_norm(_planes(xp, x), mean, variance, gamma, beta, epsilon, named_activation(activation))
    return xp.reshape(y, x.shape)


def batch_norm_gradient(dy: Array, x: Array, mean: Array, variance: Array, gamma: Array, beta: Array,
                        epsilon: float = 1e-5, activation: str | Activation = "identity",
                        ) -> tuple[Array, Array, Array]:
    """The gradients of batch normalisation in training, where mean and variance depend on `x`.

    With xhat the normalised x and M values a channel: ``dbeta = sum(dy)``, ``dgamma = sum(dy*xhat)``,
    ``dx = gamma/sqrt(variance + epsilon) * (dy - dbeta/M - xhat*dgamma/M)``. With an activation, `dy` is first
    taken through it, its output made again from `x`.

    Parameters
    ----------
    dy, x : arrays of shape (N, C, H, W) or (N, C)
        Gradient of the output, and the input; float32 or float64.
    mean, variance : arrays of shape (C,)
        `batch_moments` of `x`.
    gamma, beta : arrays of shape (C,)
        Scale and shift.
    epsilon, activation
        As in `batch_norm`.

    Returns
    -------
    dx : array of the shape of x
    dgamma, dbeta : arrays of shape (C,)

    Raises
    ------
    TypeError, ValueError
        If shapes, dtypes, namespaces or devices do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> x = np.asarray([[1.0], [3.0]])
    >>> dx, dgamma, dbeta = sx.batch_norm_gradient(np.ones((2, 1)), x, *sx.batch_moments(x), np.ones(1), np.zeros(1))
    >>> dx, dgamma, dbeta
    (array([[0.],
           [0.]]), array([0.]), array([2.]))
    """
    xp = shared_namespace(x=x, mean=mean, variance=variance, gamma=gamma, beta=beta, dy=dy)
    check_rank("x", x, *_FORMS)
    check_shape("dy", dy, x.shape, "`x`")
    check_per_channel(x.shape[1], mean=mean, variance=variance, gamma=gamma, beta=beta)
    epsilon = check_number("epsilon", epsilon, 0.0)
    dx, dgamma, dbeta = room_of(x).batch_norm_gradient(
        _planes(xp, dy), _planes(xp, x), mean, variance, gamma, beta, epsilon, named_activation(activation))
    return xp.reshape(dx, x.shape), dgamma, dbeta


def check_per_channel(channels: int, **arrays: Array) -> None:
    """Check that each array has shape (channels,)."""
    for name, array in arrays.items():
        check_shape(name, array, (channels,), f"the {channels} channels")


def _planes(xp: Namespace, x: Array) -> Array:
    return xp.reshape(x, (*x.shape[:2], prod(x.shape[2:])))
