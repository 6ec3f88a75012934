"""Arithmetic between whole arrays."""

from __future__ import annotations

from stelliferous_xp.arrays import Array, shared_namespace
from stelliferous_xp.checks import check_shape
from stelliferous_xp.ops.rooms import room_of

__all__ = ["add"]


def add(left: Array, right: Array) -> Array:
    """The sum of two arrays of one shape; nothing is broadcast.

    Parameters
    ----------
    left, right : arrays of one shape
        float32 or float64.

    Returns
    -------
    array of that shape

    Raises
    ------
    TypeError, ValueError
        If shapes, dtypes, namespaces or devices differ.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.add(np.asarray([1.0, 2.0]), np.asarray([3.0, 4.0]))
    array([4., 6.])
    """
    shared_namespace(left=left, right=right)
    check_shape("right", right, left.shape, "`left`")
    return room_of(left).add(left, right)
