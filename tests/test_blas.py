"""BLAS is held at one thread inside blocks, and left as it was."""

import sys
import threading

import pytest
from threadpoolctl import threadpool_info, threadpool_limits
from threads import PATIENCE, blas_threads, blas_threads_of, in_threads

import stelliferous_xp as sx
from stelliferous_xp.workers import run_blocks


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
    module, blas = sys.modules["stelliferous_xp.blas"], PerThreadBlas()
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
