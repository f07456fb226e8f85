"""Windows of traces as instances: the rule on small files, and several windows of one."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_files import write

from instances import (
    FileFormatError,
    InvalidValueError,
    MemoryRule,
    load,
    read_trace,
    read_workload,
    save,
    trace_windows,
)

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


def stamp(seconds: str | int) -> str:
    """A timestamp ``seconds`` (below 60) after the first, with the trace's seven digits."""
    whole, _, digits = str(seconds).partition(".")
    return f"2023-11-16 18:15:{int(whole):02d}.{digits:<07s}"


def trace(folder: Path, rows: list[tuple | str], header: str = HEADER, name: str = "t.csv") -> Path:
    lines = [header]
    for row in rows:
        lines.append(row if isinstance(row, str) else f"{stamp(row[0])},{row[1]},{row[2]}")
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read(path: Path, **options):
    return read_trace(path, **{"memory_limit": 100, "round_seconds": 1.0, **options})


# --- the rule -----------------------------------------------------------------------------------


def test_a_small_trace(tmp_path: Path) -> None:
    path = trace(tmp_path, [(0, 5, 3), ("0.5", 7, 1), (2, 9, 2)])
    instance, report = read(path)
    assert instance.memory_limit == 100
    assert instance.prompt_lengths.tolist() == [5, 7, 9]
    assert instance.output_lengths.tolist() == [3, 1, 2]
    assert instance.arrival_times.tolist() == [0, 1, 2]
    assert instance.ids == ("row2", "row3", "row4")  # the line of the file, the header being 1
    assert (report.rows_in_window, report.kept) == (3, 3)
    assert (report.dropped_empty, report.dropped_too_long, report.clipped) == (0, 0, 0)
    assert report.source == "t.csv"


@pytest.mark.parametrize("round_seconds", ["0.05", "0.1", "0.3", "0.7", "1.1"])
def test_an_arrival_at_a_round_boundary_starts_there(tmp_path: Path, round_seconds: str) -> None:
    # In floats 1.1 / 0.1 is 11.000000000000002 and ceil gives 12; exact division gives 11.
    count = 50
    rows: list = [(str(Decimal(round_seconds) * k), 1, 1) for k in range(count)]
    instance, _ = read(trace(tmp_path, rows), round_seconds=float(round_seconds))
    assert instance.arrival_times.tolist() == list(range(count))
    # A tick past the boundary waits for the next round.
    rows = [(0, 1, 1), ("0.0000001", 1, 1), ("0.9999999", 1, 1), ("1.0000001", 1, 1)]
    assert read(trace(tmp_path, rows))[0].arrival_times.tolist() == [0, 1, 1, 2]


def test_a_round_lasts_50_ms_unless_told(tmp_path: Path) -> None:
    path = trace(tmp_path, [(0, 1, 1), ("0.05", 1, 1), ("0.1001", 1, 1)])
    instance, _ = read_trace(path, memory_limit=100)
    assert instance.arrival_times.tolist() == [0, 1, 3]


def test_the_clock_starts_with_the_window_not_with_the_first_row_in_it(tmp_path: Path) -> None:
    rows: list = [(0, 1, 1), (5, 2, 1), (7, 3, 1), (9, 4, 1)]
    instance, report = read(trace(tmp_path, rows), start_seconds=4, duration_seconds=4)
    assert instance.prompt_lengths.tolist() == [2, 3]
    assert instance.arrival_times.tolist() == [1, 3]
    assert (report.start_seconds, report.duration_seconds) == (4.0, 4.0)
    assert report.rows_in_window == 2


def test_the_window_is_closed_below_and_open_above(tmp_path: Path) -> None:
    # 0.1 and 0.3 have no exact float: the limits must still be met to the digit.
    rows: list = [("0.0999999", 1, 1), ("0.1", 2, 1), ("0.2999999", 3, 1), ("0.3", 4, 1)]
    path = trace(tmp_path, [(0, 9, 1), *rows])
    instance, _ = read(path, start_seconds=0.1, duration_seconds=0.2, round_seconds=0.1)
    assert instance.prompt_lengths.tolist() == [2, 3]
    assert instance.arrival_times.tolist() == [0, 2]


def test_times_across_midnight_and_equal_times(tmp_path: Path) -> None:
    rows = [
        "2023-12-31 23:59:59.0000000,1,1",
        "2023-12-31 23:59:59,2,1",
        "2024-01-01 00:00:01.5,3,1",
    ]
    assert read(trace(tmp_path, rows))[0].arrival_times.tolist() == [0, 0, 3]


def test_rows_dropped_count_towards_max_requests(tmp_path: Path) -> None:
    rows: list = [(0, 0, 1), (1, 5, 1), (2, 5, 0), (3, 6, 1)]
    for too_long in ("drop", "clip"):
        instance, report = read(trace(tmp_path, rows), max_requests=3, too_long=too_long)
        assert instance.ids == ("row3",)
        assert (report.kept, report.rows_in_window, report.dropped_empty) == (1, 3, 2)


TOO_LONG: list = [(0, 60, 40), (1, 60, 41), (2, 99, 50), (3, 100, 1), (4, 500, 1)]


@pytest.mark.parametrize(
    ("too_long", "outputs", "counts"),
    [("drop", {"row2": 40}, (1, 4, 0)), ("clip", {"row2": 40, "row3": 40, "row4": 1}, (3, 2, 2))],
)
def test_too_long_requests_are_dropped_or_clipped_and_counted(
    tmp_path: Path, too_long: str, outputs: dict, counts: tuple
) -> None:
    instance, report = read(trace(tmp_path, TOO_LONG), too_long=too_long)
    assert {request.id: request.output_length for request in instance} == outputs
    assert instance.prompt_lengths.tolist() == [60, 60, 99][: len(outputs)]
    assert (report.kept, report.dropped_too_long, report.clipped) == counts


@pytest.mark.parametrize("too_long", ["drop", "clip"])
def test_what_is_too_long_is_so_by_the_memory_rule(tmp_path: Path, too_long: str) -> None:
    rule = MemoryRule(16, "next")
    # Six blocks of 16, and the last token is never stored: 97 tokens.
    path = trace(tmp_path, [(0, 60, 37), (1, 60, 38), (2, 97, 1)])
    for read_as in (read_trace, read_workload):
        drawn, report = read_as(path, memory_limit=100, memory_rule=rule, too_long=too_long)
        assert drawn.memory_rule == rule
        assert report.clipped == (too_long == "clip")
        assert drawn.output_lengths.tolist() == [37] + [37] * (too_long == "clip")


def test_token_counts_are_scaled_and_rounded_up(tmp_path: Path) -> None:
    path = trace(tmp_path, [(0, 9, 1), (1, 10, 10), (2, 11, 19), (3, 1, 20)])
    instance, report = read(path, token_scale=10)
    assert instance.prompt_lengths.tolist() == [1, 1, 2, 1]
    assert instance.output_lengths.tolist() == [1, 1, 2, 2]
    assert report.token_scale == 10


def test_the_memory_limit_counts_scaled_tokens(tmp_path: Path) -> None:
    # 11 + 19 tokens are 2 + 2 scaled ones: they fit M = 4 and not M = 3.
    path = trace(tmp_path, [(0, 5, 5), (1, 11, 19)])
    assert read(path, token_scale=10, memory_limit=4)[1].dropped_too_long == 0
    assert read(path, token_scale=10, memory_limit=3)[1].dropped_too_long == 1


def test_the_report_travels_with_the_instance_and_reads_as_a_line(tmp_path: Path) -> None:
    instance, report = read(trace(tmp_path, TOO_LONG), too_long="clip")
    save(instance, tmp_path / "x.json")
    twin = load(tmp_path / "x.json")
    assert twin == instance
    assert twin.metadata["trace"]["clipped"] == 2
    assert twin.metadata["trace"]["rows_in_window"] == 5
    line = str(report)
    assert "\n" not in line
    for part in ("t.csv", "3 of 5", "0 empty", "2 too long", "2 clipped"):
        assert part in line


# --- several windows, and rows in another order ------------------------------------------------

ORDERED = "0.0,374,44\n0.5,396,109\n3,91,16\n"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n"


@given(
    gaps=st.lists(st.integers(0, 30), min_size=1, max_size=40),
    start=st.integers(0, 20),
    length=st.integers(1, 40),
    windows=st.integers(1, 4),
    most=st.none() | st.integers(1, 5),
)
def test_windows_are_what_single_reads_give(
    tmp_path_factory, gaps: list[int], start: int, length: int, windows: int, most: int | None
) -> None:
    path = tmp_path_factory.mktemp("windows") / "t.csv"
    moment, lines = 0, ["arrived_at,num_prefill_tokens,num_decode_tokens"]
    for gap in gaps:
        moment += gap
        lines.append(f"{moment / 10},{1 + moment % 7},{moment % 3}")
    path.write_text("\n".join(lines) + "\n", "utf-8")
    options = {"memory_limit": 8, "round_seconds": 0.1, "max_requests": most}
    expected: list[object] = []
    for k in range(windows):
        try:
            begin = float(Fraction(start + k * length, 10))
            expected.append(
                read_trace(path, start_seconds=begin, duration_seconds=length / 10, **options)
            )
        except FileFormatError as error:
            expected.append(str(error))
            break
    found: list[object] = []
    try:
        found.extend(
            trace_windows(
                path,
                start_seconds=start / 10,
                duration_seconds=length / 10,
                windows=windows,
                **options,
            )
        )
    except FileFormatError as error:
        found.append(str(error))
    assert found[len(found) - 1] == expected[-1]
    if not isinstance(expected[-1], str):
        assert found == expected


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
    found = _outcome(write(folder, VIDUR + "".join(text), "log"), **options)
    expected = _outcome(write(folder, VIDUR + "".join(in_order), "ordered"), **options)
    assert found == expected


def _outcome(path: Path, **options: Any) -> Any:
    try:
        return read(path, memory_limit=2000, **options)[0].digest
    except FileFormatError as error:
        return str(error).partition(": ")[2]


def test_sorting_is_counted_and_reported(tmp_path: Path) -> None:
    path = write(tmp_path, VIDUR + "5,1,1\n2,2,1\n4,3,1\n6,4,1\n1,5,1\n")
    instance, report = read(path, memory_limit=2000)
    assert instance.prompt_lengths.tolist() == [5, 2, 3, 1, 4]
    assert instance.arrival_times.tolist() == [0, 1, 3, 4, 5]
    assert instance.ids == ("row6", "row3", "row4", "row2", "row5")
    assert report.out_of_order == 3
    assert "sorted, 3 out of order" in str(report)
    assert instance.metadata["trace"]["out_of_order"] == 3
    _, unasked = read(write(tmp_path, VIDUR + ORDERED), memory_limit=2000)
    assert unasked.out_of_order == 0
    assert "sorted" not in str(unasked)


def test_dates_before_1970_are_in_order(tmp_path: Path) -> None:
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens", "1969-12-31 23:59:58,1,1"]
    path = write(tmp_path, "\n".join([*lines, "1969-12-31 23:59:59,1,1\n"]))
    assert read(path)[0].arrival_times.tolist() == [0, 1]


# --- what a file can get wrong ------------------------------------------------------------------


def test_a_round_too_short_for_the_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="row3.*arrival_time"):
        read(trace(tmp_path, [(0, 5, 3), (1, 5, 3)]), round_seconds=1e-300)
