from __future__ import annotations

from pathlib import Path

import pytest
from forked_scripts import Refused, Script


def test_nothing_to_do_is_said(refused: Refused) -> None:
    assert "nothing to do" in refused("reproduce")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["j25-figure-99"], "unknown reproduction 'j25-figure-99'"),
        (["--all", "j25-figure-3"], "name some, or say --all"),
        (["--page", "page.txt"], "--page"),
        (["--page", "page.md", "--out", "missing"], "missing"),
        (["j25-figure-3", "--traces", "missing"], "missing"),
    ],
)
def test_bad_input_is_one_line(refused: Refused, arguments: list[str], said: str) -> None:
    assert said in refused("reproduce", *arguments)


def test_one_command_leaves_data_figure_verdict_and_page(script: Script, tmp_path: Path) -> None:
    done = script(
        "reproduce",
        "c25-figure-2",
        "--quick",
        "--out",
        tmp_path / "out",
        "--page",
        tmp_path / "page.md",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[C25] Figure 2; the paper: ")
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {
        ".csv",
        ".png",
        ".svg",
        ".json",
    }
    assert "out/c25-figure-2.png" in (tmp_path / "page.md").read_text()
