"""Checks of arguments. Each raises one error that names the argument, what was expected and what came."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from stelliferous_xp.arrays import Array


def check_rank(name: str, array: Array, *forms: str) -> None:
    """Check that `array` has the rank of one of `forms`, such as "(N, C, H, W)"."""
    ranks = [len(form.strip("(,)").split(",")) for form in forms]
    if array.ndim not in ranks:
        raise ValueError(f"`{name}` must have shape {' or '.join(forms)}; got {tuple(array.shape)}")


def check_shape(name: str, array: Array, shape: Sequence[int], match: str = "") -> None:
    """Check that `array` has exactly `shape`; `match` tells where that shape comes from."""
    if tuple(array.shape) != tuple(shape):
        because = f" to match {match}" if match else ""
        raise ValueError(f"`{name}` must have shape {tuple(shape)}{because}; got {tuple(array.shape)}")


def check_integer(name: str, value: object, minimum: int) -> int:
    """Check that `value` is a whole number of an integer type, at least `minimum`; return it as an int."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"`{name}` must be an integer; got {value!r}") from None
    if number < minimum:
        raise ValueError(f"`{name}` must be at least {minimum}; got {number}")
    return number


def check_pair(name: str, value: int | Sequence[int], minimum: int) -> tuple[int, int]:
    """Check an option given for both axes at once or as (vertical, horizontal); return the pair."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != 2:
            raise ValueError(f"`{name}` must be an integer or a pair of integers; got {value!r}")
        return check_integer(name, value[0], minimum), check_integer(name, value[1], minimum)
    number = check_integer(name, value, minimum)
    return number, number


def check_number(name: str, value: float, minimum: float = -math.inf, maximum: float = math.inf) -> float:
    """Check that `value` is a finite real number in [minimum, maximum]; return it as a float."""
    try:
        if isinstance(value, str | bool):
            raise TypeError
        number = float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be a number; got {value!r}") from None
    if not (math.isfinite(number) and minimum <= number <= maximum):
        raise ValueError(f"`{name}` must be a finite number{_range(minimum, maximum)}; got {number}")
    return number


def _range(minimum: float, maximum: float) -> str:
    if math.isfinite(maximum):
        return f" from {minimum:g} to {maximum:g}"
    return f", at least {minimum:g}" if math.isfinite(minimum) else ""
