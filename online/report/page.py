"""The page: HTML, style, script, plotly and the records in one file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from instances import Instance, InvalidTypeError, InvalidValueError, rounding_note
from online.comparison.ratios import Interval
from online.comparison.records import PolicySummary, summarise
from online.comparison.trial_records import TrialRecord

from .self_contained import self_contained_page

DATA_ID = "trials"
"""Id of the element that holds the records as JSON."""


def build_report(
    records: Sequence[TrialRecord], title: str = "Competitive ratios", note: str = ""
) -> str:
    """A self-contained HTML page about the trials.

    A table of the policies' ratios and one of the trials, both sortable; for the trial picked,
    policy and best known schedule as stacked memory on equal axes, with each request's figures on
    hover and in a table. The page refers to nothing outside itself, and forbids itself to.

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
    ImportError
        Plotly is not installed; it comes with the extra ``experiments``.
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
        __package__, data, data_id=DATA_ID, title=escape(title), note=escape(note)
    )


def report_data(records: Sequence[TrialRecord]) -> dict[str, Any]:
    """What the page's script reads: instances once each, trials, policies by group."""
    instances: list[Instance] = []
    places: dict[tuple[str, str | None, tuple[Any, ...]], int] = {}
    trials = []
    for record in records:
        place = None
        if record.instance is not None:
            instance = record.instance
            key = (instance.digest, instance.name, instance.ids)
            place = places.setdefault(key, len(instances))
            if place == len(instances):
                instances.append(instance)
        trials.append(
            {
                "instance": place,
                "group": record.group,
                "policy": record.policy,
                "seed": record.seed,
                "status": record.status,
                "note": record.note,
                "total_latency": record.total_latency,
                "start_times": _lists(record.start_times),
                "lost_attempts": _lists(record.lost_attempts),
                "served": _lists(record.served),
                "optimum_start_times": _lists(record.optimum_start_times),
                "optimum_upper": record.optimum_upper,
                "optimum_lower": record.optimum_lower,
                "compared_with": record.compared.compared_with,
                "proved": record.is_proved,
                "ratio": _ends(record.ratio),
                "waiting": record.compared.waiting,
                "optimum_waiting": _rounds(record.compared.optimum_waiting),
                "waiting_ratio": _ends(record.compared.waiting_ratio),
            }
        )
    return {
        "instances": [_instance(instance) for instance in instances],
        "trials": trials,
        "policies": [
            _policy(group, summary)
            for group in dict.fromkeys(record.group for record in records)
            for summary in summarise([each.compared for each in records if each.group == group])
        ],
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


def _policy(group: str, summary: PolicySummary) -> dict[str, Any]:
    return {
        "group": group,
        "policy": summary.policy,
        "compared_with": summary.compared_with,
        "trials": summary.trials,
        "failed": summary.failed,
        "proved": summary.proved,
        "mean_ratio": _ends(summary.mean_ratio),
        "max_ratio": _ends(summary.max_ratio),
        "ratio_of_totals": _ends(summary.ratio_of_totals),
        "ratio_of_waitings": _ends(summary.ratio_of_waitings),
    }


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
