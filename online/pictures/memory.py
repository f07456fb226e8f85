"""Draw memory over time, as bands of requests or as a line, and the size of the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from instances import Instance
from instances.arrays import IntArray
from instances.problem.schedule import RoundSchedule
from online.simulation import metrics
from online.simulation.occupancy import Band, bands_of, stays_of
from online.simulation.run import Run
from online.trials.intervals import HindsightBounds, ratio

from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LIMIT_LINE = "memory-limit"
"""Group id of the line at M."""
LAYOUT_SHARE = 0.85
"""Share of the axes that labels and the colour scale leave, roughly: ids come before layout."""


class Optimum(HindsightBounds, Protocol):
    """The part of a result of `hindsight.solve` that a picture needs."""

    @property
    def schedule(self) -> RoundSchedule:
        """The best schedule known."""


def stacked_memory(
    shown: RoundSchedule | Run,
    *,
    ax: Axes | None = None,
    title: str | None = None,
    colorbar: bool = True,
) -> Axes:
    """Draw memory over rounds and M; each request is a band that grows by a token a round.

    Round r is drawn from r - 1 to r, so a band begins at the start time and ends at the completion
    time. Earlier starts lie lower. Colour is the output length; a stay that ended in an eviction
    is hatched. Bands with room for it carry the request's id.

    Parameters
    ----------
    shown : Schedule, PreemptiveSchedule or Run
        A schedule, with a band for each stretch of a request, or a run with its evicted attempts.
    ax : Axes or None, default None
        The axes to draw on; None makes a new figure.
    title : str or None, default None
        Title of the axes; None writes the policy and the total latency.
    colorbar : bool, default True
        Add the scale of output lengths.

    Raises
    ------
    ValueError
        A run with requests held midway (see `online.simulation.occupancy.stays_of`).
    """
    ax = style.axes_or_new(ax)
    _draw_bands(ax, shown, _last_round(shown), [ax] if colorbar else [])
    if title is None:
        title = f"{shown.policy_name}: " if isinstance(shown, Run) else ""
        title += _cost(shown)
    style.dress(ax, title, "time (rounds)", "KV cache (tokens)")
    return ax


def policy_and_optimum(
    run: Run, optimum: Optimum, *, axes: Sequence[Axes] | None = None
) -> Sequence[Axes]:
    """Draw a policy's run above the optimum of its instance, with `stacked_memory` on equal axes.

    Parameters
    ----------
    run : Run
        A run of the policy.
    optimum : Optimum
        Result of `hindsight.solve` for ``run.instance``, with preemption or without.
    axes : Sequence[Axes] or None, default None
        Two axes; by default one above the other in a new figure.

    Raises
    ------
    MismatchError
        The run and the optimum belong to different instances, or it is the makespan's.
    IncompleteRunError
        The run left requests unserved.
    NoScheduleError
        No schedule of the round model describes the run.
    """
    schedule = optimum.schedule
    found = ratio(run, optimum)
    if axes is None:
        axes = style.new_axes(6.4, 4.6, rows=2, sharex=True, sharey=True)
    above, below = axes
    extent = max(_last_round(run), _last_round(schedule))
    _draw_bands(above, run, extent, list(axes))
    _draw_bands(below, schedule, extent)
    policy_title = f"{run.policy_name}: {_cost(run)}, ratio {found}"
    name = "preemptive" if found.preemptive else "hindsight"
    known = f"{name} optimum" if found.is_exact else "best schedule known"
    below_title = f"{known}: {_cost(schedule)}"
    if not found.is_exact:
        of = "preemptive optimum" if found.preemptive else "optimum"
        below_title += f", {of} at least {optimum.lower_bound}"
    style.dress(above, policy_title, "", "KV cache (tokens)")
    style.dress(below, below_title, "time (rounds)", "KV cache (tokens)")
    return axes


def length_colours(output_lengths: IntArray) -> Any:
    """Map the output lengths of an instance to colours, as matplotlib does."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    # The yellow end is left out: too pale on white paper.
    shades = ListedColormap(colormaps[style.LENGTH_COLOURS](np.linspace(0.05, 0.93, 256)))
    low, high = int(output_lengths.min()), int(output_lengths.max())
    return ScalarMappable(Normalize(low, max(high, low + 1)), shades)


def length_scale(axes: Sequence[Axes], output_lengths: IntArray) -> None:
    """Add the scale of `length_colours` beside the axes, unless there is a single length."""
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
    from matplotlib.collections import PolyCollection

    stays = stays_of(shown)
    bands = bands_of(stays)
    holder: Instance | Run = shown.instance if isinstance(shown, RoundSchedule) else shown
    lengths, limit = holder.output_lengths, holder.memory_limit
    ids = holder.ids
    colours = length_colours(lengths)
    ax.set_xlim(0, extent * 1.02)
    ax.set_ylim(0, limit * 1.1)
    wide, tall = _points_per_unit(ax)
    for done in (True, False):
        chosen = [band for band in bands if bool(stays.completed[band.stay]) is done]
        if not chosen:
            continue
        requests = stays.request[[band.stay for band in chosen]]
        shades = colours.to_rgba(lengths[requests])
        # Edges must not eat the bands they part.
        thin = [
            min(len(band.top) * wide, float((band.top - band.bottom).mean()) * tall)
            for band in chosen
        ]
        ax.add_collection(
            PolyCollection(
                [np.column_stack(band.outline()) for band in chosen],
                facecolors=shades if done else style.LOST,
                edgecolors="white" if done else style.QUIET,
                linewidths=np.clip(0.08 * np.array(thin), 0.0, 0.6),
                hatch=None if done else "////",
                label=None if done else unfinished_label(shown),
            )
        )
        if done:
            _write_ids(ax, chosen, [str(ids[request]) for request in requests], shades)
    draw_limit(ax, limit)
    style.whole_numbers(ax, "x")
    style.legend(ax)
    if colorbar:
        length_scale(colorbar, lengths)


def unfinished_label(shown: RoundSchedule | Run) -> str:
    """Name the stays that did not end by completion."""
    keeps = isinstance(shown, Run) and bool(shown.attempts.tokens_kept.any())
    return "sent back to the queue" if keeps else "lost to an eviction"


def draw_limit(ax: Axes, memory_limit: int) -> None:
    """Draw the memory limit as a line with its value at the left."""
    ax.axhline(memory_limit, color=style.LIMIT, linewidth=1.0, gid=LIMIT_LINE)
    ax.annotate(
        f"M = {memory_limit:,}",
        (0, memory_limit),
        xycoords=("axes fraction", "data"),
        xytext=(3, 2),
        textcoords="offset points",
        fontsize=style.TEXT_POINTS,
        color=style.LIMIT,
    )


def _write_ids(ax: Axes, bands: Sequence[Band], names: Sequence[str], shades: Any) -> None:
    """Write ids into the bands that have room for them."""
    size = style.TEXT_POINTS - 1.5
    wide, tall = _points_per_unit(ax)
    for band, name, shade in zip(bands, names, shades, strict=True):
        reach = math.ceil((0.65 * size * len(name) + 2) / wide / 2 - 0.5)
        middle = _roomiest(band, max(0, reach), 1.15 * size / tall)
        if middle is None:
            continue
        begin, end = middle - max(0, reach), middle + max(0, reach) + 1
        height = (int(band.bottom[begin:end].max()) + int(band.top[begin:end].min())) / 2
        luminance = 0.299 * shade[0] + 0.587 * shade[1] + 0.114 * shade[2]
        ax.text(
            band.begin + middle + 0.5,
            height,
            name,
            ha="center",
            va="center",
            fontsize=size,
            color=style.ON_PALE if luminance > 0.5 else style.ON_DARK,
            clip_on=True,
        )


def _roomiest(band: Band, reach: int, height: float) -> int | None:
    """Find a round around which ``2 reach + 1`` rounds hold a box of ``height`` tokens, or None."""
    for share in (0.5, 0.6, 0.7, 0.8, 0.9):
        middle = int(share * len(band.top))
        begin, end = middle - reach, middle + reach + 1
        if begin < 0 or end > len(band.top):
            continue
        if band.top[begin:end].min() - band.bottom[begin:end].max() >= height:
            return middle
    return None


def _points_per_unit(ax: Axes) -> tuple[float, float]:
    """Compute the points on paper of a round and of a token, before layout."""
    box = ax.get_window_extent()
    scale = LAYOUT_SHARE * 72 / ax.figure.dpi
    left, right = ax.get_xlim()
    low, high = ax.get_ylim()
    return box.width * scale / (right - left), box.height * scale / (high - low)


def _last_round(shown: RoundSchedule | Run) -> int:
    return max(1, shown.makespan if isinstance(shown, RoundSchedule) else shown.rounds_run)


def _cost(shown: RoundSchedule | Run) -> str:
    if isinstance(shown, Run) and shown.status != "completed":
        return f"ended as {shown.status}"
    total = shown.total_latency
    return f"total latency {total:,}" if isinstance(total, int) else f"total latency {total:,.1f} s"


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
