"""The leaderboard for print: policies by sets, a table for each optimum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from online.comparison.ratios import Interval
from online.runtime.table import Table, csv_text

from .scores import EXACT
from .standings import COMPARED_WITH, Standing

DECIMALS = 3
OVER_SETS = "mean of these"
"""Heads the mean over all columns: a set counts as much as another, whatever its size."""

Statistic = Literal["mean", "max"]

CSV_COLUMNS = (
    *("set", "goal", "told", "compared_with", "policy", "instances", "compared", "proved"),
    *("mean_ratio_lower", "mean_ratio_upper", "max_ratio_lower", "max_ratio_upper", "reasons"),
)


def leaderboard_tables(standings: Sequence[Standing], statistic: Statistic = "mean") -> list[Table]:
    """A table for each optimum compared with and for what was told: a column for each set.

    Best first, by the lower end of the mean over all sets; policies that lack an instance of some
    set have no such mean, and stand below by how many instances they have.
    """
    kinds = sorted(
        {(one.goal, one.told) for one in standings},
        key=lambda kind: (list(COMPARED_WITH).index(kind[0]), kind[1] != EXACT),
    )
    return [
        _table([one for one in standings if (one.goal, one.told) == kind], *kind, statistic)
        for kind in kinds
    ]


def _table(own: Sequence[Standing], goal: str, told: str, statistic: Statistic) -> Table:
    columns = list(dict.fromkeys(one.set for one in own))
    rows: dict[str, dict[str, Standing]] = {}
    for one in own:
        rows.setdefault(one.policy, {})[one.set] = one
    several = len(columns) > 1
    ranked = sorted(rows.items(), key=lambda row: (*_rank(row[1], len(columns), statistic), row[0]))
    cells = tuple(
        (
            policy,
            *((_text(_over_sets(found, len(columns), statistic)),) if several else ()),
            *(_cell(found[name], statistic) if name in found else "" for name in columns),
        )
        for policy, found in ranked
    )
    figure = "makespan" if goal == "makespan" else "total latency"
    vague = "" if told == EXACT else f", lengths told as an {told}"
    ratio = f"{statistic} of {figure} / {COMPARED_WITH[goal]}{vague}"
    head = ("policy", *((OVER_SETS,) if several else ()), *columns)
    title = f"{ratio}; [at least, at most] where unproved"
    return Table(title, head, cells, frozenset({"policy"}))


def _over_sets(found: dict[str, Standing], columns: int, statistic: Statistic) -> Interval | None:
    """Of a policy that has every instance of every column."""
    standings = found.values()
    if len(found) < columns or any(one.compared < one.instances for one in standings):
        return None
    return Interval.mean_of([_value(one, statistic) for one in standings])


def _rank(
    found: dict[str, Standing], columns: int, statistic: Statistic
) -> tuple[int, Fraction, int]:
    mean = _over_sets(found, columns, statistic)
    compared = sum(one.compared for one in found.values())
    if mean is None or mean.lower is None:
        return 1, Fraction(0), -compared
    return 0, mean.lower, -compared


def _value(one: Standing, statistic: Statistic) -> Interval:
    return one.mean_ratio if statistic == "mean" else one.max_ratio


def _cell(one: Standing, statistic: Statistic) -> str:
    if not one.compared:
        return "-"
    part = "" if one.compared == one.instances else f" ({one.compared} of {one.instances})"
    return _text(_value(one, statistic)) + part


def _text(interval: Interval | None) -> str:
    return "-" if interval is None else interval.text(DECIMALS)


def without_ratio(standings: Sequence[Standing]) -> Table:
    """Why instances have no ratio: a row for each policy and kind of reason, the first as it is."""
    alike: dict[tuple[str, str], list[tuple[str, int, str]]] = {}
    for one in standings:
        for count, _, reason in one.reasons:
            kind = (one.policy, re.sub(r"\d+", "0", reason))
            alike.setdefault(kind, []).append((one.column, count, reason))
    rows = tuple(
        (
            *(policy, str(sum(count for _, count, _ in found))),
            "; ".join(dict.fromkeys(column for column, _, _ in found)),
            found[0][2],
        )
        for (policy, _), found in sorted(alike.items(), key=lambda one: one[0][0])
    )
    columns = ("policy", "instances", "of", "reason")
    text, order = frozenset({"policy", "of", "reason"}), ("policy", "reason", "instances", "of")
    return Table("without a ratio", columns, rows, text, order, frozenset({"of", "reason"}))


def standings_csv(standings: Sequence[Standing]) -> str:
    """For programs: every end of every interval in full; empty where it is not known."""
    lines: list[Sequence[object]] = [CSV_COLUMNS]
    for one in standings:
        told = (one.set, one.goal, one.told, one.compared_with, one.policy)
        reasons = "; ".join(f"{count}: {reason}" for count, _, reason in one.reasons)
        ends = (*one.mean_ratio.ends, *one.max_ratio.ends)
        lines.append((*told, one.instances, one.compared, one.proved, *ends, reasons))
    return csv_text(lines)
