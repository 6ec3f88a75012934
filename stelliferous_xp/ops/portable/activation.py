"""Activations and their derivatives, in forms that neither overflow nor lose NaN."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

from stelliferous_xp.arrays import Array, Namespace, array_namespace, device
from stelliferous_xp.ops.activation_values import Activation
from stelliferous_xp.ops.portable.blocks import map_rows

# log(erfc(z)/t) + z*z over t = 2/(2 + z), z >= 0, as a Chebyshev series in 2t - 1; the rest is below 1e-17.
_ERFC = (
    -0.6513268598908547171, 0.6419697923564902603, 0.019476473204185836312, -0.0095615147868086316419,
    -0.0009465953444820368663, 0.00036683949785276145187, 0.000042523324806907771645, -0.000020278578112534243154,
    -1.6242900046470255135e-6, 1.3036558355805232018e-6, 1.5626441722066143178e-8, -8.5238095914926542525e-8,
    6.5290544390988514964e-9, 5.0593434955514689418e-9, -9.9136415649303308674e-10, -2.2736512229318358557e-10,
    9.646791102015526802e-11, 2.3940380830391147447e-12, -6.8860275264975533984e-12, 8.9448792730907257167e-13,
    3.1309213993429580783e-13, -1.1270822361367252366e-13, 3.8109052551892320552e-16, 7.1060976136092369878e-15,
    -1.5230282014571043043e-15, -9.4574945712912340005e-17, 1.2102371892242789923e-16, -2.8166630877471769719e-17,
)
# Beyond this, silu and gelu and their derivatives have reached their limits in float32 and float64, and an
# infinity would meet a zero.
_FAR = 1000.0


def activate(x: Array, activation: Activation) -> Array:
    return map_rows(lambda x: activated(x, activation), x, shape=x.shape)


def activation_gradient(dy: Array, kept: Array, activation: Activation) -> Array:
    return map_rows(lambda dy, kept: times_derivative(dy, kept, activation), dy, kept, shape=dy.shape)


def activated(x: Array, activation: Activation) -> Array:
    """The activation of every element, in one piece."""
    return _FORWARD[activation.name](array_namespace(x), x, activation.parameter)


def times_derivative(dy: Array, kept: Array, activation: Activation) -> Array:
    """`dy` times the derivative, in one piece."""
    return _GRADIENT[activation.name](array_namespace(dy), dy, kept, activation.parameter)


def _constant(xp: Namespace, x: Array, value: float) -> Array:
    return xp.asarray(value, dtype=x.dtype, device=device(x))


def _positive(xp: Namespace, x: Array) -> Array:
    return xp.maximum(x, _constant(xp, x, 0.0))


def _sigmoid(xp: Namespace, x: Array) -> Array:
    e = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, _constant(xp, x, 1.0), e) / (1.0 + e)


def _normal_distribution(xp: Namespace, x: Array) -> Array:
    z = xp.minimum(xp.abs(x), _constant(xp, x, _FAR)) / sqrt(2.0)
    t = 2.0 / (2.0 + z)
    u = 4.0 * t - 2.0
    previous, current = xp.zeros_like(u), xp.zeros_like(u)
    for coefficient in reversed(_ERFC[1:]):
        previous, current = current, u * current - previous + coefficient
    tail = 0.5 * t * xp.exp(0.5 * u * current - previous + _ERFC[0] - z * z)
    return xp.where(x > 0, 1.0 - tail, tail)


def _not_far_below(xp: Namespace, x: Array) -> Array:
    return xp.maximum(x, _constant(xp, x, -_FAR))


def _not_far(xp: Namespace, x: Array) -> Array:
    return xp.minimum(_not_far_below(xp, x), _constant(xp, x, _FAR))


def _silu_gradient(xp: Namespace, dy: Array, x: Array, _: float) -> Array:
    x = _not_far(xp, x)
    s = _sigmoid(xp, x)
    return dy * (s * (1.0 + x * (1.0 - s)))


def _gelu_gradient(xp: Namespace, dy: Array, x: Array, _: float) -> Array:
    x = _not_far(xp, x)
    density = xp.exp(-0.5 * x * x) / sqrt(2.0 * pi)
    return dy * (_normal_distribution(xp, x) + x * density)


_FORWARD: dict[str, Callable[[Namespace, Array, float], Array]] = {
    "identity": lambda xp, x, _: x,
    "relu": lambda xp, x, _: _positive(xp, x),
    "leaky_relu": lambda xp, x, slope: xp.where(x > 0, x, slope * x),
    "elu": lambda xp, x, alpha: xp.where(x > 0, x, alpha * xp.expm1(xp.minimum(x, _constant(xp, x, 0.0)))),
    "sigmoid": lambda xp, x, _: _sigmoid(xp, x),
    "tanh": lambda xp, x, _: xp.tanh(x),
    "softplus": lambda xp, x, _: _positive(xp, x) + xp.log1p(xp.exp(-xp.abs(x))),
    "silu": lambda xp, x, _: _not_far_below(xp, x) * _sigmoid(xp, x),
    "gelu": lambda xp, x, _: _not_far_below(xp, x) * _normal_distribution(xp, x),
    "sinusoid": lambda xp, x, _: xp.sin(x),
}

_GRADIENT: dict[str, Callable[[Namespace, Array, Array, float], Array]] = {
    "identity": lambda xp, dy, kept, _: dy,
    "relu": lambda xp, dy, y, _: xp.where(y > 0, dy, _constant(xp, dy, 0.0)),
    "leaky_relu": lambda xp, dy, y, slope: xp.where(y > 0, dy, slope * dy),
    "elu": lambda xp, dy, y, alpha: xp.where(y > 0, dy, dy * (y + alpha)),
    "sigmoid": lambda xp, dy, y, _: dy * (y * (1.0 - y)),
    "tanh": lambda xp, dy, y, _: dy * (1.0 - y * y),
    "softplus": lambda xp, dy, y, _: dy * -xp.expm1(-y),
    "silu": _silu_gradient,
    "gelu": _gelu_gradient,
    "sinusoid": lambda xp, dy, x, _: dy * xp.cos(x),
}
