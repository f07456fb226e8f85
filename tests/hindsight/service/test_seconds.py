"""The most requests on time in seconds: prices from below, and limits that are met exactly."""

from __future__ import annotations

import numpy as np
import pytest
from priced_request import drawn_minorant, least_cost

import hindsight
from hindsight import OnTime
from hindsight.outcomes.goals import TailOf
from hindsight.prices.deadlines import Deadlines
from hindsight.prices.round_lengths import PricedValues, RoundLengthPrices
from instances import MemoryRule, SecondsSchedule, ServiceLevel, Workload
from instances.batch_time import AffineTime
from instances.service_level import Limits


@pytest.mark.parametrize("seed", range(12))
def test_values_are_near_what_a_request_can_do_and_not_above(seed: int) -> None:
    rng = np.random.default_rng(seed)
    minorant = drawn_minorant(rng)
    s, o = int(rng.integers(1, 30)), int(rng.integers(2, 20))
    workload = Workload([float(rng.integers(0, 8)) / 4], [s], [o], memory_limit=s + o + 50)
    own = 0.25 * o + float(minorant.d1) * (s + o) + float(minorant.d2) * o * (s + o)
    end, first = own * rng.uniform(1.1, 2), own * rng.uniform(0.5, 1.5)
    limits = Limits(np.array([end]), np.array([first]), np.array([np.inf]))
    cell, cells = 0.5, 64
    price = float(rng.choice([0.1, 0.4, 1])) * (1 + 0.2 * rng.random(cells)) / own
    prices = RoundLengthPrices(cell, price, rng.random(cells))
    deadlines = Deadlines.of(workload, minorant, limits, cell * cells)
    arrival = float(workload.arrival_times[0])
    last, first_end = arrival + end, arrival + first
    possible = least_cost(workload, minorant, prices, 2.0**-5, (last, first_end))
    found = []
    for step, size in ((2.0**-3, 16), (2.0**-5, 4), (2.0**-6, 1)):
        priced = PricedValues(workload, minorant, prices, step, size, 1.1, deadlines)
        (value,) = priced.of(np.array([0]), np.array([end + 1]))
        assert value <= min(1.0, possible)
        found.append(value)
    assert max(found) >= 0.6 * min(1.0, possible)


@pytest.mark.parametrize("token", [0.4, 0.6])
def test_time_per_token_alone_excludes_who_is_too_slow(token: float) -> None:
    time = AffineTime(0.5, 0.0, 0.0)
    workload = Workload([0.0], [1], [3], memory_limit=4, batch_time=time)
    level = ServiceLevel(time_per_token=token)
    found = hindsight.solve(workload, 0.15, goal=OnTime(level), threads=1)
    assert found.lower_bound == found.upper_bound == int(token > 0.5)


@pytest.mark.parametrize("limit", ["latency", "first_token"])
def test_a_tail_is_not_above_a_schedule_that_stores_a_token_next(limit: TailOf) -> None:
    # A token stored next is not held in its own round, which is shorter by d2.
    rule = MemoryRule(emitted_token="next")
    time = AffineTime(0.1, 0.05, 0.5)
    workload = Workload([0.0], [3], [2], memory_limit=50, memory_rule=rule, batch_time=time)
    schedule = SecondsSchedule.from_start_rounds(workload, [0])
    assert not schedule.violations()
    reached = {"latency": schedule.latencies, "first_token": schedule.first_token_times}
    found = hindsight.solve(workload, 2, goal=hindsight.Tail(1.0, limit))
    assert found.lower_bound <= found.upper_bound == pytest.approx(reached[limit][0])


class DeclaredTime(AffineTime):
    """A batch time of a user's, whose minorant is a claim."""

    def minorants(self, memory_limit: int) -> list[tuple[float, float, float]]:
        """Return its own coefficients."""
        return [(self.d0, self.d1, self.d2)]


def test_a_tail_of_a_declared_minorant_is_not_certified() -> None:
    # The request's own time closes the interval before anything else is tried.
    workload = Workload([0.0], [3], [2], memory_limit=50)
    known, declared = (
        hindsight.solve(workload.with_batch_time(kind(0.5, 0.25)), 1, goal=hindsight.Tail(1.0))
        for kind in (AffineTime, DeclaredTime)
    )
    assert known.certified
    assert not declared.certified
