"""What `run_experiment` stores is what the pieces give one by one, however it was run."""

from __future__ import annotations

import csv
import dataclasses
import io
import sqlite3
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from answering_source import Grudge
from brute_force import optimal_total_latency
from experiment_processes import DEADLY_SEED, TINY, dump, finish, perform_or_die, start, stored
from scripted import Scripted

import hindsight
import online
import online.policy_interface.policy as policy_module
from hindsight.runtime.clock import never
from instances import FileFormatError, Instance, InvalidValueError, Schedule, save
from instances.generators import registry
from instances.version import package_version
from online import register_policy
from online.experiment import (
    Experiment,
    ExperimentProgress,
    Family,
    InstanceFiles,
    Predictions,
    parse_experiment,
    ratio_csv,
    ratio_reasons,
    ratio_rows,
    read_results,
    run_experiment,
)
from online.experiment.plan import make_plan
from online.experiment.runner import in_processes
from online.experiment.store import Done
from online.experiment.work import Task, WorkerVersionError, perform
from online.policies.j25.mc_sf import MemoryConstrainedShortestFirst
from online.runtime.processes import WorkerPool
from online.trials.intervals import Latency

POLICIES_ONLY = parse_experiment("solver = false\n" + TINY)


class DrawsUnsaid(MemoryConstrainedShortestFirst):
    """Shortest first, equal ones as the run's stream has it, without saying so."""

    name = "draws"

    def reset(self, setup: online.policy_interface.Setup) -> None:
        super().reset(setup)
        self._rng = setup.rng

    def priority(self, request: online.policy_interface.VisibleRequest) -> Any:
        return request.output_length, self._rng.random()


class Draws(DrawsUnsaid):
    """Which it says."""

    randomized = True


@pytest.mark.parametrize(("policy", "trials", "failed"), [(Draws, 6, 0), (DrawsUnsaid, 2, 2)])
def test_a_policy_that_draws_is_run_with_every_seed_or_not_at_all(
    policy: type[Draws], trials: int, failed: int, tmp_path: Path
) -> None:
    families = [Family("uniform", {"n": 5, "memory_limit": 40, "maximum_length": 9}, [0, 1])]
    experiment = Experiment("e", families, [policy], policy_seeds=(0, 1, 2), solver=None)
    did = run_experiment(experiment, tmp_path / "r.sqlite")
    assert (did.trials, did.failed) == (trials, failed)


def test_every_trial_is_what_the_simulator_and_brute_force_say(tiny_results: Path) -> None:
    results = read_results(tiny_results)
    assert len(results) == 16
    for result in results:
        assert isinstance(result.problem, Instance)
        run = online.simulate(result.problem, result.policy, seed=result.seed)
        assert result.total_latency == run.total_latency
        assert isinstance(result.schedule, Schedule)
        assert result.schedule.start_times.tolist() == run.start_rounds.tolist()
        assert result.memory_profile().tolist() == run.memory_profile().tolist()
        assert result.is_proved
        assert result.optimum_upper == optimal_total_latency(result.problem)[0]
        assert result.optimum_schedule.violations() == []
        assert result.optimum_schedule.total_latency == result.optimum_upper
        used = result.versions
        assert used["package"] == result.version
        assert all(used[name] for name in ("sources", "python", "highspy", "numpy"))


def test_experiments_share_trials(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    run_experiment(POLICIES_ONLY, path)
    more = dataclasses.replace(POLICIES_ONLY, name="more", policies=["fcfs", "mc-benchmark"])
    assert run_experiment(more, path).computed == 4
    assert [r.experiment for r in read_results(path)] == ["tiny"] * 16 + ["more"] * 8
    assert len(read_results(path, "more")) == 8
    with pytest.raises(InvalidValueError, match=r"'less' is not in .*, which holds: tiny, more"):
        read_results(path, "less")


def test_progress_counts_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    few = dataclasses.replace(POLICIES_ONLY, policies=["fcfs"])
    run_experiment(few, path)
    news: list[ExperimentProgress] = []
    run_experiment(POLICIES_ONLY, path, progress=news.append)
    assert [each.done for each in news] == list(range(1, 17))
    assert {each.total for each in news} == {16}
    assert news[-1].computed == 12


def failing() -> Experiment:
    """Predictions that promise at most two tokens: a longer request refutes them in the run."""
    family = Family("uniform", {"n": 3, "memory_limit": 20, "maximum_length": 6}, range(4))
    models = [Predictions(), Predictions("interval", {"lower": 1, "upper": 2})]
    return Experiment("f", [family], ["fcfs", "a-min"], models, solver=None)


def test_a_failing_trial_is_recorded_and_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    outcome = run_experiment(failing(), path)
    results = read_results(path)
    for result in results:
        too_long = result.problem.output_lengths.max() > 2 and result.predictions != "exact"
        assert (result.status == "failed") == too_long
        if too_long:
            assert "InvalidValueError: predictions: output_length = " in str(result.reason)
            assert "Traceback" in str(result.traceback)
            assert result.ratio is None
    # Every table says why.
    rows = ratio_rows(results)
    reasons = ratio_reasons(rows)
    assert reasons.columns == ("predictions", "policy", "records", "status", "reason")
    for cells in reasons.rows:
        (row,) = [row for row in rows if (row.predictions, row.policy) == cells[:2]]
        assert cells[2] == str(row.summary.failed)
        assert cells[3] == "failed"
        assert cells[4].startswith("InvalidValueError: predictions: output_length = ")
    assert {row.policy for row in rows if row.summary.failed} == {"fcfs", "a-min"}
    assert len(reasons.rows) == 2
    for line in csv.DictReader(io.StringIO(ratio_csv(rows))):
        assert line["reasons"].startswith(f"{line['failed']} failed: InvalidValueError") == (
            line["failed"] != "0"
        )
    failed = sum(result.status == "failed" for result in results)
    assert outcome.failed == failed > 0
    again = run_experiment(failing(), path)
    assert (again.computed, again.failed) == (0, failed)
    news: list[ExperimentProgress] = []
    retried = run_experiment(failing(), path, retry_failed=True, progress=news.append)
    assert (retried.computed, retried.failed) == (failed, failed)
    # What is stored is counted first: all but the failed.
    kept = [one for one in news if one.computed == 0]
    assert (len(kept), kept[-1].failed) == (len(results) - failed, 0)


def test_local_processes_store_the_same(tmp_path: Path) -> None:
    one, two = tmp_path / "one.sqlite", tmp_path / "two.sqlite"
    run_experiment(failing(), one)
    run_experiment(failing(), two, jobs=2)
    assert dump(one) == dump(two)


@patch.dict(policy_module._POLICIES)
def test_processes_know_the_policies_of_the_one_that_started_them(tmp_path: Path) -> None:
    @register_policy("of-a-notebook")
    class OfANotebook(MemoryConstrainedShortestFirst):
        """No worker can import it from anywhere."""

    path = tmp_path / "r.sqlite"
    experiment = dataclasses.replace(POLICIES_ONLY, policies=["of-a-notebook", "mc-sf"])
    with pytest.warns(UserWarning, match="'of-a-notebook': defined in no file"):
        outcome = run_experiment(experiment, path, jobs=2)
    assert (outcome.computed, outcome.failed) == (8, 0)
    totals: dict[str, list[Latency | None]] = {"of-a-notebook": [], "mc-sf": []}
    for result in read_results(path):
        totals[result.policy].append(result.total_latency)
    assert totals["of-a-notebook"] == totals["mc-sf"]


def test_the_task_that_kills_its_worker_is_found_and_the_others_are_done(tmp_path: Path) -> None:
    experiment = dataclasses.replace(POLICIES_ONLY, policy_seeds=(1, DEADLY_SEED))
    tasks = make_plan(experiment).trials.values()
    deadly = {task.key for task in tasks if task.seed == DEADLY_SEED}
    assert len(deadly) == 4
    chosen = [task for task in tasks if task.seed != DEADLY_SEED or task.key == min(deadly)]
    with WorkerPool[Task, Done](2) as pool:
        back = [row for row, _ in in_processes(pool, perform_or_die, never, chosen)]
    assert {row.key for row in back} == {task.key for task in chosen}
    (lost,) = [row for row in back if row.status == "failed"]
    assert (lost.key, lost.error) == (
        min(deadly),
        "WorkerDiedError: 3 workers died (signal 9, Killed)",
    )


def test_what_workers_have_finished_is_handed_on_before_ctrl_c_ends_the_wait() -> None:
    tasks = list(make_plan(POLICIES_ONLY).trials.values())
    pressed = False
    with WorkerPool[Task, Done](1) as pool:
        coming = in_processes(pool, perform, lambda: pressed, tasks)
        keys = [next(coming)[0].key]
        (worker,) = pool._workers
        assert worker.connection.poll(60)
        pressed = True
        with pytest.raises(KeyboardInterrupt):
            keys.extend(row.key for row, _ in coming)
    assert 2 <= len(keys) < len(tasks)


def test_a_worker_of_another_version_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("online.experiment.work.package_version", lambda: "0.0.0")
    with pytest.raises(WorkerVersionError, match=r"worker runs version 0\.0\.0, the experiment"):
        run_experiment(POLICIES_ONLY, tmp_path / "r.sqlite")


def test_two_releases_in_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each experiment has its own trials at its own places, whichever was entered last."""
    path = tmp_path / "r.sqlite"
    few = dataclasses.replace(POLICIES_ONLY, policies=["fcfs"])
    here = package_version()
    assert run_experiment(few, path).computed == 4
    for module in ("plan", "work"):
        monkeypatch.setattr(f"online.experiment.{module}.package_version", lambda: "9.9")
    assert run_experiment(few, path).computed == 4
    more = dataclasses.replace(few, name="more", policies=["mc-sf"])
    assert [run_experiment(each, path).computed for each in (more, few, more)] == [4, 0, 0]
    found = [
        (each.experiment, each.version, each.policy, each.position) for each in read_results(path)
    ]
    groups = [("tiny", here, "fcfs"), ("tiny", "9.9", "fcfs"), ("more", "9.9", "mc-sf")]
    assert found == [(*group, position) for group in groups for position in range(4)]
    before = dump(path)
    monkeypatch.undo()
    assert run_experiment(few, path).computed == 0
    assert dump(path) == before


def test_ctrl_c_keeps_what_was_finished_and_no_half_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.sqlite"
    experiment = dataclasses.replace(parse_experiment(TINY), policies=["fcfs"])
    solve = hindsight.solver.solve_until

    def interrupted(*arguments: Any, **options: Any) -> hindsight.Result:
        return dataclasses.replace(solve(*arguments, **options), stop_reason="interrupted")

    monkeypatch.setattr("hindsight.solver.solve_until", interrupted)
    with pytest.raises(KeyboardInterrupt, match="4 of 8 trials and optima are stored in .*sqlite"):
        run_experiment(experiment, path)
    assert stored(path) == 4
    assert dump(path)["optima"] == []


def test_a_file_that_is_no_results_file(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no database at all, but long enough to hold a header " * 20)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE t (x)")
    for path in (text, other):
        before = path.read_bytes()
        with pytest.raises(FileFormatError, match="is not a results file"):
            run_experiment(POLICIES_ONLY, path)
        with pytest.raises(FileFormatError, match="is not a results file"):
            read_results(path)
        assert path.read_bytes() == before
    with pytest.raises(OSError, match="cannot be opened"):
        run_experiment(POLICIES_ONLY, tmp_path / "missing" / "r.sqlite")
    with pytest.raises(FileNotFoundError):
        read_results(tmp_path / "missing.sqlite")


@pytest.fixture
def grudge(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(rng: np.random.Generator, *, gap: int = 1) -> Grudge:
        return Grudge(gap)

    monkeypatch.setitem(registry._GENERATORS, "grudge", draw)


@pytest.mark.usefixtures("grudge")
def test_what_an_adaptive_source_realised_is_stored_and_solved(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    experiment = Experiment("g", [Family("grudge", {"gap": 4})], ["fcfs", "mc-sf"])
    with pytest.warns(UserWarning, match="'grudge': defined in no file"):
        outcome = run_experiment(experiment, path)
    assert (outcome.trials, outcome.optima, outcome.failed) == (2, 1, 0)
    for result in read_results(path):
        assert isinstance(result.problem, Instance)
        rows = [(r.arrival_time, r.prompt_length, r.output_length) for r in result.problem]
        # The first runs in rounds 1 and 2; the second follows four rounds after its completion.
        assert rows == [(0, 1, 2), (6, 2, 3)]
        assert result.problem.name == "grudge"
        assert result.optimum_upper == 5


@pytest.mark.usefixtures("grudge")
def test_an_adaptive_source_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    families = [Family("grudge", {"gap": 4})]
    experiment = Experiment("g", families, ["fcfs", "mc-sf"], batch_time="affine:0.5,0,0")
    with pytest.warns(UserWarning, match="'grudge': defined in no file"):
        outcome = run_experiment(experiment, path)
    assert (outcome.trials, outcome.optima, outcome.failed) == (2, 1, 0)
    for result in read_results(path):
        # Two rounds of half a second, four seconds, three rounds; arrivals cannot come sooner.
        assert result.problem.arrival_times.tolist() == [0, 5]
        assert result.problem.name == "grudge"
        assert result.ratio is not None
        assert result.total_latency == result.optimum_upper == 2.5


def test_two_processes_on_one_file(tmp_path: Path, tiny_results: Path) -> None:
    config, path = tmp_path / "tiny.toml", tmp_path / "r.sqlite"
    config.write_text("solver = false\n" + TINY)
    both = [start(config, "--results", path, "--jobs", 1) for _ in range(2)]
    printed = [finish(process) for process in both]
    counts = [int(line.split(" computed now")[0].split()[-1]) for line in printed]
    # What both computed at the same moment is stored, and counted, once.
    assert sum(counts) == 16
    assert dump(path)["trials"] == dump(tiny_results)["trials"]


class HoldsForEver(Scripted):
    """Its last attempt spans thousands of rounds, in which a request would outgrow M."""

    name = "holds-for-ever"

    def __init__(self) -> None:
        def rule(policy: Any, state: Any) -> online.Decision:
            if state.running and state.round_index == 3:
                return online.Decision(evict=[0])
            return online.Decision(start=[] if state.running else [0], hold=[0])

        super().__init__(rule)


def test_memory_that_does_not_follow_from_attempts_is_not_stored(tmp_path: Path) -> None:
    instance = Instance.from_arrays([1], [2], memory_limit=4)
    save(instance, tmp_path / "one.json")
    families = [InstanceFiles((str(tmp_path / "one.json"),))]
    experiment = Experiment("e", families, [HoldsForEver], solver=None)
    run_experiment(experiment, tmp_path / "r.sqlite")
    (found,) = read_results(tmp_path / "r.sqlite")
    assert (found.status, found.attempts) == ("livelock", None)
    with pytest.raises(ValueError, match="does not follow"):
        found.memory_profile()
    assert (found.lost_attempts, found.served) == ((), ())
    # The attempt under way at the end was not evicted.
    assert found.evictions == online.simulate(instance, HoldsForEver()).evictions == 1
