"""Solves whose rounds are far shorter than latencies end in time; measured in processor time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

import hindsight
from hindsight.relaxation import relax_until
from hindsight.solver import solve_until
from instances import MemoryRule, ServiceLevel, Workload
from instances.batch_time import AffineTime
from instances.problem.arrival_source import in_seconds

LIMIT = 0.5
"""Processor seconds after which a solve is interrupted."""

MOST = LIMIT + 1.5
"""Processor seconds that a solve may take; one request took 30 where loops ran to their end."""

Stop: TypeAlias = Callable[[], bool] | None

BLOCKS = MemoryRule(block_size=16)


def solved(stop: Stop, problem: Workload, d0: float) -> None:
    solve_until(stop, in_seconds(problem, AffineTime(d0, 1e-3, 1e-6)), threads=1)


def relaxed(stop: Stop, problem: Workload, d0: float) -> None:
    timed = in_seconds(problem, AffineTime(d0, 1e-3, 1e-6))
    relax_until(stop, timed, threads=1)


def attained(stop: Stop, problem: Workload, d0: float) -> None:
    level = ServiceLevel(latency=1.2 * 1e-3 * float(problem.prompt_lengths.sum()) - 1e-3)
    timed = in_seconds(problem, AffineTime(d0, 1e-3, 1e-6))
    solve_until(stop, timed, goal=hindsight.OnTime(level), threads=1)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left_to_compile() -> None:
    workload = Workload([0.0] * 3, [5] * 3, [4] * 3, memory_limit=16, memory_rule=BLOCKS)
    for run in (solved, relaxed, attained):
        run(None, workload, 0.5)


@pytest.mark.parametrize("d0", [1e-4, 1e-6])
@pytest.mark.parametrize("run", [solved, relaxed, attained])
@pytest.mark.parametrize(("output", "replicas"), [(1, 1), (300, 2)])
def test_one_request_on_a_fine_grid_ends_in_time(
    run: Any, d0: float, output: int, replicas: int
) -> None:
    rows = [0.0] * 3, [1000] * 3, [output] * 3
    workload = Workload(*rows, memory_limit=4000, memory_rule=BLOCKS, replicas=replicas)
    begun = time.process_time()
    run(lambda: time.process_time() > begun + LIMIT, workload, d0)
    assert time.process_time() - begun < MOST
