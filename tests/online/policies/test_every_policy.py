"""What holds for every registered policy, on drawn instances and predictions."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import instances

import online
from instances import Instance, ServiceLevel
from online import IntervalPredictions

NEED_A_SOLVER = {"sorted-lp", "lp-swap"}
KNOW_THE_TRUTH = {"h-sf", "a-random"}
LEVEL = ServiceLevel(latency=9, time_per_token=3)
"""Told to all, and read by those that go by deadlines."""
NAMES = [name for name in online.policy_names() if name not in NEED_A_SOLVER]


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
    stays = [np.stack([run.attempts.request, run.attempts.start_round], axis=1) for run in runs]
    ends = [start + shorter[i] for some in stays for i, start in some.tolist() if i in differing]
    one, another = ([row for row in some.tolist() if row[1] < min(ends)] for some in stays)
    assert one == another
