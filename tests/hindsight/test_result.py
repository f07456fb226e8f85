"""Waiting: what results say of it against plain search, and where nothing waits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from brute_force import optimal_total_latency, rows_of
from effort import examples
from hypothesis import given, settings
from strategies import instances
from tiny_problems import least_total_latency

import hindsight
from hindsight import Bound
from hindsight.outcomes.result import percent
from instances import Instance

THREE = Instance.from_arrays([1, 2, 1], [3, 2, 2], [0, 0, 1], memory_limit=7)
"""Output lengths 7, optimum 8."""
SPARE = Instance.from_arrays([1, 2, 3] * 50, [3, 4, 7] * 50, [*range(150)], memory_limit=500)
"""Everything fits when it arrives."""


@settings(max_examples=examples(40))
@given(instances(max_requests=4, max_memory=8, max_arrival=4))
def test_the_interval_holds_the_optimums_waiting(instance: Instance) -> None:
    lengths = sum(output for _, _, output in rows_of(instance))
    stopped = least_total_latency(instance, preemptive=True)
    optima = optimal_total_latency(instance)[0], stopped
    for preemption, optimum in zip(("never", "keep"), optima, strict=True):
        # Without time for a search most intervals stay open.
        found = hindsight.solve(instance, 0, preemption=preemption, threads=1)
        low, high = found.waiting_interval
        assert 0 <= low <= optimum - lengths <= high
        assert high == found.schedule.total_latency - lengths
        assert found.waiting_gap == ((high - low) / high if high else 0)


def test_the_gap_is_of_the_certified_interval() -> None:
    found = hindsight.solve(THREE, threads=1)
    assert (found.waiting_interval, found.waiting_gap) == ((1, 1), 0.0)
    # A solver's word does not close it, and a bound below the output lengths tells nothing.
    for certified in (5, 7):
        bounds = {"own": Bound(certified, certified=True), "HiGHS": Bound(8, certified=False)}
        doubted = replace(found, bounds=bounds)
        assert (doubted.gap, doubted.waiting_interval, doubted.waiting_gap) == (0.0, (0, 1), 1.0)
        assert (doubted.certified, doubted.certified_gap) == (False, (8 - certified) / 8)


def test_no_waiting_needs_no_other_proof() -> None:
    found = hindsight.solve(SPARE, threads=1)
    assert (found.waiting_interval, found.waiting_gap) == ((0, 0), 0.0)
    assert replace(found, bounds={"weak": Bound(1, certified=True)}).waiting_gap == 0.0


@pytest.mark.parametrize("method", ["lp", "lagrangian"])
def test_what_floats_leave_of_no_waiting_is_no_waiting(method: str) -> None:
    relaxed = hindsight.relax(SPARE, method=method, threads=1)  # type: ignore[arg-type]
    assert relaxed.certified_bound <= SPARE.total_output_length
    crowded = Instance.from_arrays([3] * 4, [2] * 4, memory_limit=5)
    relaxed = hindsight.relax(crowded, method=method, threads=1)  # type: ignore[arg-type]
    assert relaxed.certified_bound > crowded.total_output_length


@pytest.mark.parametrize(
    ("share", "told", "in_a_column"),
    [
        (0, "0 %", "0.00 %"),
        (1e-12, "0.01 %", "0.01 %"),
        (0.07, "7 %", "7.00 %"),
        (0.07001, "7.01 %", "7.01 %"),
    ],
)
def test_only_a_closed_gap_reads_nothing(share: float, told: str, in_a_column: str) -> None:
    """100 times 0.07 is more than 7 as a float."""
    assert (percent(share), percent(share, ".2f")) == (told, in_a_column)
