"""The batch norm kernels against the oracle, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from .oracle import activation, arithmetic, batch_norm
from .support import FINITE_SPECIALS, SPECIALS, check, elementary, floats, same_bits

SHAPES = [
    (0, 2, 4), (0, 3, 1), (2, 0, 1), (2, 0, 5), (1, 1, 1), (2, 3, 1), (9, 17, 1), (64, 33, 1), (1, 5, 31), (3, 2, 32), (5, 7, 33), (8, 1, 63), (2, 3, 64), (17, 4, 65),
    (13, 9, 7), (3, 16, 100), (7, 5, 289), (6, 16, 1024), (4, 64, 196),
]  # fmt: skip


def check_all(x, dy, gamma, beta, name="identity", alpha=0.0, **options):
    f = elementary()
    mean, m2 = batch_norm.batch_moments(x)
    check((mean, m2), "batch_norm", "batch_moments", x, **options)
    with arithmetic.quiet():
        inv = batch_norm.inverse_deviation(m2 / arithmetic.float32(x.shape[0] * x.shape[2]), 1e-5)
    z = batch_norm.forward(x, mean, inv, gamma, beta)
    y = activation.forward(z, name, alpha, f)
    check(y, "batch_norm", "batch_norm_forward", x, mean, inv, gamma, beta, name, alpha, **options)
    saved = z if name in activation.READS_INPUT else y
    gradients = batch_norm.backward(activation.backward(dy, saved, name, alpha, f), x, mean, inv, gamma)
    check(gradients, "batch_norm", "batch_norm_backward", dy, x, mean, inv, gamma, beta, name, alpha, **options)


def draw(seed, shape, rare=0.0, among=SPECIALS):
    rng = np.random.default_rng(seed)
    ordinary, special = floats(rng, *shape) * np.float32(2) + np.float32(5), floats(rng, *shape, rare=1, among=among)
    x = np.where(rng.random(shape) < rare, special, ordinary)
    return x, floats(rng, *shape, rare=rare, among=among), floats(rng, shape[1]), floats(rng, shape[1])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["identity", "relu"])
def test_every_shape_and_worker(shape, name):
    check_all(*draw(1, shape), name)


@pytest.mark.parametrize("rare", [0.002, 0.1])
@pytest.mark.parametrize("among", [SPECIALS, FINITE_SPECIALS], ids=["all", "finite"])
@pytest.mark.parametrize("shape", [(9, 20, 1), (5, 20, 37), (2, 20, 70)], ids=str)
@pytest.mark.parametrize("name", ["identity", "relu"])
def test_special_values(shape, among, rare, name):
    check_all(*draw(2, shape, rare, among), name, workers=(1, 2))


@pytest.mark.parametrize(
    ("name", "alpha"),
    [
        ("leaky_relu", 0.1),
        ("elu", 0.7),
        ("sigmoid", 0.0),
        ("tanh", 0.0),
        ("softplus", 0.0),
        ("silu", 0.0),
        ("gelu", 0.0),
        ("sinusoid", 0.0),
    ],
)
@pytest.mark.parametrize("shape", [(9, 3, 1), (3, 4, 53)], ids=str)
def test_fused_activations(name, alpha, shape):
    check_all(*draw(3, shape), name, alpha, workers=(1, 2))
    check_all(*draw(4, shape, 0.05), name, alpha, workers=(2,))


def test_constant_channels_normalise_to_beta():
    x = np.ascontiguousarray(
        np.broadcast_to(np.array([0.1, 123456.7, -3.3333333e9, 7e9, -0.0], np.float32)[None, :, None], (2, 5, 63))
    )
    beta = np.arange(5, dtype=np.float32)
    mean, m2 = batch_norm.batch_moments(x)
    same_bits(m2, np.zeros(5, np.float32))
    assert not np.signbit(mean[4])
    inv = batch_norm.inverse_deviation(m2, 1e-5)
    same_bits(batch_norm.forward(x, mean, inv, np.ones(5, np.float32), beta), np.broadcast_to(beta[:, None], x.shape))
    check_all(x, np.ones_like(x), np.ones(5, np.float32), beta)


def test_an_infinity_has_no_variance():
    x = np.ones((2, 3, 5), np.float32)
    x[0, 0, 0], x[1, 1, 3] = np.inf, -np.inf
    assert np.isnan(batch_norm.batch_moments(x)[1][:2]).all()
    check_all(x, np.ones_like(x), np.ones(3, np.float32), np.ones(3, np.float32))
    check_all(x[:, :, :1].copy(), np.ones((2, 3, 1), np.float32), np.ones(3, np.float32), np.ones(3, np.float32))


def test_underflow_in_every_lane_keeps_its_sign():
    """s2 of a plane whose every product underflows from below is -0."""
    x = np.full((1, 2, 64), 1.0, np.float32)
    dy = np.full((1, 2, 64), -1e-45, np.float32)
    mean, inv, gamma, beta = (np.full(2, v, np.float32) for v in (1 - 1e-5, 1.0, 1.0, 0.0))
    expected = batch_norm.backward(dy, x, mean, inv, gamma)
    assert np.signbit(expected[1]).all()
    check(expected, "batch_norm", "batch_norm_backward", dy, x, mean, inv, gamma, beta, "identity", 0.0)
    for plane in (33, 47, 95):  # a partial vector must leave its other lanes alone
        x, dy = np.full((1, 2, plane), 1.0, np.float32), np.full((1, 2, plane), -1e-45, np.float32)
        expected = batch_norm.backward(dy, x, mean, inv, gamma)
        assert np.signbit(expected[1]).all()
        check(expected, "batch_norm", "batch_norm_backward", dy, x, mean, inv, gamma, beta, "identity", 0.0)


@pytest.mark.parametrize("images", [0, 131072])
def test_no_images_and_very_many(images):
    x = np.tile(np.array([0, 1], np.float32), images // 2).reshape(images, 1, 1)
    expected = np.full(1, 0.5 if images else 0, np.float32), np.full(1, 0.25 * images, np.float32)
    check(expected, "batch_norm", "batch_moments", x)


@given(st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 80)), st.sampled_from([0.0, 0.01, 0.3]))
def test_any_shape(shape, rare):
    check_all(*draw(5, shape, rare), "relu", workers=(3, 2))
