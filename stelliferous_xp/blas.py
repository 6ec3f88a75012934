"""Holding BLAS at one thread, as its results change with its thread count."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple


class _OneBlasThread:
    """Holds BLAS at one thread while any thread of the process is inside; the last one out restores it.

    The thread count of most BLAS belongs to the process, so nested and concurrent uses have to be counted.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = [library.num_threads for library in _blas_libraries().of_the_process]
                for library in _blas_libraries().of_the_process:
                    _set_blas_threads(library, 1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._restore()

    def _restore(self) -> None:
        for library, count in zip(_blas_libraries().of_the_process, self._before, strict=True):
            _set_blas_threads(library, count)

    def reset_after_fork(self) -> None:
        """In a forked child no other thread is inside any more."""
        self._lock = threading.Lock()
        if self._inside:
            self._inside = 0
            self._restore()


@contextlib.contextmanager
def own_blas_at_one_thread() -> Iterator[None]:
    """Hold at one thread each BLAS whose count belongs to the calling thread."""
    libraries = _blas_libraries().of_each_thread
    before = [library.num_threads for library in libraries]
    for library in libraries:
        _set_blas_threads(library, 1)
    try:
        yield
    finally:
        for library, count in zip(libraries, before, strict=True):
            _set_blas_threads(library, count)


class _BlasLibraries(NamedTuple):
    """The BLAS libraries of the process, by whose thread count they have."""

    of_the_process: list[Any]
    of_each_thread: list[Any]


@functools.cache
def _blas_libraries() -> _BlasLibraries:
    from threadpoolctl import ThreadpoolController

    found = _BlasLibraries([], [])
    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        openmp = library.internal_api == "openblas" and library.threading_layer == "openmp"
        (found.of_each_thread if openmp else found.of_the_process).append(library)
    return found


def _set_blas_threads(library: Any, count: int) -> None:
    # Newer threadpoolctl silently ignores every thread but the first that sets a count, unless none is in control.
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(count)
    release(force=True)


one_blas_thread = _OneBlasThread()
