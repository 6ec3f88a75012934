"""One training step of a six-block network, here and in PyTorch, interleaved in one process.

Six conv-batch norm-ReLU blocks (32, 32, 64/2, 64, 128/2, 128 filters of 3x3), a 1x1 convolution to 10
classes and average pooling, on 128 images of 3 x 32 x 32, float32, two workers against two threads. Prints
the medians and their ratios; absolute times move from machine to machine.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

import stelliferous_xp as sx

BLOCKS = [(3, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
CLASSES = 10


def our_step(x: np.ndarray, target: np.ndarray) -> Callable[[], None]:
    rng = np.random.default_rng(0)
    layers: list[sx.Layer] = []
    for channels, filters, stride in BLOCKS:
        layers += [sx.conv2d_layer(sx.he_normal(rng, (filters, channels, 3, 3)), None, stride, padding=1),
                   sx.batch_norm_layer(filters), sx.activation_layer("relu")]
    layers += [sx.conv2d_layer(sx.he_normal(rng, (CLASSES, 128, 1, 1)), np.zeros(CLASSES, np.float32)),
               sx.average_pool_layer()]
    net = sx.network(layers)

    def step() -> None:
        nonlocal net
        y, saved, net = sx.forward(x, net)
        _, dy = sx.cross_entropy(y.reshape(len(x), CLASSES), target)
        _, net = sx.backward(dy.reshape(y.shape), saved, net)
        net = sx.sgd_step(net, 0.01)

    return step


def torch_step(x: np.ndarray, target: np.ndarray) -> Callable[[], None]:
    torch.manual_seed(0)
    modules: list[torch.nn.Module] = []
    for channels, filters, stride in BLOCKS:
        modules += [torch.nn.Conv2d(channels, filters, 3, stride, 1, bias=False), torch.nn.BatchNorm2d(filters),
                    torch.nn.ReLU()]
    net = torch.nn.Sequential(*modules, torch.nn.Conv2d(128, CLASSES, 1), torch.nn.AdaptiveAvgPool2d(1),
                              torch.nn.Flatten())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    images, labels = torch.from_numpy(x).requires_grad_(), torch.from_numpy(target)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7, help="timed runs of each, after one warm-up")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    x = rng.standard_normal((128, 3, 32, 32), dtype=np.float32)
    target = sx.one_hot(rng.integers(0, CLASSES, 128), CLASSES)
    torch.set_num_threads(2)
    sx.set_workers(2)
    steps = {"stelliferous_xp": our_step(x, target), "PyTorch eager": torch_step(x, target)}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for run in range(options.runs + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if run:
                times[name].append(time.perf_counter() - start)
    baseline = statistics.median(times["PyTorch eager"])
    for name, measured in times.items():
        median = statistics.median(measured)
        print(f"{name:16} {median * 1e3:7.0f} ms   {median / baseline:.2f} of PyTorch eager   "
              f"({min(measured) * 1e3:.0f} to {max(measured) * 1e3:.0f} ms)")


if __name__ == "__main__":
    main()
