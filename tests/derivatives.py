"""The projected-derivative check: backward against differences of forward, in float64."""

import math

from backends import to_numpy

import stelliferous_xp as sx

STEP = 2e-4
TOLERANCE = 1e-6


def check_derivatives(x, layer, backend, rng):
    """Check backward for the input and for each parameter, along a random direction each.

    For a fixed random `dy` the sum of dy*forward(x + t*v) over t has the derivative sum(dx*v) at 0. It is
    compared with a difference quotient of fourth order, relative to its own size. Points where a layer has a
    kink must be more than 2*STEP away.
    """
    y, saved, _ = sx.forward(x, layer)
    dy = rng.standard_normal(tuple(y.shape))
    dx, with_gradients = sx.backward(backend.asarray(dy, "float64"), saved, layer)

    def of_input(moved):
        return _projected(dy, moved, layer)

    _check("input", of_input, x, dx, backend, rng)
    gradients = sx.gradients(with_gradients)
    assert list(gradients) == list(sx.parameters(layer))
    for name, gradient in gradients.items():
        def of_parameter(moved, name=name):
            return _projected(dy, x, sx.replace_parameters(layer, sx.parameters(layer) | {name: moved}))

        _check(name, of_parameter, sx.parameters(layer)[name], gradient, backend, rng)


def _projected(dy, x, layer):
    y = to_numpy(sx.forward(x, layer)[0])
    return math.fsum((dy * y).ravel().tolist())


def _check(name, function, at, gradient, backend, rng):
    host, gradient = to_numpy(at), backend.check(gradient, "float64")
    assert gradient.shape == host.shape
    direction = rng.standard_normal(host.shape)

    def along(t):
        return function(backend.asarray(host + t * direction, "float64"))

    expected = (8 * (along(STEP) - along(-STEP)) - (along(2 * STEP) - along(-2 * STEP))) / (12 * STEP)
    actual = math.fsum((gradient * direction).ravel().tolist())
    assert abs(actual - expected) <= TOLERANCE * abs(expected), f"{name}: backward {actual}, difference {expected}"
