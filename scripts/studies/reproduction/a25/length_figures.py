"""[A25] Figures 9, 10 and 15: lengths of the conversations, and what the synthetic ones give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from instances.arrays import FloatArray, IntArray
from instances.generators.synthetic_traces import CONVERSATION_OUTPUTS, CONVERSATION_PROMPTS
from online.pictures import new_axes, style
from studies.reproduction.declaration import Cause, Outcome, Setting, register_reproduction
from studies.reproduction.verdicts import Statement

from .serving import CONVERSATION_SHARES, LONGEST_OUTPUT, any_conversations, conversations

CONVERSATIONS = 50_000
"""[A25] Section 6.2."""

BIN = 50
PAPER_MEAN_PROMPT = 60.0
"""Tokens: about that in every bin ([A25] Section 6.2)."""

TOLERANCE = 0.2
"""Relative difference at which a mean still agrees with one that is given as "approximately"."""

ELSEWHERE = 0.1
"""Share of the mass in other bins up to which two histograms agree."""

SYNTHETIC = (
    "synthetic lengths: laws with the mean and median of [W25], prompts "
    f"{CONVERSATION_PROMPTS.mean:g} and {CONVERSATION_PROMPTS.median:g}, outputs "
    f"{CONVERSATION_OUTPUTS.mean:g} and {CONVERSATION_OUTPUTS.median:g}, drawn independently"
)


def paper_shares() -> FloatArray:
    """Shares of outputs by bins of 50 tokens, shape (10,)."""
    shares: FloatArray = np.array(CONVERSATION_SHARES, dtype=np.float64)
    shares /= shares.sum()
    return shares


def least_mean_output() -> float:
    """Mean output of the printed shares where every output is the shortest of its bin."""
    return float(paper_shares() @ (BIN * np.arange(len(CONVERSATION_SHARES)) + 1))


def bin_shares(lengths: IntArray, bins: int) -> FloatArray:
    """Share of the lengths 1 .. 50, 51 .. 100, .., shape (bins,), of all lengths."""
    counts = np.bincount((lengths - 1) // BIN, minlength=bins)[:bins]
    return np.asarray(counts / len(lengths), dtype=np.float64)


def bin_means(values: IntArray, lengths: IntArray, bins: int) -> FloatArray:
    """Mean of the values by bins of the lengths, shape (bins,); NaN for an empty bin."""
    places = (lengths - 1) // BIN
    totals = np.bincount(places, weights=values, minlength=bins)[:bins]
    counts = np.bincount(places, minlength=bins)[:bins]
    with np.errstate(invalid="ignore"):
        return np.asarray(totals / counts, dtype=np.float64)


def total_variation(first: FloatArray, second: FloatArray) -> float:
    """Half the sum of absolute differences: the share of mass that lies elsewhere."""
    return float(np.abs(first - second).sum() / 2)


def close(value: float, target: float) -> bool:
    """Tell whether a mean is within `TOLERANCE` of an approximate one."""
    return abs(value / target - 1) <= TOLERANCE


def _size(setting: Setting) -> int:
    return 2_000 if setting.quick else CONVERSATIONS


def _bin_labels(bins: int) -> list[str]:
    return [f"{BIN * place + 1}-{BIN * (place + 1)}" for place in range(bins)]


def _tick_bins(ax: Any, bins: int) -> None:
    ax.set_xticks(range(bins), _bin_labels(bins), rotation=40, ha="right", rotation_mode="anchor")


@register_reproduction(
    "a25-figure-9",
    "A25",
    "Figure 9",
    "the distributions of prompt and output lengths; in the text, outputs fall from each bin of 50 "
    "tokens to the next (23:11:8:7:6:4:3:2:1:1) and prompts have about 60 tokens",
    lengths={"lmsys": CONVERSATIONS},
    varies=("lengths",),
)
def figure_9(setting: Setting) -> Outcome:
    """Histograms of 50,000 synthetic conversations."""
    prompts, outputs = any_conversations(_size(setting), 0, setting.conditions)
    bins = len(CONVERSATION_SHARES)
    shares = bin_shares(outputs, bins)
    falls = bool((np.diff(shares) <= 0).all())
    mean = float(prompts.mean())
    left, right = axes = new_axes(7.6, 2.9, 1, 2)
    rows: list[tuple[str, int, int]] = []
    for ax, name, lengths, colour in zip(
        axes, ("prompt", "output"), (prompts, outputs), style.LINE_COLOURS, strict=False
    ):
        edges = np.arange(0, int(lengths.max()) + 10, 10) + 0.5
        counts, _ = np.histogram(lengths, edges)
        rows.extend((name, int(edge + 0.5), int(n)) for edge, n in zip(edges, counts, strict=False))
        ax.stairs(counts, edges, fill=True, color=colour)
        ax.set_yscale("log")
        for value, word, line in (
            (float(lengths.mean()), "mean", "-"),
            (float(np.median(lengths)), "median", ":"),
        ):
            label = f"{word} {value:.1f}"
            ax.axvline(value, color=style.INK, linewidth=0.9, linestyle=line, label=label)
        ax.set_xlim(left=0)
        style.dress(ax, f"{name}s", "tokens", "conversations in 10 tokens")
        style.legend(ax, loc="upper right")
    right.set_ylabel("")
    return Outcome(
        ("length_of", "first_token_of_bin", "conversations"),
        rows,
        left.figure,
        f"{len(outputs):,} conversations: mean prompt {mean:.1f} tokens (median "
        f"{np.median(prompts):g}), mean output {outputs.mean():.1f} (median "
        f"{np.median(outputs):g}); shares of outputs in bins of 50 "
        f"{'fall throughout' if falls else 'do not always fall'}, from {shares[0]:.1%} to "
        f"{shares[-1]:.1%}.",
        [
            Statement("shares of outputs fall from bin to bin", falls),
            Statement(f"mean prompt within {TOLERANCE:.0%} of 60", close(mean, PAPER_MEAN_PROMPT)),
        ],
        f"{setting.conditions.conversations_told(SYNTHETIC)}. The histograms themselves are no "
        "part of the text, so nothing else is compared.",
    )


@register_reproduction(
    "a25-figure-10",
    "A25",
    "Figure 10",
    "the mean prompt has about 60 tokens in each of ten bins of outputs",
    lengths={"lmsys": CONVERSATIONS},
    varies=("lengths",),
    cause=Cause(
        ("lengths",),
        "Prompts are drawn with the mean that [J25] and [W25] publish for the same data set, a "
        "third below the one said here, and independently of outputs. With lengths of [C25]'s "
        "moments, {lengths=three-moments} hold: the conversations are others, or counted "
        "otherwise.",
    ),
)
def figure_10(setting: Setting) -> Outcome:
    """Mean prompt by bin of 50 output tokens."""
    prompts, outputs = conversations(_size(setting), 0, setting.conditions)
    bins = len(CONVERSATION_SHARES)
    means = bin_means(prompts, outputs, bins)
    squares = bin_means(prompts**2, outputs, bins)
    counts = np.bincount((outputs - 1) // BIN, minlength=bins)[:bins]
    errors = 1.96 * np.sqrt(np.maximum(squares - means**2, 0) / np.maximum(counts, 1))
    statements = [
        Statement(
            f"mean prompt within {TOLERANCE:.0%} of 60 for outputs of {label}",
            close(float(mean), PAPER_MEAN_PROMPT),
        )
        for mean, label in zip(means, _bin_labels(bins), strict=True)
    ]
    good = sum(each.holds for each in statements)
    ax = new_axes(5.2, 3.0)
    ax.bar(
        range(bins),
        means,
        0.72,
        yerr=errors,
        color=style.LINE_COLOURS[0],
        ecolor=style.INK,
        error_kw={"linewidth": 0.8, "capsize": 2.5},
    )
    ax.axhline(
        PAPER_MEAN_PROMPT,
        color=style.LIMIT,
        linewidth=1.0,
        linestyle="--",
        label="about 60 in the paper",
    )
    ax.set_ylim(0, 1.1 * max(PAPER_MEAN_PROMPT, float(np.nanmax(means + errors))))
    _tick_bins(ax, bins)
    style.dress(ax, "", "output tokens", "mean prompt (tokens)")
    style.legend(ax)
    return Outcome(
        (
            "first_output_token",
            "last_output_token",
            "conversations",
            "mean_prompt",
            "half_interval",
        ),
        [
            (BIN * place + 1, BIN * (place + 1), int(counts[place]), mean, error)
            for place, (mean, error) in enumerate(zip(means, errors, strict=True))
        ],
        ax.figure,
        f"mean prompts of {np.nanmin(means):.1f} to {np.nanmax(means):.1f} tokens; {good} of "
        f"{bins} within {TOLERANCE:.0%} of 60.",
        statements,
        f"{setting.conditions.conversations_told(SYNTHETIC)}, so that the level is theirs and, "
        "where they are drawn, bins differ by chance only. [J25] and [W25] give 41 to 42 for the "
        "same data; a count of words against one of tokens could be the difference.",
    )


@register_reproduction(
    "a25-figure-15",
    "A25",
    "Figure 15",
    "arrival rates of output lengths 1 to 500 follow the data; by bins of 50 in the ratio "
    "23:11:8:7:6:4:3:2:1:1",
    lengths={"lmsys": CONVERSATIONS},
    varies=("lengths",),
    cause=Cause(
        ("the claim itself", "lengths"),
        "The printed shares need longer outputs on average than the other papers find in the same "
        "data set, so that no lengths agree with all of them; with those of [C25]'s moments, "
        "{lengths=three-moments} hold.",
    ),
)
def figure_15(setting: Setting) -> Outcome:
    """Shares of output lengths up to 500."""
    _, outputs = conversations(_size(setting), 0, setting.conditions)
    bins = len(CONVERSATION_SHARES)
    ours, theirs = bin_shares(outputs, bins), paper_shares()
    distance = total_variation(ours, theirs)
    per_length = np.bincount(outputs, minlength=LONGEST_OUTPUT + 1)[1:] / len(outputs)
    left, right = new_axes(7.6, 3.0, 1, 2)
    lengths = np.arange(1, LONGEST_OUTPUT + 1)
    left.plot(lengths, 100 * per_length, color=style.LINE_COLOURS[0], linewidth=0.8)
    left.set_ylim(bottom=0)
    left.set_xlim(0, LONGEST_OUTPUT)
    style.dress(left, "by length", "output tokens", "share of arrivals (%)")
    places = np.arange(bins)
    right.bar(places - 0.2, 100 * theirs, 0.38, color=style.LINE_COLOURS[1], label="paper")
    right.bar(places + 0.2, 100 * ours, 0.38, color=style.LINE_COLOURS[0], label="here")
    _tick_bins(right, bins)
    style.dress(right, "by bin", "output tokens", "")
    style.legend(right, loc="upper right")
    rows: list[Sequence[Any]] = [
        ("length", int(length), int(length), share, None)
        for length, share in zip(lengths, per_length, strict=True)
    ]
    rows += [
        ("bin", BIN * place + 1, BIN * (place + 1), ours[place], theirs[place])
        for place in range(bins)
    ]
    return Outcome(
        ("row", "first_token", "last_token", "share", "paper_share"),
        rows,
        left.figure,
        f"{ours[0]:.1%} of outputs have at most 50 tokens ({theirs[0]:.1%} in the paper), "
        f"{ours[-1]:.1%} more than 450 ({theirs[-1]:.1%}); {distance:.1%} of the mass lies in "
        f"other bins.",
        [
            Statement(
                f"at most {ELSEWHERE:.0%} of the mass in other bins ({distance:.1%})",
                distance <= ELSEWHERE,
            )
        ],
        f"{setting.conditions.conversations_told(SYNTHETIC)}. The "
        f"printed shares need a mean output of {least_mean_output():.1f} tokens at least, each at "
        f"the low end of its bin, while [J25] and [W25] give 85.3 for the same data: no lengths "
        f"agree with both.",
    )
