"""[F26] Algorithms 1, 2, 3: pipelines, the paper's examples, and what is guaranteed."""

from __future__ import annotations

import pytest
from brute_force import optimal_total_latency
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import online
from instances import Instance
from online.policies.f26.geometric import (
    BATCHING_FACTOR,
    SLICING_FACTOR,
    most_parallel,
    pipeline_peak,
)
from online.theory import geometric_batching_ratio, geometric_slicing_ratio


def largest_memory(parallel: int, slice_length: int, prompt: int) -> int:
    """Round by round, long enough that the pattern repeats."""
    starts = [i * slice_length // parallel for i in range(4 * parallel)]
    return max(
        sum(prompt + now - start + 1 for start in starts if start <= now < start + slice_length)
        for now in range(3 * slice_length)
    )


@pytest.mark.parametrize("prompt", [0, 3])
def test_memory_of_a_pipeline(prompt: int) -> None:
    """[F26] Lemmas 3.3, 3.4, with Lemma 3.4's bound from below."""
    for slice_length in range(1, 9):
        peaks = [largest_memory(k, slice_length, prompt) for k in range(1, 16)]
        assert peaks == [pipeline_peak(k, slice_length, prompt) for k in range(1, 16)]
        for memory_limit in range(prompt + slice_length, 30):
            parallel = most_parallel(slice_length, prompt, memory_limit)
            if parallel < 15:
                assert peaks[parallel - 1] <= memory_limit < peaks[parallel]
            least = (2 * memory_limit - slice_length + 1) // (2 * prompt + slice_length + 1)
            assert parallel >= least


def test_equal_requests_are_staggered() -> None:
    """[F26] Example 3.1: one start a round, 5 + 6 + ... + 19 = 180, by Algorithm 1.

    A prompt has at least one token here, and M five more for it than the paper's 15.
    """
    equal = Instance.from_arrays([1] * 15, [5] * 15, memory_limit=20)
    for name in ("gba", "gsa"):
        # Slices of 19/3.8 = 5 rounds, and before them of 1.3; Peak(5, 5, 1) = 20.
        run = online.simulate(equal, online.make_policy(name, factor=3.8))
        first = 0 if name == "gba" else run.start_rounds.min()
        assert (run.start_rounds - first).tolist() == list(range(15))
    batched = online.simulate(equal, online.make_policy("gba", factor=3.8))
    assert batched.total_latency == 180


@pytest.mark.parametrize(("power", "count"), [(2, 3), (3, 4), (4, 6)])
def test_one_long_request_before_short_ones(power: int, count: int) -> None:
    """[F26] Example 3.14, the long request first: the paper's total, and its optimum."""
    long = 2**power
    outputs = [long] + [1] * (count - 1)
    trap = Instance.from_arrays([long] * count, outputs, memory_limit=2 * long)
    run = online.simulate(trap, online.make_policy("gsa", factor=2))
    assert run.total_latency == (count + 2) * (count - 1) // 2 + count + 2 * long - 2
    assert optimal_total_latency(trap)[0] == count * (count + 1) // 2 + long - 1
    assert online.simulate(trap, "fcfs").total_latency > run.total_latency


def test_long_requests_that_keep_memory_from_short_ones() -> None:
    """[F26] Section 7.2: 6 long and 194 short requests; engines let the long ones finish first."""
    trap = Instance.from_arrays([96] * 200, [160] * 6 + [1] * 194, memory_limit=256)
    totals = {name: online.simulate(trap, name).total_latency for name in ("gba", "gsa", "vllm")}
    assert totals["gba"] < totals["gsa"] < totals["vllm"] / 8


def test_guaranteed_ratios() -> None:
    """[F26] Theorems 3.15, 4.1."""
    assert geometric_slicing_ratio(SLICING_FACTOR, 1) == pytest.approx((92 + 26 * 13**0.5) / 3)
    assert geometric_slicing_ratio(2) == 32
    assert geometric_batching_ratio(BATCHING_FACTOR, 1) == pytest.approx(32 / 3)
    assert geometric_batching_ratio(1.5) == 6.75
    for factor in (1.01, 1.3, 1.34, 1.76, 1.77, 3, 9):
        assert geometric_slicing_ratio(factor, 1) >= geometric_slicing_ratio(SLICING_FACTOR, 1)
        assert geometric_batching_ratio(factor, 1) >= 32 / 3 - 1e-9


@given(
    prompt=st.integers(1, 4),
    outputs=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    room=st.integers(0, 6),
    factor=st.sampled_from([1.1, BATCHING_FACTOR, SLICING_FACTOR, 2, 5]),
)
@settings(max_examples=examples(300, 100))
def test_guarantee(prompt: int, outputs: list[int], room: int, factor: float) -> None:
    """[F26] Theorems 3.15, 4.1 on drawn instances; GBA sends nobody back."""
    limit = prompt + max(outputs) + room
    drawn = Instance.from_arrays([prompt] * len(outputs), outputs, memory_limit=limit)
    optimum, _ = optimal_total_latency(drawn)
    sliced = online.simulate(drawn, online.make_policy("gsa", factor=factor))
    batched = online.simulate(drawn, online.make_policy("gba", factor=factor))
    assert optimum <= sliced.total_latency <= geometric_slicing_ratio(factor, 1) * optimum
    assert optimum <= batched.total_latency <= geometric_batching_ratio(factor, 1) * optimum
    assert not batched.eviction_counts.any()


def test_a_run_without_completions_is_not_taken_for_a_loop() -> None:
    many = Instance.from_arrays([10] * 2000, [10] * 2000, memory_limit=20)
    run = online.simulate(many, "gsa")
    assert run.status == "completed"
    # All phases but the last complete nothing, and are far longer than a run is waited for.
    assert run.completion_rounds.min() > 10_000 + 200 * 20
