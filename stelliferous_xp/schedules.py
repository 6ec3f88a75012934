"""Learning rates as plain functions of the step, counted from 0."""

from __future__ import annotations

import math
from collections.abc import Callable

from stelliferous_xp.checks import check_integer, check_number

__all__ = ["constant_schedule", "cosine_schedule", "step_schedule", "warm_up"]

Schedule = Callable[[int], float]


def constant_schedule(rate: float) -> Schedule:
    """The same rate at every step.

    Parameters
    ----------
    rate : float
        At least 0.

    Returns
    -------
    function of int to float

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import stelliferous_xp as sx
    >>> sx.constant_schedule(0.1)(7)
    0.1
    """
    rate = check_number("rate", rate, 0.0)
    return lambda step: rate


def step_schedule(rate: float, steps: int, factor: float = 0.1) -> Schedule:
    """The rate, multiplied by `factor` after every `steps` steps: ``rate * factor**(step // steps)``.

    Parameters
    ----------
    rate : float
        At least 0.
    steps : int
        At least 1.
    factor : float
        At least 0.

    Returns
    -------
    function of int to float

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import stelliferous_xp as sx
    >>> schedule = sx.step_schedule(1.0, steps=10, factor=0.5)
    >>> schedule(9), schedule(10), schedule(20)
    (1.0, 0.5, 0.25)
    """
    rate = check_number("rate", rate, 0.0)
    steps = check_integer("steps", steps, 1)
    factor = check_number("factor", factor, 0.0)
    return lambda step: rate * factor ** (step // steps)


def cosine_schedule(rate: float, steps: int, final: float = 0.0) -> Schedule:
    """Half a cosine wave from `rate` at step 0 to `final` at step `steps`, then `final` (Loshchilov and Hutter, 2017).

    Parameters
    ----------
    rate, final : float
        At least 0.
    steps : int
        At least 1.

    Returns
    -------
    function of int to float

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import stelliferous_xp as sx
    >>> schedule = sx.cosine_schedule(1.0, steps=100)
    >>> schedule(0), round(schedule(50), 6), schedule(100)
    (1.0, 0.5, 0.0)
    """
    rate = check_number("rate", rate, 0.0)
    steps = check_integer("steps", steps, 1)
    final = check_number("final", final, 0.0)
    return lambda step: final + (rate - final) * 0.5 * (1.0 + math.cos(math.pi * min(step, steps) / steps))


def warm_up(schedule: Schedule, steps: int) -> Schedule:
    """A schedule that rises linearly over its first steps: times ``(step + 1)/steps`` until it is reached.

    Parameters
    ----------
    schedule : function of int to float
        Any schedule.
    steps : int
        At least 1.

    Returns
    -------
    function of int to float

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import stelliferous_xp as sx
    >>> schedule = sx.warm_up(sx.constant_schedule(1.0), steps=4)
    >>> [schedule(step) for step in range(6)]
    [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    """
    if not callable(schedule):
        raise TypeError(f"`schedule` must be a function of the step; got {schedule!r}")
    steps = check_integer("steps", steps, 1)
    return lambda step: schedule(step) * min(1.0, (step + 1) / steps)
