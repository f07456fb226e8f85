"""A page that needs nothing but a browser: HTML, style, scripts and data in one file."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib import resources
from string import Template
from typing import Any

from instances.version import package_version


def self_contained_page(package: str | None, data: Any, *, data_id: str, **parts: str) -> str:
    """The ``page.html`` and ``page.js`` of a package, in the style that all pages share.

    Parameters
    ----------
    package : str or None
        Where the two are.
    data : Any
        What the script reads, as JSON, from the element ``data_id``.
    data_id : str
        Id of an element.
    **parts : str
        Further HTML, by name.
    """
    own = resources.files(package or __package__ or "")
    shared = resources.files(__package__ or "")
    # substitute() replaces in one pass: a "$" in a name or a script stays as it is.
    return Template((own / "page.html").read_text("utf-8")).substitute(
        style=(shared / "page.css").read_text("utf-8"),
        charts=(shared / "charts.js").read_text("utf-8"),
        data_id=data_id,
        data=_json_for_html(data),
        script=(own / "page.js").read_text("utf-8"),
        **parts,
    )


def written_by() -> str:
    """Date and version, for a page that is to be cited."""
    return f"{datetime.now(UTC):%Y-%m-%d} by llm-hindsight {package_version()}"


def _json_for_html(data: Any) -> str:
    """JSON that no HTML parser mistakes for the end of its element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
