"""``progress=True`` shows a bar with the latest news in a terminal, and lines elsewhere."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

import hindsight
from instances import Instance
from instances.progress import shows_progress

INSTANCE = Instance.from_arrays([2, 1, 3], [3, 2, 4], memory_limit=8, name="<three>")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return shown


def test_a_terminal_keeps_the_last_of_many_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)

    @shows_progress
    def count(progress: Callable[[str], None]) -> None:
        for finished in range(1000):
            progress(f"{finished}/1000 [b]\033[2J\n")

    count(progress=True)
    written = terminal.getvalue()
    # Neither markup nor control characters of a name act on the terminal.
    assert r"999/1000 [b]\x1b[2J\n" in written
    assert written.count("/1000") < 100
    assert written.endswith("\n\033[?25h")


def test_a_file_has_a_line_for_each_report_that_was_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hindsight.solve(INSTANCE)
    assert capsys.readouterr() == ("", "")
    hindsight.solve(INSTANCE, progress=True)
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.count("\n") == written.err.count("total latency")
    assert written.err.endswith("gap 0 %\n")


def test_callers_may_print() -> None:
    told: list[str] = []
    hindsight.solve(INSTANCE, progress=lambda news: told.append(str(news)))
    assert told[-1].endswith("gap 0 %")
    assert shows_progress(lambda progress: progress)(progress=False) is None


@pytest.mark.parametrize("progress", [None, False])
def test_a_solve_that_was_not_asked_leaves_no_line(progress, monkeypatch) -> None:
    terminal = open_terminal(monkeypatch)
    hindsight.solve(INSTANCE, progress=progress)
    shown = terminal.getvalue()
    assert ("gap" in shown) == (progress is None)
    # The last line is erased.
    assert not shown or shown.endswith("\r\033[1A\033[2K")
