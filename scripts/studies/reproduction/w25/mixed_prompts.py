"""[W25] Figure EC.1: prompt lengths of the family ``mixed``.

Two statements, held against many draws put together: prompts of at most 25 tokens, half the
largest, are the majority; and in bins of five tokens there are exactly two peaks, the first the
higher. A second peak counts that rises above the valley before it by three standard errors: the
paper states no depth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from instances import generate
from online.pictures import style
from studies.reproduction.declaration import Outcome, Setting, register_reproduction
from studies.reproduction.verdicts import Statement

REQUESTS = 200
"""Of the mixed family in Table EC.1."""
LONGEST = 50
SHORT = 25
WIDTH = 5
DRAWS, QUICK_DRAWS = 1000, 100


def peaks_of(counts: Sequence[int]) -> list[int]:
    """Positions of bins above both neighbours; a plateau counts once, at its first bin."""
    padded = [-1, *counts, -1]
    found = []
    for place in range(1, len(padded) - 1):
        further = place
        while padded[further + 1] == padded[place]:
            further += 1
        if padded[place - 1] < padded[place] > padded[further + 1]:
            found.append(place - 1)
    return found


def bimodality(counts: Sequence[int]) -> Statement:
    """Two peaks, the first the higher, the second beyond chance."""
    peaks = peaks_of(counts)
    holds = False
    if len(peaks) == 2:
        first, second = (counts[place] for place in peaks)
        valley = min(counts[peaks[0] : peaks[1]])
        holds = first > second and second - valley > 3 * math.sqrt(second + valley)
    return Statement("two peaks, the first the higher", holds)


@register_reproduction(
    "w25-figure-ec1",
    "W25",
    "Figure EC.1",
    "prompts of the mixed family have two peaks: most are short, some long.",
)
def mixed_prompt_lengths(setting: Setting) -> Outcome:
    """Draws of 200 requests each."""
    draws = QUICK_DRAWS if setting.quick else DRAWS
    samples = [generate("mixed", seed=seed, n=REQUESTS).prompt_lengths for seed in range(draws)]
    edges = np.arange(1, LONGEST + WIDTH + 1, WIDTH)
    one = np.histogram(samples[0], bins=edges)[0]
    counts = np.histogram(np.concatenate(samples), bins=edges)[0]
    mean = counts / draws
    short = float(np.mean(np.concatenate(samples) <= SHORT))
    statements = [
        Statement(f"most prompts at most {SHORT} tokens", short > 0.5),
        bimodality(counts.tolist()),
    ]
    peaks = peaks_of(counts.tolist())
    places = ", ".join(f"{edges[place]} to {edges[place + 1] - 1}" for place in peaks)
    last = mean[peaks[0] : peaks[-1] + 1]
    ax = style.new_axes(4.6, 2.8)
    ax.bar(
        edges[:-1] + (WIDTH - 1) / 2,
        one,
        WIDTH,
        color=style.LINE_COLOURS[5],
        edgecolor="white",
        linewidth=0.6,
        label=f"one draw of {REQUESTS}",
    )
    ax.stairs(
        mean,
        edges - 0.5,
        color=style.LINE_COLOURS[1],
        linewidth=1.3,
        label=f"mean of {draws:,} draws",
    )
    ax.set_xlim(0.5, LONGEST + 0.5)
    style.dress(ax, "prompts of the mixed family", "tokens", f"requests of {REQUESTS}")
    style.legend(ax, loc="upper right")
    return Outcome(
        columns=("from", "to", "one_draw", "mean"),
        rows=[
            [int(left), int(left) + WIDTH - 1, int(a), float(b)]
            for left, a, b in zip(edges[:-1], one, mean, strict=True)
        ],
        figure=ax.figure,
        measured=f"{short:.1%} of the prompts have at most {SHORT} tokens; peaks at {places} "
        f"tokens, {mean[peaks[0]]:.1f} and {mean[peaks[-1]]:.1f} of {REQUESTS} requests, with "
        f"{last.min():.1f} in the valley.",
        statements=statements,
        remark=f"{draws:,} draws put together; real numbers are rounded and each prompt is long by "
        "itself with probability 0.2, which the paper leaves open.",
    )
