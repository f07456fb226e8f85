"""Solves whose rounds are far shorter than latencies end in time; measured in processor time."""

from __future__ import annotations

import time
from typing import Any

import pytest

import hindsight
from instances import MemoryRule, ServiceLevel, Workload
from instances.batch_time import AffineTime
from instances.problem.arrival_source import in_seconds

LIMIT = 0.5
"""Processor seconds after which a solve is interrupted."""

MOST = LIMIT + 1.5
"""Processor seconds that a solve may take; one request took 30 where loops ran to their end."""

BLOCKS = MemoryRule(block_size=16)


def solved(problem: Workload, d0: float, **options: Any) -> None:
    hindsight.solve(in_seconds(problem, AffineTime(d0, 1e-3, 1e-6)), threads=1, **options)


def relaxed(problem: Workload, d0: float, **options: Any) -> None:
    hindsight.relax(in_seconds(problem, AffineTime(d0, 1e-3, 1e-6)), threads=1, **options)


def attained(problem: Workload, d0: float, **options: Any) -> None:
    level = ServiceLevel(latency=1.2 * 1e-3 * float(problem.prompt_lengths.sum()) - 1e-3)
    batch_time = AffineTime(d0, 1e-3, 1e-6)
    hindsight.solve(
        in_seconds(problem, batch_time), goal=hindsight.OnTime(level), threads=1, **options
    )


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left_to_compile() -> None:
    workload = Workload([0.0] * 3, [5] * 3, [4] * 3, memory_limit=16, memory_rule=BLOCKS)
    for run in (solved, relaxed, attained):
        run(workload, 0.5)


@pytest.mark.parametrize("d0", [1e-4, 1e-6])
@pytest.mark.parametrize("run", [solved, relaxed, attained])
@pytest.mark.parametrize(("output", "replicas"), [(1, 1), (300, 2)])
def test_one_request_on_a_fine_grid_ends_in_time(
    run: Any, d0: float, output: int, replicas: int
) -> None:
    rows = [0.0] * 3, [1000] * 3, [output] * 3
    workload = Workload(*rows, memory_limit=4000, memory_rule=BLOCKS, replicas=replicas)
    begun = time.process_time()
    run(workload, d0, should_stop=lambda: time.process_time() > begun + LIMIT)
    assert time.process_time() - begun < MOST
