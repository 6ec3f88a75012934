"""Batch norm + ReLU, activations, pooling, losses and linear kernels beside PyTorch eager.

    PYTHONPATH=. python benchmarks/peers/layers.py [--runs 9] [--only batch_norm]

Interleaved in one process, two workers against two threads; the ratio is of the medians. `of copy` is the rate at which
arrays are read and written (each counted once per pass over it) over the rate of copying 64 MiB in the same run.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from stelliferous_xp.kernels.cpu import activation, batch_norm, isa, linear, losses, pooling

sys.path.insert(0, str(Path(__file__).parent))
from kernels import WORKERS, medians

aten = torch.ops.aten
PLANES = [
    (128, 16, 32),
    (128, 32, 16),
    (128, 64, 8),
    (128, 32, 32),
    (128, 64, 16),
    (128, 128, 8),
    (32, 64, 56),
    (32, 256, 14),
]
LINEAR = [(1, 40, 2048), (1, 512, 2048), (1, 512, 40), (50, 512, 2048), (50, 40, 2048), (50, 512, 40), (64, 784, 128), (128, 128, 10),
          (128, 512, 512), (800, 512, 2048), (3200, 40, 512), (3200, 512, 2048)]  # fmt: skip

rng = np.random.default_rng(0)


def draw(*shape: int) -> tuple[np.ndarray, torch.Tensor]:
    array = rng.standard_normal(shape, np.float32)
    return array, torch.from_numpy(array)


def row(
    name: str, runs: int, ours: Callable[[], object], theirs: Callable[[], object], bytes_moved: float, copy: float
) -> float:
    seconds, peers = medians(runs, ours, theirs)
    rate = f"{bytes_moved / seconds / copy:5.0%} of copy" if bytes_moved else ""
    print(f"{name:44} {seconds * 1e3:8.3f} {peers * 1e3:8.3f} {seconds / peers:5.2f}  {rate}", flush=True)
    return seconds / peers


def batch_norm_rows(runs: int, copy: float) -> list[float]:
    ratios = []
    for n, channels, width in PLANES:
        x, tx = draw(n, channels, width, width)
        dy, tdy = draw(n, channels, width, width)
        gamma, tgamma = draw(channels)
        beta, tbeta = draw(channels)
        count = np.float32(x.size // channels)

        def ours() -> None:
            mean, m2 = batch_norm.batch_moments(x, WORKERS)
            inv = 1 / np.sqrt(m2 / count + np.float32(1e-5))
            batch_norm.batch_norm_forward(x, mean, inv, gamma, beta, "relu", 0.0, WORKERS)
            batch_norm.batch_norm_backward(dy, x, mean, inv, gamma, beta, "relu", 0.0, WORKERS)

        def theirs() -> None:
            z, mean, inv = aten.native_batch_norm(tx, tgamma, tbeta, None, None, True, 0.1, 1e-5)
            y = aten.relu(z)
            dz = aten.threshold_backward(tdy, y, 0)
            aten.native_batch_norm_backward(dz, tx, tgamma, None, None, mean, inv, True, 1e-5, [True, True, True])

        ratios.append(row(f"batch norm + ReLU, both ways {x.shape}", runs, ours, theirs, 8 * x.nbytes, copy))
    return ratios


def activation_rows(runs: int, copy: float) -> list[float]:
    x, tx = draw(128, 32, 32, 32)
    dy, tdy = draw(128, 32, 32, 32)
    peers = {
        "relu": (aten.relu, lambda y: aten.threshold_backward(tdy, y, 0)),
        "leaky_relu": (lambda x: aten.leaky_relu(x, 0.01), lambda y: aten.leaky_relu_backward(tdy, y, 0.01, True)),
        "elu": (aten.elu, lambda y: aten.elu_backward(tdy, 1.0, 1.0, 1.0, True, y)),
        "sigmoid": (aten.sigmoid, lambda y: aten.sigmoid_backward(tdy, y)),
        "tanh": (aten.tanh, lambda y: aten.tanh_backward(tdy, y)),
        "softplus": (aten.softplus, lambda _: aten.softplus_backward(tdy, tx, 1.0, 20.0)),
        "silu": (aten.silu, lambda _: aten.silu_backward(tdy, tx)),
        "gelu": (aten.gelu, lambda _: aten.gelu_backward(tdy, tx)),
        "sinusoid": (aten.sin, lambda _: tdy * aten.cos(tx)),
    }
    ratios = []
    for name, (forward, backward) in peers.items():
        y = activation.activation_forward(x, name, 0.01, WORKERS)
        ty = torch.from_numpy(y)
        saved = x if name in activation.READS_INPUT else y
        ratios += [
            row(f"{name} forward", runs, lambda: activation.activation_forward(x, name, 1.0, WORKERS), lambda: forward(tx), 2 * x.nbytes, copy),
            row(f"{name} backward", runs, lambda: activation.activation_backward(dy, saved, name, 1.0, WORKERS), lambda: backward(ty), 3 * x.nbytes, copy),
        ]  # fmt: skip
    return ratios


def other_rows(runs: int, copy: float) -> list[float]:
    x, tx = draw(128, 128, 8 * 8)
    dy, tdy = draw(128, 128)
    image, timage = x.reshape(128, 32, 16, 16), tx.reshape(128, 32, 16, 16)
    small, tsmall = draw(128, 32, 8, 8)
    logits, tlogits = draw(4096, 1000)
    target = np.eye(1000, dtype=np.float32)[np.arange(4096) % 1000]
    ttarget = torch.from_numpy(target)
    pair = (2, 2)

    def torch_entropy() -> None:
        log_softmax = aten._log_softmax(tlogits, 1, False)
        (log_softmax * ttarget).sum()
        aten._log_softmax_backward_data(ttarget, log_softmax, 1, torch.float32)

    return [
        row("average pool", runs, lambda: pooling.average_pool_forward(x, WORKERS), lambda: tx.mean(2), x.nbytes, copy),
        row("average pool backward", runs, lambda: pooling.average_pool_backward(dy, 64, WORKERS),
            lambda: (tdy / 64)[:, :, None].expand(128, 128, 64).contiguous(), x.nbytes, copy),
        row("max pool 2x2", runs, lambda: pooling.max_pool_forward(image, pair, pair, (0, 0), WORKERS),
            lambda: aten.max_pool2d_with_indices(timage, pair, pair), 1.25 * x.nbytes, copy),
        row("max pool 2x2 backward", runs, lambda: pooling.max_pool_backward(small, image, pair, pair, (0, 0), WORKERS),
            lambda: aten.max_pool2d_with_indices_backward(tsmall, timage, pair, pair, (0, 0), (1, 1), False,
                                                          aten.max_pool2d_with_indices(timage, pair, pair)[1]), 2.25 * x.nbytes, copy),
        row("softmax cross entropy 4096 x 1000", runs, lambda: losses.softmax_cross_entropy(logits, target, WORKERS), torch_entropy,
            3 * logits.nbytes, copy),
    ]  # fmt: skip


def linear_rows(runs: int, copy: float) -> list[float]:
    ratios = []
    for n, inputs, outputs in LINEAR:
        x, tx = draw(n, inputs)
        w, tw = draw(outputs, inputs)
        b, tb = draw(outputs)
        dy, tdy = draw(n, outputs)
        name = f"{n} x {inputs} -> {outputs}"
        ratios += [
            row(
                f"linear {name}",
                runs,
                lambda: linear.linear_forward(x, w, b, WORKERS),
                lambda: aten.linear(tx, tw, tb),
                0,
                copy,
            ),
            row(
                f"linear {name} input gradient",
                runs,
                lambda: linear.linear_input_gradient(dy, w, WORKERS),
                lambda: tdy @ tw,
                0,
                copy,
            ),
            row(
                f"linear {name} weight gradient",
                runs,
                lambda: linear.linear_weight_gradient(dy, x, WORKERS),
                lambda: tdy.T @ tx,
                0,
                copy,
            ),
        ]
    return ratios


def main() -> None:
    tables = {"batch_norm": batch_norm_rows, "activation": activation_rows, "other": other_rows, "linear": linear_rows}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--only", choices=tables)
    options = parser.parse_args()
    torch.set_num_threads(WORKERS)
    source = torch.ones(16 << 20)
    copy = 2 * source.nbytes / medians(options.runs, lambda: torch.empty_like(source).copy_(source))[0]
    print(
        f"PyTorch {torch.__version__}, {WORKERS} threads; instruction set {isa()}; copying {copy / 1e9:.1f} GB/s read and written"
    )
    print(f"{'':44} {'ms':>8} {'PyTorch':>8} ratio")
    for name, table in tables.items():
        if options.only in (None, name):
            ratios = table(options.runs, copy)
            print(
                f"{name}: geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.2f}, worst {max(ratios):.2f}\n"
            )


if __name__ == "__main__":
    main()
