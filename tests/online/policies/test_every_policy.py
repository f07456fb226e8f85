"""What holds for every registered policy, on drawn instances and predictions."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import instances

import online
from instances import Instance, ServiceLevel, generate
from online import ExactPredictions, IntervalPredictions, ProportionalPredictions

NEED_A_SOLVER = {"sorted-lp", "lp-swap"}
KNOW_THE_TRUTH = {"h-sf", "a-random"}
LEVEL = ServiceLevel(latency=9, time_per_token=3)
"""Told to all, and read by those that go by deadlines."""
NAMES = [name for name in online.policy_names() if name not in NEED_A_SOLVER]


@pytest.mark.parametrize("name", online.policy_names())
def test_the_same_seed_gives_the_same_run(name: str) -> None:
    # Each linear program of full size takes seconds.
    n = 12 if name in NEED_A_SOLVER else 40
    instance, another = (generate(f"arrival-model-{k}", seed=1, n=n) for k in (2, 1))
    told = ExactPredictions() if name in KNOW_THE_TRUTH else ProportionalPredictions(0.8)
    policy = online.make_policy(name)
    first = online.simulate(instance, policy, seed=5, predictions=told, level=LEVEL)
    for other in ("a-min", "sorted-f-quantile", policy):
        online.simulate(another, other, seed=6, level=LEVEL)
    np.random.default_rng().random(7)
    for again in (policy, name):
        run = online.simulate(instance, again, seed=5, predictions=told, level=LEVEL)
        for field in ("start_rounds", "completion_rounds", "eviction_counts"):
            assert (getattr(first, field) == getattr(run, field)).all()
        assert (first.attempts.request == run.attempts.request).all()
        assert (first.attempts.start_round == run.attempts.start_round).all()
        assert first.decisions == run.decisions


@pytest.mark.parametrize("name", [name for name in NAMES if name not in KNOW_THE_TRUTH])
@given(instance=instances(max_requests=5, max_memory=10), seed=st.integers(0, 3), data=st.data())
@settings(max_examples=examples(30))
def test_a_policy_depends_on_predictions_only(
    name: str, instance: Instance, seed: int, data: st.DataObject
) -> None:
    """Two truths under one interval: decisions agree until the first completion that differs."""
    longest = [instance.memory_limit - request.prompt_length for request in instance]
    other = Instance.from_arrays(
        instance.prompt_lengths,
        [data.draw(st.integers(1, most)) for most in longest],
        instance.arrival_times,
        memory_limit=instance.memory_limit,
    )
    model = IntervalPredictions(1, 12)
    runs = [
        online.simulate(i, name, seed=seed, predictions=model, level=LEVEL)
        for i in (instance, other)
    ]
    differing = np.flatnonzero(instance.output_lengths != other.output_lengths)
    assume(len(differing))
    shorter = np.minimum(instance.output_lengths, other.output_lengths)
    known = min(
        int(start + shorter[i])
        for run in runs
        for i, start in zip(run.attempts.request, run.attempts.start_round, strict=True)
        if i in differing
    )
    before = [
        [
            (int(i), int(start))
            for i, start in zip(run.attempts.request, run.attempts.start_round, strict=True)
            if start < known
        ]
        for run in runs
    ]
    assert before[0] == before[1]
