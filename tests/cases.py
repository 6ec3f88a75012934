"""Which cases run on which library."""

import pytest
from backends import BACKENDS


def each_backend_with(name, cases, jax):
    """Parametrise `backend` and `name` over all pairs; JAX, which compiles every new shape, gets the cases `jax`."""
    pairs = {f"{backend}-{key}": (backend, case) for backend in BACKENDS for key, case in cases.items()
             if backend != "jax" or key in jax}
    return pytest.mark.parametrize(("backend", name), pairs.values(), ids=pairs, indirect=["backend"])
