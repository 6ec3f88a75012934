"""Convolution of docs/order.md."""

from __future__ import annotations

import numpy as np

from .arithmetic import blocks, chain, fma, lanes, quiet, tree

Pair = tuple[int, int]


def padded(x: np.ndarray, padding: Pair) -> np.ndarray:
    n, c, height, width = x.shape
    ph, pw = padding
    image = np.zeros((n, c, height + 2 * ph, width + 2 * pw), np.float32)
    image[:, :, ph : ph + height, pw : pw + width] = x
    return image


def output_size(size: Pair, kernel: Pair, stride: Pair, padding: Pair) -> Pair:
    oh, ow = ((n + 2 * p - k) // s + 1 for n, k, s, p in zip(size, kernel, stride, padding, strict=False))
    return oh, ow


def tap(image: np.ndarray, ky: int, kx: int, size: Pair, stride: Pair) -> np.ndarray:
    """xpad[n, c, i*sh + ky, j*sw + kx] for all (i, j)."""
    (oh, ow), (sh, sw) = size, stride
    return image[:, :, ky : ky + (oh - 1) * sh + 1 : sh, kx : kx + (ow - 1) * sw + 1 : sw]


def forward(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, stride: Pair, padding: Pair) -> np.ndarray:
    out, channels, kh, kw = w.shape
    size = output_size(x.shape[2:], (kh, kw), stride, padding)
    image = padded(x, padding)
    y = chain(
        (
            (w[None, :, c, ky, kx, None, None], tap(image, ky, kx, size, stride)[:, None, c])
            for c in range(channels)
            for ky in range(kh)
            for kx in range(kw)
        ),
        (x.shape[0], out, *size),
    )
    with quiet():
        return y if b is None else y + b[None, :, None, None]


def input_gradient(dy: np.ndarray, w: np.ndarray, size: Pair, stride: Pair, padding: Pair) -> np.ndarray:
    images, _, oh, ow = dy.shape
    out, channels, kh, kw = w.shape
    (sh, sw), (ph, pw) = stride, padding
    rows = np.arange(size[0])[:, None] + ph
    columns = np.arange(size[1])[None, :] + pw
    acc = np.zeros((images, channels, *size), np.float32)
    # A pixel is touched from i = Y//sh - q with ky = Y%sh + q*sh, so i ascends as q descends.
    for o in range(out):
        for q in range((kh - 1) // sh, -1, -1):
            for r in range((kw - 1) // sw, -1, -1):
                i, ky = rows // sh - q, rows % sh + q * sh
                j, kx = columns // sw - r, columns % sw + r * sw
                exists = (ky < kh) & (kx < kw)
                inside = (i >= 0) & (i < oh) & (j >= 0) & (j < ow)
                gradient = dy[:, o, i.clip(0, max(oh - 1, 0)), j.clip(0, max(ow - 1, 0))]
                gradient = np.where(inside, gradient, np.float32(0))[:, None]
                weight = w[o][:, ky.clip(0, kh - 1), kx.clip(0, kw - 1)][None]
                acc = np.where(exists, fma(weight, gradient, acc), acc)
    return acc


def weight_gradient(dy: np.ndarray, x: np.ndarray, kernel: Pair, stride: Pair, padding: Pair) -> np.ndarray:
    images, out, oh, ow = dy.shape
    channels = x.shape[1]
    image = padded(x, padding)
    taps = np.array(
        [[tap(image, ky, kx, (oh, ow), stride) for kx in range(kernel[1])] for ky in range(kernel[0])]
    )  # [ky, kx, n, c, i, j]
    shape = (out, channels, *kernel)
    return tree(
        (
            chain(
                (
                    (dy[n, :, i, j][:, None, None, None], taps[:, :, n, :, i, j].transpose(2, 0, 1)[None])
                    for n in block
                    for i in range(oh)
                    for j in range(ow)
                ),
                shape,
            )
            for block in blocks(images)
        ),
        empty=np.zeros(shape, np.float32),
    )


def bias_gradient(dy: np.ndarray) -> np.ndarray:
    images, out = dy.shape[:2]
    return tree((lanes(dy[n].reshape(out, -1)) for n in range(images)), empty=np.zeros(out, np.float32))
