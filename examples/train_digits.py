"""Train a convolutional network on scikit-learn's 1,797 real handwritten digits.

A fifth of the images is held out. The digest at the end is the same for any --workers.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits
from tqdm import tqdm

import stelliferous_xp as sx

CLASSES = 10


@dataclass(frozen=True)
class Images:
    """Images with their labels, and the labels as one-hot rows."""

    x: object
    labels: object
    target: object


def load(xp, seed):
    """The digits as [N, 1, 8, 8] images scaled to [0, 1], shuffled and split into training and test images."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    x = (digits.images[order, None, :, :] / 16).astype(np.float32)
    labels = digits.target[order].astype(np.int64)
    held_out = len(x) // 5

    def images(rows):
        y = xp.asarray(labels[rows])
        return Images(xp.asarray(x[rows]), y, sx.one_hot(y, CLASSES))

    return images(slice(held_out, None)), images(slice(0, held_out))


def build(xp, seed):
    """Three conv-batch norm-ReLU blocks, a 1x1 convolution to the classes, and average pooling."""
    rng = np.random.default_rng(seed)
    layers = []
    for channels, filters, stride in [(1, 16, 1), (16, 32, 2), (32, 64, 2)]:
        weights = sx.he_normal(rng, (filters, channels, 3, 3), xp=xp)
        layers += [sx.conv2d_layer(weights, stride=stride, padding=1), sx.batch_norm_layer(filters, xp=xp),
                   sx.activation_layer("relu")]
    classifier = sx.he_normal(rng, (CLASSES, 64, 1, 1), xp=xp)
    return sx.network([*layers, sx.conv2d_layer(classifier, xp.zeros(CLASSES, dtype=xp.float32)),
                       sx.average_pool_layer()])


def correct(logits, labels):
    """How many rows have their largest logit at the label."""
    return int((logits.argmax(1) == labels).sum())


def train(net, images, options, xp):
    """Adam over shuffled batches under a cosine schedule; a bar an epoch, or one line where there is no terminal."""
    count = len(images.x)
    steps = options.epochs * -(-count // options.batch_size)
    state = sx.adam(sx.cosine_schedule(0.01, steps))
    for epoch in range(options.epochs):
        order = np.random.default_rng((options.seed, epoch)).permutation(count)
        seen, total_loss, hits = 0, 0.0, 0
        bar = tqdm(range(0, count, options.batch_size), f"epoch {epoch + 1}/{options.epochs}", unit="batch",
                   disable=not (sys.stdout.isatty() and sys.stderr.isatty()))
        for start in bar:
            rows = xp.asarray(order[start:start + options.batch_size])
            y, saved, net = sx.forward(images.x[rows], net)
            logits = y.reshape(len(rows), CLASSES)
            loss, gradient = sx.cross_entropy(logits, images.target[rows])
            _, net = sx.backward(gradient.reshape(y.shape), saved, net)
            state, net = sx.optimizer_step(state, net)
            seen += len(rows)
            total_loss += float(loss) * len(rows)
            hits += correct(logits, images.labels[rows])
            bar.set_postfix(loss=f"{total_loss / seen:.4f}", accuracy=f"{hits / seen:.2%}")
        if bar.disable:
            print(f"epoch {epoch + 1}/{options.epochs}  loss {total_loss / seen:.4f}  accuracy {hits / seen:.2%}",
                  flush=True)
    return net


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1; got {value}")
    return value


def natural(text):
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0; got {value}")
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=positive, default=sx.get_workers(), help="default: all CPUs")
    parser.add_argument("--epochs", type=positive, default=15, help="default: %(default)s")
    parser.add_argument("--batch-size", type=positive, default=64, help="default: %(default)s")
    parser.add_argument("--seed", type=natural, default=0, help="default: %(default)s")
    parser.add_argument("--array-library", choices=["numpy", "torch", "cupy"], default="numpy")
    options = parser.parse_args()
    try:
        xp = importlib.import_module(options.array_library)
        xp.zeros(1)
    except Exception as error:
        parser.error(f"--array-library {options.array_library} cannot be used here: {error}")
    sx.set_workers(options.workers)
    training, test = load(xp, options.seed)
    start = time.perf_counter()
    net = train(build(xp, options.seed), training, options, xp)
    seconds = time.perf_counter() - start
    logits = sx.evaluate(test.x, net).reshape(-1, CLASSES)
    accuracy = correct(logits, test.labels) / len(test.x)
    print(f"test accuracy {accuracy:.2%} on {len(test.x)} held-out images")
    print(f"{options.epochs * len(training.x) / seconds:.0f} images per second")
    print(f"digest {sx.digest(net)}")


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does. Nothing is left to say, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
