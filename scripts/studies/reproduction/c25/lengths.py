"""[C25] Figure 4: lengths of 2,000 conversations, and the two laws that stand in for them.

The conversations are not part of this package, and a reader's file takes the place of the first
law, which is the one of the generator
``lmsys-like``: rounded lognormal, cut at the largest length published, with the mean and median
that [W25] states for the same data set. The second meets variance, mean and median of [C25]'s own
sample: a rounded generalised gamma law, cut at the same lengths. It is there to tell what of a
result hangs on the tail. Prompt and output are drawn independently of each other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from instances.arrays import IntArray
from online.pictures import new_axes
from online.pictures.style import INK, LINE_COLOURS, QUIET, dress, legend
from studies.reproduction.declaration import Cause, Outcome, Setting, register_reproduction
from studies.reproduction.lengths import (
    SAMPLED_OUTPUTS,
    SAMPLED_PROMPTS,
    MomentsOfSample,
    Source,
    drawn_lengths,
    three_moment_law,
)
from studies.reproduction.verdicts import Statement

CONVERSATIONS = 2000
"""Sampled in [C25] Section 6."""

WITHIN = 0.10
"""Relative departure from a published figure that counts as the same."""

SAMPLES = 20
QUICK_SAMPLES = 3


LONGEST = (4095, 1000)
"""Prompts and outputs that a reader's file may have: predictions go up to 1,000 tokens."""


@cache
def conversations(source: Source, seed: int) -> tuple[IntArray, IntArray]:
    """Prompts and outputs of a sample, shape (CONVERSATIONS,) each."""
    return drawn_lengths(source, np.random.default_rng([seed, 4]), CONVERSATIONS, LONGEST)


def described(lengths: IntArray) -> MomentsOfSample:
    """The five figures of a sample; the variance is the sample's."""
    return MomentsOfSample(
        int(lengths.min()),
        int(lengths.max()),
        float(lengths.mean()),
        float(np.median(lengths)),
        float(lengths.var(ddof=1)),
    )


def departures(found: Sequence[MomentsOfSample], published: MomentsOfSample) -> dict[str, float]:
    """Mean over the samples, relative to the published figure, less 1."""
    return {
        name: float(np.mean([one.figures[name] for one in found])) / value - 1
        for name, value in published.figures.items()
    }


def statements(
    prompts: Mapping[str, float], outputs: Mapping[str, float], fitted: Collection[str]
) -> list[Statement]:
    """Each of the ten figures within 10 %.

    Parameters
    ----------
    prompts, outputs : Mapping[str, float]
        `departures` of each.
    fitted : Collection[str]
        The figures that were put into the law that the lengths are drawn from.
    """
    return [
        Statement(
            f"{figure} of {side} within {WITHIN:.0%} ({departure:+.0%})",
            abs(departure) <= WITHIN,
            by_construction=figure in fitted,
        )
        for side, departed in (("prompts", prompts), ("outputs", outputs))
        for figure, departure in departed.items()
    ]


@register_reproduction(
    "c25-figure-4",
    "C25",
    "Figure 4",
    "2,000 conversations: prompts 1 to 468, mean 41, median 11, variance 4961; outputs 1 to 883, "
    "mean 85, median 43, variance 9702",
    lengths={"lmsys": CONVERSATIONS},
    varies=("lengths",),
    cause=Cause(
        ("lengths",),
        "The lognormal law that meets mean and median has longer tails than the paper's sample. A "
        "law of three moments meets the variance too, but by construction "
        "({lengths=three-moments}): only the conversations themselves can tell.",
    ),
)
def figure_4(setting: Setting) -> Outcome:
    """The synthetic stand-in beside the published figures."""
    seeds = range(QUICK_SAMPLES if setting.quick else SAMPLES)
    rows: list[list[Any]] = []
    usual = setting.conditions.conversations("lmsys-like")
    fitted = set(SAMPLED_PROMPTS.figures) if isinstance(usual, str) else set()
    if usual != "three-moments":
        fitted -= {"variance"}
    sides: list[tuple[dict[str, float], dict[str, float]]] = []
    sources: tuple[tuple[str, Source], ...] = (
        (usual if isinstance(usual, str) else "file", usual),
        ("three-moments", "three-moments"),
    )
    for name, source in sources:
        samples = [conversations(source, seed) for seed in seeds]
        found = [[described(sample[side]) for sample in samples] for side in (0, 1)]
        sides.append((departures(found[0], SAMPLED_PROMPTS), departures(found[1], SAMPLED_OUTPUTS)))
        for what, published, each in zip(
            ("prompt", "output"), (SAMPLED_PROMPTS, SAMPLED_OUTPUTS), found, strict=True
        ):
            for figure, value in published.figures.items():
                values = [one.figures[figure] for one in each]
                rows.append([name, what, figure, value, float(np.mean(values))])
    texts = [
        _sentence(what, published, departed)
        for what, published, departed in zip(
            ("prompts", "outputs"), (SAMPLED_PROMPTS, SAMPLED_OUTPUTS), sides[0], strict=True
        )
    ]
    kind = setting.conditions.conversations_told("synthetic lengths")
    measured = f"{kind}, means of {len(seeds)} samples: {'; '.join(texts)}"
    remark = (
        "range, mean and median are put into the law (from [W25]: 41.84 and 12, 85.35 and 43), "
        "only the variance tests it"
        if fitted
        else f"prompts above {LONGEST[0]:,} and outputs above {LONGEST[1]:,} are passed over"
    )
    second = "a second law, made to meet the variances too, is drawn beside them"
    return Outcome(
        ["law", "what", "figure", "published", "mean_of_samples"],
        rows,
        _draw(conversations(usual, 0), kind),
        measured,
        statements(*sides[0], fitted),
        f"{remark}; {second} and used to check Figures 5 to 7",
    )


def _sentence(what: str, published: MomentsOfSample, departed: Mapping[str, float]) -> str:
    found = {name: value * (1 + departed[name]) for name, value in published.figures.items()}
    return (
        f"{what} {found['smallest']:.0f} to {found['largest']:.0f}, mean {found['mean']:.1f}, "
        f"median {found['median']:.1f}, variance {found['variance']:.0f} "
        f"({100 * departed['variance']:+.0f} %)"
    )


def _draw(sample: tuple[IntArray, IntArray], kind: str) -> Any:
    axes = new_axes(6.8, 3.0, columns=2)
    for ax, lengths, published, what in zip(
        axes, sample, (SAMPLED_PROMPTS, SAMPLED_OUTPUTS), ("prompt", "output"), strict=True
    ):
        edges = np.arange(0, 20 * -(-published.largest // 20) + 1, 20) + 0.5
        ax.hist(
            lengths,
            edges,
            color=LINE_COLOURS[5],
            edgecolor="white",
            linewidth=0.3,
            label=f"2,000 {kind}",
        )
        law = three_moment_law(published)
        padded = np.pad(law, (0, len(edges) * 20 - len(law)))
        expected = [CONVERSATIONS * padded[at : at + 20].sum() for at in range(0, len(padded), 20)]
        ax.stairs(
            expected[: len(edges) - 1],
            edges,
            color=LINE_COLOURS[1],
            linewidth=1,
            label="law with the published variance",
        )
        ax.axvline(published.median, color=INK, linestyle="--", linewidth=0.9)
        ax.axvline(published.mean, color=QUIET, linestyle="-", linewidth=0.9)
        ax.set_yscale("symlog", linthresh=10)
        ax.set_ylim(0, 2 * CONVERSATIONS)
        ax.plot(
            [], [], "--", color=INK, linewidth=0.9, label=f"published median {published.median}"
        )
        ax.plot([], [], "-", color=QUIET, linewidth=0.9, label=f"published mean {published.mean}")
        dress(ax, "", f"{what} length (tokens)", "conversations in 20 tokens")
        legend(ax, loc="upper right")
    return axes[0].figure
