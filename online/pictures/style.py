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

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINE_COLOURS = (*OKABE_ITO, "#8a8a8a")
"""Colours of lines: Okabe and Ito's palette, which colour-blind people distinguish, and grey."""
LINE_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "d")
"""Markers of lines, which distinguish them in print without colours."""
LINE_STYLES = ("-", "--", "-.", ":")
LENGTH_COLOURS = "viridis"
LOST = "#ececec"
LIMIT = "#c1121f"
GRID = "#e6e6e6"
INK = "#222222"
QUIET = "#8a8a8a"
TEXT_POINTS = 8.0
TITLE: dict[str, Any] = {"fontsize": TEXT_POINTS + 1, "color": INK}
DATES = {".png": (), ".svg": ("Date",), ".pdf": ("CreationDate",)}
"""Metadata fields with a date, by suffix of the file. They are left out: files shall be equal."""


def new_axes(
    width: float = 6.4, height: float = 2.6, rows: int = 1, columns: int = 1, **shared: Any
) -> Any:
    """Return the axes of a new figure of ``width`` x ``height`` inches.

    With several rows or columns the result is an array of Axes. The figure is not registered with
    pyplot, so nothing has to be closed. Further arguments are those of ``Figure.subplots``.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    return figure.subplots(rows, columns, **shared)


def axes_or_new(ax: Axes | None, width: float = 6.4, height: float = 2.6) -> Axes:
    """Return ``ax``, or the axes of a new figure (sizes in inches) if it is None."""
    axes: Axes = new_axes(width, height) if ax is None else ax
    return axes


def line(place: int) -> dict[str, Any]:
    """Return the colour, marker and dashes of line number ``place``, for ``Axes.plot``."""
    return {
        "color": LINE_COLOURS[place % len(LINE_COLOURS)],
        "marker": LINE_MARKERS[place % len(LINE_MARKERS)],
        "markersize": 4,
        "linestyle": LINE_STYLES[place % len(LINE_STYLES)],
    }


def dress(ax: Axes, title: str = "", x: str = "", y: str = "") -> None:
    """Set the title and axis labels in small type. Draw thin axis lines at left and bottom only."""
    if title:
        ax.set_title(title, loc="left", **TITLE)
    ax.set_xlabel(x, fontsize=TEXT_POINTS, color=INK)
    ax.set_ylabel(y, fontsize=TEXT_POINTS, color=INK)
    ax.tick_params(labelsize=TEXT_POINTS, width=0.6, length=3, colors=INK)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_linewidth(0.6)


def legend(ax: Axes, **options: Any) -> None:
    """Add a legend without a frame if anything has a label, by default above the axes at right.

    Above the axes it has as many columns as fit. A title that would overlap the legend is moved up.
    """
    labels = ax.get_legend_handles_labels()[1]
    plain = {"frameon": False, "fontsize": TEXT_POINTS, "handlelength": 1.6, **options}
    if labels and "loc" in options:
        ax.legend(**plain)
    elif labels:
        plain |= {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderpad": 0.0}
        for columns in range(len(labels), 0, -1):
            box = ax.legend(ncols=columns, **plain).get_window_extent()
            if box.width <= ax.bbox.width:
                break
        title = ax.set_title(ax.get_title("left"), loc="left", **TITLE)
        if title.get_window_extent().width + box.width > ax.bbox.width:
            pad = box.height * 72 / ax.figure.dpi + TEXT_POINTS
            ax.set_title(title.get_text(), loc="left", pad=pad, **TITLE)


def figure_of(drawn: Axes | Figure) -> Any:
    """Return the figure of axes, or the figure itself."""
    return drawn.figure if hasattr(drawn, "transAxes") else drawn


def file_of(drawn: Axes | Figure, suffix: str) -> bytes:
    """Return the figure as a PNG, SVG or PDF file."""
    import matplotlib

    stream = io.BytesIO()
    # Text in SVG files stays text, and is not turned into paths.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "llm-hindsight"}):
        undated = dict.fromkeys(DATES[suffix])
        figure_of(drawn).savefig(stream, format=suffix[1:], dpi=200, metadata=undated)
    return stream.getvalue()


def save(drawn: Axes | Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure to a file, PNG, SVG or PDF by its suffix. Equal figures give equal bytes.

    Raises
    ------
    InvalidValueError
        The suffix is not .png, .svg or .pdf.
    OSError
        The folder is missing or not writable; no partial file is left.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in DATES:
        reason = f"does not end in {' or '.join(DATES)}"
        raise InvalidValueError(None, "path", str(path), reason)
    write_atomically(path, file_of(drawn, suffix))
