"""Curves of mean latency, or another quantity, over a parameter, with error bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from instances import InvalidValueError
from instances.validation import as_number

from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def student_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return the mean of values and the half width of its Student t confidence interval.

    The half width is infinite for a single value.

    Raises
    ------
    InvalidValueError
        There are no values, a value is not finite, or the confidence is not between 0 and 1. A run
        that left requests unserved has no latency: leave it out of ``values``.
    """
    from scipy.stats import t

    confidence = as_number(confidence, None, "confidence", above=0, below=1)
    numbers = np.array([as_number(one, None, "sample") for one in values])
    if not len(numbers):
        raise InvalidValueError(None, "samples", list(values), "is empty")
    half = math.inf
    if len(numbers) > 1:
        error = float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
        half = float(t.ppf(0.5 + confidence / 2, len(numbers) - 1)) * error
    return float(numbers.mean()), half


def latency_curves(
    samples: Mapping[str, Mapping[float, Sequence[float]]],
    *,
    ax: Axes | None = None,
    title: str = "",
    x_label: str = "requests",
    y_label: str = "mean latency (rounds)",
) -> Axes:
    """Draw a line of means for each policy, with Student's t intervals (95 %) as error bars.

    Lines differ by colour, marker and dashes. A point of a single sample has no error bar.

    Parameters
    ----------
    samples : Mapping[str, Mapping[float, Sequence[float]]]
        For each label (such as a policy) and each x, the measured values, one per seed. Up to eight
        labels have different colours.
    ax : Axes or None, default None
        The axes to draw on; None makes a new figure.
    title : str, default ''
        Title of the axes.
    x_label : str, default 'requests'
        Label of the horizontal axis.
    y_label : str, default 'mean latency (rounds)'
        Label of the vertical axis.

    Raises
    ------
    InvalidValueError
        An x has no samples, or a sample is not finite.
    """
    ax = style.axes_or_new(ax, 4.6, 3.0)
    for place, (label, points) in enumerate(samples.items()):
        x = sorted(points)
        means, errors = np.array([student_interval(points[one]) for one in x]).reshape(-1, 2).T
        errors[~np.isfinite(errors)] = np.nan
        ax.errorbar(x, means, errors, label=label, **style.line(place), linewidth=1.2, capsize=2.5)
    if ax.get_yscale() == "linear":
        ax.set_ylim(bottom=0)
    style.dress(ax, title, x_label, y_label)
    ax.grid(axis="y", color=style.GRID, linewidth=0.6)
    style.legend(ax, handlelength=2.6)
    return ax
