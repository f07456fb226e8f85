"""First bounds in rounds: list schedules, and lower bounds computed without an LP solver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from hindsight.exact.horizon import THOROUGH_UP_TO, proved_horizon
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.result import MEMORY_PRICES
from hindsight.prices.idle_gaps import compress
from hindsight.prices.volume import fill_by_volume, makespan_lower_bound, mean_busy_time_bound
from hindsight.schedules.cycles import RuinAndRecreate
from hindsight.schedules.lists import (
    PRIORITIES,
    best_list_schedule,
    first_orders,
    one_after_another,
    prefix_schedule_within,
    round_robin,
)
from hindsight.schedules.timetables import schedule_on
from instances import Instance
from instances.arrays import IntArray
from instances.problem.memory_translation import restricted

FIRST_LIST_SECONDS = 5.0
"""Seconds that the first list schedule of a large instance may take, even beyond the time limit."""


def in_source(schedule: Any, source: Instance) -> Any:
    """Return the schedule with the same rounds for ``source``, which has the same outputs."""
    if schedule.problem is source:
        return schedule
    return schedule.moved(source, np.zeros(len(source), dtype=np.int64))


def open_latency(interval: Interval, start: Any) -> None:
    """Find first bounds on total latency, with or without preemption.

    Mean busy times hold with preemption too. The bound (`hindsight.prices.volume`) relaxes a
    schedule to one in which a round serves at most M units of volume, request i owning v_i = sum of
    s_i + k, and adds to its sum of volume-weighted mean rounds what C_i exceeds the mean by.
    Requests that are stopped still hold s_i + k in the round of their k-th token and at most M
    together, so the first part covers them. And C_i less the volume-weighted mean of
    r_1 < ... < r_o = C_i is least where every round is as late as it can be, r_k = C_i - o_i + k:
    the rounds without preemption, whose excess the bound adds.

    Parameters
    ----------
    interval : Interval
        Receives the bounds. It has no schedule yet.
    start : Schedule, PreemptiveSchedule, FleetSchedule or None
        A feasible schedule given by the user.
    """
    source, below, stop = interval.source, interval.problem.below, interval.clock.must_stop
    is_large, is_fleet = len(source) > THOROUGH_UP_TO, source.replicas > 1
    placed = _fleet_schedules(interval, first_orders(source)) if is_fleet else iter(())
    if start is not None:
        interval.offer(start)
    if is_large or interval.problem.preemption == "keep":
        if start is None:
            for schedule in islice(placed, 2) if is_fleet else [_quick_schedule(interval)]:
                interval.offer(schedule)
        interval.prove(below.total_output_length, "output lengths")
        interval.prove(mean_busy_time_bound(below, fill_by_volume(below)), "mean busy times")
    # If the time is up, no further list schedule is started.
    if not (is_large and stop()) and not interval.is_proved:
        if is_fleet:
            for schedule in placed:
                interval.offer(schedule)
                if interval.is_done():
                    break
        else:
            _offer_lists(interval)
    if interval.problem.preemption == "keep":
        return
    proof = proved_horizon(source, interval.schedule, stop)
    interval.horizon = proof.horizon
    interval.prove(proof.price_bound.bound, MEMORY_PRICES, proof=proof.price_bound.prices)
    interval.prove(proof.lower_bound, "first prices")


def _quick_schedule(interval: Interval) -> Any:
    """Return one schedule of one machine, in seconds even for millions of requests.

    Beyond the time limit, list scheduling stops after `FIRST_LIST_SECONDS`.
    """
    source = interval.source
    order = PRIORITIES["output_length"]
    found = prefix_schedule_within(restricted(source), order, _patient(interval))
    return one_after_another(source) if found is None else in_source(found, source)


def _patient(interval: Interval) -> Callable[[], bool]:
    """Return a stop criterion of the first list schedule, see `FIRST_LIST_SECONDS`."""
    clock = interval.clock
    last = clock.seconds() + FIRST_LIST_SECONDS

    def must_stop() -> bool:
        return clock.must_stop() and (clock.is_interrupted or clock.seconds() > last)

    return must_stop


def _offer_lists(interval: Interval) -> None:
    """Offer list schedules of one machine to the interval."""
    source = interval.source
    best = best_list_schedule(
        restricted(source),
        thorough=len(source) <= THOROUGH_UP_TO,
        should_stop=interval.clock.must_stop,
        found=lambda found: interval.offer(in_source(found, source)),
    )
    interval.offer(in_source(best, source))


def _fleet_schedules(interval: Interval, orders: Iterable[IntArray]) -> Iterator[Any]:
    """Yield schedules of a fleet: requests dealt out in turn, then placed in each order.

    Once the time is up, only the first order is placed, for `FIRST_LIST_SECONDS` at most.
    """
    source, until = interval.source, _patient(interval)
    yield round_robin(source)
    for order in orders:
        placing = RuinAndRecreate(source)
        if placing.place(order, until):
            yield placing.schedule
        until = interval.clock.must_stop


@dataclass(frozen=True, eq=False)
class LastBlock:
    """The requests after the last idle gap, moved to round 0: they determine the makespan.

    Requests that arrive before the gap can be complete before its end
    (`hindsight.prices.idle_gaps`). So the least makespan is that of the last block alone, plus
    `offset`.

    Attributes
    ----------
    original : Instance
        The whole instance.
    instance : Instance
        The instance with the requests of the last block only.
    offset : int
        Rounds by which the block was moved towards 0.
    """

    original: Instance
    instance: Instance
    offset: int
    last: IntArray
    earlier: IntArray

    @classmethod
    def of(cls, original: Instance) -> LastBlock:
        """Return the last block of an instance."""
        shifts = compress(original).shifts
        is_last = shifts == shifts.max()
        last, earlier = np.flatnonzero(is_last), np.flatnonzero(~is_last)
        offset = int(original.arrival_times[last].min())
        requests = [
            replace(original[k], arrival_time=original[k].arrival_time - offset)
            for k in last.tolist()
        ]
        part = original.of(last)
        moved = part.replaced(requests=requests) if offset or len(earlier) else original
        return cls(original, moved, offset, last, earlier)

    def moved(self, start: Any) -> Any:
        """Return the last block's part of a schedule of the whole instance."""
        starts = start.start_times[self.last] - self.offset
        return schedule_on(self.instance, _machines(start)[self.last], starts)

    def restore(self, schedule: Any) -> Any:
        """Return a schedule of all requests from a schedule of the last block.

        Earlier requests run one after another on each machine. They are complete before the last
        block, because no machine idles while a request waits.
        """
        if self.instance is self.original:
            return schedule
        starts, machines = np.zeros((2, len(self.original)), dtype=np.int64)
        starts[self.last] = schedule.start_times + self.offset
        machines[self.last] = _machines(schedule)
        if len(self.earlier):
            before = self.original.of(self.earlier)
            dealt = round_robin(before) if before.replicas > 1 else one_after_another(before)
            starts[self.earlier], machines[self.earlier] = dealt.start_times, _machines(dealt)
        return schedule_on(self.original, machines, starts)

    @property
    def latest(self) -> int:
        """Return the number of rounds by which the block was moved."""
        return self.offset


def _machines(schedule: Any) -> IntArray:
    found: IntArray = getattr(schedule, "assignment", np.zeros_like(schedule.start_times))
    return found


LARGE_FIRST = (
    lambda request: -request.output_length,
    lambda request: -request.peak_memory,
)
"""Priorities: longest output first, and largest peak memory first."""


def open_makespan(interval: Interval, start: Any) -> None:
    """Find first bounds on the least makespan; ``start`` is a feasible schedule or None."""
    bound = makespan_lower_bound(interval.problem.below)
    schedules = _makespan_schedules(interval)
    for schedule in schedules if start is None else chain([start], schedules):
        interval.offer(schedule)
        if interval.upper_bound == bound:
            break
    interval.prove(bound, "last completion")
    interval.root_bound = bound


def _makespan_schedules(interval: Interval) -> Iterator[Any]:
    """Yield list schedules one by one, also with the longest and the largest requests first.

    At least one schedule is yielded even if the time is up. For many requests, that schedule then
    runs them one after another.
    """
    source, stop = interval.source, interval.clock.must_stop
    above, is_thorough = restricted(source), len(source) <= THOROUGH_UP_TO
    if source.replicas > 1:
        keys = (source.output_lengths, source.peak_memories)
        first, *others = first_orders(source)
        large = [np.argsort(-key, kind="stable") for key in keys]
        yield from _fleet_schedules(interval, [first, *large, *others])
        return
    is_first = True
    for skip in (True, False) if is_thorough else (False,):
        for priority in (*LARGE_FIRST, *PRIORITIES.values()):
            until = None if is_first and is_thorough else stop
            schedule = prefix_schedule_within(above, priority, until, skip=skip)
            if schedule is None:
                if is_first:
                    yield one_after_another(source)
                return
            is_first = False
            yield in_source(schedule, source)
