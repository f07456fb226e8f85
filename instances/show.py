"""Display of problems, schedules and runs in a notebook."""

from __future__ import annotations

import html
from typing import Any


def shown_html(shown: Any) -> str:
    """Return the repr of an object, and its frame as pandas shows it (of many rows the ends)."""
    table: str = shown.frame()._repr_html_()
    return f"<div><p>{html.escape(repr(shown))}</p>{table}</div>"
