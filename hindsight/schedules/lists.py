"""List schedules, feasible schedules from a fixed order of the requests: the first upper bounds.

These are hindsight heuristics, not online policies: they know every request. With priority by
output length, `prefix_schedule` is the schedule of MC-SF ([J25] Algorithm 1).
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from hindsight.runtime.clock import Slices
from hindsight.runtime.compilation import plain_at_first, step
from instances import FleetSchedule, Instance, Request, Schedule
from instances.arrays import IntArray, RequestColumns

from .cycles import RuinAndRecreate

Priority = Callable[[Request], int | Fraction]


def _per_weight(name: str) -> Priority:
    """Return the priority rule "attribute of the request divided by its weight"."""
    value = operator.attrgetter(name)
    return lambda one: value(one) if one.weight == 1 else Fraction(value(one), one.weight)


PRIORITIES: dict[str, Priority] = {
    "output_length": _per_weight("output_length"),
    "volume": _per_weight("volume"),
    "peak_memory": _per_weight("peak_memory"),
    "arrival_time": lambda request: request.arrival_time,
}


class _Runs(NamedTuple):
    """Running requests, sorted by last round; the first entries have ended.

    Attributes
    ----------
    ends : int64 array, shape (n,)
        Last rounds, increasing.
    held : int64 array, shape (n,)
        Tokens that all running requests together hold in that round.
    state : int64 array, shape (4,)
        Entries `ARRIVED`, `NOW`, `FIRST` and `LAST`.
    """

    ends: IntArray
    held: IntArray
    state: IntArray


ARRIVED, NOW, FIRST, LAST = range(4)
"""Places in `_Runs.state`: number of arrived requests; current epoch; the running requests are
entries first .. last - 1 of ``ends``."""


@step
def _earliest_start(runs: _Runs, prompt: int, output: int, limit: int) -> int:
    """Return the first start from now on at which a request fits if no other request starts.

    Memory grows between the ends of running requests. So only their last rounds and the last round
    of the request itself need a check. If r is one of these rounds and all others hold P in it, no
    start before min(r, r + P + prompt - limit) keeps round r within the limit.
    """
    ends, held, state = runs
    start, j, last = state[NOW], state[FIRST], state[LAST]
    while True:
        while j < last and ends[j] <= start + output:
            start = max(start, min(ends[j], ends[j] + held[j] + prompt - limit))
            j += 1
        beside = held[j] - (last - j) * (ends[j] - start - output) if j < last else 0
        excess = beside + prompt + output - limit
        if excess <= 0:
            return int(start)
        start += min(excess, output)


@step
def _start(runs: _Runs, prompt: int, output: int) -> None:
    """Record a request that starts now."""
    ends, held, state = runs
    now, first, last = state[NOW], state[FIRST], state[LAST]
    end, p = now + output, last
    while p > first and ends[p - 1] > end:
        ends[p], held[p] = ends[p - 1], held[p - 1]
        p -= 1
    beside = 0
    if p > first and ends[p - 1] == end:
        beside = held[p - 1]
    elif p < last:
        beside = held[p + 1] - (last - p) * (ends[p + 1] - end)
    ends[p], held[p] = end, beside + prompt + output
    for j in range(first, p):
        held[j] += prompt + ends[j] - now
    state[LAST] += 1


@plain_at_first
def _place(
    requests: RequestColumns,
    orders: tuple[IntArray, IntArray, IntArray],
    queue: IntArray,
    runs: _Runs,
    starts: IntArray,
    epochs: int,
    skip: bool,
) -> IntArray:
    """Advance `prefix_schedule` by ``epochs`` epochs; return the ranks of the waiting requests.

    ``orders`` are the requests by arrival, the requests by rank, and the rank of each request.
    ``queue`` is a heap of the ranks of waiting requests, and of n as a sentinel.
    """
    prompt, output, arrival, limit = requests
    arrivals, by_rank, rank = orders
    n, state = len(arrivals), runs.state
    waiting = [one for one in queue]  # noqa: C416 (numba needs the loop)
    while epochs > 0 and (state[ARRIVED] < n or len(waiting) > 1):
        epochs -= 1
        # Skip to the next arrival if no request waits; queue arrivals and drop ended requests.
        if len(waiting) == 1:
            state[NOW] = max(state[NOW], arrival[arrivals[state[ARRIVED]]])
        while state[ARRIVED] < n and arrival[arrivals[state[ARRIVED]]] <= state[NOW]:
            heapq.heappush(waiting, rank[arrivals[state[ARRIVED]]])
            state[ARRIVED] += 1
        while state[FIRST] < state[LAST] and runs.ends[state[FIRST]] <= state[NOW]:
            state[FIRST] += 1
        # Start requests that fit, by rank; ``after`` is the next epoch at which one may start.
        blocked = [n]
        after = arrival[arrivals[state[ARRIVED]]] if state[ARRIVED] < n else -1
        while waiting[0] < n and (skip or len(blocked) == 1):
            one = heapq.heappop(waiting)
            i = by_rank[one]
            begin = _earliest_start(runs, prompt[i], output[i], limit)
            if begin == state[NOW]:
                _start(runs, prompt[i], output[i])
                starts[i] = begin
            else:
                blocked.append(one)
                after = begin if after < 0 else min(after, begin)
        for one in blocked[1:]:
            heapq.heappush(waiting, one)
        if len(waiting) > 1:
            state[NOW] = after
    return np.array(waiting, dtype=np.int64)


def one_after_another(instance: Instance) -> Schedule:
    """Run the requests one at a time, in order of arrival: feasible, and fast for any instance."""
    order = np.argsort(instance.arrival_times, kind="stable")
    outputs = instance.output_lengths[order]
    before = np.cumsum(outputs) - outputs
    # A start is the maximum, over arrivals so far, of that arrival plus all outputs run since then.
    starts = np.zeros(len(instance), dtype=np.int64)
    starts[order] = before + np.maximum.accumulate(instance.arrival_times[order] - before)
    return Schedule(instance, starts)


def prefix_schedule(instance: Instance, priority: Priority, *, skip: bool = False) -> Schedule:
    """Start arrived requests in order of priority as soon as they fit for their whole run.

    Parameters
    ----------
    instance : Instance
        The problem.
    priority : Priority
        Priority of each request, smallest first; ties follow the order of the instance.
    skip : bool, default False
        If a request does not fit, try those of lower priority instead of waiting.
    """
    schedule = prefix_schedule_within(instance, priority, skip=skip)
    assert schedule is not None
    return schedule


def prefix_schedule_within(
    instance: Instance,
    priority: Priority,
    should_stop: Callable[[], bool] | None = None,
    *,
    skip: bool = False,
) -> Schedule | None:
    """Compute `prefix_schedule`, or return None if ``should_stop`` returned True."""
    arrivals = np.argsort(instance.arrival_times, kind="stable")
    keys = {i: priority(instance[i]) for i in arrivals.tolist()}
    by_rank = np.array(sorted(range(len(instance)), key=keys.__getitem__), dtype=np.int64)
    orders = (arrivals, by_rank, np.argsort(by_rank))
    starts, ends, held = np.zeros((3, len(instance)), dtype=np.int64)
    running = _Runs(ends, held, np.zeros(4, dtype=np.int64))
    queue, slices = np.array([len(instance)]), Slices()
    while running.state[ARRIVED] < len(instance) or len(queue) > 1:
        if should_stop is not None and should_stop():
            return None
        with slices.next(len(instance)) as epochs:
            queue = _place(instance.columns, orders, queue, running, starts, epochs, skip)
    return Schedule(instance, starts)


def best_list_schedule(
    instance: Instance,
    *,
    thorough: bool = True,
    should_stop: Callable[[], bool] | None = None,
    found: Callable[[Schedule], object] | None = None,
) -> Schedule:
    """Return the best prefix schedule over all `PRIORITIES`, after a check; the first wins ties.

    Parameters
    ----------
    instance : Instance
        The problem, in tokens.
    thorough : bool, default True
        Also try schedules with ``skip``; meant for few requests.
    should_stop : Callable[[], bool] or None, default None
        Once it returns True, the remaining schedules are not tried; if none is complete, the
        requests run one after another. With ``thorough`` it is polled only for schedules with
        ``skip``.
    found : Callable[[Schedule], object] or None, default None
        Called with each schedule that is better than all before it, before any check.
    """
    instance.require_tokens()
    best: Schedule | None = None
    for skip in (False, True)[: 1 + thorough]:
        stop = None if thorough and not skip else should_stop
        for priority in PRIORITIES.values():
            schedule = prefix_schedule_within(instance, priority, stop, skip=skip)
            if schedule is None:
                break
            if best is None or schedule.total_latency < best.total_latency:
                best = schedule
                if found is not None:
                    found(best)
    best = best or one_after_another(instance)
    if not best.is_feasible:
        raise AssertionError("a list schedule is infeasible")
    return best


def round_robin(instance: Instance) -> FleetSchedule:
    """Deal requests out to replicas in turn, by arrival; each replica runs them one at a time."""
    replicas = np.zeros(len(instance), np.int64)
    order = np.argsort(instance.arrival_times, kind="stable")
    replicas[order] = np.arange(len(instance)) % instance.replicas
    starts = np.zeros(len(instance), np.int64)
    for replica in range(instance.replicas):
        own = np.flatnonzero(replicas == replica)
        if len(own):
            starts[own] = one_after_another(instance.alone(own)).start_times
    return FleetSchedule.from_starts(instance, replicas, starts)


def first_orders(instance: Instance) -> list[IntArray]:
    """Return orders for list schedules: by volume, peak memory, output length and arrival.

    All but the arrival are divided by the weight.
    """
    weights = instance.weights
    keys = (instance.volumes, instance.peak_memories, instance.output_lengths)
    orders = [np.argsort(key / weights, kind="stable") for key in keys]
    orders.append(np.argsort(instance.arrival_times, kind="stable"))
    return orders


def best_fleet_schedule(instance: Instance) -> FleetSchedule:
    """Return the best of the schedules from `first_orders` and from `round_robin`."""
    search, dealt = RuinAndRecreate(instance), round_robin(instance)
    search.offer(dealt.start_times, dealt.assignment)
    for order in first_orders(instance):
        search.place(order)
    return FleetSchedule.from_starts(instance, search.machines, search.starts)
