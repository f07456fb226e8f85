"""Comparisons as tables: text, CSV, Markdown and LaTeX."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from operator import attrgetter
from typing import Any, TypeAlias

from instances import ServiceLevel
from online.runtime.table import Table, _escape, csv_text
from online.trials.intervals import (
    NOTHING,
    ROUNDS,
    SECONDS,
    Interval,
    Latency,
    rounded,
    rounded_down,
    rounded_up,
)

from .bootstrap import ConfidenceInterval, ratio_confidence
from .summaries import PolicySummary, grouped, summarise
from .trial import IN_SECONDS, OPTIMA, Trial, by_group, to_one_optimum

COMPARED_WITH = "compared_with"
RATIO_OF_WAITINGS = "ratio_of_waitings"
INSTANCES = "instances"


class Records(list[Trial]):
    """A list of trials that shows itself."""

    def __repr__(self) -> str:
        return f"Records({len(self)} records of {len(summarise(self))} policies)"

    def frame(self) -> Any:
        """Make a pandas DataFrame, a row per record; intervals are two columns."""
        import pandas

        return pandas.DataFrame(cells_of(self))

    def summary(self) -> Table:
        """Make a table with a row for each policy, to be printed in any format."""
        return summary_table(summarise(self))

    def table(self) -> Table:
        """Make a table with a row for each record."""
        return records_table(self)


def optimum_column(rows: Sequence[Any]) -> dict[str, list[str]]:
    """Name the optimum of each row in a column, where some row has another than "optimum"."""
    names = [row.compared_with for row in rows]
    return {} if set(names) <= {OPTIMA[0]} else {COMPARED_WITH: names}


def common_means(
    summaries: Sequence[PolicySummary],
) -> tuple[str, list[Interval]] | None:
    """Return mean ratios to one optimum and its name; None where no optimum is known for all."""
    names = {one.compared_with for one in summaries}
    if len(names) == 1:
        return names.pop(), [one.mean_ratio for one in summaries]
    means = [one.to_preemptive_optimum for one in summaries]
    known = [one for one in means if one is not None]
    return (OPTIMA[1], known) if known and len(known) == len(means) else None


def have_both(rows: Sequence[Any]) -> bool:
    """Tell whether some trial, or summary of trials, has a ratio to either optimum in rounds."""
    return any(row.to_optimum and row.to_preemptive_optimum for row in rows)


def caption(summaries: Sequence[PolicySummary]) -> str:
    """Say what the ratios are to; where they are not all to one optimum, a column names it."""
    names = list(dict.fromkeys(summary.compared_with for summary in summaries)) or [OPTIMA[0]]
    hindsight = "hindsight " if names == [OPTIMA[0]] else ""
    return f"total latency / {hindsight}{' or '.join(names)}"


MEAN_LATENCY = "mean latency, s"

Cells: TypeAlias = Mapping[str, Callable[[Any], Any]]
"""What a row says in each column, by its heading."""

BOTH: Cells = {
    "to_preemptive_optimum": lambda row: str(row.to_preemptive_optimum or ""),
    "to_optimum": lambda row: str(row.to_optimum or ""),
}
"""What a row says of its ratio, or mean ratio, to each optimum in rounds."""

_TRIAL: Cells = {
    "instance": lambda one: one.instance or "",
    "n": lambda one: str(one.requests),
    "M": lambda one: str(one.memory_limit),
    "policy": attrgetter("policy_label"),
}

_LATENCIES: dict[str, Cells] = {
    ROUNDS: {
        "total_latency": lambda one: str(one.status if (t := one.total_latency) is None else t),
        "optimum": lambda one: Interval.between(one.optimum_lower, one.optimum_upper).text(0),
    },
    SECONDS: {
        "total latency, s": lambda one: (
            one.status if one.total_latency is None else rounded(one.total_latency)
        ),
        MEAN_LATENCY: lambda one: "" if one.total_latency is None else rounded(one.mean_latency),
        "best possible mean, s": lambda one: str(one.mean_optimum),
    },
}
"""What a row of a trial says of latencies, by their unit."""

_WAITING: Cells = {
    "waiting": lambda one: "" if one.waiting is None else str(one.waiting),
    "optimum_waiting": lambda one: one.optimum_waiting.text(0),
    "waiting_ratio": lambda one: "" if one.ratio is None else _or_dash(one.waiting_ratio),
}
"""What a row of a trial in rounds says of the latency beyond the output lengths."""


SERVICE: Cells = {
    "on time": lambda one: "" if one.share_on_time is None else rounded(one.share_on_time),
    "of the attainable": lambda one: _or_dash(one.of_attainable),
}
"""What a row says of a service level."""


def have_level(rows: Sequence[Any]) -> bool:
    """Tell whether trials, or summaries of them, count requests on time."""
    return any(one.share_on_time is not None for one in rows)


def covered(summary: PolicySummary) -> str:
    """Count the instances on which a row has a ratio, of those on which some row has one."""
    return f"{summary.instances - len(summary.missing)}/{summary.instances}"


def _service_columns(rows: Sequence[Any]) -> dict[str, list[str]]:
    return _columns(SERVICE, rows) if have_level(rows) else {}


def level_note(level: ServiceLevel, unit: str) -> str:
    """Say what the columns of a service level count."""
    most = "of the attainable: of the most that any scheduler has on time"
    return f"on time: {level}, in {unit}; {most}"


def level_notes(records: Sequence[Trial]) -> list[str]:
    """Return `level_note` of each service level; of several with the experiment's name."""
    told = {level_note(one.level, one.unit): one.experiment for one in records if one.level}
    return [f"{name}: {note}" if name and len(told) > 1 else note for note, name in told.items()]


def records_table(records: Sequence[Trial]) -> Table:
    """Make a row for each trial: latency, the interval of the best possible one, their ratio."""
    records = to_one_optimum(records)
    unit = records[0].unit if records else ROUNDS
    latencies = _LATENCIES[unit]
    columns = {
        **_columns({**_TRIAL, **latencies}, records),
        **optimum_column(records),
        "ratio": ["" if one.ratio is None else str(one.ratio) for one in records],
        **(_columns(BOTH, records) if have_both(records) else {}),
        **_service_columns(records),
        **(_columns(_WAITING, records) if unit == ROUNDS else {}),
    }
    main = ("instance", "policy", "ratio", COMPARED_WITH, *BOTH, *SERVICE, *latencies)
    return _table("", columns, ("instance",), main)


def _columns(cells: Cells, rows: Sequence[Any]) -> dict[str, list[str]]:
    return {name: [cell(row) for row in rows] for name, cell in cells.items()}


def _table(
    title: str, columns: Mapping[str, list[str]], names: Sequence[str], main: tuple[str, ...]
) -> Table:
    """Make a table of policies below ``names`` from its columns."""
    rows = tuple(zip(*columns.values(), strict=True))
    text = frozenset({*names, "policy", COMPARED_WITH})
    return Table(title, tuple(columns), rows, text, main, frozenset({COMPARED_WITH}))


def records_tables(records: Sequence[Trial]) -> list[Table]:
    """`records_table` of those in rounds and of those in seconds, as far as there are any."""
    units = dict.fromkeys(record.unit for record in records)
    return [records_table([one for one in records if one.unit == unit]) for unit in units]


def _or_dash(ratio: Interval | None) -> str:
    """Write a ratio of waitings, which is none where the optimum's may be 0."""
    return "-" if ratio is None else str(ratio)


def optimum_notes(records: Sequence[Trial]) -> list[str]:
    """Say for each instance in seconds, in a line, what is known of its optimum."""
    notes = []
    for record in records:
        if record.lower_bound is None or record.optimum_certified is None:
            continue
        line = f"best possible mean latency {record.mean_optimum} s, tokens kept where preempted"
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


Confidences: TypeAlias = Sequence[tuple[ConfidenceInterval, ConfidenceInterval]]
"""Of mean ratio and ratio of totals, for each of `summarise`."""


def confidence_of(
    records: Sequence[Trial], *, confidence_level: float = 0.95
) -> tuple[ConfidenceInterval, ConfidenceInterval]:
    """Return confidence intervals of a policy's mean ratio and ratio of totals.

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


def confidences_of(records: Sequence[Trial]) -> Confidences | None:
    """Return confidence intervals for `summary_table`; None where no policy has two instances."""
    found = [confidence_of(own) for _, own in grouped(records)]
    return found if any(str(interval) for pair in found for interval in pair) else None


def summary_notes(records: Sequence[Trial], confidences: Confidences | None) -> list[str]:
    """Return what is to be said about `summary_table`, a line each."""
    told = confidences and CONFIDENCE_NOTE.format(level=percent_of(confidences[0][0].level))
    return [*([told] if told else []), *missing_notes(records)]


MOST_NAMES = 5
"""Instances that a note names."""


def missing_notes(records: Sequence[Trial]) -> list[str]:
    """Name the instances that a policy lacks and another has, a line for each policy and group."""
    notes = []
    for group, own in by_group(records).items():
        for one in summarise(own):
            if one.missing:
                names = [*one.missing[:MOST_NAMES]]
                names += [f"{more} more"] if (more := len(one.missing) - len(names)) else []
                lacks = f"{len(one.missing)} of the {one.instances} instances of other rows"
                note = f"{one.policy} has no ratio on {lacks}: {listed(names)}"
                notes.append(f"{group}: {note}" if group else note)
    return notes


def percent_of(level: float) -> str:
    """Write a confidence level as columns are headed."""
    return f"{level * 100:g}%"


def summary_table(
    summaries: Sequence[PolicySummary],
    confidences: Confidences | None = None,
    *,
    title: str | None = None,
    places: Mapping[str, list[str]] | None = None,
) -> Table:
    """Make a row for each policy: the three statistics, the proved optima, the failed runs.

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
    mean_level, totals_level = f"mean_ratio {level}", f"ratio_of_totals {level}"
    cells: dict[str, Callable[[PolicySummary], str]] = {
        INSTANCES: covered,
        "trials": lambda one: str(one.trials),
        "failed": lambda one: str(one.failed),
        "proved": lambda one: f"{one.proved}/{one.completed}",
        # Rounds of different instances have no common length.
        MEAN_LATENCY: lambda one: (
            "" if one.mean_latency is None or one.unit == ROUNDS else rounded(one.mean_latency)
        ),
        "mean_ratio": lambda one: str(one.mean_ratio),
        mean_level: lambda one: "",
        "max_ratio": lambda one: str(one.max_ratio),
        "ratio_of_totals": lambda one: str(one.ratio_of_totals),
        totals_level: lambda one: "",
        RATIO_OF_WAITINGS: lambda one: _or_dash(one.ratio_of_waitings),
    }
    columns = {
        **places,
        "policy": [one.policy for one in summaries],
        **optimum_column(summaries),
        **_columns(cells, summaries),
        **(_columns(BOTH, summaries) if have_both(summaries) else {}),
        **_service_columns(summaries),
    }
    if not any(one.missing for one in summaries):
        del columns[INSTANCES]
    if confidences is None:
        del columns[mean_level], columns[totals_level]
    else:
        columns[mean_level] = [str(mean) for mean, _ in confidences]
        columns[totals_level] = [str(totals) for _, totals in confidences]
    if SECONDS not in units:
        del columns[MEAN_LATENCY]
    if units == {SECONDS}:
        del columns[RATIO_OF_WAITINGS]
    first = (*places, "policy", COMPARED_WITH, "mean_ratio", INSTANCES, *BOTH, *SERVICE)
    main = (*first, mean_level, "trials", MEAN_LATENCY)
    return _table(_caption(summaries) if title is None else title, columns, tuple(places), main)


LEAST_POSSIBLE = {
    OPTIMA[0]: "the least possible in hindsight",
    OPTIMA[1]: "the least possible in hindsight with preemption",
    IN_SECONDS: "the least possible in hindsight of any scheduler, in seconds,",
}
"""The optima in plain words."""


def summary_sentence(records: Sequence[Trial]) -> str:
    """Say in a sentence what the mean ratios of `summary_table` mean; empty without any.

    A percentage is an interval where optima are unproved, rounded outwards.
    """
    summaries = summarise(records)
    instances = max((one.instances for one in summaries), default=0)
    parts: dict[str, list[str]] = {}
    for one in sorted(summaries, key=lambda one: one.mean_ratio.lower or 0):
        if one.mean_ratio.lower is not None:
            some = f" (on {instances - len(one.missing)} of them)" if one.missing else ""
            told = f"{_per_cent_above(one.mean_ratio)} with {one.policy}{some}"
            parts.setdefault(one.compared_with, []).append(told)
    if not parts:
        return ""
    these = "this instance" if instances == 1 else f"average over these {instances} instances"
    told = "; it exceeds ".join(
        f"{LEAST_POSSIBLE[name]} by {listed(own)}" for name, own in parts.items()
    )
    return f"On {these}, total latency exceeds {told}."


def listed(words: Sequence[str]) -> str:
    """List words as a sentence does: ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _per_cent_above(ratio: Interval) -> str:
    least, most = (None if end is None else 100 * (end - 1) for end in (ratio.lower, ratio.upper))
    if least is None or ratio.is_exact:
        return f"{Interval(least, most).text(1)} %"
    if most is None:
        return f"at least {rounded_down(least, 1)} %"
    return f"{rounded_down(least, 1)} to {rounded_up(most, 1)} %"


def reasons_table(records: Sequence[Trial]) -> Table:
    """Make a row for each policy and way to end without a ratio: how often, and why first."""
    policies: dict[str, list[Trial]] = {}
    for one in records:
        policies.setdefault(one.policy_label, []).append(one)
    counted = [((policy,), count_reasons(own)) for policy, own in policies.items()]
    return labelled_reasons(("policy",), counted)


Reasons: TypeAlias = tuple[tuple[int, str, str], ...]
"""(how often, status, reason) of records without a ratio."""


MOST_REASONS = 5
"""Of one policy and status that are told apart."""


def count_reasons(records: Sequence[Trial]) -> Reasons:
    """Count why records have no ratio: how often, and the first of the reasons that are alike.

    Alike are those with one status that differ in numbers only; the rarest are counted together.
    """
    return count_alike(
        [(record.status, record.reason or "") for record in records if record.ratio is None]
    )


def count_alike(ended: Sequence[tuple[str, str]]) -> Reasons:
    """Do as `count_reasons` with statuses and reasons."""
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
    """Make a table of reasons, each below its labels."""
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


def attributes(*names: str) -> Cells:
    """Return cells that show attributes under their names."""
    return {name: attrgetter(name) for name in names}


def both_ends(name: str, *, of: str | None = None) -> Cells:
    """Return cells for the two ends of an interval, as floats; ``of`` tells which attribute."""
    read = attrgetter(of or name)
    return {
        f"{name}_lower": lambda one: (read(one) or NOTHING).ends[0],
        f"{name}_upper": lambda one: (read(one) or NOTHING).ends[1],
    }


_CELLS: Cells = {
    **attributes("instance", "digest"),
    "n": attrgetter("requests"),
    **attributes("memory_limit", "policy"),
    "params": lambda one: json.dumps(dict(one.params), sort_keys=True),
    **attributes("seed", "status"),
    "total_latency": lambda one: _number(one.total_latency),
    "evictions": attrgetter("evictions"),
    "optimum_upper": lambda one: _number(one.optimum_upper, math.inf),
    "optimum_lower": lambda one: _number(one.optimum_lower, -math.inf),
    "optimum_certified": lambda one: _number(one.optimum_certified, -math.inf),
    "proved": attrgetter("is_proved"),
    **both_ends("ratio"),
    **attributes("stop_reason", "solve_seconds", "reason", COMPARED_WITH, "unit"),
    "mean_latency": lambda one: _number(one.mean_latency),
    "mean_optimum_upper": lambda one: _number(one.mean_optimum.upper, math.inf),
    "mean_optimum_lower": lambda one: _number(one.mean_optimum.lower, -math.inf),
    **attributes("lower_bound", "waiting"),
    "optimum_waiting_upper": lambda one: _whole(one.optimum_waiting.upper),
    "optimum_waiting_lower": lambda one: _whole(one.optimum_waiting.lower),
    **both_ends("waiting_ratio"),
}


_SERVICE_CELLS: Cells = {
    **attributes("on_time"),
    **both_ends("attainable"),
    **both_ends("of_attainable"),
}


_BOTH_CELLS: Cells = {**both_ends("to_optimum"), **both_ends("to_preemptive_optimum")}


def record_cells(record: Trial) -> dict[str, Any]:
    """Return figures by name, intervals as their two ends; None where one is not known."""
    return {name: cell(record) for name, cell in _CELLS.items()}


def cells_of(records: Sequence[Trial]) -> list[dict[str, Any]]:
    """Return `record_cells` of each record of a table, the same names for all."""
    records = to_one_optimum(records)
    cells = {
        **_CELLS,
        **(_BOTH_CELLS if have_both(records) else {}),
        **(_SERVICE_CELLS if have_level(records) else {}),
        **(attributes("router") if any(record.router for record in records) else {}),
    }
    return [{name: cell(one) for name, cell in cells.items()} for one in records]


def records_csv(records: Sequence[Trial]) -> str:
    """Write every field of every record as CSV; an empty cell where something is not known."""
    lines: list[Iterable[Any]] = []
    for cells in cells_of(records):
        cells["proved"] = str(cells["proved"]).lower()
        if cells["solve_seconds"] is not None:
            cells["solve_seconds"] = f"{cells['solve_seconds']:.3f}"
        lines += [cells.values()] if lines else [cells, cells.values()]
    return csv_text(lines or [_CELLS])


def report_markdown(
    records: Sequence[Trial], summaries: Sequence[PolicySummary], notes: Sequence[str] = ()
) -> str:
    """Write summary, records and notes as a Markdown page."""
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
    """Return an end of an interval of whole rounds."""
    return None if end is None else int(end)


def _number(value: Latency | None, towards: float = 0.0) -> int | float | None:
    """Return rounds as they are, seconds as the nearest float, a bound rounded outwards."""
    if value is None or isinstance(value, int):
        return value
    nearest = float(value)
    inside = {math.inf: nearest < value, -math.inf: nearest > value}.get(towards, False)
    return math.nextafter(nearest, towards) if inside else nearest
