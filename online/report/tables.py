"""The tables and the words of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from instances.charts import number
from online.comparison.bootstrap import ConfidenceInterval
from online.comparison.ratio_tables import (
    BOTH,
    INSTANCES,
    SERVICE,
    count_reasons,
    covered,
    have_both,
    have_level,
)
from online.comparison.trial import OPTIMA, Trial
from online.runtime.table import Table
from online.trials.intervals import ROUNDS, Interval, Latency, rounded, rounded_down, rounded_up

from .ratio_picture import LEVEL, Row

COMPARED_WITH = "compared with"
WAITINGS = ("ratio of waitings", "waiting ratio", "waiting", "optimum waiting")
"""Columns of trials in rounds: in seconds nobody knows how long a request takes by itself."""

_BOTH = {name.replace("_", " "): cell for name, cell in BOTH.items()}

SIDES = [
    f"{side} {name}"
    for side in ("policy", "optimum")
    for name in ("start", "completion", "latency")
]
REQUESTS = Table(
    "", ("request", "prompt length", "output length", "arrival", *SIDES), (), frozenset({"request"})
)
"""Headings of the requests of the trial that is picked; the page's script adds the rows."""


def policies(groups: Mapping[str, Sequence[Row]]) -> Table:
    """A row for each policy of a group, which is named below it."""
    cells = [
        {
            "policy": f"{row.summary.policy}\n{group}",
            COMPARED_WITH: row.summary.compared_with,
            "mean ratio": str(row.summary.mean_ratio),
            **{name: cell(row.summary) for name, cell in _BOTH.items()},
            INSTANCES: covered(row.summary) if row.summary.missing else "all",
            f"mean ratio {LEVEL}": _text(row.mean_confidence),
            "max ratio": str(row.summary.max_ratio),
            "ratio of totals": str(row.summary.ratio_of_totals),
            f"ratio of totals {LEVEL}": _text(row.totals_confidence),
            **{name: cell(row.summary) for name, cell in SERVICE.items()},
            "ratio of waitings": _text(row.summary.ratio_of_waitings),
            "trials": number(row.summary.trials),
            "proved": f"{row.summary.proved}/{row.summary.completed}",
            "failed": number(row.summary.failed),
        }
        for group, rows in groups.items()
        for row in rows
    ]
    return _table(cells, [one for rows in groups.values() for row in rows for _, one in row.trials])


def trials(records: Sequence[Trial]) -> Table:
    """A row for each trial."""
    units = list(dict.fromkeys(record.unit for record in records))
    latency = "total latency" if len(units) > 1 else f"total latency, {units[0]}"
    cells = []
    for record in records:
        known = record.digest is not None
        row = {
            "policy": record.policy_label,
            "ratio": _text(record.ratio),
            **{name: cell(record) for name, cell in _BOTH.items()},
            **{name: cell(record) for name, cell in SERVICE.items()},
            latency: _figure(record.total_latency, rounded),
            "optimum": _optimum(record),
            "unit": record.unit,
            "waiting ratio": _text(record.waiting_ratio),
            "waiting": _figure(record.waiting, rounded),
            "optimum waiting": _between(*record.optimum_waiting.ends),
            COMPARED_WITH: record.compared_with,
            "instance": instance_name(record),
            "n": number(record.requests) if known else "",
            "M": number(record.memory_limit) if known else "",
            "seed": number(record.seed),
            "status": record.status,
        }
        if len(units) == 1:
            del row["unit"]
        cells.append(row)
    return _table(cells, records)


def reasons(groups: Mapping[str, Sequence[Trial]]) -> Table:
    """Show why trials have no ratio: a row for each policy of a group and reason."""
    cells = []
    for group, own in groups.items():
        for policy in dict.fromkeys(one.policy_label for one in own):
            its = [one for one in own if one.policy_label == policy]
            for count, status, reason in count_reasons(its):
                row = {"policy": f"{policy}\n{group}", "trials": number(count)}
                cells.append({**row, "status": status, "reason": reason})
    return _table(cells, [one for own in groups.values() for one in own])


def _table(cells: Sequence[Mapping[str, str]], records: Sequence[Trial]) -> Table:
    """A table without the columns that say nothing about these records."""
    left_out = {COMPARED_WITH} if {one.compared_with for one in records} == {OPTIMA[0]} else set()
    if all(one.unit != ROUNDS for one in records):
        left_out.update(WAITINGS)
    if not have_level(records):
        left_out.update(SERVICE)
    if not have_both(records):
        left_out.update(_BOTH)
    if all(row.get(INSTANCES) == "all" for row in cells):
        left_out.add(INSTANCES)
    columns = tuple(name for name in (cells[0] if cells else ()) if name not in left_out)
    rows = tuple(tuple(row[name] for name in columns) for row in cells)
    words = frozenset({"policy", COMPARED_WITH, "instance", "status", "reason", "unit"})
    return Table("", columns, rows, words, prose_columns=frozenset({"instance", "reason"}))


def instance_name(record: Trial) -> str:
    """Name of the instance, or the beginning of its digest; empty where there is none."""
    return record.instance or (record.digest or "")[:12]


def verdict(record: Trial) -> str:
    """The figures of a trial in a line."""
    parts = [f"Ratio {record.ratio}"] if record.ratio is not None else []
    if record.waiting_ratio is not None:
        parts.append(f"of waitings {record.waiting_ratio}")
    ended = "" if record.status == "completed" else f"ended as {record.status}, "
    parts.append(f"{ended}seed {record.seed}")
    if optimum := _optimum(record):
        proved = "proved" if record.is_proved else "not proved"
        parts.append(f"{record.compared_with} {optimum}, {proved}")
    if record.lost_attempts:
        parts.append(f"{number(len(record.lost_attempts))} evictions")
    return "; ".join([*parts, record.reason] if record.reason else parts)


def titles(record: Trial) -> list[str]:
    """Headings of the two schedules of a trial."""
    own = f": total latency {_figure(record.total_latency, rounded)}"
    if record.total_latency is None:
        own = f": {record.status}"
    name = record.compared_with
    name = "hindsight optimum" if name == OPTIMA[0] else name
    known = name if record.is_proved else "best schedule known"
    best = f"{known}: total latency {_figure(record.optimum_upper, rounded_up)}"
    if record.optimum_upper is None:
        best = "no schedule of the optimum"
    return [record.policy_label + own, best]


def _optimum(record: Trial) -> str:
    lower = _number(record.optimum_lower, rounded_down)
    return _between(lower, _number(record.optimum_upper, rounded_up))


def _between(lower: float | None, upper: float | None) -> str:
    if lower is None and upper is None:
        return ""
    low, high = ("?" if end is None else number(end, 4) for end in (lower, upper))
    return low if low == high else f"[{low}, {high}]"


def _text(value: Interval | ConfidenceInterval | None) -> str:
    return "" if value is None else str(value)


def _figure(value: Latency | None, rounding: Callable[[Fraction], str]) -> str:
    shown = _number(value, rounding)
    return "" if shown is None else number(shown, 4)


def _number(value: Latency | None, rounding: Callable[[Fraction], str]) -> float | int | None:
    """Rounds as they are, seconds as they are shown."""
    return value if value is None or isinstance(value, int) else float(rounding(value))
