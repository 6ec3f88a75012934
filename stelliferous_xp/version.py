"""The version of the library, and that of the fixed float32 order of docs/order.md."""

__version__ = "0.1.0"
ORDER_VERSION = 1
