"""[W25] Figures 5, 6, 7: prompt and output lengths, beside the means and medians it prints.

A published number is borne out where it lies in the central 99 % of the same statistic over
`DRAWS` draws of as many requests as the paper took. Figure 7's means, 542.75 and 127.50, are to
the last digit four to one mixtures of those of Figures 5 and 6, so these describe the very 1,600
conversations and 400 summaries that were drawn. Lengths drawn from laws that were fitted to a
published number agree with it by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from instances.arrays import IntArray
from online.pictures import style
from studies.reproduction.conditions import Conditions
from studies.reproduction.declaration import Outcome, Setting, register_reproduction
from studies.reproduction.verdicts import Statement

from .lengths import LONG, SHORT, Lengths, central_range, conversations, mixture, summaries

DRAWS = 1000
QUICK_DRAWS = 50
BINS = 40
SHOWN = 0.99
"""Share of the lengths that the histogram shows; few are much longer."""

Published = Mapping[tuple[str, str], float]
"""By length (``"prompt"``, ``"output"``) and statistic (``"mean"``, ``"median"``)."""

CONVERSATIONS: Published = {
    ("prompt", "mean"): 41.84,
    ("prompt", "median"): 12.0,
    ("output", "mean"): 85.35,
    ("output", "median"): 43.0,
}
SUMMARIES: Published = {
    ("prompt", "mean"): 2546.39,
    ("prompt", "median"): 2667.5,
    ("output", "mean"): 296.08,
    ("output", "median"): 161.0,
}
MIXTURE: Published = {
    ("prompt", "mean"): 542.75,
    ("prompt", "median"): 18.0,
    ("output", "mean"): 127.50,
}
"""[W25] Section 7; the median of the mixture's outputs is not printed."""


FITTED = "conversations from laws fitted to the means and medians of Figure 5"


def _summaries(given: Conditions) -> str:
    if given.arxiv is not None:
        return "summaries of a reader's file"
    return "summaries from laws fitted to the means and medians of Figure 6"


def mixed(given: Conditions) -> str:
    """Describe where the lengths of the mixture come from."""
    return f"{given.conversations_told(FITTED)}, {_summaries(given)}"


def statistics(lengths: Lengths) -> dict[tuple[str, str], float]:
    """Means and medians of both lengths."""
    return {
        (side, name): float(function(values))
        for side, values in (("prompt", lengths.prompts), ("output", lengths.outputs))
        for name, function in (("mean", np.mean), ("median", np.median))
    }


def length_outcome(
    setting: Setting,
    draw: Callable[[np.random.Generator], Lengths],
    published: Published,
    *,
    fitted: Collection[tuple[str, str]],
    note: str,
) -> Outcome:
    """Histograms of the first draw; statistics of it and of many more.

    Parameters
    ----------
    setting : Setting
        Size and files of the run.
    draw : Callable[[numpy.random.Generator], Lengths]
        As many requests as the paper took.
    published : Published
        What is held against the draws.
    fitted : Collection[tuple[str, str]]
        The published numbers that laws were fitted to.
    note : str
        Where the lengths come from.
    """
    draws = QUICK_DRAWS if setting.quick else DRAWS
    samples = [draw(np.random.default_rng(seed)) for seed in range(draws)]
    found = [statistics(sample) for sample in samples]
    rows: list[list[Any]] = []
    statements, parts = [], []
    for key in found[0]:
        values = [each[key] for each in found]
        low, high = central_range(values)
        average = float(np.mean(values))
        paper = published.get(key)
        rows.append([*key, average, low, high, paper])
        side, name = key
        if paper is None:
            continue
        text = f"{side} {name} in the central 99 %"
        statements.append(Statement(text, low <= paper <= high, by_construction=key in fitted))
        parts.append(f"{side} {name} {average:.2f} ({low:.2f} to {high:.2f}; paper {paper:.2f})")
    figure = _picture(samples[0], published, rows)
    for side, sample in (("prompt", samples[0].prompts), ("output", samples[0].outputs)):
        counts, edges = np.histogram(sample, bins=_edges(sample))
        rows.extend(
            [side, f"{left:.0f} to {right - 1:.0f} tokens", int(count), None, None, None]
            for count, left, right in zip(counts, edges[:-1], edges[1:], strict=True)
        )
    return Outcome(
        columns=("length", "statistic", "value", "low", "high", "paper"),
        rows=rows,
        figure=figure,
        measured=f"average of {draws} draws of {len(samples[0])} (central 99 %): "
        + ", ".join(parts)
        + ".",
        statements=statements,
        remark=f"{note}.",
    )


def _edges(values: IntArray) -> IntArray:
    """Whole numbers, from 1 to beyond all but the longest lengths."""
    top = float(np.quantile(values, SHOWN))
    width = max(1, int(np.ceil(top / BINS)))
    return np.arange(1, top + width + 1, width, dtype=np.int64)


def _picture(sample: Lengths, published: Published, rows: list[list[Any]]) -> Any:
    axes = style.new_axes(7.0, 2.9, 1, 2)
    ours = {(row[0], row[1]): row[2] for row in rows}
    for ax, side, values in zip(
        axes, ("prompt", "output"), (sample.prompts, sample.outputs), strict=True
    ):
        edges = _edges(values)
        ax.hist(values, bins=edges, color=style.LINE_COLOURS[5], edgecolor="white", linewidth=0.3)
        for name, colour, dashes in (
            ("mean", style.LINE_COLOURS[1], "--"),
            ("median", style.LINE_COLOURS[2], ":"),
        ):
            label = f"{name} {ours[side, name]:,.2f}"
            ax.axvline(ours[side, name], color=colour, linewidth=1.3, label=label)
            if (side, name) in published:
                value = published[side, name]
                label = f"paper's {name} {value:,.2f}"
                ax.axvline(value, color=style.INK, linewidth=1.0, linestyle=dashes, label=label)
        beyond = int((values >= edges[-1]).sum())
        longer = f" ({beyond} longer ones not shown)" if beyond else ""
        title = f"{side}s of one draw of {len(values):,}"
        style.dress(ax, title, f"tokens{longer}", "requests")
        ax.set_xlim(0, edges[-1])
        if np.median(values) < edges[-1] / 2:
            style.legend(ax, loc="upper right")
        else:
            ax.set_ylim(top=1.6 * ax.get_ylim()[1])
            style.legend(ax, loc="upper left")
    return axes[0].figure


@register_reproduction(
    "w25-figure-5",
    "W25",
    "Figure 5",
    "conversations have prompts of mean 41.84 and median 12 tokens, outputs of mean 85.35 and "
    "median 43.",
    lengths={"lmsys": SHORT},
    varies=("lengths",),
)
def conversation_lengths(setting: Setting) -> Outcome:
    """Short conversations."""
    given = setting.conditions
    return length_outcome(
        setting,
        lambda rng: conversations(rng, SHORT, given),
        CONVERSATIONS,
        fitted=CONVERSATIONS if given.lmsys is None else (),
        note=given.conversations_told(FITTED),
    )


@register_reproduction(
    "w25-figure-6",
    "W25",
    "Figure 6",
    "summaries have prompts of mean 2546.39 and median 2667.5 tokens, outputs of mean 296.08 and "
    "median 161.",
    lengths={"arxiv": LONG},
)
def summary_lengths(setting: Setting) -> Outcome:
    """Long summaries."""
    given = setting.conditions
    return length_outcome(
        setting,
        lambda rng: summaries(rng, LONG, given),
        SUMMARIES,
        fitted=SUMMARIES if given.arxiv is None else (),
        note=f"{_summaries(given)}, of which {LONG} are drawn",
    )


@register_reproduction(
    "w25-figure-7",
    "W25",
    "Figure 7",
    "1,600 conversations with 400 summaries have prompts of mean 542.75 and median 18 tokens, "
    "outputs of mean 127.5.",
    lengths={"lmsys": SHORT, "arxiv": LONG},
    varies=("lengths",),
)
def mixture_lengths(setting: Setting) -> Outcome:
    """Four to one."""
    given = setting.conditions
    drawn = given.lmsys is None
    return length_outcome(
        setting,
        lambda rng: mixture(rng, SHORT + LONG, given),
        MIXTURE,
        fitted=[key for key in MIXTURE if drawn and key[1] == "mean"],
        note=mixed(given)
        + ("; the median of the prompts is the one number no law was fitted to" if drawn else ""),
    )
