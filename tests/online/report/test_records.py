"""What a report is made of: checked at the door, costs from start times."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import online
from instances import Instance, InvalidValueError
from online.comparison.comparing import compare
from online.comparison.ratios import Interval
from online.experiment import Experiment, Family, Solver, read_results, run_experiment
from online.policy_interface.specs import PolicySpec
from online.report import TrialRecord, compare_in_full
from online.report.results import records_of_results

THREE = Instance.from_arrays([1, 2, 1], [3, 2, 2], [0, 0, 1], memory_limit=7, name="three")


def trial(**changes: Any) -> TrialRecord:
    fields: dict[str, Any] = {
        "instance": THREE,
        "policy": "p",
        "seed": 0,
        "status": "completed",
        "start_times": (0, 3, 3),
        "optimum_start_times": (0, 0, 2),
        "optimum_lower": 7,
    }
    return TrialRecord(**{**fields, **changes})


def test_costs_and_ratio_come_from_start_times() -> None:
    found = trial()
    # Latencies 3, 5, 4 against 3, 2, 3.
    assert (found.total_latency, found.optimum_upper, found.is_proved) == (12, 8, False)
    assert found.ratio == Interval(Fraction(12, 8), Fraction(12, 7))
    assert (found.compared.waiting, found.compared.optimum_waiting.text(0)) == (5, "[0, 1]")
    assert trial(optimum_lower=8).is_proved
    assert trial(optimum_lower=None).ratio == Interval(Fraction(12, 8), None)
    assert trial(optimum_start_times=None).ratio == Interval(None, Fraction(12, 7))
    failed = trial(status="livelock", start_times=None)
    assert (failed.total_latency, failed.ratio, failed.optimum_upper) == (None, None, 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start_times": None}, "do not go with status 'completed'"),
        ({"status": "stalled"}, "do not go with status 'stalled'"),
        ({"start_times": (0, 0, 1)}, "start_times = 'a schedule' breaks: round 2 holds 2 tokens"),
        ({"optimum_start_times": (0, 0, 0)}, "optimum = 'a schedule' breaks: request 2 starts"),
        ({"start_times": (0, 3)}, "differs from the 3 requests"),
        ({"optimum_lower": 9}, "optimum_lower = 9 exceeds the total latency 8 of optimum"),
        ({"optimum_lower": 13}, "exceeds the total latency 12 of start_times"),
        ({"instance": None}, "instance = None is missing"),
        ({"lost_attempts": ((3, 0, 1),)}, r"lost_attempts = \(3, 0, 1\) is no stay"),
        ({"served": ((0, 0),)}, "served = .* is for runs that did not complete"),
        (
            {"status": "livelock", "start_times": None, "served": ((3, 0),)},
            r"served = \(3, 0\) is no stay",
        ),
        ({"lost_attempts": ((0, 2, 2),)}, r"lost_attempts = \(0, 2, 2\) is no stay"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        trial(**changes)


def test_comparing_in_full_agrees_with_the_comparison() -> None:
    full = compare_in_full([THREE], ["mc-sf", "fcfs"])
    brief = compare(THREE, ["mc-sf", "fcfs"])
    for one, other in zip(full, brief, strict=True):
        assert (one.policy, one.total_latency, one.ratio) == (
            other.policy_label,
            other.total_latency,
            other.ratio,
        )
        assert (one.optimum_upper, one.optimum_lower) == (8, 8)


def test_a_livelocked_run_keeps_what_it_served_and_what_it_lost() -> None:
    stuck = Instance.from_arrays([1, 1, 1], [1, 3, 3], memory_limit=7)
    (found,) = compare_in_full([stuck], [PolicySpec("alpha-protection", {"alpha": 0.1})])
    run = online.simulate(stuck, online.make_policy("alpha-protection", alpha=0.1))
    assert found.status == run.status == "livelock"
    assert found.start_times is None
    assert len(found.lost_attempts) == run.evictions > 0
    done = [index for index, end in enumerate(run.completion_rounds.tolist()) if end >= 0]
    assert sorted(request for request, _ in found.served) == done != []


def test_a_results_file_gives_the_records_of_its_trials(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    experiment = Experiment(
        "small",
        [
            Family("arrival-model-1", {"n": 4}, seeds=(0, 1)),
            Family("uniform", {"n": 3, "maximum_length": 4, "memory_limit": 12}),
        ],
        ["mc-sf", PolicySpec("alpha-protection", {"alpha": 0.1})],
        solver=Solver(),
    )
    run_experiment(experiment, path, jobs=1)
    results = read_results(path)
    records = records_of_results(results)
    assert len(records) == len(results) == 6
    for found, result in zip(records, results, strict=True):
        expected = result.record
        assert expected is not None
        assert (found.status, found.total_latency) == (expected.status, expected.total_latency)
        assert (found.optimum_upper, found.ratio) == (expected.optimum_upper, expected.ratio)
        assert found.compared.waiting_ratio == expected.waiting_ratio
        assert len(found.lost_attempts) == expected.evictions
        assert found.instance is not None
        assert found.instance.name == result.name
    # Families are told apart, for no ratio is averaged over both; there is one experiment.
    assert [one.group for one in records[::2]] == [
        *["arrival-model-1(n=4)"] * 2,
        "uniform(maximum_length=4, memory_limit=12, n=3)",
    ]
    assert {one.policy for one in records} == {"mc-sf", "alpha-protection(alpha=0.1)"}
    assert records_of_results(results[:2])[0].group == ""
