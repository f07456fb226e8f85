"""The TOML form says the same as the Python form, and what it says wrongly is named."""

from __future__ import annotations

import dataclasses

import pytest

from instances import FileFormatError, InvalidTypeError, InvalidValueError, UnknownNameError
from online.comparison import PolicySpec
from online.experiment import (
    Experiment,
    Family,
    Predictions,
    Solver,
    families,
    parse_experiment,
    preset,
    preset_names,
)
from online.experiment.plan import make_plan

FULL = """
name = "both"
policies = ["fcfs", { name = "alpha-protection", grid = { alpha = [0.1, 0.2] } }]
policy_seeds = [3, 5]

[[instances]]
generator = "uniform"
label = "small"
parameters = { memory_limit = 20, maximum_length = 5 }
grid = { n = [2, 3] }
seeds = { start = 4, count = 2 }

[[predictions]]
name = "exact"

[[predictions]]
name = "noisy"
parameters = { delta = 1 }

[solver]
time_limit = 10
method = "mip"
"""


def test_toml_says_what_python_says() -> None:
    fixed = {"memory_limit": 20, "maximum_length": 5}
    expected = Experiment(
        name="both",
        families=[
            Family("uniform", {**fixed, "n": 2}, (4, 5), "small(n=2)"),
            Family("uniform", {**fixed, "n": 3}, (4, 5), "small(n=3)"),
        ],
        policies=[
            "fcfs",
            PolicySpec("alpha-protection", {"alpha": 0.1}),
            PolicySpec("alpha-protection", {"alpha": 0.2}),
        ],
        predictions=[Predictions(), Predictions("noisy", {"delta": 1})],
        policy_seeds=(3, 5),
        solver=Solver(time_limit=10.0, method="mip"),
    )
    assert parse_experiment(FULL).to_document() == expected.to_document()


def test_what_is_left_out_has_defaults() -> None:
    short = parse_experiment('name = "s"\n[[instances]]\ngenerator = "uniform"\n')
    assert short.families[0].seeds == (0,)
    assert short.solver == Solver(None, "auto", 0, 1)
    assert [model.label for model in short.predictions] == ["exact"]
    assert "mc-sf" in {spec.name for spec in short.specs}


def test_optima_can_be_left_out() -> None:
    text = 'name = "s"\nsolver = false\n[[instances]]\ngenerator = "uniform"\n'
    assert parse_experiment(text).solver is None


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ('name = "both"', "name = 3", InvalidTypeError, "name = 3 is not a text"),
        ('name = "both"', 'nom = "both"', InvalidValueError, "nom = 'both' is not one of its"),
        ('"fcfs"', '"fcfs", "fcfs"', InvalidValueError, "'fcfs' is given twice"),
        ('"fcfs"', '"lifo"', UnknownNameError, "unknown policy 'lifo'"),
        ('"uniform"', '"flat"', UnknownNameError, "unknown generator 'flat'"),
        ("maximum_length = 5", "m = 5", InvalidValueError, "m = 5 is not one of its parameters"),
        ("[2, 3]", "[]", InvalidValueError, "n = [] is empty"),
        ("[2, 3]", "2", InvalidTypeError, "n = 2 is not a list"),
        ("n = [2, 3]", "memory_limit = [9]", InvalidValueError, "is among the parameters too"),
        ("[2, 3]", "[2, 2]", InvalidValueError, "'small(n=2)' is given twice"),
        ("count = 2", "count = 0", InvalidValueError, "count = 0"),
        ("[3, 5]", "[3, 3]", InvalidValueError, "policy_seeds = 3 is given twice"),
        ("[3, 5]", "[-1]", InvalidValueError, "policy_seeds = -1"),
        ('"noisy"', '"vague"', UnknownNameError, "unknown prediction model 'vague'"),
        ("delta = 1", "delta = -1", InvalidValueError, "delta = -1"),
        ("delta = 1", "gamma = 1", InvalidValueError, "does not fit the model"),
        ("time_limit = 10", "time_limit = -1", InvalidValueError, "time_limit = -1"),
        ("time_limit = 10", "patience = 1", InvalidValueError, "patience = 1 is not one of"),
        ('"mip"', '"magic"', InvalidValueError, "method = 'magic'"),
        ("policies = ", "policies == ", FileFormatError, "is not TOML"),
        ("time_limit = 10", "time_limit = 1" + "0" * 400, FileFormatError, "more than 300 digits"),
        ("time_limit = 10", "time_limit = 1e400", InvalidValueError, "time_limit = inf"),
        ("count = 2", f"count = {2**53}", InvalidValueError, "count = 9007199254740992 is above"),
        ("[2, 3]", f"{[*range(101)]}, memory = {[*range(100)]}", InvalidValueError, "stands for"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, error: type[Exception], message: str) -> None:
    assert old in FULL
    with pytest.raises(error) as caught:
        parse_experiment(FULL.replace(old, new))
    assert message in str(caught.value)


def test_the_smoke_preset_is_two_hundred_trials() -> None:
    assert preset_names() == ["smoke"]
    plan = make_plan(preset("smoke"))
    assert (len(plan.members), len(plan.trials), len(plan.documents)) == (200, 200, 20)
    assert max(len(document["requests"]) for document in plan.documents.values()) <= 6


def test_an_experiment_too_large_to_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before anything is drawn, in the time and memory of reading it."""
    monkeypatch.setattr(families, "MOST_TRIALS", 10)
    few = Family("uniform", {"n": 1}, range(2))
    # Two runs of one policy, and of the other, which draws, two for each seed.
    fits = Experiment("e", [few], ["fcfs", "a-random"], policy_seeds=range(4))
    assert len(make_plan(fits).members) == 10
    with pytest.raises(InvalidValueError, match="trials = 12 are more than 10"):
        make_plan(dataclasses.replace(fits, policy_seeds=range(5)))
