"""Charts as static SVG: axes, and marks that stand on them.

A chart is as wide as its place. Marks are placed in per cent across and in pixels down, so letters
and dots keep their size at any width, without a script. Colours are variables of a page's style;
where a page has none, as in a notebook, those named behind them can be read on light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

INK = "currentColor"
PAPER = "var(--paper,#fff)"
BLUE, RED = "var(--blue,#4a90d9)", "var(--red,#d9534f)"
GREEN, BROWN = "var(--green,#00704f)", "var(--brown,#8a5a00)"
PALE_RED, PALE_BLUE = "var(--pale-red,#e9a0a6)", "var(--chosen,#4a90d955)"
GRID = "var(--grid,#8883)"

LETTER = 6.3
"""Pixels of a letter, roughly."""

NARROW, WIDE = 190, 560
"""Pixels of a plot at least: on a telephone, and where the class ``wide`` is shown."""

PATH_WIDTH = 1000
"""Units across the plot, in paths, which know no per cent."""


def number(value: float, decimals: int = 6) -> str:
    """Write a number with commas between thousands and without zeros at its end."""
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """Write an element; attributes that are None are left out, ``_`` in their names is ``-``."""
    written = "".join(
        f' {key.strip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{content}</{name}>"


def tooltip(text: str) -> str:
    """Write the words that a browser shows when an element is pointed at."""
    return element("title", escape(text)) if text else ""


@dataclass(frozen=True)
class Axis:
    """Values from ``low`` at the left or the bottom to ``high``.

    Attributes
    ----------
    low, high : float
        Ends of the axis.
    title : str
        Quantity and unit.
    log : bool
        Use a logarithmic axis.
    whole : bool
        Put ticks at whole numbers only.
    grid : bool
        Draw a line across the plot at each tick.
    """

    low: float
    high: float
    title: str = ""
    log: bool = False
    whole: bool = False
    grid: bool = False

    def share(self, value: float) -> float:
        """Place of a value, from 0 at ``low`` to 1 at ``high``; values outside stand at the end."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, low))
        return min(1.0, max(0.0, (value - low) / ((high - low) or 1.0)))

    def text(self, tick: float) -> str:
        """Label of a tick: large numbers in thousands (K) or millions (M)."""
        for unit, letter in ((1e6, "M"), (1e3, "K")):
            if tick and self.high >= 10 * unit:
                return number(tick / unit) + letter
        return number(tick) if not 0 < abs(tick) < 1e-4 else f"{tick:.3g}"

    def ticks(self, most: int) -> list[float]:
        """Round numbers between the ends, about ``most`` of them or fewer."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            for digits in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
                all_ticks = [10.0**k * digit for k in range(first, last + 1) for digit in digits]
                found = [tick for tick in all_ticks if self.low <= tick <= self.high]
                if len(found) <= most:
                    return found
            return [self.low, self.high]
        rough = (self.high - self.low) / most or 1.0
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * one for one in (1, 2, 5, 10) if power * one >= rough * (1 - 1e-9))
        if self.whole:
            step = max(1.0, step)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]

    def fitting(self, ticks: Sequence[float], room: float) -> list[float]:
        """Choose ticks whose labels do not touch on an axis of ``room`` pixels."""
        if len(ticks) < 2:
            return list(ticks)
        label = max(LETTER * len(self.text(tick)) + 8 for tick in ticks) / room
        if not self.log:
            step = ticks[1] - ticks[0]
            every = math.ceil(label / (self.share(ticks[1]) - self.share(ticks[0])))
            return [tick for tick in ticks if round(tick / step) % every == 0]
        kept = [ticks[0]]
        for tick in ticks[1:]:
            if self.share(tick) - self.share(kept[-1]) >= label:
                kept.append(tick)
        return kept


@dataclass(frozen=True)
class Plot:
    """Two axes, and the elements of marks that stand on them.

    Attributes
    ----------
    x, y : Axis
        Across and upwards.
    height : int
        Pixels between the ends of ``y``.
    width : int or None
        Pixels between the ends of ``x``, or fewer in a narrow window; None takes all the room.
    """

    x: Axis
    y: Axis
    height: int
    width: int | None = None

    @classmethod
    def of_rows(cls, x: Axis, rows: int, row_height: int) -> Plot:
        """A plot of rows, of which row k, counted from 0 at the top, has its middle at k + 0.5."""
        return cls(x, Axis(rows, 0), rows * row_height)

    def across(self, value: float) -> str:
        """Place on ``x`` in per cent."""
        return f"{100 * self.x.share(value):.2f}%"

    def down(self, value: float, more: float = 0) -> str:
        """Place on ``y`` in pixels from the top, and some pixels ``more``."""
        return f"{self.height * (1 - self.y.share(value)) + more:.1f}"

    def point(
        self,
        x: float,
        y: float,
        colour: str,
        *,
        shape: str = "circle",
        radius: float = 4,
        hollow: bool = False,
        dy: float = 0,
        text: str = "",
        **attributes: object,
    ) -> str:
        """A dot; as "beyond" an arrow whose tip says that the value lies past the axis."""
        style = {
            "class": "point",
            "fill": PAPER if hollow else colour,
            "stroke": colour if hollow else None,
            "stroke_width": 2 if hollow else None,
            **attributes,
        }
        across, down, r = self.across(x), self.down(y, dy), radius
        if shape == "circle":
            return element("circle", tooltip(text), cx=across, cy=down, r=r, **style)
        corners = f"M{-r} 0L0 {-r}L{r} 0L0 {r}z"
        if shape == "beyond":
            corners = f"M0 0L{-2 * r} {-r}V{r}z"
        path = element("path", tooltip(text), d=corners, **style)
        return element("svg", path, x=across, y=down, overflow="visible")

    def segment(
        self,
        ends: tuple[float, float],
        y: float,
        colour: str,
        *,
        width: float = 2,
        dy: float = 0,
        text: str = "",
        **attributes: object,
    ) -> str:
        """A level line from one x to another, seen however near they are."""
        first, last = self.x.share(ends[0]), self.x.share(ends[1])
        style = {"class": "segment", "stroke_width": width, **attributes}
        left, right = f"{100 * first:.2f}%", f"{100 * max(last, first + 0.002):.2f}%"
        down = self.down(y, dy)
        return _line(left, right, down, down, colour, tooltip(text), **style)

    def upright(self, x: float, ends: tuple[float, float], colour: str, text: str = "") -> str:
        """A line at x from one y to another, seen however near they are."""
        across, low, high = self.across(x), self.down(ends[0], 0.5), self.down(ends[1], -0.5)
        style = {"class": "upright", "stroke_width": 2}
        return _line(across, across, low, high, colour, tooltip(text), **style)

    def rule(self, x: float, colour: str, dash: str | None = None) -> str:
        """An upright line from the bottom to the top."""
        at, style = self.across(x), {"stroke_width": 1.5, "stroke_dasharray": dash}
        return _line(at, at, 0, self.height, colour, class_="rule", **style)

    def level(self, y: float, colour: str, label: str, dash: str | None = None) -> str:
        """A line from the left to the right with words above it."""
        down, style = self.down(y), {"stroke_width": 1.5, "stroke_dasharray": dash}
        line = _line(0, "100%", down, down, colour, class_="level", **style)
        return line + _text(label, 3, self.down(y, -4), fill=colour)

    def band(self, ends: tuple[float, float], colour: str) -> str:
        """A bar of the whole height from one x to another."""
        first, last = (self.x.share(end) for end in ends)
        place = {"x": self.across(ends[0]), "width": f"{100 * max(0.002, last - first):.2f}%"}
        return element("rect", height=self.height, fill=colour, class_="band", **place)

    def line(self, points: Iterable[tuple[float, float]], colour: str) -> str:
        """Straight lines from point to point."""
        style = {"class": "line", "fill": "none", "stroke": colour, "stroke_width": 1.5}
        return self.stretched(element("path", d=self._path(points), **_STEADY, **style))

    def area(self, points: Sequence[tuple[float, float, float]], colour: str) -> str:
        """The area between two lines, given (x, lower, upper) at each of their points."""
        corners = [(x, low) for x, low, _ in points] + [(x, high) for x, _, high in points[::-1]]
        outline = f"{self._path(corners)}z"
        return self.stretched(element("path", d=outline, class_="area", fill=colour))

    def stretched(self, content: str, box: tuple[float, float, float, float] | None = None) -> str:
        """Elements in coordinates of their own: ``box`` (x, y, width, height) fills the plot."""
        view = " ".join(str(one) for one in box or (0, 0, PATH_WIDTH, self.height))
        size = {"width": "100%", "height": self.height}
        return element("svg", content, viewBox=view, preserveAspectRatio="none", **size)

    def drawn(self, label: str, marks: Iterable[str], names: Sequence[str] = ()) -> str:
        """The chart with its axes.

        Parameters
        ----------
        label : str
            Description for screen readers.
        marks : Iterable[str]
            Elements in drawing order.
        names : Sequence[str], optional
            Names of the rows of a plot `of_rows`, left of it instead of ticks.
        """
        axes = element("g", self._axes(), class_="axes", stroke_width=1)
        content = axes + element("g", "".join(marks), class_="marks")
        chart = element(
            "svg",
            content,
            role="img",
            aria_label=label,
            width="100%",
            height=self.height,
            overflow="visible",
            fill=INK,
            font_size=12,
            style="display:block",
        )
        left = 10 if names else 62
        size = f"max-width:100%;width:{self.width + left + 14}px" if self.width else "min-width:0"
        style = f"padding:14px 14px 42px {left}px;box-sizing:border-box;{size}"
        place = element("div", chart, style=style)
        if not names:
            return place
        row = f"height:{self.height / len(names):g}px;line-height:{self.height / len(names):g}px;"
        cut = "overflow:hidden;text-overflow:ellipsis;white-space:nowrap;font-size:12px"
        rows = [element("div", escape(name), title=name, style=row + cut) for name in names]
        style = "padding-top:14px;text-align:right;min-width:0"
        column = element("div", "".join(rows), style=style)
        columns = "display:grid;grid-template-columns:fit-content(42%) minmax(0,1fr)"
        return element("div", column + place, style=columns)

    def _axes(self) -> str:
        drawn = [
            _line(0, "100%", self.height, self.height, INK),
            _line(0, 0, 0, self.height, INK),
            _text(self.x.title, "50%", self.height + 35, text_anchor="middle"),
        ]
        # Some of the labels are shown in a wide window only.
        shown = self.x.fitting(self.x.ticks(12), 0.75 * self.width if self.width else WIDE)
        everywhere = shown if self.width else self.x.fitting(shown, NARROW)
        for tick in shown:
            at, style = self.across(tick), {"class": None if tick in everywhere else "wide"}
            if self.x.grid:
                drawn.append(_line(at, at, 0, self.height, GRID))
            drawn.append(_line(at, at, self.height, self.height + 4, INK))
            label = self.x.text(tick)
            drawn.append(_text(label, at, self.height + 17, text_anchor="middle", **style))
        # The axis of rows runs downwards and has names instead.
        for tick in self.y.ticks(max(2, self.height // 36)) if self.y.low < self.y.high else ():
            down = self.down(tick)
            if self.y.grid:
                drawn.append(_line(0, "100%", down, down, GRID))
            drawn.append(_line(-4, 0, down, down, INK))
            drawn.append(_text(self.y.text(tick), -7, self.down(tick, 4), text_anchor="end"))
        turned = f"translate(-50 {self.height / 2:g}) rotate(-90)"
        drawn.append(_text(self.y.title, 0, 0, transform=turned, text_anchor="middle"))
        return "".join(drawn)

    def _path(self, points: Iterable[tuple[float, float]]) -> str:
        places = (f"{PATH_WIDTH * self.x.share(x):.1f} {self.down(y)}" for x, y in points)
        return "M" + "L".join(places)


_STEADY = {"vector_effect": "non-scaling-stroke"}
"""Keeps the width of lines in a path that is stretched."""


def _line(
    x1: object, x2: object, y1: object, y2: object, colour: str, told: str = "", /, **style: object
) -> str:
    return element("line", told, x1=x1, x2=x2, y1=y1, y2=y2, stroke=colour, **style)


def _text(words: str, x: object, y: object, **style: object) -> str:
    return element("text", escape(words), x=x, y=y, **style) if words else ""


SIGN = Plot(Axis(0, 1), Axis(0, 1), 14)
"""The plot on which the signs of a legend are drawn."""


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Names with their signs, marks of `SIGN`, side by side as far as there is room."""
    style = "display:inline-block;vertical-align:-2px;margin-right:5px"
    size = {"width": 18, "height": SIGN.height, "overflow": "visible", "aria_hidden": "true"}
    shown = [
        element("span", element("svg", sign, style=style, **size) + escape(name), class_="legend")
        for sign, name in entries
    ]
    row = "display:flex;flex-wrap:wrap;gap:0 14px;font-size:12px"
    return element("div", "".join(shown), style=row)
