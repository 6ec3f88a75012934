"""Clipping by the global norm, against float64 arithmetic."""

import math

import numpy as np
import pytest
from backends import assert_same_bits, to_numpy

import stelliferous_xp as sx


def flat(layer):
    return np.concatenate([to_numpy(gradient).ravel() for gradient in sx.gradients(layer).values()])


@pytest.mark.parametrize("max_norm", [0.0, 0.5, 5.0, 5.0001, 100.0])
def test_the_norm_over_all_gradients(backend, dtype, max_norm):
    gradients = [[3.0, 0.0], [-4.0]]
    layer = sx.network([sx.conv2d_layer(backend.asarray(np.ones((1, 2, 1, 1)), dtype)),
                        sx.conv2d_layer(backend.asarray(np.ones((1, 1, 1, 1)), dtype)), sx.activation_layer("relu")])
    held = sx.network([each.with_gradients({"weights": backend.asarray(np.reshape(gradient, (1, -1, 1, 1)), dtype)})
                       for each, gradient in zip(layer.layers, gradients, strict=False)] + [layer.layers[2]])
    clipped, norm = sx.clip_gradients(held, max_norm)
    backend.assert_close(norm, 5.0, dtype, rtol=1e-6)
    expected = np.asarray([3.0, 0.0, -4.0]) * min(1.0, max_norm / 5.0)
    assert list(sx.gradients(clipped)) == ["0.weights", "1.weights"]
    for gradient in sx.gradients(clipped).values():
        backend.check(gradient, dtype)
    np.testing.assert_allclose(flat(clipped), expected, rtol=1e-6)
    np.testing.assert_array_equal(flat(held), [3.0, 0.0, -4.0])
    for name, parameter in sx.parameters(held).items():
        assert sx.parameters(clipped)[name] is parameter


def single(gradient, dtype="float32"):
    array = np.asarray(gradient, dtype).reshape(1, -1, 1, 1)
    return sx.conv2d_layer(np.ones_like(array)).with_gradients({"weights": array})


def test_within_the_bound_the_bits_stay():
    layer = single(np.random.default_rng(0).standard_normal(101))
    clipped, norm = sx.clip_gradients(layer, 1000)
    assert_same_bits(sx.gradients(clipped)["weights"], sx.gradients(layer)["weights"])
    assert float(norm) == pytest.approx(np.linalg.norm(flat(layer).astype("float64")), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e-20, 1.0, 1e20, 1e37])
def test_squares_neither_overflow_nor_vanish(scale):
    gradient = np.float32(scale) * np.asarray([1, 2, -2, 4], "float32")
    exact = gradient.astype("float64")
    clipped, norm = sx.clip_gradients(single(gradient), float(scale))
    assert float(norm) == pytest.approx(np.linalg.norm(exact), rel=1e-6)
    np.testing.assert_allclose(flat(clipped), exact * scale / np.linalg.norm(exact), rtol=1e-5, atol=2e-45)


def test_gradients_of_zero():
    clipped, norm = sx.clip_gradients(single([0.0, 0.0]), 0.0)
    assert float(norm) == 0.0
    np.testing.assert_array_equal(flat(clipped), [0.0, 0.0])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_stays_visible(bad):
    with np.errstate(invalid="ignore"):
        clipped, norm = sx.clip_gradients(single([1.0, bad]), 1.0)
    assert not np.isfinite(norm)
    assert not np.all(np.isfinite(flat(clipped)))


def test_clipping_twice_changes_no_more_than_rounding():
    once, _ = sx.clip_gradients(single(np.arange(50.0)), 1.0)
    twice, norm = sx.clip_gradients(once, 1.0)
    assert float(norm) == pytest.approx(1.0, rel=1e-6)
    np.testing.assert_allclose(flat(twice), flat(once), rtol=1e-6)


def test_wrong_arguments():
    layer = single([1.0])
    with pytest.raises(ValueError, match="`layer` must hold gradients; run backward first"):
        sx.clip_gradients(sx.conv2d_layer(np.ones((1, 1, 1, 1))), 1.0)
    with pytest.raises(ValueError, match="`layer` must hold gradients"):
        sx.clip_gradients(sx.activation_layer("relu"), 1.0)
    with pytest.raises(TypeError, match="`layer` must be a layer; got dict"):
        sx.clip_gradients({}, 1.0)
    for max_norm in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="`max_norm` must be a finite number, at least 0; got"):
            sx.clip_gradients(layer, max_norm)
    with pytest.raises(TypeError, match="`max_norm` must be a number; got '1'"):
        sx.clip_gradients(layer, "1")
