"""Tasks of `measure_headroom`: `Serve` simulates a policy, and `Enclose` computes bounds."""

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
"""Latencies in a headroom report, each with the name of its column in `Run.per_request`."""


def p50_p99(column: FloatArray) -> tuple[float, float]:
    """Return the median and the 99th percentile of a column. Both are entries of the column.

    Entries that are not finite are left out. The results are NaN if no entry is finite.
    """
    known = column[np.isfinite(column)]
    if not len(known):
        return np.nan, np.nan
    low, high = np.percentile(known, (50, 99), method="inverted_cdf").tolist()
    return low, high


@dataclass(frozen=True, eq=False)
class Served:
    """Latencies of a completed simulation of a policy.

    Attributes
    ----------
    mean_latency : Fraction
        Mean seconds from arrival to completion of a request.
    figures : dict[str, tuple[float, float]]
        p50 and p99 in seconds of each latency in `METRICS`.
    on_time : Fraction or None
        Share of the requests on time; None without a service level.
    seconds : float
        Seconds that the simulation took on this computer.
    """

    mean_latency: Fraction
    figures: dict[str, tuple[float, float]]
    on_time: Fraction | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Failure:
    """Result of a task that failed.

    Attributes
    ----------
    reason : str
        Reason of the failure, in one line.
    is_error : bool
        Whether an unexpected exception ended the task. False if a value was refused or time ran
        out.
    """

    reason: str
    is_error: bool = True


@dataclass(frozen=True)
class Serve:
    """Task: simulate a policy on a number of replicas.

    Attributes
    ----------
    policy : str
        Label of the policy.
    replicas : int
        Number of replicas.
    error : float
        Error of the predicted output lengths that the policy gets. 0 for exact lengths.
    time_limit : float or None
        Largest number of seconds for the simulation. None for no limit.
    """

    policy: str
    replicas: int
    error: float = 0.0
    time_limit: float | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """Text for progress and remarks: policy, error of predictions, and number of replicas."""
        error = f", lengths off by {self.error:g}" if self.error else ""
        return f"{self.policy}{error}{_fleet(self.replicas)}"

    def run(self, question: Question, stop: Stop, threads: int | None) -> Served | Failure | None:
        """Simulate the policy and return its latencies, or the reason of a failure.

        None if ``stop`` returned True, so that the simulation did not end.
        """
        began, clock = time.monotonic(), Clock(self.time_limit, stop)
        run = simulate(
            question.workload.replaced(replicas=self.replicas),
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
    """Bounds on the mean latency, or on the share on time, of the best scheduler.

    Attributes
    ----------
    interval : Interval
        Interval that contains the least mean latency in seconds, or the largest share of requests
        on time. The lower end for latency, and the upper end for the share, are bounds on every
        scheduler, with any reuse of prompts. The other end is the value of a known schedule.
    bound : str
        Name of the method that computed the bound on every scheduler.
    certified : bool
        Whether this bound is computed in exact arithmetic or rounded outwards.
    without_reuse : Fraction or None
        Lower bound in seconds for schedulers without a prefix cache. None if prompts share no
        prefixes, or for shares on time.
    """

    interval: Interval
    bound: str
    certified: bool
    without_reuse: Fraction | None = None


@dataclass(frozen=True)
class Enclose:
    """Task: bound the least mean latency of all schedulers, or the largest share on time.

    If prompts share prefixes, schedules are searched in which every prompt is processed whole. The
    bounds on every scheduler are computed for prompts without the tokens that a prefix cache could
    supply. `instances.logs.prefixes` proves that these bounds hold for any reuse.

    Attributes
    ----------
    replicas : int
        Number of replicas.
    on_time : bool
        True bounds the share of requests on time, False the mean latency.
    time_limit : float
        Seconds for the solver.
    """

    replicas: int
    on_time: bool = False
    time_limit: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """Text for progress and remarks: the quantity bounded, and the number of replicas."""
        return f"{'requests on time' if self.on_time else 'best possible'}{_fleet(self.replicas)}"

    def run(self, question: Question, stop: Stop, threads: int | None) -> Bounds:
        """Run the solver until its time limit, or until ``stop`` is True; return its bounds."""
        from hindsight import OnTime
        from hindsight.solver import solve_until

        whole, level = question.workload.replaced(replicas=self.replicas), question.level
        shared = question.shared_tokens if question.reused else None

        def find(problem: Workload, preemption: str) -> Any:
            options: dict[str, Any] = {"preemption": preemption}
            if self.on_time and level is not None:
                options = {"goal": OnTime(level)}
            seconds = self.time_limit / (1 if shared is None else 2)
            return solve_until(stop, problem, seconds, threads=threads, **options)

        known = limit = find(whole, "recompute")
        if shared is not None:
            # A prefix cache may keep the tokens of a preempted request. So the bound is on
            # schedules in which preempted requests keep their tokens.
            limit = find(whole.replaced(prompt_lengths=whole.prompt_lengths - shared), "keep")
        lower, upper = (known, limit) if self.on_time else (limit, known)
        ends = (lower.lower_bound, upper.upper_bound, known.lower_bound)
        low, high, own = (Fraction(one) / len(whole) for one in ends)
        has_both = shared is not None and not self.on_time
        interval = Interval(low, high)
        return Bounds(interval, limit.best_bound, limit.certified, own if has_both else None)


def _fleet(replicas: int) -> str:
    return f", {replicas} replicas" if replicas > 1 else ""


Task = Serve | Enclose


def result_of(question: Question, task: Task, stop: Stop, threads: int | None) -> Any:
    """Return the result of a task, or a `Failure` if it raises an exception."""
    try:
        return task.run(question, stop, threads)
    except Exception as error:  # noqa: BLE001 (named in the answer)
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
        return Failure(reason, is_error=not isinstance(error, InvalidValueError))
