"""Forward, backward and a training step against torch.nn.functional and autograd, in float32.

Where the terms of a sum cancel, one element may lose all its digits to the order of the additions; arrays are
therefore compared relative to their largest element.
"""

import numpy as np
import pytest
from backends import load

import stelliferous_xp as sx

TOLERANCE = 1e-5
RATE = 0.05
SHAPES = {  # images, channels, plane, filters, kernel, stride, padding
    "3x3": (8, 3, (16, 16), 16, (3, 3), (1, 1), (1, 1)),
    "1x1": (4, 32, (7, 7), 24, (1, 1), (1, 1), (0, 0)),
    "5x5 strided": (3, 8, (13, 11), 8, (5, 5), (2, 2), (2, 2)),
    "2x3 per axis": (5, 6, (9, 14), 7, (2, 3), (3, 2), (1, 2)),
    "rows over": (2, 4, (12, 12), 5, (3, 3), (4, 4), (1, 1)),
    "one of each": (1, 1, (3, 3), 1, (3, 3), (1, 1), (0, 0)),
}
ACTIVATIONS = ["relu", "leaky_relu", "elu", "sigmoid", "tanh", "softplus", "silu", "gelu"]
LIBRARIES = ["numpy", "torch"]


@pytest.fixture
def torch():
    return load("torch").module


@pytest.fixture(params=LIBRARIES)
def library(request):
    return load(request.param)


def close(backend, actual, expected):
    expected = expected.detach().numpy()
    backend.assert_close(actual, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


def leaf(torch, array):
    return torch.tensor(array, requires_grad=True)


def draw(rng, *shape):
    return rng.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("with_bias", [True, False], ids=["bias", "no bias"])
def test_convolution(library, torch, rng, shape, with_bias):
    images, channels, plane, filters, kernel, stride, padding = shape
    x, weights, bias = draw(rng, images, channels, *plane), draw(rng, filters, channels, *kernel), draw(rng, filters)
    given = {"weights": weights} | ({"bias": bias} if with_bias else {})
    layer = sx.conv2d_layer(*map(library.asarray, given.values()), stride=stride, padding=padding)
    y, saved, layer = sx.forward(library.asarray(x), layer)

    theirs = {name: leaf(torch, array) for name, array in (given | {"x": x}).items()}
    expected = torch.nn.functional.conv2d(theirs["x"], theirs["weights"], theirs.get("bias"), stride, padding)
    close(library, y, expected)
    dy = draw(rng, *expected.shape)
    expected.backward(torch.tensor(dy))
    dx, layer = sx.backward(library.asarray(dy), saved, layer)
    close(library, dx, theirs["x"].grad)
    for name, gradient in sx.gradients(layer).items():
        close(library, gradient, theirs[name].grad)


@pytest.mark.parametrize("shape", [(8, 5, 6, 7), (64, 3), (2, 16, 1, 1), (1, 2, 33, 17)], ids=str)
def test_batch_norm(library, torch, rng, shape):
    x, dy, channels = 2 + draw(rng, *shape), draw(rng, *shape), shape[1]
    start = rng.uniform(0.5, 2, (4, channels)).astype("float32")
    gamma, beta, mean, variance = start
    layer = sx.batch_norm_layer_from(*map(library.asarray, start), epsilon=1e-4, momentum=0.2)
    y, saved, layer = sx.forward(library.asarray(x), layer)
    dx, layer = sx.backward(library.asarray(dy), saved, layer)

    x, gamma, beta = leaf(torch, x), leaf(torch, gamma), leaf(torch, beta)
    mean, variance = torch.tensor(mean), torch.tensor(variance)
    expected = torch.nn.functional.batch_norm(x, mean, variance, gamma, beta, training=True, momentum=0.2, eps=1e-4)
    expected.backward(torch.tensor(dy))
    pairs = [(y, expected), (layer.running_mean, mean), (layer.running_variance, variance), (dx, x.grad),
             (sx.gradients(layer)["gamma"], gamma.grad), (sx.gradients(layer)["beta"], beta.grad)]
    for actual, theirs in pairs:
        close(library, actual, theirs)
    expected = torch.nn.functional.batch_norm(x, mean, variance, gamma, beta, training=False, eps=1e-4)
    close(library, sx.evaluate(library.asarray(x.detach().numpy()), layer), expected)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(library, torch, rng, name):
    x, dy = 3 * draw(rng, 500), draw(rng, 500)
    y, saved, layer = sx.forward(library.asarray(x), sx.activation_layer(name))
    dx, _ = sx.backward(library.asarray(dy), saved, layer)
    x = leaf(torch, x)
    expected = getattr(torch.nn.functional, name)(x)
    expected.backward(torch.tensor(dy))
    close(library, y, expected)
    close(library, dx, x.grad)


@pytest.mark.parametrize("shape", [(1, 2), (17, 10), (300, 100)], ids=str)
def test_losses(library, torch, rng, shape):
    logits, labels = 4 * draw(rng, *shape), rng.integers(0, shape[1], shape[0])
    soft = rng.dirichlet(np.ones(shape[1]), shape[0]).astype("float32")
    hard = sx.one_hot(library.asarray(labels, "int64"), shape[1])
    for target, given in [(library.asarray(soft), torch.tensor(soft)), (hard, torch.tensor(labels))]:
        x = leaf(torch, logits)
        expected = torch.nn.functional.cross_entropy(x, given)
        expected.backward()
        loss, gradient = sx.cross_entropy(library.asarray(logits), target)
        close(library, loss, expected)
        close(library, gradient, x.grad)
    x = leaf(torch, logits)
    expected = torch.nn.functional.mse_loss(x, torch.tensor(soft))
    expected.backward()
    loss, gradient = sx.mse(library.asarray(logits), library.asarray(soft))
    close(library, loss, expected)
    close(library, gradient, x.grad)


def test_a_training_step_of_a_network(library, torch, rng):
    x, labels = draw(rng, 8, 3, 12, 10), rng.integers(0, 5, 8)
    start = {
        "0.weights": draw(rng, 6, 3, 3, 3) / 5, "1.gamma": np.ones(6, "float32"), "1.beta": np.zeros(6, "float32"),
        "3.0.0.weights": draw(rng, 6, 6, 3, 3) / 7, "3.0.0.bias": draw(rng, 6), "4.weights": draw(rng, 5, 6, 2, 3) / 6,
        "4.bias": draw(rng, 5),
    }
    held = {name: library.asarray(array) for name, array in start.items()}
    net = sx.network([
        sx.conv2d_layer(held["0.weights"], padding=1),
        sx.batch_norm_layer(6, xp=library.xp, device=library.device),
        sx.activation_layer("relu"),
        sx.residual(sx.network([sx.conv2d_layer(held["3.0.0.weights"], held["3.0.0.bias"], padding=1),
                                sx.activation_layer("silu")])),
        sx.conv2d_layer(held["4.weights"], held["4.bias"], stride=(2, 3)),
        sx.average_pool_layer(),
    ])
    assert list(sx.parameters(net)) == list(start)
    y, saved, net = sx.forward(library.asarray(x), net)
    loss, gradient = sx.cross_entropy(library.xp.reshape(y, (8, 5)), sx.one_hot(library.asarray(labels, "int64"), 5))
    dx, net = sx.backward(library.xp.reshape(gradient, y.shape), saved, net)

    functional = torch.nn.functional
    p = {name: leaf(torch, array) for name, array in start.items()}
    image = leaf(torch, x)
    z = functional.conv2d(image, p["0.weights"], padding=1)
    z = functional.relu(functional.batch_norm(z, None, None, p["1.gamma"], p["1.beta"], training=True))
    z = z + functional.silu(functional.conv2d(z, p["3.0.0.weights"], p["3.0.0.bias"], padding=1))
    z = functional.conv2d(z, p["4.weights"], p["4.bias"], stride=(2, 3)).mean((2, 3))
    expected = functional.cross_entropy(z, torch.tensor(labels))
    expected.backward()

    close(library, loss, expected)
    close(library, dx, image.grad)
    for name, gradient in sx.gradients(net).items():
        close(library, gradient, p[name].grad)
    torch.optim.SGD(p.values(), lr=RATE).step()
    after = sx.sgd_step(net, RATE)
    assert sx.gradients(after) == {}
    for name, parameter in sx.parameters(after).items():
        close(library, parameter, p[name])
