"""[F26] Algorithms 2 and 3: what is guaranteed, and runs that complete nothing for long."""

from __future__ import annotations

import pytest
from brute_force import optimal_total_latency
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import online
from instances import Instance
from online.policies.f26.geometric import BATCHING_FACTOR, SLICING_FACTOR
from online.theory.geometric_ratios import geometric_batching_ratio, geometric_slicing_ratio


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
