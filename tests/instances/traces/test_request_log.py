"""Whole logs as arrays: order, counts, what was measured, and how little memory they hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from trace_files import write

from instances import read_log
from instances.traces.held_rows import HeldRows
from instances.traces.row import TICKS_PER_SECOND, Measured, TraceRow

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
