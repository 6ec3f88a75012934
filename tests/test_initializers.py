"""Initialisers: one seed, the same bits everywhere; moments and limits of the distributions."""

import math

import numpy as np
import pytest
from backends import assert_same_bits

import stelliferous_xp as sx

SHAPE = (40, 30, 5, 3)
FAN_IN, FAN_OUT = 30 * 15, 40 * 15
INITIALIZERS = [sx.he_normal, sx.lecun_normal, sx.glorot_uniform, sx.uniform]


def drawn(initializer, seed=0, shape=SHAPE, **options):
    return initializer(np.random.default_rng(seed), shape, **options)


@pytest.mark.parametrize("initializer", INITIALIZERS)
def test_a_seed_gives_the_same_bits_on_every_backend(backend, dtype, initializer):
    expected = drawn(initializer, dtype="float64").astype(dtype)
    for given in (dtype, getattr(backend.xp, dtype)):
        array = drawn(initializer, xp=backend.module, dtype=given, device=backend.device)
        backend.check(array, dtype)
        assert_same_bits(array, expected)


@pytest.mark.parametrize("initializer", INITIALIZERS)
def test_numpy_and_float32_by_default(initializer):
    array = drawn(initializer)
    assert type(array) is np.ndarray
    assert (array.dtype, array.shape) == (np.float32, SHAPE)
    assert array.tobytes() != drawn(initializer, seed=1).tobytes()


@pytest.mark.parametrize("initializer", INITIALIZERS)
def test_the_generator_advances_by_the_draw_whatever_the_dtype(initializer):
    rngs = np.random.default_rng(3), np.random.default_rng(3)
    initializer(rngs[0], (5, 3), dtype="float32")
    initializer(rngs[1], (5, 3), dtype="float64")
    assert rngs[0].bit_generator.state == rngs[1].bit_generator.state != np.random.default_rng(3).bit_generator.state


@pytest.mark.parametrize(("initializer", "variance"), [
    (sx.he_normal, 2 / FAN_IN), (sx.lecun_normal, 1 / FAN_IN), (sx.glorot_uniform, 2 / (FAN_IN + FAN_OUT)),
    (sx.uniform, 1 / 3),
])
def test_moments(initializer, variance):
    """18000 draws: mean and variance within five standard errors."""
    draws = drawn(initializer, dtype="float64").ravel() / math.sqrt(variance)
    assert abs(draws.mean()) < 5 / math.sqrt(draws.size)
    assert abs(draws.var() - 1) < 5 * math.sqrt(np.mean(draws**4) / draws.size)
    kurtosis = 3.0 if initializer in (sx.he_normal, sx.lecun_normal) else 1.8
    assert np.mean(draws**4) == pytest.approx(kurtosis, rel=0.1)


def test_a_matrix_has_its_columns_as_fan_in():
    assert drawn(sx.he_normal, shape=(7, 400), dtype="float64").var() == pytest.approx(2 / 400, rel=0.15)
    limit = math.sqrt(6 / 500)
    draws = drawn(sx.glorot_uniform, shape=(100, 400), dtype="float64")
    assert limit * 0.999 < draws.max() <= limit
    assert -limit <= draws.min() < -limit * 0.999


def test_uniform_within_its_bounds():
    draws = drawn(sx.uniform, shape=(10**5,), low=-2.0, high=5.0, dtype="float64")
    assert -2 <= draws.min() < -1.99
    assert 4.99 < draws.max() < 5
    assert_same_bits(drawn(sx.uniform, shape=(3,), low=0.5, high=0.5), np.full(3, 0.5, "float32"))
    assert drawn(sx.uniform, shape=()).shape == ()
    assert drawn(sx.uniform, shape=(0, 3)).shape == (0, 3)
    assert drawn(sx.uniform, shape=[2, 3]).shape == (2, 3)


@pytest.mark.parametrize("initializer", INITIALIZERS)
@pytest.mark.parametrize(("options", "error", "message"), [
    ({"dtype": "float16"}, TypeError, "`dtype` must be float32 or float64; got 'float16'"),
    ({"dtype": np.int32}, TypeError, "`dtype` must be float32 or float64"),
    ({"xp": "numpy"}, TypeError, "`xp` must be an array library such as numpy or cupy; got 'numpy'"),
    ({"device": "gpu"}, ValueError, "gpu"),
    ({"shape": (3, -1)}, ValueError, r"`shape\[1\]` must be at least [01]; got -1"),
    ({"shape": (3, 2.0)}, TypeError, r"`shape\[1\]` must be an integer; got 2\.0"),
    ({"shape": 3}, TypeError, "`shape` must be a sequence of integers; got 3"),
])
def test_wrong_arguments_leave_the_generator_alone(initializer, options, error, message):
    rng = np.random.default_rng(0)
    with pytest.raises(error, match=message):
        initializer(rng, **{"shape": (3, 2)} | options)
    assert rng.bit_generator.state == np.random.default_rng(0).bit_generator.state


@pytest.mark.parametrize("initializer", INITIALIZERS)
@pytest.mark.parametrize("rng", [0, None, np.random, np.random.RandomState(0)])
def test_no_generator(initializer, rng):
    with pytest.raises(TypeError, match=r"`rng` must be a numpy\.random\.Generator"):
        initializer(rng, (3, 2))


@pytest.mark.parametrize("initializer", [sx.he_normal, sx.lecun_normal, sx.glorot_uniform])
@pytest.mark.parametrize("shape", [(), (3,), (0, 3), (3, 0)])
def test_a_shape_without_fans(initializer, shape):
    with pytest.raises(ValueError, match="`shape"):
        drawn(initializer, shape=shape)


@pytest.mark.parametrize(("low", "high", "error"), [(1.0, 0.0, ValueError), (math.nan, 1.0, ValueError),
                                                    (0.0, math.inf, ValueError), ("0", 1.0, TypeError)])
def test_bounds_of_uniform(low, high, error):
    with pytest.raises(error, match=r"`(low|high)` must be a "):
        drawn(sx.uniform, low=low, high=high)
