"""The linear relaxation of an instance, and its progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from instances import Instance

from .proofs import MemoryPrices

RelaxationMethod = Literal["lp", "lagrangian"]
RelaxationStop = Literal["optimal", "tolerance", "time-limit", "interrupted", "stalled"]


@dataclass(frozen=True, slots=True)
class RelaxationProgress:
    """Progress of a relaxation.

    Attributes
    ----------
    seconds : float
        Seconds since the start.
    phase : str
        Phase: ``"start"``, ``"prices"`` or ``"columns"``.
    iterations : int
        Steps of the price ascent, and linear programs, so far.
    lower_bound : int
        Certified lower bound on the optimum.
    dual_value : float
        Lower bound on the value of the relaxation.
    memory : int
        Resident set of this process in bytes; 0 if the system does not report it.
    """

    seconds: float
    phase: str
    iterations: int
    lower_bound: int
    dual_value: float
    memory: int

    def __str__(self) -> str:
        return f"{self.phase}: at least {self.lower_bound}"


@dataclass(frozen=True, eq=False)
class Relaxation:
    """The linear relaxation of an instance.

    Attributes
    ----------
    instance : Instance
        The instance relaxed.
    objective : float
        Value of the relaxation in floating point: HiGHS's for ``"lp"``, for ``"lagrangian"`` what
        ``memory_prices`` prove of it, before rounding up.
    certified_bound : int
        Lower bound on the optimum, evaluated exactly from the dual prices.
    expected_start_times : float64 array
        sum_t t x[i,t], float64, shape (n,); requests with equal (a, s, o) share one value.
    memory_prices : MemoryPrices
        Exact dual price of a token in each round, which proves the certified bound.
    horizon : int
        Last round modelled.
    runtime : float
        Seconds.
    method : RelaxationMethod
        ``"lp"``, the model of all starts, or ``"lagrangian"``, by price ascent.
    iterations : int
        Steps of the price ascent.
    stop_reason : RelaxationStop
        ``"optimal"`` for ``"lp"``; ``"tolerance"``, ``"time-limit"``, ``"interrupted"`` or
        ``"stalled"`` for ``"lagrangian"``.
    """

    instance: Instance
    objective: float
    certified_bound: int
    expected_start_times: npt.NDArray[np.float64]
    memory_prices: MemoryPrices
    horizon: int
    runtime: float
    method: RelaxationMethod = "lp"
    iterations: int = 0
    stop_reason: RelaxationStop = "optimal"

    def __repr__(self) -> str:
        return (
            f"Relaxation({self.instance!r}, objective={self.objective:.6g}, "
            f"certified_bound={self.certified_bound}, {self.stop_reason})"
        )

    @property
    def certified_waiting(self) -> int:
        """Return a certified lower bound on the optimum's waiting, beyond the output lengths."""
        return max(0, self.certified_bound - self.instance.total_output_length)
