"""The page: HTML, style, scripts and the records in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from html import escape
from typing import Any

from instances import Instance, InvalidTypeError, InvalidValueError, rounding_note
from online.comparison.bootstrap import ConfidenceInterval
from online.comparison.coincidence import coincidence_notes
from online.comparison.ratio_tables import confidences_of, count_reasons, percent_of
from online.comparison.ratios import Interval, Latency, rounded, rounded_down, rounded_up
from online.comparison.summaries import summarise
from online.comparison.trial import NOT_RUN, Trial, rounds_of, separate

from .self_contained import self_contained_page

LEVEL = percent_of(0.95)

DATA_ID = "trials"
"""Id of the element that holds the records as JSON."""


def build_report(trials: Iterable[Trial], title: str = "Competitive ratios", note: str = "") -> str:
    """A self-contained HTML page about the trials that have been run.

    A table of the policies' ratios with confidence intervals, every ratio in a picture, a table of
    the trials; for the trial picked, policy and best known schedule as stacked memory on equal
    axes, with each request's figures on hover and in a table. The page refers to nothing outside
    itself, and forbids itself to.

    Parameters
    ----------
    trials : Iterable[Trial]
        Of `online.compare`, of a results file, or `Trial.of_schedules`; at least one that has been
        run, shown in the order given.
    title : str, default "Competitive ratios"
        Heading of the page.
    note : str, default ""
        A line below it.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        Something that is no `Trial`, or no trial.
    """
    given = list(trials)
    for one in given:
        if not isinstance(one, Trial):
            raise InvalidTypeError(None, "trials", one, "is no Trial")
    shown = [one for one in given if one.status != NOT_RUN]
    if not shown:
        raise InvalidValueError(None, "trials", [], "is empty: there is nothing to report")
    told = [rounding_note(one.problem.metadata) for one in shown if one.problem is not None]
    note = "; ".join(filter(None, dict.fromkeys([note, *told])))
    data = report_data(shown)
    return self_contained_page(
        __package__,
        data,
        data_id=DATA_ID,
        title=escape(title),
        note=escape(note),
        confidence=LEVEL,
    )


def report_data(given: Sequence[Trial]) -> dict[str, Any]:
    """What the page's script reads: instances and optima once each, trials, policies by group."""
    instances: dict[Any, tuple[int, dict[str, Any]]] = {}
    optima: dict[Any, tuple[int, Any]] = {}
    trials = []
    groups: dict[str, list[Trial]] = {}
    names = separate(given)
    for one in given:
        group = ", ".join(str(getattr(one, name)) for name in names)
        groups.setdefault(group, []).append(one)
        place, problem = None, one.problem
        if isinstance(problem, Instance):
            key = (problem.digest, problem.name, problem.ids)
            place = _place(instances, key, partial(_instance, problem))
        elif one.digest is not None:
            place = _place(instances, (one.digest, one.instance), partial(_named, one))
        best = rounds_of(one.optimum_schedule)
        trials.append(
            {
                "instance": place,
                "group": group,
                "policy": one.policy_label,
                "seed": one.seed,
                "status": one.status,
                "note": one.reason or "",
                "unit": one.unit,
                "total_latency": _figure(one.total_latency, rounded),
                "start_times": rounds_of(one.schedule),
                "lost_attempts": _lists(one.lost_attempts),
                "served": _lists(one.served),
                # Policies on one instance are mostly held against one schedule.
                "optimum": None
                if best is None
                else _place(optima, (place, repr(best)), partial(list, best)),
                "optimum_upper": _figure(one.optimum_upper, rounded_up),
                "optimum_lower": _figure(one.optimum_lower, rounded_down),
                "compared_with": one.compared_with,
                "proved": one.is_proved,
                "ratio": _ends(one.ratio),
                "waiting": one.waiting,
                "optimum_waiting": _rounds(one.optimum_waiting),
                "waiting_ratio": _ends(one.waiting_ratio),
            }
        )
    exact = all(one.predictions == "exact" for one in given)
    return {
        "confidence": LEVEL,
        "units": list(dict.fromkeys(trial["unit"] for trial in trials)),
        "instances": [document for _, document in instances.values()],
        "optima": [document for _, document in optima.values()],
        "trials": trials,
        "policies": [row for group, own in groups.items() for row in _policies(group, own)],
        "notes": coincidence_notes(groups, told_exactly=exact),
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


def _named(record: Trial) -> dict[str, Any]:
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


def _policies(group: str, trials: list[Trial]) -> list[dict[str, Any]]:
    summaries = summarise(trials)
    found = confidences_of(trials)
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
