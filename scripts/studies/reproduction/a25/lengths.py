"""[A25] Figures 9, 10 and 15: prompt and output lengths of the conversations.

The paper does not print the numbers behind its histograms. Its text has the shares of outputs by
bin. Even if each output is at the low end of its bin, these shares give a mean output of 110
tokens. [J25] and [W25] state 85.3 for the same data. So no lengths agree with all papers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from instances import generate
from instances.arrays import FloatArray, IntArray
from studies.reproduction.figure import Outcome, Setting, Statement, figure
from studies.reproduction.lengths import Given, conversations_of, drawn_lengths
from studies.reproduction.pictures import bars, histograms, lines

from .machine import CONVERSATION_SHARES

LONGEST_PROMPT, LONGEST_OUTPUT = 4095, 500
"""Tokens. A context has 4,096 tokens, and [A25] Section 6.2 has bins of outputs from 1 to 500."""
CONVERSATIONS = 50_000
"""Number of conversations in [A25] Section 6.2."""
BIN, BINS = 50, len(CONVERSATION_SHARES)
PAPER_MEAN_PROMPT = 60.0
"""Mean prompt in tokens, which is about the same in every bin ([A25] Section 6.2)."""
TOLERANCE = 0.2
"""Largest relative difference of a mean from a number that the paper calls approximate."""
ELSEWHERE = 0.1
"""Two histograms agree if at most this share of the mass is in other bins."""
LABELS = [f"{BIN * place + 1}-{BIN * (place + 1)}" for place in range(BINS)]


def conversations(count: int, seed: int, given: Given) -> tuple[IntArray, IntArray]:
    """Return prompts and outputs of ``count`` conversations with outputs of at most 500.

    Raises
    ------
    FileFormatError
        A user's file has fewer conversations.
    """
    source = conversations_of(given, "lmsys-like")
    if not isinstance(source, str):
        rng = np.random.default_rng([25, seed, 1])
        return drawn_lengths(source, rng, count, (LONGEST_PROMPT, LONGEST_OUTPUT))
    # About one in fifty outputs is longer than 500, so draw more conversations than needed.
    prompts, outputs = any_conversations(count + count // 10 + 50, seed, given)
    kept = np.flatnonzero(outputs <= LONGEST_OUTPUT)[:count]
    return prompts[kept], outputs[kept]


def any_conversations(count: int, seed: int, given: Given) -> tuple[IntArray, IntArray]:
    """Return prompts and outputs of ``count`` conversations of any length."""
    source = conversations_of(given, "lmsys-like")
    if source == "lmsys-like":
        drawn = generate("lmsys-like", seed=seed, n=count)
        return drawn.prompt_lengths, drawn.output_lengths
    rng = np.random.default_rng([25, seed, 1])
    return drawn_lengths(source, rng, count, (LONGEST_PROMPT, LONGEST_PROMPT))


def bin_shares(lengths: IntArray) -> FloatArray:
    """Return the shares of lengths in 1 .. 50, 51 .. 100, .., shape (BINS,)."""
    counts = np.bincount((lengths - 1) // BIN, minlength=BINS)[:BINS]
    return np.asarray(counts / len(lengths), dtype=np.float64)


def bin_means(values: IntArray, lengths: IntArray) -> FloatArray:
    """Return the mean of ``values`` in each bin of ``lengths``, shape (BINS,). NaN if empty."""
    places = (lengths - 1) // BIN
    totals = np.bincount(places, weights=values, minlength=BINS)[:BINS]
    counts = np.bincount(places, minlength=BINS)[:BINS]
    with np.errstate(invalid="ignore"):
        return np.asarray(totals / counts, dtype=np.float64)


def close(value: float) -> bool:
    """Return whether a mean prompt is within `TOLERANCE` of the paper's."""
    return abs(value / PAPER_MEAN_PROMPT - 1) <= TOLERANCE


def _size(setting: Setting) -> int:
    return 2_000 if setting.quick else CONVERSATIONS


def figure_9(setting: Setting) -> Outcome:
    """Measure histograms of the conversations."""
    prompts, outputs = any_conversations(_size(setting), 0, setting.given)
    rows: list[Sequence[Any]] = []
    panels, marks = {}, {}
    for name, lengths in (("prompt", prompts), ("output", outputs)):
        edges = np.arange(0, int(lengths.max()) + 10, 10) + 0.5
        counts, _ = np.histogram(lengths, edges)
        rows += [(name, int(edge + 0.5), int(n)) for edge, n in zip(edges, counts, strict=False)]
        panels[name] = (counts.tolist(), edges.tolist())
        mean, median = float(lengths.mean()), float(np.median(lengths))
        marks[name] = {f"mean {mean:.1f}": mean, f"median {median:.1f}": median}
    shares, mean = bin_shares(outputs), float(prompts.mean())
    checks = [
        Statement(
            f"shares of outputs fall from bin to bin (from {shares[0]:.1%} to {shares[-1]:.1%})",
            bool((np.diff(shares) <= 0).all()),
        ),
        Statement(f"mean prompt within {TOLERANCE:.0%} of 60 ({mean:.1f})", close(mean)),
    ]
    picture = histograms(panels, "tokens", "conversations", marks, log=True)
    return Outcome(("length_of", "first_token_of_bin", "conversations"), rows, picture, checks)


def figure_10(setting: Setting) -> Outcome:
    """Measure the mean prompt by bin of 50 output tokens."""
    prompts, outputs = conversations(_size(setting), 0, setting.given)
    means, squares = bin_means(prompts, outputs), bin_means(prompts**2, outputs)
    counts = np.bincount((outputs - 1) // BIN, minlength=BINS)[:BINS]
    errors = 1.96 * np.sqrt(np.maximum(squares - means**2, 0) / np.maximum(counts, 1))
    checks = [
        Statement(
            f"mean prompt within {TOLERANCE:.0%} of 60 for outputs of {label} ({mean:.1f})",
            close(float(mean)),
        )
        for mean, label in zip(means, LABELS, strict=True)
    ]
    rows = [
        (BIN * place + 1, BIN * (place + 1), int(counts[place]), mean, error)
        for place, (mean, error) in enumerate(zip(means, errors, strict=True))
    ]
    groups = {"here": means.tolist(), "the paper, about": [PAPER_MEAN_PROMPT] * BINS}
    columns = ("first_output_token", "last_output_token", "conversations")
    picture = bars(groups, LABELS, "mean prompt by output (tokens)")
    return Outcome((*columns, "mean_prompt", "half_interval"), rows, picture, checks)


def figure_15(setting: Setting) -> Outcome:
    """Measure, for each output length up to 500, the share of requests that have it."""
    _, outputs = conversations(_size(setting), 0, setting.given)
    ours = bin_shares(outputs)
    theirs = np.array(CONVERSATION_SHARES, dtype=np.float64) / sum(CONVERSATION_SHARES)
    # Half the sum of absolute differences is the share of the mass that is in other bins.
    distance = float(np.abs(ours - theirs).sum() / 2)
    per_length = np.bincount(outputs, minlength=LONGEST_OUTPUT + 1)[1:] / len(outputs)
    rows: list[Sequence[Any]] = [
        ("length", length, length, share, None) for length, share in enumerate(per_length, 1)
    ]
    rows += [
        ("bin", BIN * place + 1, BIN * (place + 1), ours[place], theirs[place])
        for place in range(BINS)
    ]
    text = f"at most {ELSEWHERE:.0%} of the mass in other bins ({distance:.1%})"
    curves = {
        name: {BIN * place: [100 * float(share)] for place, share in enumerate(shares, 1)}
        for name, shares in (("here", ours), ("the paper", theirs))
    }
    picture = lines(curves, "output tokens, up to", "share of arrivals (%)")
    columns = ("row", "first_token", "last_token", "share", "paper_share")
    return Outcome(columns, rows, picture, [Statement(text, distance <= ELSEWHERE)])


LMSYS = {"lmsys": CONVERSATIONS}
figure(
    "a25-figure-9",
    "the distributions of prompt and output lengths; in the text, outputs fall from each bin of 50 "
    "tokens to the next (23:11:8:7:6:4:3:2:1:1) and prompts have about 60 tokens",
    figure_9,
    LMSYS,
    ("lengths",),
)
figure(
    "a25-figure-10",
    "the mean prompt has about 60 tokens in each of ten bins of outputs",
    figure_10,
    LMSYS,
    ("lengths",),
)
figure(
    "a25-figure-15",
    "arrival rates of output lengths 1 to 500 follow the data; by bins of 50 in the ratio "
    "23:11:8:7:6:4:3:2:1:1",
    figure_15,
    LMSYS,
    ("lengths",),
)
