"""Columns that fit a terminal, whatever the table, and values beside their names."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

import pytest

from online.commands.console import (
    LATE_ERRORS,
    print_fields,
    print_table,
)
from online.tables import Table

INTERVAL = "[1.0976, 1.2896]"
RATIOS = Table(
    "ratios",
    ("policy", "trials", "mean ratio", "95 %", "max ratio"),
    (("alpha-protection(alpha=0.25)", "10", INTERVAL, INTERVAL, INTERVAL),),
    frozenset({"policy"}),
    ("policy", "mean ratio", "95 %", "trials", "max ratio"),
)


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (100, []),
        (80, ["max ratio"]),
        (70, ["trials", "max ratio"]),
        (50, ["trials", "95 %", "max ratio"]),
        (20, ["trials", "mean ratio", "95 %", "max ratio"]),
    ],
)
def test_a_terminal_shows_the_most_important_columns_whole(
    width: int, left_out: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = _printed(monkeypatch, RATIOS, width)
    table, _, named = shown.partition("left out: ")
    assert [" ".join(name.split()) for name in named.split(";") if name] == left_out
    kept = [name for name in RATIOS.columns if name not in left_out]
    for name, cell in zip(RATIOS.columns, RATIOS.rows[0], strict=True):
        assert table.count(cell) >= (name in kept)
    if width > 20:
        assert all(len(line.rstrip()) <= width for line in shown.split("\n"))


def test_a_file_has_all_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(Table("title", ("a", "b b"), (("1", "x" * 200),), main_columns=("b b", "a")))
    lines = ["title", f"a  {'b b':>200}", f"-  {'-' * 200}", f"1  {'x' * 200}", ""]
    assert capsys.readouterr().out.split("\n") == lines


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


class Terminal(io.StringIO):
    """What passes for a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def _printed(patch: pytest.MonkeyPatch, table: Table, width: int) -> str:
    return _shown(patch, width, lambda: print_table(table))


def _shown(patch: pytest.MonkeyPatch, width: int, print_it: Callable[[], None]) -> str:
    """What a terminal of that width gets, without colours."""
    with patch.context() as here:
        here.setenv("COLUMNS", str(width))
        here.setenv("TERM", "xterm")
        here.setattr(sys, "stdout", stream := Terminal())
        print_it()
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
