"""The tables and the words of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from instances.charts import number
from online.comparison.bootstrap import ConfidenceInterval
from online.comparison.ratio_tables import count_reasons
from online.comparison.ratios import ROUNDS, Interval, Latency, rounded, rounded_down, rounded_up
from online.comparison.records import OPTIMA, Record
from online.comparison.trial_records import TrialRecord
from online.runtime.table import Table

from .ratio_picture import LEVEL, Row

COMPARED_WITH = "compared with"
WAITINGS = ("ratio_of_waitings", "waiting ratio", "waiting", "optimum waiting")
"""Columns of trials in rounds: in seconds nobody knows how long a request takes by itself."""

SIDES = [
    f"{side} {name}"
    for side in ("policy", "optimum")
    for name in ("start", "completion", "latency")
]
REQUESTS = Table(
    "", ("request", "prompt_length", "output_length", "arrival", *SIDES), (), frozenset({"request"})
)
"""Headings of the requests of the trial that is picked; the page's script adds the rows."""


def policies(groups: Mapping[str, Sequence[Row]]) -> Table:
    """A row for each policy of a group, which is named below it."""
    cells = [
        {
            "policy": f"{row.summary.policy}\n{group}",
            COMPARED_WITH: row.summary.compared_with,
            "mean_ratio": str(row.summary.mean_ratio),
            f"mean_ratio {LEVEL}": _text(row.mean_confidence),
            "max_ratio": str(row.summary.max_ratio),
            "ratio_of_totals": str(row.summary.ratio_of_totals),
            f"ratio_of_totals {LEVEL}": _text(row.totals_confidence),
            "ratio_of_waitings": _text(row.summary.ratio_of_waitings),
            "trials": number(row.summary.trials),
            "proved": f"{row.summary.proved}/{row.summary.completed}",
            "failed": number(row.summary.failed),
        }
        for group, rows in groups.items()
        for row in rows
    ]
    return _table(cells, [one for rows in groups.values() for row in rows for _, one in row.trials])


def trials(records: Sequence[TrialRecord]) -> Table:
    """A row for each trial."""
    units = list(dict.fromkeys(record.compared.unit for record in records))
    latency = "total_latency" if len(units) > 1 else f"total_latency, {units[0]}"
    cells = []
    for record in records:
        compared = record.compared
        known = record.instance is not None or record.figures is not None
        row = {
            "policy": record.policy,
            "ratio": _text(record.ratio),
            latency: _figure(record.total_latency, rounded),
            "optimum": _optimum(compared),
            "unit": compared.unit,
            "waiting ratio": _text(compared.waiting_ratio),
            "waiting": _figure(compared.waiting, rounded),
            "optimum waiting": _between(*compared.optimum_waiting.ends),
            COMPARED_WITH: compared.compared_with,
            "instance": instance_name(record),
            "n": number(compared.requests) if known else "",
            "M": number(compared.memory_limit) if known else "",
            "seed": number(record.seed),
            "status": record.status,
        }
        if len(units) == 1:
            del row["unit"]
        cells.append(row)
    return _table(cells, [record.compared for record in records])


def reasons(groups: Mapping[str, Sequence[Record]]) -> Table:
    """Why trials have no ratio: a row for each policy of a group and reason."""
    cells = []
    for group, own in groups.items():
        for policy in dict.fromkeys(one.policy_label for one in own):
            its = [one for one in own if one.policy_label == policy]
            for count, status, reason in count_reasons(its):
                row = {"policy": f"{policy}\n{group}", "trials": number(count)}
                cells.append({**row, "status": status, "reason": reason})
    return _table(cells, [one for own in groups.values() for one in own])


def _table(cells: Sequence[Mapping[str, str]], records: Sequence[Record]) -> Table:
    """A table without the columns that say nothing about these records."""
    left_out = {COMPARED_WITH} if {one.compared_with for one in records} == {OPTIMA[0]} else set()
    if all(one.unit != ROUNDS for one in records):
        left_out.update(WAITINGS)
    columns = tuple(name for name in (cells[0] if cells else ()) if name not in left_out)
    rows = tuple(tuple(row[name] for name in columns) for row in cells)
    words = frozenset({"policy", COMPARED_WITH, "instance", "status", "reason", "unit"})
    return Table("", columns, rows, words, prose_columns=frozenset({"instance", "reason"}))


def instance_name(record: TrialRecord) -> str:
    """Name of the instance, or the beginning of its digest; empty where there is none."""
    return record.compared.instance or (record.compared.digest or "")[:12]


def verdict(record: TrialRecord) -> str:
    """The figures of a trial in a line."""
    compared = record.compared
    parts = [f"Ratio {record.ratio}"] if record.ratio is not None else []
    if compared.waiting_ratio is not None:
        parts.append(f"of waitings {compared.waiting_ratio}")
    ended = "" if record.status == "completed" else f"ended as {record.status}, "
    parts.append(f"{ended}seed {record.seed}")
    if optimum := _optimum(compared):
        proved = "proved" if record.is_proved else "not proved"
        parts.append(f"{compared.compared_with} {optimum}, {proved}")
    if record.lost_attempts:
        parts.append(f"{number(len(record.lost_attempts))} evictions")
    return "; ".join([*parts, record.note] if record.note else parts)


def titles(record: TrialRecord) -> list[str]:
    """Headings of the two schedules of a trial."""
    compared = record.compared
    own = f": total latency {_figure(record.total_latency, rounded)}"
    if record.total_latency is None:
        own = f": {record.status}"
    name = compared.compared_with
    name = "hindsight optimum" if name == OPTIMA[0] else name
    known = name if record.is_proved else "best schedule known"
    best = f"{known}: total latency {_figure(compared.optimum_upper, rounded_up)}"
    if compared.optimum_upper is None:
        best = "no schedule of the optimum"
    return [record.policy + own, best]


def _optimum(record: Record) -> str:
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
