"""Optimisers: an optimiser state is a value, and a step a pure function from (state, layer) to new ones."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from stelliferous_xp.arrays import Array, Like, namespace_of
from stelliferous_xp.checks import check_number
from stelliferous_xp.layers.base import Layer, check_layer
from stelliferous_xp.layers.tree import gradients, map_leaves, parameters
from stelliferous_xp.ops.rooms import room_of
from stelliferous_xp.schedules import Schedule

__all__ = ["OptimizerState", "adam", "adamw", "grenade_sgd", "nesterov_sgd", "optimizer_step",
           "pytorch_sgd", "sgd_step"]

Buffers = tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class OptimizerState(ABC):
    """An optimiser: its options, the number of steps taken, and its buffers by parameter name."""

    rate: float | Schedule
    step: int = field(default=0, kw_only=True)
    buffers: Mapping[str, Buffers] = field(default_factory=dict, kw_only=True, repr=False)

    @abstractmethod
    def fresh_buffers(self, parameter: Array) -> Buffers:
        """The buffers before the first step."""

    @abstractmethod
    def updated(self, parameter: Array, gradient: Array, buffers: Buffers, rate: float) -> tuple[Array, Buffers]:
        """The parameter and its buffers after one more step."""


@dataclass(frozen=True, eq=False)
class _GrenadeSgd(OptimizerState):
    momentum: float
    regulariser: float

    def fresh_buffers(self, parameter: Array) -> Buffers:
        return (_zeros(parameter),)

    def updated(self, parameter: Array, gradient: Array, buffers: Buffers, rate: float) -> tuple[Array, Buffers]:
        parameter, velocity = room_of(parameter).grenade_sgd(
            parameter, gradient, buffers[0], rate, self.momentum, self.regulariser)
        return parameter, (velocity,)


@dataclass(frozen=True, eq=False)
class _PytorchSgd(OptimizerState):
    momentum: float
    weight_decay: float
    nesterov: bool

    def fresh_buffers(self, parameter: Array) -> Buffers:
        return (_zeros(parameter),)

    def updated(self, parameter: Array, gradient: Array, buffers: Buffers, rate: float) -> tuple[Array, Buffers]:
        if self.weight_decay:
            gradient = gradient + parameter * self.weight_decay
        parameter, velocity = room_of(parameter).momentum_sgd(
            parameter, gradient, buffers[0], rate, self.momentum, self.nesterov)
        return parameter, (velocity,)


@dataclass(frozen=True, eq=False)
class _AdamW(OptimizerState):
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float

    def fresh_buffers(self, parameter: Array) -> Buffers:
        return _zeros(parameter), _zeros(parameter)

    def updated(self, parameter: Array, gradient: Array, buffers: Buffers, rate: float) -> tuple[Array, Buffers]:
        parameter, *moments = room_of(parameter).adamw(
            parameter, gradient, *buffers, self.step + 1, rate, self.beta1, self.beta2, self.epsilon, self.weight_decay)
        return parameter, tuple(moments)


def _zeros(parameter: Array) -> Array:
    return namespace_of("parameter", parameter).zeros_like(parameter)


def sgd_step(layer: Layer, rate: float) -> Layer:
    """One step of plain gradient descent: each parameter becomes ``parameter - gradient*rate``.

    Parameters
    ----------
    layer : Layer
        A layer that holds gradients; one without comes back unchanged.
    rate : float
        The learning rate.

    Returns
    -------
    Layer
        With new parameters and without gradients.

    Raises
    ------
    TypeError, ValueError
        If `layer` is not a layer, or `rate` not a finite number.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> y, saved, layer = sx.forward(np.ones((1, 1, 1, 1)), sx.conv2d_layer(np.ones((1, 1, 1, 1))))
    >>> dx, layer = sx.backward(y, saved, layer)
    >>> sx.sgd_step(layer, 0.25).weights
    array([[[[0.75]]]])
    """
    rate = check_number("rate", rate)

    def stepped(_: str, leaf: Layer) -> Layer:
        if not leaf.parameter_gradients:
            return leaf
        current = leaf.own_parameters
        new = {name: room_of(gradient).sgd(current[name], gradient, rate)
               for name, gradient in leaf.parameter_gradients.items()}
        return dataclasses.replace(leaf, **new).with_gradients({})

    return map_leaves(check_layer("layer", layer), stepped)


def optimizer_step(state: OptimizerState, layer: Layer) -> tuple[OptimizerState, Layer]:
    """One step of an optimiser.

    Parameters
    ----------
    state : OptimizerState
        As made by `adam` and the like, or returned by an earlier step.
    layer : Layer
        A layer that holds gradients; without any, both come back unchanged.

    Returns
    -------
    state : OptimizerState
        With `step` one higher; it shares no array with the gradients.
    layer : Layer
        With new parameters and without gradients.

    Raises
    ------
    TypeError
        If an argument is of another type, the buffers of `state` are of another namespace or dtype, or its
        schedule gives no number.
    ValueError
        If `state` belongs to another layer: its buffers' names, shapes or devices do not fit; or its schedule
        gives no finite number.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> y, saved, layer = sx.forward(np.ones((1, 1, 1, 1)), sx.conv2d_layer(np.ones((1, 1, 1, 1))))
    >>> dx, layer = sx.backward(y, saved, layer)
    >>> state, layer = sx.optimizer_step(sx.adam(rate=0.1), layer)
    >>> state.step, layer.weights
    (1, array([[[[0.9]]]]))
    """
    if not isinstance(state, OptimizerState):
        raise TypeError(f"`state` must be an optimiser state such as adam(0.001); got {type(state).__name__}")
    check_layer("layer", layer)
    _check_buffers(state, layer)
    if not gradients(layer):
        return state, layer
    rate = state.rate
    if callable(rate):
        rate = check_number(f"rate({state.step})", rate(state.step))
    buffers = dict(state.buffers)

    def stepped(prefix: str, leaf: Layer) -> Layer:
        new = {}
        for name, gradient in leaf.parameter_gradients.items():
            parameter = leaf.own_parameters[name]
            before = buffers.get(prefix + name) or state.fresh_buffers(parameter)
            new[name], buffers[prefix + name] = state.updated(parameter, gradient, before, rate)
        return dataclasses.replace(leaf, **new).with_gradients({}) if new else leaf

    layer = map_leaves(layer, stepped)
    return dataclasses.replace(state, step=state.step + 1, buffers=buffers), layer


def _check_buffers(state: OptimizerState, layer: Layer) -> None:
    current = parameters(layer)
    for name, buffers in state.buffers.items():
        if name not in current:
            raise ValueError(f"`state` must belong to `layer`; it has buffers for {name!r}, which the layer has not")
        for buffer in buffers:
            Like.of(current[name]).check(f"state.buffers[{name!r}]", buffer, "layer")


def grenade_sgd(rate: float | Schedule, momentum: float = 0.0, regulariser: float = 0.0) -> OptimizerState:
    """Grenade's rule: momentum over the updates, and a shrink of the weights apart from it.

    ``v = momentum*v - rate*gradient``, ``w = w + v - rate*regulariser*w``.

    Parameters
    ----------
    rate : float or function of the step to float
        The learning rate.
    momentum, regulariser : float
        At least 0.

    Returns
    -------
    OptimizerState

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import stelliferous_xp as sx
    >>> sx.grenade_sgd(0.01, momentum=0.9, regulariser=0.0005).momentum
    0.9
    """
    return _GrenadeSgd(_rate(rate), check_number("momentum", momentum, 0.0),
                       check_number("regulariser", regulariser, 0.0))


def pytorch_sgd(rate: float | Schedule, momentum: float = 0.9, weight_decay: float = 0.0) -> OptimizerState:
    """PyTorch's rule: momentum over the gradients, the decay inside it.

    ``g = gradient + weight_decay*w``, ``v = momentum*v + g``, ``w = w - rate*v``.

    Parameters
    ----------
    rate : float or function of the step to float
        The learning rate.
    momentum, weight_decay : float
        At least 0.

    Returns
    -------
    OptimizerState

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import stelliferous_xp as sx
    >>> sx.pytorch_sgd(0.1).step
    0
    """
    return _PytorchSgd(_rate(rate), check_number("momentum", momentum, 0.0),
                       check_number("weight_decay", weight_decay, 0.0), nesterov=False)


def nesterov_sgd(rate: float | Schedule, momentum: float = 0.9, weight_decay: float = 0.0) -> OptimizerState:
    """Nesterov's momentum in PyTorch's form.

    ``g = gradient + weight_decay*w``, ``v = momentum*v + g``, ``w = w - rate*(g + momentum*v)``.

    Parameters
    ----------
    rate : float or function of the step to float
        The learning rate.
    momentum, weight_decay : float
        At least 0.

    Returns
    -------
    OptimizerState

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import stelliferous_xp as sx
    >>> sx.nesterov_sgd(sx.cosine_schedule(0.1, steps=1000)).momentum
    0.9
    """
    return _PytorchSgd(_rate(rate), check_number("momentum", momentum, 0.0),
                       check_number("weight_decay", weight_decay, 0.0), nesterov=True)


def adam(rate: float | Schedule = 0.001, beta1: float = 0.9, beta2: float = 0.999,
         epsilon: float = 1e-8) -> OptimizerState:
    """Adam, algorithm 1 of Kingma and Ba (2015): epsilon is added to the root of the corrected moment.

    Parameters
    ----------
    rate : float or function of the step to float
        The learning rate.
    beta1, beta2 : float
        Decay of the moments, from 0 to below 1.
    epsilon : float
        At least 0.

    Returns
    -------
    OptimizerState

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import stelliferous_xp as sx
    >>> sx.adam().rate
    0.001
    """
    return adamw(rate, beta1, beta2, epsilon, weight_decay=0.0)


def adamw(rate: float | Schedule = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
          weight_decay: float = 0.01) -> OptimizerState:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019): w shrinks by rate*weight_decay*w first.

    Parameters
    ----------
    rate : float or function of the step to float
        The learning rate.
    beta1, beta2 : float
        Decay of the moments, from 0 to below 1.
    epsilon, weight_decay : float
        At least 0.

    Returns
    -------
    OptimizerState

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import stelliferous_xp as sx
    >>> sx.adamw(rate=0.01).weight_decay
    0.01
    """
    below_1 = 1.0 - 2.0**-53
    return _AdamW(_rate(rate), check_number("beta1", beta1, 0.0, below_1), check_number("beta2", beta2, 0.0, below_1),
                  check_number("epsilon", epsilon, 0.0), check_number("weight_decay", weight_decay, 0.0))


def _rate(rate: float | Schedule) -> float | Schedule:
    return rate if callable(rate) else check_number("rate", rate)
