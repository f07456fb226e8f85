"""Memory that is available, by files of a system that the tests write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hindsight.runtime import resources
from hindsight.runtime.resources import available_bytes, share_memory

MEGABYTE = 2**20
UNLIMITED = 2**63 - 4096
"""What version 1 says where there is no limit."""


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes a control group; the machine has 64 MB left, and no other limits."""
    (tmp_path / "meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable:  {64 * 1024} kB\n")
    monkeypatch.setattr(resources, "MACHINE", str(tmp_path / "meminfo"))
    monkeypatch.setattr(resources, "MEMBERSHIP", str(tmp_path / "membership"))
    monkeypatch.setattr(resources, "GROUPS", str(tmp_path / "groups"))
    monkeypatch.setattr(resources, "LIMITS", str(tmp_path / "limits"))
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


@pytest.mark.parametrize("path", ["docker/4f3a", ""])
def test_groups_of_version_1(tmp_path: Path, group: Callable[..., None], path: str) -> None:
    """A container's own group is at the root of what it sees, whatever its path."""
    member_of(tmp_path, "11:cpu,cpuacct:/other", "4:memory:/docker/4f3a", "0::/")
    group("memory", limit_in_bytes=UNLIMITED, usage_in_bytes=MEGABYTE)
    group("memory/other", limit_in_bytes=1, usage_in_bytes=0)
    assert available_bytes() == 64 * MEGABYTE
    group(f"memory/{path}", limit_in_bytes=1100, usage_in_bytes=100)
    assert available_bytes() == 1000
    group(f"memory/{path}", stat="inactive_file 7\ntotal_inactive_file 30")
    assert available_bytes() == 1030


@pytest.mark.usefixtures("group")
def test_processes_share_all_but_their_address_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def limited_to(limit: object) -> int:
        (tmp_path / "limits").write_text(f"Max files 9\nMax address space {limit} 9 bytes\n")
        return available_bytes()

    monkeypatch.setattr(resources, "_address_space", lambda: MEGABYTE)
    assert limited_to("unlimited") == 64 * MEGABYTE
    assert limited_to(10 * MEGABYTE) == 9 * MEGABYTE
    share_memory(4)
    assert available_bytes() == 9 * MEGABYTE
    share_memory(16)
    assert available_bytes() == 4 * MEGABYTE
    assert limited_to(0) == 0
