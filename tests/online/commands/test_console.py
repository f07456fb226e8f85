"""Columns that fit a terminal, whatever the table, and values beside their names."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable

import pytest

from online.commands.console import print_fields, print_table
from online.commands.ratio_report import IMPORTANT
from online.tables import Table

INTERVAL = "[1.0976, 1.2896]"
RATIOS = Table(
    "ratios",
    ("policy", "trials", "failed", "proved", "mean ratio", "95 %", "max ratio"),
    (("alpha-protection(alpha=0.25)", "10", "0", "7", INTERVAL, INTERVAL, INTERVAL),),
    frozenset({"policy"}),
    IMPORTANT,
)


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (108, []),
        (100, ["trials"]),
        (80, ["trials", "failed", "proved", "max ratio"]),
        (62, ["trials", "failed", "proved", "95 %", "max ratio"]),
        (46, ["trials", "failed", "proved", "95 %", "max ratio"]),
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
    assert all(len(line.rstrip()) <= width for line in shown.split("\n"))


def test_a_file_has_all_columns_unless_columns_says_otherwise(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(Table("title", ("a", "b b"), (("1", "x" * 200),), main_columns=("b b", "a")))
    lines = ["title", f"a  {'b b':>200}", f"-  {'-' * 200}", f"1  {'x' * 200}", ""]
    assert capsys.readouterr().out.split("\n") == lines
    monkeypatch.setenv("COLUMNS", "80")
    print_table(RATIOS)
    assert "left out: trials; failed; proved; max ratio" in capsys.readouterr().out


def test_text_is_broken_at_blanks_down_to_a_least_width(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ("n", "one two three four five six seven eight nine ten")
    table = Table("", ("name", "what"), (row,), frozenset({"name", "what"}))
    shown = _printed(monkeypatch, table, 40).split("\n")
    assert [line.rstrip() for line in shown[2:4]] == [
        "n     one two three four five six seven",
        "      eight nine ten",
    ]
    assert "left out: what" in _printed(monkeypatch, table, 17)


def test_values_continue_below_themselves_and_digests_stay_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = {"licence": "a b c d e f g h i j k l m", "digest": "0" * 28}
    shown = _shown(monkeypatch, 30, lambda: print_fields(fields))
    assert shown.split("\n") == [
        "licence  a b c d e f g h i j k",
        "         l m",
        f"digest   {'0' * 28}",
        "",
    ]


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
