"""Rows that cannot be read: refused with their number, or skipped and counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from trace_files import write

from instances import FileFormatError, read_log, read_trace, read_workload, trace_windows

HEADER = "time,input,output,model\n"
COLUMNS = {"arrival": "time", "prompt": "input", "output": "output"}
GOOD = "0.5,10,20,a\n"
COUNT = "is not a whole number from 0 to 2147483647"


def log_of(tmp_path: Path, *rows: str, header: str = HEADER, **options):
    path = write(tmp_path, header + "".join(rows))
    return read_log(path, **{"columns": COLUMNS, "bad_rows": "skip", **options})


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("1,,20,a\n", "input is missing"),
        ("1,10, ,a\n", "output is missing"),
        (",10,20,a\n", "time is missing"),
        ("1,10\n", "output is missing"),
        ("1,NaN,20,a\n", f"input 'NaN' {COUNT}"),
        ("1,10,many,a\n", f"output 'many' {COUNT}"),
        ("1,10,12.5,a\n", f"output '12.5' {COUNT}"),
        ("1,10,-3,a\n", f"output '-3' {COUNT}"),
        ("1,10,99999999999,a\n", f"output '99999999999' {COUNT}"),
        ("soon,10,20,a\n", "time 'soon' is not a time"),
        ("2026-01-01 00:00:00,10,20,a\n", "time .* is not a time"),
        ("1,10,20,a,b\n", "has more cells than the header"),
    ],
)
def test_a_bad_row_of_a_table(tmp_path: Path, row: str, reason: str) -> None:
    rows = (GOOD, row, GOOD, '3,11,12,"a,b"\n')
    log = log_of(tmp_path, *rows)
    assert log.left_out == {"skipped": 1}
    assert log.row_numbers.tolist() == [2, 4, 5]
    assert log.prompt_lengths.tolist() == [10, 10, 11]
    words = f"row 3: {reason}; 1 of 4 rows cannot be read; .*'skip'"
    with pytest.raises(FileFormatError, match=words) as caught:
        log_of(tmp_path, *rows, bad_rows="refuse")
    assert caught.value.row == 3


@pytest.mark.parametrize("bad_at", [0, 1, 3])
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"time": 1, "input": 5, "outp', "not JSON"),
        ("[1, 5, 3]", "is not a JSON object"),
        ('{"time": 1, "input": 5, "input": 6, "output": 3}', "not JSON: .*twice"),
        ('{"time": 1, "input": 5, "output": 3}, {"time": 1}', "not JSON"),
        ('{"time": 1, "input": NaN, "output": 3}', f"input nan {COUNT}"),
        ('{"time": 1, "input": null, "output": 3}', "input is missing"),
        ('{"time": 1, "input": "", "output": 3}', "input is missing"),
        ('{"time": 1, "input": 5}', "output is missing"),
        ('{"time": NaN, "input": 5, "output": 3}', "time nan is not a time"),
    ],
)
def test_a_bad_line_of_json(tmp_path: Path, line: str, reason: str, bad_at: int) -> None:
    good = [json.dumps({"time": k, "input": 10 + k, "output": 2, "x": "y"}) for k in range(3)]
    if line.startswith("["):
        # A file that begins with a list is one list.
        bad_at += not bad_at
    lines = [*good[:bad_at], line, *good[bad_at:]]
    path = write(tmp_path, "\n".join(lines) + "\n")
    log = read_log(path, columns=COLUMNS, bad_rows="skip")
    assert log.left_out == {"skipped": 1}
    assert log.prompt_lengths.tolist() == [10, 11, 12]
    words = f"row {bad_at + 1}: .*{reason}.*; 1 of 4 rows cannot be read"
    with pytest.raises(FileFormatError, match=words):
        read_log(path, columns=COLUMNS)


def test_bad_items_of_a_json_list(tmp_path: Path) -> None:
    items = [{"time": 1, "input": 5, "output": 3}, 7, {"time": 1, "input": 5}, None, "failed"]
    log = read_log(write(tmp_path, json.dumps(items)), columns=COLUMNS, bad_rows="skip")
    assert (log.row_numbers.tolist(), log.left_out) == ([1], {"skipped": 4})


@pytest.mark.parametrize("bad", ["nan", "2026-13-45T00:00:00Z", "9026-01-01T00:00:00Z"])
@pytest.mark.parametrize("good", ["1700000000000", "2026-01-01T00:00:00Z"])
def test_a_time_that_is_none_does_not_say_what_the_others_are(
    tmp_path: Path, bad: str, good: str
) -> None:
    log = log_of(tmp_path, f"{bad},1,1,a\n", f"{good},10,20,a\n", f"{good},10,20,a\n")
    assert (log.row_numbers.tolist(), log.left_out) == ([3, 4], {"skipped": 1})


def test_skipped_rows_are_counted_and_the_first_is_refused(tmp_path: Path) -> None:
    rows = [GOOD] * 1984 + ["1,5,,a\n"] * 9 + ["1,5,NaN,a\n"] * 7
    assert "1984 of 2000 requests kept (16 skipped)" in str(log_of(tmp_path, *rows))
    with pytest.raises(FileFormatError, match="row 1986: output is missing; 16 of 2,000 rows"):
        log_of(tmp_path, *rows, bad_rows="refuse")
    with pytest.raises(FileFormatError, match=r"no request is left of 2 \(2 skipped\)"):
        log_of(tmp_path, "1,,1,a\n", "1,,1,a\n")
    with pytest.raises(FileFormatError, match=r"no request is left of 2 \(1 skipped, 1 empty\)"):
        log_of(tmp_path, "1,,1,a\n", "1,5,0,a\n")


def test_windows_without_their_bad_rows(tmp_path: Path) -> None:
    rows = [f"{k},{10 + k},5,a\n" for k in range(6)]
    rows[0], rows[5] = "x,10,5,a\n", "4,14,,a\n"
    path = write(tmp_path, HEADER + "".join(rows))
    options = {"memory_limit": 100, "columns": COLUMNS, "bad_rows": "skip"}
    instance, report = read_trace(path, round_seconds=1.0, **options)
    assert instance.ids == ("row3", "row4", "row5", "row6")
    # The first row that can be read is the beginning.
    assert instance.arrival_times.tolist() == [0, 1, 2, 3]
    assert "2 skipped and left out" in str(report)
    assert instance.metadata["trace"]["left_out"] == report.left_out == {"skipped": 2}
    workload, _ = read_workload(path, **options)
    assert workload.arrival_times.tolist() == [0.0, 1.0, 2.0, 3.0]
    windows = trace_windows(path, duration_seconds=2.5, windows=2, **options)
    assert [report.left_out["skipped"] for _, report in windows] == [2, 2]


@pytest.mark.parametrize("zone", ["", "Z"])
def test_ends_have_a_time_zone_where_arrivals_have_one(tmp_path: Path, zone: str) -> None:
    header, other = "time,input,output,end\n", {"": "Z", "Z": ""}[zone]
    rows = [f"2026-01-01 00:00:0{k}{zone},9,2,2026-01-01 00:00:09" for k in (1, 2)]
    rows = [f"{rows[0]}{zone}\n", f"{rows[1]}{other}\n"]
    columns = COLUMNS | {"end": "end"}
    assert log_of(tmp_path, *rows, header=header, columns=columns).latencies.tolist() == [8.0]
    with pytest.raises(FileFormatError, match="end .* has a time zone, or none, unlike the rows"):
        log_of(tmp_path, *rows, header=header, columns=columns, bad_rows="refuse")
