"""The page about trials: HTML, style, script and schedules in one file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from itertools import chain
from typing import Any

from instances import Instance, InvalidTypeError, InvalidValueError, rounding_note
from instances.charts import element, number
from online.comparison.coincidence import coincidence_notes
from online.comparison.ratio_tables import confidences_of
from online.comparison.records import Record, grouped
from online.comparison.trial_records import TrialRecord

from . import tables
from .ratio_picture import LEVEL, Row, ratio_picture
from .self_contained import page_table, self_contained_page

DATA_ID = "trials"
"""Id of the element that holds the schedules as JSON."""


def build_report(
    records: Sequence[TrialRecord], title: str = "Competitive ratios", note: str = ""
) -> str:
    """Write a self-contained HTML page about the trials.

    It has tables of policies and trials, a chart of every ratio, and for the trial that the
    reader picks the policy's schedule beside the best known one, as stacked memory on equal axes.
    Each request's figures are shown on hover and in a table. The page loads nothing, and its
    content security policy forbids it to.

    Parameters
    ----------
    records : Sequence[TrialRecord]
        The trials in the order in which they are shown, at least one.
    title : str, default "Competitive ratios"
        Heading of the page.
    note : str, default ""
        A line below it.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A record is no `TrialRecord`, or there is no record.
    """
    records = list(records)
    for record in records:
        if not isinstance(record, TrialRecord):
            raise InvalidTypeError(None, "records", record, "is no TrialRecord")
    if not records:
        raise InvalidValueError(None, "records", [], "is empty: there is nothing to report")
    told = [rounding_note(one.instance.metadata) for one in records if one.instance is not None]
    note = "; ".join(filter(None, dict.fromkeys([note, *told])))
    groups = grouped_rows(records)
    compared = {group: [one.compared for one in records if one.group == group] for group in groups}
    notes = coincidence_notes(compared, told_exactly=all(one.told_exactly for one in records))
    reasons = tables.reasons(compared)
    pictures = {name: picture for name, rows in groups.items() if (picture := ratio_picture(rows))}
    data = report_data(records)
    return self_contained_page(
        __package__,
        title=escape(title),
        note=escape(note),
        facts=escape(_facts(records, list(chain.from_iterable(groups.values())))),
        confidence=LEVEL,
        policies=page_table(tables.policies(groups), "policies"),
        notes="".join(element("li", escape(one)) for one in notes),
        groups="".join(element("option", escape(name)) for name in pictures),
        one_group="hidden" if len(pictures) < 2 else "",
        no_ratios="" if pictures else "hidden",
        pictures="".join(
            element("div", picture, hidden="" if k else None)
            for k, picture in enumerate(pictures.values())
        ),
        no_reasons="" if reasons.rows else "hidden",
        reasons=page_table(reasons, "reasons-table"),
        trials=page_table(tables.trials(records), "trials-table", picked=True),
        requests=page_table(tables.REQUESTS, "requests"),
        data_id=DATA_ID,
        data=_json_for_html(data),
        script=(resources.files(__package__) / "page.js").read_text("utf-8"),
    )


def grouped_rows(records: Sequence[TrialRecord]) -> dict[str, list[Row]]:
    """Summarise the policies of each group of trials."""
    places = {id(record.compared): index for index, record in enumerate(records)}
    draws = {id(one.compared): one.draw for one in records if one.draw is not None}
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.group, []).append(record.compared)
    found: dict[str, list[Row]] = {}
    for group, own in groups.items():
        confidences = confidences_of(own, draws=draws)
        for k, (summary, its) in enumerate(grouped(own)):
            mean, totals = (None, None) if confidences is None else confidences[k]
            trials = [(places[id(one)], one) for one in its]
            found.setdefault(group, []).append(Row(summary, mean, totals, trials))
    return found


def report_data(records: Sequence[TrialRecord]) -> dict[str, Any]:
    """Collect what the script draws from: each instance and optimum once, and the trials."""
    instances: dict[Any, int] = {}
    documents: list[dict[str, Any]] = []
    # Policies on one instance are mostly held against one schedule.
    optima: dict[Any, int] = {}
    trials = []
    for record in records:
        own, best, place = record.instance, record.optimum_start_times, None
        if own is not None:
            place = instances.setdefault((own.digest, own.name, own.ids), len(instances))
            if place == len(documents):
                documents.append(_instance(own))
        known = None if best is None else optima.setdefault((place, best), len(optima))
        trials.append(
            {
                "instance": place,
                "group": record.group,
                "heading": f"{record.policy} on {tables.instance_name(record) or 'no instance'}",
                "verdict": tables.verdict(record),
                "titles": tables.titles(record),
                "start_times": record.start_times,
                "lost_attempts": record.lost_attempts,
                "served": record.served,
                "optimum": known,
            }
        )
    return {"instances": documents, "optima": [best for _, best in optima], "trials": trials}


def _facts(records: Sequence[TrialRecord], rows: Sequence[Row]) -> str:
    """Count trials, policies, instances, proofs and failures."""
    completed = [one for one in records if one.total_latency is not None]
    instances = {
        (one.compared.digest, one.compared.instance) for one in records if one.compared.digest
    }
    proved = sum(one.is_proved for one in completed)
    return " · ".join(
        [
            _count(len(records), "trial", "trials"),
            _count(len({row.summary.policy for row in rows}), "policy", "policies"),
            _count(len(instances), "instance", "instances"),
            f"optimum proved in {number(proved)} of "
            + _count(len(completed), "completed trial", "completed trials"),
            f"{number(len(records) - len(completed))} failed",
        ]
    )


def _count(count: int, one: str, many: str) -> str:
    return f"{number(count)} {one if count == 1 else many}"


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


def _json_for_html(data: Any) -> str:
    """JSON that no HTML parser mistakes for the end of its element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
