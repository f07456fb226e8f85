"""Cuts of the user's: in the program and its relaxation, and what is said of what they prove."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import pytest
from brute_force import optimal_total_latency

import hindsight
from hindsight import rounds
from hindsight.extensions.cuts import CUTS, Row
from hindsight.outcomes.solve_state import SolveState
from hindsight.strategies.beams import Beams
from hindsight.strategies.mip import IntegerProgram
from hindsight.strategies.strategy import Problem
from instances import Instance, InvalidTypeError, InvalidValueError

INSTANCE = Instance.from_arrays([26, 27, 28, 30, 2, 3], [4, 6, 3, 5, 9, 7], memory_limit=50)
OPTIMUM, STARTS = optimal_total_latency(INSTANCE)


@pytest.fixture(autouse=True)
def fresh_registry() -> Iterator[None]:
    with patch.dict(CUTS, clear=True):
        yield


def one_large(instance: Instance, horizon: int) -> list[Row]:
    """In a round at most one request holds more than half of the memory."""
    rows = []
    for r in range(1, horizon + 1):
        row = {
            (i, t): 1
            for i, request in enumerate(instance)
            for t in range(request.arrival_time, horizon - request.output_length + 1)
            if t < r <= t + request.output_length
            and 2 * (request.prompt_length + r - t) > instance.memory_limit
        }
        rows.append((row, 1))
    return rows


def never_first(instance: Instance, horizon: int) -> list[Row]:
    """Nobody starts at once: no schedule that is optimal obeys."""
    return [({(i, 0): 1 for i in range(len(instance))}, 0)]


def test_they_tighten_the_relaxation_under_a_condition() -> None:
    hindsight.register_cut("one-large")(one_large)
    assert hindsight.cut_names() == ["one-large"]
    plain, cut = hindsight.relax(INSTANCE), hindsight.relax(INSTANCE, cuts="one-large")
    assert plain.objective < 51 < cut.objective <= OPTIMUM + 1e-6
    assert cut.conditions == ("cut 'one-large'",)
    assert cut.conditional_bound is not None
    # What the prices prove, exactly, is what the relaxation is worth, and no schedule is below it.
    assert cut.objective - 0.01 <= cut.conditional_bound <= OPTIMUM
    assert cut.dual_value == pytest.approx(cut.objective, abs=1e-3)
    # What is certified needs no cut.
    assert cut.certified_bound <= plain.certified_bound
    assert (plain.conditional_bound, plain.conditions) == (None, ())


def test_the_program_with_them_has_the_same_optimum_under_a_condition() -> None:
    result = hindsight.solve(INSTANCE, method="mip", cuts=one_large)
    assert (result.upper_bound, result.conditional_lower_bound) == (OPTIMUM, OPTIMUM)
    assert (result.stop_reason, result.status) == ("conditions", "feasible")
    assert result.conditions == ("cut 'one_large'",)
    assert result.certified_lower_bound == result.lower_bound < OPTIMUM


def test_what_the_usual_methods_prove_without_a_cut_they_prove_beside_one() -> None:
    def unused(instance: Instance, horizon: int) -> list[Row]:
        raise AssertionError("the search has closed without it")

    result = hindsight.solve(INSTANCE, cuts=unused)
    assert (result.status, result.certified_lower_bound) == ("optimal", OPTIMUM)
    assert (result.stop_reason, result.conditions) == ("proof", ())


@dataclass
class Searched:
    """A strategy that waits until its part of the time is over, or ends at once."""

    ran: list[tuple[str, bool, float]]
    name: str
    waits: bool = True
    uses_cuts: bool = False
    objectives = ("total_latency",)

    def refusal(self, problem: Problem) -> str | None:
        return None

    def run(self, problem: Problem, state: SolveState) -> None:
        self.ran.append((self.name, bool(problem.cuts), state.clock.seconds_left()))
        while self.waits and not state.is_done():
            pass
        state.note_stop()


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool, float]]:
    """What "auto" ran: which strategy, whether with the cut, and seconds until it had to stop."""
    ran: list[tuple[str, bool, float]] = []
    usual, rows = Searched(ran, "usual"), Searched(ran, "rows", waits=False, uses_cuts=True)
    monkeypatch.setitem(rounds.METHODS, "auto", (usual, rows))
    return ran


@pytest.mark.parametrize("limit", [0.4, None])
def test_most_of_the_time_is_for_what_needs_no_cut(
    limit: float | None,
    ran: list[tuple[str, bool, float]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds, "UNLIMITED_TURN", 0.4)
    result = hindsight.solve(INSTANCE, limit, cuts=one_large, should_stop=lambda: len(ran) == 3)
    # What those with cuts leave of their quarter is for the others again.
    assert [one[:2] for one in ran] == [("usual", False), ("rows", True), ("usual", False)]
    first, second, third = (seconds for _, _, seconds in ran)
    assert 0.2 < first <= 0.3
    assert second <= 0.1
    assert third <= second if limit else third == math.inf
    assert result.stop_reason == "interrupted"


def test_half_coefficients() -> None:
    def halves(instance: Instance, horizon: int) -> list[Row]:
        return [
            ({start: Fraction(1, 2) for start in row}, Fraction(1, 2))
            for row, _ in one_large(instance, horizon)
        ]

    cut = hindsight.relax(INSTANCE, cuts=halves)
    assert cut.objective == pytest.approx(hindsight.relax(INSTANCE, cuts=one_large).objective)
    assert cut.conditional_bound == hindsight.relax(INSTANCE, cuts=one_large).conditional_bound


def test_rows_that_leave_too_little_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="^cut 'never_first': total latency = 56 is"):
        hindsight.solve(INSTANCE, method="mip", cuts=never_first)

    def nothing(instance: Instance, horizon: int) -> list[Row]:
        return [({}, -1)]

    with pytest.raises(InvalidValueError, match="leave no schedule"):
        hindsight.relax(INSTANCE, cuts=nothing)
    with pytest.raises(InvalidValueError, match="^cut 'nothing': total latency"):
        hindsight.solve(INSTANCE, method="mip", cuts=nothing)


def test_a_wrong_cut_shows_as_a_wrong_condition_only() -> None:
    # The relaxation does not see that it is wrong, and says what its value rests on.
    wrong = hindsight.relax(INSTANCE, cuts=never_first)
    assert wrong.certified_bound <= OPTIMUM
    assert wrong.conditions == ("cut 'never_first'",)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (({(0, 0): 1.0}, 1), "neither a whole number nor a fraction"),
        (({(0, 0): 1}, 1.5), "neither a whole number nor a fraction"),
        (({(0, 0): 10**13}, 1), "is beyond"),
        (({(6, 0): 1}, 1), "request = 6 is above 5"),
        (({(0, -1): 1}, 1), "start of request 0 = -1 is below 0"),
        (({(0, 10_000): 1}, 1), "start of request 0 = 10000 is above"),
        (({0: 1}, 1), r"is not \(i, t\)"),
        (({(0, 0): 1},), r"is not \(coefficients"),
        ([1, 2], r"is not \(coefficients"),
    ],
)
def test_what_is_no_row_is_refused(row: Any, reason: str) -> None:
    with pytest.raises((InvalidValueError, InvalidTypeError), match=reason):
        hindsight.relax(INSTANCE, cuts=lambda *_: [row])


def test_where_they_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for options, message in (
        ({"method": "beams"}, "does not use: take mip"),
        ({"formulation": "sparse"}, "take dense"),
    ):
        with pytest.raises(InvalidValueError, match=message):
            hindsight.solve(INSTANCE, cuts=one_large, **options)  # type: ignore[arg-type]
    monkeypatch.setitem(rounds.METHODS, "auto", (Beams(), IntegerProgram(most_starts=1)))
    with pytest.raises(InvalidValueError, match="cannot be used: mip has more than 1 starts"):
        hindsight.solve(INSTANCE, cuts=one_large)
    for options, message in (
        ({"method": "lagrangian"}, "lp"),
        ({"horizon": 40}, "leave it out"),
        ({"cuts": fail}, "cut = 'fail' fails: RuntimeError"),
    ):
        with pytest.raises(InvalidValueError, match=message):
            hindsight.relax(INSTANCE, **{"cuts": one_large, **options})  # type: ignore[arg-type]


def fail(instance: Instance, horizon: int) -> list[Row]:
    raise RuntimeError(horizon)
