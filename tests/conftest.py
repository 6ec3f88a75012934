import numpy as np
import pytest
from backends import BACKENDS, load


@pytest.fixture(params=BACKENDS)
def backend(request):
    """Each array library in turn."""
    return load(request.param)


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)
