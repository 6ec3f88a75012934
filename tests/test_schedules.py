"""Learning rates as functions of the step."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stelliferous_xp as sx

repeatable = settings(derandomize=True, deadline=None)
rates = st.floats(0, 1e6)
counts = st.integers(1, 10**6)


@repeatable
@given(rates, st.integers(0, 10**9))
def test_constant(rate, step):
    assert sx.constant_schedule(rate)(step) == rate


@repeatable
@given(rates, st.integers(1, 50), st.floats(0, 2), st.integers(0, 300))
def test_step(rate, steps, factor, step):
    expected = rate
    for _ in range(steps, step + 1, steps):
        expected *= factor
    assert sx.step_schedule(rate, steps, factor)(step) == pytest.approx(expected, rel=1e-12)


def test_step_changes_right_after_every_so_many_steps():
    schedule = sx.step_schedule(2.0, steps=3)
    np.testing.assert_allclose([schedule(step) for step in range(7)], [2, 2, 2, 0.2, 0.2, 0.2, 0.02], rtol=1e-12)


@repeatable
@given(rates, counts, rates)
def test_cosine_at_its_ends(rate, steps, final):
    schedule = sx.cosine_schedule(rate, steps, final)
    close = {"rel": 1e-12, "abs": 1e-9}
    assert schedule(0) == pytest.approx(rate, **close)
    assert schedule(steps) == pytest.approx(final, **close)
    assert schedule(steps + 1) == schedule(10 * steps) == schedule(steps)
    if steps % 2 == 0:
        assert schedule(steps // 2) == pytest.approx((rate + final) / 2, **close)
    values = [schedule(step) for step in range(0, steps + 1, max(1, steps // 20))]
    assert values == sorted(values, reverse=rate >= final)


def test_cosine_in_between():
    schedule = sx.cosine_schedule(1.0, 6, final=0.1)
    np.testing.assert_allclose([schedule(step) for step in range(7)],
                               [0.1 + 0.45 * (1 + math.cos(math.pi * step / 6)) for step in range(7)], rtol=1e-12)


@repeatable
@given(st.integers(1, 1000), st.integers(0, 2000))
def test_warm_up(steps, step):
    schedule = sx.warm_up(lambda step: 3.0 + step, steps)
    share = (step + 1) / steps if step + 1 < steps else 1.0
    assert schedule(step) == pytest.approx((3.0 + step) * share, rel=1e-12)


def test_schedules_are_rates_of_optimizers():
    schedule = sx.warm_up(sx.step_schedule(1.0, steps=2, factor=0.5), steps=2)
    layer, state, seen = sx.conv2d_layer(np.zeros((1, 1, 1, 1))), sx.grenade_sgd(schedule), []
    for _ in range(4):
        before = layer.weights
        state, layer = sx.optimizer_step(state, layer.with_gradients({"weights": np.ones((1, 1, 1, 1))}))
        seen.append((before - layer.weights).item())
    np.testing.assert_allclose(seen, [0.5, 1.0, 0.5, 0.5], rtol=1e-12)


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda: sx.constant_schedule(-0.1), ValueError, "`rate` must be a finite number, at least 0; got -0.1"),
    (lambda: sx.constant_schedule(math.nan), ValueError, "`rate`"),
    (lambda: sx.constant_schedule("1"), TypeError, "`rate` must be a number; got '1'"),
    (lambda: sx.step_schedule(-1.0, 5), ValueError, "`rate`"),
    (lambda: sx.step_schedule(1.0, 0), ValueError, "`steps` must be at least 1; got 0"),
    (lambda: sx.step_schedule(1.0, 2.0), TypeError, "`steps` must be an integer; got 2.0"),
    (lambda: sx.step_schedule(1.0, 2, -0.5), ValueError, "`factor`"),
    (lambda: sx.cosine_schedule(math.inf, 5), ValueError, "`rate`"),
    (lambda: sx.cosine_schedule(1.0, -1), ValueError, "`steps`"),
    (lambda: sx.cosine_schedule(1.0, 5, -1.0), ValueError, "`final`"),
    (lambda: sx.warm_up(0.1, 5), TypeError, "`schedule` must be a function of the step; got 0.1"),
    (lambda: sx.warm_up(sx.constant_schedule(0.1), 0), ValueError, "`steps`"),
])
def test_wrong_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()
