"""Convolution and batch norm kernels beside PyTorch eager: the tables of the speed page.

    PYTHONPATH=. python benchmarks/peers/kernels.py [--runs 7] [--only conv]

Both sides run interleaved in one process, two workers against two threads; the ratio is of the medians. `peak` is the
share reached of this processor's float32 FMA rate, measured in the same run on the same number of threads.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from stelliferous_xp.kernels.cpu import convolution, isa

WORKERS = 2

# batch, channels, width, outputs, kernel, stride
TWELVE = [
    (32, 16, 32, 16, 3, 1),
    (32, 16, 32, 32, 3, 2),
    (32, 64, 32, 64, 3, 1),
    (32, 64, 56, 64, 3, 1),
    (32, 128, 28, 128, 3, 1),
    (32, 128, 28, 256, 3, 2),
    (32, 256, 14, 256, 3, 1),
    (32, 256, 7, 256, 3, 1),
    (32, 64, 56, 64, 1, 1),
    (32, 64, 56, 128, 1, 2),
    (32, 256, 14, 64, 1, 1),
    (32, 128, 14, 256, 1, 2),
]
RESNET20 = [
    (128, 3, 32, 16, 3, 1),
    (128, 16, 32, 16, 3, 1),
    (128, 16, 32, 32, 3, 2),
    (128, 32, 16, 32, 3, 1),
    (128, 32, 16, 64, 3, 2),
    (128, 64, 8, 64, 3, 1),
]
SIX_BLOCKS = [
    (128, 3, 32, 32, 3, 1),
    (128, 32, 32, 32, 3, 1),
    (128, 32, 32, 64, 3, 2),
    (128, 64, 16, 64, 3, 1),
    (128, 64, 16, 128, 3, 2),
    (128, 128, 8, 128, 3, 1),
]


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def medians(runs: int, *functions: Callable[[], object]) -> list[float]:
    """The median seconds of each, run in turn."""
    for function in functions:
        function()
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(runs):
        for function, series in zip(functions, times, strict=False):
            series.append(timed(function))
    return [statistics.median(series) for series in times]


def peak_rate() -> float:
    """FLOP/s of fused multiply-adds from registers, by the library's own probe."""
    from stelliferous_xp.kernels.cpu.library import function

    probe = function("fma_rate_probe", "ii")
    rounds = 2_000_000
    seconds = min(timed(lambda: probe(rounds, WORKERS)) for _ in range(5))
    return WORKERS * rounds * 16 * {"avx512": 16, "avx2": 8}.get(isa() or "", 4) * 2 / seconds


def convolution_row(shape: tuple[int, ...], runs: int, peak: float) -> float:
    batch, channels, width, outputs, kernel, stride = shape
    pad = kernel // 2
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, channels, width, width), np.float32)
    w = rng.standard_normal((outputs, channels, kernel, kernel), np.float32)
    b = rng.standard_normal(outputs, np.float32)
    strides, pads, need_dx = (stride, stride), (pad, pad), channels != 3
    y = convolution.forward(x, w, b, strides, pads, 0, 0.0, WORKERS)
    dy = rng.standard_normal(y.shape, np.float32)
    tx, tw, tb, tdy = (torch.from_numpy(a) for a in (x, w, b, dy))
    mask = [need_dx, True, True]

    def torch_backward(which: list[bool]) -> object:
        return torch.ops.aten.convolution_backward(
            tdy, tx, tw, [outputs], strides, pads, (1, 1), False, (0, 0), 1, which
        )

    def backward() -> None:
        if need_dx:
            convolution.input_gradient(dy, w, x.shape, strides, pads, WORKERS)
        convolution.weight_gradient(dy, x, (kernel, kernel), strides, pads, WORKERS)
        convolution.bias_gradient(dy, WORKERS)

    def both() -> None:
        convolution.forward(x, w, b, strides, pads, 0, 0.0, WORKERS)
        backward()

    def torch_both() -> None:
        torch.conv2d(tx, tw, tb, strides, pads)
        torch_backward(mask)

    parts = [
        (both, torch_both),
        (
            lambda: convolution.forward(x, w, b, strides, pads, 0, 0.0, WORKERS),
            lambda: torch.conv2d(tx, tw, tb, strides, pads),
        ),
        (
            lambda: convolution.input_gradient(dy, w, x.shape, strides, pads, WORKERS),
            lambda: torch_backward([True, False, False]),
        ),
        (
            lambda: convolution.weight_gradient(dy, x, (kernel, kernel), strides, pads, WORKERS),
            lambda: torch_backward([False, True, False]),
        ),
    ]
    flops = 2 * batch * y.shape[2] * y.shape[3] * channels * outputs * kernel * kernel
    cells = []
    for index, (ours, theirs) in enumerate(parts):
        seconds, peers = medians(runs, ours, theirs)
        work = flops * ((3 if need_dx else 2) if index == 0 else 1)
        cells.append(f"{seconds * 1e3:8.2f} {peers * 1e3:8.2f} {seconds / peers:5.2f} {work / seconds / peak:5.0%}")
        if index == 0:
            ratio = seconds / peers
    name = f"{batch}x{channels}x{width}x{width} -> {outputs} {kernel}x{kernel}/{stride}"
    print(f"{name:32}" + " |".join(cells), flush=True)
    return ratio


def convolution_table(title: str, shapes: list[tuple[int, ...]], runs: int, peak: float) -> None:
    print(f"\n{title}: ms, PyTorch's ms, ratio, share of peak")
    print(
        f"{'':32}" + " |".join(f"{name:^29}" for name in ("forward + backward", "forward", "input grad", "weight grad"))
    )
    ratios = [convolution_row(shape, runs, peak) for shape in shapes]
    print(f"{'geometric mean':32}{math.exp(statistics.fmean(map(math.log, ratios))):23.2f}    worst {max(ratios):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--only", choices=["twelve", "resnet20", "six"])
    options = parser.parse_args()
    torch.set_num_threads(WORKERS)
    peak = peak_rate()
    print(
        f"PyTorch {torch.__version__}, {WORKERS} threads; instruction set {isa()}; FMA limit {peak / 1e9:.0f} GFLOP/s"
    )
    tables = {"twelve": TWELVE, "resnet20": RESNET20, "six": SIX_BLOCKS}
    for name, shapes in tables.items():
        if options.only in (None, name):
            convolution_table(name, shapes, options.runs, peak)


if __name__ == "__main__":
    main()
