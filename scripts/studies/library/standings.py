"""Ratios of policies to the optima in the records of the library, as intervals in tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from instances import InvalidValueError, Library, LibraryEntry
from instances import Record as LibraryRecord
from instances.catalogue.records import LATE
from online.tables import Table
from online.trials.intervals import NOTHING, Interval, Latency

from .scores import EXACT, Score

COMPARED_WITH: Mapping[str, str] = {
    "total_latency": "optimum",
    "preemptive_total_latency": "preemptive optimum",
    "makespan": "least makespan",
    "seconds": "optimum in seconds",
    LATE: "most requests on time",
}
"""Name of the optimum for tables, by the goal of an instance."""


FIGURES = {"makespan": "makespan", LATE: "requests on time"}
"""Name of the compared cost by the goal of an instance. For all other goals it is total latency."""

ROUNDING = Fraction(1, 10**12)
"""Share by which a record in seconds may be above its schedule, because it is a rounded float."""

DECIMALS = 3
OVER_SETS = "mean of these"
"""Heading of the column with the mean over all sets. Each set counts once, whatever its size."""


Reasons: TypeAlias = tuple[tuple[int, str, str], ...]
"""Reasons for scores without a ratio, each as (number of scores, status, reason)."""


@dataclass(frozen=True)
class Standing:
    """Ratios of a policy on those instances of a set that have the same goal.

    Attributes
    ----------
    set, goal, told, policy : str
        The set, the goal, the predictions (`EXACT` or `INTERVAL`), and the label of the policy.
    instances, compared, proved : int
        Number of instances, of those with a ratio, and of those with a proved optimum.
    mean_ratio, max_ratio : Interval
        Intervals of the mean and of the largest ratio: means and maxima of the ends.
    reasons : Reasons
        Why instances have no ratio (`count_alike`).
    """

    set: str
    goal: str
    told: str
    policy: str
    instances: int
    compared: int
    proved: int
    mean_ratio: Interval
    max_ratio: Interval
    reasons: Reasons = ()

    @property
    def compared_with(self) -> str:
        """Name of the optimum by which costs are divided."""
        return COMPARED_WITH[self.goal]

    @property
    def column(self) -> str:
        """Heading of the column of this standing in the table of its goal."""
        return self.set if self.told == EXACT else f"{self.set}, told an {self.told}"


MOST_REASONS = 5
"""Largest number of different reasons of a policy that are listed."""


def count_alike(ended: Sequence[tuple[str, str]]) -> Reasons:
    """Count equal pairs (status, reason). Reasons that differ only in numbers count as equal."""
    alike: dict[str, dict[str, list[str]]] = {}
    for status, reason in ended:
        alike.setdefault(status, {}).setdefault(re.sub(r"\d+", "0", reason), []).append(reason)
    counted: list[tuple[int, str, str]] = []
    for status, kinds in alike.items():
        found = sorted(kinds.values(), key=len, reverse=True)
        counted += [(len(own), status, own[0]) for own in found[:MOST_REASONS]]
        if rest := found[MOST_REASONS:]:
            counted.append((sum(map(len, rest)), status, f"{len(rest)} other reasons"))
    return tuple(counted)


Records: TypeAlias = Callable[[str], LibraryRecord | None]
"""Function that returns the record of an instance by its name, or None."""


def standings(scores: Sequence[Score], library: Library, records: Records) -> list[Standing]:
    """Return the standing of each policy on each set, in the order of the scores.

    The optimum of an instance is in the interval of its record. If the best policy has a lower cost
    than the upper end of this interval, its cost is taken as the upper end: its run is a schedule
    too.

    Raises
    ------
    InvalidValueError
        The cost of a policy is below the lower bound of the record, so one of them is wrong.
    """
    optima = _optima(scores, records)
    groups: dict[tuple[str, str, str, str], list[Score]] = {}
    for score in scores:
        entry = library[score.instance]
        key = (entry.set, str(entry.goal), score.told, score.policy)
        groups.setdefault(key, []).append(score)
    found = []
    for key, own in groups.items():
        ratios, proved = [], 0
        for score in own:
            if score.figure is not None:
                optimum = optima[score.instance]
                proved += optimum.is_exact
                ratios.append(_ratio(library[score.instance], score.figure, optimum))
        missing = [("", one.reason or "") for one in own if one.figure is None]
        means = (Interval.mean_of(ratios), Interval.largest_of(ratios))
        found.append(
            Standing(*key, len(own), len(ratios), proved, *means, reasons=count_alike(missing))
        )
    return found


def _ratio(entry: LibraryEntry, figure: Latency, optimum: Interval) -> Interval:
    """Return the ratio of a cost (``figure``) to the optimum.

    For the goal of late requests it is the ratio of the requests on time, where more is better.
    """
    if entry.level is None:
        return Interval.of_share(figure, optimum)
    most, least = (entry.n - Fraction(end or 0) for end in (optimum.lower, optimum.upper))
    return Interval.of_share(entry.n - figure, Interval(least, most))


def beaten(scores: Sequence[Score], records: Records) -> list[str]:
    """Return a text for each record that is worse than the run of some policy."""
    lines = []
    for name, (figure, policy) in _best(scores).items():
        upper = _ends(records(name)).upper
        # A record in seconds is rounded up, so only a difference above ROUNDING counts.
        if upper is not None and figure < upper * (1 - ROUNDING):
            shown = f"{float(figure):.10g}, its record to {float(upper):.10g}"
            lines.append(f"{name}: {policy} comes to {shown}")
    return lines


def _ends(record: LibraryRecord | None) -> Interval:
    if record is None:
        return Interval(None, None)
    # A record in seconds has floats. Fraction converts them exactly.
    return Interval(Fraction(record.lower_bound), Fraction(record.upper_bound))


def _best(scores: Sequence[Score]) -> dict[str, tuple[Latency, str]]:
    """Return, for each instance, the least cost of any policy, and the first policy with it."""
    best: dict[str, tuple[Latency, str]] = {}
    for score in scores:
        known = best.get(score.instance)
        if score.figure is not None and (known is None or score.figure < known[0]):
            best[score.instance] = (score.figure, score.policy)
    return best


def _optima(scores: Sequence[Score], records: Records) -> dict[str, Interval]:
    optima = {}
    for name, (figure, policy) in _best(scores).items():
        known = _ends(records(name))
        if known.lower is not None and figure < known.lower:
            reason = f"exceeds {figure}, the cost of policy {policy}"
            raise InvalidValueError(name, "lower_bound", known.lower, reason)
        upper = figure if known.upper is None else min(known.upper, figure)
        optima[name] = Interval.between(known.lower, upper)
    return optima


def leaderboard_tables(standings: Sequence[Standing]) -> list[Table]:
    """Return a table for each optimum and each kind of predictions, with a column for each set.

    Rows are sorted by the lower end of the mean over all sets, the best policy first. The best has
    the least ratio, or for requests on time the largest. A policy without a ratio on some instance
    has no such mean. Such policies follow, sorted by their number of instances with a ratio.
    """
    kinds = sorted(
        {(one.goal, one.told) for one in standings},
        key=lambda kind: (list(COMPARED_WITH).index(kind[0]), kind[1] != EXACT),
    )
    return [
        _table([one for one in standings if (one.goal, one.told) == kind], *kind) for kind in kinds
    ]


def _table(own: Sequence[Standing], goal: str, told: str) -> Table:
    columns = list(dict.fromkeys(one.set for one in own))
    policies: dict[str, dict[str, Standing]] = {}
    for one in own:
        policies.setdefault(one.policy, {})[one.set] = one
    means = {
        policy: _over_sets(list(found.values()), len(columns)) for policy, found in policies.items()
    }

    # A larger share of requests on time is better, a larger ratio of other costs is worse.
    sign = -1 if goal == LATE else 1

    def rank(policy: str) -> tuple[bool, Fraction, int, str]:
        least = means[policy].lower
        compared = sum(one.compared for one in policies[policy].values())
        return least is None, sign * Fraction(least or 0), -compared, policy

    head = ["policy", *columns]
    rows = []
    for policy in sorted(policies, key=rank):
        found = policies[policy]
        cells = [_cell(found[name]) if name in found else "" for name in columns]
        rows.append([policy, *cells])
    if len(columns) > 1:
        head.insert(1, OVER_SETS)
        for row in rows:
            mean = means[row[0]]
            row.insert(1, "-" if mean == NOTHING else mean.text(DECIMALS))
    figure = FIGURES.get(goal, "total latency")
    vague = "" if told == EXACT else f", lengths told as an {told}"
    ratio = f"mean of {figure} / {COMPARED_WITH[goal]}{vague}"
    title = f"{ratio}; [at least, at most] where unproved"
    return Table(title, tuple(head), tuple(map(tuple, rows)), frozenset({"policy"}))


def _over_sets(found: Sequence[Standing], columns: int) -> Interval:
    """Return the mean over ``columns`` sets of the policy's mean ratios.

    It is unknown if the policy has no ratio on some instance of one of these sets.
    """
    if len(found) < columns or any(one.compared < one.instances for one in found):
        return NOTHING
    return Interval.mean_of([one.mean_ratio for one in found])


def _cell(one: Standing) -> str:
    if not one.compared:
        return "-"
    part = "" if one.compared == one.instances else f" ({one.compared} of {one.instances})"
    return one.mean_ratio.text(DECIMALS) + part


def without_ratio(standings: Sequence[Standing]) -> Table:
    """Return a table of the reasons why instances have no ratio, by policy."""
    alike: dict[tuple[str, str], list[tuple[str, int, str]]] = {}
    for one in standings:
        for count, _, reason in one.reasons:
            kind = (one.policy, re.sub(r"\d+", "0", reason))
            alike.setdefault(kind, []).append((one.column, count, reason))
    rows = []
    for (policy, _), found in sorted(alike.items(), key=lambda one: one[0][0]):
        places = "; ".join(dict.fromkeys(column for column, _, _ in found))
        rows.append((policy, str(sum(count for _, count, _ in found)), places, found[0][2]))
    columns = ("policy", "instances", "of", "reason")
    text = frozenset({"policy", "of", "reason"})
    return Table("without a ratio", columns, tuple(rows), text)
