"""List schedules, feasible schedules from a fixed order of the requests: the first upper bounds.

These are hindsight heuristics, not online policies: they use all requests from the start, and a
request may start before another one that arrived or was placed before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hindsight.prices.idle_gaps import compress
from hindsight.runtime.clock import never
from instances import FleetSchedule, Instance, Schedule
from instances.arrays import IntArray

from .cycles import RuinAndRecreate
from .timetables import IN_TURN, columns_of, schedule_on


def list_orders(instance: Instance) -> dict[str, IntArray]:
    """Return the orders of the requests from which list schedules are built, by name.

    Each order is a permutation, shape (n,). It sorts the requests by output length, volume (tokens
    held, summed over rounds) or peak memory, each divided by the weight, or by arrival. Ties follow
    the order of the instance.
    """
    weight = instance.weights
    keys = {
        "output_length": instance.output_lengths / weight,
        "volume": instance.volumes / weight,
        "peak_memory": instance.peak_memories / weight,
        "arrival_time": instance.arrival_times,
    }
    return {name: np.argsort(key, kind="stable") for name, key in keys.items()}


def one_after_another(instance: Instance) -> Any:
    """Return a feasible schedule in which each replica runs one request at a time.

    In order of arrival, and of output length where arrivals are equal, requests are assigned to the
    replicas in turn. This is fast for any instance. The result is a `FleetSchedule` if there are
    several replicas, else a `Schedule`.
    """
    arrival = instance.arrival_times
    order = np.lexsort((instance.output_lengths, arrival))
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


def first_schedule(instance: Instance, must_stop: Callable[[], bool] = never) -> Any:
    """Return a feasible schedule in which no request starts before one that arrived earlier.

    Requests are placed in order of arrival. Each takes the first start at which it fits and that is
    not before the start of the previous request. This is fast for any instance. The result is
    `one_after_another` if ``must_stop`` returned True before all requests were placed, or if the
    memory profiles (free memory of each machine in each round) would be too long.
    """
    search = RuinAndRecreate(instance)
    order = np.argsort(instance.arrival_times, kind="stable")
    is_placed = search.place(order, must_stop, IN_TURN)
    return search.schedule if is_placed else one_after_another(instance)


def best_list_schedule(
    instance: Instance, should_stop: Callable[[], bool] | None = None
) -> Schedule | FleetSchedule:
    """Return the best of `first_schedule` and the list schedules, one for each of `list_orders`.

    A list schedule is built from one order. Each request, in this order, gets the first start at
    which it fits with those placed before it, on any replica. The result is checked to be feasible.
    If several schedules are best, it is the first of them.

    Parameters
    ----------
    instance : Instance
        The problem.
    should_stop : Callable[[], bool] or None, default None
        Once it returns True, each list schedule that takes more than about 0.05 seconds is given
        up. The result is `first_schedule` if no list schedule is complete, or if the memory
        profiles (free memory of each machine in each round) would be too long.
    """
    moved = compress(instance)
    search = RuinAndRecreate(moved.instance)
    search.offer(*columns_of(first_schedule(moved.instance)))
    for order in list_orders(moved.instance).values():
        search.place(order, should_stop or never)
    best: Schedule | FleetSchedule = moved.restore(search.schedule)
    if not best.is_feasible:
        raise AssertionError("the best list schedule found is not feasible")
    return best
