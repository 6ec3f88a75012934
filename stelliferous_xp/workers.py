"""The worker count, and running a list of blocks on that many workers.

The blocks of an operation depend on the shapes of its arrays alone. The worker count decides only how many
of them run at once, so it changes the speed and nothing else.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from stelliferous_xp.blas import one_blas_thread, own_blas_at_one_thread
from stelliferous_xp.checks import check_integer

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Block = TypeVar("Block")
Result = TypeVar("Result")

_MOST_THREADS = 1024

_default: int | None = None
_override: contextvars.ContextVar[int | None] = contextvars.ContextVar("workers", default=None)
_inside_a_block: contextvars.ContextVar[bool] = contextvars.ContextVar("inside_a_block", default=False)


def get_workers() -> int:
    """The number of workers that operations on NumPy arrays use now.

    Returns
    -------
    int
        The count of the innermost `workers` block around the call, else the last `set_workers`, else the
        number of CPUs that this process may use.

    Examples
    --------
    >>> import stelliferous_xp as sx
    >>> with sx.workers(3):
    ...     sx.get_workers()
    3
    """
    return _override.get() or _default or _available_cpus()


def set_workers(count: int) -> None:
    """Set the number of workers for the whole process; inside a `workers` block that block's count goes on.

    Parameters
    ----------
    count : int
        At least 1. It may exceed the number of CPUs.

    Raises
    ------
    TypeError, ValueError
        If `count` is not an integer, or below 1.

    Examples
    --------
    >>> import stelliferous_xp as sx
    >>> before = sx.get_workers()
    >>> sx.set_workers(2)
    >>> sx.get_workers()
    2
    >>> sx.set_workers(before)
    """
    global _default
    _default = check_integer("count", count, 1)


@contextlib.contextmanager
def workers(count: int) -> Iterator[None]:
    """Use `count` workers inside a `with` block; other threads are not affected.

    Parameters
    ----------
    count : int
        At least 1.

    Raises
    ------
    TypeError, ValueError
        If `count` is not an integer, or below 1.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> x = np.linspace(-1, 1, 50, dtype=np.float32).reshape(10, 5)
    >>> with sx.workers(1):
    ...     one = sx.activate(x, "tanh")
    >>> with sx.workers(4):
    ...     four = sx.activate(x, "tanh")
    >>> one.tobytes() == four.tobytes()
    True
    """
    token = _override.set(check_integer("count", count, 1))
    try:
        yield
    finally:
        _override.reset(token)


def _available_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_blocks(function: Callable[[Block], Result], blocks: Sequence[Block]) -> list[Result]:
    """`[function(block) for block in blocks]` on the workers, with BLAS held at one thread.

    The calling thread is one of the workers. A call from inside a block runs its own blocks in place. If
    blocks fail, the error of the first of them is raised, as a plain loop would.
    """
    if _inside_a_block.get():
        return [function(block) for block in blocks]
    results: list[Any] = [None] * len(blocks)
    errors: dict[int, BaseException] = {}
    waiting = deque(enumerate(blocks))

    def work() -> None:
        with own_blas_at_one_thread():
            while True:
                try:
                    index, block = waiting.popleft()
                except IndexError:
                    return
                try:
                    results[index] = function(block)
                except BaseException as error:
                    errors[index] = error
                    waiting.clear()

    token = _inside_a_block.set(True)
    try:
        with one_blas_thread:
            helpers = _start_helpers(min(get_workers(), len(blocks)) - 1, work)
            try:
                work()
            finally:
                waiting.clear()
                for helper in helpers:
                    if not helper.cancel():
                        helper.result()
    finally:
        _inside_a_block.reset(token)
    if errors:
        raise errors[min(errors)]
    return results


def _start_helpers(count: int, work: Callable[[], None]) -> list[Future[None]]:
    helpers: list[Future[None]] = []
    for _ in range(min(count, _MOST_THREADS)):
        try:
            helpers.append(_pool().submit(contextvars.copy_context().run, work))
        except RuntimeError as error:
            # An interpreter that is ending (atexit, a thread that outlives the main one) starts no more threads.
            if "shutdown" not in str(error):
                raise
            break
    return helpers


@functools.cache
def _pool() -> ThreadPoolExecutor:
    # Imported at first use, as it takes a third of this package's import time.
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="stelliferous_xp")


def _start_afresh_in_child() -> None:
    _pool.cache_clear()
    one_blas_thread.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh_in_child)
