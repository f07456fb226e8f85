"""A batch time in steps, by hand."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any

import pytest

from hindsight.outcomes.goals import exact_total_latency
from instances import SecondsSchedule, Workload
from instances.batch_time import BatchStretch, Stretch, parse_batch_time, preset, preset_names
from online import TiledTime

TERMS: dict[str, float] = {
    "kernel": 64.0,
    "kv_token": 0.25,
    "prompt_square": 1000.0,
    "prompt_past": 10000.0,
}
TIME = TiledTime([4, 8, 12], [2.0, 1.0, 5.0], 4, **TERMS)


def test_tokens_count_in_tiles() -> None:
    sparse = TiledTime([4, 12, 16], [2.0, 4.0, 6.0], 4)
    assert [sparse.at(k) for k in (0, 1, 4, 5, 8, 9, 12, 13)] == [2, 2, 2, 3, 3, 4, 4, 6]
    assert [sparse.at(k) for k in (16, 17, 24)] == [6, 8, 10]
    assert [TIME.at(k) for k in (4, 5, 9)] == [2, 1, 5]  # it may fall


def test_durations_by_hand() -> None:
    # Two requests decode, one completes a prompt of 3 after 2; one of 2 tokens a round has had 6.
    stretch = BatchStretch(
        rounds=3,
        requests=3,
        new_prompt_tokens=3,
        new_requests=1,
        memory=20,
        growth=3,
        chunk_tokens=2,
        held_memory=4,
        new_squares=9,
        new_past=6,
        chunk_squares=4,
        chunk_past=12,
    )
    assert TIME.durations(stretch).tolist() == [
        1 + 128 + 0.25 * 16 + 13 * 1000 + 18 * 10000,
        1 + 128 + 0.25 * 19 + 4 * 1000 + 16 * 10000,
        1 + 128 + 0.25 * 22 + 4 * 1000 + 20 * 10000,
    ]


@pytest.mark.parametrize(
    ("stretch", "kernels"),
    [
        (BatchStretch(1, 2, 0, 0, 9, 2), 1),
        (BatchStretch(1, 1, 3, 1, 9, 1), 1),
        (BatchStretch(1, 2, 3, 1, 9, 2), 2),
        (BatchStretch(1, 0, 0, 0, 9, 0, 3), 1),
        (BatchStretch(1, 1, 0, 0, 9, 1, 2), 2),
        (BatchStretch(1, 1, 1, 1, 9, 1, 2), 1),
        (BatchStretch(1, 0, 0, 0, 9, 0, held_memory=9), 0),
    ],
)
def test_a_kernel_for_decodes_and_one_for_prompts(stretch: BatchStretch, kernels: int) -> None:
    seconds = TiledTime([4, 8], [2.0, 2.0], 4, kernel=64.0).durations(stretch)
    assert seconds.tolist() == [2 + 64 * kernels]


def test_a_schedule_counts_squares_and_what_was_processed_before() -> None:
    """Chunks of a prompt of 7, another prompt in the second round, then a preemption."""
    workload = Workload([0.0, 0.0], [7, 4], [2, 1], memory_limit=20, batch_time=TIME)
    schedule = SecondsSchedule(
        workload,
        [
            Stretch(0, 1, 2, 3, 0, 7),
            Stretch(1, 2, 1),
            Stretch(0, 3, 1, tokens_before=0, prompt_left=1),
            # It leaves, and comes back with 5 of its 8 tokens still stored.
            Stretch(0, 5, 1, tokens_before=1, prompt_left=3),
        ],
    )
    assert [one.chunk_squares for one in schedule.batches()] == [9, 9 + 16, 1, 0, 9]
    assert [one.chunk_past for one in schedule.batches()] == [0, 9, 6, 0, 15]
    assert schedule.durations.tolist() == [
        2 + 64 + 0.25 * 7 + 9000,
        1 + 64 + 0.25 * (7 + 5) + 25000 + 90000,
        2 + 64 + 0.25 * 8 + 1000 + 60000,
        2,
        2 + 64 + 0.25 * 9 + 9000 + 150000,
    ]
    assert exact_total_latency(schedule) == Fraction(schedule.total_latency)


def test_it_is_its_parameters() -> None:
    TIME.at(3)
    again = copy.deepcopy(TIME)
    assert again == TIME
    assert hash(again) == hash(TIME)
    assert TiledTime([4, 8, 12], [2.0, 1.0, 5.0], 2, **TERMS) != TIME


@pytest.mark.parametrize(
    ("found", "ends"), [(preset("llama-2-70b-a100-tp1"), 2), (preset("llama-2-70b-a100-tp2"), 1)]
)
def test_the_presets(found: Any, ends: int) -> None:
    assert found.name in preset_names()
    assert parse_batch_time(found.name) == (found.batch_time, 16_492)
    # 100 decodes at 10,000 KV tokens.
    stretch = BatchStretch(1, 100, 0, 0, 10_000, 100)
    dense = {1: 0.07168 + (0.07248 - 0.07168) / 2, 2: 0.11088 + (0.11056 - 0.11088) / 2}[ends]
    assert found.batch_time.durations(stretch)[0] == pytest.approx(dense + ends * 2.6e-3)
    # Steps of 128 tokens, also where the published table has entries further apart.
    seconds = found.batch_time
    for edge in (128, 256, 512, 640, 1152, 2048):
        assert seconds.at(edge + 8) > 1.02 * seconds.at(edge)
    assert seconds.at(1800) == seconds.at(1900)
    assert seconds.at(5000) > seconds.at(4096)
