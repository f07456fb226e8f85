"""[W25] Figures 5, 6, 7 and EC.1: lengths of conversations, summaries and mixtures.

The same number of requests as in the paper is drawn many times, and a statistic is computed of each
draw. A published number agrees if it is in the central 99 % of these values. The means of Figure 7,
542.75 and 127.50, are four to one mixtures of those of Figures 5 and 6 to the last digit. So
Figures 5 and 6 describe the same 1,600 conversations and 400 summaries that are in the mixture.

Two statements about Figure EC.1 are tested on many draws together. Over half of the prompts have at
most 25 tokens. In bins of five tokens there are exactly two peaks, and the first is the higher one.
The second peak must be above the valley before it by three standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from instances import generate
from instances.arrays import IntArray
from instances.generators.length_laws import draw_order
from instances.generators.synthetic_traces import SUMMARY_OUTPUTS, SUMMARY_PROMPTS
from studies.reproduction.figure import Outcome, Setting, Statement, figure
from studies.reproduction.lengths import Given, conversations_of, drawn_lengths
from studies.reproduction.pictures import histograms

LONGEST = (SUMMARY_PROMPTS.maximum, SUMMARY_OUTPUTS.maximum)
"""Longest prompt and output taken from a user's file. A context has one token more."""
SHORT, LONG = 1600, 400
"""Numbers of conversations and of summaries in the paper."""
BINS, SHOWN = 40, 0.99
"""Number of bins of a histogram, and share of lengths that it shows. A few are much longer."""

Lengths = tuple[IntArray, IntArray]
Key = tuple[str, str]
PUBLISHED: Mapping[str, Mapping[Key, float]] = {
    "conversations": {
        ("prompt", "mean"): 41.84,
        ("prompt", "median"): 12.0,
        ("output", "mean"): 85.35,
        ("output", "median"): 43.0,
    },
    "summaries": {
        ("prompt", "mean"): 2546.39,
        ("prompt", "median"): 2667.5,
        ("output", "mean"): 296.08,
        ("output", "median"): 161.0,
    },
    "mixture": {
        ("prompt", "mean"): 542.75,
        ("prompt", "median"): 18.0,
        ("output", "mean"): 127.50,
    },
}
"""Numbers of [W25] Section 7. It does not print the median of the mixture's outputs."""

FAMILY_REQUESTS, FAMILY_LONGEST, FAMILY_SHORT, WIDTH = 200, 50, 25, 5
"""Family ``mixed`` of Table EC.1: requests, longest and longest short prompt, width of a bin."""


def conversations(rng: np.random.Generator, given: Given, count: int = SHORT) -> Lengths:
    """Draw conversations from a user's file, or from laws with the published means and medians."""
    return drawn_lengths(conversations_of(given, "lmsys-like"), rng, count, LONGEST)


def summaries(rng: np.random.Generator, given: Given, count: int = LONG) -> Lengths:
    """Draw summaries from a user's file without repetition, or from laws with published moments."""
    return drawn_lengths(given.get("arxiv", "summaries"), rng, count, LONGEST)


def mixture(rng: np.random.Generator, given: Given, count: int = SHORT + LONG) -> Lengths:
    """Draw a mixture in random order, with four conversations for each summary."""
    long = count // 5
    short, others = conversations(rng, given, count - long), summaries(rng, given, long)
    order = draw_order(rng, count)
    prompts, outputs = (np.concatenate(sides)[order] for sides in zip(short, others, strict=True))
    return prompts, outputs


DRAW = {"conversations": conversations, "summaries": summaries, "mixture": mixture}


def central_range(values: Sequence[float], share: float = 0.99) -> tuple[float, float]:
    """Return the smallest and largest value after equal numbers of values are cut at both ends.

    With 1,000 values and the share 0.99, five values are cut at each end.
    """
    ordered = sorted(values)
    cut = math.floor(len(ordered) * (1 - share) / 2 + 1e-9)
    return ordered[cut], ordered[len(ordered) - 1 - cut]


def edges_of(values: IntArray) -> IntArray:
    """Return whole numbers as edges of bins that hold at least the share `SHOWN` of the lengths."""
    top = float(np.quantile(values, SHOWN))
    width = max(1, int(np.ceil(top / BINS)))
    return np.arange(1, top + width + 1, width, dtype=np.int64)


def fitted(kind: str, given: Given) -> Collection[Key]:
    """Return the keys of the published numbers to which the laws were fitted."""
    if ("arxiv" if kind == "summaries" else "lmsys") in given:
        return ()
    return [key for key in PUBLISHED[kind] if kind != "mixture" or key[1] == "mean"]


def lengths(setting: Setting, kind: str) -> Outcome:
    """Measure statistics of lengths over many draws, and draw histograms of the first draw."""
    draws = 50 if setting.quick else 1000
    samples = [DRAW[kind](np.random.default_rng(seed), setting.given) for seed in range(draws)]
    rows: list[list[Any]] = []
    checks, panels = [], {}
    marks: dict[str, dict[str, float]] = {"prompt": {}, "output": {}}
    for place, side in enumerate(("prompt", "output")):
        for name, function in (("mean", np.mean), ("median", np.median)):
            values = [float(function(sample[place])) for sample in samples]
            (low, high), average = central_range(values), float(np.mean(values))
            paper = PUBLISHED[kind].get((side, name))
            rows.append([side, name, average, low, high, paper])
            marks[side][f"{name} {average:,.2f}"] = average
            if paper is not None:
                marks[side][f"the paper's {name} {paper:,.2f}"] = paper
                text = f"{side} {name} in the central 99 % ({low:.2f} to {high:.2f}; {paper:.2f})"
                own = (side, name) in fitted(kind, setting.given)
                checks.append(Statement(text, low <= paper <= high, by_construction=own))
    for side, sample in zip(("prompt", "output"), samples[0], strict=True):
        counts, edges = np.histogram(sample, bins=edges_of(sample))
        panels[side] = (counts.tolist(), edges.tolist())
        rows += [
            [side, f"{left:.0f} to {right - 1:.0f} tokens", int(count), None, None, None]
            for count, left, right in zip(counts, edges[:-1], edges[1:], strict=True)
        ]
    columns = ("length", "statistic", "value", "low", "high", "paper")
    return Outcome(columns, rows, histograms(panels, "tokens", "requests", marks), checks)


def peaks_of(counts: Sequence[int]) -> list[int]:
    """Return the positions of bins that are above both neighbours.

    A plateau counts once, at its first bin.
    """
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
    """Check that there are exactly two peaks, the first the higher, the second beyond chance."""
    peaks, holds = peaks_of(counts), False
    if len(peaks) == 2:
        first, second = (counts[place] for place in peaks)
        valley = min(counts[peaks[0] : peaks[1]])
        holds = first > second and second - valley > 3 * math.sqrt(second + valley)
    return Statement("two peaks, the first the higher", holds)


def mixed_prompts(setting: Setting) -> Outcome:
    """Measure the prompts of the mixed family over draws of 200 requests each."""
    seeds = range(100 if setting.quick else 1000)
    samples = [generate("mixed", seed=s, n=FAMILY_REQUESTS).prompt_lengths for s in seeds]
    edges = np.arange(1, FAMILY_LONGEST + WIDTH + 1, WIDTH)
    one = np.histogram(samples[0], bins=edges)[0]
    counts = np.histogram(np.concatenate(samples), bins=edges)[0]
    short = float(np.mean(np.concatenate(samples) <= FAMILY_SHORT))
    rows = [
        [int(left), int(left) + WIDTH - 1, int(own), float(total / len(seeds))]
        for left, own, total in zip(edges[:-1], one, counts, strict=True)
    ]
    text = f"over half of the prompts have at most {FAMILY_SHORT} tokens ({short:.1%})"
    checks = [Statement(text, short > 0.5), bimodality(counts.tolist())]
    panels = {"prompts of the mixed family": (counts.tolist(), edges.tolist())}
    picture = histograms(panels, "tokens", f"requests of {len(seeds)} draws")
    return Outcome(("from", "to", "one_draw", "mean"), rows, picture, checks)


figure(
    "w25-figure-5",
    "conversations have prompts of mean 41.84 and median 12 tokens, outputs of mean 85.35 and "
    "median 43.",
    partial(lengths, kind="conversations"),
    {"lmsys": SHORT},
    ("lengths",),
)
figure(
    "w25-figure-6",
    "summaries have prompts of mean 2546.39 and median 2667.5 tokens, outputs of mean 296.08 and "
    "median 161.",
    partial(lengths, kind="summaries"),
    {"arxiv": LONG},
)
figure(
    "w25-figure-7",
    "1,600 conversations with 400 summaries have prompts of mean 542.75 and median 18 tokens, "
    "outputs of mean 127.5.",
    partial(lengths, kind="mixture"),
    {"lmsys": SHORT, "arxiv": LONG},
    ("lengths",),
)
figure(
    "w25-figure-ec1",
    "prompts of the mixed family have two peaks: most are short, some long.",
    mixed_prompts,
)
