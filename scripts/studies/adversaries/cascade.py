"""Throughput lost to eviction cascades ([A25] Example 2, Proposition 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from instances import generate
from online.policy_interface.specs import make_policy
from online.simulation.simulator import simulate

SETTINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("one-type, level start", {"example": "one-type", "arrivals": "constant"}),
    ("one-type, imbalanced", {"example": "one-type", "arrivals": "constant", "imbalanced": True}),
    ("one-type, Poisson", {"example": "one-type"}),
    ("two-types, Poisson", {"example": "two-types"}),
)


@dataclass(frozen=True, slots=True)
class Cascade:
    """Completions of a policy while the arrivals of `fcfs-cascade` last.

    Attributes
    ----------
    setting, policy : str
        Which arrivals, and who serves them.
    rounds : int
        Iterations simulated, T.
    arrived, completed : float
        Requests per iteration, means over seeds.
    lost : float
        Decode tokens of what arrived in time to complete, less those completed, per token arrived:
        the share of the fluid throughput that is lost.
    evictions : float
        Per iteration.
    """

    setting: str
    policy: str
    rounds: int
    seeds: int
    arrived: float
    completed: float
    lost: float
    evictions: float


def cascades(policies: Sequence[str], rounds: Sequence[int], seeds: int = 5) -> Iterator[Cascade]:
    """Yield a line for each setting, policy and T. Constant arrivals need one seed only."""
    for setting, parameters in SETTINGS:
        for policy in policies:
            for horizon in rounds:
                random = parameters.get("arrivals") != "constant"
                random = random or make_policy(policy).randomized
                yield _cascade(setting, parameters, policy, horizon, seeds if random else 1)


def _cascade(
    setting: str, parameters: dict[str, Any], policy: str, rounds: int, seeds: int
) -> Cascade:
    lines = []
    for seed in range(seeds):
        instance = generate("fcfs-cascade", seed, rounds=rounds, **parameters)
        run = simulate(instance, policy, seed=seed, prefill_rounds=1, max_rounds=rounds)
        tokens = instance.output_lengths
        # What arrives at a ends at a + o + 1 at best: later arrivals are no loss.
        in_time = instance.arrival_times + tokens + 1 <= rounds
        done = run.completion_rounds >= 0
        possible = max(1, int(tokens[in_time].sum()))
        lines.append(
            [
                len(instance) / rounds,
                done.sum() / rounds,
                1 - tokens[done].sum() / possible,
                run.evictions / rounds,
            ]
        )
    means = np.mean(lines, axis=0).tolist()
    return Cascade(setting, policy, rounds, seeds, *means)
