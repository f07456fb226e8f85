"""Prove a round by which every optimal schedule completes, without a linear program."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from hindsight.prices import tokens, volume
from hindsight.runtime.clock import StoppedEarlyError, never
from hindsight.schedules.lists import best_fleet_schedule, best_list_schedule
from instances import FleetSchedule, Instance, Schedule
from instances.problem.memory_translation import pooled

LARGEST_ENUMERATION = 4_000_000
"""Largest number of (request, start) pairs that are priced one by one to shorten the horizon."""

THOROUGH_UP_TO = 300
"""Largest number of requests for which all list schedules are tried, and for which bounds are
computed even after the time limit."""


class HorizonProof(NamedTuple):
    """Lower bounds computed without a solver, and the horizon that follows from them.

    Attributes
    ----------
    price_bound : PriceBound
        Exact lower bound on total latency from the memory prices of the volume relaxation.
    lower_bound : int
        Lower bound on total latency, in rounds: the largest of ``price_bound``, the mean-busy-time
        bound, and the sum of weight times output length.
    horizon : int
        Round by which every optimal schedule completes.
    """

    price_bound: tokens.PriceBound
    lower_bound: int
    horizon: int


def proved_horizon(
    instance: Instance,
    schedule: Schedule | FleetSchedule | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> HorizonProof:
    """Prove a round, the horizon, by which every optimal schedule completes.

    The proof uses a feasible schedule, and memory prices from the volume relaxation. These prices
    give a lower bound on total latency and a priced cost of each start: its latency plus the prices
    of the memory held. Consider a start whose priced cost exceeds the least one of its request by
    more than the gap between schedule and bound. It is in no optimal schedule. The horizon is the
    last completion of all other starts.

    The horizon is also at most max a + sum o. After the last arrival, an optimal schedule has no
    round in which nothing runs, because everything later could move one round earlier.

    Once ``should_stop`` returns True, slow steps are skipped: list schedules and, above
    `THOROUGH_UP_TO` requests, prices and mean busy times. The result is proved in any case.

    For a fleet, the bounds are those of its `pooled` instance, one machine with the memory of all
    replicas. Each schedule of the fleet is also a schedule of the pooled instance, so the horizon
    holds for the fleet too.
    """
    thorough = len(instance) <= THOROUGH_UP_TO
    if schedule is None and instance.replicas > 1:
        schedule = best_fleet_schedule(instance)
    if schedule is None:
        schedule = best_list_schedule(instance, thorough=thorough, should_stop=should_stop)
    machine = pooled(instance)
    busy_end = int(instance.arrival_times.max() + instance.output_lengths.sum())
    latest = max(busy_end, schedule.makespan)
    must_stop = never if thorough or should_stop is None else should_stop
    bound = tokens.bound_without_prices(machine)
    if must_stop():
        return HorizonProof(bound, bound.bound, latest)
    filling = volume.fill_by_volume(machine)
    lower = max(volume.mean_busy_time_bound(machine, filling), machine.total_output_length)
    with suppress(StoppedEarlyError):
        prices = tokens.round_prices(volume.filling_prices(filling), machine)
        bound = tokens.price_bound(machine, prices, should_stop=must_stop)
    lower = max(lower, bound.bound)
    if len(instance) * latest > LARGEST_ENUMERATION:
        return HorizonProof(bound, lower, latest)
    useful = tokens.useful_starts(machine, bound, schedule.total_latency, latest)
    last = np.array([own[-1] for own in useful])
    return HorizonProof(bound, lower, int((last + instance.output_lengths).max()))
