"""Ctrl-C: what counts, who hears of it, and that a search keeps its interval."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

import hindsight
from hindsight.rounds import openings, solving
from instances import ctrl_c, generate
from instances.ctrl_c import Interruption


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    """As a test run in the foreground has it; and it is there again afterwards."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every press counts."""
    monkeypatch.setattr(ctrl_c, "FLURRY_SECONDS", 0.0)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def press_twice(*_: Any, **__: Any) -> None:
    press()
    press()


def test_a_key_held_down_is_one_press() -> None:
    with Interruption() as pressed:
        assert not pressed()
        for _ in range(5):
            press()
        assert pressed()
        assert pressed.presses == 1


def test_a_second_press_raises(patient: None) -> None:
    with Interruption() as pressed:
        press()
        assert pressed()
        with pytest.raises(KeyboardInterrupt):
            press()
    with Interruption(math.inf) as pressed:
        for _ in range(5):
            press()
        assert pressed.presses == 5


def test_what_is_pressed_inside_is_told_outside(patient: None) -> None:
    with Interruption(math.inf) as outer:
        with Interruption() as inner:
            press()
        assert inner()
        assert outer()
        press()
        assert (inner.presses, outer.presses) == (1, 2)


def test_what_is_pressed_before_a_computation_listens_ends_it() -> None:
    """While a command loads its solver, say: nobody else would ever hear of it."""
    with Interruption(math.inf):
        press()
        found = hindsight.solve(generate("arrival-model-1", 0, n=50), time_limit=60)
        assert found.stop_reason == "interrupted"
        with Interruption() as next_one:
            assert next_one()


@pytest.mark.parametrize(
    ("size", "step"), [(12, "refusal"), (301, "proved_horizon"), (12, "callback")]
)
def test_a_search_that_is_broken_off_keeps_its_interval(
    patient: None, monkeypatch: pytest.MonkeyPatch, size: int, step: str
) -> None:
    """Where it has one: in a step that asks nobody, or in the listener."""
    callback = press_twice if step == "callback" else None
    if callback is None:
        owner: Any = openings if step == "proved_horizon" else solving
        monkeypatch.setattr(owner, step, press_twice)
    instance = generate("arrival-model-1", 1, n=size)
    found = hindsight.solve(instance, progress=callback)
    assert (found.status, found.stop_reason) == ("feasible", "interrupted")
    assert found.schedule.is_feasible
    assert 0 < found.certified_lower_bound <= found.lower_bound < found.upper_bound


def test_before_there_is_an_interval_it_is_an_interrupt(
    patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openings.lists, "first_schedule", press_twice)
    with pytest.raises(KeyboardInterrupt):
        hindsight.solve(generate("arrival-model-1", 1, n=4))
