"""Parameters, gradients and digests by dotted name, and layers moved between libraries."""

import hashlib

import array_api_strict
import numpy as np
import pytest
from backends import assert_same_bits

import stelliferous_xp as sx

NAMES = ["0.weights", "0.bias", "1.gamma", "1.beta", "2.0.0.weights", "2.1.weights", "2.1.bias"]


def build(dtype="float32", xp=np, device=None, seed=0):
    rng = np.random.default_rng(seed)

    def new(*shape):
        return xp.asarray(rng.standard_normal(shape).astype(dtype), device=device)

    norm = sx.batch_norm_layer_from(new(4), new(4), new(4), xp.abs(new(4)))
    inner = sx.network([sx.conv2d_layer(new(4, 4, 1, 1)), sx.activation_layer("relu")])
    return sx.network([sx.conv2d_layer(new(4, 3, 3, 3), new(4)), norm,
                       sx.residual(inner, sx.conv2d_layer(new(4, 4, 1, 1), new(4))), sx.average_pool_layer()])


def trained(net, x=None):
    x = np.ones((2, 3, 4, 5), "float32") * np.arange(5, dtype="float32") if x is None else x
    y, saved, net = sx.forward(x, net)
    return sx.backward(y, saved, net)[1]


def test_parameters_are_the_layers_own_by_dotted_name_in_order():
    net = build()
    parameters = sx.parameters(net)
    assert list(parameters) == NAMES
    assert parameters["1.gamma"] is net.layers[1].gamma
    assert parameters["2.0.0.weights"] is net.layers[2].layers[0].layers[0].weights
    assert sx.parameters(sx.average_pool_layer()) == {}
    assert list(sx.parameters(net.layers[0])) == ["weights", "bias"]


def test_gradients_have_the_names_order_and_look_of_the_parameters():
    net = build()
    assert sx.gradients(net) == {}
    after = trained(net)
    assert list(sx.gradients(after)) == NAMES
    for name, gradient in sx.gradients(after).items():
        assert (gradient.shape, gradient.dtype) == (sx.parameters(net)[name].shape, np.float32)
    assert sx.gradients(net) == {}
    sx.parameters(after).clear()
    sx.gradients(after).clear()
    assert list(sx.gradients(after)) == list(sx.parameters(after)) == NAMES


def test_replace_parameters(backend):
    net = trained(build(xp=backend.xp, device=backend.device), backend.asarray(np.ones((2, 3, 4, 5))))
    new = {name: backend.asarray(np.full(array.shape, index)) for index, (name, array)
           in enumerate(sx.parameters(net).items())}
    before = sx.digest(net)
    after = sx.replace_parameters(net, new)
    assert all(sx.parameters(after)[name] is array for name, array in new.items())
    assert sx.gradients(after) == {}
    assert_same_bits(after.layers[1].running_mean, net.layers[1].running_mean)
    assert sx.digest(net) == before
    assert sx.gradients(net)
    again = sx.replace_parameters(after, sx.parameters(net))
    assert sx.digest(again) == before


@pytest.mark.parametrize(("change", "error", "message"), [
    (lambda p: p.pop("1.beta"), KeyError, r"missing: 1\.beta"),
    (lambda p: p.update({"module.fc.bias": p["0.bias"]}), KeyError, r"unknown: module\.fc\.bias"),
    (lambda p: p.update({"0.weights": p["0.weights"][:1]}), ValueError,
     r"`0\.weights` must have shape \(4, 3, 3, 3\); got \(1, 3, 3, 3\)"),
    (lambda p: p.update({"0.bias": np.float32(1)}), (TypeError, ValueError), r"`0\.bias` must"),
    (lambda p: p.update({"0.bias": p["0.bias"][:1]}), ValueError, r"`0\.bias` must have shape \(4,\); got \(1,\)"),
    (lambda p: p.update({"2.1.weights": p["2.1.weights"].reshape(4, 1, 4, 1)}), ValueError, r"got \(4, 1, 4, 1\)"),
    (lambda p: p.update({"0.bias": p["0.bias"].astype("float64")}), TypeError, "float32.*got float64"),
    (lambda p: p.update({"0.bias": array_api_strict.zeros(4, dtype=array_api_strict.float32)}), TypeError, "numpy"),
    (lambda p: p.update({"0.bias": [0.0] * 4}), TypeError, r"`0\.bias` must be an array; got list"),
])
def test_replace_parameters_takes_nothing_else(change, error, message):
    net = build()
    before, mapping = sx.digest(net), sx.parameters(net)
    change(mapping)
    with pytest.raises(error, match=message):
        sx.replace_parameters(net, mapping)
    assert sx.digest(net) == before


def test_digest_is_sha_256_over_names_shapes_dtypes_and_little_endian_bytes():
    weights = np.arange(4.0).reshape(2, 2, 1, 1)
    one, zero = np.ones(2), np.zeros(2)
    net = sx.network([sx.conv2d_layer(weights), sx.batch_norm_layer_from(one, zero, 2 * one, 3 * one)])
    sha = hashlib.sha256()
    for name, array in [("0.weights", weights), ("1.gamma", one), ("1.beta", zero), ("1.running_mean", 2 * one),
                        ("1.running_variance", 3 * one)]:
        sha.update(f"{name} float64 {array.shape}\n".encode() + array.astype("<f8").tobytes())
    assert sx.digest(net) == sha.hexdigest()


def test_digest_is_the_same_on_every_backend_and_layout(backend, dtype):
    expected = sx.digest(build(dtype))
    assert sx.digest(build(dtype, backend.xp, backend.device)) == expected
    net = build(dtype)
    for view in (np.asfortranarray, lambda array: np.flip(np.flip(array).copy())):
        assert sx.digest(sx.replace_parameters(net, {k: view(v) for k, v in sx.parameters(net).items()})) == expected


def test_digest_tells_apart():
    net = build()
    different = [net, build(seed=1), build("float64"), sx.network(net.layers[:2]), sx.network([net]), net.layers[0]]
    bumped = dict(sx.parameters(net))
    bumped["0.bias"] = np.nextafter(bumped["0.bias"], np.float32(np.inf))
    different.append(sx.replace_parameters(net, bumped))
    zeros, x = np.zeros(4, "float32"), np.ones((2, 3, 4, 5), "float32")
    different += [sx.replace_parameters(net, sx.parameters(net) | {"0.bias": zero}) for zero in (zeros, -zeros)]
    different.append(sx.forward(x, net)[2])  # running statistics moved
    assert len({sx.digest(each) for each in different}) == len(different)
    assert sx.digest(trained(net, x)) == sx.digest(different[-1])  # gradients do not count


def test_to_device(backend, dtype):
    net = trained(build(dtype), np.ones((2, 3, 4, 5), dtype))
    before = sx.digest(net)
    moved = sx.to_device(net, xp=backend.module, device=backend.device)
    assert sx.digest(moved) == before
    arrays = sx.parameters(moved) | {"mean": moved.layers[1].running_mean, "var": moved.layers[1].running_variance}
    for array in [*arrays.values(), *sx.gradients(moved).values()]:
        backend.check(array, dtype)
    for name, gradient in sx.gradients(net).items():
        assert_same_bits(sx.gradients(moved)[name], gradient)
    x = np.random.default_rng(5).standard_normal((2, 3, 4, 5))
    backend.assert_close(sx.evaluate(backend.asarray(x, dtype), moved), sx.evaluate(x.astype(dtype), net), dtype,
                         rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-5 if dtype == "float32" else 1e-12)
    back = sx.to_device(moved, xp=np)
    assert sx.digest(back) == before
    assert type(back.layers[1].gamma) is np.ndarray
    assert (back.layers[0].stride, back.layers[1].momentum) == (net.layers[0].stride, net.layers[1].momentum)


def test_to_device_copies():
    net = build()
    moved = sx.to_device(net, xp=np)
    for name, array in sx.parameters(net).items():
        assert not np.shares_memory(array, sx.parameters(moved)[name])
        array[...] = 0
    assert sx.digest(moved) == sx.digest(build())


@pytest.mark.parametrize("function", [sx.parameters, sx.gradients, sx.digest, lambda layer: sx.to_device(layer, xp=np),
                                      lambda layer: sx.replace_parameters(layer, {})])
@pytest.mark.parametrize("layer", [None, [], "relu", np.ones(2)])
def test_not_a_layer(function, layer):
    with pytest.raises(TypeError, match="`layer` must be a layer; got "):
        function(layer)


@pytest.mark.parametrize("xp", ["numpy", 3, np.ones(3)])
def test_to_device_of_no_library(xp):
    with pytest.raises(TypeError, match="`xp` must be an array library"):
        sx.to_device(build(), xp=xp)
