"""What a strategy may hand in: schedules of the instance, and exact bounds."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import hindsight
from hindsight import ScheduleCheckError
from hindsight.outcomes.solve_state import SolveState
from instances import Instance, InvalidTypeError, generate

INSTANCE = generate("arrival-model-2", 0, n=6)


@pytest.fixture
def state() -> SolveState:
    made = SolveState(INSTANCE)
    made.offer(hindsight.best_list_schedule(INSTANCE))
    return made


@pytest.mark.parametrize(
    "other",
    [
        Instance(INSTANCE.requests, 2 * INSTANCE.memory_limit),
        Instance(INSTANCE.requests[:-1], INSTANCE.memory_limit),
    ],
)
def test_a_feasible_schedule_of_another_instance_is_refused(
    state: SolveState, other: Instance
) -> None:
    before = state.best
    better = hindsight.best_list_schedule(other)
    assert better.total_latency < before.total_latency
    with pytest.raises(ScheduleCheckError, match="of another instance"):
        state.offer(better)
    assert state.best is before


def test_an_equal_instance_is_the_same() -> None:
    equal = Instance(INSTANCE.requests, INSTANCE.memory_limit)
    assert equal is not INSTANCE
    assert SolveState(INSTANCE).offer(hindsight.best_list_schedule(equal))


@pytest.mark.parametrize("schedule", [None, [0] * 6, INSTANCE])
def test_what_is_no_schedule_is_refused(state: SolveState, schedule: Any) -> None:
    with pytest.raises(InvalidTypeError, match="is not a Schedule"):
        state.offer(schedule)


@pytest.mark.parametrize("certified", [True, False])
def test_bounds_are_whole(state: SolveState, certified: bool) -> None:
    with pytest.raises(InvalidTypeError, match="neither a whole number nor a fraction"):
        state.raise_lower(state.lower_bound + 0.25, certified=certified)  # type: ignore[arg-type]
    state.raise_lower(Fraction(9, 4), certified=certified)  # type: ignore[arg-type]
    assert state.lower_bound == 3
    assert state.certified_lower_bound == (3 if certified else 0)
