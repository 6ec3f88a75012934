"""What the layers compute, written from their definitions as plain loops over float64.

Imports nothing from the library. Slow and obvious; rounding errors are those of float64 in any order.
"""

import math

import numpy as np


def convolution(x, weights, bias, stride, padding):
    """y[n,o,i,j] = bias[o] + sum of weights[o,c,a,b]*x[n, c, i*stride + a - padding, j*stride + b - padding]."""
    y = np.zeros(_output_shape(x, weights, stride, padding))
    if bias is not None:
        y += np.asarray(bias, dtype="float64").reshape(1, -1, 1, 1)
    for output, weight, read in _products(x.shape, weights.shape, stride, padding):
        y[output] += float(weights[weight]) * float(x[read])
    return y


def convolution_gradients(dy, x, weights, stride, padding):
    """The gradients of x, weights and bias: each product of the sum sends dy to both of its factors."""
    dx, dweights = np.zeros(x.shape), np.zeros(weights.shape)
    for output, weight, read in _products(x.shape, weights.shape, stride, padding):
        dx[read] += float(weights[weight]) * float(dy[output])
        dweights[weight] += float(x[read]) * float(dy[output])
    dbias = np.array([math.fsum(dy[:, o].ravel().tolist()) for o in range(weights.shape[0])])
    return dx, dweights, dbias


def _output_shape(x, weights, stride, padding):
    extents = ((x.shape[2 + d] + 2 * padding[d] - weights.shape[2 + d]) // stride[d] + 1 for d in (0, 1))
    return (x.shape[0], weights.shape[0], *extents)


def _products(x_shape, weight_shape, stride, padding):
    images, channels, height, width = x_shape
    filters, _, kernel_height, kernel_width = weight_shape
    for i in range((height + 2 * padding[0] - kernel_height) // stride[0] + 1):
        for j in range((width + 2 * padding[1] - kernel_width) // stride[1] + 1):
            for a in range(kernel_height):
                for b in range(kernel_width):
                    row, column = i * stride[0] + a - padding[0], j * stride[1] + b - padding[1]
                    if not (0 <= row < height and 0 <= column < width):
                        continue
                    for n in range(images):
                        for o in range(filters):
                            for c in range(channels):
                                yield (n, o, i, j), (o, c, a, b), (n, c, row, column)


def channel_values(x):
    """For each channel, its values as a list of floats."""
    return [[float(value) for value in x[:, c].ravel()] for c in range(x.shape[1])]


def moments(values):
    """Mean and biased variance."""
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((value - mean) ** 2 for value in values) / len(values)


def batch_norm(x, mean, variance, gamma, beta, epsilon):
    """gamma*(x - mean)/sqrt(variance + epsilon) + beta."""
    y = np.zeros(x.shape)
    for index in np.ndindex(*x.shape):
        c = index[1]
        normalised = (float(x[index]) - float(mean[c])) / math.sqrt(float(variance[c]) + epsilon)
        y[index] = float(gamma[c]) * normalised + float(beta[c])
    return y


def batch_norm_gradients(dy, x, gamma, epsilon):
    """The gradients of x, gamma and beta in training, x's by the whole Jacobian of each channel.

    With u the normalised values: d u_i / d x_j = (delta_ij - 1/M - u_i*u_j/M)/sqrt(variance + epsilon).
    """
    dx, dgamma, dbeta = np.zeros(x.shape), np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for c, (values, upstream) in enumerate(zip(channel_values(x), channel_values(dy), strict=True)):
        mean, variance = moments(values)
        root = math.sqrt(variance + epsilon)
        u = [(value - mean) / root for value in values]
        count = len(values)
        dgamma[c] = math.fsum(d * v for d, v in zip(upstream, u, strict=True))
        dbeta[c] = math.fsum(upstream)
        gradient = [
            float(gamma[c]) / root
            * math.fsum(upstream[i] * ((i == j) - 1 / count - u[i] * u[j] / count) for i in range(count))
            for j in range(count)
        ]
        dx[:, c] = np.reshape(gradient, dx[:, c].shape)
    return dx, dgamma, dbeta


def average_pool(x):
    """The mean of each plane."""
    planes = [[math.fsum(plane.ravel().tolist()) / plane.size for plane in image] for image in np.asarray(x, "float64")]
    return np.array(planes).reshape(*x.shape[:2], 1, 1)


def average_pool_gradient(dy, plane):
    dx = np.zeros((*dy.shape[:2], *plane))
    for n, c, row, column in np.ndindex(*dx.shape):
        dx[n, c, row, column] = float(dy[n, c, 0, 0]) / (plane[0] * plane[1])
    return dx


def _logistic(x):
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _normal_distribution(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _normal_density(x):
    return math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


ACTIVATIONS = {
    # name: (value, derivative), both of x and of the parameter where there is one
    "identity": (lambda x: x, lambda x: 1.0),
    "relu": (lambda x: x if x > 0 else 0.0, lambda x: 1.0 if x > 0 else 0.0),
    "leaky_relu": (lambda x, slope=0.01: x if x > 0 else slope * x, lambda x, slope=0.01: 1.0 if x > 0 else slope),
    "elu": (lambda x, alpha=1.0: x if x > 0 else alpha * math.expm1(x),
            lambda x, alpha=1.0: 1.0 if x > 0 else alpha * math.exp(x)),
    "sigmoid": (_logistic, lambda x: _logistic(x) * _logistic(-x)),
    "tanh": (math.tanh, lambda x: 1 / math.cosh(x) ** 2),
    "softplus": (lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))), _logistic),
    "silu": (lambda x: x * _logistic(x), lambda x: _logistic(x) * (1 + x * _logistic(-x))),
    "gelu": (lambda x: x * _normal_distribution(x), lambda x: _normal_distribution(x) + x * _normal_density(x)),
    "sinusoid": (math.sin, math.cos),
}


def mse(prediction, target):
    """The mean of the squared differences, and its gradient."""
    differences = np.asarray(prediction, "float64") - np.asarray(target, "float64")
    count = differences.size
    return math.fsum((differences.ravel() ** 2).tolist()) / count, 2 * differences / count


def cross_entropy(logits, target):
    """-1/N sum of target*log(softmax(logits)), 0 where target is 0, and its gradient."""
    rows, gradient = len(logits), np.zeros(np.shape(logits))
    costs = []
    for n, (row, weights) in enumerate(zip(np.asarray(logits, "float64"), np.asarray(target, "float64"), strict=True)):
        top = max(row)
        log_sum = math.log(math.fsum(math.exp(value - top) for value in row))
        costs += [w * (log_sum - (value - top)) for value, w in zip(row, weights, strict=True) if w != 0]
        for k, value in enumerate(row):
            probability = math.exp(value - top - log_sum)
            gradient[n, k] = (probability * math.fsum(weights) - weights[k]) / rows
    return math.fsum(costs) / rows, gradient
