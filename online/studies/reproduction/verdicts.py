"""Statements that numbers bear out or not, and verdicts from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from instances import InvalidValueError

from .declaration import Verdict


@dataclass(frozen=True)
class Statement:
    """A part of a claim, that can be held against numbers.

    Attributes
    ----------
    text : str
        In a few words, with figures where that helps: ``"MC-SF above Sorted-F"``.
    holds : bool
        Whether the numbers bear it out.
    """

    text: str
    holds: bool


def by_share(holds: Sequence[bool], *, at_best_in_part: bool = False) -> Verdict:
    """Reproduced where all statements hold, in part where some does.

    Raises
    ------
    InvalidValueError
        No statements.
    """
    if not holds:
        raise InvalidValueError(None, "statements", [], "is empty")
    if all(holds) and not at_best_in_part:
        return "reproduced"
    return "in part" if any(holds) else "not reproduced"


FACTOR = 2.0
"""A slope, or a distance from 1, agrees with a paper's within this factor either way."""

MARGIN = 0.1
"""Latencies that differ by less than this share count as equally good: batch times are a fit that
is off by up to 12 %, and the differences the paper names are larger."""


def verdict_of(checks: Sequence[Statement], *, at_best_in_part: bool = False) -> Verdict:
    """`by_share` of what holds."""
    return by_share([check.holds for check in checks], at_best_in_part=at_best_in_part)


def told(statements: Sequence[Statement], what: str = "statements hold") -> str:
    """``"2 of 3 statements hold (not: ...)"``; ``what`` follows the numbers."""
    failing = [each.text for each in statements if not each.holds]
    count = f"{len(statements) - len(failing)} of {len(statements)} {what}"
    return f"{count} (not: {'; '.join(failing)})" if failing else count


def explain(checks: Sequence[Statement], *remarks: str) -> str:
    """One line: what holds, what does not, and remarks."""
    parts = []
    for heading, wanted in (("Holds", True), ("Fails", False)):
        texts = [check.text for check in checks if check.holds is wanted]
        if texts:
            parts.append(f"{heading}: {'; '.join(texts)}")
    return ". ".join([*parts, *(remark.rstrip(".") for remark in remarks if remark)]) + "."


def agrees(found: float, published: float, factor: float = FACTOR) -> bool:
    """Whether the quotient of two positive figures lies in [1 / factor, factor]."""
    return found > 0 and published / factor <= found <= published * factor
