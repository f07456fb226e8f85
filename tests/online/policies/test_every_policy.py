"""What holds for every registered policy, on drawn instances and predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from brute_force import is_feasible_by_definition, optimal_total_latency, rows_of
from effort import examples
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st
from preemptive_by_definition import is_feasible_in_rounds, preemptive_optimum
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
    BucketPredictions,
    ExactPredictions,
    IntervalPredictions,
    NoisyPredictions,
    ProportionalPredictions,
)
from online.policy_interface import PredictionModel
from online.simulation.token_times import token_rounds

NEED_A_SOLVER = {"sorted-lp", "lp-swap"}
KNOW_THE_TRUTH = {"h-sf", "a-random"}
CLEARING = {"alpha-protection", "alpha-beta-clearing"}
LEVEL = ServiceLevel(latency=9, time_per_token=3)
"""Told to all, and read by those that go by deadlines."""
NAMES = [name for name in online.policy_names() if name not in NEED_A_SOLVER]
VARIANTS: dict[str, tuple[str, dict[str, str]]] = {
    **{name: (name, {}) for name in NAMES},
    "a-min-reserve": ("a-min", {"overdue": "reserve"}),
    "a-max-peaks": ("a-max", {"fit": "peaks"}),
    "tensorrt-llm-max-utilization": (
        "tensorrt-llm",
        {"capacity_scheduler_policy": "MAX_UTILIZATION"},
    ),
    "tensorrt-llm-static-batch": (
        "tensorrt-llm",
        {"capacity_scheduler_policy": "STATIC_BATCH"},
    ),
    "sglang-shortest-job": ("sglang", {"order": "shortest-job"}),
}
SOLVING = [(name, how) for name in sorted(NEED_A_SOLVER) for how in ("plain", "strengthened")]
MODELS: list[PredictionModel] = [
    IntervalPredictions(1, 12),
    BucketPredictions((2, 5, 12)),
    ProportionalPredictions(0.5),
    NoisyPredictions(2),
    NoisyPredictions(1, wrong=0.5),
]


def check(run: online.Run, instance: Instance) -> None:
    """Served once, within memory in every round, cancelled attempts included."""
    assert (run.memory_profile() <= instance.memory_limit).all()
    attempts = run.attempts
    served = np.bincount(attempts.request[attempts.completed], minlength=len(instance))
    assert (attempts.end_round > attempts.start_round - 1).all()
    if run.status != "completed":
        return
    assert (served == 1).all()
    if run.keeps_tokens:
        assert run.preemptive_schedule.completion_times.tolist() == run.completion_rounds.tolist()
        own = np.split(token_rounds(run)[1], np.cumsum(instance.output_lengths)[:-1])
        rounds = [one.tolist() for one in own]
        assert is_feasible_in_rounds(rows_of(instance), instance.memory_limit, rounds)
        return
    starts = run.schedule.start_times.tolist()
    assert run.schedule.completion_times.tolist() == run.completion_rounds.tolist()
    assert is_feasible_by_definition(instance, starts)
    assert run.schedule.violations() == []


def least_total(run: online.Run, instance: Instance, optimum: int) -> int:
    """What no run of its kind falls below; ``optimum`` is of schedules without preemption."""
    if not run.keeps_tokens:
        return optimum
    return preemptive_optimum(rows_of(instance), instance.memory_limit)


# Every policy on the same draws: drawing one takes three times as long as a policy's run on it.
@given(instance=instances(max_requests=5, max_memory=9, max_arrival=4), seed=st.integers(0, 9))
@settings(max_examples=examples(300, 100))
def test_exact_predictions(instance: Instance, seed: int) -> None:
    optimum, _ = optimal_total_latency(instance)
    for name in NAMES:
        note(name)
        run = online.simulate(instance, name, seed=seed, level=LEVEL)
        assert run.status == "completed" or name in CLEARING
        check(run, instance)
        if run.status == "completed":
            assert run.total_latency >= least_total(run, instance, optimum)


@given(
    instance=instances(max_requests=5, max_memory=10, max_arrival=4),
    model=st.sampled_from(MODELS),
    seed=st.integers(0, 9),
)
@settings(max_examples=examples(300, 100))
def test_other_predictions(instance: Instance, model: PredictionModel, seed: int) -> None:
    optimum, _ = optimal_total_latency(instance)
    for variant, (name, parameters) in VARIANTS.items():
        if variant in KNOW_THE_TRUTH:
            continue
        note(variant)
        policy = online.make_policy(name, **parameters)
        run = online.simulate(instance, policy, seed=seed, predictions=model, level=LEVEL)
        assert run.status == "completed" or name in CLEARING
        check(run, instance)
        if run.status == "completed":
            # Work that evictions cancel is time lost, never time gained.
            assert run.total_latency >= least_total(run, instance, optimum)


@pytest.mark.parametrize(("name", "relaxation"), SOLVING)
@given(instance=instances(max_requests=4, max_memory=8, max_arrival=2))
@settings(max_examples=examples(200, brief=15))
def test_policies_that_solve(name: str, relaxation: str, instance: Instance) -> None:
    run = online.simulate(instance, online.make_policy(name, relaxation=relaxation))
    assert run.status == "completed"
    check(run, instance)
    assert run.total_latency >= optimal_total_latency(instance)[0]


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
