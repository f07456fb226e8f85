"""Solves whose rounds are far shorter than latencies end soon after they are told to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hindsight
from hindsight.relaxation import relax_until
from hindsight.solver import solve_until
from instances import MemoryRule, ServiceLevel, Workload
from online import AffineTime

ASKED = 400
"""Questions after which a solve is told to stop."""

MOST = 100
"""Questions after that, one in two milliseconds; a loop that ran to its end took 15,000 of them."""

BLOCKS = MemoryRule(block_size=16)


def attained(stop: Callable[[], bool], workload: Workload, **options: Any) -> object:
    level = ServiceLevel(latency=1.2 * 1e-3 * float(workload.prompt_lengths.sum()) - 1e-3)
    return solve_until(stop, workload, goal=hindsight.OnTime(level), **options)


@pytest.mark.parametrize("d0", [1e-4, 1e-6])
@pytest.mark.parametrize("run", [solve_until, relax_until, attained])
@pytest.mark.parametrize(("output", "replicas"), [(1, 1), (300, 2)])
def test_a_fine_grid_ends_soon_after_the_stop(
    run: Any, d0: float, output: int, replicas: int
) -> None:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > ASKED

    machine: Any = {"memory_limit": 4000, "memory_rule": BLOCKS, "replicas": replicas}
    rows = [0.0] * 3, [1000] * 3, [output] * 3
    run(stop, Workload(*rows, **machine, batch_time=AffineTime(d0, 1e-3, 1e-6)), threads=1)
    assert asked <= ASKED + MOST
