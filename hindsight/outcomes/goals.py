"""Goals of a solve, and the cost of a schedule by each of them.

Every goal is minimised. Requests on time are counted the other way round, as requests that are
late, and a `Result` turns them back.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

from instances import (
    FleetSchedule,
    Instance,
    InvalidTypeError,
    InvalidValueError,
    PreemptiveSchedule,
    Schedule,
    SecondsSchedule,
    Workload,
)
from instances.batch_time.exact import exact_seconds
from instances.problem.schedule import TimedSchedule
from instances.service_level import AnyLevel, Limits
from instances.validation import as_fraction

Preemption = Literal["never", "keep", "recompute"]
"""Whether a running request may be stopped, and with which tokens it comes back."""

Optimum = Literal["latency", "makespan", "preemptive"]
"""What is minimised in rounds, and whether requests may be stopped."""

PREEMPTIVE: Optimum = "preemptive"

GOAL_NAMES: dict[Optimum, str] = {
    "latency": "total latency",
    "makespan": "makespan",
    "preemptive": "preemptive total latency",
}
"""Names of what is minimised, in sentences."""

Late = Literal["drop", "serve"]
"""Whether late requests are left out of a schedule, or served as well."""

TailOf = Literal["latency", "first_token"]
"""Time from arrival to the last token, or to the first."""


@dataclass(frozen=True)
class OnTime:
    """The most requests on time.

    The optimum is the same whether late requests are dropped or served, because they can be served
    after all others. Only the schedule differs. Weights do not count.

    Parameters
    ----------
    level : ServiceLevel or Sequence[ServiceLevel]
        Limits for all requests, or one level for each, in rounds or in seconds.
    late : {"drop", "serve"}, default "drop"
        Whether the schedule leaves late requests out, or serves them too.

    Raises
    ------
    InvalidValueError
        ``late`` is neither.
    """

    level: AnyLevel
    late: Late = "drop"

    def __post_init__(self) -> None:
        if self.late not in get_args(Late):
            raise InvalidValueError("OnTime", "late", self.late, "is not one of drop, serve")


@dataclass(frozen=True)
class Tail:
    """The least quantile of a time.

    Parameters
    ----------
    quantile : float
        Above 0, at most 1: 0.99 is p99, the k-th smallest of n values, where k is n times this,
        rounded up.
    of : {"latency", "first_token"}, default "latency"
        Time from arrival to the last token, or to the first.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        The quantile is not a number in this range, or ``of`` is neither.
    """

    quantile: float
    of: TailOf = "latency"

    def __post_init__(self) -> None:
        as_fraction(self.quantile, "Tail", "quantile", above=0, maximum=1)
        if self.of not in get_args(TailOf):
            known = ", ".join(get_args(TailOf))
            raise InvalidValueError("Tail", "of", self.of, f"is not one of {known}")


Goal: TypeAlias = Literal["latency", "makespan"] | OnTime | Tail


def checked_goal(goal: Any) -> Goal:
    """Return the goal.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        It is not a goal.
    """
    if isinstance(goal, OnTime | Tail) or (
        isinstance(goal, str) and goal in ("latency", "makespan")
    ):
        return goal  # type: ignore[return-value]
    reason = "is not 'latency', 'makespan', OnTime(...) or Tail(...)"
    kind = InvalidValueError if isinstance(goal, str) else InvalidTypeError
    raise kind(None, "goal", goal, reason)


def kind_of(problem: Instance | Workload, preemption: Preemption) -> type[TimedSchedule]:
    """Return the class of the schedules of a problem."""
    if problem.replicas > 1:
        return FleetSchedule
    if isinstance(problem, Workload):
        return SecondsSchedule
    return Schedule if preemption == "never" else PreemptiveSchedule


def as_preemptive(schedule: Any) -> Any:
    """Return a schedule of the preemptive optimum, from one of either kind."""
    if isinstance(schedule, Schedule):
        return PreemptiveSchedule.from_schedule(schedule)
    if isinstance(schedule, FleetSchedule) and isinstance(schedule.problem, Instance):
        parts = [as_preemptive(part) for part in schedule.parts]
        return FleetSchedule(schedule.problem, schedule.assignment, parts)
    return schedule


def cost_of(schedule: Any, goal: Goal) -> Any:
    """Return the latency or makespan of a schedule, in rounds or in float seconds."""
    return schedule.makespan if goal == "makespan" else schedule.total_latency


def exact_total_latency(schedule: Any) -> Fraction | None:
    """Return total latency as a fraction, or None if the batch time is not known exactly.

    Arrival times are the decimals they are written as, and so is the start of a round where the
    schedule has the machine wait for it.
    """
    if exact_seconds(schedule.problem.batch_time) is None:
        return None
    return sum((sum(one.exact_times[0]) for one in schedule.machines), Fraction(0))


def on_time(schedule: TimedSchedule, limits: Limits) -> int:
    """Return how many requests of a schedule keep their limits."""
    return int(schedule.keeps(limits).sum())
