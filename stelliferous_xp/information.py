"""What is in use here, and which guarantee holds for it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import numpy

from stelliferous_xp.kernels.cpu import library
from stelliferous_xp.version import ORDER_VERSION, __version__
from stelliferous_xp.workers import get_workers

__all__ = ["Information", "info"]

_EVERYWHERE = "holds for every array library"
_IN_KERNELS = "holds for float32 NumPy arrays"
_NO_KERNELS = "does not hold: it needs the CPU kernels"
_LATER = "is not promised yet"


@dataclass(frozen=True)
class Information:
    """What is in use; printed, a report of a line each."""

    version: str
    """Of this library."""
    order_version: int
    """Of the fixed float32 order, docs/order.md. Results of two versions may differ."""
    python: str
    numpy: str
    instruction_set: str | None
    """Of the CPU kernels in use; None where there are no kernels."""
    instruction_sets: tuple[str, ...]
    """All that this machine can run, best first."""
    kernels_absent: str
    """Why there are no kernels; empty where there are."""
    workers: int
    guarantees: Mapping[str, str]
    """By name, such as "G1 workers": whether it holds here, and for what."""

    def __str__(self) -> str:
        kernels = (f"{self.instruction_set} (this machine runs {', '.join(self.instruction_sets)})"
                   if self.instruction_set else f"none: {self.kernels_absent}; all runs on the portable path")
        rows = {
            "stelliferous_xp": self.version,
            "order": f"version {self.order_version}",
            "Python, NumPy": f"{self.python}, {self.numpy}",
            "CPU kernels": kernels,
            "workers": str(self.workers),
            **self.guarantees,
        }
        return "\n".join(f"{name:16} {text}" for name, text in rows.items())


def info() -> Information:
    """Versions, kernels, instruction set and workers in use, and which guarantee holds.

    Returns
    -------
    Information
        Print it for a report.

    Examples
    --------
    >>> import stelliferous_xp as sx
    >>> sx.info().version == sx.__version__
    True
    """
    fixed = _IN_KERNELS if library.isa() else _NO_KERNELS
    return Information(
        version=__version__,
        order_version=ORDER_VERSION,
        python=".".join(map(str, sys.version_info[:3])),
        numpy=numpy.__version__,
        instruction_set=library.isa(),
        instruction_sets=library.available_isas(),
        kernels_absent=library.reason(),
        workers=get_workers(),
        guarantees={
            "G1 workers": _EVERYWHERE,
            "G2 batch": fixed,
            "G3 machine": fixed,
            "G4 device": _LATER,
            "G5 split": _LATER,
            "G6 resume": _LATER,
        },
    )
