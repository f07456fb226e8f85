"""Optimisation problems: requests and machines, a goal, and the kind of preemption.

An `Instance` (times in rounds) or a `Workload` (times in seconds) has the requests with their
weights, the memory limit, the memory rule and the number of replicas. `Problem` adds the goal and
the kind of preemption.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from instances import FleetSchedule, Instance, PreemptiveSchedule, Schedule, SecondsSchedule
from instances.arrays import IntArray
from instances.errors import InvalidTypeError, InvalidValueError
from instances.problem.memory_rule import TOKENS
from instances.problem.memory_translation import pooled
from instances.problem.workload import Workload, as_problem
from instances.service_level import Limits, limits_of

from .goals import Goal, OnTime, Preemption, Tail


@dataclass(frozen=True, eq=False)
class Problem:
    """An optimisation problem: minimise a cost over the feasible schedules of some requests.

    Attributes
    ----------
    source : Instance or Workload
        The requests and the machines. Times are in rounds for an instance and in seconds for a
        workload.
    goal : Goal, default "latency"
        The cost to minimise.
    preemption : {"never", "keep", "recompute"}, default "never"
        Whether schedules may stop a request and resume it later. When resumed, the request still
        has its tokens (``"keep"``) or processes them again (``"recompute"``).
    """

    source: Any
    goal: Goal = "latency"
    preemption: Preemption = "never"

    @classmethod
    def checked(cls, source: Any, goal: Any, preemption: Any = None) -> Problem:
        """Check user input and return it as a problem.

        Parameters
        ----------
        source : Any
            An instance or a workload.
        goal : Any
            The goal, as in `Goal`.
        preemption : Any, default None
            The kind of preemption, as in `Preemption`. None means ``"never"`` for an instance and
            ``"keep"`` for a workload.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            The goal or the preemption is unknown, or it cannot be combined with the other or with
            the type of ``source``.
        """
        source = as_problem(source)
        if goal not in ("latency", "makespan") and not isinstance(goal, OnTime | Tail):
            kind = InvalidValueError if isinstance(goal, str) else InvalidTypeError
            raise kind(None, "goal", goal, "is not 'latency', 'makespan', OnTime(...) or Tail(...)")
        in_seconds = isinstance(source, Workload)
        default: Preemption = "keep" if in_seconds else "never"
        preemption = default if preemption is None else preemption
        if in_seconds and goal == "makespan":
            raise InvalidValueError(None, "goal", goal, "requires an Instance (times in rounds)")
        if preemption not in ((default, "recompute") if in_seconds else (default, "keep")):
            kinds = "'keep' or 'recompute'" if in_seconds else "'never' or 'keep'"
            reason = f"is not {kinds}, which {'a Workload' if in_seconds else 'an Instance'} takes"
            raise InvalidValueError(None, "preemption", preemption, reason)
        if goal != "latency" and preemption != default:
            reason = "requires the goal 'latency'"
            raise InvalidValueError(None, "preemption", preemption, reason)
        if preemption == "keep" and not in_seconds:
            source.refuse_weights("is not 1: with preemption every request counts alike")
        return cls(source, goal, preemption)

    @property
    def in_seconds(self) -> bool:
        """Return whether times are in seconds, not in rounds.

        In seconds, each round lasts as long as its batch takes.
        """
        return isinstance(self.source, Workload)

    @property
    def goal_name(self) -> str:
        """Return the name of the cost, for messages.

        It is "makespan", "total latency", or, if schedules may stop requests, "preemptive total
        latency". For the goals `OnTime` and `Tail`, this name is not meaningful.
        """
        if self.goal == "makespan":
            return "makespan"
        return "total latency" if self.preemption == "never" else "preemptive total latency"

    @property
    def is_plain(self) -> bool:
        """Return whether the problem has one machine, with memory counted in tokens, not blocks."""
        source = self.source
        return bool(source.replicas == 1 and source.memory_rule == TOKENS)

    @cached_property
    def below(self) -> Instance:
        """Return the relaxation of an instance to one machine whose memory is counted in tokens.

        The machine has the memory of all replicas together. Every schedule of the problem is
        feasible for it, so a lower bound on its optimum is a lower bound for the problem. If
        `is_plain`, the relaxation is `source` itself.
        """
        return pooled(self.source)

    @cached_property
    def limits(self) -> Limits | None:
        """Return the service-level limits of each request if the goal is `OnTime`, else None.

        A request is on time if its latency, time to first token and time per token keep its limits.
        """
        if not isinstance(self.goal, OnTime):
            return None
        return limits_of(self.goal.level, len(self.source))

    @property
    def part_kinds(self) -> tuple[type, ...]:
        """Return the classes that the schedule of a single replica may have.

        With preemption in rounds it may also be a `Schedule`, which stops no request.
        """
        if self.in_seconds:
            return (SecondsSchedule,)
        return (Schedule,) if self.preemption == "never" else (PreemptiveSchedule, Schedule)

    def as_own(self, schedule: Any) -> Any:
        """Convert a schedule without preemption to a `PreemptiveSchedule` if the problem needs it.

        Problems in rounds that allow preemption need it. In a schedule of several replicas, convert
        the schedule of each. For other problems, return the schedule unchanged.
        """
        if self.preemption == "never" or self.in_seconds:
            return schedule
        if isinstance(schedule, Schedule):
            return PreemptiveSchedule.from_schedule(schedule)
        if isinstance(schedule, FleetSchedule):
            parts = [self.as_own(part) for part in schedule.parts]
            return FleetSchedule(schedule.problem, schedule.assignment, parts)
        return schedule

    def cost(self, schedule: Any, served: IntArray | None = None) -> Any:
        """Return the cost of a schedule, which the goal minimises.

        It is the number of late requests for the goal `OnTime`, the makespan in rounds, or the
        total latency in rounds or float seconds.

        Parameters
        ----------
        schedule : Schedule, PreemptiveSchedule, SecondsSchedule or FleetSchedule
            A schedule of all requests of the problem, or of the requests in ``served``.
        served : int64 array or None, default None
            Indices of the scheduled requests, shape (k,), for the goal `OnTime`. Requests without a
            place in the schedule are late. None means that the schedule has all requests.
        """
        if self.limits is None:
            return schedule.makespan if self.goal == "makespan" else schedule.total_latency
        limits = self.limits if served is None else self.limits.of(served)
        return len(self.source) - int(np.count_nonzero(schedule.keeps(limits)))

    def check_start(self, start: Any) -> None:
        """Check that a schedule given by the user is a feasible schedule of the problem.

        Parameters
        ----------
        start : Any
            The schedule from which the solve shall start.

        Raises
        ------
        InvalidTypeError
            ``start`` is not a schedule of the required class.
        InvalidValueError
            ``start`` belongs to other requests, or is infeasible. Or it keeps the tokens of stopped
            requests although the problem has ``preemption="recompute"``.
        """
        # A fleet schedule has one part for each replica. The part is None if the replica has no
        # requests.
        parts = [one for one in getattr(start, "parts", [start]) if one is not None]
        are_known = all(isinstance(one, self.part_kinds) for one in parts)
        is_fleet = self.source.replicas > 1
        if isinstance(start, FleetSchedule) != is_fleet or not are_known:
            names = " or ".join(kind.__name__ for kind in self.part_kinds)
            reason = f"is not a {'FleetSchedule of parts of type ' if is_fleet else ''}{names}"
            raise InvalidTypeError(None, "start", start, reason)
        if start.problem is not self.source and not self.source.matches(start.problem):
            other = "another workload or batch time" if self.in_seconds else "another instance"
            raise InvalidValueError(None, "start", start, f"belongs to {other}")
        for violation in start.violations():
            raise InvalidValueError(None, "start", start, f"is infeasible: {violation}")
        if self.preemption == "recompute" and start.keeps_tokens:
            reason = "keeps tokens that preemption='recompute' processes again"
            raise InvalidValueError(None, "start", start, reason)


def busy_end(instance: Instance) -> int:
    """Return the last arrival plus the sum of all output lengths.

    Every optimal schedule of total latency, and some schedule of least makespan, completes by this
    round. Let such a schedule have an idle round after the last arrival, and a later one with a
    running request. Without the idle round, all later completions come a round earlier. So after
    the last arrival there is a running request in each round, and there are at most as many such
    rounds as output tokens.
    """
    return int(instance.arrival_times.max() + instance.output_lengths.sum())
