"""Tables and pictures of objects for notebooks, as HTML without scripts.

However large the object, what is shown of it stays small: beyond
`MOST_BANDS` only their sum is drawn, and of many rows those that come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from instances.arrays import FloatArray, IntArray
from instances.charts import BLUE, INK, NARROW, RED, Axis, Plot, element
from instances.errors import printable

MOST_BANDS, MOST_STEPS = 200, 3000
"""Most stays in the cache, and most rounds of all of them together, that are drawn as bands."""

COLUMNS = 300
"""Steps of a curve; each shows the largest value of its rounds."""

MOST_ROWS = 60
"""Rows of a table that are shown."""

LONGEST_NAME = 80
"""Characters of a name."""

WIDTH, HEIGHT = 420, 150
"""Pixels between the axes of a picture over time."""

ROUNDS, TOKENS = "time (rounds)", "KV cache (tokens)"
"""Titles of axes."""

_DOT = 3


def text(value: object) -> str:
    """Write a value in one short line, escaped for HTML."""
    told = printable(str(value))
    return escape(told if len(told) <= LONGEST_NAME else told[: LONGEST_NAME - 1] + "…")


def figure_of(kind: str, name: object, facts: Mapping[str, object], *pictures: str) -> str:
    """Write an object: its kind, its figures in a column, its pictures beside them."""
    title = f"<b>{text(kind)}</b>" + (f" {text(name)}" if name else "")
    cell = 'style="text-align:left;padding:1px 8px 1px 0;white-space:nowrap"'
    rows = "".join(
        f"<tr><td {cell}>{text(what)}</td><td {cell}>{text(value)}</td></tr>"
        for what, value in facts.items()
    )
    return (
        f"<div>{title}"
        '<div style="display:flex;flex-wrap:wrap;gap:4px 24px;align-items:flex-start">'
        f'<table style="margin:0;font-size:inherit">{rows}</table>{"".join(pictures)}</div></div>'
    )


def requests_figure(requests: Any, unit: str) -> str:
    """Show an instance or a workload: figures, lengths as dots, arrivals as a curve.

    Parameters
    ----------
    requests : Instance or Workload
        The problem.
    unit : str
        Unit of the arrival times.
    """
    prompts, outputs = requests.prompt_lengths, requests.output_lengths
    times = requests.arrival_times
    begin, end = (f"{float(time):.6g}" for time in (times.min(), times.max()))
    facts: dict[str, object] = {
        "requests": len(prompts),
        "memory limit M": f"{requests.memory_limit} tokens",
        f"arrival times ({unit})": f"all at {begin}" if begin == end else f"{begin} to {end}",
        "prompt lengths": _range(prompts),
        "output lengths": _range(outputs),
        "digest": requests.digest[:12],
    }
    if requests.memory_rule.told:
        facts["memory"] = requests.memory_rule.told
    if getattr(requests, "is_weighted", False):
        facts["weights"] = _range(requests.weights)
    return figure_of(
        type(requests).__name__,
        requests.name,
        facts,
        scatter(prompts, outputs, "prompt length", "output length"),
        arrivals(times, unit),
    )


def _range(lengths: IntArray) -> str:
    return f"{lengths.min()} to {lengths.max()}, mean {lengths.mean():.4g}"


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_columns: Iterable[str] = (),
    title: str = "",
) -> str:
    """Write rows below headings, numbers at the right.

    Parameters
    ----------
    columns : Sequence[str]
        Headings.
    rows : Sequence[Sequence[str]]
        As many cells each.
    text_columns : Iterable[str], optional
        Headings whose cells are aligned to the left.
    title : str, default ""
        A line above.
    """
    left = set(text_columns)
    style = "padding:1px 8px;white-space:nowrap;text-align"
    aligned = [f'style="{style}:{"left" if name in left else "right"}"' for name in columns]

    def row(cells: Sequence[str], kind: str) -> str:
        shown = (
            f"<{kind} {how}>{text(cell)}</{kind}>" for cell, how in zip(cells, aligned, strict=True)
        )
        return f"<tr>{''.join(shown)}</tr>"

    body = [row(cells, "td") for cells in rows[:MOST_ROWS]]
    more = len(rows) - MOST_ROWS
    above = f"<div>{escape(printable(title))}</div>" if title else ""
    below = f"<div>and {more} more</div>" if more > 0 else ""
    return (
        f'<div style="overflow-x:auto">{above}<table style="margin:4px 0;font-size:inherit">'
        f"<thead>{row(columns, 'th')}</thead><tbody>{''.join(body)}</tbody></table>"
        f"{below}</div>"
    )


def memory_picture(
    stays: Sequence[IntArray] | None,
    memory_limit: int,
    label: Callable[[int], str],
    profile: Callable[[], IntArray],
) -> str:
    """Draw stays in the cache stacked over rounds, or the curve of their sum if they are many.

    Parameters
    ----------
    stays : Sequence[IntArray] or None
        ``begin``, ``held`` and ``rounds`` as `stacked` takes them; None draws the curve.
    memory_limit : int
        M, a line.
    label : Callable[[int], str]
        Words about a stay, shown under the pointer.
    profile : Callable[[], IntArray]
        Tokens held in rounds 0, 1, ..; asked for where the sum is drawn.
    """
    if stays is None or len(stays[0]) > MOST_BANDS or int(stays[2].sum()) > MOST_STEPS:
        memory = profile()[1:]
        return memory_curve(np.arange(len(memory), dtype=np.float64), memory, memory_limit)
    begin, held, rounds = stays
    lengths = rounds.astype(np.float64)
    spread = max(1.0, float(np.ptp(lengths))) if len(lengths) else 1.0
    hues = 215 - 190 * (lengths - lengths.min(initial=np.inf)) / spread
    drawn, top_most = [], memory_limit
    for row, bottom, top in stacked(begin, held, rounds):
        if not len(top):
            continue
        up = "".join(f"v{step}h1" for step in (-np.diff(top, prepend=bottom[0])).tolist())
        down = "".join(f"v{step}h-1" for step in (-np.diff(bottom[::-1], prepend=top[-1])).tolist())
        top_most = max(top_most, int(top.max()))
        outline = f"M{begin[row]} {-bottom[0]}{up}{down}z"
        style = {"vector_effect": "non-scaling-stroke", "fill": f"hsl({hues[row]:.0f} 60% 55%)"}
        title = f"<title>{text(label(row))}</title>"
        drawn.append(element("path", title, d=outline, **style))
    last = max(1, int((begin + rounds).max(initial=1)))
    edges = {"fill_opacity": 0.75, "stroke": INK, "stroke_opacity": 0.45, "stroke_width": 0.6}
    plot = Plot(
        Axis(0, last, ROUNDS, whole=True), Axis(0, top_most, TOKENS, whole=True), HEIGHT, WIDTH
    )
    bands = element("g", "".join(drawn), **edges)
    return _memory(plot, plot.stretched(bands, (0, -top_most, last, top_most)), memory_limit)


def stacked(
    begin: IntArray, held: IntArray, rounds: IntArray
) -> list[tuple[int, IntArray, IntArray]]:
    """Stack stays in the cache: row, bottom and top in tokens of each, in order of stacking.

    The earlier its start the lower a band, then the later its end. The order of two bands never
    changes, and none lies above free memory: what a completion frees is taken from the top.

    Parameters
    ----------
    begin, held, rounds : int64 array
        A stay holds ``held + k`` tokens in its k-th round, which is ``begin + k``; shape (stays,).
    """
    end = begin + rounds
    height = np.zeros(int(end.max(initial=0)) + 1, dtype=np.int64)
    bands = []
    for row in np.lexsort((-end, begin)).tolist():
        where = slice(int(begin[row]) + 1, int(end[row]) + 1)
        bottom = height[where].copy()
        top = bottom + int(held[row]) + np.arange(1, len(bottom) + 1)
        height[where] = top
        bands.append((row, bottom, top))
    return bands


def memory_curve(
    starts: FloatArray,
    memory: IntArray,
    memory_limit: int,
    ends: FloatArray | None = None,
    unit: str = "",
) -> str:
    """Draw memory over rounds of any lengths; a step shows the largest value of its rounds.

    Parameters
    ----------
    starts : float64 array
        When each round begins, shape (rounds,).
    memory : int64 array
        Tokens held in each, shape (rounds,).
    memory_limit : int
        M, a line.
    ends : float64 array or None, default None
        When each is over; None takes one unit each.
    unit : str, default ""
        Unit of the clock; empty for rounds.
    """
    ends = starts + 1 if ends is None else ends
    last = float(ends.max(initial=0)) or 1.0
    count = COLUMNS if unit else min(COLUMNS, max(1, int(last)))
    columns = _largest(starts, ends, memory, count)
    most = max(memory_limit, int(columns.max(initial=0)))
    x = Axis(0, last, f"time ({unit})" if unit else ROUNDS, whole=not unit)
    plot = Plot(x, Axis(0, most, TOKENS, whole=True), HEIGHT, WIDTH)
    return _memory(plot, _columns(plot, columns, most), memory_limit)


def _largest(starts: FloatArray, ends: FloatArray, values: IntArray, count: int) -> IntArray:
    """Find the largest value in each of ``count`` equal parts of the time."""
    share = count / (float(ends.max(initial=0)) or 1.0)
    largest = np.zeros(count, dtype=np.int64)
    first = np.clip((starts * share).astype(np.int64), 0, count - 1)
    after = np.clip(np.ceil(ends * share).astype(np.int64), first + 1, count)
    # All that begin in a part, then the few that reach into others.
    np.maximum.at(largest, first, values)
    for row in np.flatnonzero(after > first + 1).tolist():
        where = slice(int(first[row]), int(after[row]))
        largest[where] = np.maximum(largest[where], values[row])
    return largest


def _columns(plot: Plot, columns: IntArray, most: int) -> str:
    """Columns side by side, of heights up to ``most``."""
    path = "".join(f"v{step}h1" for step in (-np.diff(columns, prepend=0)).tolist())
    drawn = element("path", d=f"M0 0{path}V0z", fill=BLUE, fill_opacity=0.6)
    return plot.stretched(drawn, (0, -most, max(1, len(columns)), most))


def _memory(plot: Plot, drawn: str, memory_limit: int) -> str:
    """Memory over time below the line that no round may cross."""
    limit = plot.level(memory_limit, RED, f"M = {memory_limit}", "5 3")
    return plot.drawn("memory over time", [drawn, limit])


def scatter(x: IntArray, y: IntArray, x_name: str, y_name: str) -> str:
    """Draw a dot for each pair; pairs at one place share a dot."""
    most = [max(1, int(values.max(initial=0))) for values in (x, y)]
    places = np.stack(
        [
            np.round(x / most[0] * NARROW / _DOT) * _DOT,
            HEIGHT - np.round(y / most[1] * HEIGHT / _DOT) * _DOT,
        ],
        axis=1,
    )
    dots = "".join(f"M{a:.0f} {b:.0f}h0" for a, b in np.unique(places, axis=0).tolist())
    style = {"stroke": BLUE, "stroke_width": 5, "stroke_linecap": "round", "stroke_opacity": 0.7}
    path = element("path", d=dots, vector_effect="non-scaling-stroke", **style)
    across, up = (
        Axis(0, high, f"{name} (tokens)", whole=True)
        for high, name in zip(most, (x_name, y_name), strict=True)
    )
    plot = Plot(across, up, HEIGHT, NARROW)
    marks = [plot.stretched(path, (0, 0, NARROW, HEIGHT))]
    return plot.drawn(f"{x_name} and {y_name}", marks)


def arrivals(times: FloatArray | IntArray, unit: str) -> str:
    """Draw the number of arrivals over time; nothing if all arrive at once."""
    last = float(times.max(initial=0))
    if last <= float(times.min(initial=0)):
        return ""
    ordered = np.sort(times)
    chosen = np.unique(np.linspace(0, len(ordered) - 1, 200).astype(np.int64))
    corners, arrived = [(0.0, 0)], 0
    for place in chosen.tolist():
        when = float(ordered[place])
        corners += [(when, arrived), (when, place + 1)]
        arrived = place + 1
    x = Axis(0, last, f"time ({unit})", whole=unit == "rounds")
    plot = Plot(x, Axis(0, len(ordered), "requests arrived", whole=True), HEIGHT, NARROW)
    return plot.drawn("arrivals over time", [plot.line(corners, BLUE)])
