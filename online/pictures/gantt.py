"""Gantt charts: a row for each request, from its arrival through its wait to its completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray, IntArray
from instances.problem.schedule import RoundSchedule
from online.simulation.run import Run

from . import style
from .memory import TOKENS_LOST, kept_stays, length_colours, length_scale, stays_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMED_ROWS = 40


def gantt(
    shown: RoundSchedule | Run, *, ax: Axes | None = None, title: str = "", colorbar: bool = True
) -> Axes:
    """Draw each request in a row: waiting as a thin line, running as a bar.

    Rows are sorted by arrival, the earliest at the top. The colour of a bar is the output length of
    the request. A bar whose tokens were lost is hatched. The line of a request that was never
    served extends to the end of the run.

    Parameters
    ----------
    shown : Schedule, PreemptiveSchedule or Run
        A schedule (a stopped request has several bars with gaps), or a run in rounds or seconds.
    ax : Axes or None, default None
        The axes to draw on; None makes a new figure as tall as the rows need.
    title : str, default ""
        Title of the axes.
    colorbar : bool, default True
        Whether to add a colour bar for the output lengths.
    """
    holder = shown.problem
    lengths, arrivals, ids = holder.output_lengths, holder.arrival_times, holder.ids
    request, begin, end, kept = _stays(shown)
    ax = style.axes_or_new(ax, 6.4, float(np.clip(0.8 + 0.14 * len(lengths), 1.8, 9.0)))
    order = np.argsort(arrivals, kind="stable")
    row = np.argsort(order)
    colours = length_colours(lengths)
    last = float(end.max(initial=1.0))
    finish = np.full(len(lengths), last)
    # The line of a request that completed ends where its last bar begins. The bars of a request are
    # in order of time, so the last assignment to its entry is that of its last bar.
    finish[request] = np.where(kept, begin, last)
    ax.hlines(row, arrivals, finish, color=style.QUIET, linewidth=0.8, zorder=1)
    bars: dict[str, Any] = {"height": 0.78, "zorder": 2}
    look: dict[str, Any]
    for chosen, look in (
        (kept, {"color": colours.to_rgba(lengths[request[kept]])}),
        (~kept, {"color": style.LOST, "ec": style.QUIET, "lw": 0.4, "hatch": "////"}),
    ):
        if chosen.any():
            label = None if chosen is kept else TOKENS_LOST
            wide = (end - begin)[chosen]
            ax.barh(row[request[chosen]], wide, left=begin[chosen], label=label, **bars, **look)
    ax.set_ylim(len(lengths) - 0.4, -0.6)
    ax.set_xlim(0, last * 1.02)
    ax.set_yticks([])
    if len(lengths) <= MOST_NAMED_ROWS:
        ax.set_yticks(np.arange(len(lengths)), [str(ids[index]) for index in order])
    seconds = isinstance(shown, Run) and shown.round_end_times is not None
    style.dress(ax, title, "time (s)" if seconds else "time (rounds)", "requests by arrival")
    ax.tick_params(axis="y", length=0, labelsize=style.TEXT_POINTS - 2 * (len(lengths) > 20))
    style.legend(ax)
    if colorbar:
        length_scale([ax], lengths)
    return ax


def _stays(
    shown: RoundSchedule | Run,
) -> tuple[IntArray, FloatArray, FloatArray, npt.NDArray[np.bool_]]:
    """Return the stays of requests in the batch as four arrays of shape (stays,).

    These have, for each stay, the index of its request, its begin, its end (in rounds, or in
    seconds for a run in seconds), and whether its tokens were kept.
    """
    if isinstance(shown, RoundSchedule):
        stays = stays_of(shown)
        begin = stays.begin.astype(np.float64)
        return stays.request, begin, begin + stays.rounds, stays.kept
    attempts = shown.attempts
    if shown.round_end_times is None:
        begin, end = attempts.start_round.astype(np.float64), attempts.end_round.astype(np.float64)
    else:
        # Runs in seconds number their rounds without gaps: round r is entry r - 1 of the arrays.
        rounds = shown.rounds
        begin, end = rounds.starts[attempts.start_round], rounds.ends[attempts.end_round - 1]
    return attempts.request, begin, end, kept_stays(shown)
