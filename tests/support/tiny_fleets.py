"""Tiny fleets in rounds drawn at random, with schedules of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from instances import FleetSchedule, Instance, MemoryRule

RULES = (MemoryRule(), MemoryRule(block_size=2), MemoryRule(3, "next"), MemoryRule(1, "next"))


def tiny_fleet(
    rng: np.random.Generator, requests: int = 5, *, weighted: bool | None = None, **other: Any
) -> Instance:
    """A fleet of 2 or 3 replicas whose requests often do not fit together."""
    n = int(rng.integers(2, requests + 1))
    rule = RULES[int(rng.choice([0, 0, 1, 2, 3]))]
    limit = int(rng.integers(6, 11)) // rule.block_size * rule.block_size + int(rng.integers(0, 2))
    prompts = rng.integers(1, 4, n)
    outputs = np.minimum(rng.integers(1, 5, n), rule.limit(limit) - prompts)
    if weighted is None:
        weighted = bool(rng.integers(0, 2))
    return Instance.from_arrays(
        prompts,
        outputs,
        rng.integers(0, 4, n),
        memory_limit=limit,
        memory_rule=rule,
        weights=rng.integers(1, 6, n) if weighted else None,
        **({"replicas": int(rng.integers(2, 4))} | other),
    )


def first_fit(fleet: Instance, rng: np.random.Generator) -> FleetSchedule:
    """Requests in a random order on random replicas, each at its first start that fits."""
    assignment = rng.integers(0, fleet.replicas, len(fleet))
    starts = [-1] * len(fleet)
    rule, blocks = fleet.memory_rule, fleet.memory_limit // fleet.memory_rule.block_size
    held: dict[tuple[int, int], int] = {}
    for i in rng.permutation(len(fleet)).tolist():
        start = fleet[i].arrival_time
        while True:
            tokens = range(1, fleet[i].output_length + 1)
            before = fleet[i].prompt_length - (rule.emitted_token == "next")
            own = {
                (int(assignment[i]), start + k): -(-(before + k) // rule.block_size) for k in tokens
            }
            if all(held.get(place, 0) + more <= blocks for place, more in own.items()):
                break
            start += 1
        starts[i] = start
        for place, more in own.items():
            held[place] = held.get(place, 0) + more
    return FleetSchedule.from_starts(fleet, assignment, starts)
