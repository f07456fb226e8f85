"""Results of a solve and of a relaxation: bounds on an optimum, their proofs, and their display."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from instances import Instance, InvalidValueError, KnownBounds, Workload
from instances.arrays import FloatArray

from .goals import Goal, OnTime, Preemption, Tail

Status = Literal["optimal", "feasible"]
StopReason = Literal["proof", "gap", "time-limit", "interrupted", "size", "stalled"]
RelaxationStop = Literal["optimal", "tolerance", "time-limit", "interrupted", "stalled"]

MEMORY_PRICES, STATE_PRICES, PROGRAM = "memory prices", "state prices", "integer program"
"""Names of the lower bounds that memory prices, state prices, and an integer program prove."""

NO_BOUND = "no cost is negative"
"""Name of the lower bound 0 on a cost. It always holds, and is shown if no other is proved."""


class Bound(NamedTuple):
    """A lower bound on the cost of every feasible schedule.

    Attributes
    ----------
    value : int or Fraction
        The bound, in rounds, seconds or late requests, as the goal counts the cost.
    certified : bool
        Whether the bound is proved in exact arithmetic or with directed rounding, without relying
        on a floating-point solver.
    claimed : bool, default False
        Whether the user claims the bound without a proof. Claimed bounds are reported, but no other
        number of the result depends on them.
    """

    value: Any
    certified: bool
    claimed: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress report of a solve: its bounds on the optimum at one moment.

    Attributes
    ----------
    seconds : float
        Seconds since the start of the solve.
    phase : str
        Phase of the solve that found the latest bound or schedule.
    lower_bound, upper_bound : int or float
        Bounds on the optimum: rounds for an instance, seconds of mean latency for a workload, or
        the number of requests on time for the goal `OnTime`.
    gap : float
        Relative gap between the bounds; see `Result.gap`.
    text : str
        The bounds in words, with their unit.
    """

    seconds: float
    phase: str
    lower_bound: Any
    upper_bound: Any
    gap: float
    text: str

    def __str__(self) -> str:
        return f"{self.phase}: {self.text}"


@dataclass(frozen=True, eq=False)
class Result:
    """Result of a solve: a lower and an upper bound on the optimum, and the best schedule found.

    If both bounds are equal, the schedule is proved optimal. The attribute ``preemption`` says over
    which schedules the optimum is taken:

    - ``"never"``: a request runs from start to end without a break. A scheduler that evicts a
      request and loses its work cannot beat this optimum. A scheduler that pauses a request and
      holds its memory cannot beat it either. A scheduler that stops a request, frees its memory and
      keeps its tokens can.
    - ``"keep"``: a request may be stopped, and resumes with its tokens.
    - ``"recompute"``: a request may be stopped, and processes its prompt and tokens again when it
      resumes.

    For a workload, whose times are in seconds, the lower bounds hold for every scheduler, whatever
    ``preemption`` is.

    Attributes
    ----------
    problem : Instance or Workload
        The problem solved.
    goal : Goal
        ``"latency"`` (total latency, with the weights of the requests), ``"makespan"``, `OnTime`
        or `Tail`.
    preemption : {"never", "keep", "recompute"}
        Whether schedules may stop a request and resume it, as described above.
    schedule : Schedule, PreemptiveSchedule, SecondsSchedule, FleetSchedule or None
        The best schedule found, checked to be feasible. With the goal ``OnTime(late="drop")`` it
        leaves out late requests, and is None if all requests are late.
    cost : int, float or Fraction
        Cost of ``schedule``: rounds for an instance, seconds for a workload, or the number of late
        requests for the goal `OnTime`.
    bounds : Mapping[str, Bound]
        Lower bounds on the cost, in the unit of ``cost``. Keys are the names of the methods that
        proved them.
    stop_reason : StopReason
        Why the solve ended: ``"proof"`` (the bounds are equal), ``"gap"`` (the requested gap is
        reached), ``"time-limit"``, ``"interrupted"``, ``"size"`` (the model of the next method
        would not fit into the time or memory left) or ``"stalled"`` (no method makes progress).
    runtime : float
        Running time in seconds.
    first_token_bound : float
        Lower bound, in seconds, on the mean time to first token of every schedule of a workload; 0
        for an instance.
    log : tuple[Progress, ...]
        One progress report for each improvement of a bound.
    proof : Any
        Proof of a lower bound, from which a certificate can be made. It consists of prices, or of a
        path graph, whose nodes are sets of running requests. If the instance has idle gaps (rounds
        in which no optimal schedule runs a request), the proof may prove slightly less than the
        value of its method in ``bounds``. None if there is no proof.
    """

    problem: Instance | Workload
    goal: Goal
    preemption: Preemption
    schedule: Any
    cost: Any
    bounds: Mapping[str, Bound]
    stop_reason: StopReason
    runtime: float = 0.0
    first_token_bound: float = 0.0
    log: tuple[Progress, ...] = ()
    proof: Any = None

    def __repr__(self) -> str:
        return f"Result({self.problem!r}, {self.status}, {self.text})"

    @property
    def text(self) -> str:
        """Return the interval between the bounds as text, with the cost's name and unit."""
        text = interval_text(self.problem, self.goal, self.lower_bound, self.upper_bound)
        is_default = self.preemption == ("keep" if isinstance(self.problem, Workload) else "never")
        return text if is_default else f"{text}, preemption {self.preemption!r}"

    @property
    def best_bound(self) -> str:
        """Return the name of the largest proved lower bound on the cost.

        If bounds of two methods are equal, it is the name of a certified one, if any.
        """
        proved = {name: one for name, one in self.bounds.items() if not one.claimed}
        return max(proved, key=lambda name: proved[name][:2], default=NO_BOUND)

    @property
    def lower_bound(self) -> Any:
        """Return the largest proved lower bound on the optimum.

        For the goal `OnTime` the optimum is the largest possible number of requests on time. So its
        lower bound is the number of requests on time in `schedule`.
        """
        return self._ends(certified=False)[0]

    @property
    def upper_bound(self) -> Any:
        """Return the smallest upper bound on the optimum: the cost of `schedule`.

        For the goal `OnTime` it is the smallest proved upper bound on the number of requests that
        any schedule has on time.
        """
        return self._ends(certified=False)[1]

    @property
    def certified_lower_bound(self) -> Any:
        """Return the largest lower bound on the optimum proved without a floating-point solver."""
        return self._ends(certified=True)[0]

    def _ends(self, *, certified: bool) -> tuple[Any, Any]:
        proved = [one for one in self.bounds.values() if not one.claimed]
        bound = max((one.value for one in proved if one.certified or not certified), default=0)
        if isinstance(self.goal, OnTime):
            count = len(self.problem)
            return count - self.cost, count - bound
        return bound, self.cost

    @property
    def certified(self) -> bool:
        """Return whether both bounds on the optimum are proved without a floating-point solver."""
        return self._ends(certified=True) == self._ends(certified=False)

    @property
    def status(self) -> Status:
        """Return ``"optimal"`` if lower and upper bound are exactly equal, else ``"feasible"``."""
        return "optimal" if self.lower_bound == self.upper_bound else "feasible"

    @property
    def gap(self) -> float:
        """Return the relative gap (upper - lower) / upper between the bounds on the optimum.

        For the goal `OnTime`, return (upper - lower) / number of requests.
        """
        return relative_gap(self.problem, self.goal, self.lower_bound, self.upper_bound)

    @property
    def certified_gap(self) -> float:
        """Return the relative gap between the bounds proved without a floating-point solver.

        It is computed as in `gap`.
        """
        return relative_gap(self.problem, self.goal, *self._ends(certified=True))

    @property
    def share_interval(self) -> tuple[float, float]:
        """Return a lower and an upper bound on the largest possible share of requests on time."""
        self._require(isinstance(self.goal, OnTime), "goal", self.goal, "is not OnTime")
        count = len(self.problem)
        return self.lower_bound / count, self.upper_bound / count

    @property
    def mean_latency_interval(self) -> tuple[float, float]:
        """Return a lower and an upper bound on the least mean latency.

        They are in rounds for an instance and in seconds for a workload. For an instance the mean
        is weighted. The lower bound is rounded down to a float, and the upper bound up.
        """
        problem = self._require_latency()
        count = problem.total_weight if isinstance(problem, Instance) else len(problem)
        lower, upper = Fraction(self.lower_bound, count), Fraction(self.upper_bound, count)
        return rounded_down(lower), -rounded_down(-upper)

    @property
    def waiting_interval(self) -> tuple[int, int]:
        """Return a certified lower bound and an upper bound on the least waiting, in rounds.

        Waiting is total latency minus the sum of output lengths. Total latency depends on the
        scheduler only through waiting. Waiting is never negative, so an upper bound of 0 proves
        that the schedule is optimal.

        Raises
        ------
        InvalidValueError
            The result is not about total latency in rounds.
        """
        lengths = self._require_latency(in_rounds=True).total_output_length
        return max(0, self.certified_lower_bound - lengths), self.upper_bound - lengths

    @property
    def waiting_gap(self) -> float:
        """Return the relative gap (upper - lower) / upper between the bounds of `waiting_interval`.

        It is 0 if no request waits in the best schedule.

        Raises
        ------
        InvalidValueError
            The result is not about total latency in rounds.
        """
        lower, upper = self.waiting_interval
        return (upper - lower) / max(1, upper)

    def known_bounds(self, source: str | None = None) -> KnownBounds:
        """Return the bounds and the schedule in the form that an instance file stores.

        For an instance with several replicas the schedule is left out.

        Parameters
        ----------
        source : str or None, default None
            Where the bounds come from, as text for the file.

        Raises
        ------
        InvalidValueError
            The bounds are not on total latency in rounds without preemption.
        """
        self._require_latency(in_rounds=True)
        self._require(self.preemption == "never", "preemption", self.preemption, "is not 'never'")
        is_fleet, bounds = self.problem.replicas > 1, (self.upper_bound, self.lower_bound)
        starts = None if is_fleet else self.schedule.start_times.tolist()
        return KnownBounds(*bounds, self.certified_lower_bound, starts, source)

    def _require_latency(self, *, in_rounds: bool = False) -> Any:
        self._require(self.goal == "latency", "goal", self.goal, "is not 'latency'")
        fits = not in_rounds or isinstance(self.problem, Instance)
        self._require(fits, "problem", self.problem, "is not an Instance (times in rounds)")
        return self.problem

    def _require(self, holds: bool, field: str, value: object, reason: str) -> None:
        if not holds:
            raise InvalidValueError("result", field, value, reason)


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Lower bound on total latency from a linear relaxation, with the prices that prove it.

    The relaxation is that of the integer program with a variable x[i,t] for each request i and
    start t.

    Attributes
    ----------
    instance : Instance
        The instance that was relaxed.
    objective : float
        Value of the relaxation in rounds, in floating point. For the method ``"lp"`` it is the
        value that HiGHS returns. For ``"lagrangian"`` it is the lower bound that ``prices`` prove,
        before it is rounded up.
    certified_bound : int
        Lower bound on the least total latency, in rounds, evaluated exactly from ``prices``.
    expected_start_times : float64 array
        Mean start of each request in rounds, shape (n,). It is the sum over t of t x[i,t], where
        x[i,t] is the fraction of request i that starts in round t. Requests with equal arrival and
        lengths have equal mean starts.
    prices : MemoryPrices
        Exact dual prices, which prove ``certified_bound``. They can be given to
        `hindsight.make_certificate`, or returned by a user-defined bound (``bounds`` of
        `hindsight.solve`). If there are more than 10^7 rounds, they may prove less than
        ``certified_bound``.
    runtime : float
        Running time in seconds.
    method : {"lp", "lagrangian"}
        ``"lp"``: HiGHS solved the linear program over all starts. ``"lagrangian"``: dual ascent in
        the memory prices of that program.
    stop_reason : {"optimal", "tolerance", "time-limit", "interrupted", "stalled"}
        Why the method ended. It is ``"optimal"`` for the method ``"lp"``.
    """

    instance: Instance
    objective: float
    certified_bound: int
    expected_start_times: FloatArray = field(repr=False)
    prices: Any = field(repr=False)
    runtime: float
    method: Literal["lp", "lagrangian"] = "lp"
    stop_reason: RelaxationStop = "optimal"


def interval_text(problem: Instance | Workload, goal: Goal, lower: Any, upper: Any) -> str:
    """Format an interval of bounds on the optimum as text, with the name and unit of the cost.

    The lower end is rounded down and the upper end is rounded up. For a workload with the goal
    ``"latency"`` the given bounds are on total latency, and the text is about mean latency.
    """
    if isinstance(goal, OnTime):
        return f"{_ends(lower, upper)} of {len(problem)} requests on time"
    in_seconds = isinstance(problem, Workload)
    unit = "s" if in_seconds else "rounds"
    if isinstance(goal, Tail):
        name = f"p{100 * goal.quantile:g} of {goal.of.replace('_', ' ')}"
        whole = not in_seconds and math.isfinite(upper)
        ends = _ends(int(lower), int(upper)) if whole else _decimals(lower, upper)
        return f"{name} {ends} {unit}"
    if not in_seconds:
        name = "makespan" if goal == "makespan" else "total latency"
        return f"{name} {_ends(lower, upper)} {unit}"
    count = len(problem)
    return f"mean latency {_decimals(lower / count, upper / count)} s"


def relative_gap(problem: Instance | Workload, goal: Goal, lower: Any, upper: Any) -> float:
    """Return the relative gap (upper - lower) / upper between two bounds on the optimum.

    For the goal `OnTime`, return (upper - lower) / number of requests.
    """
    whole = len(problem) if isinstance(goal, OnTime) else upper
    return float((upper - lower) / whole) if whole else 0.0


def _ends(lower: int, upper: int) -> str:
    """Format the interval of two integers as text, as a single integer if they are equal."""
    return str(upper) if lower == upper else f"[{lower}, {upper}]"


def _decimals(lower: Any, upper: Any) -> str:
    """Format an interval with six decimals: ``lower`` rounded down, ``upper`` rounded up."""
    return f"[{math.floor(lower * 10**6) / 10**6:.6f}, {math.ceil(upper * 10**6) / 10**6:.6f}]"


def rounded_down(value: Fraction) -> float:
    """Return the largest float that is at most ``value``."""
    nearest = float(value)
    return math.nextafter(nearest, -math.inf) if Fraction(nearest) > value else nearest


def percent(share: float, form: str = "g") -> str:
    """Format a share in per cent with two decimals, rounded up: only a gap of 0 is shown as 0 %.

    Parameters
    ----------
    share : float
        The share, often a relative gap; 0.01 is one per cent.
    form : str, default "g"
        Format specification of the number.
    """
    # Remove float errors before rounding up: 1e4 * 0.0051 is slightly above 51, but 0.0051 must
    # be shown as 0.51 %, not as 0.52 %.
    hundredths = max(math.ceil(round(1e4 * share, 6)), int(share > 0))
    return f"{hundredths / 100:{form}} %"
