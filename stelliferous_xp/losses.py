"""Losses, each with the gradient of its prediction, and the targets they take."""

from __future__ import annotations

from typing import Any

from stelliferous_xp.arrays import Array, Namespace, creation, device, namespace_of, shared_namespace, to_numpy
from stelliferous_xp.checks import check_integer, check_rank, check_shape
from stelliferous_xp.ops.rooms import room_of

__all__ = ["cross_entropy", "mse", "one_hot"]


def mse(prediction: Array, target: Array) -> tuple[Array, Array]:
    """Mean squared error over all elements: ``mean((prediction - target)**2)``.

    Parameters
    ----------
    prediction, target : arrays of one shape, of rank 1 or more
        float32 or float64, at least one element. Nothing is broadcast.

    Returns
    -------
    loss : 0-d array
    gradient : array of the shape of prediction
        ``2*(prediction - target)/elements``.

    Raises
    ------
    TypeError, ValueError
        If shapes, dtypes, namespaces or devices differ, or there is no element.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.mse(np.asarray([1.0, 2.0]), np.asarray([1.0, 4.0]))
    (array(2.), array([ 0., -2.]))
    """
    shared_namespace(prediction=prediction, target=target)
    check_shape("target", target, prediction.shape, "`prediction`")
    if prediction.ndim == 0 or 0 in prediction.shape:
        raise ValueError(f"`prediction` must have rank 1 or more and an element at least; "
                         f"got shape {tuple(prediction.shape)}")
    loss, gradient = room_of(prediction).mse(prediction, target)
    return loss, gradient


def cross_entropy(logits: Array, target: Array) -> tuple[Array, Array]:
    """Cross entropy of the softmax of `logits` against class probabilities, mean over the rows.

    ``loss = -1/N * sum over n, k of target[n,k] * log(softmax(logits[n])[k])``. Stable for logits of any
    magnitude; a logit of -inf is a class of probability 0, which costs nothing where the target is 0.

    Parameters
    ----------
    logits : array of shape (N, K)
        float32 or float64, N and K at least 1.
    target : array of shape (N, K)
        Rows of class probabilities, such as `one_hot` gives. The values are not checked, so that nothing
        leaves the device; a row of zeros leaves its example out of the sum.

    Returns
    -------
    loss : 0-d array
    gradient : array of shape (N, K)
        ``(softmax(logits)*sum(target, axis 1) - target)/N``.

    Raises
    ------
    TypeError, ValueError
        If shapes, dtypes, namespaces or devices differ, or there is no row.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> loss, gradient = sx.cross_entropy(np.asarray([[0.0, 0.0]]), np.asarray([[1.0, 0.0]]))
    >>> round(float(loss), 6), gradient
    (0.693147, array([[-0.5,  0.5]]))
    """
    shared_namespace(logits=logits, target=target)
    check_rank("logits", logits, "(N, K)")
    check_shape("target", target, logits.shape, "`logits`")
    if 0 in logits.shape:
        raise ValueError(f"`logits` must have at least one row and one class; got shape {tuple(logits.shape)}")
    loss, gradient = room_of(logits).cross_entropy(logits, target)
    return loss, gradient


def one_hot(labels: Array, classes: int, dtype: Any = "float32") -> Array:
    """Rows that are 1 at the label and 0 elsewhere.

    Parameters
    ----------
    labels : array of shape (N,)
        Integers of any width, or floats that are whole numbers, in [0, classes).
    classes : int
        The number of classes, at least 1.
    dtype : str or dtype
        "float32" or "float64", or the dtype of that name in the library of `labels`.

    Returns
    -------
    array of shape (N, classes)

    Raises
    ------
    TypeError
        If `labels` are neither integers nor floats, or `dtype` is another.
    ValueError
        If a label is not a whole number in range; the first such label is named. Checking reads the labels
        from their device.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.one_hot(np.asarray([2, 0]), 3)
    array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    xp = namespace_of("labels", labels)
    if not xp.isdtype(labels.dtype, ("integral", "real floating")):
        raise TypeError(f"`labels` must be integers or whole floats; got dtype {labels.dtype}")
    check_rank("labels", labels, "(N,)")
    classes = check_integer("classes", classes, 1)
    _, dtype = creation(xp, dtype)
    fits = _in_range(xp, labels, classes)
    if not bool(xp.all(fits)):
        first = int(xp.argmin(xp.astype(fits, xp.int32)))
        raise ValueError(f"`labels` must be whole numbers from 0 to {classes - 1}; "
                         f"got {to_numpy(labels)[first]} at position {first}")
    each_class = xp.arange(classes, dtype=xp.int32, device=device(labels))
    return xp.astype(xp.astype(labels, xp.int32)[:, None] == each_class, dtype)


def _in_range(xp: Namespace, labels: Array, classes: int) -> Array:
    if xp.isdtype(labels.dtype, "real floating"):
        largest = min(classes - 1, float(xp.finfo(labels.dtype).max))
        return (labels == xp.round(labels)) & (labels >= 0) & (labels <= largest)
    # In int32 and back, because PyTorch has no order for the wide unsigned integers.
    narrow = xp.astype(labels, xp.int32)
    return (narrow >= 0) & (narrow < classes) & (xp.astype(narrow, labels.dtype) == labels)
