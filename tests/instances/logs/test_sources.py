"""Traces from pipes, logs in order of completion, columns of any name, hostile content."""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_files import read, write

from instances import FileFormatError, load, read_workload, save

HEADER = "arrived_at,num_prefill_tokens,num_decode_tokens\n"
VIDUR = HEADER + "0.0,374,44\n0.5,396,109\n3,91,16\n"
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


# --- pipes --------------------------------------------------------------------------------------


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


# --- logs in another order ----------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9), st.integers(1, 9)), min_size=1),
    st.integers(0, 10),
    st.integers(1, 40),
)
def test_a_sorted_log_is_the_log_of_arrivals(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, int, int]],
    start: int,
    length: int,
) -> None:
    folder = tmp_path_factory.mktemp("sorted")
    text = [f"{time},{prompt},{output}\n" for time, prompt, output in rows]
    # Python's sort keeps the order of equal times, as a stable one must.
    in_order = [text[k] for k in sorted(range(len(rows)), key=lambda k: rows[k][0])]
    options = {"start_seconds": start, "duration_seconds": length}
    found = _outcome(write(folder, HEADER + "".join(text), "log"), sort=True, **options)
    expected = _outcome(write(folder, HEADER + "".join(in_order), "ordered"), **options)
    assert found == expected


def _outcome(path: Path, **options: Any) -> Any:
    try:
        return read(path, **options)[0].digest
    except FileFormatError as error:
        return str(error).partition(": ")[2]


def test_sorting_is_counted_and_reported(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER + "5,1,1\n2,2,1\n4,3,1\n6,4,1\n1,5,1\n")
    instance, report = read(path, sort=True)
    assert instance.prompt_lengths.tolist() == [5, 2, 3, 1, 4]
    assert instance.arrival_times.tolist() == [0, 1, 3, 4, 5]
    assert instance.ids == ("row6", "row3", "row4", "row2", "row5")
    assert report.out_of_order == 3
    assert "sorted, 3 out of order" in str(report)
    assert instance.metadata["trace"]["out_of_order"] == 3
    _, plain = read(write(tmp_path, VIDUR), sort=True)
    assert plain.out_of_order == 0
    _, unasked = read(write(tmp_path, VIDUR))
    assert unasked.out_of_order is None
    assert "sorted" not in str(unasked)


def test_dates_before_1970_are_in_order(tmp_path: Path) -> None:
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens", "1969-12-31 23:59:58,1,1"]
    path = write(tmp_path, "\n".join([*lines, "1969-12-31 23:59:59,1,1\n"]))
    assert read(path)[0].arrival_times.tolist() == [0, 1]


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


# --- hostile content ----------------------------------------------------------------------------


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
