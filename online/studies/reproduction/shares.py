"""Statements that numbers bear out or not, and the verdict most rules end with: how many hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .declaration import Verdict


@dataclass(frozen=True)
class Statement:
    """A part of a claim, that can be held against numbers.

    Attributes
    ----------
    text : in a few words, with figures where that helps: ``"MC-SF above Sorted-F"``.
    holds : whether the numbers bear it out.
    """

    text: str
    holds: bool


def by_share(holds: Sequence[bool]) -> Verdict:
    """Reproduced where all statements hold, in part where some does."""
    if all(holds):
        return "reproduced"
    return "in part" if any(holds) else "not reproduced"
