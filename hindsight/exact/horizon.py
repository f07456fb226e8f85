"""Horizon by which every optimal schedule completes, proved without a linear program."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hindsight.prices.tokens import (
    PriceBound,
    bound_without_prices,
    price_bound,
    round_prices,
    useful_starts,
)
from hindsight.prices.volume import fill_by_volume, filling_prices, mean_busy_time_bound
from hindsight.runtime.clock import StoppedEarlyError, never
from hindsight.schedules.lists import best_fleet_schedule, best_list_schedule
from instances import FleetSchedule, Instance, Schedule
from instances.arrays import IntArray
from instances.problem.memory_translation import pooled

LARGEST_ENUMERATION = 4_000_000
"""Most (request, start) pairs that are listed; with more, no model would fit in memory anyway."""

THOROUGH_UP_TO = 300
"""Most requests for which list schedules with ``skip`` are tried: they scan the queue per epoch."""


class HorizonProof(NamedTuple):
    """Lower bounds computed without a solver, and the starts that they allow.

    Attributes
    ----------
    price_bound : PriceBound
        Exact lower bound from the memory prices of the volume relaxation.
    lower_bound : int
        The largest of ``price_bound``, the mean-busy-time bound and the sum of w_i o_i, exact.
    horizon : int
        Round by which every optimal schedule completes.
    useful : list[int64 array] or None
        The starts of each request on one machine that an optimal schedule can use, and those of the
        schedule; None if there are too many to list.
    """

    price_bound: PriceBound
    lower_bound: int
    horizon: int
    useful: list[IntArray] | None


def proved_horizon(
    instance: Instance,
    schedule: Schedule | FleetSchedule | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> HorizonProof:
    """Prove a horizon from a feasible schedule and the prices of the volume relaxation.

    A second, independent argument limits it: after the last arrival an optimal schedule has no
    round in which nothing runs, because everything later could move one round earlier. So it
    completes by max a + sum o.

    Once ``should_stop`` returns True, the remaining slow steps are skipped: list schedules and,
    above `THOROUGH_UP_TO` requests, prices and mean busy times. The result is proved in any case.

    For a fleet, the bounds are those of its `pooled` instance. Each schedule of the fleet is also a
    schedule of the pooled instance, so the allowed starts hold for the fleet too.
    """
    thorough = len(instance) <= THOROUGH_UP_TO
    best = schedule
    if best is None and instance.replicas > 1:
        best = best_fleet_schedule(instance)
    if best is None:
        best = best_list_schedule(instance, thorough=thorough, should_stop=should_stop)
    machine = pooled(instance)
    busy_end = int(instance.arrival_times.max() + instance.output_lengths.sum())
    latest = max(busy_end, best.makespan)
    if not thorough and should_stop is not None and should_stop():
        bound = bound_without_prices(machine)
        return HorizonProof(bound, bound.bound, latest, None)
    filling = fill_by_volume(machine)
    lower = max(mean_busy_time_bound(machine, filling), machine.total_output_length)
    prices = round_prices(filling_prices(filling), machine)
    must_stop = never if thorough or should_stop is None else should_stop
    try:
        bound = price_bound(machine, prices, should_stop=must_stop)
    except StoppedEarlyError:
        bound = bound_without_prices(machine)
    lower = max(lower, bound.bound)
    if len(instance) * latest > LARGEST_ENUMERATION:
        return HorizonProof(bound, lower, latest, None)
    useful = useful_starts(machine, bound, best.total_latency, latest)
    ends = zip(useful, instance.output_lengths.tolist(), strict=True)
    return HorizonProof(bound, lower, max(int(own[-1]) + output for own, output in ends), useful)
