"""What a layer holds, seen as a tree: the arrays of all layers in it, by dotted name, in a fixed order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from stelliferous_xp.arrays import Array, Like, Namespace, creation, move, to_numpy
from stelliferous_xp.layers.base import Layer, check_layer

__all__ = ["digest", "gradients", "parameters", "replace_parameters", "to_device"]


def leaves(layer: Layer, prefix: str = "") -> Iterator[tuple[str, Layer]]:
    """The layers that are not made of others, each with the prefix of its names, such as "0.1."."""
    children = getattr(layer, "layers", None)
    if children is None:
        yield prefix, layer
    else:
        for index, child in enumerate(children):
            yield from leaves(child, f"{prefix}{index}.")


def map_leaves(layer: Layer, function: Callable[[str, Layer], Layer], prefix: str = "") -> Layer:
    """The layer with `function(prefix, leaf)` in the place of each leaf; itself if none changes."""
    children = getattr(layer, "layers", None)
    if children is None:
        return function(prefix, layer)
    new = tuple(map_leaves(child, function, f"{prefix}{index}.") for index, child in enumerate(children))
    if all(after is before for after, before in zip(new, children, strict=True)):
        return layer
    return dataclasses.replace(layer, layers=new)  # type: ignore[call-arg]


def parameters(layer: Layer) -> dict[str, Array]:
    """The parameters of a layer and of all layers in it.

    Parameters
    ----------
    layer : Layer

    Returns
    -------
    dict of str to array
        By dotted name, such as "2.0.weights", in the order of the layers and of their fields. The arrays are
        the layer's own, not copies.

    Raises
    ------
    TypeError
        If `layer` is not a layer.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> layer = sx.conv2d_layer(np.ones((4, 1, 3, 3)), np.zeros(4))
    >>> list(sx.parameters(sx.network([layer, sx.batch_norm_layer(4)])))
    ['0.weights', '0.bias', '1.gamma', '1.beta']
    """
    return _named(layer, lambda leaf: leaf.own_parameters)


def gradients(layer: Layer) -> dict[str, Array]:
    """The parameter gradients of a layer and of all layers in it.

    Parameters
    ----------
    layer : Layer

    Returns
    -------
    dict of str to array
        Named and ordered as `parameters`; layers that hold no gradients are left out.

    Raises
    ------
    TypeError
        If `layer` is not a layer.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> y, saved, layer = sx.forward(np.ones((1, 1, 1, 1)), sx.conv2d_layer(np.ones((1, 1, 1, 1)), np.zeros(1)))
    >>> dx, layer = sx.backward(y, saved, layer)
    >>> sx.gradients(layer)
    {'weights': array([[[[1.]]]]), 'bias': array([1.])}
    """
    return _named(layer, lambda leaf: leaf.parameter_gradients)


def replace_parameters(layer: Layer, mapping: Mapping[str, Array]) -> Layer:
    """The layer with other parameters, and without gradients. Running statistics stay.

    Parameters
    ----------
    layer : Layer
    mapping : mapping of str to array
        An array for every name in `parameters(layer)`, of the same shape, dtype, namespace and device. To
        replace a few only: ``parameters(layer) | {"0.bias": bias}``.

    Returns
    -------
    Layer
        Holding the given arrays, not copies.

    Raises
    ------
    KeyError
        If a name is missing, or unknown.
    TypeError, ValueError
        If an array does not look like the one it replaces.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> layer = sx.conv2d_layer(np.ones((1, 1, 1, 1)))
    >>> sx.replace_parameters(layer, {"weights": np.full((1, 1, 1, 1), 2.0)}).weights
    array([[[[2.]]]])
    """
    current = parameters(layer)
    for names, what in ((current.keys() - mapping.keys(), "missing"), (mapping.keys() - current.keys(), "unknown")):
        if names:
            raise KeyError(f"`mapping` must have exactly the names of parameters(layer); {what}: "
                           f"{', '.join(sorted(names))}")
    for name, array in current.items():
        Like.of(array).check(name, mapping[name], "layer")

    def replaced(prefix: str, leaf: Layer) -> Layer:
        own = {name: mapping[prefix + name] for name in leaf.own_parameters}
        return dataclasses.replace(leaf, **own).with_gradients({}) if own else leaf

    return map_leaves(layer, replaced)


def digest(layer: Layer) -> str:
    """A fingerprint of a layer: equal for equal bits in all parameters and running statistics.

    SHA-256 over the name, shape, dtype and little-endian bytes of each array, in order. It does not depend
    on the array library, the device or the byte order of the machine.

    Parameters
    ----------
    layer : Layer

    Returns
    -------
    str
        64 hexadecimal digits.

    Raises
    ------
    TypeError
        If `layer` is not a layer.

    Examples
    --------
    >>> import stelliferous_xp as sx
    >>> sx.digest(sx.batch_norm_layer(2)) == sx.digest(sx.batch_norm_layer(2))
    True
    """
    # Imported here, as it takes a twentieth of this package's import time.
    import hashlib

    sha = hashlib.sha256()
    for name, array in _named(layer, lambda leaf: leaf.own_parameters | leaf.own_statistics).items():
        host = to_numpy(array)
        sha.update(f"{name} {host.dtype.name} {host.shape}\n".encode())
        sha.update(host.astype(host.dtype.newbyteorder("<")).tobytes())
    return sha.hexdigest()


def to_device(layer: Layer, *, xp: Namespace, device: object = None) -> Layer:
    """The layer with all its arrays, gradients included, copied bit for bit to another library or device.

    Parameters
    ----------
    layer : Layer
    xp : module
        The array library, such as `numpy` or `cupy`.
    device : optional
        One of the library's devices; its default if None.

    Returns
    -------
    Layer

    Raises
    ------
    TypeError
        If `layer` is not a layer, or `xp` not an array library.

    Examples
    --------
    >>> import array_api_strict
    >>> import stelliferous_xp as sx
    >>> type(sx.to_device(sx.batch_norm_layer(2), xp=array_api_strict).gamma)
    <class 'array_api_strict._array_object.Array'>
    """
    check_layer("layer", layer)
    xp, _ = creation(xp, "float32")

    def moved(_: str, leaf: Layer) -> Layer:
        arrays = leaf.own_parameters | leaf.own_statistics
        if not arrays:
            return leaf
        leaf = dataclasses.replace(leaf, **{name: move(array, xp, device) for name, array in arrays.items()})
        return leaf.with_gradients({name: move(array, xp, device) for name, array in leaf.parameter_gradients.items()})

    return map_leaves(layer, moved)


def _named(layer: Layer, arrays_of: Callable[[Layer], Mapping[str, Array]]) -> dict[str, Array]:
    return {prefix + name: array for prefix, leaf in leaves(check_layer("layer", layer))
            for name, array in arrays_of(leaf).items()}
