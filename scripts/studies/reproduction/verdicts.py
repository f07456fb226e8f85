"""Statements that numbers bear out or not, and the one rule that makes verdicts of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from instances import InvalidValueError

Verdict = Literal["reproduced", "in part", "not reproduced", "by construction"]


@dataclass(frozen=True)
class Statement:
    """A part of a claim, that can be held against numbers.

    Attributes
    ----------
    text : str
        In a few words, with figures where that helps: ``"MC-SF above Sorted-F"``.
    holds : bool
        Whether the numbers bear it out.
    by_construction : bool
        Whether it could hardly have failed: the paper's figure was put into what is measured, as
        the published mean is into a law that is fitted to it.
    """

    text: str
    holds: bool
    by_construction: bool = False

    @property
    def counts(self) -> bool:
        """Tell whether it counts for a verdict: agreement by construction does not."""
        return not (self.holds and self.by_construction)


def verdict_of(statements: Sequence[Statement]) -> Verdict:
    """The rule for all papers: reproduced where all statements hold, in part from half of them on.

    What agrees by construction counts as neither; where nothing else is stated, that is the
    verdict.

    Raises
    ------
    InvalidValueError
        No statements.
    """
    if not statements:
        raise InvalidValueError(None, "statements", [], "is empty")
    held, counted = tally(statements)
    if not counted:
        return "by construction"
    if held == counted:
        return "reproduced"
    return "in part" if 2 * held >= counted else "not reproduced"


def tally(statements: Sequence[Statement]) -> tuple[int, int]:
    """Count the statements that count and hold, and those that count."""
    counted = [each.holds for each in statements if each.counts]
    return sum(counted), len(counted)


def share(statements: Sequence[Statement]) -> str:
    """``"2 of 3 statements"``; those that agree by construction are told apart."""
    held, counted = tally(statements)
    rest = len(statements) - counted
    if not counted:
        return "every statement" if rest > 1 else "its statement"
    others = f", {rest} more by construction" if rest else ""
    return f"{held} of {counted} statement{'s' if counted > 1 else ''}{others}"


def findings(statements: Sequence[Statement]) -> str:
    """Describe what holds, what fails, and what agrees by construction, a sentence each."""
    groups = {
        "Holds": [each.text for each in statements if each.holds and each.counts],
        "Fails": [each.text for each in statements if not each.holds],
        "By construction": [each.text for each in statements if not each.counts],
    }
    return " ".join(f"{heading}: {'; '.join(texts)}." for heading, texts in groups.items() if texts)


FACTOR = 2.0
"""A slope, or a distance from 1, agrees with a paper's within this factor either way."""

MARGIN = 0.1
"""Latencies that differ by less than this share count as equally good: batch times are a fit that
is off by up to 12 %, and the differences the paper names are larger."""


def agrees(found: float, published: float, factor: float = FACTOR) -> bool:
    """Tell whether the quotient of two positive figures lies in [1 / factor, factor]."""
    return found > 0 and published / factor <= found <= published * factor
