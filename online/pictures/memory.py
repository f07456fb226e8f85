"""Pictures of the memory in use over rounds, with a band for each request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from instances.arrays import IntArray
from instances.problem.memory import held_tokens
from instances.problem.schedule import RoundSchedule
from online.simulation.run import Run
from online.trials.intervals import ratio

from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hindsight import Result

FEW_BANDS = 200
"""Largest number of bands that are drawn with edges. The edges of more bands would hide them."""
TOKENS_LOST = "tokens lost"
"""Label in the legend for stays in the batch whose tokens were lost."""


def stacked_memory(
    shown: RoundSchedule | Run,
    *,
    ax: Axes | None = None,
    title: str | None = None,
    colorbar: bool = True,
) -> Axes:
    """Draw the memory in use over rounds, as stacked bands of requests below the limit M.

    The height of a band is the memory of a request in tokens, which grows by one in each round.
    Round r is drawn from r - 1 to r on the time axis. So a band begins at the start time and ends
    at the completion time. The bands of requests that start earlier are lower. The colour of a band
    shows the output length. Bands of stays whose tokens were lost are hatched.

    Parameters
    ----------
    shown : Schedule, PreemptiveSchedule or Run
        A schedule (a stopped request has several bands), or a run, with bands of evicted requests
        too.
    ax : Axes or None, default None
        The axes to draw on; None makes a new figure.
    title : str or None, default None
        Title of the axes; None writes the policy and the total latency.
    colorbar : bool, default True
        Whether to add a colour bar for the output lengths.

    Raises
    ------
    ValueError
        The memory of a request in the run does not grow by a token per round (see `stays_of`).
    """
    ax = style.axes_or_new(ax)
    _draw_bands(ax, shown, _last_round(shown), [ax] if colorbar else [])
    if title is None:
        title = f"{shown.policy_name}: " if isinstance(shown, Run) else ""
        title += _cost(shown)
    style.dress(ax, title, "time (rounds)", "KV cache (tokens)")
    return ax


def policy_and_optimum(
    run: Run, optimum: Result, *, axes: Sequence[Axes] | None = None
) -> Sequence[Axes]:
    """Draw the memory of a policy's run above that of the optimal schedule, with equal axes.

    Parameters
    ----------
    run : Run
        A run of the policy.
    optimum : Result
        Result of `hindsight.solve` for ``run.instance``, with preemption or without.
    axes : Sequence[Axes] or None, default None
        Two axes, for the run and for the optimum; None makes a new figure with one above the other.

    Raises
    ------
    MismatchError
        The run and the optimum belong to different instances, or the optimum is of a quantile.
    IncompleteRunError
        The run left requests unserved.
    NoScheduleError
        No schedule in rounds has the completions of the run.
    """
    found, schedule = ratio(run, optimum), optimum.schedule
    if axes is None:
        axes = style.new_axes(6.4, 4.6, rows=2, sharex=True, sharey=True)
    above, below = axes
    extent = max(_last_round(run), _last_round(schedule))
    _draw_bands(above, run, extent, list(axes))
    _draw_bands(below, schedule, extent)
    name = "hindsight" if optimum.preemption == "never" else "preemptive"
    known, rest = f"{name} optimum", ""
    if not found.is_exact:
        known, rest = "best schedule known", f", optimum at least {optimum.lower_bound}"
    title = f"{run.policy_name}: {_cost(run)}, ratio {found}"
    style.dress(above, title, "", "KV cache (tokens)")
    title = f"{known}: {_cost(schedule)}{rest}"
    style.dress(below, title, "time (rounds)", "KV cache (tokens)")
    return axes


def length_colours(output_lengths: IntArray) -> Any:
    """Return a matplotlib ``ScalarMappable`` that maps the output lengths to colours."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    # The yellow end of the colour map is left out, because it is too pale on white paper.
    shades = ListedColormap(colormaps[style.LENGTH_COLOURS](np.linspace(0.05, 0.93, 256)))
    low, high = int(output_lengths.min()), int(output_lengths.max())
    return ScalarMappable(Normalize(low, max(high, low + 1)), shades)


def length_scale(axes: Sequence[Axes], output_lengths: IntArray) -> None:
    """Add a colour bar for `length_colours` at the right of the axes.

    Nothing is added if all output lengths are equal.
    """
    distinct = np.unique(output_lengths)
    if len(distinct) < 2:
        return
    figure: Any = axes[0].figure
    bar = figure.colorbar(length_colours(output_lengths), ax=list(axes), pad=0.01, aspect=30)
    bar.set_label("output length (tokens)", fontsize=style.TEXT_POINTS, color=style.INK)
    if np.diff(distinct).min() >= (distinct[-1] - distinct[0]) / 8:
        bar.set_ticks(distinct.tolist())
    bar.ax.tick_params(labelsize=style.TEXT_POINTS, width=0.6, length=3)
    bar.outline.set_visible(False)


def _draw_bands(
    ax: Axes, shown: RoundSchedule | Run, extent: int, colorbar: Sequence[Axes] = ()
) -> None:
    from matplotlib.ticker import MaxNLocator

    stays = stays_of(shown)
    holder = shown.problem
    lengths, limit = holder.output_lengths, holder.memory_limit
    shades = length_colours(lengths).to_rgba(lengths[stays.request])
    ax.set_xlim(0, extent * 1.02)
    ax.set_ylim(0, limit * 1.1)
    line = 0.4 if len(shades) <= FEW_BANDS else 0.0
    lost: dict[str, Any] = {"color": style.LOST, "ec": style.QUIET, "hatch": "////", "lw": line}
    lost["label"] = TOKENS_LOST
    for row, bottom, top in stacked(stays.begin, stays.held, stays.rounds):
        edges = np.arange(stays.begin[row], stays.begin[row] + len(top) + 1)
        if stays.kept[row]:
            ax.stairs(top, edges, baseline=bottom, fill=True, color=shades[row], ec="w", lw=line)
        else:
            ax.stairs(top, edges, baseline=bottom, fill=True, **lost)
            lost.pop("label", None)
    draw_limit(ax, limit)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.legend(ax)
    if colorbar:
        length_scale(colorbar, lengths)


def stacked(
    begin: IntArray, held: IntArray, rounds: IntArray
) -> list[tuple[int, IntArray, IntArray]]:
    """Stack the bands of stays in the batch: return index, bottom and top of each, lowest first.

    Bottom and top are in tokens, with one entry for each round of the stay. A stay that begins
    earlier is lower. Of stays that begin together, the one that ends later is lower. There are no
    gaps between bands, and the order of two bands never changes.

    Parameters
    ----------
    begin, held, rounds : int64 array, shape (stays,)
        A stay holds ``held + k`` tokens in its k-th round, which is round ``begin + k``, for
        k = 1 .. ``rounds``.
    """
    end = begin + rounds
    height = np.zeros(int(end.max(initial=0)) + 1, dtype=np.int64)
    bands = []
    for row in np.lexsort((-end, begin)).tolist():
        where = slice(int(begin[row]) + 1, int(end[row]) + 1)
        bottom = height[where].copy()
        top = bottom + int(held[row]) + np.arange(1, len(bottom) + 1)
        height[where] = top
        bands.append((row, bottom, top))
    return bands


class Stays(NamedTuple):
    """Stays of requests in the batch, as columns of shape (stays,).

    A stay is a series of successive rounds in which a request is in the batch.

    Attributes
    ----------
    request : int64 array
        Index of the request.
    begin, held, rounds : int64 array
        A stay holds ``held + k`` tokens in its k-th round, which is round ``begin + k``, for
        k = 1 .. ``rounds``.
    kept : bool array
        Whether the tokens of the stay were kept: the request completed, or continued later with
        them. It is True for all stays of a schedule, where a stopped request loses nothing.
    """

    request: IntArray
    begin: IntArray
    held: IntArray
    rounds: IntArray
    kept: npt.NDArray[np.bool_]


def kept_stays(run: Run) -> npt.NDArray[np.bool_]:
    """Return which attempts of a run completed, or were continued with their tokens."""
    ran = run.attempts
    order, kept = np.argsort(ran.request, kind="stable"), ran.completed.copy()
    # If an attempt has kept tokens, the attempt of the same request before it has made them.
    kept[order[:-1][ran.tokens_kept[order[1:]] > 0]] = True
    return kept


def stays_of(shown: RoundSchedule | Run) -> Stays:
    """Return all stays of requests in the batch, of a schedule or a run.

    Raises
    ------
    ValueError
        The run held requests, or processed prompts in chunks. The memory of a stay then does not
        grow by a token per round.
    """
    if isinstance(shown, RoundSchedule):
        columns = shown.stretch_columns
        return Stays(*columns, np.ones(len(columns.request), dtype=np.bool_))
    ran = shown.attempts
    held, rounds = shown.problem.prompt_lengths[ran.request], ran.end_round - ran.start_round
    base = held + ran.tokens_kept - shown.prefill_rounds
    memory = held_tokens(np.arange(shown.rounds_run + 1), ran.start_round, base, rounds)
    if not shown.pauses and np.array_equal(memory, shown.memory_profile()):
        return Stays(ran.request, ran.start_round, base, rounds, kept_stays(shown))
    raise ValueError(
        f"the run of {shown.policy_name!r} held requests midway: their memory does not grow by a "
        "token per round, as stacked bands need; draw gantt instead"
    )


def draw_limit(ax: Axes, memory_limit: int) -> None:
    """Draw the memory limit (tokens) as a horizontal line with its value at the left."""
    ax.axhline(memory_limit, color=style.LIMIT, linewidth=1.0, gid="memory-limit")
    place: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    text: Any = {"xytext": (3, 2), "fontsize": style.TEXT_POINTS, "color": style.LIMIT}
    ax.annotate(f"M = {memory_limit:,}", (0, memory_limit), **place, **text)


def _last_round(shown: RoundSchedule | Run) -> int:
    return max(1, shown.makespan if isinstance(shown, RoundSchedule) else shown.rounds_run)


def _cost(shown: RoundSchedule | Run) -> str:
    if isinstance(shown, Run) and shown.status != "completed":
        return f"ended as {shown.status}"
    total = shown.total_latency
    return f"total latency {total:,}" if isinstance(total, int) else f"total latency {total:,.1f} s"
