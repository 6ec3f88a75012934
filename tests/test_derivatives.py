"""Projected derivatives of every kind of layer, in float64, on every library."""

import dataclasses

import numpy as np
import pytest
from backends import load
from cases import each_backend_with
from derivatives import check_derivatives
from reference.layers import ACTIVATIONS

import stelliferous_xp as sx


def convolution(backend, rng, filters, channels, kernel=(3, 3), bias=True, **options):
    weights = backend.asarray(rng.standard_normal((filters, channels, *kernel)) / np.sqrt(channels * 9), "float64")
    bias = backend.asarray(rng.standard_normal(filters), "float64") if bias else None
    return sx.conv2d_layer(weights, bias, **options)


def batch_norm(backend, rng, channels):
    return sx.batch_norm_layer_from(*(backend.asarray(rng.uniform(0.5, 2, channels), "float64") for _ in range(4)))


def stage(backend, rng, channels):
    return sx.network([convolution(backend, rng, channels, channels, bias=False, padding=1),
                       batch_norm(backend, rng, channels), sx.activation_layer("tanh")])


def nested(backend, rng):
    branches = sx.concat([sx.residual(stage(backend, rng, 2)), sx.merge([stage(backend, rng, 2)]),
                          convolution(backend, rng, 1, 2, (1, 1))])
    return sx.network([branches, sx.network([sx.activation_layer("softplus"), batch_norm(backend, rng, 5)]),
                       sx.average_pool_layer()])


LAYERS = {
    "conv2d": lambda b, r: convolution(b, r, 3, 2),
    "conv2d without bias": lambda b, r: convolution(b, r, 3, 2, bias=False),
    "conv2d 1x1": lambda b, r: convolution(b, r, 3, 2, (1, 1)),
    "conv2d strided": lambda b, r: convolution(b, r, 3, 2, (2, 3), stride=(3, 2), padding=(1, 2)),
    "batch_norm": lambda b, r: batch_norm(b, r, 2),
    "average_pool": lambda b, r: sx.average_pool_layer(),
    "network": lambda b, r: stage(b, r, 2),
    "network of conv2d and elu": lambda b, r: sx.network([convolution(b, r, 3, 2), sx.activation_layer("tanh"),
                                                          convolution(b, r, 2, 3), sx.activation_layer("gelu")]),
    "network of batch_norm and silu": lambda b, r: sx.network([batch_norm(b, r, 2), sx.activation_layer("silu")]),
    "residual": lambda b, r: sx.residual(stage(b, r, 2)),
    "residual with shortcut": lambda b, r: sx.residual(convolution(b, r, 3, 2, stride=2),
                                                       convolution(b, r, 3, 2, (2, 4), stride=2)),
    "concat": lambda b, r: sx.concat([stage(b, r, 2), convolution(b, r, 1, 2, padding=1)]),
    "merge": lambda b, r: sx.merge([stage(b, r, 2), convolution(b, r, 2, 2, padding=1), sx.activation_layer("silu")]),
    "nested": nested,
}


@each_backend_with("make", LAYERS, jax=["conv2d strided", "conv2d without bias", "batch_norm", "average_pool",
                                        "residual with shortcut", "nested"])
def test_images(backend, rng, make):
    check_derivatives(backend.asarray(rng.standard_normal((3, 2, 5, 6)), "float64"), make(backend, rng), backend, rng)


def test_batch_norm_of_rows(backend, rng):
    x = backend.asarray(rng.standard_normal((5, 3)), "float64")
    check_derivatives(x, batch_norm(backend, rng, 3), backend, rng)


@pytest.mark.parametrize("activation", [*ACTIVATIONS, sx.leaky_relu(0.3), sx.elu(0.5)], ids=str)
def test_activations(backend, rng, activation):
    x = rng.standard_normal((4, 6))
    x += np.copysign(0.01, x)  # off the kinks
    check_derivatives(backend.asarray(x, "float64"), sx.activation_layer(activation), backend, rng)


@pytest.mark.parametrize("activation", [*ACTIVATIONS, sx.leaky_relu(0.3), sx.elu(0.5)], ids=str)
@pytest.mark.parametrize("before", ["conv2d", "batch_norm"])
def test_activations_behind_a_layer(rng, activation, before):
    backend = load("numpy")
    x = backend.asarray(np.random.default_rng(3).standard_normal((2, 2, 3, 3)), "float64")
    layer = convolution(backend, rng, 3, 2) if before == "conv2d" else batch_norm(backend, rng, 2)
    check_derivatives(x, sx.network([layer, sx.activation_layer(activation)]), backend, rng)


@pytest.mark.parametrize("what", ["input", "weights", "bias"])
def test_the_check_sees_a_wrong_gradient(backend, rng, what):
    true = convolution(backend, rng, 2, 2)

    class Wrong(type(true)):
        def backward(self, dy, saved):
            dx, layer = super().backward(dy, saved)
            if what == "input":
                return dx * (1 + 3e-6), layer
            wrong = layer.parameter_gradients[what] * (1 + 3e-6)
            return dx, layer.with_gradients({**layer.parameter_gradients, what: wrong})

    wrong = Wrong(**{field.name: getattr(true, field.name) for field in dataclasses.fields(true)})
    with pytest.raises(AssertionError, match=what):
        check_derivatives(backend.asarray(rng.standard_normal((2, 2, 4, 4)), "float64"), wrong, backend, rng)
