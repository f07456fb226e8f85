"""Colours, sizes and files of the pictures. matplotlib is imported when something is drawn."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instances import InvalidValueError
from instances.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette: distinct under every common form of colour blindness."""
LINE_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Markers that tell lines apart in print without colours."""
LINE_STYLES = ("-", "--", "-.", ":")
LENGTH_COLOURS = "viridis"
LOST = "#ececec"
LIMIT = "#c1121f"
GRID = "#e6e6e6"
ON_PALE, ON_DARK = "#010101", "#fefefe"
"""Letters in coloured areas, which a dark page leaves as they are."""
INK = "#222222"
QUIET = "#8a8a8a"
TEXT_POINTS = 8.0
SUFFIXES = (".png", ".svg", ".pdf")


def new_axes(
    width: float = 6.4, height: float = 2.6, rows: int = 1, columns: int = 1, **shared: Any
) -> Any:
    """Axes of a new figure, sizes in inches; an array of Axes for several.

    The figure is not registered with pyplot, so nothing has to be closed.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    return figure.subplots(rows, columns, **shared)


def axes_or_new(ax: Axes | None, width: float = 6.4, height: float = 2.6) -> Axes:
    """Return the axes given, or those of a new figure."""
    axes: Axes = new_axes(width, height) if ax is None else ax
    return axes


def check_few(field: str, count: int) -> None:
    """Refuse no lines, and more lines than there are colours."""
    if not 1 <= count <= len(LINE_COLOURS):
        raise InvalidValueError(None, field, count, f"is not between 1 and {len(LINE_COLOURS)}")


def dress(ax: Axes, title: str = "", x: str = "", y: str = "") -> None:
    """Set the title and the labels in small type, and thin the frame."""
    if title:
        ax.set_title(title, loc="left", fontsize=TEXT_POINTS + 1, color=INK)
    ax.set_xlabel(x, fontsize=TEXT_POINTS, color=INK)
    ax.set_ylabel(y, fontsize=TEXT_POINTS, color=INK)
    ax.tick_params(labelsize=TEXT_POINTS, width=0.6, length=3, colors=INK)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_linewidth(0.6)


def whole_numbers(ax: Axes, axis: str) -> None:
    """Put ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    getattr(ax, f"{axis}axis").set_major_locator(MaxNLocator(integer=True))


def legend(ax: Axes, **options: Any) -> None:
    """Add a frameless legend if a label is set, by default above the axes at the right."""
    labels = ax.get_legend_handles_labels()[1]
    if labels:
        above = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderpad": 0.0}
        plain = {"frameon": False, "fontsize": TEXT_POINTS, "handlelength": 1.6}
        place = options if "loc" in options else {**above, "ncols": len(labels), **options}
        ax.legend(**{**plain, **place})


def save(drawn: Axes | Figure, path: str | os.PathLike[str]) -> None:
    """Write the figure as PNG, SVG or PDF by the suffix: equal figures give equal bytes.

    Raises
    ------
    InvalidValueError
        Another suffix.
    OSError
        The folder is missing or not writable; no partial file is left.
    """
    import matplotlib

    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        reason = f"does not end in {' or '.join(SUFFIXES)}"
        raise InvalidValueError(None, "path", str(path), reason)
    figure: Any = drawn.figure if hasattr(drawn, "transAxes") else drawn
    stream = io.BytesIO()
    dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
    with matplotlib.rc_context({"svg.hashsalt": "llm-hindsight"}):
        figure.savefig(stream, format=suffix[1:], dpi=200, metadata=dated[suffix])
    write_atomically(path, stream.getvalue())
