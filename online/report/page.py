"""The page about trials: HTML, style, script and schedules in one file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from itertools import chain
from string import Template
from typing import Any

from instances import Instance, InvalidTypeError, InvalidValueError, rounding_note
from instances.charts import element, number
from online.comparison.ratio_tables import (
    common_means,
    confidences_of,
    level_notes,
    listed,
    missing_notes,
)
from online.comparison.summaries import grouped
from online.comparison.trial import (
    NOT_RUN,
    OPTIMA,
    Trial,
    by_group,
    group_of,
    rounds_of,
    separate,
    to_one_optimum,
)
from online.trials.intervals import Interval

from . import tables
from .ratio_picture import LEVEL, Row, ratio_picture
from .self_contained import page_table, self_contained_page

DATA_ID = "trials"
"""Id of the element that holds the schedules as JSON."""


def build_report(
    trials: Iterable[Trial],
    title: str = "Competitive ratios",
    note: str = "",
    *,
    ids: bool = False,
) -> str:
    """Write a self-contained HTML page about the trials that have been run.

    It has tables of policies and trials, a chart of every ratio, and for the trial that the
    reader picks the policy's schedule beside the best known one, as stacked memory on equal axes.
    Each request's figures are shown on hover and in a table. The page loads nothing, and its
    content security policy forbids it to.

    Parameters
    ----------
    trials : Iterable[Trial]
        Of `online.compare`, of a results file, or `Trial.of_schedules`; at least one that has been
        run, shown in the order given.
    title : str, default "Competitive ratios"
        Title of the page.
    note : str, default ""
        A line below the answer.
    ids : bool, default False
        Show the ids of requests; a page without them shows their positions, from 0.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        Something is no `Trial`, or there is no trial.
    """
    given = list(trials)
    for one in given:
        if not isinstance(one, Trial):
            raise InvalidTypeError(None, "trials", one, "is no Trial")
    records = [one for one in given if one.status != NOT_RUN]
    if not records:
        raise InvalidValueError(None, "trials", [], "is empty: there is nothing to report")
    told = [rounding_note(one.problem.metadata) for one in records if one.problem is not None]
    note = "; ".join(filter(None, dict.fromkeys([note, *told])))
    records = to_one_optimum(records)
    groups = grouped_rows(records)
    own = by_group(records)
    notes = level_notes(records) + missing_notes(records)
    reasons = tables.reasons(own)
    pictures = {
        name: picture
        for name, rows in by_optimum(groups).items()
        if (picture := ratio_picture(rows))
    }
    data = report_data(records, ids=ids)
    facts = _facts(records, list(chain.from_iterable(groups.values())))
    body = Template((resources.files(__package__) / "page.html").read_text("utf-8")).substitute(
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
    )
    return self_contained_page(
        title,
        headline(groups),
        element("p", escape(facts), id="facts") + element("p", escape(note), class_="small"),
        body,
        (resources.files(__package__) / "page.js").read_text("utf-8"),
    )


def grouped_rows(trials: Sequence[Trial]) -> dict[str, list[Row]]:
    """Summarise the policies of each group of trials."""
    places = {id(one): index for index, one in enumerate(trials)}
    found: dict[str, list[Row]] = {}
    for group, own in by_group(trials).items():
        confidences = confidences_of(own)
        for k, (summary, its) in enumerate(grouped(own)):
            mean, totals = (None, None) if confidences is None else confidences[k]
            numbered = [(places[id(one)], one) for one in its]
            found.setdefault(group, []).append(Row(summary, mean, totals, numbered))
    return found


def by_optimum(groups: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """Divide each group by the optima compared with: one axis shows ratios to one optimum."""
    found: dict[str, list[Row]] = {}
    for group, rows in groups.items():
        optima = {row.summary.compared_with for row in rows}
        for row in rows:
            optimum = f"ratios to the {row.summary.compared_with}" if len(optima) > 1 else ""
            found.setdefault(", ".join(filter(None, (group, optimum))), []).append(row)
    return found


def headline(groups: Mapping[str, Sequence[Row]]) -> str:
    """Tell which policy has the least mean ratio, of those with a ratio on every instance."""
    found = [least for rows in groups.values() if (least := _least(rows))]
    if not found:
        return "No policy has a ratio in every trial"
    counts = Counter((optimum, *means) for optimum, means in found)
    (optimum, *names), count = counts.most_common(1)[0]
    means = next(means for name, means in found if (name, *means) == (optimum, *names))
    is_known = all(mean.is_exact for mean in means.values())
    who = f"{len(names)} policies" if len(names) > 4 else listed(names)
    who = who if is_known else who.replace(" and ", " or ")
    has = "have" if is_known and len(names) > 1 else "has"
    optimum = "hindsight optimum" if optimum == OPTIMA[0] else optimum
    if len(groups) > 1:
        figure = f" in {count} of {len(groups)} groups of trials"
    else:
        lowers = [mean.lower for mean in means.values() if mean.lower is not None]
        uppers = [mean.upper for mean in means.values() if mean.upper is not None]
        figure = f", {Interval(min(lowers), min(uppers))}"
    several = max(len(_means(rows)[1]) for rows in groups.values()) > 1
    every = [row.summary for rows in groups.values() for row in rows]
    some = any(one.failed or one.missing for one in every)
    of = ", of those with a ratio on every instance" if several and some else ""
    return f"{who} {has} {'the least' if several else 'a'} mean ratio to the {optimum}{figure}{of}"


def _means(rows: Sequence[Row]) -> tuple[str, dict[str, Interval]]:
    """Return an optimum, and the mean ratio to it of each policy with a ratio on every instance."""
    every = [row.summary for row in rows if row.summary.mean_ratio.upper is not None]
    whole = [one for one in every if not one.failed and not one.missing]
    if not whole:
        return OPTIMA[0], {}
    name = whole[0].compared_with
    same = [one for one in whole if one.compared_with == name]
    name, means = common_means(whole) or (name, [one.mean_ratio for one in same])
    chosen = whole if len(means) == len(whole) else same
    named = zip((one.policy for one in chosen), means, strict=True)
    return name, {policy: mean for policy, mean in named if mean.upper is not None}


def _least(rows: Sequence[Row]) -> tuple[str, dict[str, Interval]] | None:
    """Choose the policies of a group that may have the least mean ratio; None where none has."""
    optimum, means = _means(rows)
    least = min((mean.upper or 0 for mean in means.values()), default=0)
    found = {
        name: mean for name, mean in means.items() if mean.lower is not None and mean.lower <= least
    }
    return (optimum, found) if found else None


def report_data(given: Sequence[Trial], *, ids: bool = False) -> dict[str, Any]:
    """Collect what the script draws from: each instance and optimum once, and the trials."""
    instances: dict[Any, int] = {}
    documents: list[dict[str, Any]] = []
    # Policies on one instance are mostly held against one schedule.
    optima: dict[tuple[int | None, str], int] = {}
    schedules: list[Any] = []
    trials = []
    names = separate(given)
    for one in given:
        problem, best, place = one.problem, rounds_of(one.optimum_schedule), None
        if isinstance(problem, Instance):
            place = instances.setdefault(
                (problem.digest, problem.name, problem.ids), len(instances)
            )
            if place == len(documents):
                shown = problem.ids if ids else range(len(problem))
                documents.append({**_instance(problem), "ids": list(shown)})
        known = None
        if best is not None:
            known = optima.setdefault((place, repr(best)), len(optima))
            if known == len(schedules):
                schedules.append(best)
        trials.append(
            {
                "instance": place,
                "group": group_of(one, names),
                "heading": f"{one.policy_label} on {tables.instance_name(one) or 'no instance'}",
                "verdict": tables.verdict(one),
                "titles": tables.titles(one),
                "start_times": rounds_of(one.schedule),
                "lost_attempts": one.lost_attempts,
                "served": one.served,
                "optimum": known,
            }
        )
    return {"instances": documents, "optima": schedules, "trials": trials}


def _facts(records: Sequence[Trial], rows: Sequence[Row]) -> str:
    """Count trials, policies, instances, proofs and failures."""
    completed = [one for one in records if one.total_latency is not None]
    instances = {(one.digest, one.instance) for one in records if one.digest}
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
        "arrival_times": instance.arrival_times.tolist(),
        "prompt_lengths": instance.prompt_lengths.tolist(),
        "output_lengths": instance.output_lengths.tolist(),
    }


def _json_for_html(data: Any) -> str:
    """JSON that no HTML parser mistakes for the end of its element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
