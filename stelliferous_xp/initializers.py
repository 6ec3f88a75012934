"""Random parameters, drawn on the host in float64 and then cast, so that a seed gives the same on every backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import Any

import numpy

from stelliferous_xp.arrays import Array, Namespace, creation
from stelliferous_xp.checks import check_integer, check_number

__all__ = ["glorot_uniform", "he_normal", "lecun_normal", "uniform"]


def he_normal(rng: numpy.random.Generator, shape: Sequence[int], *, xp: Namespace | None = None,
              dtype: Any = "float32", device: Any = None) -> Array:
    """Normal with variance 2/fan_in, for layers followed by a ReLU (He et al., 2015).

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the draws; it is advanced.
    shape : sequence of int
        (outputs, inputs) or (outputs, inputs, kh, kw); fan_in is inputs*kh*kw.
    xp, dtype, device
        As in `batch_norm_layer`.

    Returns
    -------
    array of the shape

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.he_normal(np.random.default_rng(0), (16, 3, 3, 3)).shape
    (16, 3, 3, 3)
    """
    fan_in, _ = _fans(shape)
    return _drawn(rng, lambda: rng.standard_normal(tuple(shape)) * sqrt(2.0 / fan_in), xp, dtype, device)


def lecun_normal(rng: numpy.random.Generator, shape: Sequence[int], *, xp: Namespace | None = None,
                 dtype: Any = "float32", device: Any = None) -> Array:
    """Normal with variance 1/fan_in (LeCun et al., 1998); see `he_normal`.

    Parameters
    ----------
    rng : numpy.random.Generator
    shape : sequence of int
    xp, dtype, device
        As in `he_normal`.

    Returns
    -------
    array of the shape

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.lecun_normal(np.random.default_rng(0), (10, 64)).dtype
    dtype('float32')
    """
    fan_in, _ = _fans(shape)
    return _drawn(rng, lambda: rng.standard_normal(tuple(shape)) * sqrt(1.0 / fan_in), xp, dtype, device)


def glorot_uniform(rng: numpy.random.Generator, shape: Sequence[int], *, xp: Namespace | None = None,
                   dtype: Any = "float32", device: Any = None) -> Array:
    """Uniform within plus or minus sqrt(6/(fan_in + fan_out)) (Glorot and Bengio, 2010).

    Parameters
    ----------
    rng : numpy.random.Generator
    shape : sequence of int
        As in `he_normal`; fan_out is outputs*kh*kw.
    xp, dtype, device
        As in `he_normal`.

    Returns
    -------
    array of the shape

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> weights = sx.glorot_uniform(np.random.default_rng(0), (4, 2), dtype="float64")
    >>> bool(np.all(np.abs(weights) <= 1.0))
    True
    """
    limit = sqrt(6.0 / sum(_fans(shape)))
    return _drawn(rng, lambda: rng.uniform(-limit, limit, tuple(shape)), xp, dtype, device)


def uniform(rng: numpy.random.Generator, shape: Sequence[int], low: float = -1.0, high: float = 1.0, *,
            xp: Namespace | None = None, dtype: Any = "float32", device: Any = None) -> Array:
    """Uniform in [low, high), before it is rounded to `dtype`.

    Parameters
    ----------
    rng : numpy.random.Generator
    shape : sequence of int
        Of any rank.
    low, high : float
        Finite, low at most high.
    xp, dtype, device
        As in `he_normal`.

    Returns
    -------
    array of the shape

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.uniform(np.random.default_rng(0), (3,), low=5.0, high=5.0)
    array([5., 5., 5.], dtype=float32)
    """
    low = check_number("low", low)
    high = check_number("high", high, low)
    _check_extents(shape, 0)
    return _drawn(rng, lambda: rng.uniform(low, high, tuple(shape)), xp, dtype, device)


def _check_extents(shape: Sequence[int], minimum: int) -> None:
    if not isinstance(shape, Sequence):
        raise TypeError(f"`shape` must be a sequence of integers; got {shape!r}")
    for index, extent in enumerate(shape):
        check_integer(f"shape[{index}]", extent, minimum)


def _fans(shape: Sequence[int]) -> tuple[int, int]:
    _check_extents(shape, 1)
    if len(shape) < 2:
        raise ValueError(f"`shape` must be (outputs, inputs, ...); got {tuple(shape)}")
    taps = prod(shape[2:])
    return shape[1] * taps, shape[0] * taps


def _drawn(rng: numpy.random.Generator, draw: Callable[[], numpy.ndarray[Any, Any]], xp: Namespace | None,
           dtype: Any, device: Any) -> Array:
    if not isinstance(rng, numpy.random.Generator):
        raise TypeError(f"`rng` must be a numpy.random.Generator, such as numpy.random.default_rng(0); "
                        f"got {type(rng).__name__}")
    xp, dtype = creation(xp, dtype)
    xp.empty(0, dtype=dtype, device=device)  # A device that the library has not is an error before `rng` moves.
    return xp.asarray(draw().astype("float32" if dtype == xp.float32 else "float64"), device=device)
