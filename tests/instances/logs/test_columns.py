"""Logs of any tool, whose columns the user names: tables, JSON lines, pipes."""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_files import LOGS
from trace_files import read, write

from instances import FileFormatError, load, read_log, read_trace, read_workload, save

HEADER = "arrived_at,num_prefill_tokens,num_decode_tokens\n"
VIDUR = HEADER + "0.0,374,44\n0.5,396,109\n3,91,16\n"


# --- columns of any name ------------------------------------------------------------------------

NAMED = {"arrival": "created_at", "prompt": "in", "output": "out"}
TIMES = {
    "seconds": ("0", "1.5", "3"),
    "dates": ("2024-01-01 00:00:00", "2024-01-01T00:00:01.5", "2024-01-01 00:00:03"),
    "zones": ("2024-01-01T00:00:00Z", "2024-01-01T01:00:01.5+01:00", "2024-01-01T00:00:03Z"),
}


def table(times: tuple[str, ...], delimiter: str = ",") -> str:
    rows = [["x", "created_at", "in", "out"]]
    rows += [["-", time, str(5 + k), str(2 + k)] for k, time in enumerate(times)]
    return "".join(delimiter.join(row) + "\n" for row in rows)


@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_any_csv_can_be_mapped(tmp_path: Path, kind: str, delimiter: str) -> None:
    path = write(tmp_path, table(TIMES[kind], delimiter))
    instance, report = read(path, columns=NAMED)
    assert instance.arrival_times.tolist() == [0, 2, 3]
    assert instance.prompt_lengths.tolist() == [5, 6, 7]
    assert instance.output_lengths.tolist() == [2, 3, 4]
    assert report.format == "columns"
    assert instance.metadata["trace"]["columns"] == NAMED
    workload, _ = read_workload(path, columns=NAMED, memory_limit=99)
    assert workload.arrival_times.tolist() == [0.0, 1.5, 3.0]


@pytest.mark.parametrize(
    ("role", "unit"), [("arrival_ms", 10**3), ("arrival_us", 10**6), ("arrival-ns", 10**9)]
)
def test_arrivals_in_parts_of_a_second(tmp_path: Path, role: str, unit: int) -> None:
    path = write(tmp_path, table(tuple(str(unit * k * 3 // 2) for k in range(3))))
    columns = {role: "created_at", "prompt": "in", "output": "out"}
    workload, _ = read_workload(path, columns=columns, memory_limit=99)
    assert workload.arrival_times.tolist() == [0, 1.5, 3]


def test_json_lines_are_mapped_with_paths(tmp_path: Path) -> None:
    lines = [
        {"at": 0.5, "usage": {"prompt": 5, "more": {"output": 2}}, "a.b": 1},
        {"at": 2, "usage": {"prompt": 6, "more": {"output": 3}}, "a.b": 1},
    ]
    path = write(tmp_path, "".join(json.dumps(line) + "\n" for line in lines))
    named = {"arrival": "at", "prompt": "usage.prompt", "output": "usage.more.output"}
    instance, _ = read(path, columns=named)
    assert instance.prompt_lengths.tolist() == [5, 6]
    assert instance.output_lengths.tolist() == [2, 3]
    assert instance.arrival_times.tolist() == [0, 2]
    dotted, _ = read(path, columns={"prompt": "a.b", "output": "a.b"})
    assert dotted.prompt_lengths.tolist() == [1, 1]
    lines[1]["usage"] = None
    path = write(tmp_path, "".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(FileFormatError, match=r"row 2: usage\.prompt is missing"):
        read(path, columns=named)


def test_without_a_column_of_arrivals_all_are_at_once(tmp_path: Path) -> None:
    # A table written with its index has a column without a name.
    path = write(tmp_path, ",in,out\n7,5,2\n8,6,3\n")
    lengths = {"prompt": "in", "output": "out"}
    instance, report = read(path, columns=lengths)
    assert instance.arrival_times.tolist() == [0, 0]
    assert report.has_arrival_times is False


def test_records_that_go_on_over_lines_can_be_mapped(tmp_path: Path) -> None:
    text = '{\n "at": 1,\n "in": 5,\n "out": 2\n}\n{\n "at": 3,\n "in": 6,\n "out": 2\n}\n'
    named = {"arrival": "at", "prompt": "in", "output": "out"}
    assert read_log(write(tmp_path, text), columns=named).arrival_times.tolist() == [0.0, 2.0]
    text = '[{"at": 3, "in": 6, "out": 2}, {"at": 1, "in": 5, "out": 2}]'
    assert read_log(write(tmp_path, text), columns=named).prompt_lengths.tolist() == [5, 6]


MEASURED = {
    "arrival": "t",
    "prompt": "p",
    "output": "o",
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
    table = "t,p,o,e2e,ttft,tpot,error\n"
    table += "".join(",".join(map(str, row)) + "\n" for row in MEASURED_ROWS)
    names = ("t", "p", "o", "e2e", "ttft", "tpot", "error")
    lines = "".join(
        json.dumps(
            {name: None if cell == "" else cell for name, cell in zip(names, row, strict=True)}
        )
        + "\n"
        for row in MEASURED_ROWS
    )
    for text in (table, lines):
        log = read_log(write(tmp_path, text), columns=MEASURED)
        assert log.prompt_lengths.tolist() == [5, 7, 8]
        assert (log.failed, log.out_of_order) == (1, 0)
        np.testing.assert_allclose(log.latencies, [1.5, 1.0, np.nan])
        np.testing.assert_allclose(log.times_to_first_token, [0.5, 0.25, np.nan])
        # Where only the mean is missing it is (1.0 - 0.25) s over one gap.
        np.testing.assert_allclose(log.mean_inter_token_times, [0.25, 0.75, np.nan])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1.7000000000e+12", "1.7000000015e+12"),
        ("1700000000000", "1.7000000015e12"),
        ("1.7e+18", "1.7000000015e+18"),
    ],
)
def test_stamps_with_exponents_are_in_the_unit_of_those_without(
    tmp_path: Path, first: str, second: str
) -> None:
    path = write(tmp_path, f"a,p,o\n{first},5,5\n{second},5,5\n")
    log = read_log(path, columns={"arrival": "a", "prompt": "p", "output": "o"})
    assert log.arrival_times.tolist() == [0.0, 1.5]


def test_cells_of_columns_named_by_the_user(tmp_path: Path) -> None:
    named = {"prompt": "p", "output": "o", "error": "e", "latency": "l"}
    log = read_log(write(tmp_path, "p,o,e,l\n5,5,0.0,1\n5,5,late,2\n"), columns=named)
    assert (len(log), log.failed) == (1, 1)


SHORT = {"arrival": "t", "prompt": "p", "output": "o"}
ROWS = "t,p,o\n5,1,4\n2.25,3,5\n7,3,0\n2.25,4,5\n"


def test_a_log_is_in_order_of_arrival_whatever_the_file_is(tmp_path: Path) -> None:
    log = read_log(write(tmp_path, ROWS), columns=SHORT)
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
    options = {"memory_limit": 9, "columns": {**SHORT, "arrival": "t"}}
    if seconds < 1e8:
        assert read_log(path, columns=SHORT).arrival_times[1] == seconds
        # A window ends before the time that a text stands for, to the last digit.
        report = read_trace(path, duration_seconds=seconds, round_seconds=1e9, **options)[1]
        assert report.rows_in_window == 1


@pytest.mark.parametrize(
    ("text", "seconds"), [("9e-06", 9e-06), ("1.5E2", 150), ("7.", 7), ("0", 0), ("0" * 70, 0)]
)
def test_ways_to_write_a_number(tmp_path: Path, text: str, seconds: float) -> None:
    assert read_log(written(tmp_path, text), columns=SHORT).arrival_times[1] == seconds


@pytest.mark.parametrize(
    "text", [".", "+1", "1_0", "inf", "\u0661", "1e", "0x1", "12345678901234567", "9.1e15"]
)
def test_what_is_no_time(tmp_path: Path, text: str) -> None:
    with pytest.raises(FileFormatError, match=r"row 3: t .* is (not a time|in another unit)"):
        read_log(written(tmp_path, text), columns=SHORT)


def test_a_log_as_a_frame(tmp_path: Path) -> None:
    frame = read_log(write(tmp_path, LOGS["vllm-bench"])).frame
    assert frame.loc[frame["output_lengths"] > 1, "prompt_lengths"].tolist() == [374, 879, 91]
    assert frame["latencies"].tolist() == [0.8125, 0.125, 0.53125, 0.75]
    assert (frame.attrs["format"], frame.attrs["time_unit"]) == ("vllm-bench", "seconds")


# --- pipes, names of files -----------------------------------------------------------------------

pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")


@contextmanager
def fed_pipe(folder: Path, content: bytes, step: int) -> Iterator[Path]:
    """A named pipe that somebody writes ``step`` bytes at a time into, once."""
    path = folder / "pipe"
    os.mkfifo(path)

    def feed() -> None:
        try:
            with open(path, "wb", buffering=0) as stream:
                for k in range(0, len(content), step):
                    stream.write(content[k : k + step])
        except BrokenPipeError:
            pass

    writer = threading.Thread(target=feed, daemon=True)
    writer.start()
    yield path
    writer.join(10)
    assert not writer.is_alive()


@pipes
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("step", [1, 100_000], ids=["byte by byte", "at once"])
def test_a_pipe_is_read_once(tmp_path: Path, pack: Callable[[bytes], bytes], step: int) -> None:
    expected, _ = read(write(tmp_path, VIDUR))
    with fed_pipe(tmp_path, pack(VIDUR.encode()), step) as path:
        found, report = read(path)
    assert found.digest == expected.digest
    assert found.ids == expected.ids
    assert report.source == "pipe"


@pipes
@pytest.mark.parametrize("content", [b"", b"\x1f", b"\n"], ids=["none", "half a mark", "blank"])
def test_an_empty_pipe_is_called_so(tmp_path: Path, content: bytes) -> None:
    with fed_pipe(tmp_path, content, 1) as path, pytest.raises(FileFormatError, match="is empty"):
        read(path)


@pipes
def test_an_instance_comes_from_a_pipe_too(tmp_path: Path) -> None:
    instance, _ = read(write(tmp_path, VIDUR))
    save(instance, tmp_path / "x.json")
    with fed_pipe(tmp_path, (tmp_path / "x.json").read_bytes(), 7) as path:
        assert load(path) == instance


@pytest.mark.parametrize("name", ["a\x1b[31m.csv", os.fsdecode(b"a\xff.csv"), "a\nb.csv"])
def test_any_name_of_a_file_becomes_one_that_can_be_shown(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    try:
        path.write_text(VIDUR)
    except (OSError, UnicodeError):
        pytest.skip("no such name here")
    instance, report = read(path)
    for text in (instance.name, str(report)):
        assert text.isprintable()
    save(instance, tmp_path / "x.json")
    assert load(tmp_path / "x.json") == instance
