"""Keys in seconds: better for being annealed, on time, on several machines; seconds of rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hindsight.runtime.clock import never
from hindsight.schedules.keys import KeySearch
from hindsight.schedules.machines import round_seconds
from instances import Workload
from instances.batch_time import (
    AffineTime,
    BatchStretch,
    BatchTime,
    IterationTime,
    SecondsSchedule,
    TiledTime,
    UnitTime,
    preset,
)
from instances.problem.schedule import TimedSchedule


def drawn(seed: int, n: int, time: BatchTime) -> Workload:
    rng = np.random.default_rng(seed)
    s, o = rng.integers(1, 30, n), rng.integers(1, 20, n)
    limit = int((s + o).max()) + int(rng.integers(0, 60))
    arrivals = np.sort(rng.integers(0, 8 * n, n)) / 8
    return Workload(arrivals, s, o, memory_limit=limit, batch_time=time)


def opened(workload: Workload) -> TimedSchedule:
    keys = KeySearch(workload, 0)
    keys.open(never)
    return keys.schedule()


@pytest.mark.parametrize(("draw", "room"), [((4, 30), 0), ((1, 12), 400)], ids=["tight", "ample"])
def test_annealing_improves_on_the_openings_and_depends_on_the_seed_alone(
    draw: tuple[int, int], room: int
) -> None:
    """Where memory is scarce, requests are stopped; where it is not, they keep their rounds."""
    tight = drawn(*draw, AffineTime(0.5, 0.0625, 0.0))
    workload = tight.replaced(memory_limit=tight.memory_limit + room)
    found = []
    for _ in range(2):
        keys = KeySearch(workload, 7)
        keys.open(never)
        first = keys.cost
        found.append((next(keys.anneal(never)), keys.schedule()))
        assert found[-1][1].total_latency == pytest.approx(found[-1][0])
        assert found[-1][0] < first
    assert found[0] == found[1]


def test_a_cap_on_prompts_pays_where_prompts_stall_the_batch() -> None:
    # All prompts at once would have the short requests wait for the long prompts.
    n = 25
    prompts, outputs = [10] * 20 + [1000] * 5, [1] * 20 + [5] * 5
    machine = {"memory_limit": 10_000, "batch_time": preset("llama-2-70b-2xa100").batch_time}
    workload = Workload(np.zeros(n), prompts, outputs, **machine)
    best = opened(workload)
    together = SecondsSchedule.from_start_rounds(workload, [0] * n)
    assert together.is_feasible
    assert best.total_latency < together.total_latency


@pytest.mark.parametrize(("memory_limit", "together"), [(10, True), (9, False)])
def test_two_that_fill_the_memory_to_the_last_token_run_together(
    memory_limit: int, together: bool
) -> None:
    machine = {"memory_limit": memory_limit, "batch_time": UnitTime()}
    best = opened(Workload([0.0, 0.0], [3, 3], [2, 2], **machine))
    assert (best.total_latency == 4) is together


@pytest.mark.parametrize(
    "time",
    [
        AffineTime(0.5, 0.25, 0.125),
        IterationTime(0.5, 0.25),
        TiledTime([2, 5, 9], [1.0, 1.5, 4.0], kv_token=0.5),
        UnitTime(0.75),
        TiledTime([2, 4, 6], [1.0, 0.5, 4.0], 2, kernel=0.25, kv_token=0.5),
    ],
)
def test_the_table_of_a_batch_time_is_what_it_says(time: object) -> None:
    seconds, d2 = round_seconds(time, 20)  # type: ignore[arg-type]
    for tokens, resident in ((1, 1), (3, 7), (20, 20)):
        stretch = BatchStretch(1, 1, tokens, 1, resident, 1)
        assert seconds[tokens] + d2 * resident == time.durations(stretch)[0]  # type: ignore[attr-defined]


def test_a_stop_leaves_the_first_schedule() -> None:
    keys = KeySearch(drawn(0, 10, UnitTime()), 0)
    keys.open(lambda: True)
    assert math.isfinite(keys.cost)
    assert list(keys.anneal(lambda: True)) == []
