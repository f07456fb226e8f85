"""The one clock: what stops a computation, the reason it gives, and slices of long loops."""

from __future__ import annotations

import math
import os
import re
import signal
from pathlib import Path

import pytest

import hindsight
from hindsight.runtime import clock as clock_module
from hindsight.runtime.clock import SLICE_SECONDS, Clock, Slices, StoppedEarlyError, timed_slices
from instances import generate


class Hands:
    """Stands in for the time module; the test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    found = Hands()
    monkeypatch.setattr(clock_module, "time", found)
    return found


def test_it_runs_out(hands: Hands) -> None:
    hands.now = 100.0
    clock = Clock(10)
    hands.now = 109.5
    assert (clock.seconds(), clock.seconds_left(), clock.limit_left()) == (9.5, 0.5, 0.5)
    assert not clock.must_stop()
    assert clock.stop_reason() == "stalled"
    assert clock.stop_reason(spare=0.5) == "time-limit"
    hands.now = 110.0
    assert clock.must_stop()
    hands.now = 112.0
    assert (clock.seconds_left(), clock.limit_left()) == (-2.0, 0.0)
    assert clock.stop_reason() == "time-limit"
    clock.allow(3)
    assert not clock.must_stop()
    assert (clock.seconds(), clock.limit_left()) == (12.0, 3.0)
    clock.allow(None)
    hands.now = 1e9
    assert not clock.must_stop()
    assert clock.limit_left() is None
    assert math.isinf(clock.seconds_left())


def test_an_interruption_is_remembered_and_comes_first(hands: Hands) -> None:
    answers = iter([False, True, False, False])
    clock = Clock(1, lambda: next(answers))
    assert [clock.must_stop() for _ in range(3)] == [False, True, True]
    hands.now = 5.0
    assert clock.stop_reason() == "interrupted"
    stopped = Clock()
    stopped.interrupt()
    assert stopped.must_stop()


def test_who_is_polled_keeps_ctrl_c_to_himself() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        clock = Clock()
        with clock.listening():
            assert not clock.must_stop()
            os.kill(os.getpid(), signal.SIGINT)
            assert clock.must_stop()
            assert clock.stop_reason() == "interrupted"
        with Clock(None, lambda: False).listening(), pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_slice_cut_short_says_nothing_of_longer_ones(hands: Hands) -> None:
    slices, hands.now = Slices(), 9.0
    for most, expected in ((9, 1), (9, 2), (3, 3), (3, 3), (9, 4), (9, 8)):
        with slices.next(most) as length:
            assert length == expected


def test_slices_cover_the_range_and_are_left_at_a_stop(hands: Hands) -> None:
    hands.now = 9.0
    parts = [*timed_slices(100, lambda: True)]
    assert [k for part in parts for k in range(100)[part]] == list(range(100))
    hands.now, asked = 0.0, []

    def ask() -> bool:
        asked.append(hands.now)
        return len(asked) == 3

    done: list[slice] = []

    def work() -> None:
        for part in timed_slices(100, ask):
            done.append(part)
            hands.now += SLICE_SECONDS

    with pytest.raises(StoppedEarlyError):
        work()
    assert (len(asked), done[-1].stop) == (3, 3)


def test_nothing_else_reads_the_time() -> None:
    """Benchmarks measure from outside."""
    root = Path(hindsight.__file__).parent
    reads = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"^\s*(import time|from time) *", path.read_text("utf-8"), re.MULTILINE)
    }
    assert reads == {"runtime/clock.py"}


def test_what_is_affordable_in_the_time_left() -> None:
    clock = Clock(100.0)
    assert clock.affordable(500, 0.1) == 500
    assert 90 <= clock.affordable(1000, 1.0) <= 97
    assert Clock().affordable(1000, 1.0) == 1000
    over = Clock(-1.0)
    # Nothing is known of the steps, or one is the least.
    assert (over.affordable(1000, 0.0), over.affordable(1000, 1.0)) == (1000, 1)


@pytest.mark.parametrize("limit", [0, 0.5])
def test_no_work_is_begun_after_the_time_limit(
    limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[bool] = []
    must_stop = Clock.must_stop

    def noted(clock: Clock) -> bool:
        answers.append(must_stop(clock))
        return answers[-1]

    monkeypatch.setattr(Clock, "must_stop", noted)
    instance = generate("arrival-model-1", seed=40, n=40)
    result = hindsight.solve(instance, time_limit=limit, threads=1)
    assert answers.count(True) <= 50
    assert (result.status, result.stop_reason) == ("feasible", "time-limit")
    assert 0 < result.certified_lower_bound <= result.lower_bound < result.upper_bound
    assert 0 < result.gap <= result.certified_gap < 1
