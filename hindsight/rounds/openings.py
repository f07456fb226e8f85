"""Compute first bounds in rounds: list schedules, and lower bounds without an LP solver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np

from hindsight.exact.horizon import THOROUGH_UP_TO, proved_horizon
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.result import MEMORY_PRICES
from hindsight.prices.idle_gaps import CompressedInstance, compress
from hindsight.prices.volume import fill_by_volume, makespan_lower_bound, mean_busy_time_bound
from hindsight.runtime.clock import never
from hindsight.schedules import lists
from hindsight.schedules.cycles import RuinAndRecreate
from hindsight.schedules.timetables import columns_of, schedule_on
from instances import Instance
from instances.arrays import IntArray
from instances.problem.memory_translation import restricted

FIRST_LIST_SECONDS = 5.0
"""Number of seconds that the first list schedule may take even if the time limit ends before."""


def in_source(schedule: Any, source: Instance) -> Any:
    """Return a schedule of a related instance as a schedule of ``source``, with the same starts.

    The related instance has the same requests in the same order, but their prompt lengths and the
    memory limit may differ.
    """
    if schedule.problem is source:
        return schedule
    return schedule.moved(source, np.zeros(len(source), dtype=np.int64))


def open_latency(interval: Interval, start: Any) -> None:
    """Find first schedules and lower bounds on total latency, with or without preemption.

    The mean-busy-time bound (`hindsight.prices.volume`) also holds with preemption. Let request i
    produce its k-th token in round r_k, in which it holds s_i + k tokens. Its volume is v_i = sum_k
    (s_i + k), its mean round is sum_k (s_i + k) r_k / v_i, and its completion C_i is the mean round
    plus a rest. The bound is the sum of two lower bounds, on the sum of all mean rounds and on the
    sum of all rests, minus the arrivals.

    The first one is the least sum of mean rounds if each round may serve any M units of the volumes
    of requests that have arrived. A preemptive schedule is such a service, because all requests
    together hold at most M in each round. The second one is the sum of the rests without
    preemption, where r_k = C_i - o_i + k. With preemption, r_k is at most this, because o_i - k
    later rounds follow up to C_i. So the mean round is no later, and the rest no smaller.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve, to be set here. It has no schedule yet.
    start : Schedule, PreemptiveSchedule, FleetSchedule or None
        A feasible schedule given by the user.
    """
    source, below, stop = interval.source, interval.problem.below, interval.clock.must_stop
    is_large, is_fleet = len(source) > THOROUGH_UP_TO, source.replicas > 1
    placed = (
        _fleet_schedules(interval, lists.list_orders(source).values()) if is_fleet else iter(())
    )
    if start is not None:
        interval.offer(start)
    if is_large or interval.problem.preemption == "keep":
        if start is None:
            for schedule in islice(placed, 2) if is_fleet else [_quick_schedule(interval)]:
                interval.offer(schedule)
        interval.prove(below.total_output_length, "output lengths")
        interval.prove(mean_busy_time_bound(below, fill_by_volume(below)), "mean busy times")
    # Build further list schedules, unless the instance has many requests and the time is up.
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
    """Return the list schedule on one machine that places requests by ascending output length.

    A list schedule places the requests in a given order, each at the first start that fits. If the
    time limit and `FIRST_LIST_SECONDS` have both passed before it is complete, return the schedule
    that runs the requests one after another instead.
    """
    source = interval.source
    order = lists.list_orders(restricted(source))["output_length"]
    found = lists.prefix_schedule(restricted(source), order, _patient(interval))
    return lists.one_after_another(source) if found is None else in_source(found, source)


def _patient(interval: Interval) -> Callable[[], bool]:
    """Return a stop callback that gives the first list schedule a minimum of time.

    The callback returns True once both the time limit and `FIRST_LIST_SECONDS` from now have
    passed, or at once if the user interrupts the solve.
    """
    clock = interval.clock
    last = clock.seconds() + FIRST_LIST_SECONDS

    def must_stop() -> bool:
        return clock.must_stop() and (clock.is_interrupted or clock.seconds() > last)

    return must_stop


def _offer_lists(interval: Interval) -> None:
    """Build list schedules on one machine, and offer them to the solve.

    A list schedule places the requests in a given order, each at the first start that fits.
    """
    source = interval.source
    best = lists.best_list_schedule(
        restricted(source),
        thorough=len(source) <= THOROUGH_UP_TO,
        should_stop=interval.clock.must_stop,
        found=lambda found: interval.offer(in_source(found, source)),
    )
    interval.offer(in_source(best, source))


def _fleet_schedules(interval: Interval, orders: Iterable[IntArray]) -> Iterator[Any]:
    """Yield schedules of a fleet: first one with requests assigned round robin, then others.

    For each of ``orders``, place the requests in this order, each at the first start, on any
    machine, that fits. If the time is up, only the first order is tried, for at most
    `FIRST_LIST_SECONDS`.
    """
    source, until = interval.source, _patient(interval)
    yield lists.one_after_another(source)
    for order in orders:
        placing = RuinAndRecreate(source)
        if placing.place(order, until):
            yield placing.schedule
        until = interval.clock.must_stop


@dataclass(frozen=True, eq=False)
class LastBlock:
    """The last block: all requests that arrive after the last idle gap of an instance.

    An idle gap is a sequence of rounds in which no optimal schedule runs a request. All earlier
    requests can be complete before the gap ends (`hindsight.prices.idle_gaps`). So the last block
    alone determines the least makespan. The block is moved to begin in round 0. The least makespan
    of the instance is that of the moved block plus the number of rounds by which it was moved.

    Attributes
    ----------
    original : Instance
        The whole instance.
    part : CompressedInstance
        The instance of the last block at its own arrival times, and moved to round 0.
    last : int64 array
        Indices of the requests of the last block in the whole instance.
    """

    original: Instance
    part: CompressedInstance
    last: IntArray

    @classmethod
    def of(cls, original: Instance) -> LastBlock:
        """Find the last block of an instance: the requests that arrive after the last idle gap.

        An idle gap is a sequence of rounds in which no optimal schedule runs a request.
        """
        shifts = compress(original).shifts
        last = np.flatnonzero(shifts == shifts.max())
        return cls(original, compress(original.of(last)), last)

    @property
    def instance(self) -> Instance:
        """Return the instance of the last block alone, with its first arrival at round 0."""
        return self.part.instance

    def moved(self, start: Any) -> Any:
        """Return the part of a schedule of the whole instance that belongs to the last block.

        The last block has the requests that arrive after the last idle gap. The returned schedule
        is moved so that the first of them arrives in round 0.
        """
        starts = start.start_times[self.last] - self.latest
        return schedule_on(self.instance, columns_of(start)[1][self.last], starts)

    def restore(self, schedule: Any) -> Any:
        """Return a schedule of the whole instance that contains a given schedule of the last block.

        The last block has the requests that arrive after the last idle gap. The earlier requests
        run one after another on each machine, without idle time while one of them waits. So they
        are complete before the last block begins: it begins no earlier than the latest arrival
        before it plus the output lengths of all requests since the gap before that.
        """
        starts, machines = np.zeros((2, len(self.original)), dtype=np.int64)
        earlier = np.setdiff1d(np.arange(len(starts)), self.last)
        if len(earlier):
            dealt = lists.one_after_another(self.original.of(earlier))
            starts[earlier], machines[earlier] = columns_of(dealt)
        starts[self.last] = schedule.start_times + self.latest
        machines[self.last] = columns_of(schedule)[1]
        return schedule_on(self.original, machines, starts)

    @property
    def latest(self) -> int:
        """Return the number of rounds by which the last block was moved to begin in round 0.

        The last block has the requests that arrive after the last idle gap.
        """
        return self.part.latest


def open_makespan(interval: Interval, start: Any) -> None:
    """Find first schedules and a lower bound if the goal is the least makespan.

    ``start`` is a feasible schedule given by the user, or None.
    """
    bound = makespan_lower_bound(interval.problem.below)
    schedules = _makespan_schedules(interval)
    for schedule in schedules if start is None else chain([start], schedules):
        interval.offer(schedule)
        if interval.upper_bound == bound:
            break
    interval.prove(bound, "last completion")
    interval.root_bound = bound


def _makespan_schedules(interval: Interval) -> Iterator[Any]:
    """Yield list schedules for a small makespan until the time is up, but at least one.

    A list schedule places the requests in a given order, each at the first start that fits. The
    first order is by descending output length, the second by descending peak memory. If there are
    many requests and the time is up before the first list schedule is complete, yield the schedule
    that runs the requests one after another.
    """
    source, stop = interval.source, interval.clock.must_stop
    is_fleet, is_thorough = source.replicas > 1, len(source) <= THOROUGH_UP_TO
    above = source if is_fleet else restricted(source)
    large = [np.argsort(-key, kind="stable") for key in (above.output_lengths, above.peak_memories)]
    first, *others = lists.list_orders(above).values()
    if is_fleet:
        yield from _fleet_schedules(interval, [first, *large, *others])
        return
    until = never if is_thorough else stop
    for skip in (True, False) if is_thorough else (False,):
        for order in (*large, first, *others):
            schedule = lists.prefix_schedule(above, order, until, skip=skip)
            if schedule is None and interval.schedule is None:
                yield lists.one_after_another(source)
            if schedule is None:
                return
            until = stop
            yield in_source(schedule, source)
