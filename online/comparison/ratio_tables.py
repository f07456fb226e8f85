"""Comparisons as tables: text, CSV, Markdown and LaTeX."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from operator import attrgetter
from typing import Any, Protocol

from online.runtime.table import Table, _escape, csv_text

from .bootstrap import ConfidenceInterval, ratio_confidence
from .coincidence import coincidence_notes, listed
from .ratios import NOTHING, ROUNDS, SECONDS, Interval, Latency, rounded, rounded_down, rounded_up
from .summaries import PolicySummary, grouped, summarise
from .trial import IN_SECONDS, OPTIMA, Trial

COMPARED_WITH = "compared_with"
RATIO_OF_WAITINGS = "ratio_of_waitings"


class Compared(Protocol):
    """What has a ratio to one of the optima."""

    @property
    def compared_with(self) -> str:
        """Its name."""


def optimum_column(rows: Sequence[Compared]) -> dict[str, list[str]]:
    """The column that names the optimum, where some row has another than that of "optimum"."""
    names = [row.compared_with for row in rows]
    return {} if set(names) <= {OPTIMA[0]} else {COMPARED_WITH: names}


def caption(summaries: Sequence[PolicySummary]) -> str:
    """What the ratios are to; where they are not all to one optimum, a column names it."""
    names = list(dict.fromkeys(summary.compared_with for summary in summaries)) or [OPTIMA[0]]
    hindsight = "hindsight " if names == [OPTIMA[0]] else ""
    return f"total latency / {hindsight}{' or '.join(names)}"


MEAN_LATENCY = "mean latency, s"
WAITING = ("waiting", "optimum_waiting", "waiting_ratio")
"""What a row of a record in rounds says of the latency beyond the output lengths."""

LATENCY_COLUMNS = {
    ROUNDS: ("total_latency", "optimum"),
    SECONDS: ("total latency, s", MEAN_LATENCY, "best possible mean, s"),
}
"""What a row of a trial says of latencies, by their unit."""


def records_table(records: Sequence[Trial]) -> Table:
    """One row for each trial: latency, the interval of the best possible one, their ratio."""
    unit = records[0].unit if records else ROUNDS
    names, waiting = LATENCY_COLUMNS[unit], WAITING if unit == ROUNDS else ()
    latencies, waits = map(_latencies, records), map(_waiting, records)
    columns = {
        "instance": [one.instance or "" for one in records],
        "n": [str(one.requests) for one in records],
        "M": [str(one.memory_limit) for one in records],
        "policy": [one.policy_label for one in records],
        **_by_name(names, latencies),
        **optimum_column(records),
        "ratio": ["" if one.ratio is None else str(one.ratio) for one in records],
        **(_by_name(waiting, waits) if waiting else {}),
    }
    main = ("instance", "policy", "ratio", COMPARED_WITH, *names)
    return _table("", columns, ("instance",), main)


def _by_name(names: Sequence[str], rows: Iterable[Sequence[str]]) -> dict[str, list[str]]:
    """Rows as columns."""
    cells = list(rows)
    return {name: [row[k] for row in cells] for k, name in enumerate(names)}


def _table(
    title: str, columns: Mapping[str, list[str]], names: Sequence[str], main: tuple[str, ...]
) -> Table:
    """A table of policies below ``names``, from its columns."""
    rows = tuple(zip(*columns.values(), strict=True))
    text = frozenset({*names, "policy", COMPARED_WITH})
    return Table(title, tuple(columns), rows, text, main, frozenset({COMPARED_WITH}))


def records_tables(records: Sequence[Trial]) -> list[Table]:
    """`records_table` of those in rounds and of those in seconds, as far as there are any."""
    units = dict.fromkeys(record.unit for record in records)
    return [records_table([one for one in records if one.unit == unit]) for unit in units]


def _latencies(record: Trial) -> tuple[str, ...]:
    total, mean = record.total_latency, record.mean_latency
    if not record.in_seconds:
        shown = record.status if total is None else str(total)
        return shown, Interval.between(record.optimum_lower, record.optimum_upper).text(0)
    best = str(record.mean_optimum)
    if total is None or mean is None:
        return record.status, "", best
    return rounded(total), rounded(mean), best


def _waiting(record: Trial) -> tuple[str, str, str]:
    waited = "" if record.waiting is None else str(record.waiting)
    shown = "" if record.ratio is None else ratio_or_dash(record.waiting_ratio)
    return waited, record.optimum_waiting.text(0), shown


def ratio_or_dash(ratio: Interval | None) -> str:
    """A ratio of waitings, which is none where the optimum's may be 0."""
    return "-" if ratio is None else str(ratio)


def optimum_notes(records: Sequence[Trial]) -> list[str]:
    """For each instance in seconds what is known of its optimum, in a line."""
    notes = []
    for record in records:
        if record.lower_bound is None or record.optimum_certified is None:
            continue
        line = f"best possible mean latency {record.mean_optimum} s"
        if not record.is_proved:
            line += f"; lower bound: {record.lower_bound}"
        certified = rounded_down(Fraction(record.optimum_certified) / record.requests)
        whole = record.optimum_certified == record.optimum_lower
        line += ", certified" if whole else f", certified down to {certified} s"
        notes.append(f"{record.instance}: {line}" if record.instance else line)
    return list(dict.fromkeys(notes))


CONFIDENCE_NOTE = (
    "ratios, or their intervals, are proved for these instances; columns {level}: where another "
    "draw of such instances would have them (bootstrap over instances)"
)
"""Two kinds of interval stand side by side: what is not proved, and what was not drawn."""


Confidences = Sequence[tuple[ConfidenceInterval, ConfidenceInterval]]
"""Of mean ratio and ratio of totals, for each of `summarise`."""


def confidence_of(
    records: Sequence[Trial], *, confidence_level: float = 0.95
) -> tuple[ConfidenceInterval, ConfidenceInterval]:
    """Confidence intervals of a policy's mean ratio and ratio of totals.

    The unit that is resampled is the instance: runs of a randomized policy on one instance with
    several seeds stay together. A draw is one where it is told, for arrivals that answer to
    policies are another instance in every run.
    """
    units: dict[Hashable, list[Trial]] = {}
    for one in records:
        if one.ratio is not None:
            unit = (one.instance, one.digest) if one.draw is None else one.draw
            units.setdefault(unit, []).append(one)
    return ratio_confidence(list(units.values()), confidence_level=confidence_level)


def confidences_of(
    records: Sequence[Trial], *, confidence_level: float = 0.95
) -> Confidences | None:
    """Confidence intervals for `summary_table`; None where no policy has two instances."""
    found = [confidence_of(own, confidence_level=confidence_level) for _, own in grouped(records)]
    return found if any(str(interval) for pair in found for interval in pair) else None


def summary_notes(records: Sequence[Trial], confidences: Confidences | None) -> list[str]:
    """What is to be said about `summary_table`, a line each."""
    told = confidences and CONFIDENCE_NOTE.format(level=percent_of(confidences[0][0].level))
    return [*([told] if told else []), *coincidence_notes({"": records})]


def percent_of(level: float) -> str:
    """A confidence level, as columns are headed."""
    return f"{level * 100:g}%"


def summary_table(
    summaries: Sequence[PolicySummary],
    confidences: Confidences | None = None,
    *,
    title: str | None = None,
    places: Mapping[str, list[str]] | None = None,
) -> Table:
    """One row for each policy: the three statistics, the proved optima, the failed runs.

    In seconds the mean latency too: rounds of different instances have no common length.

    Parameters
    ----------
    summaries : Sequence[PolicySummary]
        A row each.
    confidences : Confidences or None, default None
        Of each; they take two columns more.
    title : str or None, default None
        None says what the ratios are to, and what is missing.
    places : Mapping[str, list[str]] or None, default None
        Columns that go before, by name.
    """
    places = places or {}
    level = percent_of(confidences[0][0].level if confidences else 0.95)
    units = {one.unit for one in summaries}
    means, totals = ([], []) if confidences is None else _pairs(confidences)
    mean_level, totals_level = f"mean_ratio {level}", f"ratio_of_totals {level}"
    bounded = confidences is not None
    waits = [ratio_or_dash(one.ratio_of_waitings) for one in summaries]
    columns = {
        **places,
        "policy": [one.policy for one in summaries],
        **optimum_column(summaries),
        "trials": [str(one.trials) for one in summaries],
        "failed": [str(one.failed) for one in summaries],
        "proved": [f"{one.proved}/{one.completed}" for one in summaries],
        **({MEAN_LATENCY: list(map(mean_latency_text, summaries))} if SECONDS in units else {}),
        "mean_ratio": [str(one.mean_ratio) for one in summaries],
        **({mean_level: means} if bounded else {}),
        "max_ratio": [str(one.max_ratio) for one in summaries],
        "ratio_of_totals": [str(one.ratio_of_totals) for one in summaries],
        **({totals_level: totals} if bounded else {}),
        **({} if units == {SECONDS} else {RATIO_OF_WAITINGS: waits}),
    }
    main = (*places, "policy", COMPARED_WITH, "mean_ratio", mean_level, "trials", MEAN_LATENCY)
    return _table(_caption(summaries) if title is None else title, columns, tuple(places), main)


def _pairs(confidences: Confidences) -> tuple[list[str], list[str]]:
    return [str(mean) for mean, _ in confidences], [str(totals) for _, totals in confidences]


LEAST_POSSIBLE = {
    OPTIMA[0]: "the least possible in hindsight",
    OPTIMA[1]: "the least possible in hindsight with preemption",
    IN_SECONDS: "the least possible in hindsight of any scheduler, in seconds,",
}
"""The optima in plain words."""


def summary_sentence(records: Sequence[Trial]) -> str:
    """What the mean ratios of `summary_table` mean, in one sentence; empty where there are none.

    A percentage is an interval where optima are unproved, rounded outwards.
    """
    instances = len({(record.instance, record.digest) for record in records})
    parts: dict[str, list[str]] = {}
    for one in sorted(summarise(records), key=lambda one: one.mean_ratio.lower or 0):
        if one.mean_ratio.lower is not None:
            some = "" if one.completed == instances else f" (on {one.completed} of them)"
            told = f"{_per_cent_above(one.mean_ratio)} with {one.policy}{some}"
            parts.setdefault(one.compared_with, []).append(told)
    if not parts:
        return ""
    these = "this instance" if instances == 1 else f"average over these {instances} instances"
    told = "; it exceeds ".join(
        f"{LEAST_POSSIBLE[name]} by {listed(own)}" for name, own in parts.items()
    )
    return f"On {these}, total latency exceeds {told}."


def _per_cent_above(ratio: Interval) -> str:
    least, most = (None if end is None else 100 * (end - 1) for end in (ratio.lower, ratio.upper))
    if least is None or ratio.is_exact:
        return f"{Interval(least, most).text(1)} %"
    if most is None:
        return f"at least {rounded_down(least, 1)} %"
    return f"{rounded_down(least, 1)} to {rounded_up(most, 1)} %"


def mean_latency_text(summary: PolicySummary) -> str:
    """Seconds per request; empty in rounds, which have no common length."""
    mean = summary.mean_latency
    return "" if mean is None or summary.unit == ROUNDS else rounded(mean)


def reasons_table(records: Sequence[Trial]) -> Table:
    """One row for each policy and way to end without a ratio: how often, and the first reason."""
    policies = dict.fromkeys(record.policy_label for record in records)
    return labelled_reasons(
        ("policy",),
        [
            ((policy,), count_reasons([one for one in records if one.policy_label == policy]))
            for policy in policies
        ],
    )


Reasons = tuple[tuple[int, str, str], ...]
"""(how often, status, reason) of records without a ratio."""


MOST_REASONS = 5
"""Of one policy and status that are told apart."""


def count_reasons(records: Sequence[Trial]) -> Reasons:
    """Why records have no ratio: how often, and the first of the reasons that are alike.

    Alike are those with one status that differ in numbers only; the rarest are counted together.
    """
    return count_alike(
        [(record.status, record.reason or "") for record in records if record.ratio is None]
    )


def count_alike(ended: Sequence[tuple[str, str]]) -> Reasons:
    """`count_reasons` of statuses and reasons."""
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


def labelled_reasons(
    labels: tuple[str, ...], counted: Iterable[tuple[tuple[str, ...], Reasons]]
) -> Table:
    """A table of reasons, each below its labels."""
    rows = tuple(
        (*cells, str(count), status, reason)
        for cells, reasons in counted
        for count, status, reason in reasons
    )
    texts = frozenset({*labels, "status", "reason"})
    columns = (*labels, "records", "status", "reason")
    order = (*labels, "status", "reason", "records")
    return Table("without a ratio", columns, rows, texts, order, frozenset({"reason"}))


def _caption(summaries: Sequence[PolicySummary]) -> str:
    text = caption(summaries)
    unproved = max((summary.completed - summary.proved for summary in summaries), default=0)
    if unproved:
        optima = "optimum" if unproved == 1 else "optima"
        text += f"; {unproved} {optima} unproved: [at least, at most]"
    failed = sum(summary.failed for summary in summaries)
    if failed:
        text += f"; {failed} failed or without a schedule: no ratio"
    return text


_CELLS: dict[str, Callable[[Trial], Any]] = {
    "instance": attrgetter("instance"),
    "digest": attrgetter("digest"),
    "n": attrgetter("requests"),
    "memory_limit": attrgetter("memory_limit"),
    "policy": attrgetter("policy"),
    "params": lambda one: json.dumps(dict(one.params), sort_keys=True),
    "seed": attrgetter("seed"),
    "status": attrgetter("status"),
    "total_latency": lambda one: _number(one.total_latency),
    "evictions": attrgetter("evictions"),
    "optimum_upper": lambda one: _number(one.optimum_upper, math.inf),
    "optimum_lower": lambda one: _number(one.optimum_lower, -math.inf),
    "optimum_certified": lambda one: _number(one.optimum_certified, -math.inf),
    "proved": attrgetter("is_proved"),
    "ratio_lower": lambda one: (one.ratio or NOTHING).ends[0],
    "ratio_upper": lambda one: (one.ratio or NOTHING).ends[1],
    "stop_reason": attrgetter("stop_reason"),
    "solve_seconds": attrgetter("solve_seconds"),
    "reason": attrgetter("reason"),
    COMPARED_WITH: attrgetter("compared_with"),
    "unit": attrgetter("unit"),
    "mean_latency": lambda one: _number(one.mean_latency),
    "mean_optimum_upper": lambda one: _number(one.mean_optimum.upper, math.inf),
    "mean_optimum_lower": lambda one: _number(one.mean_optimum.lower, -math.inf),
    "lower_bound": attrgetter("lower_bound"),
    "waiting": attrgetter("waiting"),
    "optimum_waiting_upper": lambda one: _whole(one.optimum_waiting.upper),
    "optimum_waiting_lower": lambda one: _whole(one.optimum_waiting.lower),
    "waiting_ratio_lower": lambda one: (one.waiting_ratio or NOTHING).ends[0],
    "waiting_ratio_upper": lambda one: (one.waiting_ratio or NOTHING).ends[1],
}


def record_cells(record: Trial) -> dict[str, Any]:
    """Every figure by name, intervals as their two ends; None where one is not known."""
    return {name: cell(record) for name, cell in _CELLS.items()}


def records_csv(records: Sequence[Trial]) -> str:
    """Every field of every record as CSV; an empty cell where something is not known."""
    lines: list[Iterable[Any]] = [_CELLS]
    for record in records:
        cells = record_cells(record) | {"proved": str(record.is_proved).lower()}
        if record.solve_seconds is not None:
            cells["solve_seconds"] = f"{record.solve_seconds:.3f}"
        lines.append(cells.values())
    return csv_text(lines)


def report_markdown(
    records: Sequence[Trial], summaries: Sequence[PolicySummary], notes: Sequence[str] = ()
) -> str:
    """Summary, records and notes as a Markdown page."""
    confidences = confidences_of(records)
    parts = ["# Competitive ratios\n", summary_table(summaries, confidences).to_markdown()]
    notes = [*notes, *summary_notes(records, confidences), *optimum_notes(records)]
    if notes:
        parts.append("".join(f"- {_escape(note)}\n" for note in notes))
    parts.append(records_table(records).to_markdown())
    if any(record.ratio is None for record in records):
        parts.append(reasons_table(records).to_markdown())
    return "\n".join(parts)


def _whole(end: Fraction | None) -> int | None:
    """An end of an interval of whole rounds."""
    return None if end is None else int(end)


def _number(value: Latency | None, towards: float = 0.0) -> int | float | None:
    """Rounds as they are, seconds as the nearest float, a bound rounded outwards."""
    if value is None or isinstance(value, int):
        return value
    nearest = float(value)
    inside = {math.inf: nearest < value, -math.inf: nearest > value}.get(towards, False)
    return math.nextafter(nearest, towards) if inside else nearest
