"""Every ratio of a group of trials in a picture, a row a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from instances import charts
from instances.charts import SIGN, Axis, Plot, element
from online.comparison.bootstrap import ConfidenceInterval
from online.comparison.ratio_tables import percent_of
from online.comparison.summaries import PolicySummary
from online.comparison.trial import OPTIMA, Trial

LEVEL = percent_of(0.95)
"""Level of the confidence intervals."""

FAR = 5.0
"""Times the median policy's distance from the least ratio, beyond which one is off the axis."""

ROW_HEIGHT = 46
COLUMNS = 40
"""Places across the plot: trials that share one stand above one another."""


class Row(NamedTuple):
    """A policy of a group: its figures, and its trials by their number."""

    summary: PolicySummary
    mean_confidence: ConfidenceInterval | None
    totals_confidence: ConfidenceInterval | None
    trials: list[tuple[int, Trial]]

    @property
    def ends(self) -> list[float]:
        """The known ends of its ratios."""
        ratios = [one.ratio for _, one in self.trials if one.ratio is not None]
        return [end for ratio in ratios for end in ratio.ends if end is not None]


def ratio_picture(group: Sequence[Row]) -> str:
    """A mark for each trial with a ratio: a dot, or its interval where the optimum is not proved.

    All policies of ``group`` are compared with one optimum.
    Marks carry the number of their trial as ``data-trial``. A policy whose ratios are far beyond
    those of the others is told in words at the end of the axis, which it would stretch.
    """
    rows = [row for row in group if row.summary.mean_ratio.lower is not None]
    if not rows:
        return ""
    x = _axis([row.ends for row in rows], rows[0].summary.compared_with)
    plot = Plot.of_rows(x, len(rows), ROW_HEIGHT)
    marks: list[str] = []
    for k, row in enumerate(rows):
        marks += _trial_marks(plot, k + 0.5, row.trials)
        marks += _mean_marks(plot, k + 0.5, row)
    names = [row.summary.policy for row in rows]
    label = "The ratio of every trial, by policy; the same figures are in the table of trials"
    return charts.legend(_legend(rows, x)) + plot.drawn(label, marks, names)


def _axis(ends: Sequence[Sequence[float]], optimum: str) -> Axis:
    """An axis on which most policies are told apart, given the ends of the ratios of each."""
    least, ordered = min(1.0, *map(min, ends)), sorted(map(max, ends))
    median = ordered[(len(ordered) - 1) // 2]
    near = [one for one in ordered if one - least <= FAR * (median - least)]
    most = max(1.01, near[-1] if near and len(ordered) > 2 else ordered[-1])
    title = f"total latency / {'hindsight optimum' if optimum == OPTIMA[0] else optimum}"
    if most > 10 * least:
        return Axis(least, most * 1.05, title, log=True, grid=True)
    pad = 0.03 * (most - least)
    return Axis(least - (pad if least < 1 else 0), most + pad, title, grid=True)


def _trial_marks(plot: Plot, row: float, own: Sequence[tuple[int, Trial]]) -> list[str]:
    marks = []
    filled: dict[int, int] = {}
    for index, record in own:
        if record.ratio is None:
            continue
        lower, upper = record.ratio.ends
        low, high = _or(lower, plot.x.low), _or(upper, plot.x.high)
        place = int(plot.x.share(low) * COLUMNS)
        above = filled.get(place, 0)
        filled[place] = above + 1
        style: dict[str, Any] = {"class": "ratio", "data-trial": index, "dy": 4 - 3.2 * (above % 8)}
        if low > plot.x.high:
            marks.append(
                plot.point(plot.x.high, row, charts.BLUE, shape="beyond", opacity=0.55, **style)
            )
        elif low == high:
            marks.append(plot.point(low, row, charts.BLUE, radius=3, fill_opacity=0.55, **style))
        else:
            ends = (low, high)
            marks.append(
                plot.segment(ends, row, charts.BLUE, width=2.5, stroke_opacity=0.55, **style)
            )
    return marks


def _mean_marks(plot: Plot, at: float, row: Row) -> list[str]:
    """The mean ratio and its confidence interval, below the trials of a row."""
    x, between, mean = plot.x, row.mean_confidence, row.summary.mean_ratio
    low, high = mean.ends
    assert low is not None
    text = f"{row.summary.policy}: mean ratio {mean}\n"
    text += (
        f"{LEVEL} confidence {between}"
        if between is not None and str(between)
        else "one instance: no confidence interval"
    )
    told: dict[str, Any] = {"dy": 14, "text": text}
    marks = []
    if low <= x.high:
        if between is not None and str(between):
            ends = (_or(between.low, x.low), _or(between.high, x.high))
            style = {"width": 4, "class": "confidence", **told}
            marks.append(plot.segment(ends, at, charts.PALE_RED, **style))
        style = {"class": "mean", **told}
        if low == high:
            marks.append(plot.point(low, at, charts.RED, shape="diamond", radius=5, **style))
        else:
            ends = (low, _or(high, x.high))
            marks.append(plot.segment(ends, at, charts.RED, width=7, **style))
    if max(row.ends) > x.high:
        style = {"shape": "beyond", "radius": 5, "class": "beyond", **told}
        marks.append(plot.point(x.high, at, charts.RED, **style))
        words = (
            f"mean {mean}{element('tspan', f', largest {row.summary.max_ratio}', class_='wide')}"
        )
        style = {"dx": -12, "text_anchor": "end", "font_size": 11, "class": "beyond"}
        marks.append(
            element("text", words, x="100%", y=plot.down(at, 18), fill=charts.RED, **style)
        )
    return marks


def _or(end: float | None, otherwise: float) -> float:
    return otherwise if end is None else end


def _legend(rows: Sequence[Row], x: Axis) -> list[tuple[str, str]]:
    entries = []
    proved = {one.ratio.is_exact for row in rows for _, one in row.trials if one.ratio}
    if True in proved:
        entries.append((SIGN.point(0.5, 0.5, charts.BLUE, radius=5), "a trial"))
    if False in proved:
        sign = SIGN.segment((0, 1), 0.5, charts.BLUE)
        entries.append((sign, "a trial, optimum not proved"))
    if any(max(row.ends) > x.high for row in rows):
        sign = SIGN.point(0.8, 0.5, charts.RED, shape="beyond", radius=5)
        entries.append((sign, "beyond the axis"))
    if any(row.summary.mean_ratio.is_exact for row in rows):
        sign = SIGN.point(0.5, 0.5, charts.RED, shape="diamond", radius=5)
    else:
        sign = SIGN.segment((0, 1), 0.5, charts.RED, width=7)
    entries.append((sign, "mean"))
    interval = SIGN.segment((0, 1), 0.5, charts.PALE_RED, width=4)
    return [*entries, (interval, f"its {LEVEL} confidence interval")]
