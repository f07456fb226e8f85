"""How `hindsight.solve` puts strategies together, and lets experts bring their own."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import FrozenInstanceError
from typing import Any, ClassVar

import numpy as np
import pytest
from brute_force import optimal_total_latency
from drawn_instances import parts_apart

import hindsight
from hindsight.heuristics.beam_search import BeamSettings
from hindsight.heuristics.ruin_and_recreate import CycleSettings
from hindsight.outcomes.errors import ScheduleCheckError
from hindsight.outcomes.results import Objective
from hindsight.outcomes.solve_state import SolveState
from hindsight.paths.relaxation import Climb
from hindsight.rounds import METHODS, strategies_for
from hindsight.strategies.beams import Beams
from hindsight.strategies.configurations import Configurations
from hindsight.strategies.counts import Counts
from hindsight.strategies.makespan import Makespan
from hindsight.strategies.mip import IntegerProgram
from hindsight.strategies.paths import Paths
from hindsight.strategies.preemptive import Preemptive
from hindsight.strategies.strategy import Problem, Strategy
from instances import Instance, InvalidTypeError, InvalidValueError, UnknownNameError

SIX = Instance.from_arrays([3, 1, 2, 1, 3, 2], [6, 9, 4, 7, 3, 8], memory_limit=12)


class Recorded:
    """A strategy that writes down that it ran, and proves nothing."""

    name: ClassVar[str] = "recorded"
    objectives: ClassVar[tuple[Objective, ...]] = ("total_latency",)

    def __init__(self, ran: list[Recorded], reason: str | None = None) -> None:
        self.ran = ran
        self.reason = reason

    def refusal(self, problem: Problem) -> str | None:
        return self.reason

    def run(self, problem: Problem, state: SolveState) -> None:
        self.ran.append(self)


def test_the_first_that_does_not_refuse_runs_and_the_next_where_it_gives_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[Recorded] = []
    refusing, first, second = Recorded(ran, "cannot"), Recorded(ran), Recorded(ran)
    monkeypatch.setitem(METHODS, "auto", (refusing, first, second))
    result = hindsight.solve(SIX)
    assert ran == [first, second]
    assert result.status == "feasible"
    # What has closed the interval leaves nothing to the next.
    monkeypatch.setitem(METHODS, "auto", (IntegerProgram(), first))
    assert hindsight.solve(SIX, threads=1).status == "optimal"
    assert ran == [first, second]


def test_a_strategy_of_one_s_own() -> None:
    ran: list[Recorded] = []
    own = Recorded(ran)
    result = hindsight.solve(SIX, method=own)
    assert ran == [own]
    assert 0 < result.certified_lower_bound <= result.upper_bound
    with pytest.raises(InvalidValueError, match="method = 'recorded' is not for today"):
        hindsight.solve(SIX, method=Recorded(ran, "is not for today"))
    with pytest.raises(InvalidValueError, match="'recorded' does not minimise the makespan"):
        hindsight.solve(SIX, method=own, objective="makespan")


def test_the_bounds_of_a_strategy_of_one_s_own_are_its_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = hindsight.solve(SIX, method="beams", time_limit=0)

    def run(self: Any, problem: Problem, state: SolveState) -> None:
        state.raise_lower(state.upper_bound, certified=True)
        state.note_stop()

    monkeypatch.setattr(Recorded, "run", run)
    result = hindsight.solve(SIX, method=Recorded([]))
    assert (result.conditional_lower_bound, result.conditions) == (
        result.upper_bound,
        ("strategy 'recorded'",),
    )
    assert (result.status, result.stop_reason) == ("feasible", "conditions")
    assert result.certified_lower_bound == plain.certified_lower_bound < plain.upper_bound
    # One of this package is believed again in the same solve.
    monkeypatch.setitem(METHODS, "auto", (Recorded([]), IntegerProgram()))
    monkeypatch.setattr(Recorded, "run", lambda self, problem, state: state.note_stop())
    assert hindsight.solve(SIX, threads=1).status == "optimal"


def test_errors_of_this_package_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line is for the user's own: a bug of this package is found by its traceback."""

    def run(self: Any, problem: Problem, state: SolveState) -> None:
        raise ScheduleCheckError("planted")

    for kind in (Beams, Recorded):
        monkeypatch.setattr(kind, "run", run)
    with pytest.raises(ScheduleCheckError, match="^planted$"):
        hindsight.solve(SIX, method="beams")
    with pytest.raises(InvalidValueError, match="'recorded' fails: ScheduleCheckError: planted"):
        hindsight.solve(SIX, method=Recorded([]))


def test_ctrl_c_in_a_strategy_of_one_s_own_keeps_the_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(self: Any, problem: Problem, state: SolveState) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Recorded, "run", run)
    assert hindsight.solve(SIX, method=Recorded([])).stop_reason == "interrupted"


@pytest.mark.parametrize("method", [3, None, ["mip"]])
def test_what_is_neither_a_name_nor_a_strategy(method: Any) -> None:
    with pytest.raises(InvalidTypeError, match="is neither a method nor the name of one"):
        hindsight.solve(SIX, method=method)


def test_names() -> None:
    assert strategies_for("mip", "total_latency") == (IntegerProgram(),)
    assert strategies_for("mip", "makespan") == (Makespan(),)
    assert strategies_for("auto", "makespan") == (Makespan(),)
    with pytest.raises(
        UnknownNameError,
        match="'magic'; known: auto, paths, configurations, counts, mip, beams, FILE.py:NAME$",
    ):
        hindsight.solve(SIX, method="magic")
    with pytest.raises(InvalidValueError, match="does not minimise the total latency"):
        hindsight.solve(SIX, method=Makespan())
    (made,) = strategies_for(Beams, "total_latency")  # type: ignore[arg-type]
    assert isinstance(made, Beams)


STRATEGIES = [Paths, Configurations, Counts, IntegerProgram, Beams, Makespan, Preemptive]


@pytest.mark.parametrize("kind", STRATEGIES)
def test_parameters_cannot_be_changed(kind: Any) -> None:
    strategy: Strategy = kind()
    assert strategy == kind()
    with pytest.raises(FrozenInstanceError):
        strategy.name = "other"  # type: ignore[misc]


SETTINGS = (
    "cycles",
    "first_rounds",
    "guided",
    "again",
    "tails",
    "beams",
    "configurations",
    "climb",
)


@pytest.mark.parametrize("kind", [*STRATEGIES, Climb, CycleSettings])
def test_no_parameter_of_the_wrong_range(kind: Any) -> None:
    """Each field that is a number, or numbers: negative, no number, and none at all."""
    fields = [one for one in dataclasses.fields(kind) if one.name not in SETTINGS]
    assert fields
    for one in fields:
        many = isinstance(one.default, tuple)
        for value, least in (
            (-1, InvalidValueError),
            (math.nan, InvalidValueError),
            (math.inf, InvalidValueError),
            ("3", InvalidTypeError),
            (True, InvalidTypeError),
        ):
            given = (*one.default, value) if many else value
            with pytest.raises(least, match=f"{kind.__name__}: {one.name} = ") as caught:
                kind(**{one.name: given})
            assert "\n" not in str(caught.value)
        if many:
            with pytest.raises(InvalidValueError, match="has fewer than [12] items"):
                kind(**{one.name: ()})
            with pytest.raises(InvalidTypeError, match="is not a tuple"):
                kind(**{one.name: one.default[0]})
        assert kind(**{one.name: one.default}) == kind()


def test_parameters_that_are_settings() -> None:
    for settings in ({"width": 0}, {"choices": 0}, {"preference": -0.1}, {"efficiency": 0.0}):
        with pytest.raises(InvalidValueError, match=f"BeamSettings: {next(iter(settings))} = "):
            BeamSettings(**{"width": 1, "choices": 1, **settings})
    with pytest.raises(InvalidValueError, match="first_rounds = .*'relaxation'"):
        Beams(first_rounds=(("relaxation", BeamSettings(1, 1)),))
    for field, given in (
        ("first_rounds", (("volume", (1, 1)),)),
        ("guided", (BeamSettings(1, 1), (1, 1))),
        ("again", ((1, 1), (1, 1))),
        ("tails", ((1, 1), (1, 1))),
        ("cycles", (CycleSettings(), (8, 1.0))),
    ):
        with pytest.raises(InvalidTypeError, match=f"Beams: {field} = "):
            Beams(**{field: given})  # type: ignore[arg-type]
    for field in ("configurations", "climb"):
        with pytest.raises(InvalidTypeError, match=f"{field} = 3 is not C"):
            Paths(**{field: 3})  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="beams = 3 is not Beams"):
        Counts(beams=3)  # type: ignore[arg-type]
    # Without memory prices there must be something to do.
    for cycles in ((), (CycleSettings(weight=1.0),)):
        with pytest.raises(InvalidValueError, match="cycles = .* all need memory prices"):
            Beams(cycles=cycles)
    # NumPy's numbers become Python's.
    assert type(Beams(patience=np.int64(7)).patience) is int  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="patience = None"):
        Beams(patience=None)  # type: ignore[arg-type]


def test_parameters_are_used() -> None:
    with pytest.raises(InvalidValueError, match="few rounds"):
        hindsight.solve(SIX, method=Configurations(largest_price_array=0))
    with pytest.raises(InvalidValueError, match="more than 10 starts"):
        hindsight.solve(SIX, method=IntegerProgram(most_starts=10))
    # A relaxation that is left out leaves no bound before the search.
    searched = hindsight.solve(SIX, threads=1, method=IntegerProgram(largest_relaxation=0))
    assert searched.status == "optimal"
    assert searched.root_bound is None
    assert hindsight.solve(SIX, threads=1, method="mip").root_bound is not None


def test_names_of_the_relaxation() -> None:
    for method in ("lp", "lagrangian"):
        assert hindsight.relax(SIX, method=method, threads=1).method == method
    for unknown in ("magic", "rows"):
        with pytest.raises(InvalidValueError, match="is not one of auto, lp, lagrangian$"):
            hindsight.relax(SIX, method=unknown)  # type: ignore[arg-type]


def test_more_requests_than_a_word_has_bits_are_searched() -> None:
    parts, many = parts_apart(17)
    assert len(many) == 68
    little = Configurations(moves=10, move_slice=10, ascent=1)
    result = hindsight.solve(many, 60, threads=1, method=little)
    optimum = sum(optimal_total_latency(part)[0] for part in parts)
    assert (result.status, result.upper_bound) == ("optimal", optimum)
    assert result.nodes > 0
