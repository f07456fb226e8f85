"""What a report is made of: checked at the door, costs from start times."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from trials_by_hand import trial_by_hand

import online
from instances import Instance, InvalidValueError
from online import compare
from online.comparison import Interval, PolicySpec, Trial

THREE = Instance.from_arrays([1, 2, 1], [3, 2, 2], [0, 0, 1], memory_limit=7, name="three")


def trial(**changes: Any) -> Trial:
    fields: dict[str, Any] = {
        "instance": THREE,
        "policy": "p",
        "starts": (0, 3, 3),
        "optimum": (0, 0, 2),
        "lower": 7,
    }
    return trial_by_hand(**{**fields, **changes})


def test_costs_and_ratio_come_from_start_times() -> None:
    found = trial()
    # Latencies 3, 5, 4 against 3, 2, 3.
    assert (found.total_latency, found.optimum_upper, found.is_proved) == (12, 8, False)
    assert found.ratio == Interval(Fraction(12, 8), Fraction(12, 7))
    assert (found.waiting, found.optimum_waiting.text(0)) == (5, "[0, 1]")
    assert trial(lower=8).is_proved
    assert trial(lower=None).ratio == Interval(Fraction(12, 8), None)
    assert trial(optimum=None).ratio == Interval(None, Fraction(12, 7))
    failed = trial(status="livelock", starts=None)
    assert (failed.total_latency, failed.ratio, failed.optimum_upper) == (None, None, 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"starts": None}, "do not go with status 'completed'"),
        ({"status": "stalled"}, "do not go with status 'stalled'"),
        ({"starts": (0, 0, 1)}, "start_times = 'a schedule' breaks: round 2 holds 2 tokens"),
        ({"optimum": (0, 0, 0)}, "optimum = 'a schedule' breaks: request 2 starts"),
        ({"starts": (0, 3)}, "differs from the 3 requests"),
        ({"lower": 9}, "optimum_lower = 9 exceeds the total latency 8 of optimum"),
        ({"lower": 13}, "exceeds the total latency 12 of start_times"),
        ({"instance": None}, "start_times = None do not go with status 'completed'"),
        ({"lost": ((3, 0, 1),)}, r"lost_attempts = \(3, 0, 1\) is no stay"),
        (
            {"status": "livelock", "starts": None, "served": ((3, 0),)},
            r"served = \(3, 0\) is no stay",
        ),
        ({"lost": ((0, 3, 2),)}, r"lost_attempts = \(0, 3, 2\) is no stay"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        trial(**changes)


def test_a_livelocked_run_keeps_what_it_served_and_what_it_lost() -> None:
    stuck = Instance.from_arrays([1, 1, 1], [1, 3, 3], memory_limit=7)
    (found,) = compare(stuck, [PolicySpec("alpha-protection", {"alpha": 0.1})])
    run = online.simulate(stuck, online.make_policy("alpha-protection", alpha=0.1))
    assert found.status == run.status == "livelock"
    assert found.schedule is None
    assert len(found.lost_attempts) == run.evictions > 0
    done = [index for index, end in enumerate(run.completion_rounds.tolist()) if end >= 0]
    assert sorted(request for request, _ in found.served) == done != []
