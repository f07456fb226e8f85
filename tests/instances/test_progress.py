"""``progress=True`` shows the latest news in one line, and no flood of them."""

from __future__ import annotations

import io
import sys
import types
from collections.abc import Callable

import pytest

import hindsight
from instances import Instance
from instances.progress import shows_progress

INSTANCE = Instance.from_arrays([2, 1, 3], [3, 2, 4], memory_limit=8, name="<three>")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_line_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "40")

    @shows_progress
    def count(progress: Callable[[str], None]) -> None:
        for finished in range(1000):
            progress(f"{finished}/1000, {'x' * 100}: gap 50 %")

    count(progress=True)
    lines = terminal.getvalue().split("\r")
    assert [line[:6] for line in lines] == ["", "0/1000", "999/10"]
    assert all(len(line.rstrip("\n")) < 40 for line in lines)
    assert terminal.getvalue().endswith("\n")


def test_a_new_phase_is_shown_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    @shows_progress
    def work(progress: Callable[[hindsight.Progress], None]) -> list[str]:
        for phase in ("heuristics", "compiling a loop (once)", "heuristics", "heuristics"):
            progress(hindsight.Progress(0.0, phase, 5, 9, 4 / 9, "[5, 9]"))
        return [line.partition(":")[0] for line in terminal.getvalue().split("\r")[1:]]

    assert work(progress=True) == ["heuristics", "compiling a loop (once)", "heuristics"]


def test_a_file_has_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    hindsight.solve(INSTANCE, progress=True)
    hindsight.relax(INSTANCE, method="lagrangian", progress=True)
    assert capsys.readouterr() == ("", "")


def test_a_notebook_has_the_same_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=None)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    hindsight.solve(INSTANCE, progress=True)
    assert "gap 0 %" in capsys.readouterr().err.split("\r")[-1]


def test_callers_may_print() -> None:
    told: list[str] = []
    hindsight.solve(INSTANCE, progress=lambda news: told.append(str(news)))
    assert told[-1].endswith("gap 0 %")
    assert shows_progress(lambda progress: progress)(progress=False) is None


@pytest.mark.parametrize("progress", [None, False])
def test_a_solve_that_was_not_asked_leaves_no_line(progress, monkeypatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    hindsight.solve(INSTANCE, progress=progress)
    shown = terminal.getvalue()
    assert ("gap" in shown) == (progress is None)
    assert not shown.replace("\r", "\n").split("\n")[-1].strip()
    assert "\n" not in shown
