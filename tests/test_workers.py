"""The worker count and the pool: who counts, where blocks run, what an error or a fork leaves behind."""

import contextvars
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import stelliferous_xp as sx
from stelliferous_xp.workers import run_blocks

PATIENCE = 60  # seconds; only a deadlock takes as long


@pytest.fixture(autouse=True)
def process_default(monkeypatch):
    """Every test starts without an earlier `set_workers`, and leaves none."""
    monkeypatch.setattr(sys.modules["stelliferous_xp.workers"], "_default", None)


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def blas_threads_of(_=None):
    return set(blas_threads())


def in_threads(*functions):
    """Run functions at once, each in its own thread; return their results, or raise the first one's error."""
    results, errors = [None] * len(functions), []

    def run(index, function):
        try:
            results[index] = function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=item, daemon=True) for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "deadlock"
    if errors:
        raise errors[0]
    return results


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


# BLAS


@pytest.mark.parametrize("mine", [1, 2])
def test_blas_settings_are_as_before(mine):
    def failing(block):
        raise LookupError

    with threadpool_limits(mine, user_api="blas"):
        before = threadpool_info()
        with sx.workers(3):
            assert run_blocks(lambda _: run_blocks(lambda _: blas_threads(), [0])[0], range(4)) == [
                [1] * len(blas_threads())] * 4
            assert threadpool_info() == before
            with pytest.raises(LookupError):
                run_blocks(failing, range(4))
        assert threadpool_info() == before


def test_blas_settings_are_as_before_when_threads_overlap():
    """B starts inside A and ends after it; C fails in between."""
    a_is_in, b_is_in, a_is_out = threading.Event(), threading.Event(), threading.Event()

    def a():
        def block(_):
            a_is_in.set()
            assert b_is_in.wait(PATIENCE)

        run_blocks(block, [0])
        a_is_out.set()

    def b():
        def block(_):
            b_is_in.set()
            assert a_is_out.wait(PATIENCE)
            return blas_threads()

        assert a_is_in.wait(PATIENCE)
        return run_blocks(block, [0])[0]

    def c():
        def block(_):
            raise LookupError

        assert b_is_in.wait(PATIENCE)
        with pytest.raises(LookupError):
            run_blocks(block, [0])

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        assert set(in_threads(a, b, c)[1]) == {1}
        assert blas_threads() == before


def test_a_thread_may_use_blocks_after_another_has():
    """threadpoolctl lets the first thread that limits BLAS go on limiting it, and ignores others."""
    with threadpool_limits(2, user_api="blas"):
        run_blocks(blas_threads_of, range(2))
        for _ in range(2):
            assert in_threads(lambda: run_blocks(blas_threads_of, range(2)))[0] == [{1}, {1}]
            assert blas_threads_of() == {2}
    with threadpool_limits(1, user_api="blas"):
        assert blas_threads_of() == {1}


class PerThreadBlas:
    """Stands for OpenBLAS on OpenMP, where every thread has a count of its own."""

    internal_api, threading_layer = "openblas", "openmp"
    own = threading.local()

    @property
    def num_threads(self):
        return getattr(self.own, "count", 8)

    def set_num_threads(self, count):
        self.own.count = count


class PerThreadBlasController:
    def select(self, **_):
        return self

    lib_controllers = (PerThreadBlas(),)


def test_a_blas_whose_thread_count_belongs_to_the_thread(monkeypatch):
    module, blas = sys.modules["stelliferous_xp.workers"], PerThreadBlas()
    monkeypatch.setattr("threadpoolctl.ThreadpoolController", PerThreadBlasController)
    monkeypatch.setattr(module, "_blas_libraries", module._blas_libraries.__wrapped__)
    together = threading.Barrier(3)

    def block(_):
        together.wait(PATIENCE)
        return blas.num_threads

    def caller(count):
        blas.set_num_threads(count)
        with sx.workers(1):
            inside = run_blocks(block, [0])
        return inside, blas.num_threads

    with sx.workers(3):
        assert run_blocks(block, range(3)) == [1, 1, 1]
    assert blas.num_threads == 8
    assert in_threads(lambda: caller(2), lambda: caller(4), lambda: caller(6)) == [([1], 2), ([1], 4), ([1], 6)]


# The ends of a process

PRELUDE = """
import os, signal, sys, threading, time, warnings
import numpy as np
import stelliferous_xp as sx
from threadpoolctl import threadpool_info, threadpool_limits

warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)  # Python 3.12 and later
threadpool_limits(2, user_api="blas")
rng = np.random.default_rng(0)
x = rng.standard_normal((67, 5, 31, 29), dtype=np.float32)
w = rng.standard_normal((6, 5, 3, 3), dtype=np.float32)

def bits():
    return sx.conv2d(x, w, activation="tanh").tobytes()

def blas():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

def fork_and_check(check):
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if check() else 3)
        finally:
            os._exit(4)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "deadlock"
"""
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def run_script(script):
    done = subprocess.run([sys.executable, "-W", "error", "-c", PRELUDE + script], capture_output=True, text=True,
                          timeout=3 * PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@needs_fork
@pytest.mark.parametrize("count", [1, 4])
def test_a_forked_child_computes_the_same_bits(count):
    assert run_script(f"""
with sx.workers({count}):
    expected = bits()
    print(fork_and_check(lambda: sx.get_workers() == {count} and bits() == expected and set(blas()) == {{2}}))
    print(fork_and_check(lambda: fork_and_check(lambda: bits() == expected) == 0))
    assert bits() == expected
""") == "0\n0\n"


@needs_fork
def test_a_forked_child_has_workers_of_its_own():
    assert run_script("""
from stelliferous_xp.workers import run_blocks

def threads_used():
    together = threading.Barrier(3)
    with sx.workers(3):
        return len(set(run_blocks(lambda _: together.wait(20) * 0 + threading.get_ident(), range(3))))

assert threads_used() == 3
print(fork_and_check(lambda: threads_used() == 3))
""") == "0\n"


@needs_fork
def test_a_fork_while_another_thread_is_inside_a_block():
    assert run_script("""
inside, forked = threading.Event(), threading.Event()
expected = bits()
huge = np.full(2 * 2**16, 3e38, dtype=np.float32)

def wait(*_):
    inside.set()
    assert forked.wait(60)

def busy():
    with sx.workers(2), np.errstate(over="call", call=wait):
        sx.add(huge, huge)

thread = threading.Thread(target=busy)
thread.start()
assert inside.wait(60)
assert set(blas()) == {1}
sx.set_workers(3)
print(fork_and_check(lambda: set(blas()) == {2} and bits() == expected and set(blas()) == {2}))
forked.set()
thread.join()
print(bits() == expected and set(blas()) == {2})
""") == "0\nTrue\n"


def test_threads_that_outlive_the_main_one_and_exit_functions():
    assert run_script("""
import atexit
sx.set_workers(3)
expected = bits()

def late():
    threading.main_thread().join()
    print("thread", bits() == expected)

threading.Thread(target=late).start()
atexit.register(lambda: print("exit", bits() == expected))
""") == "thread True\nexit True\n"
