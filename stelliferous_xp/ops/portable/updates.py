"""Optimiser steps, elementwise in the fixed order of docs/order.md: the kernels give the same bits."""

from __future__ import annotations

from math import sqrt

from stelliferous_xp.arrays import Array, array_namespace
from stelliferous_xp.powers import power


def sgd(parameter: Array, gradient: Array, rate: float) -> Array:
    return parameter - gradient * rate


def momentum_sgd(parameter: Array, gradient: Array, velocity: Array, rate: float, momentum: float,
                 nesterov: bool) -> tuple[Array, Array]:
    velocity = velocity * momentum + gradient
    direction = velocity * momentum + gradient if nesterov else velocity
    return parameter - direction * rate, velocity


def grenade_sgd(parameter: Array, gradient: Array, velocity: Array, rate: float, momentum: float,
                regulariser: float) -> tuple[Array, Array]:
    velocity = velocity * momentum - gradient * rate
    return parameter + velocity - parameter * (rate * regulariser), velocity


def adamw(parameter: Array, gradient: Array, first: Array, second: Array, step: int, rate: float, beta1: float,
          beta2: float, epsilon: float, weight_decay: float) -> tuple[Array, Array, Array]:
    first = first * beta1 + gradient * (1.0 - beta1)
    second = second * beta2 + gradient * gradient * (1.0 - beta2)
    corrected_rate = rate / (1.0 - power(beta1, step))
    root = array_namespace(parameter).sqrt(second) / sqrt(1.0 - power(beta2, step))
    shrunk = parameter * (1.0 - rate * weight_decay)
    return shrunk - first * corrected_rate / (root + epsilon), first, second
