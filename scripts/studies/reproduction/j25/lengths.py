"""[J25] Figure 5: lengths of the conversations, of which only moments are at hand.

The conversations themselves are not freely available. What can be checked is that the synthetic
lengths of every other figure of Section 5.2 have the published moments; the shape of the paper's
histograms cannot, so that nothing is reproduced.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from instances.arrays import IntArray
from instances.generators.synthetic_traces import SERVED_OUTPUTS, SERVED_PROMPTS
from online.pictures import new_axes, style
from studies.reproduction.declaration import Outcome, Setting, register_reproduction
from studies.reproduction.lengths import drawn_lengths
from studies.reproduction.verdicts import MARGIN, Statement

from .serving import LONGEST, REQUESTS

QUICK_REQUESTS = 2000
BIN_WIDTH = 16
"""Tokens: 128 bins up to the longest."""
COLUMNS = ("kind", "from_tokens", "to_tokens", "conversations")


@dataclass(frozen=True)
class Moments:
    """Words or tokens."""

    mean: float
    median: float


PAPER = {
    "prompt": Moments(SERVED_PROMPTS.mean, SERVED_PROMPTS.median),
    "output": Moments(SERVED_OUTPUTS.mean, SERVED_OUTPUTS.median),
}


@register_reproduction(
    "j25-figure-5",
    "J25",
    "Figure 5",
    "10,000 conversations: prompts of mean 40.62 and median 11 words, outputs of mean 85.32 and "
    "median 45",
    lengths={"lmsys": REQUESTS},
    varies=("lengths",),
)
def conversations(setting: Setting) -> Outcome:
    """Synthetic lengths beside the published moments."""
    n = QUICK_REQUESTS if setting.quick else REQUESTS
    source = setting.conditions.conversations("conversations")
    lengths = drawn_lengths(source, np.random.default_rng(0), n, LONGEST)
    drawn = dict(zip(PAPER, lengths, strict=True))
    fitted = isinstance(source, str)
    found = {
        kind: Moments(float(lengths.mean()), float(np.median(lengths)))
        for kind, lengths in drawn.items()
    }
    checks = moment_checks(found, fitted=fitted)
    # Whole lengths fall into bins whose edges lie between them.
    edges = np.arange(0, LONGEST[0] + 1, BIN_WIDTH) + 0.5
    counts = {kind: np.histogram(lengths, edges)[0] for kind, lengths in drawn.items()}
    rows = [
        [kind, math.ceil(low), math.floor(high), int(count)]
        for kind, histogram in counts.items()
        for low, high, count in zip(edges[:-1], edges[1:], histogram, strict=True)
    ]
    return Outcome(
        COLUMNS,
        rows,
        _draw(drawn, found, edges),
        "; ".join(
            f"{kind}s of mean {one.mean:.2f}, median {one.median:g}" for kind, one in found.items()
        ),
        checks,
        (
            "Synthetic lengths: a lognormal law is fitted to each pair of moments, and the paper's "
            "histograms themselves cannot be checked. Prompts and outputs are drawn independently "
            f"and cut at {LONGEST[0]:,}"
            if fitted
            else f"Conversations of a reader's file, those above {LONGEST[0]:,} passed over"
        ),
    )


def moment_checks(found: dict[str, Moments], *, fitted: bool) -> list[Statement]:
    """Each of the four moments within `MARGIN` of the published one, which laws are fitted to."""
    checks = []
    for kind, published in PAPER.items():
        for name in ("mean", "median"):
            one, wanted = getattr(found[kind], name), getattr(published, name)
            excess = one / wanted - 1
            text = f"{kind} {name} within {MARGIN:.0%} ({excess:+.1%})"
            checks.append(Statement(text, abs(excess) <= MARGIN, by_construction=fitted))
    return checks


def _draw(drawn: dict[str, IntArray], found: dict[str, Moments], edges: Any) -> Any:
    axes = new_axes(6.4, 2.6, columns=2, sharey=True)
    for ax, (kind, lengths) in zip(axes, drawn.items(), strict=True):
        ax.hist(lengths, edges, color=style.LINE_COLOURS[0], log=True)
        for name, line in (("median", "--"), ("mean", "-")):
            one, published = getattr(found[kind], name), getattr(PAPER[kind], name)
            label = f"{name} {one:.4g} (paper: {published:g})"
            colour = style.LINE_COLOURS[1]
            ax.axvline(one, color=colour, linestyle=line, linewidth=1, label=label)
        ax.set_xlim(0, LONGEST[0])
        ax.xaxis.set_major_formatter("{x:,.0f}")
        y_label = "conversations (log scale)" if kind == "prompt" else ""
        style.dress(ax, f"{kind} lengths", "tokens", y_label)
        style.legend(ax, loc="upper right")
    return axes[0].figure
