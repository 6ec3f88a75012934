"""The optimiser kernels against the oracle, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from .oracle import optimizers
from .support import SPECIALS, check, floats

RULES = {
    "sgd": (0, [(0.1,), (0.0,), (1e-3,)]),
    "momentum": (1, [(0.1, 0.9), (0.05, 0.0), (0.3, 1.0)]),
    "nesterov": (1, [(0.1, 0.9), (0.05, 0.0)]),
    "grenade_momentum": (1, [(0.1, 0.9, 0.01), (0.05, 0.95, 0.0)]),
    "adam": (
        2,
        [
            (1, 0.1, 0.9, 0.999, 1e-8),
            (2, 1e-3, 0.9, 0.999, 1e-8),
            (1000, 1e-3, 0.5, 0.99, 1e-3),
            (3, 0.1, 0.0, 0.0, 1e-8),
        ],
    ),
    "adamw": (2, [(1, 0.1, 0.9, 0.999, 1e-8, 0.01), (77, 1e-3, 0.9, 0.95, 1e-8, 0.1)]),
}
CASES = [(rule, settings) for rule, (_, all_settings) in RULES.items() for settings in all_settings]


def check_rule(rule, settings, arrays, **options):
    check(getattr(optimizers, rule)(*arrays, *settings), "optimizers", rule, *arrays, *settings, **options)


def draw(rule, n, rare=0.0, seed=0):
    rng = np.random.default_rng(seed)
    w, g, m, v = (floats(rng, n, rare=rare) for _ in range(4))
    return [w, g, m, np.abs(v)][: 2 + RULES[rule][0]]


@pytest.mark.parametrize(("rule", "settings"), CASES)
@pytest.mark.parametrize("n", [0, 1, 5, 16, 31, 33, 100])
def test_every_length(rule, settings, n):
    check_rule(rule, settings, draw(rule, n, seed=n), workers=(1, 2))


@pytest.mark.parametrize("rule", RULES)
def test_every_worker(rule):
    check_rule(rule, RULES[rule][1][0], draw(rule, 400_003, 0.01))


@pytest.mark.parametrize(("rule", "settings"), CASES)
def test_special_values_meet(rule, settings):
    grid = [a.ravel() for a in np.meshgrid(*[SPECIALS] * (2 + RULES[rule][0]))]
    check_rule(rule, settings, grid, workers=(1,))


@pytest.mark.parametrize("rule", ["adam", "adamw"])
def test_a_gradient_near_epsilon_is_not_shrunk(rule):
    w, m, v = (np.zeros(1, np.float32) for _ in range(3))
    g = np.full(1, 1e-8, np.float32)
    decay = (0.0,) if rule == "adamw" else ()
    for t, expected in enumerate([-0.05, -0.1, -0.15], 1):
        check_rule(rule, (t, 0.1, 0.9, 0.999, 1e-8, *decay), [w, g, m, v], workers=(1,))
        w, m, v = optimizers.adam(w, g, m, v, t, 0.1, 0.9, 0.999, 1e-8)
        np.testing.assert_allclose(w, expected, rtol=1e-5)


UNIT = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 10**6), st.floats(0, 10), UNIT, UNIT, st.floats(1e-12, 1), UNIT)
def test_any_settings(t, rate, beta1, beta2, epsilon, decay):
    check_rule("sgd", (rate,), draw("sgd", 20), workers=(1,))
    check_rule("momentum", (rate, beta1), draw("momentum", 20), workers=(1,))
    check_rule("nesterov", (rate, beta1), draw("nesterov", 20), workers=(1,))
    check_rule("grenade_momentum", (rate, beta1, decay), draw("grenade_momentum", 20), workers=(1,))
    check_rule("adamw", (t, rate, beta1, beta2, epsilon, decay), draw("adamw", 20), workers=(1,))
