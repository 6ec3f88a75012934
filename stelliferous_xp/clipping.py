"""Keeping gradients within bounds."""

from __future__ import annotations

from stelliferous_xp.arrays import Array, namespace_of
from stelliferous_xp.checks import check_number
from stelliferous_xp.layers.base import Layer
from stelliferous_xp.layers.tree import gradients, map_leaves

__all__ = ["clip_gradients"]


def clip_gradients(layer: Layer, max_norm: float) -> tuple[Layer, Array]:
    """Scale all gradients of a layer so that their global norm is at most `max_norm` (Pascanu et al., 2013).

    Parameters
    ----------
    layer : Layer
        A layer that holds gradients.
    max_norm : float
        At least 0.

    Returns
    -------
    layer : Layer
        With scaled gradients; with the same values where the norm is within the bound.
    norm : 0-d array
        The Euclidean norm of all gradients before, in their namespace and on their device.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described, or `layer` holds no gradients.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> y, saved, layer = sx.forward(np.full((1, 1, 1, 1), 3.0), sx.conv2d_layer(np.ones((1, 1, 1, 1))))
    >>> dx, layer = sx.backward(y, saved, layer)
    >>> layer, norm = sx.clip_gradients(layer, max_norm=1.0)
    >>> norm, sx.gradients(layer)["weights"]
    (array(9.), array([[[[1.]]]]))
    """
    max_norm = check_number("max_norm", max_norm, 0.0)
    arrays = list(gradients(layer).values())
    if not arrays:
        raise ValueError("`layer` must hold gradients; run backward first")
    xp = namespace_of("gradients", arrays[0])
    largest = xp.max(xp.stack([xp.max(xp.abs(array)) for array in arrays]))
    # Scaled by the largest element, so that the squares neither overflow nor vanish.
    unit = xp.where(largest > 0, largest, xp.ones_like(largest))
    norm = unit * xp.sqrt(xp.sum(xp.stack([xp.sum((array / unit) ** 2) for array in arrays])))
    scale = max_norm / xp.where(norm > max_norm, norm, xp.ones_like(norm))
    scale = xp.where(norm > max_norm, scale, xp.ones_like(norm))

    def clipped(_: str, leaf: Layer) -> Layer:
        if not leaf.parameter_gradients:
            return leaf
        return leaf.with_gradients({name: array * scale for name, array in leaf.parameter_gradients.items()})

    return map_leaves(layer, clipped), xp.asarray(norm)
