"""Options that several subcommands share, and what subcommands do with files and limits."""

from __future__ import annotations

import errno
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import instances
from instances import ServiceLevel, Workload
from online import AffineTime, sweep
from online.commands.generate import generate
from online.commands.options import service_level
from online.commands.ratio_report import Report


@pytest.mark.parametrize(
    ("texts", "level"),
    [
        (None, None),
        ([], None),
        (["latency=30"], ServiceLevel(latency=30)),
        (["e2e=30", "first-token=1", "tpot=0.1"], ServiceLevel(30, 1, 0.1)),
        (["ttft=2"], ServiceLevel(first_token=2)),
    ],
)
def test_limits_of_the_command_line_make_one_service_level(texts, level):
    assert service_level(texts) == level


def test_ends_of_intervals_are_written_rounded_outwards() -> None:
    work = Workload([0.1], [1], [3], memory_limit=10, batch_time=AffineTime(0.1, 0.2))
    found = sweep([work], "fcfs", time_limit=0)
    assert found[0].lower == found[0].upper == Fraction(9, 10)
    (row,) = Report(found, [], None).document()["trials"]
    assert Fraction(row["lower"]) <= Fraction(9, 10) <= Fraction(row["upper"])
    assert Fraction(row["certified"]) <= Fraction(9, 10)


@pytest.mark.parametrize("is_there", [False, True])
def test_of_instances_that_cannot_all_be_written_none_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    folder = tmp_path / "drawn"
    if is_there:
        folder.mkdir()
    save, saved = instances.save, []

    def full_at_the_second(instance: Any, path: Path) -> None:
        saved.append(path)
        if len(saved) == 2:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        save(instance, path)

    monkeypatch.setattr(instances, "save", full_at_the_second)
    with pytest.raises(OSError, match="No space left"):
        generate(["generator:arrival-model-2(seed=7, count=2)"], out=folder)
    assert len(saved) == 2
    assert folder.exists() == is_there
    assert not is_there or list(folder.iterdir()) == []
