"""Losses over rows, each with its gradient."""

from __future__ import annotations

from math import prod

from stelliferous_xp.arrays import Array, array_namespace, device
from stelliferous_xp.ops.portable.blocks import map_rows, reduce_rows


def mse(prediction: Array, target: Array) -> tuple[Array, Array]:
    xp = array_namespace(prediction)
    count = prod(prediction.shape)

    def squares(prediction: Array, target: Array) -> Array:
        difference = prediction - target
        return xp.sum(difference * difference)

    def gradient(prediction: Array, target: Array) -> Array:
        return (prediction - target) * (2.0 / count)

    total = reduce_rows(squares, lambda left, right: left + right, prediction, target)
    return xp.asarray(total / count), map_rows(gradient, prediction, target, shape=prediction.shape)


def cross_entropy(logits: Array, target: Array) -> tuple[Array, Array]:
    xp = array_namespace(logits)
    count = logits.shape[0]

    def loss(logits: Array, target: Array) -> Array:
        below = logits - xp.max(logits, axis=1, keepdims=True)
        log_sum = xp.log(xp.sum(xp.exp(below), axis=1, keepdims=True))
        # A class of probability 0 counts nothing, even where its logit is -inf.
        cost = xp.where(target == 0, xp.asarray(0.0, dtype=below.dtype, device=device(below)), log_sum - below)
        return xp.sum(target * cost)

    def gradient(logits: Array, target: Array) -> Array:
        e = xp.exp(logits - xp.max(logits, axis=1, keepdims=True))
        weight = xp.sum(target, axis=1, keepdims=True)
        return (e / xp.sum(e, axis=1, keepdims=True) * weight - target) / count

    total = reduce_rows(loss, lambda left, right: left + right, logits, target)
    return xp.asarray(total / count), map_rows(gradient, logits, target, shape=logits.shape)
