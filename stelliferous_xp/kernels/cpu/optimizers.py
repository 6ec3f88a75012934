"""Optimiser steps on C-contiguous float32 arrays: the new parameter first, then the new state."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from stelliferous_xp.powers import power

from .library import address, function

_sgd = function("sgd", "pppifi")
_momentum = function("momentum", "pppppiffi")
_nesterov = function("nesterov", "pppppiffi")
_grenade_momentum = function("grenade_momentum", "pppppifffi")
_adam = function("adam", "pppppppiffffffffi")

Two = tuple[np.ndarray, np.ndarray]
Three = tuple[np.ndarray, np.ndarray, np.ndarray]


def _run(
    kernel: Callable[..., None], arrays: tuple[np.ndarray, ...], results: int, *numbers: float
) -> tuple[np.ndarray, ...]:
    new = tuple(np.empty_like(arrays[0]) for _ in range(results))
    *scalars, workers = numbers
    kernel(*(address(a) for a in (*arrays, *new)), arrays[0].size, *scalars, workers)
    return new


def sgd(w: np.ndarray, g: np.ndarray, rate: float, workers: int) -> np.ndarray:
    return _run(_sgd, (w, g), 1, rate, workers)[0]


def momentum(w: np.ndarray, g: np.ndarray, v: np.ndarray, rate: float, momentum: float, workers: int) -> Two:
    """PyTorch's rule."""
    new, velocity = _run(_momentum, (w, g, v), 2, rate, momentum, workers)
    return new, velocity


def nesterov(w: np.ndarray, g: np.ndarray, v: np.ndarray, rate: float, momentum: float, workers: int) -> Two:
    new, velocity = _run(_nesterov, (w, g, v), 2, rate, momentum, workers)
    return new, velocity


def grenade_momentum(
    w: np.ndarray, g: np.ndarray, v: np.ndarray, rate: float, momentum: float, regulariser: float, workers: int
) -> Two:
    new, velocity = _run(_grenade_momentum, (w, g, v), 2, rate, momentum, rate * regulariser, workers)
    return new, velocity


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
    workers: int,
) -> Three:
    """Step number t counts from 1."""
    return adamw(w, g, m, v, t, rate, beta1, beta2, epsilon, 0.0, workers)


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
    workers: int,
) -> Three:
    step = rate / (1.0 - power(beta1, t))
    root = math.sqrt(1.0 - power(beta2, t))
    moments = (beta1, 1.0 - beta1, beta2, 1.0 - beta2)
    new, first, second = _run(_adam, (w, g, m, v), 3, 1.0 - rate * decay, *moments, step, root, epsilon, workers)
    return new, first, second
