"""Operations after a fork, and while the interpreter ends."""

import os
import subprocess
import sys

import pytest
from threads import PATIENCE

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
