"""How kernels are found and run: forced instruction sets, Python threads, fork, interrupts, flushed subnormals."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from .oracle import batch_norm, convolution, linear, losses, optimizers, pooling
from .support import PACKAGE, Guarded, family, floats, guarded, isas, same_bits

# Other libraries that a test session has loaded warn of any fork; what is tested here is that ours survives one.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning", "ignore:.*fork:DeprecationWarning")


def run(code: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_each_instruction_set_can_be_forced():
    for isa in isas():
        done = run(f"from {PACKAGE} import isa; print(isa())", STELLIFEROUS_XP_ISA=isa)
        assert done.stdout.strip() == isa, done.stderr
    done = run(f"from {PACKAGE} import isa; print(isa())", STELLIFEROUS_XP_ISA="")
    assert done.stdout.strip() == isas()[0], done.stderr


def test_the_kernels_can_be_left_out():
    isas()
    done = run("import stelliferous_xp as sx; print(sx.info())", STELLIFEROUS_XP_ISA="none")
    assert "none: STELLIFEROUS_XP_ISA=none; all runs on the portable path" in done.stdout, done.stderr
    assert "G2 batch         does not hold" in done.stdout


@pytest.mark.parametrize("name", ["sse9", "AVX2", "avx512 "])
def test_an_unknown_instruction_set_is_one_clear_error(name):
    isas()
    done = run(f"import {PACKAGE}", STELLIFEROUS_XP_ISA=name)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert name in last
    assert "plain" in last


def test_an_unsupported_instruction_set_is_one_clear_error():
    missing = {"avx512", "avx2", "neon"} - set(isas())
    for name in missing:
        done = run(f"import {PACKAGE}", STELLIFEROUS_XP_ISA=name)
        assert done.stderr.strip().splitlines()[-1].startswith("ImportError: ")


class Problem:
    """A convolution and a linear layer large enough for every worker, with what the oracle says."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self.x, self.w, self.dy = floats(rng, 8, 8, 24, 24), floats(rng, 16, 8, 3, 3), floats(rng, 8, 16, 24, 24)
        self.rows, self.matrix = floats(rng, 40, 150), floats(rng, 150, 150)
        self.y = convolution.forward(self.x, self.w, None, (1, 1), (1, 1))
        self.dx = convolution.input_gradient(self.dy, self.w, (24, 24), (1, 1), (1, 1))
        self.product = linear.forward(self.rows, self.matrix, None)

    def check(self, isa: str, workers: int) -> None:
        kernels = family("convolution", isa)
        same_bits(kernels.forward(self.x, self.w, None, (1, 1), (1, 1), 0, 0.0, workers), self.y)
        same_bits(kernels.input_gradient(self.dy, self.w, self.x.shape, (1, 1), (1, 1), workers), self.dx)
        same_bits(family("linear", isa).linear_forward(self.rows, self.matrix, None, workers), self.product)


@pytest.fixture(scope="module")
def problem() -> Problem:
    made = Problem()
    for isa in isas():
        made.check(isa, 1)  # also imports the wrappers, which several threads must not do at once
    return made


def test_several_python_threads_at_once(problem):
    start = threading.Barrier(5)

    def task(number: int) -> None:
        start.wait()
        for repeat in range(8):
            problem.check(isas()[repeat % len(isas()[:2])], 1 + (number + repeat) % 4)

    with ThreadPoolExecutor(5) as pool:
        for future in [pool.submit(task, number) for number in range(5)]:
            future.result(timeout=100)


def in_child(function) -> None:
    """Runs `function` in a forked child; a child that hangs is ended by its alarm."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork with threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(60)
            function()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_fork_after_use(problem):
    isa = isas()[0]
    problem.check(isa, 4)
    for _ in range(3):
        in_child(lambda: problem.check(isa, 4))
        problem.check(isa, 3)
    in_child(lambda: in_child(lambda: problem.check(isa, 2)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_fork_while_another_thread_computes(problem):
    isa, stop = isas()[0], threading.Event()

    def compute() -> None:
        while not stop.is_set():
            problem.check(isa, 2)

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        for _ in range(10):
            in_child(lambda: problem.check(isa, 2))
    finally:
        stop.set()
        thread.join()


def test_a_process_with_busy_workers_ends():
    isas()
    code = f"""
import threading, numpy as np
from {PACKAGE} import convolution
x, w = np.ones((16, 8, 32, 32), np.float32), np.ones((16, 8, 3, 3), np.float32)
def compute():
    while True:
        convolution.forward(x, w, None, (1, 1), (1, 1), 0, 0.0, 4)
threading.Thread(target=compute, daemon=True).start()
for _ in range(20):
    convolution.forward(x, w, None, (1, 1), (1, 1), 0, 0.0, 3)
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals as on POSIX")
def test_an_interrupt_is_not_lost():
    isas()
    # A shell starts background commands with SIGINT ignored, and the child of one inherits that.
    code = f"""
import signal
import numpy as np
from {PACKAGE} import convolution
signal.signal(signal.SIGINT, signal.default_int_handler)
x, w = np.ones((16, 8, 32, 32), np.float32), np.ones((16, 8, 3, 3), np.float32)
print("ready", flush=True)
while True:
    convolution.forward(x, w, None, (1, 1), (1, 1), 0, 0.0, 2)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert "KeyboardInterrupt" in errors


def test_subnormals_are_kept_where_the_caller_flushes_them():
    torch = pytest.importorskip("torch")
    tiny = (
        np.random.default_rng(0).integers(1, 2**12, (40, 4, 6, 6), np.uint32).view(np.float32)
    )  # sums are subnormal too
    rows, planes, one, zero = (
        tiny.reshape(40, -1),
        tiny.reshape(40, 4, 36),
        np.ones(4, np.float32),
        np.zeros(4, np.float32),
    )
    w = np.full((16, 4, 1, 1), 0.5, np.float32)
    same = (1, 1), (0, 0)
    gamma = tiny[0, 0, 0, :4]
    calls = [
        (convolution.forward(tiny, w, None, *same), "convolution", "forward", (tiny, w, None, *same, 0, 0.0)),
        (convolution.input_gradient(tiny, w[:4], (6, 6), *same), "convolution", "input_gradient", (tiny, w[:4], tiny.shape, *same)),
        (convolution.weight_gradient(tiny, np.ones_like(tiny), (1, 1), *same), "convolution", "weight_gradient", (tiny, np.ones_like(tiny), (1, 1), *same)),
        (convolution.bias_gradient(tiny), "convolution", "bias_gradient", (tiny,)),
        (batch_norm.batch_moments(planes), "batch_norm", "batch_moments", (planes,)),
        (batch_norm.backward(planes, planes, zero, one, gamma), "batch_norm", "batch_norm_backward", (planes, planes, zero, one, gamma, zero, "identity", 0.0)),
        (pooling.average_forward(planes), "pooling", "average_pool_forward", (planes,)),
        (linear.bias_gradient(rows), "linear", "linear_bias_gradient", (rows,)),
        (linear.weight_gradient(rows, np.ones_like(rows)), "linear", "linear_weight_gradient", (rows, np.ones_like(rows))),
        (losses.mse(rows * np.float32(1e18), 0 * rows), "losses", "mse", (rows * np.float32(1e18), 0 * rows)),
        (optimizers.sgd(rows, rows, 0.5), "optimizers", "sgd", (rows, rows, 0.5)),
    ]  # fmt: skip
    kernels = [
        (getattr(family(name, isa), function), arguments) for _, name, function, arguments in calls for isa in isas()
    ]
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush")
    try:
        assert np.float32(1e-45) + np.float32(0) == 0  # the caller flushes
        results = [[kernel(*arguments, workers) for workers in (1, 4)] for kernel, arguments in kernels]
        assert np.float32(1e-45) + np.float32(0) == 0  # and still does
    finally:
        torch.set_flush_denormal(False)
    expected = [expected for expected, *_ in calls for _ in isas()]
    for pair, one_expected in zip(results, expected, strict=True):
        for result in pair:
            for r, e in (
                zip(result, one_expected, strict=True) if isinstance(one_expected, tuple) else [(result, one_expected)]
            ):
                same_bits(r, e)


@pytest.mark.skipif(os.name == "nt", reason="pages are protected as on POSIX")
def test_the_guard_catches_what_it_should():
    """A write past either end, a changed argument and a read past the end do not go unseen."""

    def writes_outside(offset: int):
        def kernel(x: np.ndarray) -> np.ndarray:
            y = np.empty(x.shape, np.float32)
            ctypes.c_float.from_address(y.ctypes.data + 4 * offset).value = 0
            return y

        return kernel

    x = np.ones(5, np.float32)
    for at_end, offset in ((True, -1), (False, 5)):
        with pytest.raises(AssertionError, match="outside"):
            guarded(writes_outside(offset), at_end, x)
    with pytest.raises(ValueError, match="read-only"):
        guarded(lambda a: np.add(a, 1, out=a), True, x)

    def reads_past_the_end() -> None:
        array = Guarded(True).copy(x)
        _ = ctypes.c_float.from_address(array.ctypes.data + 20).value

    with pytest.raises(AssertionError):
        in_child(reads_past_the_end)
