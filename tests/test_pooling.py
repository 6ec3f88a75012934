import numpy as np
import pytest
from backends import assert_same_bits, load
from reference import layers as reference
from rejection import assert_rejected

import stelliferous_xp as sx


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 1, 1, 1), (3, 2, 1, 7)], ids=str)
def test_average_pool(backend, dtype, rng, shape):
    x, dy = rng.standard_normal(shape).astype("float32"), rng.standard_normal((*shape[:2], 1, 1)).astype("float32")
    layer = sx.average_pool_layer()
    y, saved, after = sx.forward(backend.asarray(x, dtype), layer)
    backend.assert_close(y, reference.average_pool(x), dtype, rtol=0, atol={"float32": 1e-6, "float64": 1e-15}[dtype])
    assert_same_bits(sx.evaluate(backend.asarray(x, dtype), layer), y)
    dx, after = sx.backward(backend.asarray(dy, dtype), saved, layer)
    backend.assert_close(dx, reference.average_pool_gradient(dy, shape[2:]), dtype, rtol=1e-6)
    assert_same_bits(sx.average_pool_gradient(backend.asarray(dy, dtype), shape[2:]), dx)
    assert_same_bits(sx.backward(backend.asarray(dy, dtype), saved, layer)[0], dx)
    assert sx.parameters(after) == sx.gradients(after) == {}


def test_a_plane_of_one_value_has_that_mean(backend, dtype):
    # Added one after another, 4096 of these would be off by 4e-5. The fixed order adds 128 a lane: 133 roundings at most.
    y = sx.average_pool(backend.asarray(np.full((1, 1, 64, 64), 0.1), dtype))
    backend.assert_close(y, [[[[np.dtype(dtype).type(0.1)]]]], dtype, rtol={"float32": 133 * 2**-24, "float64": 1e-15}[dtype])


def test_saved_holds_no_array(backend):
    _, saved, _ = sx.forward(backend.asarray(np.ones((1, 2, 3, 4))), sx.average_pool_layer())
    assert vars(saved).keys() == {"x"}
    assert vars(saved.x).keys() == {"namespace", "shape", "dtype", "device"}
    assert saved.x.shape == (1, 2, 3, 4)


def test_an_empty_batch(backend, dtype):
    y, saved, layer = sx.forward(backend.asarray(np.empty((0, 2, 3, 4)), dtype), sx.average_pool_layer())
    assert backend.check(y, dtype).shape == (0, 2, 1, 1)
    assert backend.check(sx.backward(y, saved, layer)[0], dtype).shape == (0, 2, 3, 4)


def test_nan_stays_in_its_plane(backend):
    x = np.zeros((1, 2, 2, 2))
    x[0, 0, 1, 0] = np.nan
    y = backend.check(sx.average_pool(backend.asarray(x)))
    assert np.isnan(y).ravel().tolist() == [True, False]


@pytest.mark.parametrize(("error", "match", "x"), [
    (ValueError, r"`x` must have shape \(N, C, H, W\); got \(2, 3\)", np.ones((2, 3))),
    (ValueError, r"`x` must have planes of at least one element; got shape \(2, 3, 0, 1\)", np.ones((2, 3, 0, 1))),
    (TypeError, "`x` must have dtype float32 or float64; got int32", np.ones((1, 1, 2, 2), "int32")),
    (TypeError, "`x` must have dtype float32 or float64; got float16", np.ones((1, 1, 2, 2), "float16")),
    (TypeError, "`x` must be an array; got NoneType", None),
], ids=["rank", "empty plane", "integers", "float16", "none"])
def test_bad_input(error, match, x):
    assert_rejected(error, match, sx.forward, x, sx.average_pool_layer())


def test_bad_gradients_and_saved(backend):
    dy, saved, layer = sx.forward(backend.asarray(np.ones((2, 3, 4, 5))), sx.average_pool_layer())
    for shape in [(2, 3), (2, 3, 4, 5), (1, 3, 1, 1), (2, 1, 1, 1)]:
        assert_rejected(ValueError, r"`dy` must have shape \(2, 3, 1, 1\); got", sx.backward,
                        backend.asarray(np.ones(shape)), saved, layer)
    assert_rejected(TypeError, "`dy` must have dtype .*float32 like `x`; got .*float64",
                    sx.backward, backend.asarray(np.ones((2, 3, 1, 1)), "float64"), saved, layer)
    other = load("array_api_strict" if backend.name == "array_api_strict:device1" else "array_api_strict:device1")
    error, match = (ValueError, "on device") if other.module is backend.module else (TypeError, "an array of")
    assert_rejected(error, f"`dy` must be {match}", sx.backward, other.asarray(np.ones((2, 3, 1, 1))), saved, layer)
    _, of_another_call, _ = sx.forward(backend.asarray(np.ones((1, 3, 4, 5))), layer)
    assert_rejected(ValueError, r"`dy` must have shape \(1, 3, 1, 1\); got \(2, 3, 1, 1\)",
                    sx.backward, dy, of_another_call, layer)
    _, of_an_activation, _ = sx.forward(dy, sx.activation_layer("relu"))
    assert_rejected(TypeError, "`saved` must be the AveragePoolSaved .*average_pool.*; got ActivationSaved",
                    sx.backward, dy, of_an_activation, layer)
