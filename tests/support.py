"""What the kernel tests share: comparing bits, arrays full of special values, every instruction set and worker count."""

from __future__ import annotations

import ctypes
import functools
import importlib
import mmap
import os
import sys
from collections.abc import Callable
from types import ModuleType
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("kernels", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("kernels")

WORKERS = (1, 2, 3, 4, 7)
PACKAGE = "stelliferous_xp.kernels.cpu"

SPECIALS = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1.1e-38, -5e-39, 1e38, -3e38, 1e-20, -1e-30, 1.0], np.float32
)
FINITE_SPECIALS = SPECIALS[3:]


def floats(rng: np.random.Generator, *shape: int, rare: float = 0.0, among: np.ndarray = SPECIALS) -> np.ndarray:
    """Ordinary values, and with probability `rare` one of `among`."""
    values = rng.standard_normal(shape).astype(np.float32)
    return np.where(rng.random(shape) < rare, rng.choice(among, shape), values)


def same_bits(result: np.ndarray, expected: np.ndarray) -> None:
    """Equal as bits; NaN equals NaN."""
    result, expected = np.asarray(result), np.asarray(expected)
    assert result.dtype == expected.dtype == np.float32
    assert result.shape == expected.shape
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(result), nan)
    np.testing.assert_array_equal(np.where(nan, 0, result.view(np.uint32)), np.where(nan, 0, expected.view(np.uint32)))


def code(activation: str) -> int:
    """The number of an activation (activation.h)."""
    names = "identity relu leaky_relu elu sigmoid tanh softplus silu gelu sinusoid"
    return names.split().index(activation)


class Guarded:
    """Arrays that touch an inaccessible page with their last (or first) element, and a canary on the other side."""

    CANARY = 0xA5

    def __init__(self, at_end: bool) -> None:
        self.at_end = at_end
        self.canaries: list[np.ndarray] = []

    def empty(self, shape: object, dtype: object = np.float32, **_: object) -> np.ndarray:
        dtype = np.dtype(dtype)
        size = int(np.prod(shape)) * dtype.itemsize
        page = mmap.PAGESIZE
        room = -(-max(size, 1) // page) * page
        memory = np.frombuffer(mmap.mmap(-1, room + 2 * page), np.uint8)
        memory[:] = self.CANARY
        start = page + room - size if self.at_end else page
        self.canaries += [memory[page:start], memory[start + size : page + room]]
        _protect(memory[:page])
        _protect(memory[page + room :])
        return memory[start : start + size].view(dtype).reshape(shape)

    def empty_like(self, array: np.ndarray, dtype: object = None, **_: object) -> np.ndarray:
        return self.empty(array.shape, array.dtype if dtype is None else dtype)

    def zeros(self, shape: object, dtype: object = np.float32, **_: object) -> np.ndarray:
        array = self.empty(shape, dtype)
        array[...] = 0
        return array

    def copy(self, array: np.ndarray) -> np.ndarray:
        result = self.empty(array.shape, array.dtype)
        result[...] = array
        result.flags.writeable = False
        return result

    def check(self) -> None:
        for canary in self.canaries:
            assert (canary == self.CANARY).all(), "a kernel wrote outside its arrays"


def _protect(page: np.ndarray) -> None:
    if sys.platform != "win32":
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(page.ctypes.data), ctypes.c_size_t(page.nbytes), 0) == 0


def guarded(function: Callable, at_end: bool, *arguments: object) -> object:
    """`function(*arguments)`, its arrays and those it makes guarded; the arguments must come through unchanged."""
    guard = Guarded(at_end)
    copies = [guard.copy(a) if isinstance(a, np.ndarray) else a for a in arguments]
    with mock.patch.multiple(np, empty=guard.empty, empty_like=guard.empty_like, zeros=guard.zeros):
        result = function(*copies)
    guard.check()
    for copy, original in zip(copies, arguments, strict=False):
        if isinstance(original, np.ndarray):
            assert copy.tobytes() == original.tobytes(), "a kernel changed an argument"
    return result


@functools.cache
def family(name: str, isa: str) -> ModuleType:
    """The wrappers of one family, bound to one instruction set."""
    mine = {key: sys.modules.pop(key) for key in list(sys.modules) if key.startswith(PACKAGE)}
    try:
        with mock.patch.dict(os.environ, STELLIFEROUS_XP_ISA=isa):
            return importlib.import_module(f"{PACKAGE}.{name}")
    finally:
        for key in [key for key in sys.modules if key.startswith(PACKAGE)]:
            del sys.modules[key]
        sys.modules.update(mine)
        if PACKAGE in mine:
            sys.modules[PACKAGE.rpartition(".")[0]].cpu = mine[PACKAGE]


def isas() -> tuple[str, ...]:
    library = importlib.import_module(f"{PACKAGE}.library")
    if not library.available_isas():
        pytest.skip(library.reason())
    return library.available_isas()


class _Elementary:
    """The library's elementary functions for the oracle. Their bits are equal on all instruction sets (test_elementary.py)."""

    def __init__(self) -> None:
        self._apply = family("elementary", isas()[0]).elementary

    def __getattr__(self, name: str) -> Callable[[np.ndarray], np.ndarray]:
        return lambda x: self._apply(np.ascontiguousarray(x), name, 1)


elementary = functools.cache(_Elementary)


def check(expected: object, name: str, function: str, *arguments: object, workers: tuple[int, ...] = WORKERS) -> None:
    """`function(*arguments, workers)` of family `name` gives the expected array(s) for every instruction set and worker count.

    Odd counts run with the guard behind the arrays, even ones with the guard before them.
    """
    single = isinstance(expected, np.ndarray)
    for isa in isas():
        call = getattr(family(name, isa), function)
        for count in workers:
            try:
                result = guarded(call, count % 2 == 1, *arguments, count)
                for r, e in zip((result,) if single else result, (expected,) if single else expected, strict=True):
                    same_bits(r, e)
            except AssertionError as error:
                error.add_note(f"{name}.{function} on {isa} with {count} workers")
                raise
