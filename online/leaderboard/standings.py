"""Scores beside the records of the library: ratios as intervals, by policy and set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from instances import InvalidValueError, Library
from instances import Record as LibraryRecord
from online.comparison.ratio_tables import Reasons, count_alike
from online.comparison.ratios import Interval, Latency
from online.comparison.trial import IN_SECONDS, OPTIMA

from .scores import EXACT, Score

COMPARED_WITH: Mapping[str, str] = {
    "total_latency": OPTIMA[0],
    "preemptive_total_latency": OPTIMA[1],
    "makespan": "least makespan",
    "seconds": IN_SECONDS,
}
"""Name of the optimum by the goal of an instance."""


ROUNDING = Fraction(1, 10**12)
"""Share by which a record in seconds may lie above its schedule, for being a float."""


@dataclass(frozen=True)
class Standing:
    """A policy on the instances of one set that have one goal.

    Attributes
    ----------
    set, goal, told, policy : str
        What the instances have in common, and the policy's label.
    instances, compared, proved : int
        All; those with a ratio; those of them whose optimum is proved.
    mean_ratio, max_ratio : Interval
        Mean and largest of the ratios: means, and maxima, of their ends.
    reasons : Reasons
        Why instances have no ratio, see `online.comparison.ratio_tables.count_alike`.
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
        """Name of the optimum."""
        return COMPARED_WITH[self.goal]

    @property
    def column(self) -> str:
        """Its column among those of its goal."""
        return self.set if self.told == EXACT else f"{self.set}, told an {self.told}"


Records: TypeAlias = Callable[[str], LibraryRecord | None]
"""What is known of an instance, by its name."""


def standings(scores: Sequence[Score], library: Library, records: Records) -> list[Standing]:
    """Each policy in each column, in the order of the scores.

    The optimum of an instance lies in the interval of its record, whose upper end is the best
    policy's figure where that is below it: the run is a schedule too.

    Raises
    ------
    InvalidValueError
        A policy is better than the record's lower bound allows: one of both is wrong.
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
                ratios.append(Interval.of_quotient(score.figure, optimum.upper, optimum.lower))
        missing = [("", one.reason or "") for one in own if one.figure is None]
        means = (Interval.mean_of(ratios), Interval.largest_of(ratios))
        found.append(
            Standing(*key, len(own), len(ratios), proved, *means, reasons=count_alike(missing))
        )
    return found


def beaten(scores: Sequence[Score], records: Records) -> list[str]:
    """Records that a policy's run is better than, a line each: its schedule can be submitted."""
    lines = []
    for name, best in _best(scores).items():
        upper = _ends(records(name)).upper
        assert best.figure is not None
        # A record in seconds is rounded up.
        if upper is not None and best.figure < upper * (1 - ROUNDING):
            told = f"{best.policy} comes to {_shown(best.figure)}"
            lines.append(f"{name}: {told}, its record to {_shown(upper)}")
    return lines


def equal_policies(scores: Sequence[Score]) -> list[list[str]]:
    """Groups of policies that came to the same on every instance, told lengths exactly."""
    told: dict[str, dict[str, Latency | None]] = {}
    for score in scores:
        if score.told == EXACT:
            told.setdefault(score.policy, {})[score.instance] = score.figure
    groups: dict[tuple[object, ...], list[str]] = {}
    for policy, figures in told.items():
        if None not in figures.values():
            groups.setdefault(tuple(sorted(figures.items())), []).append(policy)
    return [group for group in groups.values() if len(group) > 1]


def _shown(figure: Latency) -> str:
    return f"{float(figure):.10g}"


def _ends(record: LibraryRecord | None) -> Interval:
    if record is None:
        return Interval(None, None)
    # Fraction takes a float of a record in seconds for what it is.
    return Interval(Fraction(record.lower_bound), Fraction(record.upper_bound))


def _best(scores: Sequence[Score]) -> dict[str, Score]:
    best: dict[str, Score] = {}
    for score in scores:
        standing = best.get(score.instance)
        if score.figure is None:
            continue
        if standing is None or standing.figure is None or score.figure < standing.figure:
            best[score.instance] = score
    return best


def _optima(scores: Sequence[Score], records: Records) -> dict[str, Interval]:
    optima = {}
    for name, best in _best(scores).items():
        known = _ends(records(name))
        assert best.figure is not None
        if known.lower is not None and best.figure < known.lower:
            reason = f"exceeds {best.figure}, which {best.policy} comes to"
            raise InvalidValueError(name, "lower_bound", known.lower, reason)
        upper = best.figure if known.upper is None else min(known.upper, best.figure)
        optima[name] = Interval.between(known.lower, upper)
    return optima
