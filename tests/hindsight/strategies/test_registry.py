"""Strategies of the user's, by name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from brute_force import optimal_total_latency

import hindsight
from hindsight.outcomes.solve_state import SolveState
from hindsight.strategies.strategy import STRATEGIES, Problem
from instances import Instance, InvalidTypeError, InvalidValueError, Schedule, UnknownNameError

INSTANCE = Instance.from_arrays([3, 4, 2], [4, 3, 5], [0, 0, 1], memory_limit=9)
OPTIMUM, STARTS = optimal_total_latency(INSTANCE)


@pytest.fixture(autouse=True)
def fresh_registry() -> Iterator[None]:
    with patch.dict(STRATEGIES, clear=True):
        yield


class Knows:
    """It knows the best schedule, and claims that it is."""

    name = "knows"
    objectives = ("total_latency",)

    def refusal(self, problem: Problem) -> str | None:
        return "is of another size" if len(problem.instance) != 3 else None

    def run(self, problem: Problem, state: SolveState) -> None:
        state.offer(Schedule(problem.instance, STARTS))
        state.raise_conditional(state.upper_bound, ("what it knows",))
        state.note_stop()


def test_by_name() -> None:
    assert hindsight.register_strategy("mine")(Knows) is Knows
    assert hindsight.strategy_names() == ["mine"]
    for method in ("mine", Knows()):
        result = hindsight.solve(INSTANCE, method=method)
        assert (result.upper_bound, result.conditional_lower_bound) == (OPTIMUM, OPTIMUM)
        assert (result.conditions, result.status) == (("what it knows",), "feasible")
    other = Instance.from_arrays([1], [1], memory_limit=9)
    with pytest.raises(InvalidValueError, match="is of another size"):
        hindsight.solve(other, method="mine")


@pytest.mark.parametrize(
    ("objectives", "message"),
    [
        ("total_latency", "'total_latency' is no tuple"),
        (None, "None is no tuple"),
        ((), "() is not of one or more of total_latency, makespan, preemptive_total_latency"),
        (("total latency",), "('total latency',) is not of one or more of total_latency"),
        ((["makespan"],), "is not of one or more of total_latency"),
    ],
)
def test_objectives_that_are_no_goals_are_refused(objectives: Any, message: str) -> None:
    """A text has no comma: "total_latency" in it is true, and so is "latency"."""
    own = type("Own", (Knows,), {"objectives": objectives})
    hindsight.register_strategy("own")(own)
    for given in ("own", own()):
        for use in (
            partial(hindsight.solve, INSTANCE, method=given),
            partial(hindsight.check_strategy, given),
        ):
            with pytest.raises((InvalidTypeError, InvalidValueError)) as caught:
                use()
            assert str(caught.value).startswith("method 'knows': objectives = ")
            assert message in str(caught.value)


def test_names_of_this_package_are_taken() -> None:
    with pytest.raises(ValueError, match="'mip' is one of this package's"):
        hindsight.register_strategy("mip")(Knows)
    with pytest.raises(UnknownNameError, match="'mine'; known: auto, .*beams, "):
        hindsight.solve(INSTANCE, method="mine")


IN_A_FILE = """
from hindsight.heuristics.list_scheduling import one_after_another

class Serial:
    name, objectives = "serial", ("total_latency",)

    def refusal(self, problem):
        return None

    def run(self, problem, state):
        state.offer(one_after_another(problem.instance))

class Other:
    pass
"""


def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "own_strategies.py"
    path.write_text(IN_A_FILE)
    result = hindsight.solve(INSTANCE, method=f"{path}:Serial")
    assert result.stop_reason == "stalled"
    with pytest.raises(InvalidTypeError, match="which is no Strategy"):
        hindsight.solve(INSTANCE, method=f"{path}:Other")
    with pytest.raises(InvalidValueError, match="it registers no method"):
        hindsight.solve(INSTANCE, method=str(path))
