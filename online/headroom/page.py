"""The answer as one self-contained page: the tables of the command, and pictures beside them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from online.report.self_contained import self_contained_page
from online.runtime.table import Table

from .answer import MEASURED, Headroom
from .runs import CurvePoint
from .tables import (
    LOAD,
    MEMORY,
    classes_table,
    curve_table,
    failures_table,
    fields,
    notes,
    percentiles_table,
    policies_table,
    savings_table,
    sentence,
    shown,
    stretches_table,
    told,
)

DATA_ID = "headroom"
"""Id of the element that holds what the pictures are drawn from."""


def headroom_page(found: Headroom, facts: dict[str, str], title: str) -> str:
    """A page that says what the command prints, in the same words and figures.

    Parameters
    ----------
    found : Headroom
        The answer.
    facts : dict[str, str]
        What the caller knows of the log, by name.
    title : str
        Heading of the page.
    """
    data = page_data(found)
    answer = [
        _section(savings_table(found)),
        _section(
            policies_table(found) if found.completed else None,
            "policies-picture",
            data["policies"],
            "Mean latency of every policy, and where the best possible lies",
        ),
        _section(failures_table(found)),
    ]
    sections = [
        _section(
            stretches_table(found),
            "over-time-picture",
            data["over_time"],
            "Requests waiting and memory held over time",
        ),
        _section(classes_table(found)),
        _section(percentiles_table(found)),
        *(
            _section(
                curve_table(found, points, title),
                f"{name}-picture",
                data[name],
                f"Mean latency of the policies and the best possible {title.lower()}",
            )
            for points, title, name in (
                (found.memory_curve, MEMORY, "memory"),
                (found.load_curve, LOAD, "load"),
            )
        ),
    ]
    return self_contained_page(
        __package__,
        data,
        data_id=DATA_ID,
        title=escape(title),
        answer=escape(sentence(found)),
        pictures="\n".join(answer),
        facts=_rows(fields(found, facts)),
        sections="\n".join(sections),
        notes="\n".join(f'<p class="small">{escape(note)}</p>' for note in notes(found)),
    )


def page_data(found: Headroom) -> dict[str, Any]:
    """What the pictures are drawn from."""
    best = None if found.best is None else found.best.mean_latency.ends
    looked_into = [(run.policy, run.over_time) for run in shown(found) if run.over_time is not None]
    return {
        "policies": {
            "best": best,
            "today": [
                {
                    "name": "measured in the log"
                    if one.today == MEASURED
                    else f"{one.today}, simulated",
                    "mean": float(one.mean_latency),
                }
                for one in found.savings
            ],
            "runs": [
                {"policy": run.policy, "told": told(run.error), "mean": float(run.mean_latency)}
                for run in sorted(found.completed, key=lambda run: run.mean_latency or 0)
                if run.mean_latency is not None
            ],
        }
        if found.completed
        else None,
        "over_time": {
            "seconds": looked_into[0][1].seconds,
            "runs": [
                {
                    "policy": policy,
                    "queue": over_time.queue.round(3).tolist(),
                    "memory": (100 * over_time.memory).round(2).tolist(),
                }
                for policy, over_time in looked_into
            ],
        }
        if looked_into
        else None,
        "memory": _curve(found.memory_curve),
        "load": _curve([one for one in found.load_curve if one.load is not None]),
    }


def _curve(points: Sequence[CurvePoint]) -> list[dict[str, Any]]:
    return [
        {
            "memory_limit": one.memory_limit,
            "load": one.load,
            "best": None if one.best is None else one.best.mean_latency.ends,
            "runs": [
                {
                    "policy": run.policy,
                    "mean": None if run.mean_latency is None else float(run.mean_latency),
                }
                for run in one.runs
            ],
        }
        for one in points
    ]


def _section(
    table: Table | None, picture: str | None = None, drawn: Any = None, label: str = ""
) -> str:
    """A table below its heading, with the place of a picture above it where there is one."""
    if table is None:
        return ""
    place = f'<div id="{picture}" class="picture" data-label="{escape(label)}"></div>\n'
    return (
        f"<section>\n<h2>{escape(table.title)}</h2>\n{place if picture and drawn else ''}"
        f'<div class="scroll">{_table(table)}</div>\n</section>'
    )


def _table(table: Table) -> str:
    def row(cells: Sequence[str], kind: str) -> str:
        made = []
        for name, cell in zip(table.columns, cells, strict=True):
            left = ' class="text"' if name in table.text_columns else ""
            made.append(f"<{kind}{left}>{escape(cell)}</{kind}>")
        return f"<tr>{''.join(made)}</tr>"

    body = "\n".join(row(cells, "td") for cells in table.rows)
    return (
        f'<table class="plain"><thead>{row(table.columns, "th")}</thead>\n'
        f"<tbody>{body}</tbody></table>"
    )


def _rows(named: dict[str, str]) -> str:
    rows = "\n".join(
        f'<tr><th class="text" scope="row">{escape(name)}</th><td class="text long">'
        f"{escape(value)}</td></tr>"
        for name, value in named.items()
    )
    return f'<div class="scroll"><table class="plain" id="facts">{rows}</table></div>'
