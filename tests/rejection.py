"""Calls that must fail, and change nothing."""

import array_api_compat
import pytest
from backends import to_numpy

import stelliferous_xp as sx


def assert_rejected(error, match, function, *arguments, **options):
    """Check that the call raises exactly `error` with a matching message, and leaves all arguments as they were."""
    before = [_state(argument) for argument in (*arguments, *options.values())]
    with pytest.raises(error, match=match) as caught:
        function(*arguments, **options)
    assert caught.type is error
    assert [_state(argument) for argument in (*arguments, *options.values())] == before


def _state(argument):
    if isinstance(argument, sx.Layer):
        return sx.digest(argument), [(name, _state(array)) for name, array in sx.gradients(argument).items()]
    if hasattr(argument, "__dataclass_fields__"):
        return [_state(getattr(argument, name)) for name in argument.__dataclass_fields__]
    if array_api_compat.is_array_api_obj(argument):
        host = to_numpy(argument)
        return host.shape, host.dtype, host.tobytes()
    if isinstance(argument, list | tuple):
        return [_state(item) for item in argument]
    return repr(argument)
