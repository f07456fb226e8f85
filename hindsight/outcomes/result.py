"""Results of a solve and of a relaxation: bounds on an optimum, their proofs, and their display."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple, cast

from instances import Instance, InvalidValueError, KnownBounds, Workload
from instances.arrays import FloatArray
from instances.html import figure_of

from .goals import Goal, OnTime, Preemption, Tail

Status = Literal["optimal", "feasible"]
StopReason = Literal["proof", "gap", "time-limit", "interrupted", "size", "stalled"]
RelaxationStop = Literal["optimal", "tolerance", "time-limit", "interrupted", "stalled"]

MEMORY_PRICES, STATE_PRICES, PROGRAM = "memory prices", "state prices", "integer program"
"""Names of lower bounds that several methods prove."""

NO_BOUND = "no cost is negative"
"""Name of the lower bound 0, which always holds."""


class Bound(NamedTuple):
    """A lower bound on the cost.

    Attributes
    ----------
    value : int or Fraction
        The bound in rounds, seconds, or late requests.
    certified : bool
        Whether the bound is proved in exact arithmetic or with directed rounding, without relying
        on a floating-point solver.
    claimed : bool, default False
        Whether the bound is only claimed by the user. Claims are reported but not used.
    """

    value: Any
    certified: bool
    claimed: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """Bounds at one moment of a solve.

    Attributes
    ----------
    seconds : float
        Seconds since the start of the solve.
    phase : str
        Phase of the solve that found the latest bound or schedule.
    lower_bound, upper_bound : int or float
        Bounds on the optimum, in rounds, seconds of mean latency, or requests on time.
    gap : float
        See `Result.gap`.
    nodes : int
        Branch-and-bound nodes, search states or moves so far.
    text : str
        The bounds in words.
    """

    seconds: float
    phase: str
    lower_bound: Any
    upper_bound: Any
    gap: float
    nodes: int
    text: str

    def __str__(self) -> str:
        return f"{self.phase}: {self.text}"


@dataclass(frozen=True, eq=False)
class Result:
    """Bounds on the optimum of a problem, which are equal if it is proved, and a schedule.

    ``preemption`` says over which schedules the optimum is taken. With ``"never"`` a request runs
    from start to end without a break. A scheduler that evicts a request and loses its work, or
    pauses it and holds its memory, cannot beat this optimum. One that stops a request and keeps its
    tokens can. With ``"keep"`` a request may be stopped, and resumes with its tokens. With
    ``"recompute"`` a resumed request processes its prompt and tokens again. In seconds lower bounds
    hold for every scheduler.

    Attributes
    ----------
    problem : Instance or Workload
        The problem solved.
    goal : Goal
        ``"latency"`` (total latency, weighted if the instance is), ``"makespan"``, `OnTime` or
        `Tail`.
    preemption : {"never", "keep", "recompute"}
        Over which schedules the optimum is taken, see above.
    schedule : Schedule, PreemptiveSchedule, SecondsSchedule, FleetSchedule or None
        The best schedule found, checked to be feasible. With ``OnTime(late="drop")`` it leaves out
        late requests, and is None if all requests are late.
    cost : int, float or Fraction
        Cost of ``schedule``, in rounds, seconds, or late requests.
    bounds : Mapping[str, Bound]
        Lower bounds on the cost, by the name of the method that proved them.
    stop_reason : StopReason
        ``"proof"``, ``"gap"`` (the requested gap is reached), ``"time-limit"``,
        ``"interrupted"``, ``"size"`` (the model would not fit the time or memory left) or
        ``"stalled"`` (no method makes progress).
    runtime : float
        Running time in seconds.
    nodes : int
        Number of branch-and-bound nodes, search states or moves.
    horizon : int
        Round by which every optimal schedule provably completes; 0 if none is known.
    root_bound : int or None
        Exact lower bound before any search, from the best prices; None if there are no prices.
    first_token_bound : float
        Lower bound on every scheduler's mean time to first token in seconds; 0 in rounds.
    log : tuple[Progress, ...]
        One entry for each improvement.
    proof : Any
        Prices or paths for a certificate. They prove ``root_bound`` or more, or a little less if
        the instance has idle gaps. None if there are none.
    """

    problem: Instance | Workload
    goal: Goal
    preemption: Preemption
    schedule: Any
    cost: Any
    bounds: Mapping[str, Bound]
    stop_reason: StopReason
    runtime: float = 0.0
    nodes: int = 0
    horizon: int = 0
    root_bound: int | None = None
    first_token_bound: float = 0.0
    log: tuple[Progress, ...] = ()
    proof: Any = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"Result({self.problem!r}, {self.status}, {self.text})"

    def _repr_html_(self) -> str:
        facts = {
            "requests": len(self.problem),
            **({"replicas": self.problem.replicas} if self.problem.replicas > 1 else {}),
            "status": f"{self.status} ({self.stop_reason})",
            "interval": self.text,
            "preemption": self.preemption,
            "best bound": self.best_bound + (", certified" if self.certified else ""),
            "runtime": f"{self.runtime:.3g} s",
        }
        name = f"of {self.problem.name}: best schedule" if self.problem.name else "best schedule"
        picture = "" if self.schedule is None else self.schedule.picture()
        return figure_of("Result", name, facts, picture)

    @property
    def text(self) -> str:
        """Return the bounds in words, with their unit."""
        text = interval_text(self.problem, self.goal, self.lower_bound, self.upper_bound)
        is_default = self.preemption == ("keep" if isinstance(self.problem, Workload) else "never")
        return text if is_default else f"{text}, preemption {self.preemption!r}"

    @property
    def best_bound(self) -> str:
        """Return the name of the largest lower bound on the cost; certified ones win ties."""
        proved = {name: one for name, one in self.bounds.items() if not one.claimed}
        return max(proved, key=lambda name: proved[name][:2], default=NO_BOUND)

    @property
    def lower_bound(self) -> Any:
        """Return a lower bound on the optimum: for `OnTime`, the requests on time in `schedule`."""
        return self._ends(certified=False)[0]

    @property
    def upper_bound(self) -> Any:
        """Return an upper bound on the optimum: the cost, or a bound on the requests on time."""
        return self._ends(certified=False)[1]

    @property
    def certified_lower_bound(self) -> Any:
        """Return the best lower bound that does not rely on a floating-point solver."""
        return self._ends(certified=True)[0]

    def _ends(self, *, certified: bool) -> tuple[Any, Any]:
        values = [
            one.value
            for one in self.bounds.values()
            if not one.claimed and (one.certified or not certified)
        ]
        bound = max(values, default=0)
        if isinstance(self.goal, OnTime):
            count = len(self.problem)
            return count - self.cost, count - bound
        return bound, self.cost

    @property
    def certified(self) -> bool:
        """Return whether both bounds hold without relying on a floating-point solver."""
        return self._ends(certified=True) == self._ends(certified=False)

    @property
    def status(self) -> Status:
        """Return ``"optimal"`` if both bounds are exactly equal, else ``"feasible"``."""
        return "optimal" if self.lower_bound == self.upper_bound else "feasible"

    @property
    def gap(self) -> float:
        """Return (upper - lower) / upper, or for `OnTime` the width of `share_interval`."""
        return relative_gap(self.problem, self.goal, self.lower_bound, self.upper_bound)

    @property
    def certified_gap(self) -> float:
        """Return the gap between the certified bounds."""
        return relative_gap(self.problem, self.goal, *self._ends(certified=True))

    @property
    def share_interval(self) -> tuple[float, float]:
        """Return bounds (lower, upper) on the largest share of requests on time."""
        self._require(isinstance(self.goal, OnTime), "goal", self.goal, "is not OnTime")
        count = len(self.problem)
        return self.lower_bound / count, self.upper_bound / count

    @property
    def mean_latency_interval(self) -> tuple[float, float]:
        """Return bounds (lower, upper) on the least mean latency, rounded outward."""
        self._require_latency()
        problem = self.problem
        count = problem.total_weight if isinstance(problem, Instance) else len(problem)
        lower, upper = Fraction(self.lower_bound, count), Fraction(self.upper_bound, count)
        return rounded_down(lower), -rounded_down(-upper)

    @property
    def waiting_interval(self) -> tuple[int, int]:
        """Return certified lower and upper bounds on the waiting of the optimum, in rounds.

        Waiting is total latency less the sum of output lengths. Only the waiting depends on the
        scheduler. It is never negative, so an upper bound of 0 proves optimality.

        Raises
        ------
        InvalidValueError
            The result is not about total latency in rounds.
        """
        lengths = self._require_instance().total_output_length
        return max(0, self.certified_lower_bound - lengths), self.upper_bound - lengths

    @property
    def waiting_gap(self) -> float:
        """Return (upper - certified lower) / upper of the waiting bounds; 0 if nothing waits.

        Raises
        ------
        InvalidValueError
            The result is not about total latency in rounds.
        """
        instance = self._require_instance()
        return relative_waiting_gap(instance, self.certified_lower_bound, self.upper_bound)

    def known_bounds(self, source: str | None = None) -> KnownBounds:
        """Return the bounds as an instance file stores them; a fleet's schedule is left out.

        Raises
        ------
        InvalidValueError
            The bounds are not on total latency in rounds without preemption.
        """
        self._require_instance()
        self._require(self.preemption == "never", "preemption", self.preemption, "is not 'never'")
        is_fleet = self.problem.replicas > 1
        return KnownBounds(
            self.upper_bound,
            self.lower_bound,
            self.certified_lower_bound,
            None if is_fleet else tuple(self.schedule.start_times.tolist()),
            source,
        )

    def _require_latency(self) -> None:
        self._require(self.goal == "latency", "goal", self.goal, "is not 'latency'")

    def _require_instance(self) -> Instance:
        self._require_latency()
        is_instance = isinstance(self.problem, Instance)
        self._require(is_instance, "problem", self.problem, "is not an Instance, in rounds")
        return cast(Instance, self.problem)

    def _require(self, holds: bool, field: str, value: object, reason: str) -> None:
        if not holds:
            raise InvalidValueError("result", field, value, reason)


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Result of solving the linear relaxation, or the stronger one by configurations.

    A configuration is a multiset of requests that fit into memory at once.

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
        Mean start of each request in rounds, shape (n,): sum_t t x[i,t], if the fraction x[i,t] of
        request i starts in round t. It is equal for requests with equal arrival and lengths.
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
    expected_start_times: FloatArray
    prices: Any
    horizon: int
    runtime: float
    method: Literal["lp", "lagrangian", "states"] = "lp"
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


def interval_text(problem: Instance | Workload, goal: Goal, lower: Any, upper: Any) -> str:
    """Format an interval with its unit; its ends are rounded outward."""
    if isinstance(goal, OnTime):
        return f"{_ends(lower, upper)} of {len(problem)} requests on time"
    in_seconds = isinstance(problem, Workload)
    unit = "s" if in_seconds else "rounds"
    if isinstance(goal, Tail):
        name = f"p{100 * goal.quantile:g} of {goal.of.replace('_', ' ')}"
        whole = not in_seconds and math.isfinite(upper)
        ends = _ends(int(lower), int(upper)) if whole else _decimals(lower, upper)
        return f"{name} {ends} {unit}"
    if goal == "makespan" or not in_seconds:
        name = "makespan" if goal == "makespan" else "total latency"
        return f"{name} {_ends(lower, upper)} {unit}"
    count = len(problem)
    return f"mean latency {_decimals(lower / count, upper / count)} s"


def relative_gap(problem: Instance | Workload, goal: Goal, lower: Any, upper: Any) -> float:
    """Return the width of an interval over its upper end; for `OnTime`, over all requests."""
    whole = len(problem) if isinstance(goal, OnTime) else upper
    return float((upper - lower) / whole) if whole else 0.0


def relative_waiting_gap(instance: Instance, lower: float, upper: float) -> float:
    """Return the gap between bounds on total latency, relative to the upper bound on the waiting.

    An upper bound below one round counts as one round. So if nothing waits, the gap is 0 up to
    rounding errors.
    """
    if not math.isfinite(upper):
        return 1.0
    least, most = (bound - instance.total_output_length for bound in (lower, upper))
    return max(0.0, (most - max(0, least)) / max(1, most))


def _ends(lower: int, upper: int) -> str:
    """Format an interval of integers, or the integer if both ends are equal."""
    return str(upper) if lower == upper else f"[{lower}, {upper}]"


def _decimals(lower: Any, upper: Any) -> str:
    """Format an interval with six decimals, rounded outward."""
    return f"[{math.floor(lower * 10**6) / 10**6:.6f}, {math.ceil(upper * 10**6) / 10**6:.6f}]"


def rounded_down(value: Fraction) -> float:
    """Return the largest float that is at most ``value``."""
    nearest = float(value)
    return math.nextafter(nearest, -math.inf) if Fraction(nearest) > value else nearest


def percent(share: float, form: str = "g") -> str:
    """Format a gap in per cent, rounded up, so that only a closed gap is shown as 0."""
    # The float 0.0123 must not be shown as 1.24 % just because it is slightly above 1.23 %.
    hundredths = max(math.ceil(round(1e4 * share, 6)), int(share > 0))
    return f"{hundredths / 100:{form}} %"
