"""Write a self-contained HTML page: an answer, then sentences, tables and pictures.

A page is one file without scripts. It is light or dark as the reader's browser is set, and readable
at a width of 400 pixels. Pictures are matplotlib figures, which are put into the page as SVG.

>>> import pandas
>>> table = pandas.DataFrame({"policy": ["mc-sf", "vllm"], "mean ratio": [1.02, 1.31]})
>>> text = page(
...     "demo instances",
...     "MC-SF is within 2 % of the hindsight optimum",
...     ["Ratios are means over 20 instances.", table],
...     {"Every trial": [table], "Notes": [["one seed per instance", "no predictions"]]},
... )
>>> "<h1>MC-SF is within" in text
True
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any, TypeAlias

from instances.version import __version__

from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

    Content: TypeAlias = "str | Sequence[str] | DataFrame | Axes | Figure"

FIGURE_WIDTH = 4.2
"""Largest width, in inches, of a picture that a telephone shows without shrinking its letters."""

FIGURE = re.compile(r"(?:[\d(\[?+-](?:[\d.,?()\[\] %+-]|to)*)?").fullmatch
"""Matches the text of a number, an interval or a percentage. Such cells are aligned right."""

COLOURS = {
    style.INK: "currentColor",
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
    style.LOST: "var(--lost)",
    style.GRID: "var(--rule)",
    style.LIMIT: "var(--red)",
}
"""Colours in a picture, with the CSS colours that replace them to suit a light or dark page."""


def page(
    title: str,
    answer: str,
    content: Sequence[Content],
    sections: Mapping[str, Sequence[Content]] | None = None,
) -> str:
    """Return a page as HTML.

    In the content a string is a paragraph, a sequence of strings a list, a DataFrame a table (with
    its index if the index has a name), and Axes or a Figure a picture. Text is escaped.

    Parameters
    ----------
    title : str
        Title of the page, for example the name of the input. It stands above the answer in small
        type if it differs from the answer.
    answer : str
        Heading of the page: the answer in one sentence.
    content : Sequence[str | Sequence[str] | DataFrame | Axes | Figure]
        Content below the answer, visible when the page is opened.
    sections : Mapping[str, Sequence], optional
        Further content by heading. A section is folded until the reader opens it.
    """
    folded = (
        f"<details><summary><h2>{escape(heading)}</h2></summary>\n{_contents(items)}</details>\n"
        for heading, items in (sections or {}).items()
    )
    frame = Template((resources.files(__package__ or "") / "page.html").read_text("utf-8"))
    # `substitute` replaces all fields in one pass, so a "$" in an inserted text is not replaced.
    return frame.substitute(
        title=escape(title),
        above="" if title == answer else f'<p class="small">{escape(title)}</p>',
        answer=escape(answer),
        content=_contents(content),
        sections="".join(folded),
        written=f"{datetime.now(UTC):%Y-%m-%d}, llm-hindsight {__version__}",
    )


def _contents(items: Sequence[Content]) -> str:
    return "".join(f"{_content(item)}\n" for item in items)


def _content(item: Any) -> str:
    if isinstance(item, str):
        return f"<p>{escape(item)}</p>"
    if hasattr(item, "columns"):
        return _table(item)
    if hasattr(item, "get_window_extent"):
        return f'<div class="picture">{svg(item)}</div>'
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in item)}</ul>"


def _table(frame: DataFrame) -> str:
    """Return a DataFrame as an HTML table, with text aligned to the left, numbers to the right."""
    if any(frame.index.names):
        frame = frame.reset_index()
    columns = [list(frame[name]) for name in frame]
    is_text = [any(isinstance(cell, str) and not FIGURE(cell) for cell in c) for c in columns]

    def row(tag: str, cells: Iterable[str]) -> str:
        kinds = (' class="text"' if text else "" for text in is_text)
        written = (f"<{tag}{kind}>{one}</{tag}>" for one, kind in zip(cells, kinds, strict=True))
        return f"<tr>{''.join(written)}</tr>"

    head = row("th", (escape(str(name)) for name in frame))
    body = "\n".join(row("td", map(_cell, cells)) for cells in zip(*columns, strict=True))
    table = f"<table><thead>{head}</thead>\n<tbody>{body}</tbody></table>"
    return f'<div class="scroll">{table}</div>'


def _cell(value: Any) -> str:
    """Return the HTML text of a cell: numbers with up to four decimals and thousands separators.

    None and NaN give an empty cell.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) else escape(str(value))


def bars(rows: Sequence[tuple[str, float, float]], x_label: str, base: float = 0.0) -> Axes:
    """Draw a horizontal bar below each name, for a number that is known to be in an interval.

    ``rows`` have (name, low end, high end). A bar goes from ``base`` to the low end, and in a pale
    colour on to the high end. The picture fits the width of a telephone.
    """
    ax: Axes = style.new_axes(FIGURE_WIDTH, 0.6 + 0.4 * len(rows))
    at: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    for place, (name, low, high) in enumerate(rows):
        colour = style.LINE_COLOURS[2 if high > low else 0]
        ax.barh(place, low - base, 0.4, base, color=colour)
        if high > low:
            ax.barh(place, high - low, 0.4, low, color=colour, alpha=0.35)
        ax.annotate(name, (0, place), xytext=(2, 8), fontsize=style.TEXT_POINTS, **at)
    ax.set_ylim(len(rows) - 0.5, -0.9)
    ax.set_yticks([])
    style.dress(ax, "", x_label)
    return ax


def svg(drawn: Axes | Figure) -> str:
    """Return a figure as SVG for a page, with colours that follow its light or dark style."""
    figure = style.figure_of(drawn)
    # Set a least width. On a telephone a wide picture then scrolls. If it shrank to the width of
    # the screen, it could not be read.
    least = f'<svg style="min-width:{54 * min(figure.get_figwidth(), 20):.0f}pt" '
    text = style.file_of(figure, ".svg").decode()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = text.replace("<svg ", least, 1)
    return re.sub("|".join(COLOURS), lambda found: COLOURS[found[0]], text)
