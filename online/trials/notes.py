"""What is said in words about trials: means as percentages, and reasons of missing ratios."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from .intervals import Interval, rounded_down, rounded_up
from .table import divided_by, grouped
from .trial import LATENCY, Trial

LEAST = {
    "optimum": "the least possible in hindsight",
    "preemptive optimum": "the least possible in hindsight with preemption",
    "optimum in seconds": "the least possible in hindsight of any scheduler",
}
"""Optima of total latency in plain words."""

MOST_REASONS = 5
"""Reasons of a policy that are listed."""


def sentences(trials: Iterable[Trial]) -> list[str]:
    """Return for each optimum a sentence about mean ratios of total latency, the best first.

    Trials of several groups, or of several predictions or routers, need a table instead.
    """
    given = [one for one in trials if one.goal == LATENCY]
    if len(grouped(given, ["group", "predictions", "router"])) > 1:
        return []
    found = []
    for (compared_with,), own in grouped(given, ["compared_with"]).items():
        means = []
        for (policy,), several in grouped(own, ["policy"]).items():
            ratios = [one.ratio for one in several if one.ratio is not None]
            mean = Interval.mean_of(ratios)
            if mean.lower is not None:
                some = "" if len(ratios) == len(several) else f" ({len(ratios)} trials)"
                means.append((mean.lower, f"{_percent_above(mean)} with {policy}{some}"))
        if means:
            count = len(grouped(own, ["instance", "problem"]))
            these = "On this instance" if count == 1 else f"On average over {count} instances"
            parts = _listed([text for _, text in sorted(means)])
            found.append(f"{these}, total latency exceeds {LEAST[compared_with]} by {parts}.")
    return found


def _percent_above(ratio: Interval) -> str:
    least, most = (None if end is None else 100 * (end - 1) for end in (ratio.lower, ratio.upper))
    if least is None or ratio.is_exact:
        return f"{Interval(least, most).text(1)} %"
    if most is None:
        return f"at least {rounded_down(least, 1)} %"
    return f"{rounded_down(least, 1)} to {rounded_up(most, 1)} %"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def missing(trials: Sequence[Trial]) -> list[str]:
    """Name the rows of a table whose means leave out trials without a ratio."""
    notes = []
    names = divided_by(trials)
    for key, own in grouped(trials, names).items():
        failed = sum(one.ratio is None for one in own)
        if 0 < failed < len(own):
            row = ", ".join(filter(None, key))
            notes.append(f"{row}: its means leave out {failed} trials without a ratio")
    return notes


def reasons(trials: Iterable[Trial]) -> list[dict[str, Any]]:
    """Count why trials have no ratio: rows with policy, count, status and reason.

    Reasons that differ in numbers only are counted together, under the first of them.
    """
    alike: dict[tuple[str, str, str], list[Trial]] = {}
    for one in trials:
        if one.ratio is None:
            key = (one.policy, one.status, re.sub(r"\d+", "0", one.reason))
            alike.setdefault(key, []).append(one)
    listed: dict[tuple[str, str], int] = {}
    rows = []
    for (policy, status, _), own in sorted(alike.items(), key=lambda one: -len(one[1])):
        listed[policy, status] = listed.get((policy, status), 0) + 1
        if listed[policy, status] <= MOST_REASONS:
            reason = own[0].reason or "no optimum was asked for"
            row = {"policy": policy, "trials": len(own), "status": status, "reason": reason}
            rows.append(row)
    return rows
