"""Sweeps: one interval for each problem, stores that continue, failures, processes, executors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import hindsight
import online
from instances import (
    FileFormatError,
    Instance,
    InvalidValueError,
    ServiceLevel,
    Workload,
    generate,
    library,
)
from online import AffineTime

ROOT = Path(__file__).resolve().parents[3]
SMALL = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6, name="small")
PREEMPTED = Instance.from_arrays([1, 1, 1], [6, 6, 6], memory_limit=12, name="preempted")


def uniform(count: int, n: int = 4) -> list[Any]:
    return [generate("uniform", s, n=n, maximum_length=8, memory_limit=20) for s in range(count)]


class Dying(online.PriorityPolicy):
    """Kill the process that runs it."""

    name = "dying"

    def priority(self, request: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


class Raising(online.PriorityPolicy):
    """Raise an error."""

    name = "raising"

    def priority(self, request: Any) -> Any:
        raise KeyError(request.id)


def test_trials_are_those_of_solve_and_simulate() -> None:
    groups = {"a": uniform(2), "b": [SMALL]}
    trials = online.sweep(groups, ["fcfs", "a-random"], seeds=[0, 7])
    assert [(t.group, t.policy, t.seed) for t in trials] == [
        (group, *rest)
        for group in ("a", "a", "b")
        for rest in (("fcfs", 0), ("a-random", 0), ("a-random", 7))
    ]
    for trial, instance in zip(trials[::3], [*groups["a"], SMALL], strict=True):
        run = online.simulate(instance, "fcfs")
        best = hindsight.solve(instance, progress=False)
        assert trial.cost == run.total_latency
        assert (trial.lower, trial.upper) == (best.lower_bound, best.upper_bound)
        assert trial.ratio == online.ratio(run, best)


def test_policies_that_preempt_are_compared_with_the_preemptive_optimum() -> None:
    kept = hindsight.solve(PREEMPTED, preemption="keep", progress=False)
    own, keep, never = (
        online.sweep([PREEMPTED], ["fcfs", "vllm"], preemption=preemption)
        for preemption in (None, "keep", "never")
    )
    assert [one.compared_with for one in own] == ["optimum", "preemptive optimum"]
    assert {one.compared_with for one in keep} == {"preemptive optimum"}
    assert own[1].upper == keep[0].upper == kept.upper_bound
    assert never[1].ratio is None
    assert "preempted requests and kept their tokens" in never[1].reason


def test_goals() -> None:
    level = ServiceLevel(latency=4)
    (late,) = online.sweep([SMALL], "edf", goal=hindsight.OnTime(level))
    best = hindsight.solve(SMALL, goal=hindsight.OnTime(level), progress=False)
    assert late.cost == online.simulate(SMALL, "edf", level=level).on_time(level).sum()
    assert (late.lower, late.upper) == (best.lower_bound, best.upper_bound)
    (long,) = online.sweep([SMALL], "fcfs", goal="makespan")
    assert long.cost == online.simulate(SMALL, "fcfs").schedule.makespan
    assert long.upper == hindsight.solve(SMALL, goal="makespan", progress=False).upper_bound


def test_seconds_are_exact_and_arrivals_of_an_instance_count_as_seconds() -> None:
    rounds = Instance.from_arrays([2, 1], [1, 2], [3, 0], memory_limit=10, name="late first")
    work = Workload.from_instance(rounds, AffineTime(1.0, 0.5))
    (found,) = online.sweep([work], "fcfs", time_limit=5)
    # The request of two tokens runs until 3, when the other arrives and takes 2 s.
    assert (found.cost, found.is_proved, found.instance) == (5, True, "late first")
    assert isinstance(found.cost, Fraction)
    assert found.batch_time


def test_predictions_are_given_by_name_or_as_models() -> None:
    named = ["exact", "noisy(delta=2)", "relative(error=0.5)", "interval", "buckets"]
    trials = online.sweep([SMALL], "mc-sf", predictions=named, seeds=[0, 1])
    labels = ["exact", *["noisy(delta=2)"] * 2, *["relative(error=0.5)"] * 2, "interval", "buckets"]
    assert [one.predictions for one in trials] == labels
    (model,) = online.sweep([SMALL], "mc-sf", predictions=online.NoisyPredictions(2))
    assert model == trials[1]
    (interval,) = online.sweep([SMALL], "mc-sf", predictions=online.IntervalPredictions(1, 3))
    assert interval.cost == trials[5].cost


def test_fleets_take_each_router() -> None:
    trials = online.sweep([SMALL.replaced(replicas=2)], "fcfs", router=["least-requests", "random"])
    assert [one.router for one in trials] == ["least-requests", "random"]
    assert all(one.is_proved for one in trials)


def test_arrivals_that_answer_are_solved_as_realised() -> None:
    source = generate("sqrt-n-adversary", 0, memory_limit=9)
    trials = online.sweep([source], ["fcfs", "mc-sf"], time_limit=5)
    for trial in trials:
        run = online.simulate(generate("sqrt-n-adversary", 0, memory_limit=9), trial.policy)
        assert run.problem is not None
        assert (trial.digest, trial.cost) == (run.problem.digest, run.total_latency)
        assert trial.source == source.name


@pytest.mark.parametrize("name", ["j25-m1-n10-00", "w25-lmsys-like-n50-00"])
def test_optimum_from_records(name: str) -> None:
    """The second has made-up lengths, which its label says."""
    entry = library()[name]
    (trial,) = online.sweep({entry.set: [entry.instance]}, "mc-sf", optimum="records")
    assert entry.record is not None
    assert (trial.lower, trial.upper) == (entry.record.lower_bound, entry.record.upper_bound)
    same = {"goal": "latency", "preemption": "never"}
    assert (
        online.sweep([entry.instance], "mc-sf", optimum="records", **same)[0].ratio == trial.ratio
    )
    with pytest.raises(InvalidValueError, match="has no record"):
        online.sweep([SMALL], "mc-sf", optimum="records")
    (alone,) = online.sweep([SMALL], "mc-sf", optimum=None)
    assert (alone.cost, alone.lower) == (7, None)


def test_a_store_continues(tmp_path: Path) -> None:
    store, groups = tmp_path / "trials.jsonl", {"a": uniform(3)}
    part = online.sweep({"a": groups["a"][:2]}, "fcfs", store)
    lines = store.read_text().splitlines()
    assert len(lines) == 1 + len(part)
    # A run was killed while it wrote the last line.
    store.write_text("\n".join([*lines[:2], lines[2][:40]]))
    assert [one.key for one in online.read_trials(store)] == [part[0].key]
    whole = online.sweep(groups, ["fcfs", "mc-sf"], store)
    assert whole == online.sweep(groups, ["fcfs", "mc-sf"])
    assert store.read_text().splitlines()[:2] == lines[:2]
    written = store.read_text()
    assert online.sweep(groups, ["fcfs", "mc-sf"], store) == whole
    assert store.read_text() == written
    assert {one.key: one for one in online.read_trials(store)}.keys() == {one.key for one in whole}


KILLED = """
import os, signal, sys
import online
from instances import generate

def die(descriptor):
    size = os.fstat(descriptor).st_size
    if size > 1500:
        os.ftruncate(descriptor, size - 30)
        os.kill(os.getpid(), signal.SIGKILL)

os.fsync = die
drawn = [generate("uniform", s, n=4, maximum_length=8, memory_limit=20) for s in range(4)]
online.sweep(drawn, ["fcfs", "mc-sf"], sys.argv[1])
"""


def test_a_sweep_killed_while_it_appends_ends_with_the_same_table(tmp_path: Path) -> None:
    store = tmp_path / "trials.jsonl"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(store)], cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL
    assert 0 < len(online.read_trials(store)) < 8
    assert not store.read_bytes().endswith(b"\n")
    resumed = online.sweep(uniform(4), ["fcfs", "mc-sf"], store)
    whole = online.sweep(uniform(4), ["fcfs", "mc-sf"])
    assert online.table(resumed).to_csv() == online.table(whole).to_csv()
    assert sorted(online.read_trials(store), key=repr) == sorted(whole, key=repr)


def test_an_optimum_is_searched_again_where_more_time_is_given(tmp_path: Path) -> None:
    store = tmp_path / "trials.jsonl"
    instance = generate("arrival-model-1", 3, n=20)
    (first,) = online.sweep([instance], "fcfs", store, time_limit=0)
    assert not first.is_proved
    (same,) = online.sweep([instance], "fcfs", store, time_limit=0)
    assert same == first
    (more,) = online.sweep([instance], "fcfs", store, time_limit=0.2)
    assert more.time_limit == 0.2
    assert more.upper is not None
    assert first.upper is not None
    assert more.upper <= first.upper


@pytest.mark.parametrize("content", ["no store\n", "no store", '{"format": 1}\n', "SQLite\x00"])
def test_other_files_are_refused_and_kept(tmp_path: Path, content: str) -> None:
    store = tmp_path / "other.jsonl"
    store.write_text(content)
    for use in (lambda: online.sweep([SMALL], "fcfs", store), lambda: online.read_trials(store)):
        with pytest.raises(FileFormatError, match="not a store of trials"):
            use()
    assert store.read_text() == content


def test_damaged_lines_are_named(tmp_path: Path) -> None:
    store = tmp_path / "trials.jsonl"
    online.sweep([SMALL], ["fcfs", "mc-sf"], store)
    lines = store.read_text().splitlines()
    for damage in ("{", "3", json.dumps({"instance": 1}), json.dumps({"no": 1})):
        store.write_text("\n".join([lines[0], damage, lines[2], ""]))
        with pytest.raises(FileFormatError, match="line 2 is not a trial"):
            online.read_trials(store)


def test_failures_are_the_reasons_of_their_trials_only(tmp_path: Path) -> None:
    trials = online.sweep([SMALL], ["fcfs", Raising], tmp_path / "trials.jsonl")
    assert trials[0].ratio is not None
    assert (trials[1].status, trials[1].ratio) == ("failed", None)
    assert "KeyError" in trials[1].reason


def test_a_killed_worker_ends_only_its_own_task(tmp_path: Path) -> None:
    store = tmp_path / "trials.jsonl"
    groups = uniform(3)
    online.sweep(groups, "fcfs", store)
    trials = online.sweep([*groups, SMALL], ["fcfs", Dying], store, jobs=2)
    died = [one for one in trials if one.policy == "dying"]
    assert {one.status for one in died} == {"failed"}
    assert all("the worker process died" in one.reason for one in died)
    assert sum(one.ratio is not None for one in trials) >= len(groups)
    # What died is tried again next time.
    assert not any(one.policy == "dying" for one in online.read_trials(store))


def test_processes_and_executors_give_the_same_trials() -> None:
    groups, policies = {"a": uniform(4)}, ["fcfs", Raising]
    here = online.sweep(groups, policies)
    assert online.sweep(groups, policies, jobs=2) == here
    with ThreadPoolExecutor(2) as executor:
        assert online.sweep(groups, policies, executor=executor) == here


def test_two_dask_workers_give_the_same_trials() -> None:
    distributed = pytest.importorskip("distributed")
    groups = {"a": uniform(3)}
    here = online.sweep(groups, ["fcfs", "mc-sf"])
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert online.sweep(groups, ["fcfs", "mc-sf"], executor=client.get_executor()) == here


def test_progress_counts_problems() -> None:
    told: list[tuple[int, int]] = []
    online.sweep(uniform(3), "fcfs", progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
