"""Two-dimensional convolution (cross-correlation, as networks use it) and its gradients."""

from __future__ import annotations

from collections.abc import Sequence

from stelliferous_xp.arrays import Array, shared_namespace
from stelliferous_xp.checks import check_pair, check_rank, check_shape
from stelliferous_xp.ops.activation_values import Activation, named_activation
from stelliferous_xp.ops.rooms import room_of

__all__ = ["conv2d", "conv2d_bias_gradient", "conv2d_input_gradient", "conv2d_weight_gradient"]

Pair = int | Sequence[int]


def conv2d(x: Array, weights: Array, bias: Array | None = None, stride: Pair = 1, padding: Pair = 0,
           activation: str | Activation = "identity") -> Array:
    """Convolve images with filters, add a bias, and apply an activation.

    ``y[n,o,i,j] = f(bias[o] + sum over c, a, b of weights[o,c,a,b] * x[n, c, i*stride + a - padding,
    j*stride + b - padding])``, x counting as 0 outside its borders (Dumoulin and Visin, 2016).

    Parameters
    ----------
    x : array of shape (N, C, H, W)
        Images, float32 or float64; N may be 0.
    weights : array of shape (O, C, kh, kw)
        Filters.
    bias : array of shape (O,), optional
        Added to each filter's plane.
    stride, padding : int or pair of int
        For both axes, or (vertical, horizontal). Rows and columns that the stride leaves over are not read.
    activation : str or Activation
        Applied to the sum.

    Returns
    -------
    array of shape (N, O, (H + 2*padding - kh)//stride + 1, (W + 2*padding - kw)//stride + 1)
        In the namespace, dtype and on the device of `x`.

    Raises
    ------
    TypeError
        If the arrays' namespaces or dtypes differ, or an option is of the wrong type.
    ValueError
        If a shape does not fit, devices differ, or the kernel is larger than the padded image.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> x = np.arange(9.0).reshape(1, 1, 3, 3)
    >>> sx.conv2d(x, np.ones((1, 1, 2, 2)))
    array([[[[ 8., 12.],
             [20., 24.]]]])
    """
    named = {"x": x, "weights": weights} | ({} if bias is None else {"bias": bias})
    shared_namespace(**named)
    check_rank("x", x, "(N, C, H, W)")
    check_filters(weights, bias)
    if x.shape[1] != weights.shape[1]:
        raise ValueError(f"`x` must have shape (N, {weights.shape[1]}, H, W) to match `weights` "
                         f"{tuple(weights.shape)}; got {tuple(x.shape)}")
    stride, padding = check_pair("stride", stride, 1), check_pair("padding", padding, 0)
    plane = output_plane(x.shape[2:], weights.shape[2:], stride, padding)
    return room_of(x).conv2d(x, weights, bias, stride, padding, plane, named_activation(activation))


def conv2d_input_gradient(dy: Array, weights: Array, input_plane: tuple[int, int], stride: Pair = 1,
                          padding: Pair = 0) -> Array:
    """The gradient of a convolution's input.

    Parameters
    ----------
    dy : array of shape (N, O, Ho, Wo)
        Gradient of the output, float32 or float64.
    weights : array of shape (O, C, kh, kw)
        Filters.
    input_plane : pair of int
        (H, W) of the input, which `dy` alone does not tell when the stride leaves rows over.
    stride, padding : int or pair of int
        As in the forward call.

    Returns
    -------
    array of shape (N, C, H, W)
        Zero where no output read the input.

    Raises
    ------
    TypeError, ValueError
        As `conv2d`; also if the shape of `dy` is not that of the output.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.conv2d_input_gradient(np.ones((1, 1, 1, 1)), np.ones((1, 1, 2, 2)), (2, 3), stride=2)
    array([[[[1., 1., 0.],
             [1., 1., 0.]]]])
    """
    shared_namespace(weights=weights, dy=dy)
    check_filters(weights)
    stride, padding = check_pair("stride", stride, 1), check_pair("padding", padding, 0)
    height, width = check_pair("input_plane", input_plane, 1)
    check_rank("dy", dy, "(N, O, H, W)")
    plane = output_plane((height, width), weights.shape[2:], stride, padding)
    check_shape("dy", dy, (dy.shape[0], weights.shape[0], *plane), "the output")
    return room_of(dy).conv2d_input_gradient(dy, weights, (height, width), stride, padding)


def conv2d_weight_gradient(dy: Array, x: Array, kernel: Pair, stride: Pair = 1, padding: Pair = 0) -> Array:
    """The gradient of a convolution's filters, summed over the images.

    Parameters
    ----------
    dy : array of shape (N, O, Ho, Wo)
        Gradient of the output, float32 or float64.
    x : array of shape (N, C, H, W)
        The input of the forward call.
    kernel : int or pair of int
        (kh, kw) of the filters.
    stride, padding : int or pair of int
        As in the forward call.

    Returns
    -------
    array of shape (O, C, kh, kw)
        Zero for an empty batch.

    Raises
    ------
    TypeError, ValueError
        As `conv2d`; also if the shape of `dy` is not that of the output.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> x = np.arange(9.0).reshape(1, 1, 3, 3)
    >>> sx.conv2d_weight_gradient(np.ones((1, 1, 2, 2)), x, kernel=2)
    array([[[[ 8., 12.],
             [20., 24.]]]])
    """
    shared_namespace(x=x, dy=dy)
    check_rank("x", x, "(N, C, H, W)")
    check_rank("dy", dy, "(N, O, H, W)")
    kernel = check_pair("kernel", kernel, 1)
    stride, padding = check_pair("stride", stride, 1), check_pair("padding", padding, 0)
    plane = output_plane(x.shape[2:], kernel, stride, padding)
    check_shape("dy", dy, (x.shape[0], dy.shape[1], *plane), "the output")
    return room_of(dy).conv2d_weight_gradient(dy, x, kernel, stride, padding)


def conv2d_bias_gradient(dy: Array) -> Array:
    """The gradient of a convolution's bias: the sum of `dy` over images and positions.

    Parameters
    ----------
    dy : array of shape (N, O, Ho, Wo)
        Gradient of the output, float32 or float64.

    Returns
    -------
    array of shape (O,)
        Zero for an empty batch.

    Raises
    ------
    TypeError, ValueError
        If `dy` is not such an array.

    Examples
    --------
    >>> import numpy as np
    >>> import stelliferous_xp as sx
    >>> sx.conv2d_bias_gradient(np.ones((2, 1, 3, 3)))
    array([18.])
    """
    shared_namespace(dy=dy)
    check_rank("dy", dy, "(N, O, H, W)")
    return room_of(dy).conv2d_bias_gradient(dy)


def check_filters(weights: Array, bias: Array | None = None) -> None:
    """Check the shapes of filters and bias; no extent may be 0."""
    check_rank("weights", weights, "(O, C, kh, kw)")
    if 0 in weights.shape:
        raise ValueError(f"`weights` must have no extent of 0; got {tuple(weights.shape)}")
    if bias is not None:
        check_shape("bias", bias, (weights.shape[0],), f"`weights` {tuple(weights.shape)}")


def output_plane(plane: Sequence[int], kernel: Sequence[int], stride: tuple[int, int],
                 padding: tuple[int, int]) -> tuple[int, int]:
    """(Ho, Wo) of a convolution over a plane (H, W)."""
    padded = (plane[0] + 2 * padding[0], plane[1] + 2 * padding[1])
    if 0 in plane or padded[0] < kernel[0] or padded[1] < kernel[1]:
        raise ValueError(f"the kernel {tuple(kernel)} must fit into the padded image; got an image of "
                         f"{tuple(plane)} with `padding` {padding}")
    return (padded[0] - kernel[0]) // stride[0] + 1, (padded[1] - kernel[1]) // stride[1] + 1
