"""What holds for every registered policy, on drawn instances and predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import instances

import online
from instances import (
    Instance,
    InvalidTypeError,
    InvalidValueError,
    ServiceLevel,
    UnknownNameError,
    generate,
)
from online import (
    ExactPredictions,
    IntervalPredictions,
    ProportionalPredictions,
)

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


@pytest.mark.parametrize("name", sorted(KNOW_THE_TRUTH))
def test_who_asks_for_the_truth_fails_on_intervals(name: str) -> None:
    instance = Instance.from_arrays([1, 1], [1, 2], memory_limit=5)
    with pytest.raises(online.KnowledgeError, match="only known to lie in"):
        online.simulate(instance, name, predictions=IntervalPredictions(1, 4))


BAD_PARAMETERS: list[tuple[str, str, Any, str]] = [
    ("vllm", "policy", "lifo", "is neither fcfs nor priority"),
    ("vllm", "watermark", 1.0, "watermark = 1.0"),
    ("vllm", "max_num_batched_tokens", 0, "max_num_batched_tokens = 0"),
    ("vllm", "max_num_seqs", 0, "max_num_seqs = 0"),
    ("vllm", "long_prefill_token_threshold", -1, "long_prefill_token_threshold = -1"),
    ("vllm", "prefill_schedule_interval", 0, "prefill_schedule_interval = 0"),
    ("vllm", "scheduler_reserve_full_isl", 1, "scheduler_reserve_full_isl = 1"),
    ("vllm", "block_size", 0, "block_size = 0"),
    ("vllm-v0", "max_num_seqs", 0, "max_num_seqs = 0"),
    ("vllm-v0", "max_num_batched_tokens", 0, "max_num_batched_tokens = 0"),
    ("vllm-v0", "watermark", 1.0, "watermark = 1.0"),
    ("sarathi", "watermark", "0.1", "watermark = '0.1'"),
    ("sarathi", "preemption", "swap", "is neither restart nor recompute"),
    ("sarathi", "chunk_size", 0, "chunk_size = 0"),
    ("sarathi", "order", "sjf", "unknown order 'sjf'; known: fcfs, shortest-output"),
    ("sarathi", "ageing", -1, "policy: ageing = -1 is below 0"),
    ("sarathi", "ageing", float("inf"), "policy: ageing = inf is not a finite number"),
    ("sarathi", "ageing", "1", "policy: ageing = '1' is not a number"),
    ("sglang", "chunked_prefill_size", 0, "chunked_prefill_size = 0 is below 1"),
    ("sglang", "max_prefill_tokens", 0, "max_prefill_tokens = 0 is below 1"),
    ("sglang", "max_running_requests", 0, "max_running_requests = 0 is below 1"),
    ("sglang", "schedule_conservativeness", 0, "schedule_conservativeness = 0 is not above"),
    ("sglang", "max_new_tokens", 0, "max_new_tokens = 0 is below 1"),
    ("tensorrt-llm", "capacity_scheduler_policy", "max_utilization", "is none of GUARANTEED_NO"),
    ("tensorrt-llm", "max_batch_size", 0, "max_batch_size = 0 is below 1"),
    ("tensorrt-llm", "max_num_tokens", 0, "max_num_tokens = 0 is below 1"),
    ("tensorrt-llm", "enable_chunked_prefill", 1, "enable_chunked_prefill = 1 is neither"),
    ("a-min", "overdue", "shrink", "overdue"),
    ("two-point-switch", "threshold", 2, "threshold"),
    ("gsa", "factor", 1, "factor = 1 is not above 1"),
    ("gba", "factor", "2", "factor"),
    ("alpha-protection", "alpha", 1, "alpha"),
    ("alpha-protection", "alpha", -0.1, "alpha"),
    ("alpha-beta-clearing", "beta", 0, "beta"),
    ("sorted-f-dp", "fit", "both", "fit"),
    ("sorted-f-scaled-dp", "epsilon", 0, "epsilon"),
    ("sorted-f-scaled-dp", "scale", "time", "scale"),
    ("sorted-f-quantile", "share", 1.5, "share"),
    ("sorted-lp", "relaxation", "weak", "relaxation"),
    *[("wait", "thresholds", bad, "policy 'wait'") for bad in (0, {}, {(1, 1): 0}, {(0, 1): 1})],
    *[("wait", "thresholds", bad, "policy 'wait'") for bad in ({5: 1}, {(1, 1): 1.5}, "3")],
    *[("nested-wait", "thresholds", bad, "nested-wait") for bad in ([], [1.0], [2, 1])],
]


@pytest.mark.parametrize(("name", "field", "value", "message"), BAD_PARAMETERS)
def test_bad_parameters(name: str, field: str, value: Any, message: str) -> None:
    with pytest.raises((InvalidValueError, InvalidTypeError, UnknownNameError), match=message):
        online.make_policy(name, **{field: value})


@pytest.mark.parametrize(("thresholds", "ends"), [([1, 0], [2]), ([2, 1], [4, 4]), ([2], [1, 2])])
def test_thresholds_and_ends_that_make_no_segments(thresholds: list[int], ends: list[int]) -> None:
    with pytest.raises(InvalidValueError, match="nested-wait"):
        online.make_policy("nested-wait", thresholds=thresholds, segment_ends=ends)
