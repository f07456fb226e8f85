from __future__ import annotations

import pytest

from instances import InvalidValueError
from studies.reproduction.verdicts import Statement, findings, share, verdict_of

YES, NO = Statement("a", True), Statement("b", False)
FITTED, MISFIT = Statement("c", True, True), Statement("d", False, True)


@pytest.mark.parametrize(
    ("statements", "verdict"),
    [
        ([YES, YES], "reproduced"),
        ([YES, NO], "in part"),
        ([YES, NO, NO], "not reproduced"),
        ([NO], "not reproduced"),
        ([FITTED], "by construction"),
        # Agreement by construction neither makes a half nor spoils a whole.
        ([FITTED, YES], "reproduced"),
        ([FITTED, FITTED, NO], "not reproduced"),
        ([FITTED, YES, NO], "in part"),
        # What was put in and yet fails does not agree.
        ([MISFIT, YES], "in part"),
    ],
)
def test_one_rule_makes_all_verdicts(statements: list[Statement], verdict: str) -> None:
    assert verdict_of(statements) == verdict


def test_no_statements_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="statements"):
        verdict_of([])


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        ([YES, NO], "1 of 2 statements"),
        ([NO], "0 of 1 statement"),
        ([YES, FITTED, FITTED], "1 of 1 statement, 2 more by construction"),
        ([FITTED, FITTED], "every statement"),
        ([FITTED], "its statement"),
    ],
)
def test_a_verdict_says_on_how_much_it_rests(statements: list[Statement], text: str) -> None:
    assert share(statements) == text


def test_what_holds_fails_and_agrees_by_construction_is_told_apart() -> None:
    assert (
        findings([NO, YES, FITTED, MISFIT, YES]) == "Holds: a; a. Fails: b; d. By construction: c."
    )
