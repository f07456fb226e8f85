"""What is computed, one task at a time, in a worker process or in this one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from instances import Workload
from instances.arrays import FloatArray
from instances.batch_time import BatchTime
from online.comparison.ratios import Interval
from online.comparison.running import find_optimum, run_policy
from online.comparison.trial import one_line
from online.policy_interface.predictions import RelativePredictions
from online.policy_interface.specs import PolicySpec

from .demand import load
from .over_time import OverTime, over_time, stretch_seconds


@dataclass(frozen=True, eq=False)
class PolicyRun:
    """What came of a policy.

    Attributes
    ----------
    policy : str
        Label.
    error : float
        Mean share of the truth by which the output lengths it was told are off; 0 for exact ones.
    mean_latency : Fraction or None
        Seconds a request; None where it did not complete.
    reason : str or None
        Why it did not.
    latencies, first_tokens : float64 array or None
        Seconds from the arrival of each request to its completion and to its first token.
    over_time : OverTime or None
        Queue and memory.
    """

    policy: str
    error: float
    mean_latency: Fraction | None
    reason: str | None = None
    latencies: FloatArray | None = None
    first_tokens: FloatArray | None = None
    over_time: OverTime | None = None


@dataclass(frozen=True)
class BestPossible:
    """What is known of the least mean latency of every scheduler.

    Attributes
    ----------
    mean_latency : Interval
        Seconds a request.
    bound : str
        Name of the bound that is its lower end.
    certified : bool
        Whether that is computed exactly or rounded outwards.
    schedule : str
        Whose the schedule is that is its upper end.
    """

    mean_latency: Interval
    bound: str
    certified: bool
    schedule: str = "search"

    def joined(self, other: BestPossible) -> BestPossible:
        """What both say together."""
        low, high = sorted((self, other), key=lambda one: one.mean_latency.lower or 0)[::-1]
        return low.reached(high.mean_latency.upper, high.schedule)

    def beside(self, memory_limit: int, other: BestPossible, other_limit: int) -> BestPossible:
        """With what is known of another M: more memory takes every schedule that less does."""
        interval, where = other.mean_latency, f" with M = {other_limit}"
        if other_limit < memory_limit:
            return self.reached(interval.upper, other.schedule + where)
        lower = Interval(interval.lower, None)
        return self.joined(BestPossible(lower, other.bound + where, other.certified))

    def reached(self, mean_latency: Fraction | None, schedule: str) -> BestPossible:
        """With a schedule that has this mean latency."""
        known = self.mean_latency.upper
        if mean_latency is None or (known is not None and known <= mean_latency):
            return self
        interval = Interval(self.mean_latency.lower, mean_latency)
        return BestPossible(interval, self.bound, self.certified, schedule)


@dataclass(frozen=True, eq=False)
class CurvePoint:
    """The same requests with another memory, or arriving faster or slower.

    Attributes
    ----------
    memory_limit : int
        M, tokens.
    faster : float
        Arrivals come so many times as fast as in the log.
    load : float or None
        See `online.headroom.demand.load`.
    best : BestPossible or None
        None where it could not be found.
    runs : tuple[PolicyRun, ...]
        The policies that were run there, without what they did to each request.
    """

    memory_limit: int
    faster: float
    load: float | None
    best: BestPossible | None
    runs: tuple[PolicyRun, ...]


@dataclass(frozen=True, eq=False)
class Setting:
    """What every task is about.

    Attributes
    ----------
    workload : Workload
        The requests.
    batch_time : BatchTime
        Seconds of a round.
    seed : int
        Of policies, predictions and searches.
    """

    workload: Workload
    batch_time: BatchTime
    seed: int

    def at(self, memory_limit: int, faster: float) -> Setting:
        """The same requests with another M, arriving ``faster`` times as fast."""
        given = self.workload
        moved = Workload(
            given.arrival_times / faster,
            given.prompt_lengths,
            given.output_lengths,
            memory_limit=memory_limit,
            ids=given.ids,
            name=given.name,
            memory_rule=given.memory_rule,
        )
        return Setting(moved, self.batch_time, self.seed)


def joined_by_memory(
    best: BestPossible | None, memory_limit: int, points: Sequence[CurvePoint]
) -> tuple[BestPossible | None, list[CurvePoint]]:
    """What is known at ``memory_limit`` and at each point, with what the others say of it."""
    known = [(one.memory_limit, one.best) for one in points if one.faster == 1]
    known.append((memory_limit, best))

    def joined(found: BestPossible | None, limit: int) -> BestPossible | None:
        for other_limit, other in known:
            if found is not None and other is not None and other_limit != limit:
                found = found.beside(limit, other, other_limit)
        return found

    return joined(best, memory_limit), [
        replace(one, best=joined(one.best, one.memory_limit)) if one.faster == 1 else one
        for one in points
    ]


def play(
    setting: Setting,
    spec: PolicySpec,
    error: float,
    time_limit: float | None,
    stop: Callable[[], bool] | None,
) -> PolicyRun:
    """Run a policy, and check what it did."""
    trial = run_policy(
        setting.workload,
        spec,
        setting.seed,
        predictions=RelativePredictions(error) if error else None,
        time_limit=time_limit,
        stop=stop,
        batch_time=setting.batch_time,
    )
    total, run = trial.total_latency, trial.run
    if total is None or trial.reason is not None or run is None:
        return PolicyRun(spec.label, error, None, trial.reason or trial.status)
    return PolicyRun(
        spec.label,
        error,
        Fraction(total) / len(setting.workload),
        latencies=run.latencies,
        first_tokens=run.first_token_times - run.arrival_times,
        over_time=over_time(run, stretch_seconds(setting.workload)),
    )


def search(
    setting: Setting,
    time_limit: float | None,
    stop: Callable[[], bool] | None,
    tell: Callable[[tuple[float, float]], None] = lambda ends: None,
) -> BestPossible | str:
    """The interval of the best possible, or why there is none."""
    found: Any = find_optimum(
        setting.workload,
        batch_time=setting.batch_time,
        time_limit=time_limit,
        seed=setting.seed,
        threads=1,
        progress=lambda news: tell((news.lower_bound, news.upper_bound)),
        should_stop=stop,
    )
    if isinstance(found, Exception):
        return one_line(found)
    count = len(setting.workload)
    interval = Interval(found.lower_bound / count, found.upper_bound / count)
    return BestPossible(interval, found.best_bound, found.certified)


def point(
    setting: Setting,
    faster: float,
    specs: tuple[PolicySpec, ...],
    time_limit: float,
    stop: Callable[[], bool] | None,
) -> CurvePoint:
    """What is known at another memory or another load."""
    found = search(setting, time_limit, stop)
    runs = [play(setting, spec, 0.0, None, stop) for spec in specs]
    best = None if isinstance(found, str) else found
    for run in runs:
        if best is not None:
            best = best.reached(run.mean_latency, run.policy)
    return CurvePoint(
        setting.workload.memory_limit,
        faster,
        load(setting.workload, setting.batch_time),
        best,
        tuple(PolicyRun(run.policy, run.error, run.mean_latency, run.reason) for run in runs),
    )
