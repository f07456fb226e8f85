"""Frames of trials: exact ends of intervals, failures counted, policies in pairs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import online
from instances import Instance, InvalidValueError
from online import Interval

SMALL = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6, name="small")


def trial(
    policy: str, cost: int | None, lower: int | None, upper: int, **changes: Any
) -> online.Trial:
    (one,) = online.sweep([SMALL], "fcfs", optimum=None)
    return replace(one, policy=policy, cost=cost, lower=lower, upper=upper, **changes)


def test_means_have_exact_ends() -> None:
    other = {"instance": "other", "digest": "d"}
    trials = [trial("p", 8, 7, 7), trial("p", 9, 5, 8, **other), trial("q", 7, 7, 7)]
    rows = online.table(trials)
    assert rows["policy"].tolist() == ["p", "q"]
    assert rows["mean ratio"][0] == Interval(
        (Fraction(8, 7) + Fraction(9, 8)) / 2, (Fraction(8, 7) + Fraction(9, 5)) / 2
    )
    assert rows["max ratio"][0] == Interval(Fraction(8, 7), Fraction(9, 5))
    assert rows["proved"].tolist() == [1, 1]
    assert str(rows["mean ratio"][0]) == "[1.1339, 1.4715]"


def test_failures_are_counted_and_enter_no_mean() -> None:
    failed = trial("p", None, 7, 7, status="failed", reason="KeyError: 1", seed=1)
    rows = online.table([trial("p", 7, 7, 7), failed])
    assert (rows["trials"][0], rows["failed"][0], str(rows["mean ratio"][0])) == (2, 1, "1.0000")


def test_an_unknown_bound_is_unknown_in_the_mean() -> None:
    rows = online.table([trial("p", 9, None, 9)])
    assert str(rows["mean ratio"][0]) == "[1.0000, ?]"


def test_rows_are_divided_by_what_differs() -> None:
    one = trial("p", 8, 7, 7)
    assert list(online.table([one]).columns)[:2] == ["policy", "trials"]
    rows = online.table([one, replace(one, group="g", predictions="noisy(delta=1)")])
    assert list(rows.columns)[:3] == ["group", "policy", "predictions"]
    assert len(online.table([one, replace(one, group="g")], by=["policy"])) == 1
    assert online.table([]).empty


def test_frame_has_a_row_for_each_trial() -> None:
    rows = online.frame([trial("p", 8, 7, 7)])
    assert (rows["cost"][0], rows["lower"][0]) == (8, 7)
    assert rows["ratio"][0] == Interval(Fraction(8, 7), Fraction(8, 7))


def test_pairs_need_no_optimum() -> None:
    other = {"instance": "other", "digest": "d"}
    trials = [
        *(trial("p", 8, None, 8), trial("p", 6, None, 6, **other)),
        *(trial("q", 4, None, 4), trial("q", 9, None, 9, **other)),
    ]
    rows = online.paired(trials, "p")
    assert rows["policy"].tolist() == ["q"]
    assert rows["mean share"][0] == Interval.between(1, 1)
    assert rows[["pairs", "lower", "equal", "higher"]].to_numpy().tolist() == [[2, 1, 0, 1]]
    with pytest.raises(InvalidValueError, match="has no trial with a cost"):
        online.paired(trials, "r")
