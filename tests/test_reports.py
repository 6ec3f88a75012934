"""Faults that other libraries shipped, from their public trackers, as small inputs with the right value."""

import math
import re

import numpy as np
import pytest
from backends import assert_same_bits, load, to_numpy
from rejection import assert_rejected

import stelliferous_xp as sx


def test_rows_that_the_stride_leaves_over_keep_a_gradient_of_zero(backend):
    """https://github.com/f-dangel/backpack/issues/30"""
    weights = np.arange(9.0).reshape(1, 1, 3, 3)
    layer = sx.conv2d_layer(backend.asarray(weights, "float64"), stride=2)
    y, saved, layer = sx.forward(backend.asarray(np.arange(36.0).reshape(1, 1, 6, 6), "float64"), layer)
    dx, layer = sx.backward(backend.asarray(np.ones((1, 1, 2, 2)), "float64"), saved, layer)
    backend.assert_close(y, [[[[366, 438], [798, 870]]]], "float64")
    backend.assert_close(dx, [[[[0, 1, 2, 1, 2, 0], [3, 4, 8, 4, 5, 0], [6, 8, 16, 8, 10, 0], [3, 4, 8, 4, 5, 0],
                                [6, 7, 14, 7, 8, 0], [0, 0, 0, 0, 0, 0]]]], "float64")
    backend.assert_close(layer.parameter_gradients["weights"],
                         [[[[28, 32, 36], [52, 56, 60], [76, 80, 84]]]], "float64")

    layer = sx.conv2d_layer(backend.asarray((weights - 3) / 8, "float64"), stride=4, padding=1)
    y, saved, layer = sx.forward(backend.asarray(np.arange(144.0).reshape(1, 1, 12, 12) / 144, "float64"), layer)
    dx, layer = sx.backward(backend.asarray(np.ones(y.shape), "float64"), saved, layer)
    dx = backend.check(dx, "float64")[0, 0]
    assert (y.shape, dx.shape, dx[9, 9], dx.sum()) == ((1, 1, 3, 3), (12, 12), 0.625, 12)
    assert not dx[[2, 6, 10, 11]].any()
    assert not dx[:, [2, 6, 10, 11]].any()
    assert to_numpy(layer.parameter_gradients["weights"]).sum() == pytest.approx(26.72222222222222, rel=1e-12)


def test_batch_norm_of_a_constant_channel_is_zero(backend):
    """https://github.com/pytorch/pytorch/issues/5410"""
    constants = np.array([0.1, 123456.7, -3.3333333e9, 7e9], "float32")
    x = np.broadcast_to(constants[None, :, None, None], (2, 4, 7, 9))
    layer = sx.batch_norm_layer(4, xp=backend.xp, device=backend.device)
    y, saved, layer = sx.forward(backend.asarray(x), layer)
    dx, _ = sx.backward(backend.asarray(np.ones(x.shape)), saved, layer)
    backend.assert_close(y, np.zeros(x.shape), atol=1e-3)
    backend.assert_close(saved.variance, np.zeros(4))
    backend.assert_close(layer.running_variance, np.full(4, 0.9))
    backend.assert_close(dx, np.zeros(x.shape), atol=1e-3)


@pytest.mark.parametrize("shape", [(1, 3, 1, 1), (1, 3)], ids=str)
def test_batch_norm_of_one_value_a_channel(backend, shape):
    """https://github.com/pytorch/pytorch/issues/4534"""
    arrays = [np.ones(3), [0.1, 0.2, 0.3], np.zeros(3), np.ones(3)]
    x = backend.asarray(np.reshape([5.0, -2.0, 1000.0], shape))
    layer = sx.batch_norm_layer_from(*map(backend.asarray, arrays))
    assert_rejected(ValueError, "at least 2 values a channel", sx.forward, x, layer)
    expected = np.reshape([4.9999750001874985, -1.9999900000749993, 999.9950000374997], shape)
    backend.assert_close(sx.evaluate(x, sx.batch_norm_layer(3, xp=backend.xp, device=backend.device)), expected)

    pooled = sx.network([sx.average_pool_layer(), layer])
    assert_rejected(ValueError, "^layer 1, batch_norm: `x` must have at least 2 values",
                    sx.forward, backend.asarray(np.ones((1, 3, 4, 4))), pooled)


@pytest.mark.parametrize("name", ["relu", "leaky_relu"])
def test_relu_keeps_nan(backend, name):
    """https://github.com/pytorch/pytorch/issues/7999"""
    slope = {"relu": 0, "leaky_relu": 0.01}[name]
    low = {"relu": 0, "leaky_relu": -math.inf}[name]
    x = backend.asarray([2.5, math.nan, -math.inf, -0.0, 0.0, math.inf, -0.75])
    y, saved, layer = sx.forward(x, sx.activation_layer(name))
    dx, _ = sx.backward(backend.asarray(np.ones(7)), saved, layer)
    backend.assert_close(y, [2.5, math.nan, low, 0, 0, math.inf, -0.75 * slope], rtol=1e-7)
    backend.assert_close(dx, [1, slope, slope, slope, slope, 1, slope], rtol=1e-7)  # NaN counts as not above 0


@pytest.mark.parametrize(("logits", "label", "loss", "gradient"), [
    ([3e8, 3e8, 3e8], 2, 1.0986122886681098, [1 / 3, 1 / 3, -2 / 3]),
    ([1e4, 0, -1e4], 0, 0, [0, 0, 0]),
    ([1e4, 0, -1e4], 2, 20000, [1, 0, -1]),
    ([-1e4, -1e4], 0, 0.6931471805599453, [-0.5, 0.5]),
], ids=str)
def test_cross_entropy_of_huge_logits(backend, logits, label, loss, gradient):
    """https://github.com/pytorch/pytorch/issues/11752"""
    target = sx.one_hot(backend.asarray([label], "int64"), len(logits))
    actual, actual_gradient = sx.cross_entropy(backend.asarray([logits]), target)
    backend.assert_close(actual, loss, rtol=1e-6)
    backend.assert_close(actual_gradient, [gradient], atol=1e-6)


def test_a_label_outside_the_classes(backend):
    """https://github.com/tensorflow/tensorflow/issues/8484"""
    for labels, first in [([0, 5, 1], "5 at position 1"), ([0, -1, 1], "-1 at position 1"), ([0, -1, 5], "-1")]:
        assert_rejected(ValueError, f"`labels` must be whole numbers from 0 to 4; got {first}",
                        sx.one_hot, backend.asarray(labels, "int64"), 5)
    assert_rejected(ValueError, r"`labels` must have shape \(N,\)", sx.one_hot,
                    backend.asarray([[0], [5], [1]], "int64"), 5)
    target = sx.one_hot(backend.asarray([0, 4, 1], "int64"), 5)
    backend.assert_close(sx.cross_entropy(backend.asarray(np.zeros((3, 5))), target)[0], 1.6094379124341003, rtol=1e-6)


def test_mse_broadcasts_nothing(backend):
    """https://github.com/pytorch/pytorch/issues/16045"""
    for left, right in [((3, 1), (3,)), ((4, 3), (3,)), ((2, 1, 3), (2, 3)), ((2, 3), (1, 3))]:
        assert_rejected(ValueError, "`target` must have shape .* to match `prediction`",
                        sx.mse, backend.asarray(np.ones(left)), backend.asarray(np.ones(right)))


def test_float16_is_refused_rather_than_overflowed():
    """https://github.com/pytorch/pytorch/issues/12115"""
    images, rows = np.full((1, 1, 256, 256), 2, "float16"), np.ones((1024, 1), "float16")
    for function, arguments in [(sx.average_pool, [images]), (sx.batch_moments, [rows]), (sx.mse, [rows, rows]),
                                (sx.forward, [rows, sx.batch_norm_layer(1)]), (sx.cross_entropy, [rows, rows])]:
        assert_rejected(TypeError, "must have dtype float32 or float64; got float16", function, *arguments)


def scalar_layer(backend, weight=0.0):
    return sx.conv2d_layer(backend.asarray([[[[weight]]]], "float64"))


def with_gradient(backend, layer, gradient):
    """The scalar layer, holding `gradient` for its weight."""
    _, saved, layer = sx.forward(backend.asarray([[[[1.0]]]], "float64"), layer)
    return sx.backward(backend.asarray([[[[gradient]]]], "float64"), saved, layer)[1]


@pytest.mark.parametrize(("gradients", "weights"), [
    ([1e-8, 1e-8, 1e-8], [-0.05, -0.1, -0.15]),
    ([1.0, -2.0, 3.0], [-0.09999999900000002, -0.06338964652792518, -0.0977137543982702]),
], ids=["near epsilon", "ordinary"])
def test_the_place_of_epsilon_in_adam(backend, gradients, weights):
    """https://github.com/tensorflow/tensorflow/issues/9047"""
    state, layer = sx.adam(0.1), scalar_layer(backend)
    for gradient, weight in zip(gradients, weights, strict=True):
        state, layer = sx.optimizer_step(state, with_gradient(backend, layer, gradient))
        backend.assert_close(layer.weights, [[[[weight]]]], "float64", rtol=1e-9)


OPTIMIZERS = {"pytorch_sgd": sx.pytorch_sgd(0.1), "nesterov_sgd": sx.nesterov_sgd(0.1),
              "grenade_sgd": sx.grenade_sgd(0.1, 0.9), "adam": sx.adam(0.1)}


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_an_optimiser_state_is_a_value(optimizer):
    """https://github.com/pytorch/pytorch/issues/196083"""
    backend = load("numpy")
    layer = with_gradient(backend, scalar_layer(backend), 1.0)
    state, stepped = sx.optimizer_step(optimizer, layer)
    before = [buffer.tobytes() for buffer in state.buffers["weights"]]
    later, _ = sx.optimizer_step(state, with_gradient(backend, stepped, 1.0))
    again, _ = sx.optimizer_step(state, with_gradient(backend, stepped, 1.0))
    assert (optimizer.step, dict(optimizer.buffers)) == (0, {})
    assert (state.step, later.step) == (1, 2)
    assert [buffer.tobytes() for buffer in state.buffers["weights"]] == before
    for left, right in zip(later.buffers["weights"], again.buffers["weights"], strict=True):
        assert_same_bits(left, right)
        assert not np.shares_memory(left, right)
    gradient = sx.gradients(layer)["weights"]
    gradient[...] = 7
    assert [buffer.tobytes() for buffer in state.buffers["weights"]] == before


def test_momentum_buffers(backend):
    """https://github.com/pytorch/pytorch/issues/196083"""
    first, layer = sx.optimizer_step(sx.pytorch_sgd(0.1), with_gradient(backend, scalar_layer(backend), 1.0))
    second, _ = sx.optimizer_step(first, with_gradient(backend, layer, 1.0))
    backend.assert_close(first.buffers["weights"][0], [[[[1.0]]]], "float64")
    backend.assert_close(second.buffers["weights"][0], [[[[1.9]]]], "float64")


IMAGES = np.linspace(-2, 2, 96, dtype="float32").reshape(2, 3, 4, 4)
LAYERS = {
    "conv2d": sx.conv2d_layer(np.ones((2, 3, 3, 3), "float32"), np.ones(2, "float32"), padding=1),
    "batch_norm": sx.batch_norm_layer(3),
    "average_pool": sx.average_pool_layer(),
    "residual": sx.residual(sx.activation_layer("relu")),
    "concat": sx.concat([sx.activation_layer("tanh"), sx.batch_norm_layer(3)]),
    "network": sx.network([sx.conv2d_layer(np.ones((2, 3, 1, 1), "float32")), sx.batch_norm_layer(2),
                           sx.activation_layer("relu"), sx.activation_layer("identity")]),
} | {name: sx.activation_layer(name) for name in ("identity", "relu", "leaky_relu", "elu", "sigmoid", "tanh",
                                                  "softplus", "silu", "gelu", "sinusoid")}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_a_layer_writes_to_nothing_it_is_given(layer):
    """https://github.com/deeplearning4j/deeplearning4j/issues/2469"""
    results = []
    for writeable in (True, False):
        x = IMAGES.copy()
        x.flags.writeable = writeable
        digest = sx.digest(layer)
        y, saved, moved = sx.forward(x, layer)
        dy = np.array(y)
        dy.flags.writeable = writeable
        dx, after = sx.backward(dy, saved, moved)
        assert_same_bits(x, IMAGES)
        assert_same_bits(dy, y)
        assert sx.digest(layer) == digest
        results.append([y, dx, sx.evaluate(x, layer), *sx.gradients(after).values(), sx.forward(x, layer)[0]])
    for left, right in zip(*results, strict=True):
        assert_same_bits(left, right)
    assert_same_bits(results[0][0], results[0][-1])


def test_a_loss_writes_to_nothing_it_is_given():
    """https://github.com/deeplearning4j/deeplearning4j/issues/2469"""
    left, right = IMAGES.reshape(24, 4).copy(), np.eye(4, dtype="float32")[np.arange(24) % 4]
    kept = left.copy(), right.copy()
    for function in (sx.mse, sx.cross_entropy):
        first = function(left, right)
        left.flags.writeable = right.flags.writeable = False
        for a, b in zip(first, function(left, right), strict=True):
            assert_same_bits(a, b)
        assert_same_bits(left, kept[0])
        assert_same_bits(right, kept[1])
        left.flags.writeable = right.flags.writeable = True


@pytest.mark.parametrize(("name", "shape", "stored"), [
    ("weights", (8, 6, 5, 5), (1, 6, 5, 5)),
    ("weights", (8, 6, 5, 5), (8, 6, 25)),
    ("weights", (8, 6, 5, 5), (6, 8, 5, 5)),
    ("bias", (8,), ()),
    ("bias", (8,), (1,)),
], ids=str)
def test_parameters_of_another_shape_do_not_load(backend, name, shape, stored):
    """https://github.com/pytorch/pytorch/issues/8282"""
    layer = sx.network([sx.conv2d_layer(backend.asarray(np.ones((8, 6, 5, 5))), backend.asarray(np.ones(8)))])
    mapping = sx.parameters(layer) | {f"0.{name}": backend.asarray(np.zeros(stored))}
    message = re.escape(f"`0.{name}` must have shape {shape}; got {stored}")
    assert_rejected(ValueError, message, sx.replace_parameters, layer, mapping)


def test_missing_and_unexpected_parameters_do_not_load():
    """https://github.com/pytorch/pytorch/issues/8282"""
    layer = sx.conv2d_layer(np.ones((2, 1, 1, 1)), np.ones(2))
    assert_rejected(KeyError, "missing: bias", sx.replace_parameters, layer, {"weights": layer.weights})
    assert_rejected(KeyError, "unknown: module.bias", sx.replace_parameters, layer,
                    sx.parameters(layer) | {"module.bias": layer.bias})


def test_large_batches(backend):
    """https://github.com/pytorch/pytorch/issues/16998"""
    x = backend.asarray(np.tile([0.0, 1.0], 65536).reshape(131072, 1))
    mean, variance = sx.batch_moments(x)
    backend.assert_close(mean, [0.5])
    backend.assert_close(variance, [0.25])
    y, _, _ = sx.forward(x, sx.batch_norm_layer(1, xp=backend.xp, device=backend.device))
    backend.assert_close(y[:2, ...], [[-0.9999800005999799], [0.9999800005999799]])
    loss, _ = sx.cross_entropy(backend.asarray(np.zeros((90000, 10))),
                               sx.one_hot(backend.asarray(np.arange(90000) % 10, "int32"), 10))
    backend.assert_close(loss, 2.302585092994046)
