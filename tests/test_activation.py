import math

import numpy as np
import pytest
from backends import assert_same_bits, load, to_numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.layers import ACTIVATIONS
from rejection import assert_rejected

import stelliferous_xp as sx

# What an error of rounding in the argument can do to the value is a few units of the last place.
RTOL = {"float32": 1e-5, "float64": 1e-13}
# Derivatives taken from the output lose digits where the output is close to its limit: relative to 1.
ATOL = {"float32": 3e-7, "float64": 1e-15}
CASES = {name: (name, ()) for name in ACTIVATIONS} | {
    "leaky_relu(0.25)": (sx.leaky_relu(slope=0.25), (0.25,)),
    "leaky_relu(2)": (sx.leaky_relu(slope=2), (2.0,)),
    "leaky_relu(0)": (sx.leaky_relu(slope=0), (0.0,)),
    "elu(0.5)": (sx.elu(alpha=0.5), (0.5,)),
    "elu(3)": (sx.elu(3), (3.0,)),
    "elu(0)": (sx.elu(0), (0.0,)),
}
POINTS = np.float32([-80, -20, -9, -5.5, -3, -1.25, -0.5, -0.03125, -1e-6, 0,
                     1e-6, 0.03125, 0.5, 1.25, 3, 5.5, 9, 20, 80])
KEPT = {"identity": None, "silu": "input", "gelu": "input", "sinusoid": "input"}
INFINITE = {  # value at -inf and inf, derivative at -inf and inf
    "identity": (-math.inf, math.inf, 1, 1), "relu": (0, math.inf, 0, 1), "leaky_relu": (-math.inf, math.inf, 0.01, 1),
    "elu": (-1, math.inf, 0, 1), "sigmoid": (0, 1, 0, 0), "tanh": (-1, 1, 0, 0), "softplus": (0, math.inf, 0, 1),
    "silu": (0, math.inf, 0, 1), "gelu": (0, math.inf, 0, 1),
}


def named(case):
    activation, parameter = case
    value, derivative = ACTIVATIONS[activation if isinstance(activation, str) else activation.name]
    return activation, lambda x: value(float(x), *parameter), lambda x: derivative(float(x), *parameter)


def derivative_of(backend, activation, x, dtype):
    x = backend.asarray(x, dtype)
    _, saved, layer = sx.forward(x, sx.activation_layer(activation))
    return sx.backward(backend.asarray(np.ones(x.shape), dtype), saved, layer)[0]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_values_and_derivatives(backend, dtype, case):
    activation, value, derivative = named(case)
    y, saved, layer = sx.forward(backend.asarray(POINTS, dtype), sx.activation_layer(activation))
    smallest = float(np.finfo(dtype).smallest_normal)
    backend.assert_close(y, [value(x) for x in POINTS], dtype, rtol=RTOL[dtype], atol=smallest)
    assert_same_bits(sx.activate(backend.asarray(POINTS, dtype), activation), y)
    assert_same_bits(sx.evaluate(backend.asarray(POINTS, dtype), layer), y)

    dy = np.linspace(-2, 3, len(POINTS))
    dx, after = sx.backward(backend.asarray(dy, dtype), saved, layer)
    expected = np.float64(dy.astype(dtype)) * [derivative(x) for x in POINTS]
    backend.assert_close(dx, expected, dtype, rtol=RTOL[dtype], atol=5 * ATOL[dtype])
    assert sx.parameters(after) == sx.gradients(after) == {}


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 2, 3, 1, 2)], ids=str)
@pytest.mark.parametrize("activation", ["identity", "relu"])
def test_any_shape(backend, dtype, shape, activation):
    x = np.linspace(-3, 3, math.prod(shape)).reshape(shape)
    y, saved, layer = sx.forward(backend.asarray(x, dtype), sx.activation_layer(activation))
    assert backend.check(y, dtype).shape == shape
    assert backend.check(sx.backward(y, saved, layer)[0], dtype).shape == shape


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_nan_stays_nan(backend, dtype, name):
    y = backend.check(sx.activate(backend.asarray([np.nan, 1], dtype), name), dtype)
    assert np.isnan(y).tolist() == [True, False]


@pytest.mark.parametrize("name", INFINITE)
def test_infinities(backend, dtype, name):
    low, high, low_slope, high_slope = INFINITE[name]
    x = [-np.inf, np.inf]
    backend.assert_close(sx.activate(backend.asarray(x, dtype), name), [low, high], dtype, rtol=0)
    backend.assert_close(derivative_of(backend, name, x, dtype), [low_slope, high_slope], dtype)


@pytest.mark.parametrize("name", INFINITE)
def test_the_largest_numbers_are_like_infinities_and_overflow_nothing(backend, dtype, name):
    largest = float(np.finfo(dtype).max)
    low, high, low_slope, high_slope = INFINITE[name]
    expected = [0.01 * -largest if name == "leaky_relu" else max(low, -largest), min(high, largest)]
    y = sx.activate(backend.asarray([-largest, largest], dtype), name)
    backend.assert_close(y, expected, dtype, rtol=1e-6)
    backend.assert_close(derivative_of(backend, name, [-largest, largest], dtype), [low_slope, high_slope], dtype)


def test_the_sine_of_infinity_is_nan(backend, dtype):
    with np.errstate(invalid="ignore"):
        y = sx.activate(backend.asarray([-np.inf, np.inf], dtype), "sinusoid")
    assert np.isnan(backend.check(y, dtype)).all()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_minus_zero_is_zero(backend, dtype, name):
    _, value, derivative = named((name, ()))
    backend.assert_close(sx.activate(backend.asarray([-0.0, 0.0], dtype), name), [value(0)] * 2, dtype)
    backend.assert_close(derivative_of(backend, name, [-0.0, 0.0], dtype), [derivative(0)] * 2, dtype)


@settings(derandomize=True, deadline=None)
@given(x=st.floats(-700, 700), case=st.sampled_from(sorted(CASES)))
def test_values_at_any_float(x, case):
    activation, value, derivative = named(CASES[case])
    array = np.asarray([x])
    np.testing.assert_allclose(sx.activate(array, activation), [value(x)], rtol=1e-13, atol=1e-300)
    expected = derivative(x)
    np.testing.assert_allclose(derivative_of(load("numpy"), activation, array, "float64"), [expected],
                               rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_saved_holds_one_array_and_serves_twice(backend, case):
    activation, *_ = named(case)
    name = activation if isinstance(activation, str) else activation.name
    x = backend.asarray(POINTS)
    y, saved, layer = sx.forward(x, sx.activation_layer(activation))
    assert vars(saved).keys() == {"activation", "kept"}
    expected = KEPT.get(name, "output")
    if expected is None:
        assert not any(hasattr(value, "__array_namespace__") for value in vars(saved.kept).values())
    else:
        assert saved.kept is (x if expected == "input" else y)
    assert saved.activation.kept == (expected or "nothing")
    assert_same_bits(sx.backward(x, saved, layer)[0], sx.backward(x, saved, layer)[0])


def test_activations_are_values():
    assert sx.elu(0.5) == sx.elu(alpha=0.5) != sx.elu()
    assert sx.elu() != sx.leaky_relu(1.0)
    assert {sx.leaky_relu(): 1}[sx.leaky_relu(0.01)] == 1
    assert sx.activation_layer("elu").activation == sx.elu(1.0)
    assert sx.activation_layer("leaky_relu").activation == sx.leaky_relu(0.01)


@pytest.mark.parametrize(("error", "match", "function", "argument"), [
    (ValueError, "`activation` must be one of identity, relu, .*; got 'swish'", sx.activation_layer, "swish"),
    (TypeError, "`activation` must be a name or .*; got None", sx.activation_layer, None),
    (TypeError, "`activation` must be a name or", sx.activation_layer, sx.elu),
    (ValueError, "`slope` must be .* at least 0; got -0.5", sx.leaky_relu, -0.5),
    (ValueError, "`alpha` must be .* at least 0; got -1", sx.elu, -1),
    (ValueError, "`alpha` must be a finite number.*; got nan", sx.elu, math.nan),
    (ValueError, "`slope` must be a finite number.*; got inf", sx.leaky_relu, math.inf),
    (TypeError, "`alpha` must be a number; got '1'", sx.elu, "1"),
], ids=["name", "none", "function", "slope", "alpha", "nan", "inf", "text"])
def test_bad_activations(error, match, function, argument):
    assert_rejected(error, match, function, argument)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ["int64", "bool", "float16", "complex64"])
def test_bad_input(name, dtype):
    x, layer = np.ones(3, dtype), sx.activation_layer(name)
    assert_rejected(TypeError, f"`x` must have dtype float32 or float64; got {dtype}", sx.forward, x, layer)
    assert_rejected(TypeError, "`x` must be an array; got float", sx.evaluate, 1.0, layer)


@pytest.mark.parametrize("name", ["identity", "relu", "silu"])
def test_bad_gradients_and_saved(backend, name):
    layer = sx.activation_layer(name)
    dy, saved, _ = sx.forward(backend.asarray(np.ones((2, 3))), layer)
    for shape in [(3,), (2, 1), (3, 2), (2, 3, 1), ()]:
        assert_rejected(ValueError, r"`dy` must have shape \(2, 3\).*; got", sx.backward,
                        backend.asarray(np.ones(shape)), saved, layer)
    wide = backend.asarray(np.ones((2, 3)), "float64")
    assert_rejected(TypeError, "must have dtype", sx.backward, wide, saved, layer)
    other = load("array_api_strict" if backend.name == "array_api_strict:device1" else "array_api_strict:device1")
    error = ValueError if other.module is backend.module else TypeError
    assert_rejected(error, "must be (an array of|on device)", sx.backward, other.asarray(np.ones((2, 3))), saved, layer)
    _, of_tanh, _ = sx.forward(dy, sx.activation_layer("tanh"))
    assert_rejected(ValueError, f"`saved` must come from this layer, .*{name}.*; got .*tanh",
                    sx.backward, dy, of_tanh, layer)
    _, of_a_pool, _ = sx.forward(backend.asarray(np.ones((1, 1, 2, 2))), sx.average_pool_layer())
    assert_rejected(TypeError, "`saved` must be the ActivationSaved .*; got AveragePoolSaved",
                    sx.backward, dy, of_a_pool, layer)


def test_a_saved_of_another_parameter():
    x = np.ones(3)
    _, saved, _ = sx.forward(x, sx.activation_layer(sx.elu(0.5)))
    assert_rejected(ValueError, "`saved` must come from this layer, .*1.0.*; got .*0.5",
                    sx.backward, x, saved, sx.activation_layer("elu"))


@pytest.mark.parametrize("first", [sx.conv2d_layer(np.ones((2, 2, 1, 1))), sx.batch_norm_layer(2, dtype="float64")],
                         ids=lambda layer: layer.kind)
@pytest.mark.parametrize("others", [("relu", "tanh"), ("relu", "identity"), ("identity", "relu"), ("relu", "silu"),
                                    (sx.elu(0.5), sx.elu(2.0))], ids=str)
def test_a_saved_of_another_activation_inside_a_network(rng, first, others):
    right, wrong = (sx.network([first, sx.activation_layer(activation)]) for activation in others)
    x = rng.standard_normal((3, 2, 2, 2))
    y, saved, _ = sx.forward(x, right)
    sx.backward(y, saved, right)
    error = (TypeError, "`saved` must be") if others[1] == "silu" and first.kind == "conv2d" else (
        ValueError, "`saved` must come from this layer")
    assert_rejected(*error, sx.backward, y, saved, wrong)


def test_an_activation_in_a_network_saves_one_array_more_at_most(rng):
    x = rng.standard_normal((3, 2, 2, 2))
    for first in (sx.conv2d_layer(np.ones((2, 2, 1, 1))), sx.batch_norm_layer(2, dtype="float64")):
        for name in ACTIVATIONS:
            y, saved, _ = sx.forward(x, sx.network([first, sx.activation_layer(name)]))
            kept = [value for record in saved.layers if record is not None for value in vars(record).values()
                    if isinstance(value, np.ndarray) and value.shape == y.shape]
            assert kept[0] is x
            assert len(kept) <= 2


def test_the_primitive_operations_agree_with_the_layer(backend):
    x = backend.asarray(POINTS)
    for name in ACTIVATIONS:
        y, saved, layer = sx.forward(x, sx.activation_layer(name))
        kept = {"input": x, "output": y, "nothing": y}[layer.activation.kept]
        assert_same_bits(sx.activation_gradient(x, kept, name), sx.backward(x, saved, layer)[0])
    shorter = backend.asarray(to_numpy(x)[:3])
    assert_rejected(ValueError, "`dy` must have shape .* to match `kept`", sx.activation_gradient, shorter, x, "relu")
