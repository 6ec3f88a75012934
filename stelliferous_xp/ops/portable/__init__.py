"""The operations in the array API alone, for any array library: the definition of what they compute."""

from stelliferous_xp.ops.portable.activation import activate, activation_gradient
from stelliferous_xp.ops.portable.arithmetic import add
from stelliferous_xp.ops.portable.batch_norm import batch_moments, batch_norm, batch_norm_gradient
from stelliferous_xp.ops.portable.convolution import (
    conv2d,
    conv2d_bias_gradient,
    conv2d_input_gradient,
    conv2d_weight_gradient,
)
from stelliferous_xp.ops.portable.losses import cross_entropy, mse
from stelliferous_xp.ops.portable.pooling import average_pool, average_pool_gradient
from stelliferous_xp.ops.portable.updates import adamw, grenade_sgd, momentum_sgd, sgd

__all__ = [
    "activate",
    "activation_gradient",
    "adamw",
    "add",
    "average_pool",
    "average_pool_gradient",
    "batch_moments",
    "batch_norm",
    "batch_norm_gradient",
    "conv2d",
    "conv2d_bias_gradient",
    "conv2d_input_gradient",
    "conv2d_weight_gradient",
    "cross_entropy",
    "grenade_sgd",
    "momentum_sgd",
    "mse",
    "sgd",
]
