"""Fixed-order float32 kernels for CPUs: C++ in one shared library, called through ctypes."""

from .library import available_isas, isa, reason

__all__ = ["available_isas", "isa", "reason"]
