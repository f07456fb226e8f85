"""Logs of any tool, whose columns the user names: tables, JSON lines, pipes."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_files import LOGS
from trace_files import read, write

from instances import FileFormatError, read_log, read_trace, read_workload

SHORT = {"arrival": "t", "prompt": "p", "output": "o"}
TIMES = {
    "seconds": ("0", "1.5", "3"),
    "dates": ("2024-01-01 00:00:00", "2024-01-01T00:00:01.5", "2024-01-01 00:00:03"),
    "zones": ("2024-01-01T00:00:00Z", "2024-01-01T01:00:01.5+01:00", "2024-01-01T00:00:03Z"),
}


@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_any_csv_can_be_mapped(tmp_path: Path, kind: str, delimiter: str) -> None:
    rows = [("-", time, str(5 + k), "2") for k, time in enumerate(TIMES[kind])]
    text = "".join(delimiter.join(row) + "\n" for row in [("x", "t", "p", "o"), *rows])
    instance, report = read(path := write(tmp_path, text), columns=SHORT)
    assert instance.arrival_times.tolist() == [0, 2, 3]
    assert instance.prompt_lengths.tolist() == [5, 6, 7]
    assert (report.format, instance.metadata["trace"]["columns"]) == ("columns", SHORT)
    workload, _ = read_workload(path, columns=SHORT, memory_limit=99)
    assert workload.arrival_times.tolist() == [0.0, 1.5, 3.0]


NESTED = [
    {"at": 0.5, "usage": {"prompt": 5, "more": {"output": 2}}, "a.b": 1},
    {"at": 2, "usage": {"prompt": 6, "more": {"output": 3}}, "a.b": 1},
]
PATHS = {"arrival": "at", "prompt": "usage.prompt", "output": "usage.more.output"}
OVER_LINES = '{\n "t": 1,\n "p": 5,\n "o": 2\n}\n'
ITEMS = '[{"t": 3, "p": 6, "o": 2}, {"t": 1, "p": 5, "o": 2}]'
STAMPS = (
    *[(str(17 * 10**k), str(17 * 10**k + 15 * 10 ** (k - 9))) for k in (11, 14, 17)],
    *[
        (f"2026-01-02 05:04:05.5{zone}", f"2026-01-02T05:04:07{zone}")
        for zone in ("Z", "+0200", "+02", " UTC")
    ],
    ('"2026-01-02 05:04:05,5"', '"2026-01-02T05:04:07,0"'),
    ("1.7000000000e+12", "1.7000000015e+12"),
    ("1700000000000", "1.7000000015e12"),
    ("1.7e+18", "1.7000000015e+18"),
    ("1969-12-31 23:59:58", "1969-12-31 23:59:59.5"),
)
NUMBERS = (("9e-06", 9e-06), ("1.5E2", 150), ("7.", 7), ("0", 0), ("0" * 70, 0))


@pytest.mark.parametrize(
    ("text", "columns", "times", "prompts"),
    [
        ("t,p,o\n0,5,2\n1500,6,2\n", {"arrival_ms": "t"}, [0, 1.5], [5, 6]),
        ("t,p,o\n0,5,2\n1500000,6,2\n", {"arrival_us": "t"}, [0, 1.5], [5, 6]),
        ("t,p,o\n0,5,2\n1500000000,6,2\n", {"arrival-ns": "t"}, [0, 1.5], [5, 6]),
        # Without a column of arrivals all are at once; an index may have a column without a name.
        (",p,o\n7,5,2\n8,6,3\n", {}, [0, 0], [5, 6]),
        ("p,o,e\n5,5,0.0\n5,5,late\n", {"error": "e"}, [0], [5]),
        ("".join(json.dumps(one) + "\n" for one in NESTED), PATHS, [0, 1.5], [5, 6]),
        (json.dumps(NESTED), {"prompt": "a.b", "output": "a.b"}, [0, 0], [1, 1]),
        (OVER_LINES, SHORT, [0], [5]),
        (ITEMS, SHORT, [0, 2], [5, 6]),
        ('{"t": 1, "p": 5, "o": 3, "x": NaN, "y": -Infinity}\n', SHORT, [0], [5]),
        *[(f"t,p,o\n{a},5,5\n{b},6,5\n", SHORT, [0, 1.5], [5, 6]) for a, b in STAMPS],
        *[(f"t,p,o\n{zero},9,2\n1.5,9,2\n", SHORT, [0, 1.5], [9, 9]) for zero in ("-0.0", "-0e0")],
        ("t,p,o\n1700000000.1,5,2\n1700000000.3,6,2\n", SHORT, [0, 0.2], [5, 6]),
        (f"t,p,o\n17{'0' * 17},5,2\n17{'0' * 14}100,6,2\n", SHORT, [0, 1e-7], [5, 6]),
        *[(f"t,p,o\n0,5,2\n{text},6,2\n", SHORT, [0, at], [5, 6]) for text, at in NUMBERS],
        # Whole numbers as pandas writes them.
        *[(f"t,p,o\n0,{text},{text}\n", SHORT, [0], [12]) for text in ("12.0", "12.", "012")],
        ('{"t": 0.0, "p": 12.0, "o": 12.0}\n', SHORT, [0], [12]),
    ],
)
def test_small_logs(tmp_path: Path, text: str, columns: Any, times: Any, prompts: Any) -> None:
    log = read_log(write(tmp_path, text), columns={"prompt": "p", "output": "o", **columns})
    assert log.arrival_times.tolist() == times
    assert log.prompt_lengths.tolist() == prompts
    assert log.has_arrival_times == any("arrival" in role for role in columns)


MEASURED = {
    **SHORT,
    "latency-ms": "e2e",
    "time_to_first_token": "ttft",
    "inter_token_time_ms": "tpot",
    "error": "error",
}
MEASURED_ROWS = (
    (0, 5, 3, 1500, 0.5, 250, ""),
    (2, 6, 0, 0, 0, 0, "late"),
    (1, 7, 2, 1000, 0.25, "", 0),
    (3, 8, 2, "", "", "", False),
)


def test_measurements_and_failures_in_columns_of_any_name(tmp_path: Path) -> None:
    names = ("t", "p", "o", "e2e", "ttft", "tpot", "error")
    table = "".join(",".join(map(str, row)) + "\n" for row in (names, *MEASURED_ROWS))
    rows = [dict(zip(names, row, strict=True)) for row in MEASURED_ROWS]
    lines = [
        json.dumps({key: None if one == "" else one for key, one in row.items()}) for row in rows
    ]
    for text in (table, "\n".join(lines)):
        log = read_log(write(tmp_path, text), columns=MEASURED)
        assert log.prompt_lengths.tolist() == [5, 7, 8]
        assert (log.left_out, log.out_of_order) == ({"failed": 1}, 0)
        np.testing.assert_allclose(log.latencies, [1.5, 1.0, np.nan])
        np.testing.assert_allclose(log.times_to_first_token, [0.5, 0.25, np.nan])
        # Where only the mean is missing it is (1.0 - 0.25) s over one gap.
        np.testing.assert_allclose(log.mean_inter_token_times, [0.25, 0.75, np.nan])


@pytest.mark.parametrize("quoted", [False, True])
def test_large_tables_are_read_as_small_ones(tmp_path: Path, quoted: bool) -> None:
    rows = [f"{k}.25,{1 + k % 7},{k % 3},x\n" for k in range(3_000)]
    rows[7], rows[9] = "soon,1,1,x\n", '9.5,1,1,"x"\n' if quoted else "9.5,1,1\n"
    path = write(tmp_path, "t,p,o,x\n" + "".join(rows))
    log = read_log(path, columns=SHORT, bad_rows="skip")
    kept = [k for k in range(3_000) if (k % 3 and k != 7) or k == 9]
    assert log.row_numbers.tolist() == [k + 2 for k in kept]
    assert log.arrival_times.tolist() == [k - 1 + 0.25 * (k == 9) for k in kept]
    assert log.left_out == {"skipped": 1, "empty": 999}


ROWS = "t,p,o\n5,1,4\n2.25,3,5\n4,3,0\n2.25,4,5\n"


def test_a_log_is_in_order_of_arrival_whatever_the_file_is(tmp_path: Path) -> None:
    log = read_log(write(tmp_path, ROWS), columns=SHORT)
    assert log.arrival_times.tolist() == [0.0, 0.0, 2.75]
    assert log.output_lengths.tolist() == [5, 5, 4]
    assert log.ids == ["row3", "row5", "row2"]
    assert str(log) == (
        "trace.txt (columns): 3 of 4 requests kept (1 empty); "
        "arrivals are in seconds and span 2.75 s; sorted, 3 out of order"
    )


def test_parts_of_a_log(tmp_path: Path) -> None:
    log = read_log(write(tmp_path, LOGS["vllm-bench"]))
    # At 0, 0.5, 1.25 and 3.
    kept = (np.array([False, False, True, True]), np.array([2, 3]))
    for part in (*map(log.select, kept), log.window(0.5 + 1e-9), log.window(1.25, 2, 2)):
        assert part.prompt_lengths.tolist() == [879, 91]
        times = [one.tolist() for one in part.inter_token_times]
        assert times == [[0.03125], [0.25, 0.25, 0.125]]
    assert log.window(0.5, 2.5, 5).arrival_times.tolist() == [0.5, 1.25]
    assert len(log.window(0.5, max_requests=1)) == 1
    frame = log.frame
    assert frame.loc[frame["output_lengths"] > 1, "prompt_lengths"].tolist() == [374, 879, 91]
    assert frame["latencies"].tolist() == [0.8125, 0.125, 0.53125, 0.75]


@pytest.mark.parametrize(
    ("content", "prompts"),
    [(ROWS.encode(), [3, 4, 1]), (gzip.compress(ROWS.encode()), [3, 4, 1]), (b"", []), (b"\n", [])],
    ids=["plain", "gz", "empty", "blank"],
)
def test_a_pipe_is_read_once(tmp_path: Path, content: bytes, prompts: list[int]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def feed() -> None:
        with open(pipe, "wb", buffering=0) as stream:
            for one in content:
                stream.write(bytes([one]))

    writer = threading.Thread(target=feed, daemon=True)
    writer.start()
    if prompts:
        assert read_log(pipe, columns=SHORT).prompt_lengths.tolist() == prompts
    else:
        with pytest.raises(FileFormatError, match="is empty"):
            read_log(pipe)
    writer.join(10)


@pytest.mark.parametrize("name", ["a\x1b[31m.csv", os.fsdecode(b"a\xff.csv"), "a\nb.csv"])
def test_any_name_of_a_file_becomes_one_that_can_be_shown(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(ROWS)
    instance, report = read(tmp_path / name, columns=SHORT)
    assert instance.name.isprintable()
    assert str(report).isprintable()


# --- times --------------------------------------------------------------------------------------


def written(tmp_path: Path, seconds: str) -> Any:
    """A table with a request at 0 and one at this text."""
    return write(tmp_path, f"t,p,o\n0,1,1\n{seconds},1,1\n")


@given(st.integers(1, 10**15) | st.integers(1, 10**6), st.floats(0, 1e4))
def test_times_are_whole_nanoseconds(tmp_path_factory: Any, ticks: int, other: float) -> None:
    seconds, folder = ticks / 10**9, tmp_path_factory.mktemp("times")
    path = written(folder, repr(seconds))
    assert read_log(path, columns=SHORT).arrival_times[1] == seconds
    # A window ends before the time that a text stands for, to the last digit.
    options: Any = {"memory_limit": 9, "columns": SHORT, "round_seconds": 1e9}
    assert read_trace(path, duration_seconds=seconds, **options)[1].rows_in_window == 1
    path = written(folder, repr(other))
    assert abs(read_log(path, columns=SHORT).arrival_times[1] - other) <= 0.51e-9
