"""Experiments with a service level: who is on time, and of how many that could be."""

from __future__ import annotations

import csv
import dataclasses
import io
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from experiment_processes import TINY
from scripted import Scripted, hold_after_the_first_token

import hindsight
from instances import FileFormatError, Instance, InvalidTypeError, InvalidValueError, ServiceLevel
from instances.generators import registry
from online import Decision
from online.comparison import compare
from online.experiment import (
    Experiment,
    Family,
    Solver,
    parse_experiment,
    ratio_csv,
    ratio_notes,
    ratio_rows,
    ratio_table,
    read_results,
    run_experiment,
)
from online.experiment import plan as plan_module
from online.experiment.plan import content_key, make_plan
from online.experiment.store import SCHEMA
from online.policy_interface import policy as policy_module
from online.report import build_report, tables

DUE = TINY.replace('"mc-sf", "a-random"', '"edf"') + "[level]\nlatency = 7\nfirst_token = 5.0\n"
"""4 instances, 8 trials, and for each instance the optimum and the most on time."""
DUE_TOTAL = 16
SEVEN = ServiceLevel(latency=7, first_token=5)
ON_TIME = ("on time", "of the attainable")


@pytest.fixture(scope="module")
def due(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("due") / "due.sqlite"
    outcome = run_experiment(parse_experiment(DUE), path)
    assert (outcome.trials, outcome.optima, outcome.computed) == (8, 8, DUE_TOTAL)
    return path


def on_time(instance: Instance, starts: Any) -> int:
    return sum(
        start + request.output_length - request.arrival_time <= 7
        and start + 1 - request.arrival_time <= 5
        for request, start in zip(instance, starts, strict=True)
    )


def test_the_declaration_has_the_limits() -> None:
    experiment = parse_experiment(DUE)
    assert experiment.level == SEVEN
    assert experiment.to_document()["level"] == {"latency": 7.0, "first_token": 5.0}
    assert "edf" in {spec.name for spec in dataclasses.replace(experiment, policies=None).specs}


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ("latency = 7", "latency = -7", InvalidValueError, "latency = -7 is not above 0"),
        ("latency = 7", "latency = '7'", InvalidTypeError, "latency = '7' is not a number"),
        ("latency = 7", "e2e = 7", InvalidValueError, "level: e2e = 7 is not one of its fields"),
        ("latency = 7\nfirst_token = 5.0", "", InvalidValueError, "sets no limit"),
        ("[level]", "[other]", InvalidValueError, "other = "),
        (DUE[DUE.index("[level]") :], "", InvalidValueError, "needs a service level"),
        ("name =", "level = 7\nname =", InvalidTypeError, "level = 7 is not a table"),
    ],
)
def test_what_is_no_level_is_named_in_a_line(
    old: str, new: str, error: type[Exception], message: str
) -> None:
    text = DUE.replace(old, new)
    if "level = 7" in new:
        text = text[: text.index("[level]")]
    with pytest.raises(error) as caught:
        parse_experiment(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_key_changes_with_the_level_alone() -> None:
    base = dataclasses.replace(parse_experiment(TINY), policies=["fcfs"])
    levels = [None, ServiceLevel(4), ServiceLevel(5), ServiceLevel(first_token=4), SEVEN]
    plans = [make_plan(dataclasses.replace(base, level=level)) for level in levels]
    assert len({key for plan in plans for key in plan.trials}) == len(levels) * 4
    again = make_plan(dataclasses.replace(base, level=ServiceLevel(latency=4.0)))
    assert again.trials.keys() == plans[1].trials.keys()


def test_keys_and_files_without_a_level_are_those_of_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Digest computed by the release before there were levels."""
    monkeypatch.setattr(plan_module, "package_sources", lambda *_: "fixed")
    monkeypatch.setattr(plan_module, "package_version", lambda: "1")
    plan = make_plan(parse_experiment(TINY))
    found = {
        "keys": sorted(plan.trials),
        "declaration": plan.experiment.to_document(),
        "schema": SCHEMA,
    }
    assert content_key(found) == "254a0a1ec69045ee1cc82cc1c629fc529eae26081919007a5db3d3acdc5afcba"


def test_without_a_level_nothing_is_said_of_one(tiny_results: Path) -> None:
    with sqlite3.connect(tiny_results) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(trials)")]
    assert "on_time" not in columns
    found = read_results(tiny_results)
    assert not {*ON_TIME} & {*ratio_table(ratio_rows(found)).columns}
    assert "share_on_time" not in ratio_csv(ratio_rows(found))
    assert "attainable" not in build_report(found)


def test_tables_show_shares_of_all_and_of_the_attainable(due: Path) -> None:
    results = read_results(due)
    rows = ratio_rows(results)
    table = ratio_table(rows)
    shown = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    cells = list(csv.DictReader(io.StringIO(ratio_csv(rows))))
    for row, line, cell in zip(rows, shown, cells, strict=True):
        own = [one for one in results if (one.family, one.policy) == (row.family, row.policy)]
        kept = sum(one.on_time or 0 for one in own)
        most = sum(int(one.attainable.upper) for one in own)
        share = kept / sum(one.requests for one in own)
        assert [line[name] for name in ON_TIME] == [f"{share:.4f}", f"{kept / most:.4f}"]
        assert float(cell["share_on_time"]) == share
        assert float(cell["of_attainable_lower"]) == float(cell["of_attainable_upper"])
    note = (
        "on time: latency <= 7, first_token <= 5, in rounds; "
        "of the attainable: of the most that any scheduler has on time"
    )
    assert ratio_notes(results)[0] == note
    assert {*ON_TIME} <= {*tables.trials(results).columns}
    assert note.replace("<", "&lt;") in build_report(results)


def test_other_levels_and_limits_share_optima_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    declared = parse_experiment(DUE)
    base = dataclasses.replace(declared, policies=["fcfs"], families=declared.families[:1])
    plain = dataclasses.replace(base, name="plain", level=None)
    other = dataclasses.replace(base, name="other", level=ServiceLevel(latency=3))
    longer = dataclasses.replace(base, name="longer", solver=Solver(time_limit=60))
    # Each time 2 trials or 2 optima, and 2 searches for the most on time; first 2 of both others.
    computed = [run_experiment(one, path).computed for one in (plain, base, other, longer)]
    assert computed == [4, 4, 4, 4]
    assert run_experiment(base, path).computed == 0
    results = read_results(path)
    assert {one.on_time for one in results if one.experiment == "plain"} == {None}
    for one in results:
        if one.experiment == "other":
            (alone,) = compare(one.problem, "fcfs", level=ServiceLevel(latency=3))
            assert (one.on_time, one.attainable) == (alone.on_time, alone.attainable)
    said = [note for note in ratio_notes(results) if "on time:" in note]
    assert [note.partition(":")[0] for note in said] == ["longer", "other"]


def test_without_optima_the_attainable_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    run_experiment(parse_experiment("solver = false\n" + DUE), path)
    assert {(one.on_time is None, str(one.of_attainable)) for one in read_results(path)} == {
        (False, "[?, ?]")
    }


def test_a_search_that_fails_takes_nothing_else_along_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solve = hindsight.solver.solve_until

    def fails(*given: Any, **options: Any) -> Any:
        if "goal" in options:
            raise RuntimeError("no solver")
        return solve(*given, **options)

    path, declared = tmp_path / "r.sqlite", parse_experiment(DUE)
    few = dataclasses.replace(declared, families=declared.families[:1])
    with monkeypatch.context() as patched:
        patched.setattr("hindsight.solver.solve_until", fails)
        assert run_experiment(few, path).failed == 2
    failed = read_results(path)
    assert {str(one.of_attainable) for one in failed} == {"[?, ?]"}
    assert all(one.ratio is not None and one.on_time is not None for one in failed)
    again = run_experiment(few, path, retry_failed=True)
    assert (again.computed, again.failed) == (2, 0)
    assert all(one.attainable is not None and one.attainable.is_exact for one in read_results(path))


def idle(policy: Scripted, state: Any) -> Decision:
    return Decision(start=[0] if 0 in policy.waiting else [])


def test_runs_that_paused_or_stalled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their schedules do not tell who was on time, so the count is stored."""
    alone = Instance.from_arrays([1], [3], memory_limit=9)
    two = Instance.from_arrays([1, 1], [3, 2], memory_limit=9)
    for name, made in (("alone", alone), ("two", two)):
        monkeypatch.setitem(registry._GENERATORS, name, lambda rng, made=made: made)
    for name, rule in (("holding", hold_after_the_first_token), ("idle", idle)):
        policy = type(name, (Scripted,), {"name": name, "pauses": name == "holding"})
        policy.__init__ = lambda self, rule=rule: Scripted.__init__(self, rule)  # type: ignore[misc]
        monkeypatch.setitem(policy_module._POLICIES, name, policy)
    path, first = tmp_path / "r.sqlite", ServiceLevel(first_token=1)
    run_experiment(Experiment("h", [Family("alone")], ["holding"], level=first), path)
    run_experiment(Experiment("i", [Family("two")], ["idle"], level=first), path)
    told = [(one.policy, one.status, one.on_time, one.attainable) for one in read_results(path)]
    assert told == [("holding", "completed", 1, None), ("idle", "stalled", 1, None)]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("trials SET on_time = on_time + 1", "on_time = . is stored, and from what else"),
        ("trials SET on_time = 'all'", "on_time = 'all' is not of type int"),
        ("optima SET lower_bound = 9 WHERE solver LIKE '%level%'", "lower_bound = 9 is more"),
        ("optima SET upper_bound = 0 WHERE solver LIKE '%level%'", "upper_bound = 0 is bel"),
        ("experiments SET declaration = replace(declaration, 'latency', 'late')", "is no service"),
    ],
)
def test_what_was_tampered_with_is_named(
    due: Path, tmp_path: Path, statement: str, message: str
) -> None:
    path = tmp_path / "r.sqlite"
    path.write_bytes(due.read_bytes())
    with sqlite3.connect(path) as database:
        assert database.execute(f"UPDATE {statement}").rowcount > 0
    with pytest.raises(FileFormatError, match=message):
        read_results(path)
