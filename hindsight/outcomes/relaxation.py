"""Result of solving a relaxation of an instance."""

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
    """Result of solving the linear relaxation, or the stronger one by configurations.

    Attributes
    ----------
    instance : Instance
        The instance that was relaxed.
    objective : float
        Value of the relaxation in floating point. For ``"lp"`` it is the value of HiGHS, else the
        bound that ``prices`` prove, before rounding up.
    certified_bound : int
        Lower bound on the optimum, evaluated exactly from the dual prices.
    expected_start_times : float64 array
        Mean starts, sum_t t x[i,t] for request i, float64, shape (n,). Requests with equal
        (a, s, o) have the same value.
    prices : MemoryPrices or StatePrices
        Exact dual prices, which prove the certified bound: per token and round, or state prices for
        ``"states"``. They can be given to `hindsight.make_certificate`, or returned by a
        user-defined bound (``bounds`` of `hindsight.solve`).
    horizon : int
        Last round of the relaxation.
    runtime : float
        Running time in seconds.
    method : {"lp", "lagrangian", "states"}
        HiGHS on the program of all starts, dual ascent in its memory prices, or dual ascent in
        state prices.
    iterations : int
        Steps of the price ascent.
    stop_reason : {"optimal", "tolerance", "time-limit", "interrupted", "stalled"}
        Why the method ended; ``"optimal"`` for ``"lp"``.
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
        """Return a certified lower bound on the optimal waiting: latency less output lengths."""
        return max(0, self.certified_bound - self.instance.total_output_length)
