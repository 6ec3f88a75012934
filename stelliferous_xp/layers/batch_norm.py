"""Batch normalisation layers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Self

from stelliferous_xp.arrays import Array, Namespace, copied, creation, shared_namespace
from stelliferous_xp.checks import check_integer, check_number, check_rank
from stelliferous_xp.layers.activation import ActivatedLayer, check_saved_activation
from stelliferous_xp.ops.activation_values import IDENTITY, Activation
from stelliferous_xp.ops.batch_norm import batch_moments, batch_norm, batch_norm_gradient, check_per_channel

__all__ = ["BatchNormLayer", "BatchNormSaved", "batch_norm_layer", "batch_norm_layer_from"]


@dataclass(frozen=True)
class BatchNormSaved:
    """What batch norm saves: its input, that batch's moments, and the activation that it ran together with."""

    x: Array
    mean: Array
    variance: Array
    activation: Activation = IDENTITY


@dataclass(frozen=True, eq=False)
class BatchNormLayer(ActivatedLayer):
    """Batch normalisation; made by `batch_norm_layer` or `batch_norm_layer_from`."""

    kind: ClassVar[str] = "batch_norm"
    saved_type: ClassVar[type] = BatchNormSaved
    parameter_names: ClassVar[tuple[str, ...]] = ("gamma", "beta")
    statistic_names: ClassVar[tuple[str, ...]] = ("running_mean", "running_variance")

    gamma: Array
    beta: Array
    running_mean: Array
    running_variance: Array
    epsilon: float
    momentum: float

    def takes(self, activation: Activation) -> bool:
        return True

    def forward(self, x: Array, activation: Activation = IDENTITY) -> tuple[Array, BatchNormSaved, Self]:
        self._check_input(x)
        if x.shape[0] == 0:
            saved = BatchNormSaved(x, self.running_mean, self.running_variance, activation)
            return self.evaluate(x, activation), saved, self
        count = prod(x.shape) // self.gamma.shape[0]
        if count == 1:
            raise ValueError("`x` must have at least 2 values a channel for batch norm to train on; "
                             f"got shape {tuple(x.shape)}")
        mean, variance = batch_moments(x)
        y = batch_norm(x, mean, variance, self.gamma, self.beta, self.epsilon, activation)
        keep = 1.0 - self.momentum
        unbiased = variance * (count / (count - 1))
        layer = dataclasses.replace(
            self,
            running_mean=self.running_mean * keep + mean * self.momentum,
            running_variance=self.running_variance * keep + unbiased * self.momentum,
        )
        return y, BatchNormSaved(x, mean, variance, activation), layer

    def backward(self, dy: Array, saved: BatchNormSaved, activation: Activation = IDENTITY) -> tuple[Array, Self]:
        if saved.mean.shape != self.gamma.shape:
            raise ValueError(f"`saved` must come from this layer, with {self.gamma.shape[0]} channels; "
                             f"got one with {saved.mean.shape[0]}")
        check_saved_activation(saved.activation, activation)
        dx, dgamma, dbeta = batch_norm_gradient(dy, saved.x, saved.mean, saved.variance, self.gamma,
                                                 self.beta, self.epsilon, activation)
        return dx, self.with_gradients({"gamma": dgamma, "beta": dbeta})

    def evaluate(self, x: Array, activation: Activation = IDENTITY) -> Array:
        self._check_input(x)
        return batch_norm(x, self.running_mean, self.running_variance, self.gamma, self.beta, self.epsilon, activation)

    def _check_input(self, x: Array) -> None:
        shared_namespace(x=x, gamma=self.gamma)
        check_rank("x", x, "(N, C, H, W)", "(N, C)")
        if x.shape[1] != self.gamma.shape[0] or 0 in x.shape[2:]:
            plane = ", H, W" if x.ndim == 4 else ""
            raise ValueError(f"`x` must have shape (N, {self.gamma.shape[0]}{plane}); got {tuple(x.shape)}")

    @property
    def input_channels(self) -> int:
        return int(self.gamma.shape[0])


def batch_norm_layer(channels: int, epsilon: float = 1e-5, momentum: float = 0.1, *, xp: Namespace | None = None,
                     dtype: Any = None, device: Any = None) -> BatchNormLayer:
    """A fresh batch normalisation layer: gamma 1, beta 0, running mean 0, running variance 1.

    Training normalises with the moments of the batch and moves the running statistics; `evaluate`
    normalises with these. The running variance takes the unbiased M/(M - 1) form, M the values a channel.

    Parameters
    ----------
    channels : int
        At least 1.
    epsilon : float
        Added to the variance, at least 0.
    momentum : float
        The weight of the new value in the running statistics, from 0 to 1.
    xp : module, optional
        The array library of the parameters; NumPy by default.
    dtype : str or dtype, optional
        "float32" or "float64", or the dtype of that name in `xp`; float32 by default.
    device : optional
        The library's device; its default if None.

    Returns
    -------
    BatchNormLayer

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> layer = sx.batch_norm_layer(1, dtype="float64")
    >>> y, saved, layer = sx.forward(np.asarray([[1.0], [3.0]]), layer)
    >>> layer.running_mean, layer.running_variance
    (array([0.2]), array([1.1]))
    """
    channels = check_integer("channels", channels, 1)
    xp, dtype = creation(xp, dtype)
    ones = xp.ones(channels, dtype=dtype, device=device)
    zeros = xp.zeros(channels, dtype=dtype, device=device)
    return batch_norm_layer_from(ones, zeros, zeros, ones, epsilon, momentum)


def batch_norm_layer_from(gamma: Array, beta: Array, running_mean: Array, running_variance: Array,
                          epsilon: float = 1e-5, momentum: float = 0.1) -> BatchNormLayer:
    """A batch normalisation layer with given parameters and running statistics.

    Parameters
    ----------
    gamma, beta, running_mean, running_variance : arrays of shape (C,)
        float32 or float64.
    epsilon, momentum : float
        As in `batch_norm_layer`.

    Returns
    -------
    BatchNormLayer
        Holding copies of the arrays.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> one, zero = np.ones(1), np.zeros(1)
    >>> layer = sx.batch_norm_layer_from(one, zero, running_mean=2*one, running_variance=4*one, epsilon=0.0)
    >>> sx.evaluate(np.asarray([[4.0]]), layer)
    array([[1.]])
    """
    arrays = {"gamma": gamma, "beta": beta, "running_mean": running_mean, "running_variance": running_variance}
    shared_namespace(**arrays)
    check_rank("gamma", gamma, "(C,)")
    check_integer("channels", gamma.shape[0], 1)
    check_per_channel(gamma.shape[0], **arrays)
    epsilon = check_number("epsilon", epsilon, 0.0)
    momentum = check_number("momentum", momentum, 0.0, 1.0)
    return BatchNormLayer(copied(gamma), copied(beta), copied(running_mean), copied(running_variance),
                          epsilon, momentum)
