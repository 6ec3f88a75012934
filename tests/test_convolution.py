import array_api_compat
import numpy as np
import pytest
from backends import assert_same_bits, load, to_numpy
from cases import each_backend_with
from reference import layers as reference
from rejection import assert_rejected

import stelliferous_xp as sx

# image (H, W), kernel, stride, padding; the strides of the later ones leave rows or columns over
GEOMETRIES = {
    "1x1": ((4, 5), (1, 1), (1, 1), (0, 0)),
    "1x1 strided": ((5, 4), (1, 1), (2, 3), (0, 0)),
    "2x3": ((4, 5), (2, 3), (1, 1), (0, 0)),
    "3x3 same": ((5, 4), (3, 3), (1, 1), (1, 1)),
    "5x5 same": ((5, 6), (5, 5), (1, 1), (2, 2)),
    "rows over": ((6, 6), (3, 3), (2, 2), (0, 0)),
    "per axis": ((7, 6), (2, 3), (3, 2), (1, 2)),
    "stride beyond the kernel": ((8, 7), (2, 2), (3, 4), (0, 1)),
    "padding beyond the kernel": ((2, 3), (2, 1), (1, 1), (3, 2)),
    "kernel larger than the image": ((2, 1), (3, 3), (1, 2), (1, 1)),
    "whole image": ((3, 4), (3, 4), (1, 1), (0, 0)),
}
# Sums of products of both signs: relative to their largest result.
TOLERANCE = {"float32": 2e-6, "float64": 1e-13}


def draw(rng, geometry, images=2, channels=3, filters=4):
    plane, kernel, stride, padding = geometry
    x = rng.standard_normal((images, channels, *plane)).astype("float32")
    weights = rng.standard_normal((filters, channels, *kernel)).astype("float32")
    bias = rng.standard_normal(filters).astype("float32")
    return x, weights, bias, stride, padding


def close(backend, actual, expected, dtype):
    backend.assert_close(actual, expected, dtype, rtol=0, atol=TOLERANCE[dtype] * (1 + np.abs(expected).max()))


@each_backend_with("geometry", GEOMETRIES, jax=["1x1 strided", "per axis"])
def test_values_and_gradients_are_those_of_the_definition(backend, dtype, rng, geometry):
    x, weights, bias, stride, padding = draw(rng, geometry)
    layer = sx.conv2d_layer(backend.asarray(weights, dtype), backend.asarray(bias, dtype), stride, padding)
    y, saved, after = sx.forward(backend.asarray(x, dtype), layer)
    expected = reference.convolution(x, weights, bias, stride, padding)
    close(backend, y, expected, dtype)
    assert_same_bits(sx.evaluate(backend.asarray(x, dtype), layer), y)
    assert after is layer

    dy = rng.standard_normal(expected.shape).astype("float32")
    dx, after = sx.backward(backend.asarray(dy, dtype), saved, layer)
    expected = reference.convolution_gradients(dy, x, weights, stride, padding)
    for actual, gradient in zip([dx, *sx.gradients(after).values()], expected, strict=True):
        close(backend, actual, gradient, dtype)
    assert sx.gradients(layer) == {}


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 5, 2), (9, 1, 3), (17, 2, 1)], ids=str)
def test_any_number_of_images_channels_and_filters(dtype, rng, sizes):
    backend = load("numpy")
    x, weights, bias, stride, padding = draw(rng, GEOMETRIES["per axis"], *sizes)
    arrays = (backend.asarray(array, dtype) for array in (x, weights, bias))
    y = sx.conv2d(*arrays, stride=stride, padding=padding)
    close(backend, y, reference.convolution(x, weights, bias, stride, padding), dtype)


def test_a_batch_that_is_cut_into_blocks(dtype, rng):
    backend = load("numpy")
    x, weights, bias, dy = (np.float64(np.float32(rng.standard_normal(shape)))
                            for shape in [(261, 4, 24, 25), (5, 4, 3, 2), (5,), (261, 5, 12, 12)])
    layer = sx.conv2d_layer(backend.asarray(weights, dtype), backend.asarray(bias, dtype), stride=2, padding=(1, 0))
    y, saved, layer = sx.forward(backend.asarray(x, dtype), layer)
    dx, layer = sx.backward(backend.asarray(dy, dtype), saved, layer)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0))), (3, 2), (2, 3))
    windows = windows[:, :, ::2, ::2]
    close(backend, y, np.einsum("ncijab,ocab->noij", windows, weights) + bias[:, None, None], dtype)
    close(backend, sx.gradients(layer)["weights"], np.einsum("ncijab,noij->ocab", windows, dy), dtype)
    close(backend, sx.gradients(layer)["bias"], dy.sum(axis=(0, 2, 3)), dtype)
    last = reference.convolution_gradients(dy[-1:], x[-1:], weights, (2, 2), (1, 0))[0]
    close(backend, dx[-1:], last, dtype)


def test_without_bias(backend, dtype, rng):
    x, weights, _, stride, padding = draw(rng, GEOMETRIES["2x3"])
    layer = sx.conv2d_layer(backend.asarray(weights, dtype), stride=stride, padding=padding)
    y, saved, _ = sx.forward(backend.asarray(x, dtype), layer)
    close(backend, y, reference.convolution(x, weights, None, stride, padding), dtype)
    _, layer = sx.backward(y, saved, layer)
    assert list(sx.gradients(layer)) == list(sx.parameters(layer)) == ["weights"]


@pytest.mark.parametrize("activation", ["relu", "tanh", sx.elu(alpha=0.5)], ids=["relu", "tanh", "elu"])
def test_a_fused_activation_is_the_activation_of_the_sum(backend, dtype, rng, activation):
    x, weights, bias, stride, padding = draw(rng, GEOMETRIES["3x3 same"])
    y = sx.conv2d(*(backend.asarray(array, dtype) for array in (x, weights, bias)), stride, padding, activation)
    name, *parameter = (activation,) if isinstance(activation, str) else (activation.name, activation.parameter)
    expected = reference.convolution(x, weights, bias, stride, padding)
    function = reference.ACTIVATIONS[name][0]
    close(backend, y, np.vectorize(lambda value: function(value, *parameter))(expected), dtype)


def test_options_are_an_integer_or_a_pair(rng):
    x, weights, bias, *_ = draw(rng, GEOMETRIES["3x3 same"])
    pair = sx.conv2d(x, weights, bias, (2, 2), [1, 1])
    assert_same_bits(sx.conv2d(x, weights, bias, 2, 1), pair)
    assert_same_bits(sx.conv2d(x, weights, bias, np.int8(2), np.uint64(1)), pair)
    assert_same_bits(sx.evaluate(x, sx.conv2d_layer(weights, bias, 2, 1)), pair)


def test_an_empty_batch(backend, dtype, rng):
    _, weights, bias, *_ = draw(rng, GEOMETRIES["3x3 same"])
    layer = sx.conv2d_layer(backend.asarray(weights, dtype), backend.asarray(bias, dtype), padding=1)
    y, saved, layer = sx.forward(backend.asarray(np.empty((0, 3, 5, 4)), dtype), layer)
    assert backend.check(y, dtype).shape == (0, 4, 5, 4)
    dx, layer = sx.backward(y, saved, layer)
    assert backend.check(dx, dtype).shape == (0, 3, 5, 4)
    for name, gradient in sx.gradients(layer).items():
        assert_same_bits(backend.check(gradient, dtype), np.zeros(sx.parameters(layer)[name].shape, dtype))


def test_saved_holds_the_input_alone_and_serves_twice(backend, dtype, rng):
    x, weights, bias, *_ = draw(rng, GEOMETRIES["2x3"])
    x = backend.asarray(x, dtype)
    layer = sx.conv2d_layer(backend.asarray(weights, dtype), backend.asarray(bias, dtype))
    y, saved, _ = sx.forward(x, layer)
    kept = [value for value in vars(saved).values() if array_api_compat.is_array_api_obj(value)]
    assert len(kept) == 1
    assert kept[0] is x
    once = sx.backward(y, saved, layer)
    twice = sx.backward(y, saved, once[1])  # on a layer with gradients: they are replaced, not added to
    assert_same_bits(once[0], twice[0])
    for name, gradient in sx.gradients(once[1]).items():
        assert_same_bits(gradient, sx.gradients(twice[1])[name])


def test_the_layer_does_not_share_the_callers_arrays():
    weights, bias = np.ones((1, 1, 1, 1)), np.ones(1)
    layer = sx.conv2d_layer(weights, bias)
    weights[...] = bias[...] = 7
    assert layer.weights == layer.bias == 1


def test_nan_reaches_just_the_outputs_that_read_it(backend):
    x = np.zeros((1, 1, 5, 5))
    x[0, 0, 1, 1] = np.nan
    y = to_numpy(sx.conv2d(backend.asarray(x), backend.asarray(np.ones((1, 1, 3, 3)))))[0, 0]
    assert np.isnan(y).tolist() == [[True, True, False], [True, True, False], [False, False, False]]


def ones(*shape, dtype="float32"):
    return np.ones(shape, dtype)


BAD_CALLS = {
    "rank of x": (ValueError, r"`x` must have shape \(N, C, H, W\); got \(3, 5, 5\)", [ones(3, 5, 5)], {}),
    "channels": (ValueError, r"`x` must have shape \(N, 3, H, W\).*; got \(2, 4, 5, 5\)", [ones(2, 4, 5, 5)], {}),
    "rank of weights": (ValueError, r"`weights` .*\(O, C, kh, kw\); got \(3, 3\)", [ones(2, 3, 5, 5), ones(3, 3)], {}),
    "empty kernel": (ValueError, r"`weights` .*\(4, 3, 0, 3\)", [ones(2, 3, 5, 5), ones(4, 3, 0, 3)], {}),
    "shape of bias": (ValueError, r"`bias` must have shape \(4,\).*; got \(1,\)",
                      [ones(2, 3, 5, 5), ones(4, 3, 3, 3), ones(1)], {}),
    "kernel too large": (ValueError, r"kernel \(3, 3\) must fit into the padded image; got .*\(5, 2\)",
                         [ones(2, 3, 5, 2)], {}),
    "kernel too large, padded": (ValueError, r"\(1, 5\) with `padding` \(0, 1\)", [ones(2, 3, 1, 5)],
                                 {"padding": (0, 1)}),
    "empty image": (ValueError, r"padded image; got an image of \(0, 5\)", [ones(2, 3, 0, 5)], {"padding": 4}),
    "stride 0": (ValueError, "`stride` must be at least 1; got 0", [ones(2, 3, 5, 5)], {"stride": 0}),
    "negative stride": (ValueError, "`stride` must be at least 1; got -2", [ones(2, 3, 5, 5)], {"stride": (1, -2)}),
    "stride of three": (ValueError, r"`stride` must be .*pair.*; got \(1, 1, 1\)", [ones(2, 3, 5, 5)],
                        {"stride": (1, 1, 1)}),
    "fractional stride": (TypeError, "`stride` must be an integer; got 1.5", [ones(2, 3, 5, 5)], {"stride": 1.5}),
    "stride as text": (TypeError, "`stride` must be an integer; got 'same'", [ones(2, 3, 5, 5)], {"stride": "same"}),
    "negative padding": (ValueError, "`padding` must be at least 0; got -1", [ones(2, 3, 5, 5)], {"padding": -1}),
    "padding as bool": (TypeError, "`padding` must be an integer; got True", [ones(2, 3, 5, 5)], {"padding": True}),
    "integer images": (TypeError, "`x` must have dtype float32 or float64; got int64",
                       [ones(2, 3, 5, 5, dtype="int64")], {}),
    "float16 images": (TypeError, "`x` must have dtype float32 or float64; got float16",
                       [ones(2, 3, 5, 5, dtype="float16")], {}),
    "mixed dtypes": (TypeError, "`weights` must have dtype float64 like `x`; got float32",
                     [ones(2, 3, 5, 5, dtype="float64")], {}),
    "a list": (TypeError, "`x` must be an array; got list", [[[[[1.0]]]]], {}),
    "unknown activation": (ValueError, "`activation` must be one of .*; got 'rleu'", [ones(2, 3, 5, 5)],
                           {"activation": "rleu"}),
}


@pytest.mark.parametrize("bad", BAD_CALLS.values(), ids=BAD_CALLS)
def test_bad_calls(bad):
    error, match, arrays, options = bad
    arrays = [*arrays, ones(4, 3, 3, 3)] if len(arrays) == 1 else arrays
    assert_rejected(error, match, sx.conv2d, *arrays, **options)


@pytest.mark.parametrize("name", ["rank of weights", "empty kernel", "shape of bias"])
def test_bad_layers(name):
    error, match, arrays, _ = BAD_CALLS[name]
    assert_rejected(error, match, sx.conv2d_layer, *arrays[1:])


@pytest.mark.parametrize("option", [{"stride": 0}, {"padding": -1}], ids=str)
def test_bad_options_of_layers(option):
    assert_rejected(ValueError, f"`{next(iter(option))}` must be at least", sx.conv2d_layer, ones(4, 3, 3, 3), **option)


def test_bad_gradients(backend, rng):
    x, weights, bias, *_ = draw(rng, GEOMETRIES["rows over"])
    layer = sx.conv2d_layer(backend.asarray(weights), backend.asarray(bias), stride=2)
    _, saved, _ = sx.forward(backend.asarray(x), layer)
    for shape in [(2, 4, 2, 3), (3, 4, 2, 2), (2, 3, 2, 2), (2, 4, 1, 1), (2, 4, 4), ()]:
        assert_rejected(ValueError, "`dy` must have shape", sx.backward, backend.asarray(np.ones(shape)), saved, layer)
    dy = backend.asarray(np.ones((2, 4, 2, 2)), "float64")
    assert_rejected(TypeError, "`dy` must have dtype .*float32.*; got .*float64", sx.backward, dy, saved, layer)
    assert_rejected(TypeError, "`dy` must be an array; got list", sx.backward, [1.0], saved, layer)


def test_a_saved_that_is_not_this_layers(backend, rng):
    x, weights, bias, *_ = draw(rng, GEOMETRIES["rows over"])
    layer = sx.conv2d_layer(backend.asarray(weights), backend.asarray(bias), stride=2)
    dy, saved, _ = sx.forward(backend.asarray(x), layer)
    _, of_a_pool, _ = sx.forward(backend.asarray(x), sx.average_pool_layer())
    _, of_fewer_images, _ = sx.forward(backend.asarray(x[:1]), layer)
    _, of_larger_images, _ = sx.forward(backend.asarray(np.zeros((2, 3, 8, 8))), layer)
    narrow = sx.conv2d_layer(backend.asarray(weights[:, :2]), backend.asarray(bias), stride=2)
    wide = sx.conv2d_layer(backend.asarray(weights[:2]), backend.asarray(bias[:2]), stride=2)
    assert_rejected(TypeError, "`saved` must be the Conv2dSaved .*conv2d.*; got AveragePoolSaved",
                    sx.backward, dy, of_a_pool, layer)
    assert_rejected(TypeError, "`saved` must be the Conv2dSaved.*; got NoneType", sx.backward, dy, None, layer)
    for other in (of_fewer_images, of_larger_images):
        assert_rejected(ValueError, "`dy` must have shape", sx.backward, dy, other, layer)
    assert_rejected(ValueError, "`saved` must come from this layer, with 2 input channels; got one with 3",
                    sx.backward, dy, saved, narrow)
    assert_rejected(ValueError, "`dy` must have shape", sx.backward, dy, saved, wide)


def test_libraries_and_devices_do_not_mix(backend, rng):
    x, weights, bias, *_ = draw(rng, GEOMETRIES["3x3 same"])
    others = [load("array_api_strict:device1" if backend.name != "array_api_strict:device1" else "array_api_strict")]
    others += [load("numpy")] if not backend.name.startswith("numpy") else []
    for other in others:
        error = ValueError if other.module is backend.module else TypeError
        named = "must be on device" if error is ValueError else "must be an array of"
        for mixed in ([other, backend, backend], [backend, other, backend], [backend, backend, other]):
            arrays = [each.asarray(array) for each, array in zip(mixed, (x, weights, bias), strict=True)]
            assert_rejected(error, f"`(weights|bias)` {named}", sx.conv2d, *arrays)
