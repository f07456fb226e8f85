"""Tiny fleets in rounds drawn at random."""

from __future__ import annotations

import numpy as np

from instances import Instance, MemoryRule

RULES = (MemoryRule(), MemoryRule(block_size=2), MemoryRule(3, "next"), MemoryRule(1, "next"))


def tiny_fleet(rng: np.random.Generator, requests: int, replicas: int | None = None) -> Instance:
    """A fleet of 2 or 3 replicas whose requests often do not fit together."""
    n = int(rng.integers(2, requests + 1))
    rule = RULES[int(rng.choice([0, 0, 1, 2, 3]))]
    limit = int(rng.integers(6, 11)) // rule.block_size * rule.block_size + int(rng.integers(0, 2))
    prompts = rng.integers(1, 4, n)
    outputs = np.minimum(rng.integers(1, 5, n), rule.limit(limit) - prompts)
    weighted = bool(rng.integers(0, 2))
    return Instance.from_arrays(
        prompts,
        outputs,
        rng.integers(0, 4, n),
        memory_limit=limit,
        memory_rule=rule,
        weights=rng.integers(1, 6, n) if weighted else None,
        replicas=replicas or int(rng.integers(2, 4)),
    )
