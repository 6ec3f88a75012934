"""Pooling and its gradients."""

from __future__ import annotations

from stelliferous_xp.arrays import Array, shared_namespace
from stelliferous_xp.checks import check_pair, check_rank, check_shape
from stelliferous_xp.ops.rooms import room_of

__all__ = ["average_pool", "average_pool_gradient"]


def average_pool(x: Array) -> Array:
    """The mean of each plane (global average pooling; Lin et al., 2013).

    Parameters
    ----------
    x : array of shape (N, C, H, W)
        float32 or float64; N may be 0.

    Returns
    -------
    array of shape (N, C, 1, 1)

    Raises
    ------
    TypeError, ValueError
        If `x` is not such an array, or its planes are empty.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.average_pool(np.arange(4.0).reshape(1, 1, 2, 2))
    array([[[[1.5]]]])
    """
    shared_namespace(x=x)
    check_rank("x", x, "(N, C, H, W)")
    if 0 in x.shape[2:]:
        raise ValueError(f"`x` must have planes of at least one element; got shape {tuple(x.shape)}")
    return room_of(x).average_pool(x)


def average_pool_gradient(dy: Array, input_plane: tuple[int, int]) -> Array:
    """The gradient of the input of `average_pool`: each element's equal share of `dy`.

    Parameters
    ----------
    dy : array of shape (N, C, 1, 1)
        Gradient of the output, float32 or float64.
    input_plane : pair of int
        (H, W) of the input.

    Returns
    -------
    array of shape (N, C, H, W)

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.average_pool_gradient(np.ones((1, 1, 1, 1)), (1, 2))
    array([[[[0.5, 0.5]]]])
    """
    shared_namespace(dy=dy)
    check_rank("dy", dy, "(N, C, 1, 1)")
    check_shape("dy", dy, (*dy.shape[:2], 1, 1), "the output")
    return room_of(dy).average_pool_gradient(dy, check_pair("input_plane", input_plane, 1))
