"""Display of problems, schedules and runs in a notebook."""

from __future__ import annotations

import html
from typing import Any


def shown_html(shown: Any) -> str:
    """Return HTML with the repr of an object and its data frame (first and last rows of many)."""
    table: str = shown.frame()._repr_html_()
    return f"<div><p>{html.escape(repr(shown))}</p>{table}</div>"
