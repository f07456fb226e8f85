"""Keys in seconds: better for being annealed, on time, on several machines; seconds of rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from drawn_instances import drawn_instance

from hindsight.runtime.clock import never
from hindsight.schedules.keys import KeySearch
from hindsight.schedules.preemptive import PreemptiveKeys
from instances import Instance, MemoryRule, Workload
from instances.batch_time import BatchTime, preset
from instances.problem.schedule import TimedSchedule
from instances.service_level import ServiceLevel, limits_of
from online import AffineTime, simulate


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


def test_annealing_holds_prompts_back_that_would_delay_many() -> None:
    """Sort keys change nothing here, as the requests are equal."""
    machine = {"memory_limit": 10**6, "batch_time": AffineTime(0.05, 0.00028)}
    keys = KeySearch(Workload(np.arange(30) / 2, [2000] * 30, [40] * 30, **machine), 0)
    keys.open(never)
    first = keys.cost
    list(keys.anneal(lambda: keys.cycle > 1))
    assert keys.cost < 0.9 * first


@pytest.mark.parametrize("name", ["llama-3.1-70b-h200-tp4-vllm", "llama-2-70b-a100-tp2"])
def test_the_first_schedule_is_better_than_an_engine_that_cuts_prompts(name: str) -> None:
    """Whole prompts alone, or attention left out, make it worse than the engine."""
    rng, model = np.random.default_rng(1), preset(name)
    prompts = np.clip(rng.lognormal(6.5, 1.2, 100), 1, 8192).astype(int)
    arrivals = np.cumsum([model.batch_time.at(one) for one in prompts.tolist()]) * 1.2
    machine = {"memory_limit": model.memory_limit, "batch_time": model.batch_time}
    workload = Workload(arrivals, prompts, rng.integers(20, 200, 100), **machine)
    engine = simulate(workload, "vllm(order=shortest-job, max_num_batched_tokens=512)")
    keys = KeySearch(workload, 0)
    keys.open(never)
    found = keys.schedule()
    assert found.is_feasible
    assert keys.cost == pytest.approx(found.total_latency)
    assert found.total_latency < engine.total_latency


@pytest.mark.parametrize(("memory_limit", "together"), [(10, True), (9, False)])
def test_two_that_fill_the_memory_to_the_last_token_run_together(
    memory_limit: int, together: bool
) -> None:
    machine = {"memory_limit": memory_limit, "batch_time": AffineTime(1.0)}
    best = opened(Workload([0.0, 0.0], [3, 3], [2, 2], **machine))
    assert (best.total_latency == 4) is together


def test_a_request_is_stopped_for_one_with_an_early_deadline() -> None:
    machine = {"memory_limit": 7, "batch_time": AffineTime(1.0)}
    workload, soon = Workload([0.0, 0.5], [4, 3], [3, 1], **machine), ServiceLevel(latency=2.0)
    keys = KeySearch(workload, 0, limits=limits_of([ServiceLevel(latency=20.0), soon], 2))
    keys.open(never)
    assert keys.cost == 0


def test_a_stop_leaves_the_first_schedule() -> None:
    keys = KeySearch(drawn(0, 10, AffineTime(1.0)), 0)
    keys.open(lambda: True)
    assert math.isfinite(keys.cost)
    assert list(keys.anneal(lambda: True)) == []


@pytest.mark.parametrize("replicas", [1, 2])
def test_schedules_in_rounds_are_feasible_and_depend_on_the_seed_alone(replicas: int) -> None:
    for seed in range(4):
        given = drawn_instance([43, seed], (4, 6), (6, 12), outputs=5, last_arrival=6)
        ample = Instance(list(given), 2 * given.memory_limit, replicas=replicas)
        instance = ample.replaced(memory_rule=MemoryRule(block_size=1 + seed % 2))
        found = [list(PreemptiveKeys(instance, 3).improve(never)) for _ in range(2)]
        assert found[0] == found[1]
        for schedule in found[0]:
            assert schedule.problem is instance
            assert schedule.violations() == []
