"""Options that several subcommands share, and what subcommands do with files and limits."""

from __future__ import annotations

import errno
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from forked_scripts import fields

import hindsight
import instances
from hindsight import relaxation
from instances import Instance, ServiceLevel, Workload
from online import AffineTime, sweep
from online.commands import solve as solve_command
from online.commands.generate import generate
from online.commands.options import limit_note, limit_of, service_level
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


@pytest.mark.parametrize("method", ["auto", "relaxation"])
def test_reading_counts_towards_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    path, given = tmp_path / "small.json", []
    instances.save(instances.generate("arrival-model-1", 1, n=3), path)
    load = instances.load
    owner, called = (hindsight, "solve") if method == "auto" else (relaxation, "relax_until")
    computed = getattr(owner, called)

    def slow(path: Path) -> Instance:
        time.sleep(0.3)
        return load(path)

    def recorded(*rest: Any, **options: Any) -> Any:
        given.append(rest[-1])
        return computed(*rest, **options)

    monkeypatch.setattr(instances, "load", slow)
    monkeypatch.setattr(owner, called, recorded)
    assert solve_command.solve(path, method=method, time_limit=20) == 0
    assert [limit <= 19.7 for limit in given] == [True]


def test_a_limit_that_nobody_gave_is_told_and_lifted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert limit_of(None) == 60
    assert limit_of(float("inf")) is None
    assert limit_of(5) == 5
    assert limit_note(5, "time-limit") is None
    assert limit_note(None, "proof") is None
    path = tmp_path / "large.json"
    instances.save(instances.generate("arrival-model-1", 1, n=40), path)
    monkeypatch.setattr(solve_command, "limit_of", lambda given: 0.0)
    assert solve_command.solve(path) == 0
    told = fields(capsys.readouterr().out)
    assert told["status"] == "feasible (time-limit)"
    assert told["time limit"] == "60 s by default, which ended it; --time-limit inf lifts it"


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
