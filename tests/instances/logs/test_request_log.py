"""Whole logs as arrays: order, counts, what was measured, and how little memory they hold."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_files import LOGS
from trace_files import write

from instances import TraceRow, read_log
from instances.traces import benchmark_run, request_log
from instances.traces.held_rows import HeldRows
from instances.traces.row import TICKS_PER_SECOND, Measured, as_ticks

NAMED = {"arrival": "t", "prompt": "p", "output": "o"}
ROWS = "t,p,o\n5,1,4\n2.25,3,5\n7,3,0\n2.25,4,5\n"


def test_a_log_is_in_order_of_arrival_whatever_the_file_is(tmp_path: Path) -> None:
    log = read_log(write(tmp_path, ROWS), columns=NAMED)
    assert log.arrival_times.tolist() == [0.0, 0.0, 2.75]
    assert log.prompt_lengths.tolist() == [3, 4, 1]
    assert log.output_lengths.tolist() == [5, 5, 4]
    assert log.ids == ["row3", "row5", "row2"]
    assert (log.rows, log.dropped_empty, log.failed, log.out_of_order) == (4, 1, 0, 2)
    assert str(log) == (
        "trace.txt (columns): 3 of 4 requests kept (1 empty); sorted, 2 out of order; "
        "arrivals are in seconds and span 2.75 s"
    )


def test_what_was_measured_goes_with_its_row() -> None:
    held = HeldRows(most_inter_token_times=3)
    second = TICKS_PER_SECOND
    held.append(TraceRow(1, 5 * second, 1, 1))
    held.append(TraceRow(2, 3 * second, 1, 3, Measured(0.75, 0.25, [0.25, 0.5])))
    held.append(TraceRow(3, 3 * second + 1, 1, 3, Measured(1.0, None, [0.5, 0.5])))
    held.append(TraceRow(4, 4 * second, 1, 2, Measured(mean_inter_token_time=0.125)))
    assert held.order().tolist() == [1, 2, 3, 0]
    found = held.arrays()
    nan = np.nan
    np.testing.assert_array_equal(found["latencies"], [nan, 0.75, 1.0, nan])
    np.testing.assert_array_equal(found["times_to_first_token"], [nan, 0.25, nan, nan])
    np.testing.assert_array_equal(found["mean_inter_token_times"], [nan, 0.375, 0.5, 0.125])
    assert found["inter_token_times"].tolist() == [0.25, 0.5]
    assert found["inter_token_offsets"].tolist() == [0, 0, 2, 2, 2]
    assert held.is_cut
    assert [row.ticks for row in held.in_order()][:2] == [3 * second, 3 * second + 1]


@pytest.mark.parametrize("piece", [1, 3, 100])
def test_a_part_of_a_log_keeps_what_was_measured(
    tmp_path: Path, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "PIECE", piece)
    log = read_log(write(tmp_path, LOGS["vllm-bench"]))
    for kept in (np.array([False, False, True, True]), np.array([2, 3])):
        part = log.select(kept)
        assert part.prompt_lengths.tolist() == [879, 91]
        assert part.inter_token_offsets.tolist() == [0, 1, 4]
        assert part.inter_token_times.tolist() == [0.03125, 0.25, 0.25, 0.125]


@given(st.floats(min_value=1e-8, max_value=1e12))
def test_a_float_as_written_keeps_all_its_digits(seconds: float) -> None:
    assert Fraction(as_ticks(repr(seconds)), TICKS_PER_SECOND) == Fraction(repr(seconds))


@given(st.decimals(min_value=0, max_value=10**12, places=24))
def test_24_decimals_are_exact(seconds: Decimal) -> None:
    assert Fraction(as_ticks(f"{seconds:f}"), TICKS_PER_SECOND) == Fraction(seconds)


@pytest.mark.parametrize(
    ("text", "seconds"), [("9e-06", "0.000009"), ("1.5E2", "150"), ("7.", "7"), ("0", "0")]
)
def test_ways_to_write_a_number(text: str, seconds: str) -> None:
    assert as_ticks(text) == Fraction(seconds) * TICKS_PER_SECOND


@pytest.mark.parametrize(
    "text", ["", ".", "+1", "1_0", "inf", "\u0661", "1e", "0x1", "12345678901234567", "9.1e15"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        as_ticks(text)


def long_run(count: int, tokens: int = 20) -> str:
    return json.dumps(
        {
            "input_lens": [100] * count,
            "output_lens": [tokens + 1] * count,
            "ttfts": [0.125] * count,
            "itls": [[0.0212345678] * tokens] * count,
            "start_times": [k / 64 for k in range(count)],
            "generated_texts": ["word " * tokens] * count,
            "errors": [""] * count,
        }
    )


def long_lines(count: int) -> str:
    record = json.loads(LOGS["aiperf"].splitlines()[0])
    record["metrics"]["inter_chunk_latency"] = {"value": [21.2345678] * 20, "unit": "ms"}
    return (json.dumps(record) + "\n") * count


def peak_of(read: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", [long_run, long_lines], ids=["run", "lines"])
def test_memory_grows_by_arrays_only(
    tmp_path: Path, text: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark_run, "MOST_INTER_TOKEN_TIMES", 1000)
    peaks = []
    for count in (2_000, 8_000):
        path = write(tmp_path, text(count), f"{count}.json")
        peaks.append(peak_of(lambda path=path: read_log(path, most_inter_token_times=1000)))
    # Some 80 bytes a row twice over while it is put in order; 20 floats a row would be 640 more.
    assert peaks[1] - peaks[0] < 300 * 6_000
