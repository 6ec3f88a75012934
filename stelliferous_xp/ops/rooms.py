"""Which room computes: the only place that decides, by the type and dtype of the arrays."""

from __future__ import annotations

from types import ModuleType

from stelliferous_xp.arrays import Array, is_numpy_array
from stelliferous_xp.kernels.cpu import library
from stelliferous_xp.ops import cpu_kernels, portable


def room_of(array: Array) -> ModuleType:
    """The module with the operations for `array` and what goes with it.

    The kernels take float32 arrays of NumPy that have elements; everything else is portable.
    """
    if is_numpy_array(array) and array.dtype == "float32" and array.size and library.isa():
        return cpu_kernels
    return portable
