"""The verdicts of the first round of measurements, when papers had rules of their own.

Kept so that the page can say what has changed since, and why. Nothing else reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .record import Recorded
from .verdicts import Verdict, tally


class Rule(Enum):
    """How a verdict was made."""

    SOME = "in part where some statement held"
    CAPPED = "in part at best"
    OWN = "a rule of its own"


@dataclass(frozen=True)
class Earlier:
    """A verdict, and the rule that made it."""

    verdict: Verdict
    rule: Rule


def _all(rule: Rule, **names: str) -> dict[str, Earlier]:
    verdicts: dict[str, Verdict] = {
        "reproduced": "reproduced",
        "part": "in part",
        "failed": "not reproduced",
    }
    return {
        name: Earlier(verdicts[kind], rule)
        for kind, listed in names.items()
        for name in listed.split()
    }


EARLIER = {
    **_all(
        Rule.SOME,
        reproduced="w25-figure-6 w25-figure-ec1 w25-figure-ec2",
        part="j25-figure-3-high-demand j25-figure-3-low-demand j25-figure-6 j25-figure-8 "
        "j25-figure-9 j25-figure-11 j25-table-1 w25-figure-8 w25-table-ec1 a25-figure-8 "
        "a25-figure-9 a25-figure-10 a25-figure-16 a25-figure-17 a25-figure-18",
        failed="j25-figure-7 j25-figure-10 c25-figure-6 c25-figure-7 a25-figure-7 a25-figure-11 "
        "a25-figure-12 a25-figure-13 a25-figure-14",
    ),
    **_all(
        Rule.CAPPED,
        part="j25-figure-2-model-2 j25-figure-5 w25-figure-5 w25-figure-7",
        failed="j25-figure-2-model-1",
    ),
    **_all(
        Rule.OWN,
        part="c25-figure-1 c25-figure-2 c25-figure-3-geometric c25-figure-3-weighted c25-figure-4 "
        "c25-figure-5",
        failed="a25-figure-15",
    ),
}
"""By name."""


def change(now: Recorded) -> str | None:
    """Why the verdict is another one than before, in a few words; None where it is not."""
    earlier = EARLIER.get(now.name)
    if earlier is None or earlier.verdict == now.verdict:
        return None
    held, counted = tally(now.statements)
    if not counted:
        return "agreement by construction was in part, and counts as neither"
    if earlier.rule is Rule.CAPPED:
        return f"was in part at best; {now.share}"
    if earlier.rule is Rule.OWN:
        return f"had a rule of its own; {now.share}"
    if earlier.verdict == "in part" and 0 < held < counted:
        return f"one was enough for in part; {now.share}"
    return f"measured anew: {now.share}"
