"""Three kinds of pictures: lines with intervals, bars, and histograms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from online.pictures import latency_curves, new_axes, style

Points = Mapping[Any, Sequence[float]]
"""Samples (measured values) by value of x."""


def lines(
    curves: Mapping[str, Points],
    x: str,
    y: str,
    *,
    ax: Any = None,
    title: str = "",
    log: str = "",
    levels: Mapping[str, float] | None = None,
) -> Any:
    """Draw a line for each label: the mean at each x, with its interval if there are samples.

    Parameters
    ----------
    curves : Mapping[str, Points]
        For each label, the samples by value of x.
    x, y : str
        Labels of the axes.
    ax : Any, default None
        The matplotlib axes to draw on. None makes new axes.
    title, log : str
        Title, and names of the axes with a logarithmic scale, such as ``"xy"``.
    levels : Mapping[str, float] or None
        Heights of horizontal lines by label.
    """
    ax = new_axes(6.4, 3.4) if ax is None else ax
    latency_curves(curves, ax=ax, title=title, x_label=x, y_label=y)
    for label, level in (levels or {}).items():
        ax.axhline(level, color=style.QUIET, linestyle=":", linewidth=1.2, label=label)
    if "y" in log:
        ax.autoscale(axis="y")
    for axis in log:
        getattr(ax, f"set_{axis}scale")("log")
    style.legend(ax, loc="best", handlelength=2.6)
    return ax


def bars(
    groups: Mapping[str, Sequence[float]], names: Sequence[str], x: str, *, log: bool = False
) -> Any:
    """Draw horizontal bars, one for each name in each group."""
    ax = new_axes(6.4, 0.8 + 0.35 * len(names))
    width = 0.8 / len(groups)
    for place, (label, values) in enumerate(groups.items()):
        heights = np.arange(len(names)) + (place - (len(groups) - 1) / 2) * width
        ax.barh(heights, values, width, color=style.LINE_COLOURS[place], label=label)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    if log:
        ax.set_xscale("log")
    style.dress(ax, "", x)
    if len(groups) > 1:
        style.legend(ax)
    return ax


def histograms(
    panels: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x: str,
    y: str,
    marks: Mapping[str, Mapping[str, float]] | None = None,
    *,
    log: bool = False,
) -> Any:
    """Draw a histogram for each title in ``panels``, which has (counts, edges of the bins).

    ``marks`` has, for each title, values that are marked, by label.
    """
    axes: Iterable[Any] = np.atleast_1d(new_axes(7.0, 2.9, columns=len(panels)))
    for ax, (title, (counts, edges)) in zip(axes, panels.items(), strict=True):
        ax.stairs(counts, edges, fill=True, color=style.LINE_COLOURS[5])
        for place, (label, value) in enumerate((marks or {}).get(title, {}).items()):
            dashes = style.LINE_STYLES[place % len(style.LINE_STYLES)]
            ax.axvline(
                value, color=style.LINE_COLOURS[1 + place // 2], linestyle=dashes, label=label
            )
        if log:
            ax.set_yscale("log")
        style.dress(ax, title, x, y)
        style.legend(ax, loc="upper right")
    return ax
