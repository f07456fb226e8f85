"""The most requests on time on several replicas in seconds, against every assignment."""

from __future__ import annotations

import numpy as np
import pytest
from effort import sweep
from seconds_cases import drawn_workload
from tiny_problems import InSeconds

import hindsight
from hindsight.runtime.clock import Clock
from hindsight.seconds.deadlines import Deadlines
from hindsight.seconds.minorants import affine_minorants
from hindsight.seconds.round_length_prices import PricedValues, RoundLengthPrices
from hindsight.service.results import OnTime
from hindsight.service.seconds import attain_in_seconds
from instances import FleetSchedule, ServiceLevel, Workload, generate
from instances.batch_time import LLAMA_2_70B_2XA100, AffineTime
from instances.service_level import Limits


def drawn(seed: int) -> tuple[np.random.Generator, Workload, AffineTime, Limits, int]:
    """Return up to four requests on two or three replicas, and how many can be on time."""
    rng = np.random.default_rng(seed)
    fleet = drawn_workload(rng, (2, 5), 3, seed % 2 == 1).with_replicas(2 + seed % 2)
    time = AffineTime(0.5, float(rng.integers(0, 5)) / 8, float(rng.integers(0, 5)) / 32)
    n = len(fleet)
    first = rng.integers(4, 24, n) / 8 if seed % 3 else np.full(n, np.inf)
    limits = Limits(rng.integers(4, 40, n) / 8, first, np.full(n, np.inf))
    return rng, fleet, time, limits, InSeconds.of(fleet, time, levels=limits).most_on_time()


@pytest.mark.parametrize("seed", sweep(range(100), one_in=10))
def test_the_best_assignment_lies_in_the_interval(seed: int) -> None:
    rng, fleet, time, limits, best = drawn(seed)
    state = OnTime(fleet, limits, Clock(0.3))
    attain_in_seconds(state, time, 1, seed)
    assert state.lower <= best <= state.upper
    if state.lower:
        assert isinstance(state.schedule, FleetSchedule)
        assert state.schedule.is_feasible
        kept = state.schedule.keeps(limits.of(state.served))
        assert kept.sum() == len(state.served) == state.lower
    (minorant,) = affine_minorants(time, fleet.memory_limit)
    n = len(fleet)
    for trial in range(6):
        step = 2.0 ** -int(rng.integers(4, 7))
        cells = int(rng.uniform(1, 9) / (4 * step)) + 1
        shape = (rng.random(cells), np.linspace(1, 0, cells))[trial % 2]
        scale = float(rng.choice([0.05, 0.2, 0.5, 1]))
        prices = RoundLengthPrices(4 * step, scale * shape, rng.random(cells))
        deadlines = Deadlines.of(fleet, minorant, limits, 4 * cells * step)
        priced = PricedValues(fleet, minorant, prices, step, deadlines=deadlines)
        values = priced.of(np.arange(n), np.maximum(deadlines.end - fleet.arrival_times, 0) + 1)
        assert n - priced.total(values) >= best


def test_late_requests_are_served_too_and_a_second_machine_helps() -> None:
    fleet = generate("conversations", 0, n=60, rate=60).with_replicas(2)
    level, time = ServiceLevel(latency=4.0), LLAMA_2_70B_2XA100.batch_time
    found = hindsight.attainment(fleet, level, 1.5, late="serve", batch_time=time, threads=1)
    schedule = found.schedule
    assert isinstance(schedule, FleetSchedule)
    assert schedule.problem is fleet
    assert schedule.is_feasible
    assert int(schedule.on_time(level).sum()) == found.lower_bound <= found.upper_bound
    alone = hindsight.attainment(fleet.alone(), level, 1.0, batch_time=time, threads=1)
    assert found.lower_bound > alone.lower_bound


def test_replicas_without_requests_stay_empty() -> None:
    fleet = Workload([0.0, 0.0], [3, 3], [1, 1], memory_limit=4, replicas=3)
    time = AffineTime(1.0, 0.5, 0.25)
    for latency, most in ((3.0, 0), (4.0, 2)):
        level = ServiceLevel(latency=latency)
        found = hindsight.attainment(fleet, level, 60, late="serve", batch_time=time, threads=1)
        assert found.lower_bound == found.upper_bound == most
        assert isinstance(found.schedule, FleetSchedule)
        assert sum(part is None for part in found.schedule.parts) == 1
        assert found.schedule.is_feasible


def test_a_tail_of_a_fleet_is_an_interval() -> None:
    fleet = Workload([0.0] * 4, [3] * 4, [1] * 4, memory_limit=4, replicas=2)
    # Two rounds of 3.5 seconds on each.
    found = hindsight.tail(fleet, 1.0, 1.0, batch_time=AffineTime(1.0, 0.5, 0.25), threads=1)
    assert found.lower_bound <= 7 <= found.upper_bound <= 7 * 1.01
    assert isinstance(found.schedule, FleetSchedule)
