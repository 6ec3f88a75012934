"""Powers on the host whose bits do not depend on the platform's mathematics library."""

from __future__ import annotations


def power(base: float, exponent: int) -> float:
    """`base` to a whole power of at least 0, by repeated squaring in float64."""
    result = 1.0
    while exponent > 0:
        if exponent % 2:
            result *= base
        base *= base
        exponent //= 2
    return result
