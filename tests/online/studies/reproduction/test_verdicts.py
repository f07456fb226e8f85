from __future__ import annotations

import pytest

from instances import InvalidValueError
from online.studies.reproduction.verdicts import Statement, by_share, told, verdict_of


@pytest.mark.parametrize(
    ("holds", "verdict"),
    [
        ([True, True], "reproduced"),
        ([True, False], "in part"),
        ([False, False], "not reproduced"),
    ],
)
def test_a_verdict_goes_by_how_often_a_claim_holds(holds: list[bool], verdict: str) -> None:
    assert by_share(holds) == verdict


def test_what_holds_by_construction_is_in_part_at_best() -> None:
    yes, no = Statement("a", True), Statement("b", False)
    assert verdict_of([yes, yes], at_best_in_part=True) == "in part"
    assert verdict_of([yes, no], at_best_in_part=True) == "in part"
    assert verdict_of([no], at_best_in_part=True) == "not reproduced"


def test_no_statements_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="statements"):
        verdict_of([])


def test_what_fails_is_named() -> None:
    assert told([Statement("a", True), Statement("b", True)]) == "2 of 2 statements hold"
    assert told([Statement("a", False), Statement("b", True), Statement("c", False)]) == (
        "1 of 3 statements hold (not: a; c)"
    )
