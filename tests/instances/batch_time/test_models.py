"""Batch-time models by hand, measured rounds in a file, presets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import Workload
from instances.batch_time import BatchStretch, preset
from online import AffineTime, IterationTime, TiledTime, simulate
from online.batch_time import Measurements

# Three rounds: 2 requests decode, 1 completes a prompt of 5 in the first, 4 chunk tokens a round.
STRETCH = BatchStretch(3, 3, 5, 1, memory=20, growth=3, chunk_tokens=4)


def test_tokens_of_a_stretch() -> None:
    assert STRETCH.first_tokens == 2 + 5 + 4
    assert STRETCH.later_tokens == 3 + 4
    assert STRETCH.resident().tolist() == [20, 23, 26]


def test_durations_by_hand() -> None:
    """[A25] Section 2."""
    assert AffineTime(0.5).durations(STRETCH).tolist() == [0.5] * 3
    assert AffineTime(1, 2, 4).durations(STRETCH).tolist() == [103, 107, 119]
    # Flat at 1 up to 8 tokens, then a slope of 1/2; 11 tokens lie beyond the table.
    table = TiledTime([1, 8, 10], [1, 1, 2], kv_token=1)
    assert table.durations(STRETCH).tolist() == [2.5 + 20, 1 + 23, 1 + 26]


def test_unit_time_is_the_round_model_where_nothing_idles() -> None:
    source = Workload(
        [0.0, 0.5, 3.0], [2, 3, 1], [4, 2, 3], memory_limit=9, batch_time=AffineTime(1)
    )
    run = simulate(source, "fcfs")
    assert run.completion_times.tolist() == [4.0, 6.0, 7.0]


def test_the_preset() -> None:
    found = preset("llama-2-70b-2xa100")
    assert found is preset("llama-2-70b-2xa100")
    assert found.memory_limit == 16_492
    # 100 decodes at 10,000 resident tokens: 50 + 28 + 1.1 ms.
    stretch = BatchStretch(1, 100, 0, 0, 10_000, 100)
    assert found.batch_time.durations(stretch)[0] == pytest.approx(0.0791, abs=1e-12)


def test_measurements_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rounds.csv"
    path.write_text("batch,tokens,kv_tokens,seconds\n1,0,0,1\n1,10,0,3\n2,0,10,2\n2,10,10,4\n")
    found = Measurements.read(path)
    assert found.tokens.tolist() == [0, 10, 0, 10]
    assert found.kv_tokens.tolist() == [0, 0, 10, 10]
    assert found.seconds.tolist() == [1, 3, 2, 4]


@given(
    rounds=st.integers(1, 5),
    requests=st.integers(0, 4),
    advancing=st.integers(1, 50),
    held=st.integers(0, 50),
)
def test_seconds_count_what_advances(rounds: int, requests: int, advancing: int, held: int) -> None:
    stretch = BatchStretch(rounds, requests, 3, 1, advancing + held, requests, held_memory=held)
    expected = [0.5 + 0.25 * (advancing + requests * k) for k in range(rounds)]
    assert IterationTime(0.5, 0.25).durations(stretch).tolist() == expected
    if not held:
        assert AffineTime(0.5, 0.0, 0.25).durations(stretch).tolist() == expected
