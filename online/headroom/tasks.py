"""Computations of an answer, each a class with a name and `run`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from hindsight.outcomes.goals import exact_total_latency
from hindsight.runtime.clock import Clock
from instances import InvalidValueError, Workload
from online.policy_interface.predictions import RelativePredictions
from online.simulation.simulator import simulate
from online.trials.intervals import Interval

from .measured import METRICS, Served, p50_p99
from .question import Place, Question

Stop = Callable[[], bool]
KEPT = ("recompute", "keep")
"""Preemption that bounds allow for, of whole prompts and of those without shared prefixes."""


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
            Fraction(on_time, count) if question.level else None,
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
    """Bound the least mean latency of all schedulers at a place, or the largest share on time.

    With shared prompts, schedules are searched for whole prompts, and bounds for what any reuse
    leaves of them: `instances.logs.prefixes` proves that these hold whatever is reused.

    Attributes
    ----------
    place : Place
        Memory, arrivals and replicas.
    on_time : bool
        Whether the goal is the share of requests on time.
    time_limit : float
        Seconds.
    """

    place: Place
    on_time: bool = False
    time_limit: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """The goal and the place."""
        return f"{'requests on time' if self.on_time else 'best possible'}{self.place}"

    def run(self, question: Question, stop: Stop, threads: int | None) -> Bounds:
        """Search for schedules and bounds."""
        from hindsight import OnTime
        from hindsight.solver import solve_until

        whole, shared = question.at(self.place), question.shared_tokens
        count, reuses = len(whole), shared is not None and bool(shared.any())
        options: dict[str, Any] = {"threads": threads, "seed": question.seed}
        if self.on_time and question.level is not None:
            options["goal"] = OnTime(question.level)

        def find(problem: Workload) -> Any:
            # A preempted request may find its own tokens again in a prefix cache.
            preemption = {} if self.on_time else {"preemption": KEPT[problem is not whole]}
            seconds = self.time_limit / (2 if reuses else 1)
            return solve_until(stop, problem, seconds, **options, **preemption)

        known = limit = find(whole)
        if shared is not None and reuses:
            limit = find(whole.replaced(prompt_lengths=whole.prompt_lengths - shared))
        ends = (known, limit) if self.on_time else (limit, known)
        low, high = Fraction(ends[0].lower_bound) / count, Fraction(ends[1].upper_bound) / count
        lower = Fraction(known.lower_bound) / count if reuses and not self.on_time else None
        return Bounds(Interval(low, high), limit.best_bound, limit.certified, lower)


Task = Serve | Enclose


def result_of(question: Question, task: Task, stop: Stop, threads: int | None) -> Any:
    """Compute a task; an exception becomes its result, so that other results are kept."""
    try:
        return task.run(question, stop, threads)
    except Exception as error:  # noqa: BLE001 (named in the answer)
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
        return Failure(reason, is_error=not isinstance(error, InvalidValueError))
