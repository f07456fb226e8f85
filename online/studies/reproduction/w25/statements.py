"""Verdicts from statements that numbers bear out or not."""

from __future__ import annotations

from collections.abc import Sequence

from instances import InvalidValueError
from online.studies.reproduction.declaration import Verdict
from online.studies.reproduction.verdicts import Statement

IN_PART = 0.5


def verdict_of(statements: Sequence[Statement]) -> Verdict:
    """``"reproduced"`` where all hold, ``"in part"`` where at least the share `IN_PART` does.

    Raises
    ------
    InvalidValueError
        No statements.
    """
    if not statements:
        raise InvalidValueError(None, "statements", [], "is empty")
    share = sum(each.holds for each in statements) / len(statements)
    if share == 1:
        return "reproduced"
    return "in part" if share >= IN_PART else "not reproduced"


def told(statements: Sequence[Statement], what: str = "statements hold") -> str:
    """``"2 of 3 statements hold (not: ...)"``; ``what`` follows the numbers."""
    failing = [each.text for each in statements if not each.holds]
    count = f"{len(statements) - len(failing)} of {len(statements)} {what}"
    return f"{count} (not: {'; '.join(failing)})" if failing else count
