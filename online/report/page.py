"""The page: HTML, style, scripts and the records in one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from html import escape
from typing import Any

from instances import Instance, InvalidTypeError, InvalidValueError, rounding_note
from online.comparison.bootstrap import ConfidenceInterval
from online.comparison.coincidence import coincidence_notes
from online.comparison.ratio_tables import confidences_of, count_reasons, percent_of
from online.comparison.ratios import Interval, Latency, rounded, rounded_down, rounded_up
from online.comparison.records import Record, summarise
from online.comparison.trial_records import TrialRecord

from .self_contained import self_contained_page

LEVEL = percent_of(0.95)

DATA_ID = "trials"
"""Id of the element that holds the records as JSON."""


def build_report(
    records: Sequence[TrialRecord], title: str = "Competitive ratios", note: str = ""
) -> str:
    """A self-contained HTML page about the trials.

    A table of the policies' ratios with confidence intervals, every ratio in a picture, a table of
    the trials; for the trial picked, policy and best known schedule as stacked memory on equal
    axes, with each request's figures on hover and in a table. The page refers to nothing outside
    itself, and forbids itself to.

    Parameters
    ----------
    records : Sequence[TrialRecord]
        At least one, shown in the order given.
    title : str, default "Competitive ratios"
        Heading of the page.
    note : str, default ""
        A line below it.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        Something that is no `TrialRecord`, or no record.
    """
    records = list(records)
    for record in records:
        if not isinstance(record, TrialRecord):
            raise InvalidTypeError(None, "records", record, "is no TrialRecord")
    if not records:
        raise InvalidValueError(None, "records", [], "is empty: there is nothing to report")
    told = [rounding_note(one.instance.metadata) for one in records if one.instance is not None]
    note = "; ".join(filter(None, dict.fromkeys([note, *told])))
    data = report_data(records)
    return self_contained_page(
        __package__,
        data,
        data_id=DATA_ID,
        title=escape(title),
        note=escape(note),
        confidence=LEVEL,
    )


def report_data(records: Sequence[TrialRecord]) -> dict[str, Any]:
    """What the page's script reads: instances and optima once each, trials, policies by group."""
    instances: dict[Any, tuple[int, dict[str, Any]]] = {}
    optima: dict[Any, tuple[int, Any]] = {}
    trials = []
    for record in records:
        compared = record.compared
        own = record.instance
        place = None
        if own is not None:
            place = _place(instances, (own.digest, own.name, own.ids), partial(_instance, own))
        elif record.figures is not None:
            key = (compared.digest, compared.instance)
            place = _place(instances, key, partial(_named, compared))
        best = record.optimum_start_times
        trials.append(
            {
                "instance": place,
                "group": record.group,
                "policy": record.policy,
                "seed": record.seed,
                "status": record.status,
                "note": record.note,
                "unit": compared.unit,
                "total_latency": _figure(record.total_latency, rounded),
                "start_times": _lists(record.start_times),
                "lost_attempts": _lists(record.lost_attempts),
                "served": _lists(record.served),
                # Policies on one instance are mostly held against one schedule.
                "optimum": None
                if best is None
                else _place(optima, (place, best), partial(_lists, best)),
                "optimum_upper": _figure(compared.optimum_upper, rounded_up),
                "optimum_lower": _figure(compared.optimum_lower, rounded_down),
                "compared_with": compared.compared_with,
                "proved": record.is_proved,
                "ratio": _ends(record.ratio),
                "waiting": compared.waiting,
                "optimum_waiting": _rounds(compared.optimum_waiting),
                "waiting_ratio": _ends(compared.waiting_ratio),
            }
        )
    groups: dict[str, list[Record]] = {}
    for record in records:
        # By label: parameters are in it.
        groups.setdefault(record.group, []).append(record.compared)
    draws = {id(one.compared): one.draw for one in records if one.draw is not None}
    return {
        "confidence": LEVEL,
        "units": list(dict.fromkeys(trial["unit"] for trial in trials)),
        "instances": [document for _, document in instances.values()],
        "optima": [document for _, document in optima.values()],
        "trials": trials,
        "policies": [row for group, own in groups.items() for row in _policies(group, own, draws)],
        "notes": coincidence_notes(groups, told_exactly=all(one.told_exactly for one in records)),
        "reasons": [
            {"group": group, "policy": policy, "count": count, "status": status, "reason": reason}
            for group, own in groups.items()
            for policy in dict.fromkeys(one.policy_label for one in own)
            for count, status, reason in count_reasons(
                [one for one in own if one.policy_label == policy]
            )
        ],
    }


def _place(known: dict[Any, tuple[int, Any]], key: Any, make: Callable[[], Any]) -> int:
    """Where it stands in its list, which it is added to where it is new."""
    if key not in known:
        known[key] = len(known), make()
    return known[key][0]


def _named(record: Record) -> dict[str, Any]:
    """An instance of which no bands are drawn."""
    return {
        "name": record.instance or (record.digest or "")[:12],
        "digest": record.digest,
        "memory_limit": record.memory_limit,
        "requests": record.requests,
        "ids": [],
    }


def _instance(instance: Instance) -> dict[str, Any]:
    return {
        "name": instance.name or instance.digest[:12],
        "digest": instance.digest,
        "memory_limit": instance.memory_limit,
        "ids": list(instance.ids),
        "arrival_times": instance.arrival_times.tolist(),
        "prompt_lengths": instance.prompt_lengths.tolist(),
        "output_lengths": instance.output_lengths.tolist(),
    }


def _policies(group: str, records: list[Record], draws: Mapping[int, int]) -> list[dict[str, Any]]:
    summaries = summarise(records)
    found = confidences_of(records, draws=draws)
    confidences = [(None, None)] * len(summaries) if found is None else found
    return [
        {
            "group": group,
            "policy": summary.policy,
            "compared_with": summary.compared_with,
            "trials": summary.trials,
            "failed": summary.failed,
            "proved": summary.proved,
            "mean_ratio": _ends(summary.mean_ratio),
            "mean_confidence": _between(mean),
            "max_ratio": _ends(summary.max_ratio),
            "ratio_of_totals": _ends(summary.ratio_of_totals),
            "totals_confidence": _between(totals),
            "ratio_of_waitings": _ends(summary.ratio_of_waitings),
        }
        for summary, (mean, totals) in zip(summaries, confidences, strict=True)
    ]


def _between(interval: ConfidenceInterval | None) -> dict[str, Any] | None:
    if interval is None or not str(interval):
        return None
    return {"text": str(interval), "lower": interval.low, "upper": interval.high}


def _figure(value: Latency | None, rounding: Callable[[Fraction], str]) -> float | int | None:
    """Rounds as they are, seconds as they are shown."""
    return value if value is None or isinstance(value, int) else float(rounding(value))


def _ends(interval: Interval | None) -> dict[str, Any] | None:
    """The interval as text, rounded outwards, and as floats to sort by."""
    if interval is None:
        return None
    low, high = interval.ends
    return {"text": str(interval), "lower": low, "upper": high}


def _rounds(interval: Interval) -> list[int | None]:
    """The ends of an interval of whole rounds."""
    return [None if end is None else int(end) for end in (interval.lower, interval.upper)]


def _lists(value: Any) -> Any:
    """Tuples in tuples as JSON has them."""
    return [_lists(one) for one in value] if isinstance(value, tuple) else value
