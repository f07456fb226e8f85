"""The answer as one self-contained page: the tables of the command, and pictures beside them."""

from __future__ import annotations

from html import escape

from online.report.self_contained import page_table, self_contained_page
from online.runtime.table import Table

from .answer import Headroom
from .page_pictures import curve_picture, over_time_picture, policies_picture
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
    stretches_table,
)


def headroom_page(found: Headroom, facts: dict[str, str], title: str) -> str:
    """Write a page with the words and figures that the command prints.

    Parameters
    ----------
    found : Headroom
        The answer.
    facts : dict[str, str]
        Facts about the log by name.
    title : str
        Heading of the page.
    """
    policies = (policies_table(found), policies_picture(found)) if found.completed else (None,)
    answer = [
        _section(savings_table(found)),
        _section(*policies),
        _section(failures_table(found)),
    ]
    loads = [one for one in found.load_curve if one.load is not None]
    best = "Mean latency of the policies and the best possible"
    sections = [
        _section(stretches_table(found), over_time_picture(found)),
        _section(classes_table(found)),
        _section(percentiles_table(found)),
        _section(
            curve_table(found, found.memory_curve, MEMORY),
            curve_picture("memory", found.memory_curve, f"{best} {MEMORY.lower()}"),
        ),
        _section(
            curve_table(found, found.load_curve, LOAD),
            curve_picture("load", loads, f"{best} {LOAD.lower()}"),
        ),
    ]
    return self_contained_page(
        __package__,
        title=escape(title),
        answer=escape(sentence(found)),
        pictures="\n".join(answer),
        facts=_rows(fields(found, facts)),
        sections="\n".join(sections),
        notes="\n".join(f'<p class="small">{escape(note)}</p>' for note in notes(found)),
    )


def _section(table: Table | None, picture: str = "") -> str:
    """A table below its heading and its picture."""
    if table is None:
        return ""
    return f"<section>\n<h2>{escape(table.title)}</h2>\n{picture}{page_table(table)}\n</section>"


def _rows(named: dict[str, str]) -> str:
    rows = "\n".join(
        f'<tr><th class="text" scope="row">{escape(name)}</th><td class="text long">'
        f"{escape(value)}</td></tr>"
        for name, value in named.items()
    )
    return f'<div class="scroll"><table class="plain" id="facts">{rows}</table></div>'
