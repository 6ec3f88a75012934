import array_api_compat
import numpy as np
import pytest
from backends import assert_same_bits, load, to_numpy
from cases import each_backend_with
from reference import layers as reference
from rejection import assert_rejected

import stelliferous_xp as sx

SHAPES = {"[N,C,H,W]": (5, 3, 3, 2), "[N,C]": (7, 4), "one image": (1, 2, 3, 3), "one channel": (11, 1)}
EPSILON, MOMENTUM = 1e-3, 0.3
# Against float64; relative to the largest value, as a gradient that cancels is as wrong as its terms.
TOLERANCE = {"float32": 3e-6, "float64": 1e-13}


def draw(rng, shape):
    x = (3 + 2 * rng.standard_normal(shape)).astype("float32")
    gamma, beta, mean, variance = rng.uniform(0.5, 2, (4, shape[1])).astype("float32")
    return x, gamma, beta, mean, variance


def layer_of(backend, dtype, *arrays):
    return sx.batch_norm_layer_from(*(backend.asarray(array, dtype) for array in arrays), EPSILON, MOMENTUM)


def close(backend, actual, expected, dtype, tolerance=None):
    scale = np.abs(expected).max()
    backend.assert_close(actual, expected, dtype, rtol=0, atol=(tolerance or TOLERANCE[dtype]) * max(scale, 1))


@each_backend_with("shape", SHAPES, jax=["[N,C,H,W]", "[N,C]"])
def test_training(backend, dtype, rng, shape):
    x, gamma, beta, *running = draw(rng, shape)
    running_mean, running_variance = np.float64(running)
    before = layer_of(backend, dtype, gamma, beta, running_mean, running_variance)
    y, saved, layer = sx.forward(backend.asarray(x, dtype), before)
    mean, variance = np.transpose([reference.moments(values) for values in reference.channel_values(x)])
    close(backend, y, reference.batch_norm(x, mean, variance, gamma, beta, EPSILON), dtype)

    count = x.size // x.shape[1]
    close(backend, layer.running_mean, 0.7 * running_mean + 0.3 * mean, dtype)
    close(backend, layer.running_variance, 0.7 * running_variance + 0.3 * variance * count / (count - 1), dtype)
    assert_same_bits(before.running_mean, backend.asarray(running_mean, dtype))
    assert_same_bits(before.running_variance, backend.asarray(running_variance, dtype))
    assert_same_bits(layer.gamma, before.gamma)
    assert_same_bits(layer.beta, before.beta)

    dy = rng.standard_normal(shape).astype("float32")
    dx, after = sx.backward(backend.asarray(dy, dtype), saved, layer)
    expected = reference.batch_norm_gradients(dy, x, gamma, EPSILON)
    assert list(sx.gradients(after)) == ["gamma", "beta"]
    for actual, gradient in zip([dx, *sx.gradients(after).values()], expected, strict=True):
        close(backend, actual, gradient, dtype)
    assert_same_bits(after.running_mean, layer.running_mean)
    assert_same_bits(after.running_variance, layer.running_variance)


@pytest.mark.parametrize("shape", [(70001, 3), (19, 3, 61, 67)], ids=str)
def test_a_batch_that_is_cut_into_blocks(dtype, rng, shape):
    backend = load("numpy")
    x = rng.standard_normal(shape) + np.linspace(0, 5, shape[0]).reshape(-1, *[1] * (len(shape) - 1))  # means differ
    x, axes, per_channel = np.float64(np.float32(x)), (0, 2, 3)[:len(shape) - 1], (1, -1, 1, 1)[:len(shape)]
    dy = np.float64(np.float32(rng.standard_normal(shape) + x))
    layer = sx.batch_norm_layer(3, dtype=dtype)
    tolerance = {"float32": 1e-5, "float64": 1e-13}[dtype]  # float32 sums of up to 32768 rows
    _, saved, layer = sx.forward(backend.asarray(x, dtype), layer)
    dx, layer = sx.backward(backend.asarray(dy, dtype), saved, layer)
    mean, variance = np.transpose([reference.moments(values) for values in reference.channel_values(x)])
    close(backend, saved.mean, mean, dtype, tolerance)
    close(backend, saved.variance, variance, dtype, tolerance)
    u = (x - mean.reshape(per_channel)) / np.sqrt(variance + 1e-5).reshape(per_channel)
    close(backend, sx.gradients(layer)["gamma"], (dy * u).sum(axis=axes), dtype, tolerance)
    close(backend, sx.gradients(layer)["beta"], dy.sum(axis=axes), dtype, tolerance)
    centred = dy - dy.mean(axis=axes, keepdims=True) - u * (dy * u).mean(axis=axes, keepdims=True)
    close(backend, dx, centred / np.sqrt(variance + 1e-5).reshape(per_channel), dtype, tolerance)


@pytest.mark.parametrize("shape", [(2, 3, 2, 2), (1, 3, 1, 1), (1, 4), (0, 4)], ids=str)
def test_inference_uses_the_running_statistics(backend, dtype, rng, shape):
    x, gamma, beta, mean, variance = draw(rng, shape)
    layer = layer_of(backend, dtype, gamma, beta, mean, variance)
    y = sx.evaluate(backend.asarray(x, dtype), layer)
    expected = reference.batch_norm(x, mean, variance, gamma, beta, EPSILON)
    backend.assert_close(y, expected, dtype, rtol=0, atol=10 * TOLERANCE[dtype])


def test_a_fresh_layer(backend, dtype):
    layer = sx.batch_norm_layer(3, xp=backend.xp, dtype=dtype, device=backend.device)
    for array, value in [(layer.gamma, 1), (layer.beta, 0), (layer.running_mean, 0), (layer.running_variance, 1)]:
        assert backend.check(array, dtype).tolist() == [value] * 3
    assert (layer.epsilon, layer.momentum) == (1e-5, 0.1)
    assert layer.gamma is not layer.running_variance
    assert_same_bits(sx.batch_norm_layer(3, xp=backend.xp, dtype=getattr(backend.xp, dtype)).beta, layer.beta)


@pytest.mark.parametrize(("momentum", "mean", "variance"), [(0.0, 7, 9), (0.25, 6, 7.75), (1.0, 3, 4)], ids=str)
def test_momentum_is_the_weight_of_the_new_value(backend, dtype, momentum, mean, variance):
    one = np.ones(1)
    layer = sx.batch_norm_layer_from(*(backend.asarray(array, dtype) for array in (one, one, 7 * one, 9 * one)),
                                     momentum=momentum)
    _, _, layer = sx.forward(backend.asarray([[1], [3], [5]], dtype), layer)
    assert to_numpy(layer.running_mean) == mean
    assert to_numpy(layer.running_variance) == variance  # the batch's is 8/3, and 8/2 without bias


def test_saved_holds_the_input_and_its_moments_and_serves_twice(backend, dtype, rng):
    x, *arrays = draw(rng, (3, 2, 2, 3))
    x, before = backend.asarray(x, dtype), layer_of(backend, dtype, *arrays)
    y, saved, layer = sx.forward(x, before)
    assert saved.x is x
    assert sum(array_api_compat.is_array_api_obj(value) for value in vars(saved).values()) == 3
    assert backend.check(saved.mean, dtype).shape == backend.check(saved.variance, dtype).shape == (2,)
    dx, once = sx.backward(y, saved, layer)
    same_dx, twice = sx.backward(y, saved, once)
    assert_same_bits(dx, same_dx)
    for name, gradient in sx.gradients(once).items():
        assert_same_bits(gradient, sx.gradients(twice)[name])
    # Neither the statistics of the layer nor a later forward have a part in it.
    _, _, moved = sx.forward(y, layer)
    assert_same_bits(sx.backward(y, saved, moved)[0], dx)


@pytest.mark.parametrize("shape", [(1, 3), (1, 3, 1, 1)], ids=str)
def test_one_value_a_channel_cannot_train(backend, dtype, shape):
    layer = sx.batch_norm_layer(3, xp=backend.xp, dtype=dtype, device=backend.device)
    x = backend.asarray(np.ones(shape), dtype)
    assert_rejected(ValueError, r"`x` must have at least 2 values a channel.*; got shape \(1, 3", sx.forward, x, layer)


@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 4, 5)], ids=str)
def test_an_empty_batch_changes_nothing(backend, dtype, shape):
    before = sx.batch_norm_layer(3, xp=backend.xp, dtype=dtype, device=backend.device)
    y, saved, layer = sx.forward(backend.asarray(np.empty(shape), dtype), before)
    assert backend.check(y, dtype).shape == shape
    assert sx.digest(layer) == sx.digest(before)
    dx, layer = sx.backward(y, saved, layer)
    assert backend.check(dx, dtype).shape == shape
    for gradient in sx.gradients(layer).values():
        assert backend.check(gradient, dtype).tolist() == [0, 0, 0]


def test_the_primitive_operations_agree_with_the_layer(backend, dtype, rng):
    x, gamma, beta, mean, variance = draw(rng, (3, 2, 2, 3))
    layer = layer_of(backend, dtype, gamma, beta, mean, variance)
    x = backend.asarray(x, dtype)
    y, saved, _ = sx.forward(x, layer)
    moments = sx.batch_moments(x)
    assert_same_bits(sx.batch_norm(x, *moments, layer.gamma, layer.beta, EPSILON), y)
    dx, dgamma, dbeta = sx.batch_norm_gradient(y, x, *moments, layer.gamma, layer.beta, EPSILON)
    from_layer, layer = sx.backward(y, saved, layer)
    for left, right in zip([dx, dgamma, dbeta], [from_layer, *sx.gradients(layer).values()], strict=True):
        assert_same_bits(left, right)


def test_a_mean_far_from_zero_costs_no_digits(backend):
    # Exact in float32. The mean of the squares less the square of the mean would be lost in rounding.
    values = 2.0**12 + np.random.default_rng(1).integers(0, 8, (64, 2)) / 8
    mean, variance = sx.batch_moments(backend.asarray(values))
    expected = np.transpose([reference.moments(column) for column in reference.channel_values(values)])
    backend.assert_close(mean, expected[0], rtol=1e-7)
    backend.assert_close(variance, expected[1], rtol=3e-6)


def test_nan_stays_in_its_channel(backend):
    x = np.array([[1, np.nan], [3, 4]])
    layer = sx.batch_norm_layer(2, xp=backend.xp, device=backend.device)
    y, _, layer = sx.forward(backend.asarray(x), layer)
    assert np.isnan(to_numpy(y)).tolist() == [[False, True]] * 2
    assert np.isnan(to_numpy(layer.running_mean)).tolist() == [False, True]


def test_the_layer_does_not_share_the_callers_arrays():
    arrays = [np.ones(2) for _ in range(4)]
    layer = sx.batch_norm_layer_from(*arrays)
    digest = sx.digest(layer)
    for array in arrays:
        array[...] = 7
    assert sx.digest(layer) == digest


@pytest.mark.parametrize("function", [sx.forward, sx.evaluate])
@pytest.mark.parametrize(("error", "match", "x"), [
    (ValueError, r"`x` must have shape \(N, C, H, W\) or \(N, C\); got \(2, 3, 4\)", np.ones((2, 3, 4), "float32")),
    (ValueError, r"`x` must have shape \(N, 3\); got \(2, 4\)", np.ones((2, 4), "float32")),
    (ValueError, r"`x` must have shape \(N, 3, H, W\); got \(2, 1, 4, 4\)", np.ones((2, 1, 4, 4), "float32")),
    (ValueError, r"`x` must have shape \(N, 3, H, W\); got \(2, 3, 0, 4\)", np.ones((2, 3, 0, 4), "float32")),
    (TypeError, "`x` must have dtype float32 or float64; got int32", np.ones((2, 3), "int32")),
    (TypeError, "`x` must have dtype float32 or float64; got float16", np.ones((2, 3), "float16")),
    (TypeError, "`gamma` must have dtype float64 like `x`; got float32", np.ones((2, 3))),
    (TypeError, "`x` must be an array; got list", [[1.0, 2.0, 3.0]]),
], ids=["rank", "channels", "channels 4-d", "empty plane", "integers", "float16", "dtype", "list"])
def test_bad_input(function, error, match, x):
    assert_rejected(error, match, function, x, sx.batch_norm_layer(3))


@pytest.mark.parametrize(("error", "match", "options"), [
    (ValueError, "`channels` must be at least 1; got 0", {"channels": 0}),
    (TypeError, "`channels` must be an integer; got 2.0", {"channels": 2.0}),
    (ValueError, "`epsilon` must be a finite number, at least 0; got -1", {"epsilon": -1}),
    (ValueError, "`epsilon` must be a finite number, at least 0; got nan", {"epsilon": float("nan")}),
    (ValueError, "`momentum` must be a finite number from 0 to 1; got 1.5", {"momentum": 1.5}),
    (TypeError, "`momentum` must be a number; got '0.1'", {"momentum": "0.1"}),
    (TypeError, "`dtype` must be float32 or float64; got 'float16'", {"dtype": "float16"}),
    (TypeError, "`xp` must be an array library .*; got 'numpy'", {"xp": "numpy"}),
], ids=lambda value: str(value) if isinstance(value, dict) else "")
def test_bad_options(error, match, options):
    assert_rejected(error, match, sx.batch_norm_layer, **({"channels": 3} | options))


@pytest.mark.parametrize("name", ["gamma", "beta", "running_mean", "running_variance"])
def test_bad_arrays(name):
    arrays = dict.fromkeys(["gamma", "beta", "running_mean", "running_variance"], np.ones(3))
    expected = r"\(C,\)" if name == "gamma" else r"\(3,\)"
    assert_rejected(ValueError, rf"`{name}` must have shape {expected}.*; got \(1, 3\)",
                    sx.batch_norm_layer_from, **(arrays | {name: np.ones((1, 3))}))
    assert_rejected(TypeError, "must have dtype", sx.batch_norm_layer_from, **(arrays | {name: np.ones(3, "float32")}))


def test_bad_gradients_and_saved(backend):
    layer = sx.batch_norm_layer(3, xp=backend.xp, device=backend.device)
    dy, saved, layer = sx.forward(backend.asarray(np.arange(12).reshape(4, 3)), layer)
    for shape in [(4, 1), (3, 3), (4, 3, 1, 1), (4,)]:
        assert_rejected(ValueError, r"`dy` must have shape \(4, 3\).*; got", sx.backward,
                        backend.asarray(np.ones(shape)), saved, layer)
    assert_rejected(TypeError, "must have dtype .*float64", sx.backward, backend.asarray(np.ones((4, 3)), "float64"),
                    saved, layer)
    _, of_an_activation, _ = sx.forward(dy, sx.activation_layer("relu"))
    assert_rejected(TypeError, "`saved` must be the BatchNormSaved .*batch_norm.*; got ActivationSaved",
                    sx.backward, dy, of_an_activation, layer)
    _, of_another_call, _ = sx.forward(backend.asarray(np.ones((2, 3))), layer)
    assert_rejected(ValueError, r"`dy` must have shape \(2, 3\).*; got \(4, 3\)",
                    sx.backward, dy, of_another_call, layer)
    wide = sx.batch_norm_layer(4, xp=backend.xp, device=backend.device)
    assert_rejected(ValueError, "`saved` must come from this layer, with 4 channels; got one with 3",
                    sx.backward, dy, saved, wide)


def test_libraries_and_devices_do_not_mix(backend):
    other = load("array_api_strict" if backend.name == "array_api_strict:device1" else "array_api_strict:device1")
    error, match = (ValueError, "on device") if other.module is backend.module else (TypeError, "an array of")
    layer = sx.batch_norm_layer(3, xp=other.xp, device=other.device)
    x = backend.asarray(np.ones((2, 3)))
    assert_rejected(error, f"`gamma` must be {match}.*like `x`", sx.forward, x, layer)
    arrays = [backend.asarray(np.ones(3)), *([other.asarray(np.ones(3))] * 3)]
    assert_rejected(error, f"`beta` must be {match}", sx.batch_norm_layer_from, *arrays)
