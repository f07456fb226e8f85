"""A trial's key changes with everything that defines it and with nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from instances.problem.json_io import from_document
from online.comparison import PolicySpec
from online.experiment import Experiment, Family, Predictions, Solver
from online.experiment import plan as plan_module
from online.experiment.plan import make_plan, optimum_task

BASE = Experiment(
    "e", [Family("uniform", {"n": 3, "memory_limit": 20, "maximum_length": 5}, (1,))], ["a-random"]
)


def only_key(experiment: Experiment) -> str:
    (member,) = make_plan(experiment).members
    return member.trial


def test_every_defining_part_enters_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    family = BASE.families[0]
    variants = [
        BASE,
        dataclasses.replace(BASE, families=[dataclasses.replace(family, seeds=(2,))]),
        dataclasses.replace(BASE, policies=["fcfs"]),
        dataclasses.replace(BASE, policies=[PolicySpec("alpha-protection", {"alpha": 0.1})]),
        dataclasses.replace(BASE, policies=[PolicySpec("alpha-protection", {"alpha": 0.2})]),
        dataclasses.replace(BASE, policy_seeds=(1,)),
        dataclasses.replace(BASE, predictions=[Predictions("noisy", {"delta": 1})]),
        dataclasses.replace(BASE, predictions=[Predictions("noisy", {"delta": 2})]),
    ]
    keys = [only_key(variant) for variant in variants]
    monkeypatch.setattr(plan_module, "package_version", lambda: "another")
    keys.append(only_key(BASE))
    assert len(set(keys)) == len(variants) + 1


@pytest.mark.parametrize("kind", ["trial", "optimum"])
def test_every_field_of_a_task_enters_its_key(kind: str) -> None:
    """Whatever a task is given one day decides its result.

    The instance is told by its digest, the policy by name, parameters and the digest of its code.
    """
    (trial,) = make_plan(BASE).trials.values()
    optimum = optimum_task("d", {}, Solver().options(), "1")
    task: Any = trial if kind == "trial" else optimum
    names = {each.name for each in dataclasses.fields(task) if each.init}
    changed = {name: dataclasses.replace(task, **{name: "another"}).key for name in names}
    told = {"document", "spec"} & names
    assert {changed.pop(name) for name in told} == {task.key}
    assert len({task.key, *changed.values()}) == len(names) - len(told) + 1


def test_labels_and_solver_limits_do_not() -> None:
    renamed = dataclasses.replace(
        BASE,
        name="other",
        families=[dataclasses.replace(BASE.families[0], label="label")],
        solver=Solver(time_limit=1),
    )
    assert only_key(renamed) == only_key(BASE)


def test_an_optimum_is_keyed_by_its_limits() -> None:
    solvers = [Solver(), Solver(time_limit=1), Solver(method="mip"), Solver(seed=1), Solver(1.0)]
    keys = [optimum_task("d", {}, solver.options(), "1").key for solver in solvers]
    assert len(set(keys)) == 4  # a limit of 1 is a limit of 1.0
    assert keys[1] == keys[4]


def test_seeds_are_repeated_only_where_the_run_may_differ() -> None:
    experiment = dataclasses.replace(
        BASE,
        policies=["fcfs", "a-random"],
        policy_seeds=(0, 1, 2),
        predictions=[Predictions(), Predictions("noisy", {"delta": 1})],
    )
    counts: dict[tuple[str, str], int] = {}
    for member in make_plan(experiment).members:
        pair = (member.policy, member.predictions)
        counts[pair] = counts.get(pair, 0) + 1
    assert counts == {
        ("fcfs", "exact"): 1,
        ("a-random", "exact"): 3,
        ("fcfs", "noisy(delta=1)"): 3,
        ("a-random", "noisy(delta=1)"): 3,
    }


def test_equal_draws_share_their_trials() -> None:
    # One request with two lengths of 1 or 2: four instances at most.
    family = Family("uniform", {"n": 1, "memory_limit": 9, "maximum_length": 2}, range(12))
    plan = make_plan(Experiment("e", [family], ["fcfs", "mc-sf"]))
    assert len(plan.members) == 24
    assert len(plan.documents) <= 4
    assert len(plan.trials) == 2 * len(plan.documents)
    assert all(from_document(found).digest == key for key, found in plan.documents.items())
