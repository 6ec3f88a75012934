"""Layers made of layers, against the same steps written out by hand."""

import dataclasses

import numpy as np
import pytest
from backends import assert_same_bits, to_numpy

import stelliferous_xp as sx


def conv(backend, rng, outputs, inputs, kernel=1, dtype="float64", **options):
    return sx.conv2d_layer(backend.asarray(rng.standard_normal((outputs, inputs, kernel, kernel)), dtype),
                           backend.asarray(rng.standard_normal(outputs), dtype), **options)


def host_conv(outputs, inputs, kernel=1):
    return sx.conv2d_layer(np.ones((outputs, inputs, kernel, kernel)), np.zeros(outputs))


def pointwise(x, layer):
    """A 1x1 convolution in float64."""
    weights, bias = to_numpy(layer.weights)[:, :, 0, 0], to_numpy(layer.bias)
    return np.einsum("oc,nchw->nohw", weights, to_numpy(x)) + bias[:, None, None]


def pointwise_gradient(dy, layer):
    return np.einsum("oc,nohw->nchw", to_numpy(layer.weights)[:, :, 0, 0], dy)


def test_network(backend, rng):
    first, second = conv(backend, rng, 4, 3), conv(backend, rng, 2, 4)
    net = sx.network([first, sx.activation_layer("tanh"), second])
    x, dy = rng.standard_normal((5, 3, 2, 3)), rng.standard_normal((5, 2, 2, 3))
    given = backend.asarray(x, "float64")
    y, saved, after = sx.forward(given, net)
    hidden = np.tanh(pointwise(x, first))
    backend.assert_close(y, pointwise(hidden, second), "float64", rtol=1e-9, atol=1e-12)
    backend.assert_close(sx.evaluate(given, net), pointwise(hidden, second), "float64", rtol=1e-9, atol=1e-12)
    assert after is net
    dx, after = sx.backward(backend.asarray(dy, "float64"), saved, after)
    d_hidden = pointwise_gradient(dy, second) * (1 - hidden**2)
    backend.assert_close(dx, pointwise_gradient(d_hidden, first), "float64", rtol=1e-9, atol=1e-12)
    gradients = sx.gradients(after)
    assert list(gradients) == ["0.weights", "0.bias", "2.weights", "2.bias"]
    backend.assert_close(gradients["0.weights"], np.einsum("nohw,nchw->oc", d_hidden, x)[:, :, None, None], "float64",
                         rtol=1e-9, atol=1e-12)
    backend.assert_close(gradients["2.weights"], np.einsum("nohw,nchw->oc", dy, hidden)[:, :, None, None], "float64",
                         rtol=1e-9, atol=1e-12)
    backend.assert_close(gradients["2.bias"], dy.sum(axis=(0, 2, 3)), "float64", rtol=1e-9, atol=1e-12)
    assert sx.gradients(net) == {}


@pytest.mark.parametrize("name", ["residual", "residual with a shortcut", "merge", "concat"])
def test_branches(backend, rng, name):
    layers = [conv(backend, rng, 3, 3) for _ in range(3)]
    built, used = {
        "residual": (lambda: sx.residual(layers[0]), layers[:1]),
        "residual with a shortcut": (lambda: sx.residual(layers[0], layers[1]), layers[:2]),
        "merge": (lambda: sx.merge(layers), layers),
        "concat": (lambda: sx.concat(layers), layers),
    }[name]
    layer, joined = built(), name == "concat"
    x = rng.standard_normal((5, 3, 2, 3))
    dy = rng.standard_normal((5, 9 if joined else 3, 2, 3))
    outputs = [pointwise(x, each) for each in used] + ([x] if name == "residual" else [])
    expected = np.concatenate(outputs, axis=1) if joined else sum(outputs)
    given = backend.asarray(x, "float64")
    y, saved, after = sx.forward(given, layer)
    backend.assert_close(y, expected, "float64", rtol=1e-9, atol=1e-12)
    backend.assert_close(sx.evaluate(given, layer), expected, "float64", rtol=1e-9, atol=1e-12)
    dx, after = sx.backward(backend.asarray(dy, "float64"), saved, after)
    parts = np.split(dy, 3, axis=1) if joined else [dy] * len(used)
    total = sum(pointwise_gradient(part, each) for part, each in zip(parts, used, strict=True))
    backend.assert_close(dx, total + (dy if name == "residual" else 0), "float64", rtol=1e-9, atol=1e-12)
    for index, part in enumerate(parts):
        backend.assert_close(sx.gradients(after)[f"{index}.weights"],
                             np.einsum("nohw,nchw->oc", part, x)[:, :, None, None], "float64", rtol=1e-9, atol=1e-12)


def test_concat_of_different_widths_and_ranks(rng):
    x = rng.standard_normal((3, 2))
    layer = sx.concat([sx.activation_layer("identity"), sx.concat([sx.activation_layer("relu")] * 2)])
    y, saved, _ = sx.forward(x, layer)
    assert_same_bits(y, np.concatenate([x, np.maximum(x, 0), np.maximum(x, 0)], axis=1))
    dy = rng.standard_normal((3, 6))
    dx, _ = sx.backward(dy, saved, layer)
    np.testing.assert_allclose(dx, dy[:, :2] + (x > 0) * (dy[:, 2:4] + dy[:, 4:]), rtol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu", "tanh", "identity", sx.elu(alpha=0.5)])
@pytest.mark.parametrize("training", [True, False])
def test_a_network_gives_the_bits_of_its_layers_run_one_by_one(backend, dtype, rng, activation, training):
    """So that whatever a network does at once is not seen from outside."""
    if backend.name == "jax" and (activation, dtype) != ("relu", "float32"):
        pytest.skip("JAX compiles each case for seconds; one of them will do")
    layers = [conv(backend, rng, 4, 3, 3, dtype, padding=1), sx.activation_layer(activation),
              sx.batch_norm_layer(4, xp=backend.module, dtype=dtype, device=backend.device),
              sx.activation_layer(activation), sx.average_pool_layer(), conv(backend, rng, 2, 4, 1, dtype)]
    net, x = sx.network(layers), backend.asarray(rng.standard_normal((5, 3, 6, 5)), dtype)
    if not training:
        expected = x
        for layer in layers:
            expected = sx.evaluate(expected, layer)
        assert_same_bits(sx.evaluate(x, net), expected)
        return
    y, saved, net = sx.forward(x, net)
    dx, net = sx.backward(y, saved, net)
    out, records = x, []
    for index, layer in enumerate(layers):
        out, record, layers[index] = sx.forward(out, layer)
        records.append(record)
    assert_same_bits(y, out)
    for index in reversed(range(len(layers))):
        out, layers[index] = sx.backward(out, records[index], layers[index])
    assert_same_bits(dx, out)
    assert sx.digest(net) == sx.digest(sx.network(layers))
    for index, layer in enumerate(layers):
        for name, gradient in sx.gradients(layer).items():
            assert_same_bits(sx.gradients(net)[f"{index}.{name}"], gradient)


def test_batch_norm_inside_moves_its_statistics_in_training_only(rng):
    net = sx.network([sx.residual(sx.network([sx.batch_norm_layer(3, dtype="float64")]))])
    x = rng.standard_normal((6, 3)) + 4
    sx.evaluate(x, net)
    before = sx.digest(net)
    _, _, after = sx.forward(x, net)
    assert sx.digest(net) == before
    moved = after.layers[0].layers[0].layers[0]
    np.testing.assert_allclose(moved.running_mean, 0.1 * x.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(sx.evaluate(x, after), x + (x - moved.running_mean)
                               / np.sqrt(moved.running_variance + 1e-5), rtol=1e-12)


def test_nesting_to_any_depth(rng):
    layer = sx.activation_layer("sinusoid")
    for depth in range(30):
        layer = [sx.network, sx.merge, sx.concat][depth % 3]([layer])
    x = rng.standard_normal((2, 3))
    y, saved, after = sx.forward(x, layer)
    dx, _ = sx.backward(np.ones_like(x), saved, after)
    np.testing.assert_allclose(y, np.sin(x), rtol=1e-14)
    np.testing.assert_allclose(dx, np.cos(x), rtol=1e-14)


def test_saved_may_be_used_again_and_gradients_are_replaced(rng):
    net = sx.network([host_conv(2, 3), sx.residual(host_conv(2, 2))])
    x = rng.standard_normal((2, 3, 2, 2))
    y, saved, net = sx.forward(x, net)
    dx, once = sx.backward(y, saved, net)
    again, twice = sx.backward(y, saved, once)
    assert_same_bits(again, dx)
    for left, right in zip(sx.gradients(once).values(), sx.gradients(twice).values(), strict=True):
        assert_same_bits(left, right)


# Building


def test_channels_that_do_not_fit_are_an_error_when_building():
    relu = sx.activation_layer("relu")
    with pytest.raises(ValueError, match=r"^layer 2, conv2d: must get 5 channels; got 4$"):
        sx.network([host_conv(4, 3), relu, host_conv(4, 5)])
    with pytest.raises(ValueError, match=r"^layer 1, batch_norm: must get 3 channels; got 4$"):
        sx.network([host_conv(4, 3), sx.batch_norm_layer(3)])
    with pytest.raises(ValueError, match=r"^layer 1, network: .*must get 5 channels; got 4"):
        sx.network([host_conv(4, 3), sx.network([relu, host_conv(4, 5)])])
    with pytest.raises(ValueError, match=r"^layer 2, conv2d: must get 4 channels; got 8$"):
        sx.network([host_conv(4, 3), sx.concat([relu, host_conv(4, 4)]), host_conv(4, 4)])
    with pytest.raises(ValueError, match=r"^layer 2, conv2d: must get 5 channels; got 4$"):
        sx.network([host_conv(4, 3), sx.residual(relu), host_conv(4, 5)])


def test_branches_that_do_not_fit_are_an_error_when_building():
    with pytest.raises(ValueError, match=r"the layers of a merge must give the same number of channels; got \[3, 4\]"):
        sx.residual(host_conv(4, 3))
    with pytest.raises(ValueError, match=r"same number of channels; got \[4, 5\]"):
        sx.merge([host_conv(4, 3), host_conv(5, 3)])
    for build in (sx.merge, sx.concat):
        with pytest.raises(ValueError, match="layer 1, conv2d: must get 2 channels; got 3"):
            build([host_conv(4, 3), host_conv(4, 2)])


@pytest.mark.parametrize("build", [sx.network, sx.merge, sx.concat])
def test_layers_that_are_none(build):
    relu = sx.activation_layer("relu")
    with pytest.raises(ValueError, match="`layers` must hold at least one layer; got none"):
        build([])
    with pytest.raises(TypeError, match="`layers` must be a sequence of layers; got ActivationLayer"):
        build(relu)
    with pytest.raises(TypeError, match=r"`layers\[1\]` must be a layer; got str"):
        build([relu, "relu"])


# Running


@pytest.mark.parametrize("run", [sx.forward, sx.evaluate])
@pytest.mark.parametrize(("x", "error", "message"), [
    (np.ones((2, 5, 4, 4)), ValueError, r"^layer 0, conv2d: `x` must have shape \(N, 3, H, W\)"),
    (np.ones((2, 3)), ValueError, r"^layer 0, conv2d: `x` must have shape \(N, C, H, W\); got \(2, 3\)$"),
    (np.ones((2, 3, 4, 4), "float32"), TypeError, "^layer 0, conv2d: .*dtype"),
    (np.ones((2, 3, 2, 2)), ValueError, r"^layer 1, merge: layer 0, network: layer 1, conv2d: the kernel \(3, 3\)"),
    ([1.0], TypeError, "^layer 0, conv2d: `x` must be an array; got list$"),
])
def test_errors_of_the_first_forward_tell_position_and_kind(run, x, error, message):
    deep = sx.network([sx.activation_layer("relu"), host_conv(4, 4, 3)])
    net = sx.network([host_conv(4, 3), sx.residual(deep, host_conv(4, 4, 3))])
    with pytest.raises(error, match=message):
        run(x, net)


def test_outputs_that_do_not_fit_are_an_error_of_the_first_forward():
    x = np.ones((2, 3, 4, 4))
    with pytest.raises(ValueError, match=r"layer 0, merge: `output of layer 1` must have shape \(2, 3, 2, 2\)"):
        sx.forward(x, sx.network([sx.residual(host_conv(3, 3, 3))]))
    with pytest.raises(ValueError, match=r"`output of layer 1` must have shape \(2, 3, 4, 4\).*got \(2, 3, 2, 2\)"):
        sx.evaluate(x, sx.concat([host_conv(3, 3), host_conv(3, 3, 3)]))
    with pytest.raises(ValueError, match="outputs"):
        sx.forward(np.ones(3), sx.concat([sx.activation_layer("relu")]))


def test_errors_of_backward():
    net = sx.network([sx.activation_layer("relu"), host_conv(2, 3)])
    x = np.ones((2, 3, 4, 4))
    y, saved, _ = sx.forward(x, net)
    with pytest.raises(ValueError, match=r"^layer 1, conv2d: `dy` must have shape \(2, 2, 4, 4\)"):
        sx.backward(np.ones((2, 2, 4, 3)), saved, net)
    other = sx.network([host_conv(3, 3), host_conv(2, 3)])
    with pytest.raises(TypeError, match=r"^layer 0, conv2d: `saved` must be the Conv2dSaved .* got ActivationSaved$"):
        sx.backward(y, saved, other)
    with pytest.raises(ValueError, match="`saved` must come from this network of 1 layers; got one of 2"):
        sx.backward(y, saved, sx.network([host_conv(2, 3)]))
    joined = sx.concat([host_conv(2, 3), host_conv(4, 3)])
    y, saved, _ = sx.forward(x, joined)
    with pytest.raises(ValueError, match=r"`dy` must have 6 channels to match the output; got shape \(2, 5, 4, 4\)"):
        sx.backward(np.ones((2, 5, 4, 4)), saved, joined)
    with pytest.raises(TypeError, match="`dy` must be an array; got float"):
        sx.backward(1.0, saved, joined)
    assert sx.gradients(joined) == {}


@pytest.mark.parametrize("build", [sx.network, sx.merge, sx.concat])
@pytest.mark.parametrize("other", [sx.network, sx.merge, sx.concat])
def test_a_saved_of_another_kind_of_composite(build, other):
    layers = [sx.activation_layer("relu"), sx.activation_layer("tanh")]
    y, saved, layer = sx.forward(np.ones((2, 3)), other(layers))
    if build is other:
        sx.backward(y, saved, layer)
    else:
        with pytest.raises(TypeError, match=r"`saved` must be the .*Saved that forward gave for this layer"):
            sx.backward(y, saved, build(layers))


def test_composites_are_frozen_and_do_not_follow_the_list():
    layers = [sx.activation_layer("relu")]
    net = sx.network(layers)
    layers.append(sx.activation_layer("tanh"))
    assert len(net.layers) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        net.layers = ()
