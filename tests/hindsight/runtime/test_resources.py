"""Memory that is available, by files of a system that the tests write."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hindsight.runtime import resources
from hindsight.runtime.resources import available_bytes, available_cores, share_memory

MEGABYTE = 2**20


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes a control group; the machine has 64 MB left, and no other limits."""
    (tmp_path / "meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable:  {64 * 1024} kB\n")
    monkeypatch.setattr(resources, "MACHINE", str(tmp_path / "meminfo"))
    monkeypatch.setattr(resources, "MEMBERSHIP", str(tmp_path / "membership"))
    monkeypatch.setattr(resources, "GROUPS", str(tmp_path / "groups"))
    monkeypatch.setattr(resources, "_sharers", 1)

    def write(path: str, **files: object) -> None:
        folder = tmp_path / "groups" / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / f"memory.{name}").write_text(f"{content}\n")

    return write


def member_of(tmp_path: Path, *lines: str) -> None:
    (tmp_path / "membership").write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.usefixtures("group")
def test_a_machine_without_control_groups_tells_itself() -> None:
    assert available_bytes() == 64 * MEGABYTE


def test_the_own_group_and_those_around_it_are_asked(
    tmp_path: Path, group: Callable[..., None]
) -> None:
    member_of(tmp_path, "0::/user.slice/jobs/own")
    group("user.slice/jobs/own", max="max", current=5)
    assert available_bytes() == 64 * MEGABYTE
    group("user.slice", max=1100, current=100)
    assert available_bytes() == 1000
    group("user.slice/jobs/own", max=900, current=5)
    assert available_bytes() == 895
    group("user.slice/jobs/other", max=1, current=0)
    assert available_bytes() == 895
    # As a container has it, without the path.
    group("", max=500, current=0)
    assert available_bytes() == 500
    group("", current=600)
    assert available_bytes() == 0


def test_pages_that_can_be_reclaimed_are_free(tmp_path: Path, group: Callable[..., None]) -> None:
    member_of(tmp_path, "4:memory:/old", "0::/own")
    group("own", max=1100, current=100, stat="file 7\ninactive_file 30\nslab 5")
    assert available_bytes() == 1030


@pytest.mark.usefixtures("group")
def test_processes_share_the_memory() -> None:
    for processes in (1, 16):
        share_memory(processes)
        assert available_bytes() == 64 * MEGABYTE // processes


def test_cores_are_those_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", {0: {1, 4, 6}}.__getitem__)
    assert available_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert available_cores() == os.cpu_count()
