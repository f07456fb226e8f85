"""Edges of continuous time that a round-by-round reading decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import online
from instances import Instance, Workload
from online import AffineTime, Decision
from online.fluid import nested_design


class AskedEveryRound(type(online.make_policy("mc-sf"))):  # type: ignore[misc]
    """MC-SF, asked again after every round: the clock must not notice."""

    def decide(self, state: Any) -> Decision:
        decision = super().decide(state)
        return Decision(start=decision.start, wake=state.round_index + 1)


def test_the_clock_does_not_depend_on_where_stretches_are_cut() -> None:
    """0.7 + 3 * 0.1 is 1.0 or just below it, by the order of the additions."""
    workload = Workload([0.7, 1.0], [1, 1], [10, 1], memory_limit=50, batch_time=AffineTime(0.1))
    ends = [
        online.simulate(workload, policy).completion_times.tolist()
        for policy in ("mc-sf", AskedEveryRound())
    ]
    assert ends[0] == ends[1]


def test_a_prompt_in_many_chunks_is_no_livelock() -> None:
    workload = Workload([0.0], [100_000], [10], memory_limit=200_000, batch_time=AffineTime(1.0))
    policy = online.make_policy("sarathi", chunk_size=8)
    run = online.simulate(workload, policy)
    assert run.status == "completed"


@pytest.mark.parametrize(("n", "previous"), [(500_001, 1_000_000), (50_001, 100_000)])
def test_the_decay_rate_of_a_tiny_drift(n: int, previous: int) -> None:
    theta = nested_design.decay_rate(n, previous, 0.5)
    drift = n - previous / 2
    # To first order: twice the drift over the variance of the binomial.
    assert theta == pytest.approx(2 * drift / (previous * 0.25), rel=1e-2)


@pytest.mark.parametrize("name", ["mc-sf", "mc-benchmark", "sorted-f-swap", "sarathi", "vllm-v0"])
def test_rounds_of_one_second_are_the_round_model_where_nothing_idles(name: str) -> None:
    rng = np.random.default_rng(2)
    source = Instance.from_arrays(rng.integers(1, 9, 30), rng.integers(1, 17, 30), memory_limit=50)
    timed = online.simulate(Workload.from_instance(source, AffineTime(1.0)), name)
    rounds = online.simulate(source, name)
    assert timed.completion_times.tolist() == rounds.completion_rounds.tolist()
