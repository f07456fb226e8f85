"""Optima of fleets in rounds, against enumeration of every assignment and every start."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fleet_optimum import fleet_optimum, makespan, partitions
from optimum_by_rule import optimum

import hindsight
from hindsight.integer_program.cbc import safe_horizon
from instances import (
    FleetSchedule,
    Instance,
    InvalidTypeError,
    InvalidValueError,
    MemoryRule,
    PreemptiveSchedule,
    Schedule,
    ServiceLevel,
)
from instances.problem.memory_rule import TOKENS
from instances.problem.memory_translation import pooled

RULES = (TOKENS, TOKENS, TOKENS, MemoryRule(1, "next"), MemoryRule(2), MemoryRule(3, "next"))


def drawn(seed: int) -> Instance:
    """A tiny fleet in which requests get into each other's way."""
    rng = np.random.default_rng(seed)
    n, replicas, rule = int(rng.integers(1, 6)), int(rng.integers(2, 4)), RULES[seed % len(RULES)]
    limit = int(rng.integers(5, 9))
    prompts, outputs = rng.integers(1, 3, n), rng.integers(1, 4, n)
    weights = rng.integers(1, 4, n) if seed % 4 == 0 else np.ones(n, np.int64)
    return Instance.from_arrays(
        prompts,
        outputs,
        rng.integers(0, 3, n),
        weights=weights,
        memory_limit=limit,
        memory_rule=rule,
        replicas=replicas,
    )


def agree(instance: Instance) -> None:
    exact = fleet_optimum(instance)
    ways: list[dict[str, Any]] = [{}, {"method": "mip"}]
    if instance.memory_rule == TOKENS:
        ways.append({"method": "mip", "formulation": "sparse"})
    for way in ways:
        result = hindsight.solve(instance, threads=1, progress=False, **way)
        assert isinstance(result.schedule, FleetSchedule)
        assert result.schedule.problem.digest == instance.digest
        assert result.schedule.is_feasible
        assert (result.status, result.upper_bound) == ("optimal", exact), way
        assert result.certified_lower_bound <= exact
        assert result.schedule.makespan <= result.horizon
    assert hindsight.relax(instance, progress=False).certified_bound <= exact
    if instance.memory_rule == TOKENS:
        opinion = hindsight.solve_with_cbc(instance, safe_horizon(instance))
        assert opinion.is_optimal
        assert opinion.schedule.total_latency == exact


@pytest.mark.parametrize("seed", range(24))
def test_tiny_fleets_are_solved_to_the_optimum_of_enumeration(seed: int) -> None:
    agree(drawn(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24, 524))
def test_500_tiny_fleets_are_solved_to_the_optimum_of_enumeration(seed: int) -> None:
    agree(drawn(seed))
