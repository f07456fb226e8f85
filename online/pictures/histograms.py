"""Competitive ratios of many trials, where some are only known to lie in an interval."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from instances import InvalidTypeError, InvalidValueError
from instances.arrays import FloatArray, IntArray
from instances.validation import as_integer
from online.trials.intervals import Interval

from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def certain_and_possible(
    ratios: Sequence[Interval], edges: Sequence[float] | FloatArray
) -> tuple[IntArray, IntArray]:
    """Count the ratios that surely lie in each bin, and those that may.

    A bin contains its left edge; the last one contains its right edge too. An unknown lower end
    counts as 1 (no policy beats the optimum), an unknown upper end as infinity.

    Returns
    -------
    tuple[int64 array, int64 array]
        (certain, possible) : int64, shape (bins,) each; certain <= possible.
    """
    borders = [Fraction(float(edge)) for edge in edges]
    certain, possible = np.zeros((2, len(borders) - 1), dtype=np.int64)

    def place(ratio: Fraction) -> int:
        return bisect_right(borders, ratio) - 1 - (ratio == borders[-1])

    for interval in ratios:
        first = place(Fraction(1) if interval.lower is None else interval.lower)
        last = len(certain) if interval.upper is None else place(interval.upper)
        possible[max(first, 0) : last + 1] += 1
        certain[first : last + 1] += first == last
    return certain, possible


def ratio_histogram(
    ratios: Iterable[Interval],
    *,
    bins: int = 20,
    ax: Axes | None = None,
    title: str = "",
    x_label: str = "total latency / hindsight optimum",
) -> Axes:
    """Count trials by ratio: solid if a ratio surely lies in the bin, hatched if it may.

    If an optimum is not proved, the ratio is an interval, and the trial is hatched in every bin
    that the interval meets. So solid bars sum to at most the number of trials, solid and hatched
    bars to at least that number. Failed runs have no ratio: leave them out and name them.

    Parameters
    ----------
    ratios : Iterable[Interval]
        The ratio of each trial, for example `online.Trial.ratio`.
    bins : int, default 20
        Number of bins between the smallest and the largest known end.
    ax : Axes or None, default None
        The axes to draw on; None makes a new figure.
    title : str, default ''
        Title of the axes.
    x_label : str, default 'total latency / hindsight optimum'
        Label of the horizontal axis.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        No ratios, something that is not an `Interval`, or fewer than one bin.
    """
    found = list(ratios)
    for ratio in found:
        if not isinstance(ratio, Interval):
            raise InvalidTypeError("ratios", "ratio", ratio, "is not an Interval")
    if not found:
        raise InvalidValueError(None, "ratios", [], "is empty: at least one ratio is needed")
    bins = as_integer(bins, None, "bins", minimum=1)
    ends = [end for one in found for end in one.ends if end is not None] or [1.0]
    # The bins have a width even if all ends are equal.
    edges = np.linspace(min(ends), max(*ends, min(ends) + 0.01), bins + 1)
    certain, possible = certain_and_possible(found, edges)
    ax = style.axes_or_new(ax, 4.6, 2.8)
    left, colour = edges[:-1], style.LINE_COLOURS[0]
    exact = sum(ratio.is_exact for ratio in found)
    shape: dict[str, Any] = {"width": np.diff(edges), "align": "edge", "linewidth": 0.6}
    sure = f"surely here ({exact} of {len(found)} optima proved)"
    ax.bar(left, certain, color=colour, edgecolor="white", label=sure, **shape)
    if (possible > certain).any():
        shape |= {"bottom": certain, "hatch": "////", "label": "possibly here"}
        ax.bar(left, possible - certain, color="white", edgecolor=colour, **shape)
    style.whole_numbers(ax, "y")
    ax.set_ylim(0, max(1, possible.max(initial=1)) * 1.25)
    style.dress(ax, title, x_label, "trials")
    style.legend(ax, loc="upper right")
    return ax
