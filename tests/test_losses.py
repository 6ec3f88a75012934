import math

import numpy as np
import pytest
from backends import assert_same_bits, load
from cases import each_backend_with
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import layers as reference
from rejection import assert_rejected

import stelliferous_xp as sx

TOLERANCE = {"float32": 2e-6, "float64": 1e-14}


def assert_loss(backend, dtype, function, left, right, expected, gradient):
    """Check loss and gradient; the loss is a 0-d array of the same library, device and dtype."""
    loss, actual = function(backend.asarray(left, dtype), backend.asarray(right, dtype))
    backend.assert_close(loss, expected, dtype, rtol=TOLERANCE[dtype])
    scale = max(np.abs(gradient).max(), 1e-30)
    backend.assert_close(actual, gradient, dtype, rtol=0, atol=TOLERANCE[dtype] * scale)


@each_backend_with("shape", {str(shape): shape for shape in [(1,), (7,), (5, 3), (2, 3, 2, 1)]}, jax=["(5, 3)"])
def test_mse(backend, dtype, rng, shape):
    prediction, target = rng.standard_normal((2, *shape)).astype("float32")
    assert_loss(backend, dtype, sx.mse, prediction, target, *reference.mse(prediction, target))


def test_mse_of_itself_is_zero(backend, dtype, rng):
    x = backend.asarray(rng.standard_normal((4, 3)), dtype)
    loss, gradient = sx.mse(x, x)
    assert_same_bits(backend.check(loss, dtype), np.zeros((), dtype))
    assert not backend.check(gradient, dtype).any()


@each_backend_with("shape", {str(shape): shape for shape in [(1, 1), (1, 4), (5, 3), (33, 10)]}, jax=["(5, 3)"])
def test_cross_entropy_of_soft_targets(backend, dtype, rng, shape):
    logits = (3 * rng.standard_normal(shape)).astype("float32")
    target = rng.dirichlet(np.ones(shape[1]), shape[0]).astype("float32")
    loss, gradient = reference.cross_entropy(logits, target)
    if shape[1] == 1:
        loss, gradient = 0, np.zeros(shape)
    assert_loss(backend, dtype, sx.cross_entropy, logits, target, loss, gradient)


def test_a_batch_that_is_cut_into_blocks(dtype, rng):
    backend = load("numpy")
    logits = rng.standard_normal((16401, 7)).astype("float32")
    target = np.eye(7, dtype="float32")[rng.integers(0, 7, 16401)]
    for function, expected in [(sx.cross_entropy, reference.cross_entropy), (sx.mse, reference.mse)]:
        assert_loss(backend, dtype, function, logits, target, *expected(logits, target))


@pytest.mark.parametrize("target", [[[2, 0, 0.5], [0, 0, 0]], [[0.1, 0.1, 0.1], [0, 1, 0]], [[-1, 2, 0], [1, 1, 1]]],
                         ids=str)
def test_cross_entropy_of_rows_that_do_not_sum_to_one(backend, dtype, target):
    logits = [[0.5, -1, 2], [1, 2, 3]]
    target = np.float32(target)
    assert_loss(backend, dtype, sx.cross_entropy, logits, target, *reference.cross_entropy(logits, target))


@pytest.mark.parametrize(("logits", "target", "loss", "gradient"), [
    ([1e8, 1e8], [1, 0], math.log(2), [-0.5, 0.5]),
    ([-1e8, -1e8, -1e8], [0, 0, 1], math.log(3), [1 / 3, 1 / 3, -2 / 3]),
    ([1e8, 0], [1, 0], 0, [0, 0]),
    ([1e8, 0], [0, 1], 1e8, [1, -1]),
    ([1e8, 0], [0.25, 0.75], 0.75e8, [0.75, -0.75]),
    ([1e4, 0, -1e4], [0, 0, 1], 2e4, [1, 0, -1]),
    ([-math.inf, 0, 0], [0, 1, 0], math.log(2), [0, -0.5, 0.5]),
    ([-math.inf, 0, 0], [0, 0.5, 0.5], math.log(2), [0, 0, 0]),
    ([-math.inf, 3], [0, 1], 0, [0, 0]),
    ([-math.inf, 3], [1, 0], math.inf, [-1, 1]),
    ([3e38, -3e38], [1, 0], 0, [0, 0]),
], ids=str)
def test_cross_entropy_of_extreme_logits(backend, dtype, logits, target, loss, gradient):
    with np.errstate(over="ignore"):  # the difference of the two largest float32 is -inf, as it should
        assert_loss(backend, dtype, sx.cross_entropy, [logits], [target], loss, np.array([gradient]))


def test_cross_entropy_of_nan_is_nan(backend):
    loss, gradient = sx.cross_entropy(backend.asarray([[math.nan, 1], [0, 0]]), backend.asarray([[1, 0], [1, 0]]))
    assert np.isnan(backend.check(loss))
    assert np.isnan(backend.check(gradient)).tolist() == [[True, True], [False, False]]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.integers(0, 2)),
                min_size=1, max_size=9), st.floats(-1e6, 1e6))
def test_cross_entropy_properties(rows, shift):
    logits = np.array([row[:3] for row in rows])
    target = np.eye(3)[[row[3] for row in rows]]
    loss, gradient = sx.cross_entropy(logits, target)
    expected, _ = reference.cross_entropy(logits, target)
    np.testing.assert_allclose(loss, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(gradient.sum(axis=1), 0, atol=1e-15)
    np.testing.assert_allclose(sx.cross_entropy(logits + shift, target)[0], expected, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("width", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                                   "float32", "float64"])
def test_one_hot_of_any_labels(backend, dtype, width):
    rows = sx.one_hot(backend.asarray([2, 0, 1, 2], width), 3, dtype)
    assert_same_bits(backend.check(rows, dtype), np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype))


def test_one_hot_of_float16_labels():
    assert sx.one_hot(np.float16([3, 0]), 70000).argmax(axis=1).tolist() == [3, 0]


def test_one_hot_dtypes(backend):
    labels = backend.asarray([0], "int32")
    assert sx.one_hot(labels, 1).dtype == backend.xp.float32
    assert sx.one_hot(labels, 1, dtype=backend.xp.float64).dtype == backend.xp.float64
    assert backend.check(sx.one_hot(backend.asarray([], "int64"), 3)).shape == (0, 3)


@pytest.mark.parametrize(("labels", "width", "classes", "first"), [
    ([0, 3, 9], "int64", 3, "3 at position 1"),
    ([0, -1, 9], "int8", 3, "-1 at position 1"),
    ([127, -128], "int8", 300, "-128 at position 1"),
    ([255], "uint8", 255, "255 at position 0"),
    ([1, 65535], "uint16", 1000, "65535 at position 1"),
    ([2**32 - 1], "uint32", 5, "4294967295 at position 0"),
    ([0, 2**32], "int64", 5, "4294967296 at position 1"),
    ([2**64 - 1], "uint64", 5, "18446744073709551615 at position 0"),
    ([0, 0.5], "float32", 3, r"0\.5 at position 1"),
    ([1, math.nan, 7], "float64", 3, "nan at position 1"),
    ([math.inf], "float32", 3, "inf at position 0"),
    ([-math.inf], "float32", 3, "-inf at position 0"),
    ([3.0], "float64", 3, r"3\.0 at position 0"),
], ids=str)
def test_one_hot_names_the_first_label_out_of_range(backend, labels, width, classes, first):
    assert_rejected(ValueError, f"`labels` must be whole numbers from 0 to {classes - 1}; got {first}$",
                    sx.one_hot, backend.asarray(labels, width), classes)


@pytest.mark.parametrize(("error", "match", "arguments"), [
    (TypeError, "`labels` must be integers or whole floats; got dtype bool", (np.array([True]), 2)),
    (TypeError, "`labels` must be integers or whole floats; got dtype complex128", (np.array([1j]), 2)),
    (TypeError, "`labels` must be an array; got list", ([0, 1], 2)),
    (ValueError, r"`labels` must have shape \(N,\); got \(2, 1\)", (np.array([[0], [1]]), 2)),
    (ValueError, r"`labels` must have shape \(N,\); got \(\)", (np.array(1), 2)),
    (ValueError, "`classes` must be at least 1; got 0", (np.array([0]), 0)),
    (TypeError, "`classes` must be an integer; got 2.0", (np.array([0]), 2.0)),
    (TypeError, "`dtype` must be float32 or float64; got 'int32'", (np.array([0]), 2, "int32")),
], ids=["bool", "complex", "list", "rank 2", "rank 0", "no class", "classes", "dtype"])
def test_bad_one_hot(error, match, arguments):
    assert_rejected(error, match, sx.one_hot, *arguments)


@pytest.mark.parametrize(("function", "first", "second"), [(sx.mse, "prediction", "target"),
                                                           (sx.cross_entropy, "logits", "target")], ids=["mse", "ce"])
def test_bad_losses(backend, function, first, second):
    x = backend.asarray(np.ones((2, 3)))
    for shape in [(3,), (2, 1), (1, 3), (3, 2), (2, 3, 1)]:
        assert_rejected(ValueError, rf"`{second}` must have shape \(2, 3\) to match `{first}`; got",
                        function, x, backend.asarray(np.ones(shape)))
    assert_rejected(TypeError, f"`{second}` must have dtype .*float32 like `{first}`; got .*float64",
                    function, x, backend.asarray(np.ones((2, 3)), "float64"))
    integers = backend.asarray(np.ones((2, 3)), "int32")
    assert_rejected(TypeError, f"`{first}` must have dtype float32 or float64; got .*int32",
                    function, integers, integers)
    other = load("array_api_strict" if backend.name == "array_api_strict:device1" else "array_api_strict:device1")
    error, match = (ValueError, "on device") if other.module is backend.module else (TypeError, "an array of")
    assert_rejected(error, f"`{second}` must be {match}", function, x, other.asarray(np.ones((2, 3))))
    assert_rejected(TypeError, f"`{second}` must be an array; got list", function, x, [1.0])
    for shape in [(0, 3), (2, 0)]:
        empty = backend.asarray(np.empty(shape))
        assert_rejected(ValueError, f"`{first}` must have .*got shape", function, empty, empty)
    scalar = backend.asarray(1.0)
    assert_rejected(ValueError, f"`{first}` must have", function, scalar, scalar)
