"""Columns that fit a terminal, whatever the table, and values beside their names."""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from online.commands import console
from online.commands.console import (
    GAP,
    LATE_ERRORS,
    PROSE_WIDTH,
    fitting,
    print_fields,
    print_table,
)
from online.runtime.table import Table

WORDS = st.text("ab7.\u4e16", min_size=1, max_size=12)
HEADINGS = st.lists(st.text("ab7.", min_size=1, max_size=12), max_size=5).map(" ".join)
CELLS = st.lists(WORDS, max_size=5).map(" ".join)
WIDTHS = st.integers(len("left out:"), 120)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Any table; headings are told apart by a number."""
    count = draw(st.integers(1, 6))
    columns = tuple(f"{draw(HEADINGS)} {place}".strip() for place in range(count))
    some = st.sets(st.sampled_from(columns)).map(frozenset)
    row = st.tuples(*[CELLS] * count)
    return Table(
        draw(st.sampled_from(["", "title"])),
        columns,
        tuple(draw(st.lists(row, max_size=4))),
        draw(some),
        tuple(draw(st.permutations(columns))[: draw(st.integers(0, count))]),
        draw(some),
    )


def _least(table: Table, name: str) -> int:
    """Cells of a terminal that a column cannot do without."""
    cells = [row[table.columns.index(name)] for row in table.rows]
    whole = [cell_len(cell) for cell in cells]
    if name in table.prose_columns:
        words = [cell_len(word) for cell in cells for word in cell.split()]
        whole = [min(PROSE_WIDTH, (max(whole, default=0) + 1) // 2), *words]
    return max([*whole, *(cell_len(word) for word in name.split())])


def _needed(table: Table, names: list[str]) -> int:
    return sum(_least(table, name) + GAP for name in names) - GAP


@given(tables(), WIDTHS)
def test_the_most_important_columns_that_fit_are_kept(table: Table, width: int) -> None:
    kept = fitting(table, width)
    order = [*(table.main_columns or table.columns)]
    chosen = order[: len(kept.columns)]
    assert list(kept.columns) == [name for name in table.columns if name in chosen]
    places = [table.columns.index(name) for name in kept.columns]
    assert list(kept.rows) == [tuple(row[place] for place in places) for row in table.rows]
    assert len(chosen) == 1 or _needed(table, chosen) <= width
    assert len(chosen) == len(order) or _needed(table, order[: len(chosen) + 1]) > width


@given(tables(), WIDTHS, st.booleans())
def test_a_terminal_shows_cells_in_one_piece(table: Table, width: int, wide: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        shown = _printed(patch, table, width, wide=wide)
    kept = table if wide else fitting(table, width)
    lines = shown.split("\n")
    for name, *cells in zip(kept.columns, *kept.rows, strict=True):
        for cell in cells:
            for piece in cell.split() if name in table.prose_columns else [cell]:
                assert any(piece in line for line in lines)
    words = " ".join(shown.split())
    left_out = [name for name in table.columns if name not in kept.columns]
    assert ("left out: " in words) == bool(left_out)
    for name in left_out:
        assert name in words
    if _needed(table, [*kept.columns]) <= width:
        drawn = shown.partition("left out:")[0].removeprefix("title\n")
        assert max(map(cell_len, drawn.split("\n"))) <= width


def test_what_is_no_terminal_has_the_columns_that_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = Table("title", ("a", "b b", "c"), (("1", "2", "x" * 200),), main_columns=("c", "a"))
    print_table(table)
    assert capsys.readouterr().out.split("\n") == [
        "title",
        f"a  {'c':>200}",
        f"-  {'-' * 200}",
        f"1  {'x' * 200}",
        "left out: b b",
        "",
    ]
    print_table(table, wide=True)
    assert capsys.readouterr().out == table.to_text()


def test_prose_is_broken_at_blanks_where_other_text_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "one two three four five six seven eight nine ten"
    name = Table("", ("name", "what"), (("n", text),), frozenset({"name", "what"}))
    prose = replace(name, prose_columns=frozenset({"what"}))
    assert "left out: what" in _printed(monkeypatch, name, 40)
    shown = _printed(monkeypatch, prose, 40).split("\n")
    assert [line.rstrip() for line in shown[2:4]] == [
        "n     one two three four five six seven",
        "      eight nine ten",
    ]


def test_values_continue_below_themselves_and_digests_stay_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = {"licence": "a b c d e f g h i j k l m", "digest": "0" * 28}
    shown = _shown(monkeypatch, 30, lambda: print_fields(fields))
    assert shown.split("\n") == [
        "licence  a b c d e f g h i j k",
        "         l m",
        "digest",
        f"  {'0' * 28}",
        "",
    ]


@pytest.mark.parametrize("name", sorted(LATE_ERRORS))
def test_errors_that_are_named_are_there(name: str) -> None:
    module, _, kind = name.rpartition(".")
    found = getattr(import_module(module), kind)
    assert issubclass(found, Exception)
    assert f"{found.__module__}.{found.__name__}" == name


def test_how_much_longer_is_told_once_it_can_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(console.time, "monotonic", lambda: now)
    for is_long, seconds, told in (
        (True, 12.0, ["about 20 min more, if the rest is like the first 1 %"]),
        (True, 0.2, []),
        (False, 12.0, []),
    ):
        with console.progress_bar(100, is_long=is_long) as update:
            update(0, "none yet")
            for done in range(1, 4):
                now += seconds
                update(done, "some")
        captured = capsys.readouterr()
        assert captured.err.splitlines() == told
        assert captured.out == ""
    told = [console.duration(seconds) for seconds in (44.4, 119, 150, 9000)]
    assert told == ["44 s", "119 s", "2 min", "2 h"]


@pytest.mark.parametrize("lines", [True, False])
def test_what_takes_long_is_told_where_there_is_no_bar(
    lines: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "SILENT_SECONDS", 0.02)
    told = ""
    with console.progress_bar(1, lines=lines) as update:
        update(0, "reading large.json")
        began = time.monotonic()
        while not told and time.monotonic() - began < (10 if lines else 0.2):
            time.sleep(0.01)
            told = capsys.readouterr().err
    assert ("0 s: reading large.json\n" in told) == lines
    time.sleep(0.1)
    assert not capsys.readouterr().err


class Terminal(io.StringIO):
    """What passes for a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def _printed(patch: pytest.MonkeyPatch, table: Table, width: int, *, wide: bool = False) -> str:
    return _shown(patch, width, lambda: print_table(table, wide=wide))


def _shown(patch: pytest.MonkeyPatch, width: int, print_it: Callable[[], None]) -> str:
    """What a terminal of that width gets, without colours."""
    with patch.context() as here:
        here.setenv("COLUMNS", str(width))
        here.setenv("TERM", "xterm")
        here.setattr(sys, "stdout", stream := Terminal())
        print_it()
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
