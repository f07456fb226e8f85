"""A page that needs nothing but a browser: HTML, style and figures in one file."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from importlib import resources
from string import Template

from instances.charts import element
from instances.version import package_version
from online.runtime.table import Table


def self_contained_page(package: str | None, *, title: str, script: str = "", **parts: str) -> str:
    """Fill in the ``page.html`` of a package, inside the frame and the style that all pages share.

    Parameters
    ----------
    package : str or None
        The package of the page.
    title : str
        Title and heading, HTML.
    script : str, default ""
        JavaScript; a page without any forbids scripts.
    **parts : str
        HTML by name.
    """
    shared = resources.files(__package__ or "")
    # substitute() replaces in one pass: a "$" in a name or a script stays as it is.
    page = Template((resources.files(package or "") / "page.html").read_text("utf-8"))
    return Template((shared / "frame.html").read_text("utf-8")).substitute(
        title=title,
        scripts="script-src 'unsafe-inline'; " if script else "",
        style=(shared / "page.css").read_text("utf-8"),
        body=page.substitute(title=title, **parts),
        script=f"<script>\n{script}\n</script>\n" if script else "",
    )


def page_table(table: Table, table_id: str | None = None, *, picked: bool = False) -> str:
    """Write a table in a frame that scrolls; what follows a line break in a cell is small.

    Parameters
    ----------
    table : Table
        Its title is left out.
    table_id : str or None, default None
        Id of a table that the reader sorts by a click on a heading.
    picked : bool, default False
        Let the reader pick rows.
    """
    kinds = {
        name: None
        if name not in table.text_columns
        else "text long"
        if name in table.prose_columns
        else "text"
        for name in table.columns
    }
    heads = []
    for name in table.columns:
        # Long names may break behind an underscore.
        shown = escape(name).replace("_", "_<wbr>")
        shown = element("button", f"{shown}<wbr>", type="button") if table_id else shown
        heads.append(element("th", shown, scope="col", class_=kinds[name]))
    rows = [
        element(
            "tr",
            "".join(map(_cell, cells, kinds.values())),
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


def _cell(text: str, kind: str | None) -> str:
    first, _, more = text.partition("\n")
    below = element("div", escape(more), class_="small") if more else ""
    return element("td", escape(first) + below, class_=kind)


def written_by() -> str:
    """Date and version, for a page that is to be cited."""
    return f"{datetime.now(UTC):%Y-%m-%d} by llm-hindsight {package_version()}"
