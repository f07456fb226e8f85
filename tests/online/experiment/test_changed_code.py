"""No stored result outlives the code that gave it."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import pickle
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import cloudpickle
import pytest
from experiment_processes import TINY

from instances.generators import registry
from online.experiment import (
    Experiment,
    Family,
    Predictions,
    Solver,
    parse_experiment,
    read_results,
    run_experiment,
)
from online.experiment import plan as plan_module
from online.experiment.declaration import PREDICTION_MODELS
from online.experiment.plan import make_plan
from online.experiment.work import WorkerVersionError, perform_elsewhere
from online.policy_interface import policy as policy_module
from online.trials.intervals import Latency

FAMILY = Family("uniform", {"n": 4, "maximum_length": 6, "memory_limit": 14}, range(3))

POLICY = """
from my_order import sign
from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.policy import register_policy

@register_policy("mine")
class Mine(PriorityPolicy):
    def priority(self, request):
        return sign * request.prediction.upper
"""

PREDICTIONS = """
from my_order import sign
from online.experiment.declaration import PREDICTION_MODELS
from online.policy_interface.predictions import ExactPredictions, Prediction

class Mine(ExactPredictions):
    def predict(self, prompt_length, output_length, rng):
        told = output_length if sign > 0 else 7 - output_length
        return Prediction(min(told, output_length), output_length, max(told, output_length))

PREDICTION_MODELS["mine"] = Mine
"""

SOURCE = """
from my_order import sign
from instances.problem.arrival_source import Arrival
from instances.generators.registry import register_generator

class Mine:
    memory_limit, name, adaptive = 12, "mine", True
    def reset(self, rng):
        self._queue = [Arrival(0, 1, 2, "a"), Arrival(0, 2, 5 + sign, "b")]
    def next_arrival(self):
        return self._queue[0].time if self._queue else None
    def release(self, now):
        due, self._queue = self._queue, []
        return due
    def observe(self, observation): pass

@register_generator("mine")
def mine(rng):
    return Mine()
"""

GENERATOR = """
from my_order import sign
from instances import Instance
from instances.generators.registry import register_generator

@register_generator("mine")
def mine(rng):
    return Instance.from_arrays([1, 2], [2, 5 + sign], memory_limit=12)
"""

CASES: dict[str, tuple[str, Callable[[], Experiment]]] = {
    "policy": (POLICY, lambda: Experiment("e", [FAMILY], ["mine"], solver=None)),
    "predictions": (
        PREDICTIONS,
        lambda: Experiment("e", [FAMILY], ["a-min"], [Predictions("mine")], solver=None),
    ),
    "arrival source": (SOURCE, lambda: Experiment("e", [Family("mine")], ["fcfs"])),
    "generator": (GENERATOR, lambda: Experiment("e", [Family("mine")], ["fcfs"])),
}
"""A module of the user, and an experiment with what it registers."""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, int], None]]:
    """Have the user's module and its helper imported anew, as by a new process."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def forget() -> None:
        for name in ("my_module", "my_order"):
            sys.modules.pop(name, None)
        policy_module._POLICIES.pop("mine", None)
        registry._GENERATORS.pop("mine", None)
        importlib.invalidate_caches()

    def load(text: str, sign: int) -> None:
        forget()
        (tmp_path / "my_module.py").write_text(text)
        (tmp_path / "my_order.py").write_text(f"sign = {sign}\n")
        importlib.import_module("my_module")

    registries = (policy_module._POLICIES, registry._GENERATORS, PREDICTION_MODELS)
    with contextlib.ExitStack() as stack:
        for each in registries:
            stack.enter_context(patch.dict(each))
        yield load
    forget()


def totals(path: Path) -> list[Latency | None]:
    return [trial.total_latency for trial in read_results(path)]


@pytest.mark.parametrize("case", CASES)
def test_what_ran_other_code_is_run_again(
    load: Callable[[str, int], None], tmp_path: Path, case: str
) -> None:
    text, experiment = CASES[case]
    path, fresh = tmp_path / "r.sqlite", tmp_path / "fresh.sqlite"

    def run(path: Path = path) -> tuple[int, list[int | None]]:
        return run_experiment(experiment(), path).computed, totals(path)

    load(text, 1)
    first, before = run()
    assert first >= len(before) > 0
    assert run() == (0, before)
    # The module stays as it is; what it imports is turned round.
    load(text, -1)
    second, after = run()
    assert (second, len(after)) == (first, len(before))
    assert after != before
    assert run(fresh) == (first, after)
    # Turned back, what was computed then is there.
    load(text, 1)
    assert run() == (0, before)


def test_no_trial_is_lost_from_sight_when_there_are_fewer(
    load: Callable[[str, int], None], tmp_path: Path
) -> None:
    """A policy that no longer draws is run once instead of three times."""
    path = tmp_path / "r.sqlite"
    experiment = Experiment("e", [FAMILY], ["fcfs"], policy_seeds=(0, 1, 2), solver=None)
    load(POLICY + "    randomized = True\n", 1)
    mine = dataclasses.replace(experiment, policies=["mine"])
    assert run_experiment(mine, path).trials == len(read_results(path)) == 9
    load(POLICY, 1)
    assert run_experiment(mine, path).trials == len(read_results(path)) == 3


def test_edited_packages_are_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.sqlite"
    experiment = dataclasses.replace(parse_experiment(TINY), policies=["fcfs"])
    assert run_experiment(experiment, path).computed == 8
    original = plan_module.package_sources

    def edited(*packages: str) -> str:
        return original(*packages) + ("edited" if "online" in packages else "")

    monkeypatch.setattr(plan_module, "package_sources", edited)
    # What finds optima does not import what runs policies.
    assert run_experiment(experiment, path).computed == 4
    monkeypatch.setattr(plan_module, "package_sources", lambda *packages: "edited too")
    assert run_experiment(experiment, path).computed == 8
    results = read_results(path)
    assert len(results) == 4
    assert all(trial.is_proved for trial in results)
    with sqlite3.connect(path) as database:
        sources = database.execute("SELECT sources FROM optima").fetchall()
    assert sources.count(("edited too",)) == len(sources) // 2 == 4


def test_a_worker_with_other_code_is_refused(
    load: Callable[[str, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    load(SOURCE, 1)
    experiment = Experiment("e", [Family("mine")], ["fcfs"])
    task = next(iter(make_plan(experiment).trials.values()))
    assert perform_elsewhere(task)[0].total_latency == perform_elsewhere(task)[0].total_latency
    load(SOURCE, -1)
    monkeypatch.setattr("online.experiment.work._sources_here", plan_module.trial_sources)
    with pytest.raises(WorkerVersionError, match=r"other sources than the run \(generator\)"):
        perform_elsewhere(task)
    del registry._GENERATORS["mine"]
    with pytest.raises(WorkerVersionError, match="the worker does not know generator 'mine'"):
        perform_elsewhere(task)
    optimum = plan_module.optimum_task("d", {}, Solver().options(), task.version)
    monkeypatch.setattr(plan_module, "package_sources", lambda *packages: "edited")
    with pytest.raises(WorkerVersionError, match=r"other sources than the run \(packages\)"):
        perform_elsewhere(optimum)


def test_a_task_brings_its_policy_along(load: Callable[[str, int], None]) -> None:
    """What a worker runs is what the key says, whatever was saved or registered since."""
    load(POLICY, 1)
    experiment = Experiment("e", [FAMILY], ["mine"])
    tasks = list(make_plan(experiment).trials.values())
    sent = [cloudpickle.dumps(task) for task in tasks]
    expected = [perform_elsewhere(task)[0].total_latency for task in tasks]
    load(POLICY, -1)
    del policy_module._POLICIES["mine"]
    received = [pickle.loads(each) for each in sent]  # noqa: S301 (just written)
    assert [perform_elsewhere(task)[0].total_latency for task in received] == expected
    assert [task.key for task in received] == [task.key for task in tasks]
    load(POLICY, -1)
    turned = make_plan(experiment).trials.values()
    assert [perform_elsewhere(task)[0].total_latency for task in turned] != expected
