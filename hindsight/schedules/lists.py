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
    """Return orders of the requests for list schedules, each an array of shape (n,), by name.

    Requests are sorted by output length, volume, peak memory (all three divided by the weight) or
    arrival. Ties follow the order of the instance.
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
    """Running requests, sorted by last round; the first entries have ended.

    Attributes
    ----------
    ends : int64 array, shape (n,)
        Last round of each running request, ascending.
    held : int64 array, shape (n,)
        Tokens that all running requests together hold in each of these last rounds.
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
    of the request itself are checked. If r is one of these rounds and all others hold P in it, no
    start before min(r, r + P + prompt - limit) keeps round r within the limit.
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
    """Record a request that starts now."""
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
    """Advance `prefix_schedule` by ``epochs`` epochs; return the new ``queue``.

    An epoch is a round in which requests may start. ``queue`` is a heap of the ranks of the waiting
    requests, with n as its last entry. ``orders`` are the requests by arrival, the requests by
    rank, and the rank of each request.
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


def one_after_another(instance: Instance) -> Any:
    """Return a schedule in which each replica runs one request at a time.

    Requests are dealt out to the replicas in turn, by arrival. The schedule is feasible, and fast
    to compute for any instance. It is a `FleetSchedule` if there are several replicas.
    """
    arrival, order = instance.arrival_times, np.argsort(instance.arrival_times, kind="stable")
    machines, starts = np.zeros((2, len(instance)), dtype=np.int64)
    machines[order] = np.arange(len(order)) % instance.replicas
    for k in range(min(instance.replicas, len(order))):
        own = order[k :: instance.replicas]
        outputs = instance.output_lengths[own]
        before = np.cumsum(outputs) - outputs
        # A start is the maximum, over arrivals so far, of the arrival plus all outputs run since.
        starts[own] = before + np.maximum.accumulate(arrival[own] - before)
    return schedule_on(instance, machines, starts)


def prefix_schedule(
    instance: Instance,
    order: IntArray,
    should_stop: Callable[[], bool] = never,
    *,
    skip: bool = False,
) -> Schedule | None:
    """Start arrived requests, in a given order, as soon as they fit for their whole run.

    Parameters
    ----------
    instance : Instance
        The problem.
    order : int64 array
        Requests by falling priority: a permutation.
    should_stop : Callable[[], bool], default never
        Polled a few times a second. Once it returns True, the result is None.
    skip : bool, default False
        If a request does not fit, try those of lower priority instead of waiting.
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
    """Return the best `prefix_schedule` over all `list_orders`, after a check; the first wins ties.

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
        raise AssertionError("a list schedule is infeasible")
    return best


def best_fleet_schedule(instance: Instance) -> Any:
    """Return the best schedule of several replicas among the following ones.

    These are `one_after_another`, and for each of `list_orders` the schedule in which each request,
    in this order, takes the first start that fits.
    """
    search = RuinAndRecreate(instance)
    search.offer(*columns_of(one_after_another(instance)))
    for order in list_orders(instance).values():
        search.place(order)
    return search.schedule
