"""Activations on C-contiguous float32 arrays of any shape."""

from __future__ import annotations

import numpy as np

from .library import address, function

# The place of a name is its code in activation.h.
NAMES = ("identity", "relu", "leaky_relu", "elu", "sigmoid", "tanh", "softplus", "silu", "gelu", "sinusoid")
READS_INPUT = ("silu", "gelu", "sinusoid")

_forward = function("activation_forward", "ppiifi")
_backward = function("activation_backward", "pppiifi")


def code(name: str) -> int:
    return NAMES.index(name)


def activation_forward(x: np.ndarray, name: str, alpha: float, workers: int) -> np.ndarray:
    y = np.empty_like(x)
    _forward(address(x), address(y), x.size, code(name), alpha, workers)
    return y


def activation_backward(dy: np.ndarray, saved: np.ndarray, name: str, alpha: float, workers: int) -> np.ndarray:
    """`saved` is the input of the activations in READS_INPUT and the output of the others."""
    dx = np.empty_like(dy)
    _backward(address(dy), address(saved), address(dx), dy.size, code(name), alpha, workers)
    return dx
