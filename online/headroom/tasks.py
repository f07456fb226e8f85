"""Computations of an answer, each a class with a name and `run`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from hindsight.runtime.clock import Clock
from instances import InvalidValueError, Workload
from instances.arrays import FloatArray
from online.policy_interface.predictions import RelativePredictions
from online.simulation.simulator import simulate
from online.trials.intervals import Interval, total_of

from .question import Question

Stop = Callable[[], bool]

METRICS = {"TTFT": "ttft", "TPOT": "tpot", "latency": "e2el"}
"""Columns of a run by the names of their figures."""


def p50_p99(column: FloatArray) -> tuple[float, float]:
    """Return the entries that 50 % and 99 % do not exceed; nothing is interpolated."""
    known = column[np.isfinite(column)]
    if not len(known):
        return np.nan, np.nan
    low, high = np.percentile(known, (50, 99), method="inverted_cdf").tolist()
    return low, high


@dataclass(frozen=True, eq=False)
class Served:
    """Figures of a simulation.

    Attributes
    ----------
    mean_latency : Fraction
        Seconds per request.
    figures : dict[str, tuple[float, float]]
        p50 and p99 of `METRICS`, seconds.
    on_time : Fraction or None
        Share of the requests on time; None without a service level.
    seconds : float
        Time that the simulation took.
    """

    mean_latency: Fraction
    figures: dict[str, tuple[float, float]]
    on_time: Fraction | None = None
    seconds: float = 0.0


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
    replicas : int
        Their number.
    error : float
        Error of the output lengths that the policy is given.
    time_limit : float or None
        Seconds.
    """

    policy: str
    replicas: int
    error: float = 0.0
    time_limit: float | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The policy, the error of predictions, and the number of replicas."""
        error = f", lengths off by {self.error:g}" if self.error else ""
        return f"{self.policy}{error}{_fleet(self.replicas)}"

    def run(self, question: Question, stop: Stop, threads: int | None) -> Served | Failure | None:
        """Simulate, and check the schedule; None if ``stop`` ends it."""
        began, clock = time.monotonic(), Clock(self.time_limit, stop)
        run = simulate(
            question.workload.with_replicas(self.replicas),
            question.specs[self.policy],
            router=question.router_of(self.replicas),
            level=question.level,
            predictions=RelativePredictions(self.error) if self.error else None,
            should_stop=clock.must_stop,
        )
        if clock.is_interrupted and run.status == "time-limit":
            return None
        if run.status == "time-limit":
            return Failure(f"takes longer than {self.time_limit:.3g} s", is_error=False)
        if run.status != "completed":
            return Failure(f"does not end: {run.status}", is_error=False)
        columns, count, level = run.per_request(), len(question.workload), question.level
        return Served(
            Fraction(total_of(run.schedule)) / count,
            {name: p50_p99(np.asarray(columns[key])) for name, key in METRICS.items()},
            Fraction(int(run.on_time(level).sum()), count) if level else None,
            time.monotonic() - began,
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
    """Bound the least mean latency of all schedulers, or the largest share on time.

    With shared prompts, schedules are searched for whole prompts, and bounds for what any reuse
    leaves of them: `instances.logs.prefixes` proves that these hold whatever is reused.

    Attributes
    ----------
    replicas : int
        Their number.
    on_time : bool
        Whether the goal is the share of requests on time.
    time_limit : float
        Seconds.
    """

    replicas: int
    on_time: bool = False
    time_limit: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """The goal and the number of replicas."""
        return f"{'requests on time' if self.on_time else 'best possible'}{_fleet(self.replicas)}"

    def run(self, question: Question, stop: Stop, threads: int | None) -> Bounds:
        """Search for schedules and bounds."""
        from hindsight import OnTime
        from hindsight.solver import solve_until

        whole, level = question.workload.with_replicas(self.replicas), question.level
        shared = question.shared_tokens if question.reused else None

        def find(problem: Workload, preemption: str) -> Any:
            options: dict[str, Any] = {"preemption": preemption}
            if self.on_time and level is not None:
                options = {"goal": OnTime(level)}
            seconds = self.time_limit / (1 if shared is None else 2)
            return solve_until(stop, problem, seconds, threads=threads, **options)

        known = limit = find(whole, "recompute")
        if shared is not None:
            # A preempted request may find its own tokens again in a prefix cache.
            limit = find(whole.replaced(prompt_lengths=whole.prompt_lengths - shared), "keep")
        lower, upper = (known, limit) if self.on_time else (limit, known)
        low, high, own = (
            Fraction(one) / len(whole)
            for one in (lower.lower_bound, upper.upper_bound, known.lower_bound)
        )
        has_both = shared is not None and not self.on_time
        interval = Interval(low, high)
        return Bounds(interval, limit.best_bound, limit.certified, own if has_both else None)


def _fleet(replicas: int) -> str:
    return f", {replicas} replicas" if replicas > 1 else ""


Task = Serve | Enclose


def result_of(question: Question, task: Task, stop: Stop, threads: int | None) -> Any:
    """Compute a task; an exception becomes its result, so that other results are kept."""
    try:
        return task.run(question, stop, threads)
    except Exception as error:  # noqa: BLE001 (named in the answer)
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
        return Failure(reason, is_error=not isinstance(error, InvalidValueError))
