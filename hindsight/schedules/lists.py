"""List schedules, feasible schedules from a fixed order of the requests: the first upper bounds.

These are hindsight heuristics, not online policies: they use all requests from the start. With the
order by output length, `prefix_schedule` is the schedule of MC-SF ([J25] Algorithm 1).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hindsight.runtime.clock import Slices, never
from hindsight.runtime.compilation import plain_at_first, step
from instances import Instance, Schedule
from instances.arrays import IntArray, RequestColumns

from .cycles import RuinAndRecreate
from .timetables import columns_of, schedule_on


def list_orders(instance: Instance) -> dict[str, IntArray]:
    """Return the orders of the requests from which list schedules are built, by name.

    Each order is a permutation, shape (n,). It sorts the requests by output length, volume or peak
    memory, each divided by the weight, or by arrival. Ties follow the order of the instance.
    """
    weight = instance.weights
    keys = {
        "output_length": instance.output_lengths / weight,
        "volume": instance.volumes / weight,
        "peak_memory": instance.peak_memories / weight,
        "arrival_time": instance.arrival_times,
    }
    return {name: np.argsort(key, kind="stable") for name, key in keys.items()}


class _Runs(NamedTuple):
    """Running requests of a list schedule, sorted by last round, and the present round.

    Attributes
    ----------
    ends : int64 array, shape (n,)
        Last round of each request that has been started, ascending. The entries before the index
        `FIRST` are those of requests that have ended.
    held : int64 array, shape (n,)
        Entry j: tokens that all running requests together hold in round ``ends[j]``.
    state : int64 array, shape (4,)
        Entries `ARRIVED`, `NOW`, `FIRST` and `LAST`.
    """

    ends: IntArray
    held: IntArray
    state: IntArray


ARRIVED, NOW, FIRST, LAST = range(4)
"""Entries of `_Runs.state`: number of requests that have arrived, present round, index in
`_Runs.ends` of the first running request, and index of the last running request plus 1."""


@step
def _earliest_start(runs: _Runs, prompt: int, output: int, limit: int) -> int:
    """Return the first start, from the present round on, at which a request fits.

    The requests that run already keep running, and no other request starts. Memory grows from round
    to round until a running request ends. So only the last rounds of the running requests and of
    the request itself are checked. Let r be one of these rounds, and P the tokens that the running
    requests hold in it. With a start t < r, the request holds prompt + r - t tokens in round r. So
    the memory limit is kept in round r only if P + prompt + r - t <= limit or t >= r: no start
    before min(r, r + P + prompt - limit) is possible.
    """
    ends, held, state = runs
    start, j, last = state[NOW], state[FIRST], state[LAST]
    while True:
        while j < last and ends[j] <= start + output:
            start = max(start, min(ends[j], ends[j] + held[j] + prompt - limit))
            j += 1
        others = held[j] - (last - j) * (ends[j] - start - output) if j < last else 0
        excess = others + prompt + output - limit
        if excess <= 0:
            return int(start)
        start += min(excess, output)


@step
def _start(runs: _Runs, prompt: int, output: int) -> None:
    """Add a request that starts in the present round to ``runs``."""
    ends, held, state = runs
    now, first, last = state[NOW], state[FIRST], state[LAST]
    end, p = now + output, last
    while p > first and ends[p - 1] > end:
        ends[p], held[p] = ends[p - 1], held[p - 1]
        p -= 1
    others = 0
    if p > first and ends[p - 1] == end:
        others = held[p - 1]
    elif p < last:
        others = held[p + 1] - (last - p) * (ends[p + 1] - end)
    ends[p], held[p] = end, others + prompt + output
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
    """Advance a list schedule by up to ``epochs`` rounds in which requests may start.

    The rank of a request is its place in the order of priority. ``orders`` are the requests sorted
    by arrival, the requests sorted by rank, and the rank of each request. ``queue`` is a heap of
    the ranks of the waiting requests, and of the number n, which stands for no request and comes
    after all of them. With ``skip``, requests of higher rank may start before one that does not
    fit. Return the new ``queue``. Starts are written to ``starts``.
    """
    prompt, output, arrival, limit = requests
    arrivals, by_rank, rank = orders
    n, state = len(arrivals), runs.state
    waiting = [one for one in queue]  # noqa: C416 (numba needs the loop)
    while epochs > 0 and (state[ARRIVED] < n or len(waiting) > 1):
        epochs -= 1
        # If no request waits, go to the round of the next arrival. Then add the requests that have
        # arrived to the heap of waiting requests, and drop the running requests that have ended.
        if len(waiting) == 1:
            state[NOW] = max(state[NOW], arrival[arrivals[state[ARRIVED]]])
        while state[ARRIVED] < n and arrival[arrivals[state[ARRIVED]]] <= state[NOW]:
            heapq.heappush(waiting, rank[arrivals[state[ARRIVED]]])
            state[ARRIVED] += 1
        while state[FIRST] < state[LAST] and runs.ends[state[FIRST]] <= state[NOW]:
            state[FIRST] += 1
        # Start the waiting requests that fit, in order of rank. ``after`` is the next round in
        # which a request that is not started now may start: -1 as long as none is known.
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


def one_after_another(instance: Instance) -> Any:
    """Return a feasible schedule in which each replica runs one request at a time.

    In order of arrival, requests are assigned to the replicas in turn. This is fast even for large
    instances. The result is a `FleetSchedule` if the instance has several replicas, else a
    `Schedule`.
    """
    arrival, order = instance.arrival_times, np.argsort(instance.arrival_times, kind="stable")
    machines, starts = np.zeros((2, len(instance)), dtype=np.int64)
    machines[order] = np.arange(len(order)) % instance.replicas
    for k in range(min(instance.replicas, len(order))):
        own = order[k :: instance.replicas]
        outputs = instance.output_lengths[own]
        before = np.cumsum(outputs) - outputs
        # Request i starts as soon as it has arrived and request i - 1 has ended. So its start is
        # the maximum, over j <= i, of the arrival of j plus the output lengths of j .. i - 1, which
        # run one after another before i. With ``before[k]``, the sum of the output lengths before
        # k, this is before[i] plus the maximum of (arrival of j) - before[j].
        starts[own] = before + np.maximum.accumulate(arrival[own] - before)
    return schedule_on(instance, machines, starts)


def prefix_schedule(
    instance: Instance,
    order: IntArray,
    should_stop: Callable[[], bool] = never,
    *,
    skip: bool = False,
) -> Schedule | None:
    """Return the list schedule of an order: start requests as soon as they fit for their whole run.

    In each round, the requests that have arrived and wait are tried in the given order. Return None
    if ``should_stop`` returned True before the schedule was complete.

    Parameters
    ----------
    instance : Instance
        The problem.
    order : int64 array
        Requests by falling priority: a permutation.
    should_stop : Callable[[], bool], default never
        Polled a few times a second. Once it returns True, the result is None.
    skip : bool, default False
        Whether requests of lower priority may start if a request does not fit. Otherwise they wait
        until it has started.
    """
    arrivals = np.argsort(instance.arrival_times, kind="stable")
    orders = (arrivals, order, np.argsort(order))
    starts, ends, held = np.zeros((3, len(instance)), dtype=np.int64)
    running = _Runs(ends, held, np.zeros(4, dtype=np.int64))
    queue, slices = np.array([len(instance)]), Slices()
    while running.state[ARRIVED] < len(instance) or len(queue) > 1:
        if should_stop():
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
    """Return the best list schedule (`prefix_schedule`) over all `list_orders`.

    The schedule is checked. Of several best ones, the first is returned.

    Parameters
    ----------
    instance : Instance
        The problem, in tokens.
    thorough : bool, default True
        Whether to try each order also with ``skip`` (see `prefix_schedule`). This is slow for many
        requests.
    should_stop : Callable[[], bool] or None, default None
        Once it returns True, the remaining schedules are not tried. If none is complete by then,
        the result is `one_after_another`. With ``thorough``, only schedules with ``skip`` are
        stopped.
    found : Callable[[Schedule], object] or None, default None
        Called with each schedule that is better than all before it. That schedule is not checked
        yet.
    """
    instance.require_tokens()
    best: Schedule | None = None
    for skip in (False, True)[: 1 + thorough]:
        stop = never if thorough and not skip else should_stop or never
        for order in list_orders(instance).values():
            schedule = prefix_schedule(instance, order, stop, skip=skip)
            if schedule is None:
                break
            if best is None or schedule.total_latency < best.total_latency:
                best = schedule
                if found is not None:
                    found(best)
    best = best or one_after_another(instance)
    if not best.is_feasible:
        raise AssertionError("the best list schedule found is not feasible")
    return best


def best_fleet_schedule(instance: Instance) -> Any:
    """Return the best of several simple schedules for an instance with several replicas.

    The result is a `FleetSchedule`. One of the schedules is `one_after_another`. The others follow
    from `list_orders`, one from each order: each request, in this order, takes the first start at
    which it fits on some replica.
    """
    search = RuinAndRecreate(instance)
    search.offer(*columns_of(one_after_another(instance)))
    for order in list_orders(instance).values():
        search.place(order)
    return search.schedule
