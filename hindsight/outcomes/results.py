"""Results of `hindsight.solve` and `hindsight.relax`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from instances import FleetSchedule, Instance, InvalidValueError, KnownBounds, Schedule
from instances.html import figure_of
from instances.problem.preemptive_schedule import AnySchedule, PreemptiveSchedule

from .proofs import MemoryPrices

if TYPE_CHECKING:
    from .proofs import Proof

SolveStatus = Literal["optimal", "feasible"]
StopReason = Literal["proof", "gap", "time-limit", "interrupted", "size", "stalled"]
Objective = Literal["total_latency", "makespan"]
OBJECTIVES = ("total_latency", "makespan")
Goal = Literal["total_latency", "makespan", "preemptive_total_latency"]
"""Objective, and whether preemption is allowed."""

PREEMPTIVE: Goal = "preemptive_total_latency"

Number = TypeVar("Number", int, float)


def cost_of(schedule: AnySchedule | FleetSchedule, objective: Goal) -> int:
    """Recompute the total latency or makespan of a schedule."""
    return schedule.makespan if objective == "makespan" else schedule.total_latency


@dataclass(frozen=True, slots=True)
class Interval(Generic[Number]):
    """Bounds around an optimum at one moment of a solve, in rounds or in seconds.

    Attributes
    ----------
    seconds : float
        Seconds since the start.
    phase : str
        Phase of the solve that found the latest bound.
    upper_bound, lower_bound : int or float
        The present interval.
    """

    seconds: float
    phase: str
    upper_bound: Number
    lower_bound: Number

    @property
    def gap(self) -> float:
        """Return (upper - lower) / upper."""
        return (self.upper_bound - self.lower_bound) / self.upper_bound


@dataclass(frozen=True, slots=True)
class Progress(Interval[int]):
    """Progress of a solve in rounds.

    Attributes
    ----------
    phase : str
        Phase: ``"heuristics"``, ``"relaxation"`` or ``"search"``.
    nodes : int
        Branch-and-bound nodes so far.
    """

    nodes: int = 0

    def __str__(self) -> str:
        bounds = _interval(self.lower_bound, self.upper_bound)
        return f"{self.phase}: {bounds}, gap {percent(self.gap)}"


@dataclass(frozen=True, eq=False)
class SolveResult:
    """The optimum of an instance over schedules without preemption, or an interval around it.

    Attributes
    ----------
    preemptive : bool
        Whether the bounds are on the preemptive optimum; False here.
    instance : Instance
        The instance solved.
    schedule : Schedule
        The best schedule found, checked; a `FleetSchedule` where the instance has several replicas.
    lower_bound : int
        Proved lower bound for every such schedule, by the solver in floating point or exactly.
    certified_lower_bound : int
        Lower bound proved in exact integer arithmetic; at most ``lower_bound``.
    stop_reason : StopReason
        ``"proof"``, ``"gap"`` (the gap asked for is reached), ``"time-limit"``, ``"interrupted"``,
        or, if there was no time limit or a single method was requested, ``"size"`` (the model would
        not fit the time or memory left) or ``"stalled"`` (no progress for long).
    runtime : float
        Seconds.
    nodes : int
        Branch-and-bound nodes.
    horizon : int
        Round by which every optimal schedule completes, proved.
    root_bound : int or None
        Exact bound before any search, from the best prices; None if there are none.
    log : tuple[Progress, ...]
        One `Progress` for each improvement.
    proof : Proof or None
        Exact prices that prove ``root_bound`` or, if the instance has idle gaps, a little less; or
        paths that prove a larger bound (`hindsight.configurations.proofs.PathPrices`). The prices
        are for ``instance``, or for its `relaxed` form if memory is not counted in tokens, or, of
        several replicas, for its `pooled` form unless they are `StatePrices` with the memory limit
        of one replica. See `hindsight.certificates.writing`. None if there are none.
    objective : Objective
        Objective that all bounds refer to: ``"total_latency"`` or ``"makespan"``.
    own_bounds : Mapping[str, tuple[int, bool]]
        Value of each user-defined bound by its name, ``"bound 'name'"``, and whether prices prove
        it.
    """

    preemptive: ClassVar[bool] = False

    instance: Instance
    schedule: Schedule
    lower_bound: int
    certified_lower_bound: int
    stop_reason: StopReason
    runtime: float
    nodes: int
    horizon: int
    root_bound: int | None
    log: tuple[Progress, ...]
    proof: Proof | None = None
    objective: Objective = "total_latency"
    own_bounds: Mapping[str, tuple[int, bool]] = field(default_factory=dict)

    @property
    def problem(self) -> Instance:
        """Return the instance solved."""
        return self.instance

    def __repr__(self) -> str:
        cost = f"{self.objective} {_interval(self.lower_bound, self.upper_bound)}"
        return f"{type(self).__name__}({self.instance!r}, {self.status}, {cost})"

    def _repr_html_(self) -> str:
        lower, upper = self.lower_bound, self.upper_bound
        facts = {
            "requests": len(self.instance),
            "status": f"{self.status} ({self.stop_reason})",
            self.objective.replace("_", " "): f"{_interval(lower, upper)} rounds",
            "certified lower bound": self.certified_lower_bound,
            "gap": percent(self.gap),
            "runtime": f"{self.runtime:.3g} s",
        }
        name = f"of {self.instance.name}: best schedule" if self.instance.name else "best schedule"
        return figure_of(type(self).__name__, name, facts, self.schedule.picture())

    @property
    def status(self) -> SolveStatus:
        """Return the status, ``"optimal"`` only if upper and lower bound meet."""
        return "optimal" if self.upper_bound == self.lower_bound else "feasible"

    @property
    def upper_bound(self) -> int:
        """Return the cost of ``schedule``, recomputed from its start times."""
        return cost_of(self.schedule, self.objective)

    @property
    def gap(self) -> float:
        """Return (upper - lower) / upper; 0 if proved optimal."""
        return (self.upper_bound - self.lower_bound) / self.upper_bound

    @property
    def certified_gap(self) -> float:
        """Return (upper - certified lower) / upper."""
        return (self.upper_bound - self.certified_lower_bound) / self.upper_bound

    @property
    def waiting_interval(self) -> tuple[int, int]:
        """Return certified lower and upper bounds on the optimum's waiting, in rounds.

        Waiting is total latency beyond the output lengths, which no schedule avoids; only the
        waiting depends on the scheduler. It is never below 0, so an upper bound of 0 is a proof.

        Raises
        ------
        InvalidValueError
            The result is about the makespan, which counts no waiting.
        """
        self._require_latency()
        lengths = self.instance.total_output_length
        return max(0, self.certified_lower_bound - lengths), self.upper_bound - lengths

    @property
    def waiting_gap(self) -> float:
        """Return (upper - certified lower) / upper of the waiting; 0 if nothing waits.

        Raises
        ------
        InvalidValueError
            The result is about the makespan.
        """
        self._require_latency()
        return relative_waiting_gap(self.instance, self.certified_lower_bound, self.upper_bound)

    def _require_latency(self) -> None:
        if self.objective != "total_latency":
            raise InvalidValueError("result", "objective", self.objective, "is not total_latency")

    def known_bounds(self, source: str | None = None) -> KnownBounds:
        """Return the bounds in the form that an instance file stores, without a fleet's schedule.

        Raises
        ------
        InvalidValueError
            The bounds are on the makespan or the preemptive optimum, which files do not store.
        """
        require_total_latency(self)
        is_fleet = self.instance.replicas > 1
        return KnownBounds(
            self.upper_bound,
            self.lower_bound,
            self.certified_lower_bound,
            None if is_fleet else tuple(self.schedule.start_times.tolist()),
            source,
        )


def percent(share: float, form: str = "g") -> str:
    """Format a gap in per cent, rounded up: only a closed gap reads 0."""
    # The float 0.0123 must not read 1.24 % just because it lies a little above 1.23 %.
    hundredths = max(math.ceil(round(1e4 * share, 6)), int(share > 0))
    return f"{hundredths / 100:{form}} %"


def _interval(lower: int, upper: int) -> str:
    return str(upper) if lower == upper else f"[{lower}, {upper}]"


@dataclass(frozen=True, eq=False, repr=False)
class PreemptiveResult(SolveResult):
    """Result for schedules whose requests may be stopped between rounds and keep their tokens.

    Its lower bounds hold for every scheduler of the round model: recomputing what was preempted
    costs a scheduler additional rounds or memory.

    Attributes
    ----------
    preemptive : bool
        Always True.
    schedule : PreemptiveSchedule
        The best schedule found, checked.
    """

    preemptive: ClassVar[bool] = True

    schedule: PreemptiveSchedule  # type: ignore[assignment]


def require_total_latency(result: SolveResult) -> None:
    """Refuse a result that is not about total latency without preemption.

    Raises
    ------
    InvalidValueError
        The result is about another objective, or about the preemptive optimum.
    """
    result._require_latency()
    if result.preemptive:
        raise InvalidValueError("result", "preemptive", True, "is about the preemptive optimum")


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


def relative_waiting_gap(instance: Instance, lower: float, upper: float) -> float:
    """Return the gap of two bounds on total latency relative to the upper bound on the waiting.

    A waiting of less than one round counts as one. So if nothing waits, the gap is 0 up to rounding
    in floating point.
    """
    if not math.isfinite(upper):
        return 1.0
    least, most = (bound - instance.total_output_length for bound in (lower, upper))
    return max(0.0, (most - max(0, least)) / max(1, most))


RelaxationMethod = Literal["lp", "lagrangian"]
RelaxationStop = Literal["optimal", "tolerance", "time-limit", "interrupted", "stalled"]


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
