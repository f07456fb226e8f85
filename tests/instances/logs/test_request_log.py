"""Whole logs as arrays and frames: order, counts, exact times, and what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_files import LOGS
from trace_files import write

from instances import FileFormatError, read_log, read_trace

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


def test_a_part_of_a_log_keeps_what_was_measured(tmp_path: Path) -> None:
    log = read_log(write(tmp_path, LOGS["vllm-bench"]))
    for kept in (np.array([False, False, True, True]), np.array([2, 3])):
        part = log.select(kept)
        assert part.prompt_lengths.tolist() == [879, 91]
        assert part.inter_token_offsets.tolist() == [0, 1, 4]
        assert part.inter_token_times.tolist() == [0.03125, 0.25, 0.25, 0.125]


def written(tmp_path: Path, seconds: str) -> Any:
    """A table with a request at 0 and one at this text."""
    return write(tmp_path, f"t,p,o\n0,1,1\n{seconds},1,1\n")


@given(st.floats(min_value=1e-8, max_value=1e12))
def test_a_float_as_written_is_an_exact_time(tmp_path_factory: Any, seconds: float) -> None:
    path = written(tmp_path_factory.mktemp("float"), repr(seconds))
    options = {"memory_limit": 9, "columns": {**NAMED, "arrival": "t"}}
    if seconds < 1e8:
        assert read_log(path, columns=NAMED).arrival_times[1] == seconds
        # A window ends before the time that a text stands for, to the last digit.
        report = read_trace(path, duration_seconds=seconds, round_seconds=1e9, **options)[1]
        assert report.rows_in_window == 1


@pytest.mark.parametrize(
    ("text", "seconds"), [("9e-06", 9e-06), ("1.5E2", 150), ("7.", 7), ("0", 0), ("0" * 70, 0)]
)
def test_ways_to_write_a_number(tmp_path: Path, text: str, seconds: float) -> None:
    assert read_log(written(tmp_path, text), columns=NAMED).arrival_times[1] == seconds


@pytest.mark.parametrize(
    "text", [".", "+1", "1_0", "inf", "\u0661", "1e", "0x1", "12345678901234567", "9.1e15"]
)
def test_what_is_no_time(tmp_path: Path, text: str) -> None:
    with pytest.raises(FileFormatError, match=r"row 3: t .* is (not a time|in another unit)"):
        read_log(written(tmp_path, text), columns=NAMED)


def test_a_log_as_a_frame(tmp_path: Path) -> None:
    frame = read_log(write(tmp_path, LOGS["vllm-bench"])).frame
    assert frame.loc[frame["output_lengths"] > 1, "prompt_lengths"].tolist() == [374, 879, 91]
    assert frame["latencies"].tolist() == [0.8125, 0.125, 0.53125, 0.75]
    assert (frame.attrs["format"], frame.attrs["time_unit"]) == ("vllm-bench", "seconds")
