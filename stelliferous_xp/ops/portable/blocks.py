"""Cutting work along the first axis.

Arrays of NumPy are cut into blocks of rows (images) that depend on the shapes alone and run on the workers,
each over a C-contiguous copy or view of its rows; what the blocks give is combined by a fixed tree. Other
libraries bring their own parallelism and get one block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeVar

import numpy

from stelliferous_xp.arrays import Array, is_numpy_array
from stelliferous_xp.workers import run_blocks

Part = TypeVar("Part")

_ROWS = 8
_LEAST_ELEMENTS = 2**16


def map_rows(function: Callable[..., Array], *arrays: Array, shape: Sequence[int]) -> Array:
    """`function(*arrays)` of the given `shape`, where row n of the result depends on row n of the arrays only."""
    if not is_numpy_array(arrays[0]):
        return function(*arrays)
    if arrays[0].ndim == 0:
        return numpy.asarray(function(*arrays))
    result = numpy.empty(tuple(shape), arrays[0].dtype)

    def run(rows: slice) -> None:
        result[rows] = function(*_rows_of(arrays, rows))

    run_blocks(run, _blocks(arrays[0].shape))
    return result


def reduce_rows(function: Callable[..., Part], combine: Callable[[Part, Part], Part], *arrays: Array) -> Part:
    """`function` of each block of rows, combined by the tree."""
    if not is_numpy_array(arrays[0]):
        return function(*arrays)
    return tree(run_blocks(lambda rows: function(*_rows_of(arrays, rows)), _blocks(arrays[0].shape)), combine)


def tree(parts: Sequence[Part], combine: Callable[[Part, Part], Part]) -> Part:
    """Combine neighbours until one is left; an odd last one is carried up unchanged."""
    while len(parts) > 1:
        pairs = [combine(left, right) for left, right in zip(parts[::2], parts[1::2], strict=False)]
        parts = [*pairs, parts[-1]] if len(parts) % 2 else pairs
    return parts[0]


def _blocks(shape: tuple[int, ...]) -> list[slice]:
    rows, elements_a_row = shape[0], max(1, prod(shape[1:]))
    size = _ROWS
    while size < rows and size * elements_a_row < _LEAST_ELEMENTS:
        size *= 2
    return [slice(start, start + size) for start in range(0, max(rows, 1), size)]


def contiguous(array: Array) -> Array:
    """An array of NumPy in C order, since BLAS and NumPy's sums take another order in another layout."""
    return numpy.ascontiguousarray(array) if is_numpy_array(array) else array


def _rows_of(arrays: Sequence[Array], rows: slice) -> list[Array]:
    return [contiguous(array[rows]) for array in arrays]
