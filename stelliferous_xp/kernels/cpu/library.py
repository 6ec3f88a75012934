"""Find the compiled kernels and choose the instruction set. Importing this never fails for want of a library."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

ISAS = ("avx512", "avx2", "neon", "plain")
NONE = "none"
VARIABLE = "STELLIFEROUS_XP_ISA"

_SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
_CTYPES: dict[str, Any] = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "f": ctypes.c_float}


def _load() -> tuple[ctypes.CDLL | None, str]:
    name = f"_kernels{_SUFFIX}"
    path = os.path.join(os.path.dirname(__file__), name)
    if not os.path.exists(path):
        return None, f"{name} was not built (no C++ compiler at install?)"
    try:
        return ctypes.CDLL(path), ""
    except OSError as error:
        return None, f"{name} cannot be loaded: {error}"


def _choose() -> str | None:
    forced = os.environ.get(VARIABLE)
    if forced == NONE:
        return None
    if not forced:
        return available_isas()[0] if available_isas() else None
    if forced in available_isas():
        return forced
    known = forced in ISAS
    usable = ", ".join(available_isas()) or f"none, {_reason}"
    raise ImportError(
        f"{VARIABLE}={forced!r} is {'not usable here' if known else 'unknown'}: "
        f"expected one of {', '.join(ISAS)}, {NONE}; usable here: {usable}"
    )


def available_isas() -> tuple[str, ...]:
    """The instruction sets this library was built for and this processor runs, best first."""
    return _available


def isa() -> str | None:
    """The instruction set in use; None where there are no kernels, or STELLIFEROUS_XP_ISA=none leaves them out."""
    return _isa


def reason() -> str:
    """Why there are no kernels in use; empty where there are."""
    return _reason or (f"{VARIABLE}={NONE}" if _isa is None else "")


def function(name: str, arguments: str) -> Callable[..., None]:
    """The kernel `name`; each letter of `arguments` is p (pointer), i (int64) or f (float32)."""
    if _library is None or _isa is None:
        return _missing
    kernel = _library[f"{name}_{_isa}"]
    kernel.argtypes = [_CTYPES[letter] for letter in arguments]
    kernel.restype = None
    return kernel


def _missing(*arguments: object) -> None:
    raise RuntimeError(f"no CPU kernels: {reason()}")


def address(array: np.ndarray) -> int:
    """Where the elements of a C-contiguous array begin."""
    return int(array.__array_interface__["data"][0])


_library, _reason = _load()
_available = tuple(name for name in ISAS if _library is not None and _library.runs_isa(name.encode()))
_isa = _choose()
