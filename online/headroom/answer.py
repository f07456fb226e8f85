"""The result: possible savings, and each policy's share of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from instances import ServiceLevel, Workload
from instances.arrays import FloatArray, IntArray
from online.comparison.blame import Blame
from online.trials.intervals import Interval

from .on_time import ROUNDING, OnTimePoint
from .waiting import OverTime

P99 = 0.99
"""Of n requests, the latency at place n times this, rounded up, from the shortest."""

LOGGED = "as in the log"
"""The router where every request goes to the replica that the log names."""

NEGLIGIBLE = Fraction(1, 100)
"""Share of a mean latency: where less is known to be saved, a policy's part of it tells nothing."""

LARGE_DIFFERENCE = Fraction(1, 10)
"""Share of the latency in the log: a simulation that is off by more is doubted first."""


if TYPE_CHECKING:
    from hindsight.sizing import CapacityResult


@dataclass(frozen=True, eq=False)
class PolicyRun:
    """The outcome of a policy.

    Attributes
    ----------
    policy : str
        Label.
    error : float
        Mean share of the truth by which the output lengths it was told are off; 0 for exact ones.
    mean_latency : Fraction or None
        Seconds a request; None where it did not complete.
    reason : str or None
        Why it did not, or which error left out what else is asked of it.
    is_error : bool
        Whether the reason is an exception.
    latencies, first_tokens : float64 array or None
        Seconds from the arrival of each request to its completion and to its first token.
    over_time : OverTime or None
        Queue and memory.
    router : str or None
        What sent the requests to replicas; None on one machine.
    assignment : int64 array or None
        Replica of each request.
    assigned : Interval or None
        Around the least mean latency of all schedulers that leave each request on its replica.
    """

    policy: str
    error: float
    mean_latency: Fraction | None
    reason: str | None = None
    is_error: bool = False
    latencies: FloatArray | None = None
    first_tokens: FloatArray | None = None
    over_time: OverTime | None = None
    router: str | None = None
    assignment: IntArray | None = None
    assigned: Interval | None = None

    @property
    def p99(self) -> Fraction | None:
        """The latency that 99 % of the requests do not exceed, seconds."""
        if self.latencies is None:
            return None
        return Fraction(percentile(self.latencies, 100 * P99))


def percentile(column: FloatArray, percent: float) -> float:
    """Return the least entry of a column that ``percent`` per cent of the entries do not exceed.

    Nothing is interpolated, so that it can be compared with bounds on the p99 of every scheduler.
    """
    return float(np.percentile(column, percent, method="inverted_cdf"))


@dataclass(frozen=True)
class BestPossible:
    """Bounds on the least mean latency of every scheduler.

    Attributes
    ----------
    mean_latency : Interval
        Seconds per request. Where prompts share prefixes, the lower end allows for any reuse.
    bound : str
        Name of the bound that is its lower end.
    certified : bool
        Whether that is computed exactly or rounded outwards.
    schedule : str
        Whose the schedule is that is its upper end.
    without_reuse : Fraction or None
        Lower bound for schedulers that process every prompt whole, where prompts share prefixes.
    """

    mean_latency: Interval
    bound: str
    certified: bool
    schedule: str = "search"
    without_reuse: Fraction | None = None

    def joined(self, other: BestPossible) -> BestPossible:
        """Take the better bound and the better schedule of both; of equal bounds its own."""
        low, high = self, other
        lower, known = other.mean_latency.lower, self.mean_latency.lower
        if lower is not None and (known is None or lower > known):
            low, high = other, self
        known_whole = [one for one in (self.without_reuse, other.without_reuse) if one is not None]
        low = replace(low, without_reuse=max(known_whole, default=None))
        return low.reached(high.mean_latency.upper, high.schedule)

    def reached(self, mean_latency: Fraction | None, schedule: str) -> BestPossible:
        """Add a schedule that has this mean latency."""
        known = self.mean_latency.upper
        if mean_latency is None or (known is not None and known <= mean_latency):
            return self
        interval = Interval(self.mean_latency.lower, mean_latency)
        return replace(self, mean_latency=interval, schedule=schedule)


@dataclass(frozen=True, eq=False)
class CurvePoint:
    """The same requests with another memory, other replicas, or arriving faster or slower.

    Attributes
    ----------
    memory_limit : int
        M, tokens.
    faster : float
        Arrivals come so many times as fast as in the log.
    load : float or None
        See `online.headroom.waiting.load`.
    best : BestPossible or None
        None where it could not be found.
    runs : tuple[PolicyRun, ...]
        The policies that were run there, without queue and memory.
    replicas : int
        How many there are.
    """

    memory_limit: int
    faster: float
    load: float | None
    best: BestPossible | None
    runs: tuple[PolicyRun, ...]
    replicas: int = 1

    def joined(self, other: CurvePoint) -> CurvePoint:
        """Add what else was computed there; a policy's run is a schedule too."""
        runs = self.runs + other.runs
        known = [self.best, other.best]
        for run in runs:
            interval = Interval(None, run.mean_latency)
            known.append(BestPossible(interval, "none", certified=True, schedule=run.policy))
        return replace(self, best=_all_joined(known), runs=runs)


def carried_over(points: Sequence[CurvePoint], last_arrival: float) -> list[CurvePoint]:
    """Add to what is known of the best possible at each point what follows from the others.

    **More memory.** A schedule also fits in more memory, under rules in blocks too, as usable
    blocks do not fall with M. Its rounds last as long there: a batch time is given the batch, and
    not M. So schedules carry to a larger M, and lower bounds to a smaller one.

    **More replicas.** One more may stay empty. So schedules carry to more replicas, and lower
    bounds to fewer.

    **Slower arrivals.** Multiply all arrivals by c >= 1, and let the round that began at t begin at
    c t: a round of length D ends at c t + D <= c (t + D), so rounds stay disjoint and serve nobody
    before the arrival. Each round does what it did, so memory, preemptions and what is processed
    again stay, and a request that was done at C is done at c (C - D) + D <= c C. So every latency
    is at most c times as long: schedules carry to slower arrivals with the factor c, and lower
    bounds to faster ones with 1 / c.

    **Rounding.** The arrivals at a point are divided in floats and taken as the decimals they are
    written as, so two points differ from exact multiples by less than e = 2^-50 of the last
    arrival. Begin every round e later: nobody is served early, and latencies grow by 2 e at most.
    `ROUNDING` of the last arrival is more than that, divided by c or not.

    Parameters
    ----------
    points : Sequence[CurvePoint]
        The log itself among them.
    last_arrival : float
        Of the log, seconds.
    """

    def joined(one: CurvePoint) -> BestPossible | None:
        others = [_carried(other, one, last_arrival) for other in points if other is not one]
        return _all_joined([one.best, *others])

    return [replace(one, best=joined(one)) for one in points]


def _all_joined(known: Sequence[BestPossible | None]) -> BestPossible | None:
    there = [one for one in known if one is not None]
    return reduce(BestPossible.joined, there) if there else None


def _carried(known: CurvePoint, to: CurvePoint, last_arrival: float) -> BestPossible | None:
    """Return what follows at a point from what is known at another, see `carried_over`."""
    best, slower = known.best, Fraction(known.faster) / Fraction(to.faster)
    if best is None:
        return None
    rounding = ROUNDING * Fraction(last_arrival) / Fraction(to.faster) if slower != 1 else 0
    lower, upper = best.mean_latency.lower, best.mean_latency.upper
    differs = []
    if to.memory_limit != known.memory_limit:
        differs.append(f"M = {known.memory_limit}")
    if to.replicas != known.replicas:
        differs.append(f"{known.replicas} replicas")
    if slower != 1:
        differs.append(f"arrivals x{known.faster:g}")
    where = " with " + ", ".join(differs) if differs else ""
    if lower is not None:
        holds = slower <= 1 and _is_no_more(to, known)
        lower = max(Fraction(0), lower * slower - rounding) if holds else None
    if upper is not None:
        holds = slower >= 1 and _is_no_more(known, to)
        upper = upper * slower + rounding if holds else None
    interval = Interval(lower, upper)
    return BestPossible(interval, best.bound + where, best.certified, best.schedule + where)


def _is_no_more(one: CurvePoint, other: CurvePoint) -> bool:
    """Tell whether one has neither more memory nor more replicas than the other."""
    return one.memory_limit <= other.memory_limit and one.replicas <= other.replicas


@dataclass(frozen=True, eq=False)
class Measured:
    """Latencies that the log itself measured.

    Attributes
    ----------
    latencies : float64 array
        Seconds from arrival to completion of each request, shape (n,).
    first_tokens : float64 array or None
        Seconds from arrival to its first token; None where the log lacks some.
    """

    latencies: FloatArray
    first_tokens: FloatArray | None = None

    @property
    def mean_latency(self) -> Fraction:
        """Seconds a request."""
        return sum(map(Fraction, self.latencies.tolist()), Fraction(0)) / len(self.latencies)


@dataclass(frozen=True)
class Saving:
    """Part of the baseline's simulated mean latency that the best possible saves.

    Attributes
    ----------
    mean_latency : Fraction
        The baseline's, seconds.
    seconds : Interval
        How much of it can be saved, per request.
    """

    mean_latency: Fraction
    seconds: Interval

    @property
    def share(self) -> Interval:
        """The same, as a share of the mean latency."""
        return self.seconds.times(1 / self.mean_latency)

    @property
    def is_negligible(self) -> bool:
        """Tell whether no known schedule saves as much as `NEGLIGIBLE` of the mean latency."""
        return (self.share.lower or 0) < NEGLIGIBLE

    def part(self, mean_latency: Fraction) -> Interval:
        """The share of the headroom that a policy with this mean latency gets."""
        return Interval.of_share(self.mean_latency - mean_latency, self.seconds)


@dataclass(frozen=True, eq=False)
class Headroom:
    """Result of `measure_headroom`.

    Attributes
    ----------
    workload : Workload
        The requests, with their batch time.
    load : float or None
        See `online.headroom.waiting.load`.
    best : BestPossible or None
        Every run's schedule counts among the known ones. None where there was no time for it.
    no_best : str or None
        Why there is none.
    runs : tuple[PolicyRun, ...]
        Baseline and challenger first, with exact output lengths, then with predicted ones.
    points : tuple[CurvePoint, ...]
        Other memories and other loads.
    unfinished : tuple[str, ...]
        What there was no time for.
    baseline, challenger : str
        Labels of policies.
    error : float
        Mean share of the truth by which predicted output lengths are off.
    measured : Measured or None
        The latencies in the log.
    seconds : float
        That it took.
    interrupted : bool
        Whether Ctrl-C ended it.
    level : ServiceLevel or None
        The service level asked for.
    on_time : tuple[OnTimePoint, ...]
        Requests on time at that level, at others and at other loads, by level and load.
    p99 : Interval or None
        Seconds around the least p99 latency of every scheduler.
    routers : tuple[str, ...]
        Routers of a fleet, today's first; ``runs`` are under this one.
    routed : tuple[PolicyRun, ...]
        Runs of a fleet whose losses are told, under all routers.
    capacity : CapacityResult or None
        The fewest replicas that meet the level.
    errors : tuple[str, ...]
        Computations that ended with an exception, and which.
    shared_tokens : int64 array or None
        Tokens of each prompt that other requests could supply; None where the log does not show it.
    concurrency : int or None
        Most requests at once, where the log is of a closed loop.
    made_up : bool
        Whether the arrivals are not those of the log.
    left_out : int
        Requests after those in ``workload``, for which the time limit is too short.
    """

    workload: Workload
    load: float | None
    best: BestPossible | None
    no_best: str | None
    runs: tuple[PolicyRun, ...]
    points: tuple[CurvePoint, ...]
    unfinished: tuple[str, ...]
    baseline: str
    challenger: str
    error: float
    measured: Measured | None
    seconds: float
    interrupted: bool
    level: ServiceLevel | None = None
    on_time: tuple[OnTimePoint, ...] = ()
    p99: Interval | None = None
    routers: tuple[str, ...] = ()
    routed: tuple[PolicyRun, ...] = ()
    capacity: CapacityResult | None = None
    errors: tuple[str, ...] = ()
    shared_tokens: IntArray | None = None
    concurrency: int | None = None
    made_up: bool = False
    left_out: int = 0

    @property
    def replicas(self) -> int:
        """Number of replicas."""
        return self.workload.replicas

    @property
    def on_time_here(self) -> OnTimePoint | None:
        """Requests on time at the level asked for; None without one."""
        here = (one for one in self.on_time if one.scale == one.faster == 1)
        return next((one for one in here if one.replicas == self.replicas), None)

    @property
    def blames(self) -> list[tuple[str, str, Blame]]:
        """Who serves, what routes, and what each loses of a request's latency, today's first."""
        if self.best is None:
            return []
        best = self.best.mean_latency
        return [
            (run.policy, run.router or "", Blame.of(run.mean_latency, [run.assigned], best, 1))
            for run in self.routed
            if run.mean_latency is not None and run.assigned is not None
        ]

    def run(self, policy: str, error: float = 0.0) -> PolicyRun | None:
        """Find the run of a policy, if it completed."""
        wanted = (policy, error)
        found = (one for one in self.completed if (one.policy, one.error) == wanted)
        return next(found, None)

    @property
    def completed(self) -> list[PolicyRun]:
        """The runs that have a mean latency."""
        return [run for run in self.runs if run.mean_latency is not None]

    @property
    def saving(self) -> Saving | None:
        """What could be saved of the simulated baseline; None where the log refutes the model."""
        today = self.run(self.baseline)
        if self.best is None or self.contradicts or today is None or today.mean_latency is None:
            return None
        return Saving(today.mean_latency, self.best.mean_latency.below(today.mean_latency))

    @property
    def divisible(self) -> Saving | None:
        """The saving, where a policy's share of it is informative."""
        saving = self.saving
        return None if saving is None or saving.is_negligible else saving

    @property
    def difference(self) -> Fraction | None:
        """Share by which the simulated baseline is slower than the log."""
        today = self.run(self.baseline)
        if self.measured is None or today is None or today.mean_latency is None:
            return None
        return today.mean_latency / self.measured.mean_latency - 1

    @property
    def contradicts(self) -> bool:
        """Whether the log is faster than the batch time allows any scheduler."""
        if self.best is None or self.measured is None or self.made_up:
            return False
        return self.measured.mean_latency < (self.best.mean_latency.lower or 0)

    @property
    def memory_curve(self) -> list[CurvePoint]:
        """Points at the log's own load, by M."""
        points = [one for one in self._all_points if one.faster == 1]
        points = [one for one in points if one.replicas == self.replicas]
        return sorted(points, key=lambda one: one.memory_limit)

    @property
    def replica_curve(self) -> list[CurvePoint]:
        """Points at the log's own load and M, by replicas."""
        own, *others = self._all_points
        others = [one for one in others if one.replicas != own.replicas]
        return sorted([own, *others], key=lambda one: one.replicas)

    @property
    def load_curve(self) -> list[CurvePoint]:
        """Points at the log's own M, by load."""
        own, *others = self._all_points
        return sorted(
            [own, *(one for one in others if one.faster != 1)], key=lambda one: one.faster
        )

    @property
    def _all_points(self) -> list[CurvePoint]:
        """The log itself as a point, then the others."""
        runs = (self.run(self.baseline), self.run(self.challenger))
        known = tuple(run for run in runs if run is not None)
        limit = self.workload.memory_limit
        own = CurvePoint(limit, 1.0, self.load, self.best, known, self.replicas)
        return [own, *self.points]
