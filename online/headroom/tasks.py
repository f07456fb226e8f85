"""Computations of an answer, each a class with a name and `run`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, TypeVar

import numpy as np

from hindsight.outcomes.goals import exact_total_latency
from hindsight.runtime.clock import Clock
from instances import InvalidValueError, Workload
from instances.arrays import IntArray
from instances.problem.fleet_schedule import by_replica
from online.policy_interface.predictions import RelativePredictions
from online.simulation.simulator import simulate
from online.trials.intervals import Interval

from .measured import METRICS, Served, p50_p99
from .question import Place, Question

Stop = Callable[[], bool]
Found = TypeVar("Found")


@dataclass(frozen=True)
class Failure:
    """Why a computation has no result.

    Attributes
    ----------
    reason : str
        In one line.
    is_error : bool
        Whether it is an exception, rather than a refusal or a time limit.
    """

    reason: str
    is_error: bool = True


class Task(Protocol):
    """A computation. Equal tasks have equal results."""

    @property
    def name(self) -> str:
        """What messages call it."""

    def run(self, question: Question, stop: Stop, threads: int | None) -> Any:
        """Compute it, until ``stop`` returns True."""


def result_of(question: Question, task: Task, stop: Stop, threads: int | None) -> Any:
    """Compute a task; an exception becomes its result, so that other results are kept."""
    try:
        return task.run(question, stop, threads)
    except InvalidValueError as refusal:
        return Failure(_one_line(refusal), is_error=False)
    except Exception as error:  # noqa: BLE001 (named in the answer)
        return Failure(_one_line(error))


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")


@dataclass(frozen=True)
class Serve:
    """Simulate a policy.

    Attributes
    ----------
    policy : str
        Label.
    place : Place
        Memory, arrivals and replicas.
    error : float
        Error of the output lengths that the policy is given.
    router : str or None
        Label of the router; None takes that of today.
    time_limit : float or None
        Seconds.
    """

    policy: str
    place: Place
    error: float = 0.0
    router: str | None = None
    time_limit: float | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The policy, its router, and the error of predictions."""
        router = f" behind {self.router}" if self.router else ""
        error = f", lengths off by {self.error:g}" if self.error else ""
        return f"{self.policy}{router}{error}{self.place}"

    def run(self, question: Question, stop: Stop, threads: int | None) -> Served | Failure:
        """Simulate, and check the schedule."""
        clock = Clock(self.time_limit, stop)
        options: dict[str, Any] = {
            "seed": question.seed,
            "level": question.level,
            "predictions": RelativePredictions(self.error) if self.error else None,
            "should_stop": clock.must_stop,
        }
        spec, router = question.specs[self.policy], question.router_at(self.place)
        if self.router is not None:
            router = question.ways[self.router]
        run = simulate(question.at(self.place), spec, router=router, **options)
        if run.status != "completed":
            return Failure(f"did not end: {run.status}", is_error=False)
        total = exact_total_latency(run.schedule)
        total = Fraction(run.schedule.total_latency) if total is None else total
        columns, count = run.per_request(), len(question.workload)
        on_time = int(run.on_time(question.level).sum()) if question.level else 0
        return Served(
            total / count,
            {name: p50_p99(np.asarray(columns[key])) for name, key in METRICS.items()},
            float(columns["ttft"].mean()),
            Fraction(on_time, count) if question.level else None,
            None if router is None else run.replica,
        )


@dataclass(frozen=True)
class Bounds:
    """Bounds on what the best scheduler has.

    Attributes
    ----------
    interval : Interval
        Around the least mean latency, or the largest share on time. The end that bounds every
        scheduler allows for any reuse of prompts.
    bound : str
        Name of the bound that holds for every scheduler.
    certified : bool
        Whether it is computed exactly or rounded outwards.
    without_reuse : Fraction or None
        Lower bound for schedulers that process every prompt whole, where prompts share prefixes.
    """

    interval: Interval
    bound: str
    certified: bool
    without_reuse: Fraction | None = None


@dataclass(frozen=True)
class Enclose:
    """Bound the least mean latency of all schedulers at a place within a time limit."""

    place: Place
    time_limit: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """The place."""
        return f"best possible{self.place}"

    def run(self, question: Question, stop: Stop, threads: int | None) -> Bounds:
        """Search for schedules and bounds."""
        workload = question.at(self.place)
        return _least_latency(
            workload, question.shared_tokens, self.time_limit, stop, threads, question.seed
        )


@dataclass(frozen=True)
class Attain:
    """Bound the largest share of requests on time at a place within a time limit."""

    place: Place
    time_limit: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """The place."""
        return f"requests on time{self.place}"

    def run(self, question: Question, stop: Stop, threads: int | None) -> Bounds:
        """Search for schedules and bounds."""
        from hindsight import OnTime
        from hindsight.solver import solve_until

        assert question.level is not None
        goal, count = OnTime(question.level), len(question.workload)

        def find(problem: Workload, seconds: float) -> Any:
            return solve_until(
                stop, problem, seconds, goal=goal, threads=threads, seed=question.seed
            )

        workload, shared = question.at(self.place), question.shared_tokens
        known, limit = _with_and_without_reuse(workload, shared, self.time_limit, find)
        ends = Fraction(int(known.lower_bound), count), Fraction(int(limit.upper_bound), count)
        return Bounds(Interval(*ends), limit.best_bound, limit.certified)


@dataclass(frozen=True)
class Route:
    """Bound the least mean latency of all schedulers that leave requests where a router sent them.

    Attributes
    ----------
    router : str
        Label.
    assignment : int64 array
        Replica of each request.
    time_limit : float
        Seconds for all replicas.
    """

    router: str
    assignment: IntArray | None = field(default=None, compare=False, repr=False)
    time_limit: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """The router."""
        return f"best possible with the routing of {self.router}"

    def run(self, question: Question, stop: Stop, threads: int | None) -> Interval:
        """Bound each replica by itself: no replica depends on another."""
        assert self.assignment is not None
        workload, shared = question.workload, question.shared_tokens
        parts = [own for own in by_replica(self.assignment, workload.replicas) if len(own)]
        totals = []
        for own in parts:
            found = _least_latency(
                workload.alone(own),
                None if shared is None else shared[own],
                self.time_limit / len(parts),
                stop,
                threads,
                question.seed,
            )
            totals.append(found.interval.times(len(own)))
        return Interval.sum_of(totals).times(Fraction(1, len(workload)))


def _least_latency(
    workload: Workload,
    shared: IntArray | None,
    time_limit: float,
    stop: Stop,
    threads: int | None,
    seed: int,
) -> Bounds:
    """Bound the least mean latency of all schedulers."""
    from hindsight.solver import solve_until

    def find(problem: Workload, seconds: float) -> Any:
        # A preempted request may find its own tokens again in a prefix cache.
        preemption: Any = "recompute" if problem is workload else "keep"
        options: dict[str, Any] = {"threads": threads, "seed": seed}
        return solve_until(stop, problem, seconds, preemption=preemption, **options)

    known, limit = _with_and_without_reuse(workload, shared, time_limit, find)
    count = len(workload)
    interval = Interval(Fraction(limit.lower_bound) / count, Fraction(known.upper_bound) / count)
    whole = None if limit is known else Fraction(known.lower_bound) / count
    return Bounds(interval, limit.best_bound, limit.certified, whole)


def _with_and_without_reuse(
    workload: Workload,
    shared: IntArray | None,
    seconds: float,
    find: Callable[[Workload, float], Found],
) -> tuple[Found, Found]:
    """Search with whole prompts for schedules, and for bounds with what any reuse leaves of them.

    `instances.logs.prefixes` proves that bounds for the shorter prompts hold for whole ones,
    whatever is reused. Where no reuse is known, both results are the same object.
    """
    if shared is None or not shared.any():
        found = find(workload, seconds)
        return found, found
    shorter = workload.replaced(prompt_lengths=workload.prompt_lengths - shared)
    return find(workload, seconds / 2), find(shorter, seconds / 2)
