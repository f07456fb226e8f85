"""Ascended prices: better than the closed forms where rounds are shared, for any threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from priced_request import priced_values

from hindsight.prices.machines import machine_bounds
from hindsight.prices.minorants import affine_minorants
from hindsight.prices.round_length_ascent import RoundLengthAscent
from hindsight.runtime.clock import never
from hindsight.schedules.keys import KeySearch
from instances import SecondsSchedule, Workload
from instances.batch_time import preset
from online import AffineTime


def listed(workload: Workload, time: AffineTime) -> SecondsSchedule:
    keys = KeySearch(workload.replaced(batch_time=time), 0)
    keys.open(never)
    return keys.schedule()


def ascended(workload: Workload, time: AffineTime, horizon: float, turns: int) -> RoundLengthAscent:
    (minorant,) = affine_minorants(time, workload.memory_limit)
    schedule = listed(workload, time)
    ascent = RoundLengthAscent(schedule, minorant, horizon=horizon, cell=0.25)
    with ThreadPoolExecutor(1) as pool:
        ascent.climb(turns, never, pool)
    return ascent


def test_where_rounds_are_shared_ascended_prices_win() -> None:
    rng = np.random.default_rng(1)
    s, o = rng.integers(20, 120, 60), rng.integers(5, 40, 60)
    workload = Workload(np.zeros(60), s, o, memory_limit=2_000)
    time = preset("llama-2-70b-2xa100").batch_time
    (minorant,) = affine_minorants(time, 2_000)
    ascent = ascended(workload, time, 16.0, 60)
    bound, _ = priced_values(workload, minorant, ascent.prices(), 2.0**-6)
    assert bound > max(machine_bounds(workload, time).values())
    assert float(bound) / len(workload) <= ascent.estimate * 1.01


def test_prices_do_not_depend_on_the_number_of_threads() -> None:
    workload = Workload(np.zeros(12), range(1, 13), [4] * 12, memory_limit=30)
    time = AffineTime(0.5, 0.125, 0.0)
    (minorant,) = affine_minorants(time, 30)
    found = []
    for threads in (1, 2):
        ascent = RoundLengthAscent(listed(workload, time), minorant, horizon=20.0, cell=0.5)
        with ThreadPoolExecutor(threads) as pool:
            ascent.climb(5, never, pool)
        found.append(ascent.prices().price)
    assert np.array_equal(*found)
