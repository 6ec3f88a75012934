"""Optimiser steps of docs/order.md: the new parameter first, then the new state."""

from __future__ import annotations

import math

import numpy as np

from .arithmetic import float32, power, quiet


def sgd(w: np.ndarray, g: np.ndarray, rate: float) -> np.ndarray:
    with quiet():
        return w - g * float32(rate)


def momentum(w: np.ndarray, g: np.ndarray, v: np.ndarray, rate: float, momentum: float) -> tuple:
    with quiet():
        v = float32(momentum) * v + g
        return w - v * float32(rate), v


def nesterov(w: np.ndarray, g: np.ndarray, v: np.ndarray, rate: float, momentum: float) -> tuple:
    with quiet():
        v = float32(momentum) * v + g
        return w - (float32(momentum) * v + g) * float32(rate), v


def grenade_momentum(
    w: np.ndarray, g: np.ndarray, v: np.ndarray, rate: float, momentum: float, regulariser: float
) -> tuple:
    with quiet():
        v = float32(momentum) * v - g * float32(rate)
        return (w + v) - float32(rate * regulariser) * w, v


def adam(
    w: np.ndarray,
    g: np.ndarray,
    m: np.ndarray,
    v: np.ndarray,
    t: int,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple:
    """Step number t counts from 1."""
    step = float32(rate / (1.0 - power(beta1, t)))
    root = float32(math.sqrt(1.0 - power(beta2, t)))
    with quiet():
        m = float32(beta1) * m + float32(1.0 - beta1) * g
        v = float32(beta2) * v + float32(1.0 - beta2) * (g * g)
        return w - (step * m) / (np.sqrt(v) / root + float32(epsilon)), m, v


def adamw(
    w: np.ndarray,
    g: np.ndarray,
    m: np.ndarray,
    v: np.ndarray,
    t: int,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
) -> tuple:
    with quiet():
        return adam(w * float32(1.0 - rate * decay), g, m, v, t, rate, beta1, beta2, epsilon)
