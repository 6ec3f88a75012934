"""Convolution as matrix products over patches (im2col), and back (col2im)."""

from __future__ import annotations

from math import prod

from stelliferous_xp.arrays import Array, Namespace, array_namespace, at, device, pad
from stelliferous_xp.ops.activation_values import Activation
from stelliferous_xp.ops.portable.activation import activated
from stelliferous_xp.ops.portable.blocks import contiguous, map_rows, reduce_rows

Pair = tuple[int, int]


def conv2d(x: Array, weights: Array, bias: Array | None, stride: Pair, padding: Pair,
           output_plane: Pair, activation: Activation) -> Array:
    xp = array_namespace(x)
    filters, _, *kernel = weights.shape
    matrix = contiguous(xp.reshape(weights, (filters, -1)))

    def rows(x: Array) -> Array:
        y = matrix @ _patches(xp, x, (kernel[0], kernel[1]), stride, padding, output_plane)
        if bias is not None:
            y += bias[:, None]
        return activated(xp.reshape(y, (x.shape[0], filters, *output_plane)), activation)

    return map_rows(rows, x, shape=(x.shape[0], filters, *output_plane))


def conv2d_input_gradient(dy: Array, weights: Array, input_plane: Pair, stride: Pair, padding: Pair) -> Array:
    xp = array_namespace(dy)
    filters, channels, *kernel = weights.shape
    transposed = contiguous(xp.reshape(weights, (filters, -1))).T
    height, width = input_plane

    def rows(dy: Array) -> Array:
        images = dy.shape[0]
        columns = transposed @ xp.reshape(dy, (images, filters, prod(dy.shape[2:])))
        columns = xp.reshape(columns, (images, channels, prod(kernel), *dy.shape[2:]))
        padded = xp.zeros((images, channels, height + 2 * padding[0], width + 2 * padding[1]),
                          dtype=dy.dtype, device=device(dy))
        for tap, window in enumerate(_windows((kernel[0], kernel[1]), stride, dy.shape[2:])):
            padded = at(padded, (..., *window)).add(columns[:, :, tap, :, :], copy=None, xp=xp)
        return padded[:, :, padding[0]:padding[0] + height, padding[1]:padding[1] + width]

    return map_rows(rows, dy, shape=(dy.shape[0], channels, *input_plane))


def conv2d_weight_gradient(dy: Array, x: Array, kernel: Pair, stride: Pair, padding: Pair) -> Array:
    xp = array_namespace(dy)
    filters, channels = dy.shape[1], x.shape[1]

    def part(dy: Array, x: Array) -> Array:
        patches = _patches(xp, x, kernel, stride, padding, dy.shape[2:])
        dy = xp.reshape(dy, (dy.shape[0], filters, prod(dy.shape[2:])))
        return xp.sum(dy @ xp.matrix_transpose(patches), axis=0)

    total = reduce_rows(part, lambda left, right: left + right, dy, x)
    return xp.reshape(total, (filters, channels, *kernel))


def conv2d_bias_gradient(dy: Array) -> Array:
    xp = array_namespace(dy)
    return reduce_rows(lambda dy: xp.sum(dy, axis=(0, 2, 3)), lambda left, right: left + right, dy)


def _patches(xp: Namespace, x: Array, kernel: Pair, stride: Pair, padding: Pair, output_plane: Pair) -> Array:
    """[N, C, H, W] -> [N, C*kh*kw, output positions]: the inputs that each output position sees."""
    rows, columns = padding
    padded = pad(x, ((0, 0), (0, 0), (rows, rows), (columns, columns)), xp=xp) if rows or columns else x
    taps = [padded[(..., *window)] for window in _windows(kernel, stride, output_plane)]
    return xp.reshape(xp.stack(taps, axis=2), (x.shape[0], x.shape[1] * len(taps), prod(output_plane)))


def _windows(kernel: Pair, stride: Pair, output_plane: Pair) -> list[tuple[slice, slice]]:
    """For each tap of the kernel, the padded positions that it meets."""
    def along(axis: int) -> list[slice]:
        reach = (output_plane[axis] - 1) * stride[axis] + 1
        return [slice(tap, tap + reach, stride[axis]) for tap in range(kernel[axis])]

    return [(vertical, horizontal) for vertical in along(0) for horizontal in along(1)]
