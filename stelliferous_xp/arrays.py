"""What arrays have in common: their namespace, dtype and device.

The only module that imports array_api_compat and array_api_extra, so that the rest of the library sees
plain array API namespaces, called `xp` throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

import array_api_compat
import numpy
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array
from array_api_extra import at, pad

__all__ = ["Array", "Like", "Namespace", "array_namespace", "at", "copied", "creation", "device", "is_numpy_array",
           "move", "namespace_of", "pad", "shared_namespace", "to_numpy"]

Array: TypeAlias = Any
"""An array of any library that follows the Python array API standard."""
Namespace: TypeAlias = Any
"""The array API namespace of a library, such as `numpy` or `cupy`."""


def namespace_of(name: str, array: Array) -> Namespace:
    """The array API namespace of one array; `name` is for the error.

    Raises
    ------
    TypeError
        If `array` is not an array.
    """
    if not is_array_api_obj(array):
        raise TypeError(f"`{name}` must be an array; got {type(array).__name__}")
    return array_namespace(array)


def shared_namespace(**arrays: Array) -> Namespace:
    """The one namespace of some arrays, given by their argument names.

    Raises
    ------
    TypeError
        If one is not an array, the libraries or dtypes differ, or the dtype is neither float32 nor float64.
    ValueError
        If the devices differ.
    """
    (first_name, first), *others = arrays.items()
    xp = namespace_of(first_name, first)
    if first.dtype != xp.float32 and first.dtype != xp.float64:
        raise TypeError(f"`{first_name}` must have dtype float32 or float64; got {first.dtype}")
    for name, array in others:
        _check_same_kind(name, array, first_name, Like.of(first))
    return xp


def _check_same_kind(name: str, array: Array, model_name: str, model: Like) -> None:
    xp = namespace_of(name, array)
    if xp is not model.namespace:
        raise TypeError(f"`{name}` must be an array of {_library(model.namespace)} like `{model_name}`; "
                        f"got one of {_library(xp)}")
    if array.dtype != model.dtype:
        raise TypeError(f"`{name}` must have dtype {model.dtype} like `{model_name}`; got {array.dtype}")
    if device(array) != model.device:
        raise ValueError(f"`{name}` must be on device {model.device} like `{model_name}`; got {device(array)}")


def _library(xp: Namespace) -> str:
    return str(xp.__name__).removeprefix("array_api_compat.")


@dataclass(frozen=True)
class Like:
    """What an array looks like, without its values: enough to check another one against it."""

    namespace: Namespace
    shape: tuple[int, ...]
    dtype: Any
    device: Any

    @classmethod
    def of(cls, array: Array) -> Like:
        """The look of `array`."""
        return cls(array_namespace(array), tuple(array.shape), array.dtype, device(array))

    def check(self, name: str, array: Array, model_name: str) -> None:
        """Raise a TypeError or ValueError unless `array` looks like this, which is the look of `model_name`."""
        _check_same_kind(name, array, model_name, self)
        if tuple(array.shape) != self.shape:
            raise ValueError(f"`{name}` must have shape {self.shape}; got {tuple(array.shape)}")


def creation(xp: Namespace | None, dtype: Any) -> tuple[Namespace, Any]:
    """The namespace and dtype for a new array: `xp` None means NumPy; `dtype` a name, the library's own, or None.

    Raises
    ------
    TypeError
        If `xp` is not an array library, or `dtype` is neither float32 nor float64.
    """
    xp = numpy if xp is None else xp
    dtype = "float32" if dtype is None else dtype
    if not isinstance(xp, ModuleType) or not hasattr(xp, "empty"):
        raise TypeError(f"`xp` must be an array library such as numpy or cupy; got {xp!r}")
    xp = array_namespace(xp.empty(0))
    for allowed in ("float32", "float64"):
        if isinstance(dtype, str):
            if dtype == allowed:
                return xp, getattr(xp, allowed)
        elif dtype is getattr(xp, allowed) or dtype == getattr(xp, allowed):
            return xp, getattr(xp, allowed)
    raise TypeError(f"`dtype` must be float32 or float64; got {dtype!r}")


def copied(array: Array) -> Array:
    """A copy, so that what holds it does not change when the caller writes to `array`."""
    return array_namespace(array).asarray(array, copy=True)


def to_numpy(array: Array) -> numpy.ndarray[Any, Any]:
    """A copy of `array` in host memory. A transfer: for checkpoints and digests, not for layers."""
    if array_api_compat.is_torch_array(array):
        host = array.detach().cpu().numpy()
    elif array_api_compat.is_cupy_array(array):
        host = array.get()
    elif array_api_compat.is_array_api_strict_namespace(xp := array_namespace(array)):
        host = array.to_device(xp.Device("CPU_DEVICE"))
    else:
        host = array
    return numpy.array(host)


def move(array: Array, xp: Namespace, target: Any) -> Array:
    """A copy of `array`, bit for bit, in the library `xp` on device `target` (None: the library's default)."""
    return xp.asarray(to_numpy(array), device=target)
