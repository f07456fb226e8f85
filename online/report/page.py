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
from online.comparison.coincidence import coincidence_notes, listed
from online.comparison.ratio_tables import confidences_of, level_notes
from online.comparison.ratios import Interval
from online.comparison.summaries import PolicySummary, grouped
from online.comparison.trial import NOT_RUN, OPTIMA, Trial, rounds_of, separate

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
    groups = grouped_rows(records)
    own = by_group(records)
    exact = all(one.predictions == "exact" for one in records)
    notes = level_notes(records) + coincidence_notes(own, told_exactly=exact)
    reasons = tables.reasons(own)
    pictures = {name: picture for name, rows in groups.items() if (picture := ratio_picture(rows))}
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


def by_group(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    """Collect the trials whose ratios may be averaged, by what tells the groups apart."""
    names, groups = separate(trials), dict[str, list[Trial]]()
    for one in trials:
        groups.setdefault(_group(one, names), []).append(one)
    return groups


def _group(trial: Trial, names: Sequence[str]) -> str:
    return ", ".join(str(getattr(trial, name)) for name in names)


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


def headline(groups: Mapping[str, Sequence[Row]]) -> str:
    """Tell which policy has the least mean ratio, of those with a ratio in every trial."""
    found = [least for rows in groups.values() if (least := _least(rows))]
    if not found:
        return "No policy has a ratio in every trial"
    counts = Counter(tuple(one.policy for one in least) for least in found)
    names, count = counts.most_common(1)[0]
    least = next(one for one in found if tuple(each.policy for each in one) == names)
    means = [one.mean_ratio for one in least]
    is_known = all(one.is_exact for one in means)
    who = f"{len(names)} policies" if len(names) > 4 else listed(names)
    who = who if is_known else who.replace(" and ", " or ")
    has = "have" if is_known and len(names) > 1 else "has"
    optimum = least[0].compared_with
    optimum = "hindsight optimum" if optimum == OPTIMA[0] else optimum
    if len(groups) > 1:
        figure = f" in {count} of {len(groups)} groups of trials"
    else:
        lowers = [one.lower for one in means if one.lower is not None]
        uppers = [one.upper for one in means if one.upper is not None]
        figure = f", {Interval(min(lowers), min(uppers))}"
    the = "the least" if max(map(len, groups.values())) > 1 else "a"
    return f"{who} {has} {the} mean ratio to the {optimum}{figure}"


def _least(rows: Sequence[Row]) -> list[PolicySummary]:
    """Choose the policies of a group that may have the least mean ratio to the first's optimum."""
    own = [row.summary for row in rows if not row.summary.failed]
    own = [one for one in own if one.compared_with == own[0].compared_with]
    known = [(one, one.mean_ratio.lower) for one in own if one.mean_ratio.upper is not None]
    least = min((one.mean_ratio.upper or 0 for one, _ in known), default=0)
    return [one for one, lower in known if lower is not None and lower <= least]


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
                "group": _group(one, names),
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
