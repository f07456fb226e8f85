"""Results of `hindsight.attainment`, and the interval that it closes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from hindsight.outcomes.errors import ScheduleCheckError
from hindsight.outcomes.results import Interval, SolveStatus
from hindsight.runtime.clock import Clock
from instances import Instance, Workload
from instances.arrays import IntArray
from instances.html import figure_of
from instances.problem.schedule import TimedSchedule
from instances.service_level import AnyLevel, Limits

Late = Literal["drop", "serve"]
"""What becomes of late requests: they are left out, or served as well."""

AttainmentStop = Literal["proof", "gap", "time-limit", "interrupted", "stalled"]

NO_LIMIT = "every request may be on time"
"""Name of the bound that always holds."""


@dataclass(frozen=True, slots=True)
class AttainmentProgress(Interval[int]):
    """Progress of `hindsight.attainment`; the interval is around the most requests on time.

    Attributes
    ----------
    requests : int
        How many there are.
    """

    requests: int

    @property
    def gap(self) -> float:
        """Return the width of the share of requests on time; it may be that none can be."""
        return (self.upper_bound - self.lower_bound) / self.requests

    def __str__(self) -> str:
        told = _told(self.lower_bound, self.upper_bound)
        return f"{self.phase}: {told} of {self.requests} requests on time"


@dataclass(frozen=True, eq=False)
class AttainmentResult:
    """An interval around the most requests that any scheduler can serve on time.

    "Any scheduler" includes those that know the future. In rounds they run each request from start
    to end; in seconds they may also preempt and come back with the tokens, and split prompts.

    Attributes
    ----------
    problem : Instance or Workload
        The requests.
    level : ServiceLevel or Sequence[ServiceLevel]
        The service level asked for, of all requests or of each.
    late : {"drop", "serve"}
        What becomes of late requests.
    lower_bound : int
        Requests on time in ``schedule``.
    upper_bound : int
        No scheduler has more on time.
    schedule : Schedule, SecondsSchedule, FleetSchedule or None
        The best schedule found, checked. With ``late="drop"`` it has the requests on time, and is
        None if there are none; with ``late="serve"`` it has all requests.
    best_bound : str
        Name of ``upper_bound``.
    certified : bool
        True if ``upper_bound`` is proved in exact arithmetic or with directed rounding; False if it
        rests on a solver in floating point.
    stop_reason : str
        ``"proof"`` (the bounds meet), ``"gap"`` (the gap asked for is reached), ``"time-limit"``,
        ``"interrupted"`` or ``"stalled"`` (no method here continues).
    runtime : float
        Seconds.
    log : tuple[AttainmentProgress, ...]
        One line for each improvement.
    """

    problem: Instance | Workload
    level: AnyLevel
    late: Late
    lower_bound: int
    upper_bound: int
    schedule: TimedSchedule | None
    best_bound: str
    certified: bool
    stop_reason: AttainmentStop
    runtime: float
    log: tuple[AttainmentProgress, ...] = ()

    def __repr__(self) -> str:
        told = _told(self.lower_bound, self.upper_bound)
        return f"AttainmentResult({self.problem!r}, {self.status}, {told} requests on time)"

    def _repr_html_(self) -> str:
        lower, upper = self.share_interval
        level = self.level if not isinstance(self.level, (list, tuple)) else "one for each request"
        facts = {
            "requests": len(self.problem),
            "service level": str(level),
            "on time at most": f"{self.upper_bound} ({100 * upper:.2f} %)",
            "on time in this schedule": f"{self.lower_bound} ({100 * lower:.2f} %)",
            "upper bound": self.best_bound + (", certified" if self.certified else ""),
            "runtime": f"{self.runtime:.3g} s",
        }
        picture = "" if self.schedule is None else self.schedule.picture()
        return figure_of("AttainmentResult", self.problem.name, facts, picture)

    @property
    def share_interval(self) -> tuple[float, float]:
        """Return bounds (lower, upper) on the largest share of requests on time."""
        count = len(self.problem)
        return self.lower_bound / count, self.upper_bound / count

    @property
    def status(self) -> SolveStatus:
        """Return the status, ``"optimal"`` only if the bounds meet."""
        return "optimal" if self.lower_bound == self.upper_bound else "feasible"

    @property
    def gap(self) -> float:
        """Return the width of `share_interval`."""
        lower, upper = self.share_interval
        return upper - lower


def _told(lower: int, upper: int) -> str:
    return str(lower) if lower == upper else f"[{lower}, {upper}]"


@dataclass(eq=False, repr=False)
class OnTime:
    """Best schedule, upper bound, clock and log of one search for requests on time.

    Attributes
    ----------
    problem : Instance or Workload
        The requests.
    limits : Limits
        Limits of each request, infinite where there are none.
    clock : Clock
        When to stop.
    callback : Callable[[AttainmentProgress], None] or None
        Called with every improvement.
    gap : float
        Width of the share at which to stop.
    phase : str
        What is going on.
    schedule : Schedule, SecondsSchedule, FleetSchedule or None
        The best schedule so far, of the requests `served`.
    lower, upper : int
        The interval.
    """

    problem: Instance | Workload
    limits: Limits
    clock: Clock
    callback: Callable[[AttainmentProgress], None] | None = None
    gap: float = 0.0
    phase: str = "schedules"
    schedule: TimedSchedule | None = None
    served: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    lower: int = 0
    best_bound: str = NO_LIMIT
    certified: bool = True
    log: list[AttainmentProgress] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.upper = len(self.problem)

    @property
    def is_over(self) -> bool:
        """Tell whether the interval is as narrow as asked for, or the clock requires a stop."""
        return self.is_close or self.clock.must_stop()

    @property
    def is_close(self) -> bool:
        """Tell whether the bounds are as near to each other as asked for."""
        return self.upper - self.lower <= self.gap * len(self.problem)

    def offer(self, schedule: TimedSchedule, served: IntArray) -> None:
        """Keep a schedule of the requests at the positions ``served`` if it has more on time.

        Raises
        ------
        ScheduleCheckError
            The schedule is infeasible, or it beats the upper bound.
        """
        count = int(schedule.keeps(self.limits.of(served)).sum())
        if count <= self.lower and self.schedule is not None:
            return
        violations = schedule.violations()
        if violations:
            raise ScheduleCheckError(f"a schedule is infeasible: {violations[0]}")
        self.schedule, self.served, self.lower = schedule, served, count
        self._tell()

    def limit(self, upper: int, name: str, *, certified: bool = True) -> None:
        """Keep an upper bound if it is smaller than the present one."""
        if upper >= self.upper:
            return
        self.upper, self.best_bound, self.certified = upper, name, certified
        self._tell()

    def _tell(self) -> None:
        if self.lower > self.upper:
            raise ScheduleCheckError(
                f"the upper bound {self.best_bound!r} of {self.upper} requests on time contradicts "
                f"a schedule with {self.lower}"
            )
        seconds, requests = self.clock.seconds(), len(self.problem)
        line = AttainmentProgress(seconds, self.phase, self.upper, self.lower, requests)
        self.log.append(line)
        if self.callback is not None:
            self.callback(line)
