"""Prove a round by which every optimal schedule completes, without a linear program."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from hindsight.outcomes.problem import busy_end
from hindsight.prices import tokens, volume
from hindsight.runtime.clock import StoppedEarlyError, never
from instances import FleetSchedule, Instance, Schedule
from instances.problem.memory_translation import pooled

LARGEST_ENUMERATION = 4_000_000
"""Largest number of (request, start) pairs for which `proved_horizon` tests each start."""


def proved_horizon(
    instance: Instance,
    schedule: Schedule | FleetSchedule,
    filling: volume.VolumeFilling | None = None,
    should_stop: Callable[[], bool] = never,
) -> tuple[tokens.PriceBound, int]:
    """Prove a round, the horizon, by which every optimal schedule completes.

    The proof uses a feasible schedule, and a price of memory in each round. These prices give a
    lower bound on total latency, and a priced cost of each start: its latency plus the prices of
    the memory that the request then holds. The excess of a start is its priced cost minus the least
    priced cost of the request. The total latency of a schedule is at least the lower bound plus the
    excess of any of its starts. So if this sum is larger than the total latency of the feasible
    schedule, the start is in no optimal schedule. The horizon is the latest completion of a start
    that is not excluded in this way.

    Let R be the round of `busy_end`, or the end of the feasible schedule if that is later. Only
    starts that complete by round R are tested, because no optimal schedule has later completions.
    If there are more than `LARGEST_ENUMERATION` pairs of request and start, no start is tested, and
    the horizon is R.

    Return the lower bound with its prices, and the horizon. ``filling`` is the result of
    `fill_by_volume`, if computed already: the prices are computed from it. Once ``should_stop``
    returns True, steps that take more than a moment are skipped. The result is proved in any case.

    For a fleet, the bound is that of its `pooled` instance, one machine with the memory of all
    replicas. Each schedule of the fleet is also a schedule of the pooled instance, so the horizon
    holds for the fleet too.
    """
    machine = pooled(instance)
    latest = max(busy_end(instance), schedule.makespan)
    bound = tokens.bound_without_prices(machine)
    with suppress(StoppedEarlyError):
        prices = volume.filling_prices(filling or volume.fill_by_volume(machine))
        exact = tokens.round_prices(prices, machine)
        bound = tokens.price_bound(machine, exact, should_stop=should_stop)
    if len(instance) * latest > LARGEST_ENUMERATION:
        return bound, latest
    useful = tokens.useful_starts(machine, bound, schedule.total_latency, latest)
    last = np.array([own[-1] for own in useful])
    return bound, int((last + instance.output_lengths).max())
