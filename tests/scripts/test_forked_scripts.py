"""A command line in a fork does what it does as a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_scripts import ForkedScripts, Process, Script


def outcome(process: Process) -> tuple[int, str, str]:
    return process.returncode, process.stdout, process.stderr


@pytest.mark.parametrize(
    ("name", "arguments", "status"),
    [
        ("generate", ["generator:arrival-model-1(seed=3)", "--out", "one.json"], 0),
        ("solve", ["missing.json"], 2),
    ],
)
def test_status_output_and_files_are_those_of_a_process(
    process: Script,
    forked: ForkedScripts,
    tmp_path: Path,
    name: str,
    arguments: list[str],
    status: int,
) -> None:
    folders = tmp_path / "process", tmp_path / "fork"
    for folder in folders:
        folder.mkdir()
    one = process(name, *arguments, cwd=folders[0])
    two = forked.run(name, *arguments, cwd=folders[1])
    assert outcome(two) == outcome(one)
    assert two.returncode == status
    left = [{file.name: file.read_bytes() for file in folder.iterdir()} for folder in folders]
    assert left[0] == left[1]
    assert len(left[0]) == (status == 0)


def test_one_run_leaves_nothing_to_the_next(forked: ForkedScripts, tmp_path: Path) -> None:
    first = outcome(forked.run("generate", "nope", cwd=tmp_path))
    assert forked.run("solve", "missing.json", cwd=tmp_path).returncode == 2
    assert outcome(forked.run("generate", "nope", cwd=tmp_path)) == first
