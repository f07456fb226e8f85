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


SMALL: list = [(0, 5, 3), ("0.5", 7, 1), (2, 9, 2)]
LATER: list = [(0, 1, 1), (5, 2, 1), (7, 3, 1), (9, 4, 1)]
# 0.1 and 0.3 have no exact float: the limits must still be met to the digit.
TENTHS: list = [
    *[(0, 9, 1), ("0.0999999", 1, 1), ("0.1", 2, 1)],
    *[("0.2999999", 3, 1), ("0.3", 4, 1)],
]
MIDNIGHT: list = ["2023-12-31 23:59:59.0000000,1,1", "2023-12-31 23:59:59,2,1"]
EMPTY: list = [(0, 0, 1), (1, 5, 1), (2, 5, 0), (3, 6, 1)]
TOO_LONG: list = [(0, 60, 40), (1, 60, 41), (2, 99, 50), (3, 100, 1), (4, 500, 1)]
SCALED: list = [(0, 9, 1), (1, 10, 10), (2, 11, 19), (3, 1, 20)]


@pytest.mark.parametrize(
    ("rows", "options", "columns", "counts"),
    [
        (SMALL, {}, ([2, 3, 4], [0, 1, 2], [5, 7, 9], [3, 1, 2]), (3, 0, 0, 0)),
        # The clock starts with the window, not with the first row in it.
        (
            LATER,
            {"start_seconds": 4, "duration_seconds": 4},
            ([3, 4], [1, 3], [2, 3]),
            (2, 0, 0, 0),
        ),
        (
            TENTHS,
            {"start_seconds": 0.1, "duration_seconds": 0.2, "round_seconds": 0.1},
            ([4, 5], [0, 2], [2, 3]),
            (2, 0, 0, 0),
        ),
        ([*MIDNIGHT, "2024-01-01 00:00:01.5,3,1"], {}, ([2, 3, 4], [0, 0, 3]), (3, 0, 0, 0)),
        # Rows that are dropped count towards max_requests.
        *[
            (EMPTY, {"max_requests": 3, "too_long": k}, ([3],), (3, 2, 0, 0))
            for k in ("drop", "clip")
        ],
        (TOO_LONG, {}, ([2], [0], [60], [40]), (5, 0, 4, 0)),
        (
            TOO_LONG,
            {"too_long": "clip"},
            ([2, 3, 4], [0, 1, 2], [60, 60, 99], [40, 40, 1]),
            (5, 0, 2, 2),
        ),
        (
            SCALED,
            {"token_scale": 10, "memory_limit": 4},
            ([2, 3, 4, 5], [0, 1, 2, 3], [1, 1, 2, 1], [1, 1, 2, 2]),
            (4, 0, 0, 0),
        ),
        # 11 + 19 tokens are 2 + 2 scaled ones: they fit M = 4 and not M = 3.
        (SCALED, {"token_scale": 10, "memory_limit": 3}, ([2, 3, 5],), (4, 0, 1, 0)),
    ],
)
def test_the_rule(tmp_path: Path, rows: list, options: Any, columns: Any, counts: Any) -> None:
    instance, report = read(trace(tmp_path, rows), **options)
    # The line of the file, the header being 1.
    assert instance.ids == tuple(f"row{k}" for k in columns[0])
    found = (instance.arrival_times, instance.prompt_lengths, instance.output_lengths)
    for column, expected in zip(found, columns[1:], strict=False):
        assert column.tolist() == expected
    dropped = (report.dropped_empty, report.dropped_too_long, report.clipped)
    assert (report.rows_in_window, *dropped) == counts
    assert (report.source, report.kept) == ("t.csv", len(instance))
    for name in ("start_seconds", "duration_seconds", "round_seconds", "token_scale"):
        assert getattr(report, name) == options.get(name, getattr(report, name))


@pytest.mark.parametrize("round_seconds", ["0.05", "0.1", "0.3", "0.7", "1.1"])
def test_an_arrival_at_a_round_boundary_starts_there(tmp_path: Path, round_seconds: str) -> None:
    # In floats 1.1 / 0.1 is 11.000000000000002 and ceil gives 12; exact division gives 11.
    rows: list = [(str(Decimal(round_seconds) * k), 1, 1) for k in range(50)]
    instance, _ = read(trace(tmp_path, rows), round_seconds=float(round_seconds))
    assert instance.arrival_times.tolist() == list(range(50))
    # A tick past the boundary waits for the next round.
    rows = [(0, 1, 1), ("0.0000001", 1, 1), ("0.9999999", 1, 1), ("1.0000001", 1, 1)]
    assert read(trace(tmp_path, rows))[0].arrival_times.tolist() == [0, 1, 1, 2]


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


def test_the_report_travels_with_the_instance_and_reads_as_a_line(tmp_path: Path) -> None:
    instance, report = read(trace(tmp_path, TOO_LONG), too_long="clip")
    save(instance, tmp_path / "x.json")
    twin = load(tmp_path / "x.json")
    assert twin == instance
    assert twin.metadata["trace"]["clipped"] == 2
    for part in ("t.csv", "3 of 5", "0 empty", "2 too long", "2 clipped"):
        assert part in str(report)


# --- several windows, and rows in another order ------------------------------------------------

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
    moment, rows = 0, []
    for gap in gaps:
        moment += gap
        rows.append(f"{moment / 10},{1 + moment % 7},{moment % 3}\n")
    path = write(tmp_path_factory.mktemp("windows"), VIDUR + "".join(rows))
    options = {"memory_limit": 8, "round_seconds": 0.1, "max_requests": most}
    options["duration_seconds"] = length / 10
    begins = [float(Fraction(start + k * length, 10)) for k in range(windows)]
    single = _outcome(lambda: [read_trace(path, start_seconds=one, **options) for one in begins])
    options |= {"start_seconds": start / 10, "windows": windows}
    assert _outcome(lambda: trace_windows(path, **options)) == single


def _outcome(call: Any) -> Any:
    try:
        return call()
    except FileFormatError as error:
        return str(error).partition(": ")[2]


# --- what a file can get wrong ------------------------------------------------------------------


def test_a_round_too_short_for_the_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="row3.*arrival_time"):
        read(trace(tmp_path, [(0, 5, 3), (1, 5, 3)]), round_seconds=1e-300)
