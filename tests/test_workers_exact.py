"""The same bits for any number of workers, memory layout, BLAS setting and calling thread, on NumPy arrays."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import stelliferous_xp as sx
from stelliferous_xp.ops.portable import blocks

COUNTS = (1, 2, 3, 4, 7)
ACTIVATIONS = ("identity", "relu", "leaky_relu", "elu", "sigmoid", "tanh", "softplus", "silu", "gelu", "sinusoid")
IMAGES = (35, 5, 31, 29)  # 3 blocks: large enough to be cut, and no extent a multiple of 8
ROWS = (30011, 7)

# Every public operation on arrays: the shapes of its array arguments, and the call.
OPERATIONS = {
    "activate": ([IMAGES], lambda x: [sx.activate(x, name) for name in ACTIVATIONS]),
    "activation_gradient": ([IMAGES] * 2, lambda dy, kept: [
        sx.activation_gradient(dy, kept, name) for name in ACTIVATIONS]),
    "add": ([IMAGES] * 2, sx.add),
    "average_pool": ([IMAGES], sx.average_pool),
    "average_pool_gradient": ([(40009, 3, 1, 1)], lambda dy: sx.average_pool_gradient(dy, (3, 2))),
    "batch_moments": ([IMAGES], sx.batch_moments),
    "batch_norm": ([IMAGES, *[(5,)] * 4], lambda x, mean, variance, gamma, beta: sx.batch_norm(
        x, mean, variance * variance, gamma, beta)),
    "batch_norm_gradient": ([IMAGES] * 2 + [(5,)] * 4, lambda dy, x, mean, variance, *gamma_beta:
                            sx.batch_norm_gradient(dy, x, mean, variance * variance, *gamma_beta)),
    "conv2d": ([IMAGES, (6, 5, 3, 2), (6,)], lambda x, weights, bias: sx.conv2d(
        x, weights, bias, (2, 1), (1, 2), "gelu")),
    "conv2d_bias_gradient": ([IMAGES], sx.conv2d_bias_gradient),
    "conv2d_input_gradient": ([(35, 6, 16, 32), (6, 5, 3, 2)], lambda dy, weights: sx.conv2d_input_gradient(
        dy, weights, (31, 29), (2, 1), (1, 2))),
    "conv2d_weight_gradient": ([(35, 6, 16, 32), IMAGES], lambda dy, x: sx.conv2d_weight_gradient(
        dy, x, (3, 2), (2, 1), (1, 2))),
    "cross_entropy": ([ROWS] * 2, lambda logits, target: sx.cross_entropy(logits, target * target)),
    "mse": ([IMAGES] * 2, sx.mse),
}
# More shapes of the same: [N, C] in batch norm, arrays of rank 1, and 1x1 convolutions, whose filters are a matrix.
OPERATIONS |= {
    "activate, rank 1": ([(200003,)], lambda x: sx.activate(x, "gelu")),
    "batch_moments of rows": ([ROWS], sx.batch_moments),
    "batch_norm_gradient of rows": ([ROWS] * 2 + [(7,)] * 4, lambda dy, x, mean, variance, *gamma_beta:
                                    sx.batch_norm_gradient(dy, x, mean, variance * variance, *gamma_beta)),
    "conv2d 1x1": ([(67, 37, 9, 11), (41, 37, 1, 1), (41,)], sx.conv2d),
    "conv2d_input_gradient 1x1": ([(67, 41, 9, 11), (41, 37, 1, 1)], lambda dy, weights: sx.conv2d_input_gradient(
        dy, weights, (9, 11))),
    "conv2d_weight_gradient 1x1": ([(67, 41, 9, 11), (67, 37, 9, 11)], lambda dy, x: sx.conv2d_weight_gradient(
        dy, x, 1)),
}
# Public names that compute no array from arrays by themselves, or that a training step below runs.
ELSEWHERE = {name for name in sx.__all__ if name[0].isupper() or name.endswith(("_layer", "_layer_from", "_schedule"))}
ELSEWHERE |= {"adam", "adamw", "backward", "clip_gradients", "concat", "digest", "elu", "evaluate", "forward",
              "get_workers", "glorot_uniform", "gradients", "grenade_sgd", "he_normal", "info", "leaky_relu", "lecun_normal",
              "merge", "nesterov_sgd", "network", "one_hot", "optimizer_step", "parameters", "pytorch_sgd",
              "replace_parameters", "residual", "set_workers", "sgd_step", "to_device", "uniform", "warm_up", "workers"}


def arrays_of(name, dtype):
    rng = np.random.default_rng(len(name))
    return [rng.standard_normal(shape).astype(dtype) for shape in OPERATIONS[name][0]]


def bits(result):
    """Shapes, dtypes and bytes of all arrays in lists and tuples of them."""
    if isinstance(result, list | tuple):
        return [bits(each) for each in result]
    return result.shape, result.dtype, result.tobytes()


def call(name, arrays, count):
    with sx.workers(count):
        return bits(OPERATIONS[name][1](*arrays))


def layouts(array):
    """The same values in other memory: (what, view)."""
    doubled = np.full([2 * extent for extent in array.shape], np.nan, array.dtype)
    every_other = doubled[tuple(slice(1, None, 2) for _ in array.shape)]
    every_other[...] = array
    yield "non-contiguous", every_other
    yield "reversed", np.flip(np.flip(array).copy())
    yield "reversed along the last axis", array[..., ::-1].copy()[..., ::-1]
    yield "Fortran", np.asfortranarray(array)
    yield "channels last", np.moveaxis(np.moveaxis(array, 1, -1).copy(), -1, 1) if array.ndim > 1 else array.copy()
    offset = np.empty(array.size + 1, array.dtype)[1:].reshape(array.shape)
    offset[...] = array
    yield "offset by one element", offset
    read_only = array.copy()
    read_only.flags.writeable = False
    yield "read-only", read_only


def test_every_public_operation_is_here():
    assert set(sx.__all__) - ELSEWHERE <= set(OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_cases_are_cut_into_blocks(name, monkeypatch):
    """Otherwise nothing below would be a test. In float64, as the kernels of float32 cut work where no test can see."""
    counts = []

    def counted(function, parts):
        counts.append(len(parts))
        return [function(part) for part in parts]

    monkeypatch.setattr(blocks, "run_blocks", counted)
    call(name, arrays_of(name, "float64"), 1)
    assert counts
    assert min(counts) >= 2


@pytest.mark.parametrize("name", OPERATIONS)
def test_worker_counts(name, dtype):
    arrays = arrays_of(name, dtype)
    expected = call(name, arrays, 1)
    for count in COUNTS:
        assert call(name, arrays, count) == expected


@pytest.mark.parametrize("name", OPERATIONS)
def test_layouts(name, dtype):
    arrays = arrays_of(name, dtype)
    expected = call(name, arrays, 1)
    for position, array in enumerate(arrays):
        for what, view in layouts(array):
            other = [*arrays[:position], view, *arrays[position + 1:]]
            assert call(name, other, 3) == expected, (position, what)
    if name in {"conv2d", "conv2d_weight_gradient 1x1"}:
        for views in zip(*map(layouts, arrays), strict=True):
            assert call(name, [view for _, view in views], 2) == expected, views[0][0]


@pytest.mark.parametrize("name", OPERATIONS)
def test_blas_settings_of_the_user(name, dtype):
    arrays, results = arrays_of(name, dtype), []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            results.append([call(name, arrays, count) for count in (1, 2)])
    assert results[0] == results[1]
    assert results[0][0] == results[0][1]


@pytest.mark.parametrize("images", [1, 2, 7, 8, 9, 17])
@pytest.mark.parametrize("plane", [(1, 1), (5, 3), (67, 61)])
def test_a_convolution_of_few_images(images, plane, dtype, rng):
    x = rng.standard_normal((images, 3, *plane)).astype(dtype)
    weights = rng.standard_normal((5, 3, 3, 3)).astype(dtype)

    def run(count):
        with sx.workers(count):
            y = sx.conv2d(x, weights, padding=1)
            return bits([y, sx.conv2d_input_gradient(y, weights, plane, padding=1),
                         sx.conv2d_weight_gradient(y, x, 3, padding=1), sx.conv2d_bias_gradient(y)])

    expected = run(1)
    assert all(run(count) == expected for count in COUNTS)


def test_large_matrix_products():
    """Large enough for BLAS to use threads of its own, if it were let."""
    rng = np.random.default_rng(3)
    x, weights = rng.standard_normal((20, 64, 28, 28), dtype="f4"), rng.standard_normal((72, 64, 3, 3), dtype="f4")

    def run(count, blas):
        with threadpool_limits(blas, user_api="blas"), sx.workers(count):
            y = sx.conv2d(x, weights)
            return bits([y, sx.conv2d_input_gradient(y, weights, (28, 28)), sx.conv2d_weight_gradient(y, x, 3)])

    expected = run(1, 1)
    assert run(1, 2) == run(2, 1) == run(3, 2) == expected


# Layers and training


def small_network(dtype, seed=0):
    rng = np.random.default_rng(seed)

    def conv(outputs, inputs, kernel, **options):
        shape = (outputs, inputs, kernel, kernel)
        return sx.conv2d_layer(sx.he_normal(rng, shape, dtype=dtype), np.zeros(outputs, dtype), **options)

    def block(outputs, inputs, activation, **options):
        return [conv(outputs, inputs, 3, padding=1, **options), sx.batch_norm_layer(outputs, dtype=dtype),
                sx.activation_layer(activation)]

    return sx.network([
        *block(7, 3, "relu"),
        sx.residual(sx.network(block(7, 7, sx.elu(alpha=0.5)))),
        sx.concat([conv(5, 7, 1), conv(6, 7, 3, padding=1)]),
        sx.merge([sx.network(block(9, 11, "silu", stride=2)), conv(9, 11, 1, stride=2)]),
        sx.average_pool_layer(), conv(5, 9, 1),
    ])


OPTIMIZERS = [lambda: sx.grenade_sgd(0.05, 0.9, 1e-3), lambda: sx.pytorch_sgd(0.05), lambda: sx.nesterov_sgd(0.05),
              lambda: sx.adam(0.01), lambda: sx.adamw(sx.cosine_schedule(0.01, 5))]


def train(dtype, count, optimizer=3, steps=2, view=np.asarray):
    """A few training steps; everything that came out of them, in bytes."""
    rng = np.random.default_rng(1)
    net, state, seen = small_network(dtype), OPTIMIZERS[optimizer](), []
    with sx.workers(count):
        for _ in range(steps):
            x = view(rng.standard_normal((35, 3, 31, 29)).astype(dtype))
            target = sx.one_hot(rng.integers(0, 5, 35), 5, dtype)
            y, saved, net = sx.forward(x, net)
            loss, gradient = sx.cross_entropy(y.reshape(35, 5), target)
            dx, net = sx.backward(gradient.reshape(y.shape), saved, net)
            net, norm = sx.clip_gradients(net, max_norm=0.5)
            seen += [y, loss, dx, norm, *sx.gradients(net).values()]
            state, net = sx.optimizer_step(state, net)
        seen += [sx.evaluate(x, net), *[buffer for buffers in state.buffers.values() for buffer in buffers]]
        return sx.digest(net), bits(seen)


def test_training_on_any_number_of_workers(dtype):
    expected = train(dtype, 1)
    for count in COUNTS:
        assert train(dtype, count) == expected


@pytest.mark.parametrize("optimizer", range(len(OPTIMIZERS)))
def test_optimizers_on_any_number_of_workers(optimizer):
    assert train("float32", 4, optimizer) == train("float32", 1, optimizer)


def test_training_under_other_blas_settings():
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            results.append(train("float32", 3))
    assert results[0] == results[1]


@pytest.mark.parametrize("view", [np.asfortranarray, lambda x: np.flip(np.flip(x).copy())],
                         ids=["Fortran", "reversed"])
def test_training_on_images_in_other_layouts(view):
    assert train("float32", 2, view=view) == train("float32", 1)


def test_training_in_several_threads_at_once():
    """Each thread has its own count; one fails all the time; BLAS has two threads in the process."""
    expected = train("float32", 1)
    results, stop = {}, threading.Event()

    def fail():
        huge = np.full(2**18, 3e38, dtype="float32")
        while not stop.is_set():
            with sx.workers(2), np.errstate(over="raise"), pytest.raises(FloatingPointError):
                sx.add(huge, huge)

    def run(count):
        results[count] = train("float32", count)

    failing = threading.Thread(target=fail, daemon=True)
    threads = [threading.Thread(target=run, args=(count,), daemon=True) for count in COUNTS]
    with threadpool_limits(2, user_api="blas"):
        for thread in (failing, *threads):
            thread.start()
        for thread in threads:
            thread.join(120)
        stop.set()
        failing.join(120)
    assert set(results) == set(COUNTS)
    assert all(result == expected for result in results.values())
