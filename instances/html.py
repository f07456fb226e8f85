"""What notebooks show of an object: its figures in a table, and a picture, as HTML without scripts.

Text and axes have the colour of the page and fills are half transparent, so that all of it can be
read on light and dark pages. However large the object, what is shown of it stays small: beyond
`MOST_BANDS` only their sum is drawn, and of many rows those that come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any, Protocol

import numpy as np

from instances.arrays import FloatArray, IntArray
from instances.errors import printable
from instances.stacking import stacked

MOST_BANDS, MOST_STEPS = 200, 3000
"""Stays in the cache, and rounds of all of them together, that are drawn one by one."""

COLUMNS = 300
"""Steps of a curve: of the rounds that fall into one the largest is drawn."""

MOST_ROWS = 60
"""Of a table."""

LONGEST_NAME = 80
"""Characters of a name."""

WIDTH, HEIGHT = 420, 150
_BLUE, _RED = "#4a90d9", "#d9534f"
_DOT = 3


def text(value: object) -> str:
    """Whatever it says in one line that cannot be taken for HTML."""
    told = printable(str(value))
    return escape(told if len(told) <= LONGEST_NAME else told[: LONGEST_NAME - 1] + "…")


def figure_of(kind: str, name: object, facts: Mapping[str, object], *pictures: str) -> str:
    """An object: what it is, its figures one below the other, its pictures beside them."""
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


class Requests(Protocol):
    """What of an `Instance` or a `Workload` is shown."""

    @property
    def name(self) -> str | None:
        """A label."""

    @property
    def memory_limit(self) -> int:
        """M, tokens."""

    @property
    def memory_rule(self) -> Any:
        """How memory is counted."""

    @property
    def arrival_times(self) -> Any:
        """Rounds or seconds, shape (n,)."""

    @property
    def prompt_lengths(self) -> IntArray:
        """Tokens, shape (n,)."""

    @property
    def output_lengths(self) -> IntArray:
        """Tokens, shape (n,)."""

    @property
    def digest(self) -> str:
        """Content hash."""


def requests_figure(requests: Requests, unit: str) -> str:
    """Instances and workloads: figures, lengths as dots, arrivals as a curve.

    Parameters
    ----------
    requests : Requests
        The problem.
    unit : str
        Of the arrival times.
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
    pictures: Sequence[str] = (),
    axis: str = "",
) -> str:
    """Rows below headings, numbers to the right.

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
    pictures : Sequence[str], optional
        One for each row, shown behind its first cell.
    axis : str, default ""
        Heading of the pictures.
    """
    left = set(text_columns)
    style = "padding:1px 8px;white-space:nowrap;text-align"
    aligned = [f'style="{style}:{"left" if name in left else "right"}"' for name in columns]

    def row(cells: Sequence[str], kind: str, picture: str) -> str:
        shown = [
            f"<{kind} {how}>{text(cell)}</{kind}>" for cell, how in zip(cells, aligned, strict=True)
        ]
        if pictures:
            shown.insert(1, f'<{kind} style="white-space:nowrap">{picture}</{kind}>')
        return f"<tr>{''.join(shown)}</tr>"

    body = [
        row(cells, "td", picture)
        for cells, picture in zip(
            rows[:MOST_ROWS], pictures or [""] * len(rows[:MOST_ROWS]), strict=False
        )
    ]
    more = len(rows) - MOST_ROWS
    above = f"<div>{escape(printable(title))}</div>" if title else ""
    below = f"<div>and {more} more</div>" if more > 0 else ""
    return (
        f'<div style="overflow-x:auto">{above}<table style="margin:4px 0;font-size:inherit">'
        f"<thead>{row(columns, 'th', text(axis))}</thead><tbody>{''.join(body)}</tbody></table>"
        f"{below}</div>"
    )


def memory_picture(
    stays: Sequence[IntArray] | None,
    memory_limit: int,
    label: Callable[[int], str],
    profile: Callable[[], IntArray],
) -> str:
    """Stays in the cache stacked over rounds, or the curve of their sum where they are too many.

    Parameters
    ----------
    stays : Sequence[IntArray] or None
        ``begin``, ``held`` and ``rounds`` as `stacked` takes them; None draws the curve.
    memory_limit : int
        M, a line.
    label : Callable[[int], str]
        What is said of a stay under the pointer.
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
        drawn.append(
            f'<path d="M{begin[row]} {-bottom[0]}{up}{down}z" vector-effect="non-scaling-stroke" '
            f'fill="hsl({hues[row]:.0f} 60% 55%)"><title>{text(label(row))}</title>'
            "</path>"
        )
    last = int((begin + rounds).max(initial=1))
    style = 'fill-opacity=".75" stroke="currentColor" stroke-opacity=".45" stroke-width=".6"'
    label_of_limit = f"M = {memory_limit}"
    bands = f"<g {style}>{''.join(drawn)}</g>"
    return _chart(bands, last, top_most, memory_limit, label_of_limit, f"round {last}")


def memory_curve(
    starts: FloatArray,
    memory: IntArray,
    memory_limit: int,
    ends: FloatArray | None = None,
    unit: str = "",
) -> str:
    """Memory over rounds of any lengths; where they are many the largest of those beside another.

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
        Of the clock; none counts rounds.
    """
    ends = starts + 1 if ends is None else ends
    last = float(ends.max(initial=0)) or 1.0
    end = f"{last:.4g} {unit}" if unit else f"round {int(last)}"
    count = COLUMNS if unit else min(COLUMNS, max(1, int(last)))
    return _curve(_largest(starts, ends, memory, count), memory_limit, f"M = {memory_limit}", end)


def price_curve(prices: FloatArray) -> str:
    """Prices of rounds 1, 2, ..; where they are many the largest of those beside another."""
    highest = float(prices.max(initial=0))
    scaled = np.round(prices / (highest or 1.0) * 1000).astype(np.int64)
    starts = np.arange(len(prices), dtype=np.float64)
    columns = _largest(starts, starts + 1, scaled, min(COLUMNS, max(1, len(prices))))
    label = f"price of a token in a round, to {highest:.4g}"
    return _curve(columns, None, label, f"round {len(prices)}")


def _largest(starts: FloatArray, ends: FloatArray, values: IntArray, count: int) -> IntArray:
    """The largest value in each of so many equal parts of the time."""
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


def _curve(columns: IntArray, limit: int | None, label: str, end: str) -> str:
    path = "".join(f"v{step}h1" for step in (-np.diff(columns, prepend=0)).tolist())
    drawn = f'<path d="M0 0{path}V0z" fill="{_BLUE}" fill-opacity=".6"/>'
    most = max(limit or 1, int(columns.max(initial=0)))
    return _chart(drawn, len(columns), most, limit, label, end)


def _chart(drawn: str, last: int, most: int, limit: int | None, label: str, end: str) -> str:
    """What is drawn in rounds and negative amounts, stretched to the axes; a line at the limit."""
    left, top = 4, 14
    inner = (
        f'<svg x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 {-most} {max(1, last)} {most}" preserveAspectRatio="none">{drawn}</svg>'
    )
    y = float(top)
    if limit is not None:
        y += HEIGHT * (1 - limit / most)
        inner += f'<path d="M{left} {y:.1f}h{WIDTH}" stroke="{_RED}" stroke-dasharray="5 3"/>'
    said = f'<text x="{left}" y="{max(11.0, y - 3):.1f}">{escape(label)}</text>'
    below = _below(left, WIDTH, HEIGHT, "0", end)
    frame = _frame(left, top, WIDTH, HEIGHT)
    return _svg("over time", WIDTH + 8, HEIGHT + 32, inner + said + frame + below)


def scatter(x: IntArray, y: IntArray, x_name: str, y_name: str) -> str:
    """A dot for each pair; many at one place are one."""
    width, height, left, top = 190, HEIGHT, 4, 14
    most = [max(1, int(values.max(initial=0))) for values in (x, y)]
    places = np.stack(
        [
            left + np.round(x / most[0] * width / _DOT) * _DOT,
            top + height - np.round(y / most[1] * height / _DOT) * _DOT,
        ],
        axis=1,
    )
    dots = "".join(f"M{a:.0f} {b:.0f}h0" for a, b in np.unique(places, axis=0).tolist())
    drawn = (
        f'<path d="{dots}" stroke="{_BLUE}" stroke-width="5" stroke-linecap="round" '
        'stroke-opacity=".7"/>'
        f'<text x="{left}" y="11">{escape(y_name)} to {most[1]}</text>'
    )
    label = f"{x_name} to {most[0]}"
    return _svg(
        f"{x_name} and {y_name}",
        width + 12,
        height + 32,
        drawn + _frame(left, top, width, height) + _below(left, width, height, "", label),
    )


def arrivals(times: FloatArray | IntArray, unit: str) -> str:
    """How many have arrived, over time; nothing where all arrive at once."""
    last = float(times.max(initial=0))
    if last <= float(times.min(initial=0)):
        return ""
    width, height, left, top = 190, HEIGHT, 4, 14
    ordered = np.sort(times)
    chosen = np.unique(np.linspace(0, len(ordered) - 1, 200).astype(np.int64))
    shares = (chosen + 1) / len(ordered)
    corners = "".join(
        f"H{left + when / last * width:.0f}V{top + height * (1 - share):.0f}"
        for when, share in zip(ordered[chosen].tolist(), shares.tolist(), strict=True)
    )
    drawn = (
        f'<path d="M{left} {top + height}{corners}" fill="none" stroke="{_BLUE}" '
        f'stroke-width="2"/><text x="{left}" y="11">arrivals to {len(ordered)}</text>'
    )
    return _svg(
        "arrivals over time",
        width + 12,
        height + 32,
        drawn
        + _frame(left, top, width, height)
        + _below(left, width, height, "0", f"{last:.4g} {unit}"),
    )


def interval_bar(
    lower: float | None,
    upper: float | None,
    begin: float,
    end: float,
    *,
    labelled: bool = False,
) -> str:
    """Where a number lies between ``begin`` and ``end``: a dot, or a bar between its ends.

    An unknown end is the end of the axis.

    Parameters
    ----------
    lower, upper : float or None
        Of the number.
    begin, end : float
        Of the axis.
    labelled : bool, default False
        Whether the ends of the axis are named below it.
    """
    width, height = (300, 30) if labelled else (160, 16)
    span = (end - begin) or 1.0

    def place(number: float) -> float:
        return 5 + (width - 10) * min(1.0, max(0.0, (number - begin) / span))

    axis = (
        f'<path d="M5 8h{width - 10}" stroke="currentColor" stroke-opacity=".35"/>'
        '<path d="M5 4v8" stroke="currentColor" stroke-opacity=".6"/>'
    )
    if labelled:
        axis += _below(5, width - 10, 0, f"{begin:g}", f"{end:.4g}")
    if lower is None and upper is None:
        return _svg("nothing is known", width, height, axis)
    left = place(begin if lower is None else lower)
    right = place(end if upper is None else upper)
    bar = f'<path d="M{left:.1f} 8H{right:.1f}" stroke="{_BLUE}" stroke-width="7"/>'
    marks = f'<path d="M{left:.1f} 3v10M{right:.1f} 3v10" stroke="{_BLUE}" stroke-width="2"/>'
    dot = f'<circle cx="{left:.1f}" cy="8" r="4.5" fill="{_BLUE}"/>'
    shown = dot if right - left < 1 else bar + marks
    return _svg(f"{lower} to {upper}", width, height, axis + shown)


def _svg(label: str, width: int, height: int, content: str) -> str:
    return (
        f'<svg role="img" aria-label="{escape(label)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" fill="none" font-size="11" font-family="sans-serif" '
        f'style="max-width:100%;min-width:{min(width, 160)}px"><g fill="none">{content}</g></svg>'
    ).replace("<text ", '<text fill="currentColor" ')


def _frame(left: int, top: int, width: int, height: int) -> str:
    return f'<path d="M{left} {top}v{height}h{width}" stroke="currentColor" stroke-opacity=".6"/>'


def _below(left: int, width: int, height: int, begin: str, end: str) -> str:
    y = height + 28
    return (
        f'<text x="{left}" y="{y}">{escape(begin)}</text>'
        f'<text x="{left + width}" y="{y}" text-anchor="end">{escape(end)}</text>'
    )
