"""Neural-network training on NumPy, CuPy or any other arrays, with the same bits for any number of workers."""

from stelliferous_xp.clipping import clip_gradients
from stelliferous_xp.information import Information, info
from stelliferous_xp.initializers import glorot_uniform, he_normal, lecun_normal, uniform
from stelliferous_xp.layers.activation import activation_layer
from stelliferous_xp.layers.base import Layer, backward, evaluate, forward
from stelliferous_xp.layers.batch_norm import batch_norm_layer, batch_norm_layer_from
from stelliferous_xp.layers.branches import concat, merge, residual
from stelliferous_xp.layers.composite import network
from stelliferous_xp.layers.convolution import conv2d_layer
from stelliferous_xp.layers.pooling import average_pool_layer
from stelliferous_xp.layers.tree import digest, gradients, parameters, replace_parameters, to_device
from stelliferous_xp.losses import cross_entropy, mse, one_hot
from stelliferous_xp.ops.activation import activate, activation_gradient
from stelliferous_xp.ops.activation_values import Activation, elu, leaky_relu
from stelliferous_xp.ops.arithmetic import add
from stelliferous_xp.ops.batch_norm import batch_moments, batch_norm, batch_norm_gradient
from stelliferous_xp.ops.convolution import (
    conv2d,
    conv2d_bias_gradient,
    conv2d_input_gradient,
    conv2d_weight_gradient,
)
from stelliferous_xp.ops.pooling import average_pool, average_pool_gradient
from stelliferous_xp.optimizers import (
    OptimizerState,
    adam,
    adamw,
    grenade_sgd,
    nesterov_sgd,
    optimizer_step,
    pytorch_sgd,
    sgd_step,
)
from stelliferous_xp.schedules import constant_schedule, cosine_schedule, step_schedule, warm_up
from stelliferous_xp.version import __version__ as __version__
from stelliferous_xp.workers import get_workers, set_workers, workers

__all__ = [
    "Activation",
    "Information",
    "Layer",
    "OptimizerState",
    "activate",
    "activation_gradient",
    "activation_layer",
    "adam",
    "adamw",
    "add",
    "average_pool",
    "average_pool_gradient",
    "average_pool_layer",
    "backward",
    "batch_moments",
    "batch_norm",
    "batch_norm_gradient",
    "batch_norm_layer",
    "batch_norm_layer_from",
    "clip_gradients",
    "concat",
    "constant_schedule",
    "conv2d",
    "conv2d_bias_gradient",
    "conv2d_input_gradient",
    "conv2d_layer",
    "conv2d_weight_gradient",
    "cosine_schedule",
    "cross_entropy",
    "digest",
    "elu",
    "evaluate",
    "forward",
    "get_workers",
    "glorot_uniform",
    "gradients",
    "grenade_sgd",
    "he_normal",
    "info",
    "leaky_relu",
    "lecun_normal",
    "merge",
    "mse",
    "nesterov_sgd",
    "network",
    "one_hot",
    "optimizer_step",
    "parameters",
    "pytorch_sgd",
    "replace_parameters",
    "residual",
    "set_workers",
    "sgd_step",
    "step_schedule",
    "to_device",
    "uniform",
    "warm_up",
    "workers",
]
