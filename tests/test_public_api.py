"""The public names: which there are, how they are called and documented, and what they leave alone."""

import dataclasses
import doctest
import importlib.resources
import inspect
import subprocess
import sys

import numpy as np
import pytest

import stelliferous_xp as sx

# Code outside the project calls these, by position and by name.
SIGNATURES = {
    "activation_layer": "activation",
    "average_pool_layer": "",
    "backward": "dy, saved, layer",
    "batch_norm_layer": "channels, epsilon=1e-05, momentum=0.1, *, xp=None, dtype=None, device=None",
    "batch_norm_layer_from": "gamma, beta, running_mean, running_variance, epsilon=1e-05, momentum=0.1",
    "concat": "layers",
    "conv2d": "x, weights, bias, stride, padding, activation='identity'",
    "conv2d_layer": "weights, bias, stride=1, padding=0",
    "cross_entropy": "logits, target",
    "digest": "layer",
    "elu": "alpha=1.0",
    "evaluate": "x, layer",
    "forward": "x, layer",
    "get_workers": "",
    "gradients": "layer",
    "merge": "layers",
    "mse": "prediction, target",
    "network": "layers",
    "one_hot": "labels, classes, dtype='float32'",
    "parameters": "layer",
    "replace_parameters": "layer, mapping",
    "residual": "inner, shortcut=None",
    "set_workers": "count",
    "sgd_step": "layer, rate",
    "to_device": "layer, *, xp, device=None",
    "workers": "count",
}
FUNCTIONS = [name for name in sx.__all__ if inspect.isfunction(getattr(sx, name))]
CLASSES = [name for name in sx.__all__ if inspect.isclass(getattr(sx, name))]
CANNOT_FAIL = {"average_pool_layer", "get_workers", "info"}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    """Names, order and defaults; an argument named without a default may have one."""
    actual = inspect.signature(getattr(sx, name)).parameters
    expected = inspect.signature(eval(f"lambda {SIGNATURES[name]}: None")).parameters
    assert list(actual) == list(expected)
    for parameter in expected.values():
        assert actual[parameter.name].kind == parameter.kind
        if parameter.default is not inspect.Parameter.empty:
            assert actual[parameter.name].default == parameter.default


def test_all_is_sorted_and_complete():
    assert sx.__all__ == sorted(sx.__all__)
    assert len(set(sx.__all__)) == len(sx.__all__)
    assert set(SIGNATURES) <= set(sx.__all__)
    public = {name for name, value in vars(sx).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public == set(sx.__all__)
    assert set(FUNCTIONS) | set(CLASSES) == set(sx.__all__)


@pytest.mark.parametrize("name", sx.__all__)
def test_annotations(name):
    if name in FUNCTIONS:
        function = getattr(sx, name)
        assert set(function.__annotations__) == {*inspect.signature(function).parameters, "return"}


def sections(name):
    """The numpydoc sections of a docstring: underlined titles and their text."""
    lines = inspect.getdoc(getattr(sx, name)).splitlines()
    starts = [index for index, line in enumerate(lines[1:]) if line and set(line) == {"-"}]
    ends = [*starts[1:], len(lines)]
    assert lines[0].endswith((".", "):", ")."))
    return {lines[start]: lines[start + 2:end] for start, end in zip(starts, ends, strict=True)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstrings(name):
    function, found = getattr(sx, name), sections(name)
    parameters = list(inspect.signature(function).parameters)
    documented = [each.strip() for line in found.get("Parameters", []) if line and not line.startswith(" ")
                  for each in line.split(" : ")[0].split(",")]
    assert sorted(documented) == sorted(parameters)
    assert ("Returns" in found) == (function.__annotations__["return"] not in ("None", "Iterator[None]"))
    assert ("Raises" in found) == (name not in CANNOT_FAIL)
    assert "Examples" in found
    assert list(found) == [title for title in ("Parameters", "Returns", "Raises", "Examples") if title in found]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_examples(name):
    function = getattr(sx, name)
    (test,) = doctest.DocTestFinder(recurse=False).find(function, name, globs={})
    assert test.examples
    assert any(example.want for example in test.examples)
    result = doctest.DocTestRunner().run(test)
    assert (result.failed, result.attempted) == (0, len(test.examples))


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_documented_and_frozen(name):
    cls = getattr(sx, name)
    assert inspect.getdoc(cls)
    kinds, frozen = [cls], []
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        frozen.append(dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen)
        if name == "Layer" and hasattr(kind, "saved_type"):
            frozen.append(kind.saved_type.__dataclass_params__.frozen)
    assert all(frozen)


def test_the_package_is_typed():
    assert importlib.resources.files(sx).joinpath("py.typed").is_file()


def test_import_loads_no_array_library_but_numpy():
    script = """
import sys
import stelliferous_xp
heavy = {"cupy", "torch", "jax", "jaxlib", "array_api_strict", "scipy", "sklearn", "dask", "pytest"} & set(sys.modules)
assert not heavy, heavy
assert not [name for name in ("xp", "np", "os", "annotations") if hasattr(stelliferous_xp, name)]
import numpy
numpy.testing.assert_array_equal(stelliferous_xp.activate(numpy.ones(3), "relu"), 1)
assert not {"cupy", "torch", "jax"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=120,
                          check=False)
    assert (done.returncode, done.stderr) == (0, "")


# Nothing writes to its arguments


def arrays(dtype):
    rng = np.random.default_rng(0)
    shapes = {"x": (3, 2, 4, 5), "y": (3, 4, 4, 5), "weights": (4, 2, 1, 1), "bias": (4,), "per_channel": (2,),
              "pooled": (3, 2, 1, 1), "rows": (3, 2)}
    made = {name: np.abs(rng.standard_normal(shape)).astype(dtype) for name, shape in shapes.items()}
    return made | {"labels": np.asarray([1, 0, 1])}


CALLS = {
    "activate": lambda a: [sx.activate(a["x"], name) for name in ("relu", "elu", "gelu", "silu", "softplus")],
    "activation_gradient": lambda a: [sx.activation_gradient(a["x"], a["x"], name) for name in ("relu", "gelu")],
    "add": lambda a: sx.add(a["x"], a["x"]),
    "average_pool": lambda a: sx.average_pool(a["x"]),
    "average_pool_gradient": lambda a: sx.average_pool_gradient(a["pooled"], (4, 5)),
    "batch_moments": lambda a: sx.batch_moments(a["x"]),
    "batch_norm": lambda a: sx.batch_norm(a["x"], *[a["per_channel"]] * 4),
    "batch_norm_gradient": lambda a: sx.batch_norm_gradient(a["x"], a["x"], *[a["per_channel"]] * 4),
    "batch_norm_layer_from": lambda a: sx.forward(a["rows"], sx.batch_norm_layer_from(*[a["per_channel"]] * 4)),
    "conv2d": lambda a: sx.conv2d(a["x"], a["weights"], a["bias"], activation="elu"),
    "conv2d_bias_gradient": lambda a: sx.conv2d_bias_gradient(a["y"]),
    "conv2d_input_gradient": lambda a: sx.conv2d_input_gradient(a["y"], a["weights"], (4, 5)),
    "conv2d_layer": lambda a: sx.conv2d_layer(a["weights"], a["bias"]),
    "conv2d_weight_gradient": lambda a: sx.conv2d_weight_gradient(a["y"], a["x"], 1),
    "cross_entropy": lambda a: sx.cross_entropy(a["rows"], a["rows"]),
    "mse": lambda a: sx.mse(a["x"], a["x"]),
    "one_hot": lambda a: sx.one_hot(a["labels"], 2),
}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_operations_leave_their_arguments_alone(name, dtype, read_only):
    given = arrays(dtype)
    for array in given.values():
        array.flags.writeable = not read_only
    before = {key: array.copy() for key, array in given.items()}
    first = CALLS[name](given)
    for key, array in given.items():
        assert array.tobytes() == before[key].tobytes()
    assert repr(CALLS[name](given)) == repr(first)


def test_training_leaves_arrays_layers_and_states_alone(dtype):
    a = arrays(dtype)
    net = sx.network([sx.conv2d_layer(a["weights"], a["bias"]), sx.batch_norm_layer(4, dtype=dtype),
                      sx.concat([sx.activation_layer("elu"), sx.activation_layer("gelu")]), sx.average_pool_layer()])
    x, dy, state = a["x"], np.ones((3, 8, 1, 1), dtype), sx.adam()
    before = sx.digest(net), x.tobytes(), dy.tobytes()
    y, saved, moved = sx.forward(x, net)
    kept = y.tobytes(), sx.digest(moved)
    _, held = sx.backward(dy, saved, moved)
    gradients = {name: gradient.tobytes() for name, gradient in sx.gradients(held).items()}
    clipped, _ = sx.clip_gradients(held, 1e-3)
    state, stepped = sx.optimizer_step(state, clipped)
    sx.sgd_step(held, 0.1)
    sx.replace_parameters(held, sx.parameters(stepped))
    sx.evaluate(x, stepped)
    assert (sx.digest(net), x.tobytes(), dy.tobytes()) == before
    assert (y.tobytes(), sx.digest(moved), sx.digest(held)) == (*kept, kept[1])
    assert {name: gradient.tobytes() for name, gradient in sx.gradients(held).items()} == gradients
    assert sx.digest(stepped) != sx.digest(held)


def test_layers_do_not_follow_the_arrays_they_were_made_of(dtype):
    a = arrays(dtype)
    layers = sx.network([sx.conv2d_layer(a["weights"], a["bias"])]), sx.batch_norm_layer_from(*[a["per_channel"]] * 4)
    before = [sx.digest(layer) for layer in layers]
    for name in ("weights", "bias", "per_channel"):
        a[name][...] = 9
    assert [sx.digest(layer) for layer in layers] == before
