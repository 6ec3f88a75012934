"""The array libraries that the suite runs over, and comparisons that check more than values."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np
import pytest

BACKENDS = ("numpy", "numpy:readonly", "array_api_strict", "array_api_strict:device1", "torch", "jax", "cupy")
REQUIRED = os.environ.get("STELLIFEROUS_XP_REQUIRE", "").split()


@dataclass(frozen=True)
class Backend:
    """One array library on one device: makes its arrays, and checks that results are of it."""

    name: str
    module: Any
    device: Any = None
    writeable: bool = True

    @property
    def xp(self):
        return array_api_compat.array_namespace(self.module.empty(0))

    def asarray(self, values, dtype="float32"):
        """A fresh array of the library; `values` are anything NumPy takes."""
        host = np.array(values, dtype=dtype)
        if self.module is np:
            host.flags.writeable = self.writeable
            return host
        return self.xp.asarray(host, device=self.device)

    def check(self, array, dtype="float32"):
        """Check that `array` belongs to the library, its device and `dtype`; return its values in NumPy."""
        assert array_api_compat.array_namespace(array) is self.xp
        if self.module is np:
            assert type(array) is np.ndarray
        assert array.dtype == getattr(self.xp, dtype)
        assert array_api_compat.device(array) == array_api_compat.device(self.asarray([0], dtype))
        return to_numpy(array)

    def assert_close(self, actual, expected, dtype="float32", rtol=None, atol=0.0):
        """Two-sided comparison with float64 values, on shape, dtype, namespace and device as well."""
        rtol = {"float32": 1e-5, "float64": 1e-12}[dtype] if rtol is None else rtol
        host = self.check(actual, dtype)
        expected = np.asarray(expected, dtype="float64")
        assert host.shape == expected.shape
        np.testing.assert_allclose(host.astype("float64"), expected, rtol=rtol, atol=atol)


def to_numpy(array):
    """The values of any library's array, in NumPy."""
    if array_api_compat.is_torch_array(array):
        return array.detach().cpu().numpy()
    if array_api_compat.is_cupy_array(array):
        return array.get()
    if array_api_compat.is_array_api_strict_namespace(array_api_compat.array_namespace(array)):
        import array_api_strict

        return np.asarray(array.to_device(array_api_strict.Device("CPU_DEVICE")))
    return np.asarray(array)


def assert_same_bits(left, right):
    """The same shape, dtype and bytes."""
    left, right = to_numpy(left), to_numpy(right)
    assert (left.shape, left.dtype) == (right.shape, right.dtype)
    assert left.tobytes() == right.tobytes()


def load(name):
    """The backend of a name in BACKENDS; skips with a reason where it is absent and not required."""
    library, _, option = name.partition(":")
    try:
        module = importlib.import_module({"jax": "jax.numpy"}.get(library, library))
    except ImportError:
        return _absent(library, f"{library} is not installed")
    if library == "jax":
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    if library == "cupy" and not module.cuda.is_available():
        return _absent(library, "no GPU that CuPy can use")
    device = module.Device(option) if library == "array_api_strict" and option else None
    return Backend(name, module, device, writeable=option != "readonly")


def _absent(library, reason):
    if library in REQUIRED:
        pytest.fail(f"{reason}, but STELLIFEROUS_XP_REQUIRE asks for {library}")
    pytest.skip(f"{reason} (STELLIFEROUS_XP_REQUIRE={library} makes this a failure)")
