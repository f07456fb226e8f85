"""Competitive ratios of many trials, where some are only known to lie in an interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from instances import InvalidTypeError, InvalidValueError
from instances.arrays import FloatArray, IntArray
from instances.validation import as_integer, as_number
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
    certain = np.zeros(len(borders) - 1, dtype=np.int64)
    possible = np.zeros(len(borders) - 1, dtype=np.int64)
    for interval in ratios:
        low = Fraction(1) if interval.lower is None else interval.lower
        high = interval.upper
        for place, (left, right) in enumerate(pairwise(borders)):
            last = place == len(borders) - 2
            below = high is not None and (high <= right if last else high < right)
            starts_here = low <= right if last else low < right
            possible[place] += starts_here and (high is None or high >= left)
            certain[place] += low >= left and below
    return certain, possible


def ratio_histogram(
    ratios: Iterable[Interval],
    *,
    bins: int | Sequence[float] = 20,
    ax: Axes | None = None,
    title: str = "",
    x_label: str | None = None,
) -> Axes:
    """Count trials by ratio: solid if a ratio surely lies in the bin, hatched if it may.

    If an optimum is not proved, the ratio is an interval, and the trial is hatched in every bin
    that the interval meets. So solid bars sum to at most the number of trials, solid and hatched
    bars to at least that number. Failed runs have no ratio: leave them out and say so.

    Parameters
    ----------
    ratios : Iterable[Interval]
        The ratio of each trial, for example `online.Trial.ratio`.
    bins : int or Sequence[float], default 20
        Number of bins between the smallest and the largest known end, or the edges of the bins.
    ax : Axes or None, default None
        The axes to draw on; None makes a new figure.
    title : str, default ''
        Title of the axes.
    x_label : str or None, default None
        Label of the horizontal axis. None names the optimum that the ratios are to.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        No ratios, ratios to different optima, something that is not an `Interval`, fewer
        than one bin, or edges that do not increase.
    """
    found = _intervals(ratios, "ratios")
    label = _label(found, x_label)
    edges = _edges(found, bins)
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
    style.dress(ax, title, label, "trials")
    style.legend(ax, loc="upper right")
    return ax


def _intervals(ratios: Iterable[Interval], owner: str) -> list[Interval]:
    found = list(ratios)
    for ratio in found:
        if not isinstance(ratio, Interval):
            raise InvalidTypeError(owner, "ratio", ratio, "is no Interval")
    if not found:
        raise InvalidValueError(None, owner, [], "is empty: at least one ratio is needed")
    return found


def _label(ratios: Sequence[Interval], given: str | None) -> str:
    """Label an axis with the one optimum that all ratios are to."""
    names = list(dict.fromkeys(one.compared_with for one in ratios if one.compared_with))
    if len(names) > 1:
        reason = "are different optima: draw ratios to one, such as Trial.to_preemptive_optimum"
        raise InvalidValueError("ratios", "compared_with", names, reason)
    name = "hindsight optimum" if names in ([], ["optimum"]) else names[0]
    return f"total latency / {name}" if given is None else given


def _known_ends(ratios: Sequence[Interval]) -> list[float]:
    return [float(end) for one in ratios for end in (one.lower, one.upper) if end is not None]


def _edges(ratios: Sequence[Interval], bins: int | Sequence[float]) -> FloatArray:
    if isinstance(bins, Iterable):
        edges = np.array([as_number(edge, None, "bins") for edge in bins])
        if len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise InvalidValueError(None, "bins", list(bins), "are not increasing edges")
        return edges
    bins = as_integer(bins, None, "bins", minimum=1)
    ends = _known_ends(ratios) or [1.0]
    low, high = min(ends), max(ends)
    # From a bin border downwards of the smallest to one past the largest, never of no width.
    return np.linspace(low, max(high, low + 0.01), bins + 1)
