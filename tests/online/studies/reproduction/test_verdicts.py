from __future__ import annotations

import pytest

from online.studies.reproduction.verdicts import by_share


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
