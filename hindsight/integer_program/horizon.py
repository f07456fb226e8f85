"""A last round that is proved to be late enough, before any linear program is solved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hindsight.bounds.memory_prices import (
    PriceBound,
    bound_without_prices,
    price_bound,
    round_prices,
    useful_starts,
)
from hindsight.bounds.volume import fill_by_volume, filling_prices, mean_busy_time_bound
from hindsight.heuristics.list_scheduling import best_list_schedule
from hindsight.runtime.clock import StoppedEarlyError, never
from instances import Instance, Schedule

from .starts import StartSets, start_sets

LARGEST_ENUMERATION = 4_000_000
"""Starts up to which the windows are listed; beyond that no model could hold them anyway."""

THOROUGH_UP_TO = 300
"""Requests up to which the list schedules that skip are tried: they scan the queue every epoch."""


@dataclass(frozen=True, eq=False)
class HorizonProof:
    """Bounds that need no solver, and the starts they leave.

    Attributes
    ----------
    schedule : Schedule
        Best list schedule.
    price_bound : PriceBound
        Exact bound of the volume relaxation's memory prices.
    lower_bound : int
        The best of that, the mean-busy-time bound and the sum of output lengths, exact.
    horizon : int
        Every optimal schedule completes by this round.
    starts : StartSets or None
        Every start an optimal schedule can use, and those of ``schedule``; None where there are too
        many to list.
    """

    schedule: Schedule
    price_bound: PriceBound
    lower_bound: int
    horizon: int
    starts: StartSets | None


def proved_horizon(
    instance: Instance,
    schedule: Schedule | None = None,
    should_stop: Callable[[], bool] | None = None,
    found: Callable[[Schedule], object] | None = None,
) -> HorizonProof:
    """Prove a horizon from a feasible schedule and the volume relaxation's prices.

    A second, independent argument caps it: after the last arrival an optimal schedule has no
    round in which nothing runs, because everything later could move one round earlier; so it
    completes by max a + sum o.

    Of what takes seconds, schedules, prices and mean busy times that are still to come when
    ``should_stop`` says so are left out; up to `THOROUGH_UP_TO` requests only schedules do.
    Everything returned is proved all the same. ``found`` is told of each list schedule that is
    better than those before, as it comes.
    """
    thorough = len(instance) <= THOROUGH_UP_TO
    best = schedule or best_list_schedule(
        instance, thorough=thorough, should_stop=should_stop, found=found
    )
    busy_end = int(instance.arrival_times.max() + instance.output_lengths.sum())
    latest = max(busy_end, best.makespan)
    if not thorough and should_stop is not None and should_stop():
        bound = bound_without_prices(instance)
        return HorizonProof(best, bound, bound.bound, latest, None)
    filling = fill_by_volume(instance)
    lower = max(mean_busy_time_bound(instance, filling), sum(instance.output_lengths.tolist()))
    prices = round_prices(filling_prices(filling), instance)
    must_stop = never if thorough or should_stop is None else should_stop
    try:
        bound = price_bound(instance, prices, should_stop=must_stop)
    except StoppedEarlyError:
        bound = bound_without_prices(instance)
    lower = max(lower, bound.bound)
    if len(instance) * latest > LARGEST_ENUMERATION:
        return HorizonProof(best, bound, lower, latest, None)
    starts = start_sets(instance, useful_starts(instance, bound, best.total_latency, latest))
    return HorizonProof(best, bound, lower, starts.horizon, starts)
