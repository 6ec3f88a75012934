"""The worker count and the pool: who counts, where blocks run, what an error leaves behind."""

import contextvars
import os
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_limits
from threads import PATIENCE, blas_threads, in_threads

import stelliferous_xp as sx
from stelliferous_xp.workers import run_blocks


@pytest.fixture(autouse=True)
def process_default(monkeypatch):
    """Every test starts without an earlier `set_workers`, and leaves none."""
    monkeypatch.setattr(sys.modules["stelliferous_xp.workers"], "_default", None)


# The count


def test_the_default_is_the_cpus_of_the_process():
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert sx.get_workers() == cpus


def test_blocks_nest_and_end_with_an_exception():
    sx.set_workers(5)
    with sx.workers(3):
        with pytest.raises(ValueError, match="`stride`"), sx.workers(2):
            sx.conv2d_layer(np.ones((1, 1, 1, 1)), stride=sx.get_workers() - 2)
        assert sx.get_workers() == 3
        sx.set_workers(7)
        assert sx.get_workers() == 3
    assert sx.get_workers() == 7


def test_a_block_counts_for_its_own_thread_only():
    sx.set_workers(5)
    ready = threading.Barrier(3)

    def own(count):
        with sx.workers(count):
            ready.wait(PATIENCE)
            return sx.get_workers()

    def none():
        ready.wait(PATIENCE)
        return sx.get_workers()

    with sx.workers(2):
        assert in_threads(lambda: own(3), lambda: own(4), none) == [3, 4, 5]
        assert sx.get_workers() == 2


def test_set_workers_counts_for_every_thread():
    in_threads(lambda: sx.set_workers(6))
    assert sx.get_workers() == 6


@pytest.mark.parametrize("count", [0, -1])
def test_a_count_below_one(count):
    with pytest.raises(ValueError, match=f"`count` must be at least 1; got {count}"):
        sx.set_workers(count)
    with pytest.raises(ValueError, match="`count` must be at least 1"), sx.workers(count):
        pass


@pytest.mark.parametrize("count", [2.0, "2", None, True, np.float64(2), [2]])
def test_a_count_that_is_no_integer(count):
    sx.set_workers(3)
    with pytest.raises(TypeError, match="`count` must be an integer; got "):
        sx.set_workers(count)
    with pytest.raises(TypeError, match="`count` must be an integer"), sx.workers(count):
        pass
    assert sx.get_workers() == 3


def test_a_count_of_an_integer_type_of_numpy():
    with sx.workers(np.int64(3)):
        assert sx.get_workers() == 3
        assert type(sx.get_workers()) is int


# The blocks


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 100])
@pytest.mark.parametrize("blocks", [0, 1, 2, 13])
def test_results_come_in_the_order_of_the_blocks(count, blocks):
    with sx.workers(count):
        assert run_blocks(lambda block: block * block, range(blocks)) == [block * block for block in range(blocks)]


@pytest.mark.parametrize("count", [2, 4])
def test_as_many_blocks_run_at_once_as_there_are_workers(count):
    together = threading.Barrier(count)

    def block(_):
        together.wait(PATIENCE)
        return threading.get_ident()

    with sx.workers(count):
        used = run_blocks(block, range(count))
    assert len(set(used)) == count
    assert threading.get_ident() in used


def test_one_worker_is_the_calling_thread():
    with sx.workers(1):
        assert set(run_blocks(lambda _: threading.get_ident(), range(9))) == {threading.get_ident()}


def test_no_more_threads_than_workers():
    with sx.workers(3):
        assert len(set(run_blocks(lambda _: threading.get_ident(), range(200)))) <= 3


def test_more_workers_than_the_pool_has_threads():
    with sx.workers(10**9):
        assert run_blocks(lambda block: block, range(3)) == [0, 1, 2]


def test_a_call_inside_a_block_runs_in_its_place():
    def outer(block):
        return run_blocks(lambda inner: (block, inner, threading.get_ident()), range(3)), threading.get_ident()

    with sx.workers(4):
        for block, (inner, ident) in enumerate(run_blocks(outer, range(8))):
            assert inner == [(block, index, ident) for index in range(3)]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_error_of_the_first_failing_block(count):
    def block(index):
        if index in (5, 6, 11):
            raise LookupError(f"block {index}")
        return index

    with sx.workers(count):
        for _ in range(30):
            with pytest.raises(LookupError, match="block 5"):
                run_blocks(block, range(12))
        assert run_blocks(lambda index: index, range(12)) == list(range(12))


def test_the_first_error_of_blocks_that_fail_at_once():
    together = threading.Barrier(2)

    def block(index):
        together.wait(PATIENCE)
        raise LookupError(f"block {index}")

    with sx.workers(2):
        for _ in range(10):
            with pytest.raises(LookupError, match="block 0"):
                run_blocks(block, range(2))


def test_an_error_waits_for_the_blocks_that_run():
    """Nothing of a failed call goes on after it."""
    started, finished = threading.Event(), []

    def block(index):
        if index == 0:
            assert started.wait(PATIENCE)
            raise LookupError
        started.set()
        threading.Event().wait(0.05)
        finished.append(index)

    with sx.workers(2), pytest.raises(LookupError):
        run_blocks(block, range(2))
    assert finished == [1]


def test_blocks_see_the_context_of_the_caller():
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(5)
    together = threading.Barrier(3)

    def block(_):
        together.wait(PATIENCE)
        return variable.get()

    with sx.workers(3):
        assert run_blocks(block, range(3)) == [5, 5, 5]


# Operations on the pool: NumPy's error state tells what happens inside a block

HUGE = np.full(2 * 2**16, 3e38, dtype=np.float32)  # two blocks, and `add` overflows in each


@pytest.mark.parametrize("count", [1, 2])
def test_an_operation_runs_its_blocks_on_the_workers_with_one_blas_thread(count):
    threads, blas = set(), []
    together = threading.Barrier(count)

    def seen(*_):
        together.wait(PATIENCE)
        threads.add(threading.get_ident())
        blas.extend(blas_threads())

    with threadpool_limits(2, user_api="blas"), sx.workers(count), np.errstate(over="call", call=seen):
        sx.add(HUGE, HUGE)
        assert set(blas_threads()) == {2}
    assert len(threads) == count
    assert set(blas) == {1}


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_callers_error_state_holds_in_blocks(count):
    with sx.workers(count):
        with np.errstate(over="ignore"):
            assert np.all(np.isinf(sx.add(HUGE, HUGE)))
        with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
            sx.add(HUGE, HUGE)
        with np.errstate(over="warn"), pytest.warns(RuntimeWarning, match="overflow"):
            sx.add(HUGE, HUGE)
        with np.errstate(over="ignore"):
            assert np.all(np.isinf(sx.add(HUGE, HUGE)))
