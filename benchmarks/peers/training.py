"""One training step of a whole network, here and in PyTorch, interleaved in one process.

The networks: six conv-batch norm-ReLU blocks (32, 32, 64/2, 64, 128/2, 128 filters of 3x3) with a 1x1
convolution to 10 classes and average pooling; and ResNet-20 (He et al., 2016) with 1x1 convolutions where a
shortcut changes shape. 128 images of 3 x 32 x 32, float32, plain SGD, two workers against two threads. Here the
gradient of the images is computed as well, which PyTorch leaves out. Prints medians and ratios: absolute times
move from machine to machine. STELLIFEROUS_XP_ISA=none times the portable path.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

import stelliferous_xp as sx

IMAGES, CLASSES, RATE = 128, 10, 0.01
SIX_BLOCKS = [(3, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
RESNET_BLOCKS = [(16, 16, 1)] * 3 + [(16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 64, 1)]
Step = Callable[[], object]


class Ours:
    """The networks as layers of this library."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def conv(self, channels: int, filters: int, kernel: int, stride: int) -> list[sx.Layer]:
        weights = sx.he_normal(self.rng, (filters, channels, kernel, kernel))
        return [sx.conv2d_layer(weights, stride=stride, padding=kernel // 2), sx.batch_norm_layer(filters)]

    def sixblock(self) -> sx.Layer:
        blocks = [[*self.conv(channels, filters, 3, stride), sx.activation_layer("relu")]
                  for channels, filters, stride in SIX_BLOCKS]
        return sx.network([layer for block in blocks for layer in block] + self.head(128))

    def resnet20(self) -> sx.Layer:
        layers = [*self.conv(3, 16, 3, 1), sx.activation_layer("relu")]
        for channels, filters, stride in RESNET_BLOCKS:
            inner = sx.network([*self.conv(channels, filters, 3, stride), sx.activation_layer("relu"),
                                *self.conv(filters, filters, 3, 1)])
            shortcut = sx.network(self.conv(channels, filters, 1, stride)) if stride > 1 else None
            layers += [sx.residual(inner, shortcut), sx.activation_layer("relu")]
        return sx.network(layers + self.head(64))

    def head(self, channels: int) -> list[sx.Layer]:
        weights = sx.he_normal(self.rng, (CLASSES, channels, 1, 1))
        return [sx.conv2d_layer(weights, np.zeros(CLASSES, np.float32)), sx.average_pool_layer()]

    def step(self, name: str, x: np.ndarray, target: np.ndarray) -> Step:
        net = getattr(self, name)()

        def step() -> None:
            nonlocal net
            y, saved, net = sx.forward(x, net)
            _, dy = sx.cross_entropy(y.reshape(len(x), CLASSES), target)
            _, net = sx.backward(dy.reshape(y.shape), saved, net)
            net = sx.sgd_step(net, RATE)

        return step


class Residual(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module, shortcut: torch.nn.Module) -> None:
        super().__init__()
        self.inner, self.shortcut = inner, shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(x) + self.shortcut(x))


class Theirs:
    """The same networks as PyTorch modules."""

    def conv(self, channels: int, filters: int, kernel: int, stride: int) -> list[torch.nn.Module]:
        return [torch.nn.Conv2d(channels, filters, kernel, stride, kernel // 2, bias=False),
                torch.nn.BatchNorm2d(filters)]

    def sixblock(self) -> list[torch.nn.Module]:
        blocks = [[*self.conv(channels, filters, 3, stride), torch.nn.ReLU()]
                  for channels, filters, stride in SIX_BLOCKS]
        return [module for block in blocks for module in block] + self.head(128)

    def resnet20(self) -> list[torch.nn.Module]:
        modules = [*self.conv(3, 16, 3, 1), torch.nn.ReLU()]
        for channels, filters, stride in RESNET_BLOCKS:
            inner = torch.nn.Sequential(*self.conv(channels, filters, 3, stride), torch.nn.ReLU(),
                                        *self.conv(filters, filters, 3, 1))
            shortcut = (torch.nn.Sequential(*self.conv(channels, filters, 1, stride)) if stride > 1
                        else torch.nn.Identity())
            modules.append(Residual(inner, shortcut))
        return modules + self.head(64)

    def head(self, channels: int) -> list[torch.nn.Module]:
        return [torch.nn.Conv2d(channels, CLASSES, 1), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()]

    def step(self, name: str, x: np.ndarray, target: np.ndarray, way: str) -> Step:
        torch.manual_seed(0)
        layout = torch.channels_last if way == "channels_last" else torch.contiguous_format
        net = torch.nn.Sequential(*getattr(self, name)()).to(memory_format=layout)
        images = torch.from_numpy(x).contiguous(memory_format=layout)
        labels = torch.from_numpy(target)
        optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
        run = torch.compile(net) if way == "compile" else net

        def step() -> None:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(run(images), labels).backward()
            optimizer.step()

        return step


def measure(steps: dict[str, Step], runs: int) -> dict[str, float]:
    """The median time of each step, in seconds, after two warm-up rounds."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for run in range(-2, runs):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if run >= 0:
                times[name].append(time.perf_counter() - start)
    for name, measured in times.items():
        print(f"  {name:24} {statistics.median(measured) * 1e3:7.0f} ms "
              f"({min(measured) * 1e3:.0f} to {max(measured) * 1e3:.0f})", flush=True)
    return {name: statistics.median(measured) for name, measured in times.items()}


def one_worker(step: Step) -> Step:
    def run() -> None:
        with sx.workers(1):
            step()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=["sixblock", "resnet20"])
    parser.add_argument("--runs", type=int, default=7, help="timed rounds after two for warm-up")
    parser.add_argument("--ways", nargs="+", default=["eager", "channels_last", "compile"])
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    x = rng.standard_normal((IMAGES, 3, 32, 32), dtype=np.float32)
    target = sx.one_hot(rng.integers(0, CLASSES, IMAGES), CLASSES)
    torch.set_num_threads(2)
    sx.set_workers(2)
    print(sx.info(), f"PyTorch          {torch.__version__}", sep="\n")
    for name in options.networks:
        print(f"{name}, {IMAGES} images, a training step:")
        ours = Ours().step(name, x, target)
        steps = {"stelliferous_xp": ours, "stelliferous_xp 1 worker": one_worker(ours)}
        steps |= {f"PyTorch {way}": Theirs().step(name, x, target, way) for way in options.ways}
        medians = measure(steps, options.runs)
        peers = {peer: time for peer, time in medians.items() if peer.startswith("PyTorch")}
        for peer, seconds in peers.items():
            print(f"  {medians['stelliferous_xp'] / seconds:.2f} of {peer}")
        print(f"  two workers are {medians['stelliferous_xp 1 worker'] / medians['stelliferous_xp']:.2f} times one")


if __name__ == "__main__":
    main()
