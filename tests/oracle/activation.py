"""Activations of docs/order.md. `f` holds the elementary functions, which loops cannot restate."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .arithmetic import ONE, ZERO, float32, fma, quiet

INFINITY = np.float32(np.inf)
READS_INPUT = ("silu", "gelu", "sinusoid")


class Elementary(Protocol):
    """exp, expm1, log, log1p, sigmoid, tanh, sin, cos, normal_cdf, normal_density, elementwise on float32."""

    def __getattr__(self, name: str): ...


def clip(x: np.ndarray) -> np.ndarray:
    limit = np.float32(128)
    return np.where(x < -limit, -limit, np.where(x > limit, limit, x))


def forward(x: np.ndarray, name: str, alpha: float, f: Elementary) -> np.ndarray:
    a = float32(alpha)
    with quiet():
        match name:
            case "identity":
                return x
            case "relu":
                return np.where(x < 0, ZERO, x)
            case "leaky_relu":
                return np.where(x > 0, x, a * x)
            case "elu":
                return np.where(x > 0, x, a * f.expm1(x))
            case "sigmoid":
                return f.sigmoid(x)
            case "tanh":
                return f.tanh(x)
            case "softplus":
                return np.where(x < 0, ZERO, x) + f.log1p(f.exp(-np.abs(x)))
            case "silu":
                return np.where(x == -INFINITY, -ZERO, x * f.sigmoid(x))
            case "gelu":
                return np.where(x == -INFINITY, -ZERO, x * f.normal_cdf(x))
            case "sinusoid":
                return f.sin(x)
    raise ValueError(name)


def backward(dy: np.ndarray, saved: np.ndarray, name: str, alpha: float, f: Elementary) -> np.ndarray:
    """`saved` is the input for READS_INPUT and the output for the others."""
    a, y, x = float32(alpha), saved, saved
    with quiet():
        match name:
            case "identity":
                return dy
            case "relu":
                return np.where(y > 0, dy, ZERO)
            case "leaky_relu":
                return np.where(y > 0, dy, dy * a)
            case "elu":
                return np.where(y > 0, dy, dy * (y + a))
            case "sigmoid":
                return dy * (y * (ONE - y))
            case "tanh":
                return dy * fma(-y, y, ONE)
            case "softplus":
                return dy * -f.expm1(-y)
            case "silu":
                s = f.sigmoid(clip(x))
                return dy * (s * fma(clip(x), ONE - s, ONE))
            case "gelu":
                c = clip(x)
                return dy * fma(c, f.normal_density(c), f.normal_cdf(c))
            case "sinusoid":
                return dy * f.cos(x)
    raise ValueError(name)
