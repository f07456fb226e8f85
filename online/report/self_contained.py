"""A page that needs nothing but a browser: HTML, style and figures in one file."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import escape
from importlib import resources
from string import Template

from instances.charts import element
from instances.version import package_version
from online.tables import Table


def self_contained_page(
    title: str, answer: str, under_answer: str, body: str, script: str = ""
) -> str:
    """Write a page in the frame and the style that all pages share.

    Parameters
    ----------
    title : str
        Title of the page, text.
    answer : str
        What the page says, in one sentence, text; its heading.
    under_answer : str
        HTML that stands below it: the picture, and what a reader must know.
    body : str
        HTML of the rest.
    script : str, default ""
        JavaScript; a page without any forbids scripts.
    """
    shared = resources.files(__package__ or "")
    # substitute() replaces in one pass: a "$" in a name or a script stays as it is.
    return Template((shared / "frame.html").read_text("utf-8")).substitute(
        title=escape(title),
        answer=escape(answer),
        under_answer=under_answer,
        scripts="script-src 'unsafe-inline'; " if script else "",
        style=(shared / "page.css").read_text("utf-8"),
        body=body,
        script=f"<script>\n{script}\n</script>\n" if script else "",
    )


def folded(title: str, *content: str) -> str:
    """Write a section of which the heading alone is shown until the reader opens it."""
    heading = element("summary", element("h2", escape(title)))
    return element("details", heading + "\n".join(content)) + "\n"


def page_table(table: Table, table_id: str | None = None, *, picked: bool = False) -> str:
    """Write a table in a frame that scrolls, the columns that answer on the left.

    What follows a line break in a cell is small.

    Parameters
    ----------
    table : Table
        Its title is left out.
    table_id : str or None, default None
        Id of a table that the reader sorts by a click on a heading.
    picked : bool, default False
        Let the reader pick rows.
    """
    places = {name: place for place, name in enumerate(table.columns)}
    places = {name: places[name] for name in dict.fromkeys((*table.by_importance, *places))}
    kinds = {
        name: None
        if name not in table.text_columns
        else "text long"
        if name in table.prose_columns
        else "text"
        for name in places
    }
    heads = []
    for name in places:
        shown = _breakable(name)
        shown = element("button", f"{shown}<wbr>", type="button") if table_id else shown
        heads.append(element("th", shown, scope="col", class_=kinds[name]))
    rows = [
        element(
            "tr",
            "".join(map(_cell, (cells[place] for place in places.values()), kinds.values())),
            class_="pick" if picked else None,
            tabindex=0 if picked else None,
            data_index=index if picked else None,
        )
        for index, cells in enumerate(table.rows)
    ]
    body = "\n".join(rows)
    content = f"<thead><tr>{''.join(heads)}</tr></thead>\n<tbody>{body}</tbody>"
    framed = element("table", content, id=table_id, class_=None if table_id else "plain")
    return element("div", framed, class_="scroll tall" if table_id else "scroll")


def _breakable(name: str) -> str:
    """Let a long name break where its parts end."""
    return re.sub(r"([_(=])", r"\1<wbr>", escape(name))


def _cell(text: str, kind: str | None) -> str:
    first, _, more = text.partition("\n")
    below = element("div", escape(more), class_="small") if more else ""
    return element("td", (_breakable(first) if kind else escape(first)) + below, class_=kind)


def written_by() -> str:
    """Date and version, for a page that is to be cited."""
    return f"{datetime.now(UTC):%Y-%m-%d} by llm-hindsight {package_version()}"
