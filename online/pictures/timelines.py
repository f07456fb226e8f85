"""Quantities over the clock: memory held, and requests that advance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from online.simulation import metrics
from online.simulation.run import Run

from . import style
from .memory import LIMIT_LINE, draw_limit

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def memory_over_time(
    run: Run, *, ax: Axes | None = None, label: str | None = None, index: int = 0
) -> Axes:
    """Draw the KV tokens held and the limit M over time, in rounds or seconds.

    Parameters
    ----------
    run : Run
        A run of the policy.
    ax : Axes or None, default None
        The axes to draw on, beside what is there already; None makes a new figure.
    label : str or None, default None
        Name in the legend; None writes the policy.
    index : int, default 0
        Number of the line's colour.

    Raises
    ------
    ImportError
        Matplotlib is not installed.
    """
    ax = style.axes_or_new(ax)
    if not any(line.get_gid() == LIMIT_LINE for line in ax.lines):
        draw_limit(ax, run.memory_limit)
    _draw_steps(ax, metrics.memory_over_time(run), label or run.policy_name, index)
    ax.set_ylim(0, max(run.memory_limit * 1.1, ax.get_ylim()[1]))
    style.dress(ax, "", clock_label(run), "KV cache (tokens)")
    style.legend(ax)
    return ax


def batch_size_over_time(
    run: Run, *, ax: Axes | None = None, label: str | None = None, index: int = 0
) -> Axes:
    """Draw the number of requests that advance in each round, as `memory_over_time` does."""
    ax = style.axes_or_new(ax)
    _draw_steps(ax, metrics.batch_size_over_time(run), label or run.policy_name, index)
    ax.set_ylim(bottom=0)
    style.whole_numbers(ax, "y")
    style.dress(ax, "", clock_label(run), "batch size (requests)")
    style.legend(ax)
    return ax


def clock_label(run: Run) -> str:
    """Name and unit of the run's clock."""
    return "time (rounds)" if run.round_end_times is None else "time (s)"


def _draw_steps(ax: Axes, steps: metrics.Steps, label: str, index: int) -> None:
    """Draw a line of steps that falls to 0 wherever the machine is idle."""
    idle = np.flatnonzero(steps.starts[1:] > steps.ends[:-1]) + 1
    edges = np.insert(steps.starts, idle, steps.ends[idle - 1])
    values = np.insert(steps.values, idle, 0)
    if len(edges):
        # From nothing before the first round to nothing after the last.
        edges = np.concatenate([edges[:1], edges, steps.ends[-1:]])
        values = np.concatenate([[0], values, [0]])
    ax.step(
        edges,
        values,
        where="post",
        label=label,
        linewidth=1.0,
        color=style.LINE_COLOURS[index % len(style.LINE_COLOURS)],
    )
    begun = [float(np.max(line.get_xdata())) for line in ax.lines if line.get_gid() != LIMIT_LINE]
    ax.set_xlim(0, 1.02 * max([*begun, 1e-9]))
