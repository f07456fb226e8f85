"""Pictures of throughput and latency for [A25] Section 6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from online.pictures import Curve, latency_curves, new_axes, style

from .serving import UNCAPPED, Served


def labels(runs: Sequence[Served]) -> list[str]:
    """Schedulers in the order in which they were run."""
    return list(dict.fromkeys(run.trial.scheduler.label for run in runs))


def sweep_figure(runs: Sequence[Served], title: str) -> Any:
    """Throughput and mean latency over the arrival rate, a line a scheduler."""
    from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

    axes = new_axes(7.6, 3.6, 1, 2)
    for ax, figure, y in zip(
        axes,
        ("throughput", "mean_latency"),
        ("decode tokens completed a second", "mean latency (s)"),
        strict=True,
    ):
        curves = {}
        for label in labels(runs):
            samples: dict[float, list[float]] = {}
            for run in runs:
                if run.trial.scheduler.label == label:
                    samples.setdefault(run.trial.traffic.rate, []).append(getattr(run, figure))
            curves[label] = Curve.from_samples(samples)
        latency_curves(curves, ax=ax, x_label="prompts arriving a second", y_label=y)
        # Schedulers that do the same lie on each other: the first one is to be seen.
        for place, container in enumerate(ax.containers):
            for artist in container.get_children():
                artist.set_zorder(3 - 0.1 * place)
    offered: dict[float, list[float]] = {}
    for run in runs:
        offered.setdefault(run.trial.traffic.rate, []).append(run.offered)
    # What no cap holds back would leave the others no room: it runs off the top.
    capped = [run for run in runs if run.trial.scheduler.label != UNCAPPED]
    top = 1.3 * max(run.throughput for run in capped)
    rates = sorted(offered)
    axes[0].plot(
        rates,
        [np.mean(offered[rate]) for rate in rates],
        color=style.QUIET,
        linewidth=0.9,
        linestyle=":",
        label="arriving",
        zorder=1,
    )
    axes[0].set_ylim(0, top)
    axes[1].set_yscale("log")
    axes[1].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[1].yaxis.set_major_formatter("{x:g}")
    axes[1].yaxis.set_minor_locator(NullLocator())
    axes[1].set_ylim(
        0.7 * min(run.mean_latency for run in runs), 1.4 * max(run.mean_latency for run in runs)
    )
    if rates[-1] > 20 * rates[0]:
        shown = [rates[0]]
        for rate in rates[1:]:
            # Closer labels would touch.
            if rate > 1.45 * shown[-1]:
                shown.append(rate)
        for ax in axes:
            ax.set_xscale("log")
            ax.xaxis.set_major_locator(FixedLocator(shown))
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_locator(NullLocator())
    return shared_legend(axes, title)


def shared_legend(axes: Any, title: str) -> Any:
    """Add a legend below all panels and the title above; return the figure."""
    handles, names = axes[0].get_legend_handles_labels()
    for ax in axes:
        if ax.get_legend() is not None:
            ax.get_legend().remove()
    figure = axes[0].figure
    figure.suptitle(title, x=0.01, ha="left", fontsize=9, color=style.INK)
    figure.legend(
        handles,
        names,
        loc="outside lower center",
        ncols=min(len(names), 4),
        frameon=False,
        fontsize=8,
        handlelength=2.6,
    )
    return figure


def load_figure(runs: Sequence[Served], title: str) -> Any:
    """Throughput as bars, and the share of prompts with a latency of at most x."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    left, right = new_axes(7.6, 3.2, 1, 2)
    names = labels(runs)
    places = np.arange(len(names))[::-1]
    left.barh(
        places, [run.throughput for run in runs], color=style.LINE_COLOURS[: len(names)], height=0.7
    )
    left.set_yticks(places, names)
    offered = runs[0].offered
    highest = max(run.throughput for run in runs)
    for place, run in zip(places, runs, strict=True):
        left.text(
            run.throughput - 0.015 * highest,
            place,
            f"{run.throughput:,.0f}",
            va="center",
            ha="right",
            fontsize=7.5,
            color="white",
        )
    if offered < 1.3 * highest:
        left.axvline(offered, color=style.INK, linewidth=0.9, linestyle=":")
        left.text(offered, places[0] + 0.45, "arriving ", fontsize=7.5, ha="right", va="bottom")
    left.set_xlim(0, 1.06 * max(highest, offered if offered < 1.3 * highest else 0))
    left.xaxis.set_major_locator(MaxNLocator(5))
    style.dress(left, "", "decode tokens completed a second", "")
    shares = np.linspace(0, 1, len(runs[0].latency_quantiles))
    for index, run in enumerate(runs):
        right.plot(
            run.latency_quantiles,
            shares,
            color=style.LINE_COLOURS[index],
            linestyle=style.LINE_STYLES[index % len(style.LINE_STYLES)],
            marker=style.LINE_MARKERS[index],
            markersize=3.5,
            markevery=(8 * index % 40, 40),
            linewidth=1.3,
            label=names[index],
        )
    right.set_ylim(0, 1.02)
    right.set_xscale("log")
    right.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    right.xaxis.set_major_formatter("{x:g}")
    right.xaxis.set_minor_locator(NullLocator())
    style.dress(right, "", "latency (s)", "share of prompts")
    return shared_legend((right, left), title)
