"""Prove a round by which every optimal schedule completes, without a linear program."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from hindsight.prices import tokens, volume
from hindsight.runtime.clock import StoppedEarlyError, never
from hindsight.schedules.lists import best_list_schedule
from instances import FleetSchedule, Instance, Schedule
from instances.problem.memory_translation import pooled

LARGEST_ENUMERATION = 4_000_000
"""Largest number of (request, start) pairs tested for whether an optimal schedule may use them."""

THOROUGH_UP_TO = 300
"""Largest number of requests for which `proved_horizon` tries all list schedules, and computes all
bounds even after the time limit."""


class HorizonProof(NamedTuple):
    """Lower bounds on total latency, and a round by which every optimal schedule completes.

    Both are computed without a solver.

    Attributes
    ----------
    price_bound : PriceBound
        Lower bound on total latency, in exact arithmetic, from a price of memory in each round. The
        prices come from the volume relaxation, where a round serves up to M units of the requests'
        volumes: the tokens that they hold, summed over their rounds. If the computation was stopped
        before, all prices are 0.
    lower_bound : int
        Lower bound on total latency, in rounds: the largest of ``price_bound``, the mean-busy-time
        bound, and the sum over requests of weight times output length. If the computation was
        stopped before the other two, ``price_bound`` alone.
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

    The proof uses a feasible schedule, and a price of memory in each round. These prices give a
    lower bound on total latency, and a priced cost of each start: its latency plus the prices of
    the memory that the request then holds. The excess of a start is its priced cost minus the least
    priced cost of the request. The total latency of a schedule is at least the lower bound plus the
    excess of any of its starts. So if this sum is larger than the total latency of the feasible
    schedule, the start is in no optimal schedule. The horizon is the last completion of all other
    starts.

    All starts are tested that complete by round max a + sum o, or by the end of the feasible
    schedule if that is later. Later completions are in no optimal schedule: after the last arrival,
    such a schedule has no round in which nothing runs, because everything later could move one
    round earlier. So at most sum o rounds follow the last arrival. If there are more than
    `LARGEST_ENUMERATION` pairs of request and start, none is tested, and the horizon is the later
    of these two rounds.

    Once ``should_stop`` returns True, slow steps are skipped: list schedules and, above
    `THOROUGH_UP_TO` requests, prices and mean busy times. The horizon may then be later, but is
    still proved.

    For a fleet, the bounds are those of its `pooled` instance, one machine with the memory of all
    replicas. Each schedule of the fleet is also a schedule of this machine. So if every schedule of
    the machine with some start has a larger total latency than the feasible schedule of the fleet,
    no optimal schedule of the fleet has this start.
    """
    thorough = len(instance) <= THOROUGH_UP_TO
    schedule = schedule or best_list_schedule(instance, should_stop)
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
