"""Draw the picture of the README: a policy and the optimum, for light and for dark pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import _checkout
import typer

import hindsight
import online
from instances import generate
from online import pictures
from online.commands.console import run
from online.pictures import style

SOURCE = {"seed": 0, "n": 12}
"""The instance: twelve requests of the generator ``uniform``, as in the command of the README."""
PAPERS = {"light": ("#ffffff", "#1f2328", "#c1121f"), "dark": ("#0d1117", "#e6edf3", "#ff7b72")}
"""Colours of the background, the text and the line at the memory limit."""


def draw(paper: str) -> Any:
    """Draw a run of first come, first served, and below it the optimum. Return the figure.

    Parameters
    ----------
    paper : str
        The kind of page, ``light`` or ``dark``.
    """
    instance = generate("uniform", **SOURCE)
    policy, optimum = online.simulate(instance, "fcfs"), hindsight.solve(instance)
    background, ink, limit = PAPERS[paper]
    axes = pictures.new_axes(6.4, 4.6, rows=2, sharex=True, sharey=True)
    above, below = pictures.policy_and_optimum(policy, optimum, axes=axes)
    titles = {
        above: f"First come, first served: total latency {policy.total_latency:,} rounds, "
        f"{policy.total_latency / optimum.upper_bound:.2f} times the best",
        below: f"The best possible, proved: total latency {optimum.upper_bound:,} rounds",
    }
    figure = above.figure
    figure.set_facecolor(background)
    for ax in figure.axes:
        _recolour(ax, background, ink, limit)
    for ax, title in titles.items():
        for band in ax.patches:
            band.set_edgecolor(background)
        for text in ax.texts:
            text.set_text(text.get_text().replace("M = ", "all the memory: "))
        ax.set_title(title, loc="left", fontsize=style.TEXT_POINTS + 2, color=ink)
        ax.set_ylabel("memory held (tokens)")
    below.set_xlabel("time (rounds: in each, every running request gets one token)")
    return figure


def _recolour(ax: Any, background: str, ink: str, limit: str) -> None:
    """Set the colours of background, text and limit. Bands and the ids in them stay as they are."""
    exchange = {style.INK: ink, style.LIMIT: limit}
    ax.set_facecolor(background)
    ax.tick_params(colors=ink, which="both")
    for spine in ax.spines.values():
        spine.set_edgecolor(ink)
    for text in [*ax.texts, ax.title, ax.xaxis.label, ax.yaxis.label]:
        text.set_color(exchange.get(text.get_color(), text.get_color()))
    for line in ax.lines:
        line.set_color(exchange.get(line.get_color(), line.get_color()))


def first_picture(
    folder: Annotated[Path, typer.Option(help="Where the files go.")] = _checkout.ROOT / "docs",
) -> None:
    """Write first_picture-light.svg and first_picture-dark.svg."""
    for paper in PAPERS:
        pictures.save(draw(paper), folder / f"first_picture-{paper}.svg")


if __name__ == "__main__":
    run(first_picture)
