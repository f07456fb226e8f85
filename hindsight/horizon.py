"""A last round that is proved to be late enough, before any linear program is solved."""

from __future__ import annotations

from dataclasses import dataclass

from instances import Instance, Schedule

from .list_schedules import best_list_schedule
from .prices import PriceBound, price_bound, round_prices, useful_starts
from .starts import StartSets, start_sets
from .volume_bounds import fill_by_volume, filling_prices, mean_busy_time_bound

THOROUGH_UP_TO = 300
"""Requests up to which the list schedules that skip are tried: they scan the queue every epoch."""


@dataclass(frozen=True, eq=False)
class HorizonProof:
    """Bounds that need no solver, and the starts they leave.

    Attributes
    ----------
    schedule : best list schedule.
    price_bound : exact bound of the volume relaxation's memory prices.
    lower_bound : the better of that and the mean-busy-time bound, exact.
    starts : every start a schedule at least as good as ``schedule`` can use.
    """

    schedule: Schedule
    price_bound: PriceBound
    lower_bound: int
    starts: StartSets

    @property
    def horizon(self) -> int:
        """Every schedule at least as good as ``schedule`` completes by this round."""
        return self.starts.horizon


def proved_horizon(instance: Instance, schedule: Schedule | None = None) -> HorizonProof:
    """Prove a horizon from a feasible schedule and the volume relaxation's prices.

    A second, independent argument caps it: after the last arrival an optimal schedule has no
    round in which nothing runs, because everything later could move one round earlier; so it
    completes by max a + sum o.
    """
    best = schedule or best_list_schedule(instance, thorough=len(instance) <= THOROUGH_UP_TO)
    filling = fill_by_volume(instance)
    bound = price_bound(instance, round_prices(filling_prices(filling), instance))
    starts = useful_starts(instance, bound, best.total_latency)
    busy_end = int(instance.arrival_times.max() + instance.output_lengths.sum())
    latest = max(busy_end, best.makespan)
    starts = [
        allowed[allowed + request.output_length <= latest]
        for request, allowed in zip(instance, starts, strict=True)
    ]
    lower = max(bound.bound, mean_busy_time_bound(instance, filling))
    return HorizonProof(best, bound, lower, start_sets(instance, starts))
