"""Latency, or any figure, against a parameter, with error bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from instances import InvalidValueError
from instances.validation import as_number

from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Curve:
    """A mean and its confidence interval at each x.

    Attributes
    ----------
    x, mean, low, high : tuple[float, ...]
        Equally long.
    """

    x: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def from_samples(
        cls, samples: Mapping[float, Sequence[float]], confidence: float = 0.95
    ) -> Curve:
        """Compute means with Student's t intervals; that of a single sample is unbounded.

        Parameters
        ----------
        samples : Mapping[float, Sequence[float]]
            Measured values for each x, one value per seed.
        confidence : float, default 0.95
            Confidence level of each interval by itself.

        Raises
        ------
        InvalidValueError
            An x has no samples, a sample is not finite, or the confidence is not between 0 and 1.
            A run that never ended has no latency: leave it out and name it.
        """
        from scipy.stats import t

        confidence = as_number(confidence, None, "confidence", above=0, below=1)
        points = []
        for x, found in sorted(samples.items()):
            values = np.array([as_number(one, f"x = {x:g}", "sample") for one in found])
            if not len(values):
                raise InvalidValueError(f"x = {x:g}", "samples", list(found), "is empty")
            mean, half = float(values.mean()), math.inf
            if len(values) > 1:
                error = float(values.std(ddof=1)) / math.sqrt(len(values))
                half = float(t.ppf(0.5 + confidence / 2, len(values) - 1)) * error
            points.append((float(x), mean, mean - half, mean + half))
        if not points:
            raise InvalidValueError(None, "samples", dict(samples), "is empty")
        return cls(*zip(*points, strict=True))


def latency_curves(
    curves: Mapping[str, Curve],
    *,
    ax: Axes | None = None,
    title: str = "",
    x_label: str = "requests",
    y_label: str = "mean latency (rounds)",
) -> Axes:
    """Draw a line for each policy, with error bars from low to high.

    Lines differ by colour, marker and dashes. A point of a single sample has no error bar.

    Parameters
    ----------
    curves : Mapping[str, Curve]
        Curves by label. Eight have different colours.
    ax : Axes or None, default None
        The axes to draw on; None makes a new figure.
    title : str, default ''
        Title of the axes.
    x_label : str, default 'requests'
        Label of the horizontal axis.
    y_label : str, default 'mean latency (rounds)'
        Label of the vertical axis.
    """
    ax = style.axes_or_new(ax, 4.6, 3.0)
    for place, (label, curve) in enumerate(curves.items()):
        errors = np.abs(np.array([curve.low, curve.high]) - np.array(curve.mean))
        errors[~np.isfinite(errors)] = np.nan
        look = style.line(place)
        ax.errorbar(curve.x, curve.mean, errors, label=label, **look, linewidth=1.2, capsize=2.5)
    if ax.get_yscale() == "linear":
        ax.set_ylim(bottom=0)
    style.dress(ax, title, x_label, y_label)
    ax.grid(axis="y", color=style.GRID, linewidth=0.6)
    style.legend(ax, handlelength=2.6)
    return ax
