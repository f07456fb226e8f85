"""A relaxation of an instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from instances import Instance

RelaxationMethod = Literal["lp", "lagrangian", "states"]
RelaxationStop = Literal["optimal", "tolerance", "time-limit", "interrupted", "stalled"]


@dataclass(frozen=True, eq=False)
class Relaxation:
    """A relaxation of an instance: the linear one, or that of what runs together.

    Attributes
    ----------
    instance : Instance
        The instance relaxed.
    objective : float
        Value of the relaxation in floating point: HiGHS's for ``"lp"``, else what ``prices`` prove
        of it, before rounding up.
    certified_bound : int
        Lower bound on the optimum, evaluated exactly from the dual prices.
    expected_start_times : float64 array
        sum_t t x[i,t], float64, shape (n,); requests with equal (a, s, o) share one value.
    prices : MemoryPrices or StatePrices
        Exact prices, which prove the certified bound: of a token in each round, or of what runs
        together for ``"states"``. `hindsight.make_certificate` and a user-defined bound
        (``bounds`` of `hindsight.solve`) accept them.
    horizon : int
        Last round modelled.
    runtime : float
        Seconds.
    method : {"lp", "lagrangian", "states"}
        The model of all starts, the ascent of its prices, or that of prices of what runs together.
    iterations : int
        Steps of the price ascent.
    stop_reason : {"optimal", "tolerance", "time-limit", "interrupted", "stalled"}
        Why it ended; ``"optimal"`` for ``"lp"``.
    """

    instance: Instance
    objective: float
    certified_bound: int
    expected_start_times: npt.NDArray[np.float64]
    prices: Any
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
