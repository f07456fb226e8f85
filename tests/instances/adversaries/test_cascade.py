"""Arrivals at the fluid equilibrium ([A25] Example 2, Proposition 3)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from instances import generate


def test_example_2_from_its_imbalance() -> None:
    drawn = generate("fcfs-cascade", arrivals="constant", imbalanced=True, rounds=5)
    assert drawn.memory_limit == 12
    assert Counter(drawn.arrival_times.tolist()) == {0: 3, 1: 6, 2: 4, 3: 4, 4: 4}
    assert {(q.prompt_length, q.output_length) for q in drawn} == {(1, 1)}


def test_prop_3() -> None:
    drawn = generate("fcfs-cascade", example="two-types", arrivals="constant", rounds=4)
    assert drawn.memory_limit == 9
    rows = Counter((q.arrival_time, q.prompt_length, q.output_length) for q in drawn)
    assert rows == {(t, 1, o): 1 for t in range(4) for o in (1, 2)}


def test_poisson_rates() -> None:
    # 4 (standard deviation 2) an iteration; 1 and 1: five standard errors over 20000 iterations.
    drawn = generate("fcfs-cascade", rounds=4_000)
    assert abs(len(drawn) / 4_000 - 4) < 5 * 2 / np.sqrt(4_000)
    drawn = generate("fcfs-cascade", example="two-types", rounds=4_000)
    for output in (1, 2):
        count = int((drawn.output_lengths == output).sum())
        assert abs(count / 4_000 - 1) < 5 / np.sqrt(4_000)
    counts = np.bincount(drawn.arrival_times, minlength=4_000)
    assert abs(counts.var() - 2) < 0.3


def test_the_same_requests_in_the_other_convention() -> None:
    # Tokens by round: prefill round 1, decodes 2 and 3; and (0, 3): 1, 2, 3.
    settings: dict[str, Any] = {"example": "two-types", "rounds": 30}
    drawn = generate("fcfs-cascade", 3, **settings)
    other = generate("fcfs-cascade", 3, convention="token-per-round", **settings)
    assert other.arrival_times.tolist() == drawn.arrival_times.tolist()
    assert (other.prompt_lengths + 1).tolist() == drawn.prompt_lengths.tolist()
    assert (other.output_lengths - 1).tolist() == drawn.output_lengths.tolist()
    assert drawn.metadata["service_model"] == "prefill-round"
    assert other.metadata["service_model"] == "token-per-round"
