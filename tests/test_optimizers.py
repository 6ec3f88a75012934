"""Optimisers against scalar loops in float64, and against PyTorch's where it is installed."""

import dataclasses
import math

import array_api_strict
import numpy as np
import pytest
from backends import assert_same_bits, load, to_numpy

import stelliferous_xp as sx


def holding(layer, **gradients):
    """The layer with these gradients, as backward leaves them."""
    return layer.with_gradients(gradients)


def scalar_layer(backend, weight, dtype):
    return sx.conv2d_layer(backend.asarray(np.full((1, 1, 1, 1), weight), dtype))


def run(optimizer, start, gradients, backend, dtype="float64"):
    """The weight after each step with the given gradients."""
    layer, state, seen = scalar_layer(backend, start, dtype), optimizer, []
    for gradient in gradients:
        layer = holding(layer, weights=backend.asarray(np.full((1, 1, 1, 1), gradient), dtype))
        state, layer = sx.optimizer_step(state, layer)
        seen.append(float(backend.check(layer.weights, dtype)[0, 0, 0, 0]))
    assert state.step == len(gradients)
    return seen


# The rules, one scalar at a time


def grenade(w, gradients, rate, momentum, regulariser):
    v = 0.0
    for step, g in enumerate(gradients):
        v = momentum * v - rate(step) * g
        w = w + v - rate(step) * regulariser * w
        yield w


def pytorch(w, gradients, rate, momentum, decay, nesterov=False):
    v = 0.0
    for step, g in enumerate(gradients):
        g = g + decay * w
        v = momentum * v + g
        w = w - rate(step) * (g + momentum * v if nesterov else v)
        yield w


def adam(w, gradients, rate, beta1, beta2, epsilon, decay=0.0):
    m = v = 0.0
    for step, g in enumerate(gradients):
        w = w - rate(step) * decay * w
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        w = w - rate(step) * (m / (1 - beta1 ** (step + 1))) / (math.sqrt(v / (1 - beta2 ** (step + 1))) + epsilon)
        yield w


def fixed(rate):
    return lambda step: rate


GRADIENTS = [1.0, -2.0, 3.0, 0.0, 1e-4, -1e3, 0.5]
RULES = {
    "grenade": (sx.grenade_sgd(0.1), grenade, (fixed(0.1), 0.0, 0.0)),
    "grenade, all": (sx.grenade_sgd(0.1, 0.9, 0.05), grenade, (fixed(0.1), 0.9, 0.05)),
    "pytorch": (sx.pytorch_sgd(0.1), pytorch, (fixed(0.1), 0.9, 0.0)),
    "pytorch, all": (sx.pytorch_sgd(0.1, 0.5, 0.05), pytorch, (fixed(0.1), 0.5, 0.05)),
    "nesterov": (sx.nesterov_sgd(0.1), pytorch, (fixed(0.1), 0.9, 0.0, True)),
    "nesterov, all": (sx.nesterov_sgd(0.1, 0.5, 0.05), pytorch, (fixed(0.1), 0.5, 0.05, True)),
    "adam": (sx.adam(), adam, (fixed(0.001), 0.9, 0.999, 1e-8)),
    "adam, all": (sx.adam(0.1, 0.8, 0.99, 1e-3), adam, (fixed(0.1), 0.8, 0.99, 1e-3)),
    "adamw": (sx.adamw(), adam, (fixed(0.001), 0.9, 0.999, 1e-8, 0.01)),
    "adamw, all": (sx.adamw(0.1, 0.8, 0.99, 1e-3, 0.3), adam, (fixed(0.1), 0.8, 0.99, 1e-3, 0.3)),
    "a schedule": (sx.adamw(lambda step: 0.1 / (1 + step)), adam, (lambda step: 0.1 / (1 + step), 0.9, 0.999, 1e-8,
                                                                  0.01)),
    "a schedule in grenade": (sx.grenade_sgd(lambda step: 0.1 * (step % 2), 0.9, 0.1), grenade,
                              (lambda step: 0.1 * (step % 2), 0.9, 0.1)),
}


@pytest.mark.parametrize("name", RULES)
def test_rules(backend, dtype, name):
    optimizer, rule, options = RULES[name]
    expected = list(rule(0.7, GRADIENTS, *options))
    tolerance = {"float64": 1e-12, "float32": 2e-5}[dtype]
    np.testing.assert_allclose(run(optimizer, 0.7, GRADIENTS, backend, dtype), expected, rtol=tolerance)


def test_adam_adds_epsilon_to_the_root_of_the_corrected_moment(backend):
    """Elsewhere, the first steps of gradients near epsilon shrink: tensorflow/tensorflow#9047."""
    np.testing.assert_allclose(run(sx.adam(0.1), 0.0, [1e-8] * 3, backend), [-0.05, -0.1, -0.15], rtol=1e-9)
    np.testing.assert_allclose(run(sx.adam(0.1), 0.0, [1.0, -2.0, 3.0], backend),
                               [-0.09999999900000002, -0.06338964652792518, -0.0977137543982702], rtol=1e-9)


def test_sgd_step(backend, dtype):
    layer = scalar_layer(backend, 1.5, dtype)
    after = sx.sgd_step(holding(layer, weights=backend.asarray(np.full((1, 1, 1, 1), 4.0), dtype)), 0.25)
    backend.assert_close(after.weights, np.full((1, 1, 1, 1), 0.5), dtype, rtol=0)
    assert sx.gradients(after) == {}
    backend.assert_close(layer.weights, np.full((1, 1, 1, 1), 1.5), dtype, rtol=0)


def test_sgd_step_rounds_twice(rng):
    weights, gradient = (rng.standard_normal((50, 5, 3, 3)).astype("float32") for _ in range(2))
    after = sx.sgd_step(holding(sx.conv2d_layer(weights), weights=gradient), 0.1)
    assert_same_bits(after.weights, weights - gradient * np.float32(0.1))


@pytest.mark.parametrize("name", ["pytorch", "pytorch, all", "nesterov", "nesterov, all", "adam", "adam, all", "adamw",
                                  "adamw, all"])
def test_rules_against_torch(name, rng):
    load("torch")
    import torch

    (optimizer, rule, options), start = RULES[name], rng.standard_normal((4, 3, 2, 2))
    parameter = torch.nn.Parameter(torch.asarray(start.copy()))
    rate = options[0](0)
    if rule is pytorch:
        theirs = torch.optim.SGD([parameter], rate, momentum=options[1], weight_decay=options[2],
                                 nesterov=options[3:] == (True,))
    else:
        theirs = torch.optim.AdamW([parameter], rate, betas=options[1:3], eps=options[3], weight_decay=sum(options[4:]))
    layer, state = sx.conv2d_layer(start), optimizer
    for _ in range(5):
        gradient = rng.standard_normal(start.shape)
        parameter.grad = torch.asarray(gradient.copy())
        theirs.step()
        state, layer = sx.optimizer_step(state, holding(layer, weights=gradient))
        np.testing.assert_allclose(layer.weights, parameter.detach().numpy(), rtol=1e-12, atol=1e-14)


# A state is a value

OPTIMIZERS = {name: RULES[name][0] for name in ("grenade, all", "pytorch, all", "nesterov, all", "adam", "adamw")}


def buffer_bytes(state):
    return {name: [to_numpy(buffer).tobytes() for buffer in buffers] for name, buffers in state.buffers.items()}


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_state_does_not_change_when_a_later_one_steps(optimizer):
    """pytorch/pytorch#196083: a state given to two optimisers stayed shared."""
    weights, gradient = np.zeros((1, 1, 1, 3)), np.ones((1, 1, 1, 3))
    layer = holding(sx.conv2d_layer(weights), weights=gradient)
    assert buffer_bytes(optimizer) == {}
    first, after = sx.optimizer_step(optimizer, layer)
    assert (optimizer.step, first.step) == (0, 1)
    assert buffer_bytes(optimizer) == {}
    kept, kept_weights = buffer_bytes(first), after.weights.copy()
    for buffer in first.buffers["weights"]:
        assert not any(np.shares_memory(buffer, array) for array in (gradient, weights, layer.weights, after.weights))
    assert not np.shares_memory(after.weights, gradient)
    second, _ = sx.optimizer_step(first, holding(after, weights=gradient))
    again, _ = sx.optimizer_step(first, holding(after, weights=gradient))
    assert buffer_bytes(second) == buffer_bytes(again) != kept
    gradient[...] = 7
    assert buffer_bytes(first) == kept
    assert_same_bits(after.weights, kept_weights)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.step = 0


def test_momentum_of_two_optimizers_that_part():
    layer = holding(sx.conv2d_layer(np.zeros((1, 1, 1, 1))), weights=np.ones((1, 1, 1, 1)))
    a, _ = sx.optimizer_step(sx.pytorch_sgd(0.1, momentum=0.9), layer)
    b = a
    a, _ = sx.optimizer_step(a, layer)
    assert float(a.buffers["weights"][0].item()) == 1.9
    assert float(b.buffers["weights"][0].item()) == 1.0
    assert float(sx.optimizer_step(b, layer)[0].buffers["weights"][0].item()) == 1.9


def network(rng):
    return sx.network([sx.conv2d_layer(rng.standard_normal((2, 3, 1, 1)), np.zeros(2)),
                       sx.residual(sx.batch_norm_layer(2, dtype="float64")), sx.activation_layer("relu")])


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_network_steps_each_parameter_by_its_own_gradient(optimizer, rng):
    net = network(rng)
    y, saved, net = sx.forward(rng.standard_normal((4, 3, 2, 2)), net)
    _, net = sx.backward(rng.standard_normal(y.shape), saved, net)
    state, after = sx.optimizer_step(optimizer, net)
    assert list(state.buffers) == list(sx.parameters(net)) == ["0.weights", "0.bias", "1.0.gamma", "1.0.beta"]
    for name, parameter in sx.parameters(net).items():
        flat = np.zeros((1, parameter.size, 1, 1)) + parameter.reshape(1, -1, 1, 1)
        alone = holding(sx.conv2d_layer(flat), weights=sx.gradients(net)[name].reshape(1, -1, 1, 1))
        _, alone = sx.optimizer_step(optimizer, alone)
        np.testing.assert_allclose(sx.parameters(after)[name].ravel(), alone.weights.ravel(), rtol=1e-15)
    assert sx.gradients(after) == {}
    assert_same_bits(after.layers[1].layers[0].running_mean, net.layers[1].layers[0].running_mean)


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_without_gradients_both_come_back_unchanged(optimizer, rng):
    net = network(rng)
    state, after = sx.optimizer_step(optimizer, net)
    assert state is optimizer
    assert after is net
    assert sx.sgd_step(net, 0.1) is net
    conv, *rest = net.layers
    partly = sx.network([holding(conv, weights=np.ones((2, 3, 1, 1)), bias=np.ones(2)), *rest])
    state, after = sx.optimizer_step(optimizer, partly)
    assert set(state.buffers) == {"0.weights", "0.bias"}
    assert after.layers[1] is net.layers[1]
    assert sx.sgd_step(partly, 0.1).layers[1] is net.layers[1]


# Wrong arguments


def stepped(dtype="float64", shape=(2, 3, 1, 1)):
    layer = holding(sx.conv2d_layer(np.ones(shape, dtype)), weights=np.ones(shape, dtype))
    return *sx.optimizer_step(sx.adam(), layer), layer


def test_a_state_of_another_layer():
    state, _, _ = stepped()
    with pytest.raises(ValueError, match=r"`state.buffers\['weights'\]` must have shape \(4, 3, 1, 1\); got \(2, 3"):
        sx.optimizer_step(state, stepped(shape=(4, 3, 1, 1))[2])
    with pytest.raises(TypeError, match=r"`state.buffers\['weights'\]` must have dtype float32 .*got float64"):
        sx.optimizer_step(state, stepped("float32")[2])
    with pytest.raises(ValueError, match="`state` must belong to `layer`; it has buffers for 'weights'"):
        sx.optimizer_step(state, sx.network([stepped()[2]]))
    strict = sx.to_device(stepped()[2], xp=array_api_strict)
    with pytest.raises(TypeError, match="array_api_strict"):
        sx.optimizer_step(state, strict)


def test_arguments_of_other_types():
    layer = stepped()[2]
    with pytest.raises(TypeError, match=r"`state` must be an optimiser state such as adam.*; got float"):
        sx.optimizer_step(0.1, layer)
    with pytest.raises(TypeError, match="`layer` must be a layer; got dict"):
        sx.optimizer_step(sx.adam(), {})
    with pytest.raises(TypeError, match="`layer` must be a layer; got dict"):
        sx.sgd_step({}, 0.1)
    for rate in ("0.1", None, True):
        with pytest.raises(TypeError, match="`rate` must be a number"):
            sx.sgd_step(layer, rate)
    for rate in (math.nan, math.inf, 10**400):
        with pytest.raises(ValueError, match="`rate` must be a finite number"):
            sx.sgd_step(layer, rate)


@pytest.mark.parametrize(("make", "option", "value"), [
    *[(make, "rate", value) for make in (sx.grenade_sgd, sx.pytorch_sgd, sx.nesterov_sgd, sx.adam, sx.adamw)
      for value in (math.nan, math.inf, "0.1", None)],
    *[(make, "momentum", value) for make in (sx.grenade_sgd, sx.pytorch_sgd, sx.nesterov_sgd)
      for value in (-0.1, math.nan, "0.9")],
    (sx.grenade_sgd, "regulariser", -0.1), (sx.pytorch_sgd, "weight_decay", -0.1), (sx.adamw, "weight_decay", -0.1),
    *[(make, beta, value) for make in (sx.adam, sx.adamw) for beta in ("beta1", "beta2") for value in (-0.1, 1.0, 2)],
    (sx.adam, "epsilon", -1e-8), (sx.adamw, "epsilon", math.nan),
])
def test_options_out_of_range(make, option, value):
    with pytest.raises((TypeError, ValueError), match=f"`{option}` must be a "):
        make(**{"rate": 0.1} | {option: value})


@pytest.mark.parametrize(("value", "error"), [(math.nan, ValueError), ("0.1", TypeError), (None, TypeError)])
def test_a_schedule_that_gives_no_rate(value, error):
    state, _, held = stepped()
    state = dataclasses.replace(state, rate=lambda step: value)
    with pytest.raises(error, match=r"`rate\(1\)` must be a "):
        sx.optimizer_step(state, held)
    assert state.step == 1


@pytest.mark.parametrize("optimizer", [sx.grenade_sgd, sx.pytorch_sgd, sx.nesterov_sgd, sx.adam, sx.adamw])
def test_a_schedule_of_numpy_scalars_widens_nothing(optimizer):
    layer = stepped("float32")[2]
    state, after = sx.optimizer_step(optimizer(lambda step: np.float64(0.1)), layer)
    assert after.weights.dtype == np.float32
    assert all(buffer.dtype == np.float32 for buffer in state.buffers["weights"])
