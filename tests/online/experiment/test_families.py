"""Traces, files and batch times in experiments: what is run, stored, and computed anew."""

from __future__ import annotations

import dataclasses
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import hindsight
import instances
import online
from instances import (
    FileFormatError,
    Instance,
    InvalidTypeError,
    InvalidValueError,
    MemoryRule,
    MissingParameterError,
    UnknownNameError,
    Workload,
)
from instances.batch_time import AffineTime, TiledTime, parse_batch_time
from instances.batch_time.presets import batch_time_of
from online.comparison.ratio_tables import records_tables
from online.experiment import (
    Experiment,
    Family,
    InstanceFiles,
    Solver,
    TraceWindows,
    parse_experiment,
    ratio_rows,
    ratio_table,
    read_experiment,
    read_results,
    run_experiment,
)
from online.experiment.plan import make_plan

ROWS = [(0.0, 3, 2), (0.2, 2, 3), (0.9, 4, 1), (1.1, 2, 2), (1.5, 3, 3), (2.5, 1, 1)]
CONFIG = """
name = "log"
policies = ["fcfs", "mc-sf"]
solver = false

[[instances]]
trace = "log.csv"
label = "log"
parameters = { duration_seconds = 1, windows = 2, columns = { arrival = "t", prompt = "p", output = "o" } }
grid = { memory_limit = [12, 16] }
memory_rule = { block_size = 2, emitted_token = "next" }

[[instances]]
file = ["one.json", "m*.json"]
"""  # noqa: E501
ONE = Instance.from_arrays([1, 2, 1], [3, 2, 2], [0, 0, 1], memory_limit=7, name="named")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An experiment with the files it names beside it."""
    made = tmp_path / "study"
    made.mkdir()
    write_log(made, ROWS)
    instances.save(ONE, made / "one.json")
    for name in ("m2", "m1"):
        instances.save(ONE.renamed(None), made / f"{name}.json")
    (made / "log.toml").write_text(CONFIG)
    return made


def write_log(folder: Path, rows: list[tuple[float, int, int]]) -> None:
    lines = ["t,p,o", *(f"{t},{p},{o}" for t, p, o in rows)]
    (folder / "log.csv").write_text("\n".join(lines) + "\n")


def test_what_is_run_is_what_the_files_hold(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    run_experiment(read_experiment(folder / "log.toml"), path)
    rule = MemoryRule(2, "next")
    expected: list[tuple[str, Instance]] = []
    for limit in (12, 16):
        windows = instances.trace_windows(
            folder / "log.csv",
            memory_limit=limit,
            columns={"arrival": "t", "prompt": "p", "output": "o"},
            duration_seconds=1,
            windows=2,
            memory_rule=rule,
        )
        expected += [(f"log(memory_limit={limit})", window) for window, _ in windows]
    expected += [("one.json, m*.json", ONE.renamed(name)) for name in ("named", "m1", "m2")]
    found = read_results(path)
    assert [(one.family, one.instance, one.policy) for one in found] == [
        (label, instance.name, policy)
        for label, instance in expected
        for policy in ("fcfs", "mc-sf")
    ]
    for one, instance in zip(found[::2], [each for _, each in expected], strict=True):
        assert one.problem == instance
        assert one.total_latency == online.simulate(instance, "fcfs").total_latency
    # Labels tell the files; equal ones share their trials, and windows are resampled as draws.
    assert [one.draw for one in found[8::2]] == [0, 1, 2]
    assert [row.summary.trials for row in ratio_rows(found)] == [2, 2, 2, 2, 3, 3]


def test_a_key_changes_with_what_the_files_hold_and_not_with_where_they_lie(
    folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "r.sqlite"
    assert run_experiment(read_experiment(folder / "log.toml"), path).computed == 10
    moved = shutil.move(folder, tmp_path / "elsewhere")
    again = read_experiment(Path(moved) / "log.toml")
    assert run_experiment(again, path).computed == 0
    # A longer request in the second window: that window is another instance at both memories.
    write_log(Path(moved), [*ROWS[:4], (1.5, 3, 4), ROWS[5]])
    assert run_experiment(again, path).computed == 4
    results = read_results(path)
    assert len(results) == 14
    assert max(one.problem.output_lengths.max() for one in results if one.problem) == 4
    instances.save(ONE.under(MemoryRule(2)), Path(moved) / "one.json")
    assert run_experiment(again, path).computed == 2
    # As many experiments as there were: places lead to the trials of the files of now.
    assert len(read_results(path)) == 14


SECONDS = Experiment(
    "seconds",
    [
        Family("uniform", {"n": 3, "memory_limit": 20, "maximum_length": 5}, (1, 2)),
        Family("conversations", {"n": 5, "rate": 1, "memory_limit": 3000}, (1,)),
    ],
    ["fcfs", "vllm"],
    batch_time="affine:0.5,0.25,0",
    solver=Solver(time_limit=0.2),
)  # fmt: skip


TILED = TiledTime([8, 64, 72], [0.5, 0.6, 0.9], 8, kernel=0.01, prompt_square=1e-5)


@pytest.fixture(scope="module")
def in_seconds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("seconds") / "r.sqlite"
    outcome = run_experiment(SECONDS, path)
    assert outcome.failed == 0
    return path


def test_trials_in_seconds_are_those_of_the_simulator(in_seconds: Path) -> None:
    for one in read_results(in_seconds):
        record, schedule = one, one.schedule
        assert isinstance(one.problem, Workload)
        assert one.problem.batch_time == AffineTime(0.5, 0.25)
        run = online.simulate(one.problem, record.policy)
        assert (record.unit, record.compared_with) == ("seconds", "optimum in seconds")
        assert schedule == run.schedule
        assert float(record.total_latency or 0) == pytest.approx(run.total_latency, rel=1e-12)
        best = hindsight.solve(one.problem, time_limit=0.2)
        low, high = record.ratio.ends
        assert 1 <= low <= high
        # Each interval holds the optimum, so the two meet.
        assert record.optimum_lower <= best.upper_bound
        assert best.lower_bound <= record.optimum_upper
        assert record.lower_bound is not None


def test_a_batch_time_in_tiles_is_stored_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    few = dataclasses.replace(SECONDS, families=SECONDS.families[1:], batch_time=TILED)
    assert run_experiment(few, path).failed == 0
    for one in read_results(path):
        assert isinstance(one.problem, Workload)
        assert one.unit == "seconds"
        run = online.simulate(one.problem, one.policy)
        assert one.schedule == run.schedule
        assert one.problem.batch_time == one.batch_time == TILED


@pytest.mark.parametrize("stored", [[], [0.5, 1, 1, 1], {"tokens": [1, 2]}, {"seconds": 1}, "x", 3])
def test_what_is_no_batch_time_is_refused(stored: object) -> None:
    with pytest.raises((InvalidTypeError, InvalidValueError), match="batch"):
        batch_time_of(stored)


def test_both_units_in_one_file(in_seconds: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(in_seconds, tmp_path))
    rounds = dataclasses.replace(
        SECONDS, name="rounds", batch_time=None, families=SECONDS.families[:1]
    )
    # vllm may preempt: in rounds two optima of each instance.
    assert run_experiment(rounds, path).computed == 4 + 4
    records = read_results(path)
    assert [table.columns[4] for table in records_tables(records)] == [
        "total latency, s",
        "total_latency",
    ]
    table = ratio_table(ratio_rows(read_results(path)))
    means = [row[table.columns.index("mean latency, s")] for row in table.rows]
    assert [bool(cell) for cell in means] == [True] * 4 + [False] * 2


def test_batch_time_and_memory_rule_enter_every_key() -> None:
    (family, _) = SECONDS.families
    base = dataclasses.replace(SECONDS, families=[family])
    variants = [
        base,
        dataclasses.replace(base, batch_time=None),
        dataclasses.replace(base, batch_time=AffineTime(0.5, 0.25, 0.1)),
        dataclasses.replace(base, batch_time=TILED),
        dataclasses.replace(
            base, families=[dataclasses.replace(family, memory_rule=MemoryRule(2))]
        ),
        dataclasses.replace(base, families=[dataclasses.replace(family, faster=2)]),
    ]
    keys = [set(make_plan(variant).trials) for variant in variants]
    assert len(set().union(*keys)) == sum(map(len, keys)) - len(keys[0] & keys[-1])
    # All requests of this family are there at once: hurrying changes nothing, and costs nothing.
    assert keys[0] == keys[-1]
    named = dataclasses.replace(base, batch_time="llama-2-70b-2xa100")
    time, _ = parse_batch_time("llama-2-70b-2xa100")
    assert set(make_plan(named).trials) == set(
        make_plan(dataclasses.replace(base, batch_time=time)).trials
    )


@pytest.mark.parametrize("batch_time", [None, "affine:1,0,0"])
def test_a_run_that_takes_too_long_says_so(tmp_path: Path, batch_time: str | None) -> None:
    few = dataclasses.replace(SECONDS, families=SECONDS.families[:1], batch_time=batch_time)
    limited = dataclasses.replace(few, policy_time_limit=0, solver=None, policies=["fcfs"])
    path = tmp_path / "r.sqlite"
    run_experiment(limited, path)
    (row,) = ratio_rows(read_results(path))
    assert row.reasons == ((2, "time-limit", "its time ran out"),)
    assert run_experiment(dataclasses.replace(limited, policy_time_limit=60), path).computed == 2


def test_instances_of_the_library_by_name_set_and_pattern() -> None:
    text = (
        'name = "l"\npolicies = ["mc-sf"]\n[[instances]]\nlibrary = ["reduction", "c25-*-n20-01"]'
    )
    plan = make_plan(parse_experiment(text))
    chosen = instances.library().matching("reduction", "c25-*-n20-01")
    assert len(chosen) == 13
    assert [member.draw for member in plan.members] == list(range(13))
    assert [task.problem for task in plan.trials.values()] == [one.digest for one in chosen]


def test_a_preset_brings_its_memory() -> None:
    text = 'name = "p"\nbatch_time = "llama-2-70b-2xa100"\n[[instances]]\ntrace = "t.csv"\n'
    (family,) = parse_experiment(text).families
    assert family == TraceWindows("t.csv", {"memory_limit": 16492})


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ('trace = "log.csv"', 'file = "a"\ntrace = "log.csv"', InvalidValueError, "need one of"),
        ('trace = "log.csv"', "", InvalidValueError, "one of generator, trace, file and library"),
        ('trace = "log.csv"', "trace = 3", InvalidTypeError, "trace = 3 is not a text"),
        (CONFIG[CONFIG.index("[["):], '[[instances]]\nlibrary = "j26"', UnknownNameError, "'j26'"),
        (CONFIG[CONFIG.index("[["):], "[[instances]]\nlibrary = []", InvalidTypeError, "no list"),
        ("duration_seconds = 1,", "", InvalidValueError, "how long is each"),
        ("duration_seconds = 1", "duration = 1", InvalidValueError, "duration = 1 is not one of"),
        ("memory_limit = [12, 16]", "token_scale = [1]", MissingParameterError, "memory_limit"),
        ("memory_limit = [12, 16]", "memory_limit = [0]", InvalidValueError, "memory_limit = 0"),
        ("block_size = 2", "blocks = 2", InvalidValueError, "blocks = 2 is not one of its fields"),
        ('"next"', '"later"', InvalidValueError, "emitted_token = 'later'"),
        ('label = "log"', "seeds = [1]", InvalidValueError, "seeds = [1] is not one of its fields"),
        ('label = "log"', "faster = 2", InvalidValueError, "faster = 2.0 goes with batch_time"),
        ('"m*.json"', '"x*.json"', InvalidValueError, "file = 'x*.json' matches no file"),
        ('"m*.json"', "3", InvalidTypeError, "file = 3 is not a string"),
        ("solver = false", 'batch_time = "fast"', UnknownNameError, "unknown batch time 'fast'"),
        ("solver = false", "policy_time_limit = -1", InvalidValueError, "policy_time_limit = -1"),
        ("solver = false", 'batch_time = "affine:0,0,0"', InvalidValueError, "d0 = 0.0"),
        (
            "solver = false\n",
            'batch_time = "affine:1,0,0"\nsolver = { method = "mip" }\n',
            InvalidValueError,
            "method = 'mip' cannot be chosen beside batch_time",
        ),
        (
            'solver = false\n\n[[instances]]\ntrace = "log.csv"\nlabel = "log"\nparameters = {',
            ('batch_time = "affine:1,0,0"\n[[instances]]\ntrace = "a"\n'
            "parameters = { token_scale = 2,"),
            InvalidValueError,
            "token_scale = 2 is for windows in rounds",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(
    folder: Path, old: str, new: str, error: type[Exception], message: str
) -> None:
    assert old in CONFIG
    (folder / "log.toml").write_text(CONFIG.replace(old, new))
    with pytest.raises(error) as caught:
        make_plan(read_experiment(folder / "log.toml"))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (Family("conversations", {"n": 2, "rate": 1}), "batch_time = None is missing"),
        (Family("sqrt-n-adversary", {"memory_limit": 9}, memory_rule=MemoryRule(2)), "answer to"),
        (InstanceFiles("none.json"), "No such file"),
        (TraceWindows("none.csv", {"memory_limit": 9}), "No such file"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused_before_anything_runs(
    family: Any, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "r.sqlite"
    with pytest.raises((InvalidValueError, OSError), match=message):
        run_experiment(Experiment("e", [family], ["fcfs"], solver=None), path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("trials SET total_latency = '9/2'", r"Fraction\(9, 2\) is stored"),
        ("trials SET total_latency = 9", "total_latency = 9 is no fraction of seconds"),
        ("optima SET upper_bound = '1/0'", "upper_bound = '1/0' is no fraction"),
        ("optima SET lower_bound = '900/1'", "optimum_lower = .* exceeds the total latency"),
        ("trials SET start_rounds = '[1]'", "is not a JSON dict"),
        ("trials SET start_rounds = replace(start_rounds, '[[0,', '[[')", "stretch|takes|argument"),
        ("instances SET document = replace(document, '\"requests\"', '\"r\"')", "requests"),
    ],
)
def test_what_was_tampered_with_is_named(
    in_seconds: Path, tmp_path: Path, statement: str, message: str
) -> None:
    path = Path(shutil.copy(in_seconds, tmp_path))
    database = sqlite3.connect(path, isolation_level=None)
    database.execute(f"UPDATE {statement}")
    database.close()
    with pytest.raises(FileFormatError, match=message):
        read_results(path)
