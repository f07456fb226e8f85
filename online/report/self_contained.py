"""A page that needs nothing but a browser: HTML, style, scripts, plotly and data in one file."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from string import Template
from typing import Any


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

    Raises
    ------
    ImportError
        Plotly is not installed; it comes with the extra ``experiments``.
    """
    own = resources.files(package or __package__ or "")
    style = (resources.files(__package__ or "") / "page.css").read_text("utf-8")
    # substitute() replaces in one pass: a "$" in a name or in plotly's script stays as it is.
    return Template((own / "page.html").read_text("utf-8")).substitute(
        style=style,
        plotly=plotly_script(),
        data_id=data_id,
        data=_json_for_html(data),
        script=(own / "page.js").read_text("utf-8"),
        **parts,
    )


def _json_for_html(data: Any) -> str:
    """JSON that no HTML parser mistakes for the end of its element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@cache
def plotly_script() -> str:
    """Plotly's own script, fit to stand inside a script element.

    Raises
    ------
    ImportError
        It is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError(
            "a page needs the package 'plotly': pip install 'llm-hindsight[experiments]'"
        ) from error
    script: str = get_plotlyjs()
    # Inside a script element only the end tag ends it; plotly's source has none today.
    return script.replace("</script", "<\\/script")
