from __future__ import annotations

import pytest

from instances import InvalidValueError
from online.studies.reproduction.verdicts import Statement
from online.studies.reproduction.w25.statements import told, verdict_of


@pytest.mark.parametrize(
    ("holding", "of", "verdict"),
    [
        (3, 3, "reproduced"),
        (2, 4, "in part"),
        (3, 4, "in part"),
        (1, 3, "not reproduced"),
        (0, 1, "not reproduced"),
    ],
)
def test_a_verdict_counts_the_statements_that_hold(holding: int, of: int, verdict: str) -> None:
    assert verdict_of([Statement(f"s{k}", k < holding) for k in range(of)]) == verdict


def test_no_statements_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="statements"):
        verdict_of([])


def test_what_fails_is_named() -> None:
    assert told([Statement("a", True), Statement("b", True)]) == "2 of 2 statements hold"
    assert told([Statement("a", False), Statement("b", True), Statement("c", False)]) == (
        "1 of 3 statements hold (not: a; c)"
    )
