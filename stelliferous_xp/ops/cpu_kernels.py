"""The CPU kernels as a room: brings arrays into C order, and hands on the worker count."""

from __future__ import annotations

from typing import Any

import numpy as np

from stelliferous_xp.kernels.cpu import activation as activation_kernels
from stelliferous_xp.kernels.cpu import batch_norm as batch_norm_kernels
from stelliferous_xp.kernels.cpu import convolution, losses, optimizers, pooling
from stelliferous_xp.ops.activation_values import Activation
from stelliferous_xp.ops.portable.arithmetic import add
from stelliferous_xp.workers import get_workers

__all__ = [
    "activate",
    "activation_gradient",
    "adamw",
    "add",
    "average_pool",
    "average_pool_gradient",
    "batch_moments",
    "batch_norm",
    "batch_norm_gradient",
    "conv2d",
    "conv2d_bias_gradient",
    "conv2d_input_gradient",
    "conv2d_weight_gradient",
    "cross_entropy",
    "grenade_sgd",
    "momentum_sgd",
    "mse",
    "sgd",
]

Array = np.ndarray[Any, Any]
Pair = tuple[int, int]


def conv2d(x: Array, weights: Array, bias: Array | None, stride: Pair, padding: Pair, output_plane: Pair,
           activation: Activation) -> Array:
    return convolution.forward(_c(x), _c(weights), None if bias is None else _c(bias), stride, padding,
                               activation_kernels.code(activation.name), activation.parameter, get_workers())


def conv2d_input_gradient(dy: Array, weights: Array, input_plane: Pair, stride: Pair, padding: Pair) -> Array:
    shape = (dy.shape[0], weights.shape[1], *input_plane)
    return convolution.input_gradient(_c(dy), _c(weights), shape, stride, padding, get_workers())


def conv2d_weight_gradient(dy: Array, x: Array, kernel: Pair, stride: Pair, padding: Pair) -> Array:
    return convolution.weight_gradient(_c(dy), _c(x), kernel, stride, padding, get_workers())


def conv2d_bias_gradient(dy: Array) -> Array:
    return convolution.bias_gradient(_c(dy), get_workers())


def activate(x: Array, activation: Activation) -> Array:
    return activation_kernels.activation_forward(_c(x), activation.name, activation.parameter, get_workers())


def activation_gradient(dy: Array, kept: Array, activation: Activation) -> Array:
    return activation_kernels.activation_backward(_c(dy), _c(kept), activation.name, activation.parameter,
                                                  get_workers())


def batch_moments(x: Array) -> tuple[Array, Array]:
    mean, squares = batch_norm_kernels.batch_moments(_c(x), get_workers())
    return mean, squares / np.float32(x.shape[0] * x.shape[2])


def batch_norm(x: Array, mean: Array, variance: Array, gamma: Array, beta: Array, epsilon: float,
               activation: Activation) -> Array:
    return batch_norm_kernels.batch_norm_forward(
        _c(x), _c(mean), _inverse_deviation(variance, epsilon), _c(gamma), _c(beta), activation.name,
        activation.parameter, get_workers())


def batch_norm_gradient(dy: Array, x: Array, mean: Array, variance: Array, gamma: Array, beta: Array,
                        epsilon: float, activation: Activation) -> tuple[Array, Array, Array]:
    return batch_norm_kernels.batch_norm_backward(
        _c(dy), _c(x), _c(mean), _inverse_deviation(variance, epsilon), _c(gamma), _c(beta), activation.name,
        activation.parameter, get_workers())


def average_pool(x: Array) -> Array:
    images, channels, height, width = x.shape
    y = pooling.average_pool_forward(_c(x).reshape(images, channels, height * width), get_workers())
    return y.reshape(images, channels, 1, 1)


def average_pool_gradient(dy: Array, input_plane: Pair) -> Array:
    images, channels = dy.shape[:2]
    dx = pooling.average_pool_backward(_c(dy).reshape(images, channels), input_plane[0] * input_plane[1],
                                       get_workers())
    return dx.reshape(images, channels, *input_plane)


def mse(prediction: Array, target: Array) -> tuple[Array, Array]:
    return losses.mse(_c(prediction), _c(target), get_workers())


def cross_entropy(logits: Array, target: Array) -> tuple[Array, Array]:
    return losses.softmax_cross_entropy(_c(logits), _c(target), get_workers())


def sgd(parameter: Array, gradient: Array, rate: float) -> Array:
    return optimizers.sgd(_c(parameter), _c(gradient), rate, get_workers())


def momentum_sgd(parameter: Array, gradient: Array, velocity: Array, rate: float, momentum: float,
                 nesterov: bool) -> tuple[Array, Array]:
    kernel = optimizers.nesterov if nesterov else optimizers.momentum
    return kernel(_c(parameter), _c(gradient), _c(velocity), rate, momentum, get_workers())


def grenade_sgd(parameter: Array, gradient: Array, velocity: Array, rate: float, momentum: float,
                regulariser: float) -> tuple[Array, Array]:
    return optimizers.grenade_momentum(_c(parameter), _c(gradient), _c(velocity), rate, momentum, regulariser,
                                       get_workers())


def adamw(parameter: Array, gradient: Array, first: Array, second: Array, step: int, rate: float, beta1: float,
          beta2: float, epsilon: float, weight_decay: float) -> tuple[Array, Array, Array]:
    return optimizers.adamw(_c(parameter), _c(gradient), _c(first), _c(second), step, rate, beta1, beta2, epsilon,
                            weight_decay, get_workers())


def _inverse_deviation(variance: Array, epsilon: float) -> Array:
    return _c(np.float32(1) / np.sqrt(variance + np.float32(epsilon)))


def _c(array: Array) -> Array:
    return np.asarray(array, order="C")
