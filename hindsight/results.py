"""What `hindsight.solve` and `hindsight.relax` return."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from instances import Instance, InvalidValueError, KnownBounds, Schedule

from .prices import MemoryPrices

if TYPE_CHECKING:
    from .certificate import Proof

SolveStatus = Literal["optimal", "feasible"]
StopReason = Literal["proof", "time-limit", "interrupted", "size", "stalled"]
Objective = Literal["total_latency", "makespan"]
OBJECTIVES = ("total_latency", "makespan")


def cost_of(schedule: Schedule, objective: Objective) -> int:
    """Total latency or makespan of a schedule, from its start times."""
    return schedule.makespan if objective == "makespan" else schedule.total_latency


@dataclass(frozen=True, slots=True)
class Progress:
    """A line of a solve in progress.

    Attributes
    ----------
    seconds : since the start.
    phase : ``"heuristics"``, ``"relaxation"``, ``"search"``.
    upper_bound, lower_bound : the interval so far.
    nodes : branch-and-bound nodes so far.
    """

    seconds: float
    phase: str
    upper_bound: int
    lower_bound: int
    nodes: int = 0

    @property
    def gap(self) -> float:
        """(upper - lower) / upper."""
        return (self.upper_bound - self.lower_bound) / self.upper_bound


@dataclass(frozen=True, eq=False)
class SolveResult:
    """The optimum of an instance over schedules without preemption, or an interval around it.

    Attributes
    ----------
    instance : the instance solved.
    schedule : the best schedule found, checked.
    lower_bound : proved of every such schedule; by the solver in floating point, or exactly.
    certified_lower_bound : proved in exact integer arithmetic; at most ``lower_bound``.
    stop_reason : ``"proof"``, ``"time-limit"``, ``"interrupted"``, ``"size"`` (the model would
        not fit the time or memory left) or ``"stalled"`` (the solver gave up).
    runtime : seconds.
    nodes : branch-and-bound nodes.
    horizon : proved: every optimal schedule completes by this round.
    root_bound : exact bound before any search, from the best prices; None where there are none.
    log : one `Progress` for each improvement.
    proof : exact prices of ``instance`` that prove ``root_bound`` or, in time that has idle gaps, a
        little less; see `hindsight.certificate`. None where there are none.
    objective : what all bounds are bounds of: ``"total_latency"`` or ``"makespan"``.
    """

    instance: Instance
    schedule: Schedule
    lower_bound: int
    certified_lower_bound: int
    stop_reason: StopReason
    runtime: float
    nodes: int
    horizon: int
    root_bound: int | None
    log: tuple[Progress, ...] = field(repr=False)
    proof: Proof | None = field(default=None, repr=False)
    objective: Objective = "total_latency"

    @property
    def status(self) -> SolveStatus:
        """``"optimal"`` only when upper and lower bound meet."""
        return "optimal" if self.upper_bound == self.lower_bound else "feasible"

    @property
    def upper_bound(self) -> int:
        """Cost of ``schedule``, recomputed from its start times."""
        return cost_of(self.schedule, self.objective)

    @property
    def gap(self) -> float:
        """(upper - lower) / upper; 0 when proved."""
        return (self.upper_bound - self.lower_bound) / self.upper_bound

    @property
    def certified_gap(self) -> float:
        """(upper - certified lower) / upper."""
        return (self.upper_bound - self.certified_lower_bound) / self.upper_bound

    def known_bounds(self, source: str | None = None) -> KnownBounds:
        """The bounds in the form that travels with an instance file.

        Raises
        ------
        InvalidValueError: they are bounds of the makespan; files keep those of total latency.
        """
        require_total_latency(self)
        return KnownBounds(
            self.upper_bound,
            self.lower_bound,
            self.certified_lower_bound,
            tuple(self.schedule.start_times.tolist()),
            source,
        )


def require_total_latency(result: SolveResult) -> None:
    """Refuse a result about the makespan where bounds of total latency are meant.

    Raises
    ------
    InvalidValueError: it is one.
    """
    if result.objective != "total_latency":
        raise InvalidValueError("result", "objective", result.objective, "is not total_latency")


@dataclass(frozen=True, slots=True)
class RelaxationProgress:
    """A line of a relaxation in progress.

    Attributes
    ----------
    seconds : since the start.
    phase : ``"start"``, ``"prices"``, ``"columns"``.
    iterations : Newton steps and linear programs so far.
    lower_bound : certified, on the optimum.
    dual_value, upper_bound : the interval around the value of the relaxation.
    memory : resident set of this process, bytes; 0 where the system does not tell.
    """

    seconds: float
    phase: str
    iterations: int
    lower_bound: int
    dual_value: float
    upper_bound: float
    memory: int

    @property
    def gap(self) -> float:
        """(upper bound - dual value) / upper bound."""
        return relative_gap(self.dual_value, self.upper_bound)


def relative_gap(lower: float, upper: float) -> float:
    """(upper - lower) / upper, not below 0; 1 where there is no upper bound."""
    if not math.isfinite(upper):
        return 1.0
    return max(0.0, (upper - lower) / upper)


RelaxationMethod = Literal["rows", "scale"]
RelaxationStop = Literal["optimal", "tolerance", "time-limit", "interrupted", "stalled"]


@dataclass(frozen=True, eq=False)
class Relaxation:
    """The linear relaxation of an instance.

    Attributes
    ----------
    instance : the instance relaxed.
    objective : value of a feasible fractional solution in floating point: the value of the
        relaxation itself, but for ``gap``.
    certified_bound : lower bound on the optimum evaluated exactly from the dual prices.
    expected_start_times : sum_t t x[i,t], float64, shape (n,); requests with equal (a, s, o)
        share one value.
    memory_prices : dual price of a token in each round, exact, the source of the certified bound.
    horizon : last round modelled; proved not to restrict the relaxation unless it was given.
    fractions : for each request its starts with positive weight, as (starts, weights).
    runtime : seconds.
    dual_value : what ``memory_prices`` prove of the relaxation, before rounding up.
    method : ``"rows"``, the model of all starts, or ``"scale"``, prices first.
    iterations : Newton steps and linear programs of ``"scale"``.
    stop_reason : ``"optimal"`` for ``"rows"``; ``"tolerance"``, ``"time-limit"``,
        ``"interrupted"`` or ``"stalled"`` for ``"scale"``.
    is_feasible : whether ``fractions`` and ``expected_start_times`` belong to the solution of value
        ``objective``. Otherwise, where ``"scale"`` ended early, they are the best guess, which
        exceeds the memory limit in some rounds, and ``objective`` is of a list schedule, infinite
        where that ends after a given horizon.
    """

    instance: Instance
    objective: float
    certified_bound: int
    expected_start_times: npt.NDArray[np.float64]
    memory_prices: MemoryPrices
    horizon: int
    fractions: tuple[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]], ...] = field(repr=False)
    runtime: float
    dual_value: float
    method: RelaxationMethod = "rows"
    iterations: int = 0
    stop_reason: RelaxationStop = "optimal"
    is_feasible: bool = True

    @property
    def gap(self) -> float:
        """(objective - dual value) / objective: how far either may be from the relaxation's."""
        return relative_gap(self.dual_value, self.objective)
