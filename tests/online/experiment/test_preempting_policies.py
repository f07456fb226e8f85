"""Trials that kept preempted tokens: stored, solved and read as such."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from preempting import ELEVEN, Yielding

from instances import FileFormatError, Instance, InvalidValueError, PreemptiveSchedule, Schedule
from instances.generators import registry
from online.comparison import Trial, compare
from online.experiment import (
    Experiment,
    ExperimentOutcome,
    Family,
    Solver,
    read_results,
    run_experiment,
)
from online.policy_interface import policy as policy_module

PREEMPTIVE = "preemptive optimum"


def eleven_or_one(rng: np.random.Generator) -> Instance:
    """Seed 0 makes `Yielding` preempt, seed 1 leaves it alone."""
    alone = Instance.from_arrays([2], [3], memory_limit=9, name="alone")
    return ELEVEN if rng.random() > 0.6 else alone


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(policy_module._POLICIES, "yielding", Yielding)
        patched.setitem(registry._GENERATORS, "eleven-or-one", eleven_or_one)
        yield


def experiment() -> Experiment:
    family = Family("eleven-or-one", seeds=(0, 1))
    return Experiment("preempting", [family], ["fcfs", "yielding"])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ExperimentOutcome]:
    path = tmp_path_factory.mktemp("preempting") / "r.sqlite"
    return path, run_experiment(experiment(), path)


def test_each_trial_is_read_beside_its_own_optimum(made: tuple[Path, ExperimentOutcome]) -> None:
    path, outcome = made
    # Of both seeds both optima, although only seed 0 makes the policy preempt.
    assert (outcome.trials, outcome.optima, outcome.failed) == (4, 4, 0)
    assert [
        (one.policy, one.total_latency, one.optimum_upper, one.is_proved, one.compared_with)
        for one in read_results(path)
    ] == [
        ("fcfs", 249, 168, True, "optimum"),
        ("yielding", 78, 78, True, PREEMPTIVE),
        ("fcfs", 3, 3, True, "optimum"),
        ("yielding", 3, 3, True, PREEMPTIVE),
    ]
    preempted = read_results(path)[1]
    assert isinstance(preempted.schedule, PreemptiveSchedule)
    assert preempted.schedule.stretches[0][:2] == [(1, 10), (12, 20)]
    assert isinstance(preempted.optimum_schedule, PreemptiveSchedule)
    assert run_experiment(experiment(), path).computed == 0


def test_the_format_is_the_one_of_before(made: tuple[Path, ExperimentOutcome]) -> None:
    with sqlite3.connect(made[0]) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (2,)
        solvers = [json.loads(row[0]) for row in database.execute("SELECT solver FROM optima")]
    assert sorted(list(one) == ["preemptive"] for one in solvers) == [False, False, True, True]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("trials SET start_rounds = replace(start_rounds, '[[[1, 10]', '[[[2, 11]')", "round"),
        ("trials SET total_latency = 77 WHERE total_latency = 78", "77 is stored, .* follows 78"),
        ("trials SET start_rounds = '[[1], 2]' WHERE total_latency = 78", "neither starts nor str"),
        ("optima SET upper_bound = 79 WHERE upper_bound = 78", "upper_bound = 79 is stored"),
    ],
)
def test_tampering_with_stretches_is_named(
    made: tuple[Path, ExperimentOutcome], tmp_path: Path, statement: str, message: str
) -> None:
    copy = tmp_path / "copy.sqlite"
    shutil.copy(made[0], copy)
    with sqlite3.connect(copy) as database:
        database.execute(f"UPDATE {statement}")
    with pytest.raises(FileFormatError, match=message):
        read_results(copy)


def test_a_preemptive_schedule_is_not_shown_beside_the_other_optimum() -> None:
    (found,) = compare(ELEVEN, ["yielding"])
    other = Schedule(ELEVEN, (100, *range(10, 101, 10)))
    with pytest.raises(InvalidValueError, match="is without preemption"):
        Trial.of_schedules(ELEVEN, "yielding", found.schedule, other)


def test_a_method_without_preemption_leaves_the_preemptive_optimum_its_own(tmp_path: Path) -> None:
    family = Family("eleven-or-one", seeds=(0,))
    chosen = Experiment("mip", [family], ["yielding"], solver=Solver(30, "mip"))
    # And nobody asks for the other optimum.
    assert run_experiment(chosen, tmp_path / "r.sqlite").optima == 1
    (result,) = read_results(tmp_path / "r.sqlite")
    assert result.reason is None
    assert result.optimum_upper == 78
