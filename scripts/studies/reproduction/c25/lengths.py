"""[C25] Figure 4: lengths of 2,000 conversations, and two laws that imitate them.

The first law is the generator ``lmsys-like``. It is a rounded lognormal law with the mean and
median that [W25] states for the same data set. The second law has the variance, mean and median of
the sample in [C25]. Results that differ between the laws depend on the tail. In both laws prompts
and outputs are independent.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from instances.arrays import IntArray
from studies.reproduction.figure import Outcome, Setting, Statement, figure
from studies.reproduction.lengths import (
    SAMPLED_OUTPUTS,
    SAMPLED_PROMPTS,
    Source,
    conversations_of,
    drawn_lengths,
)
from studies.reproduction.pictures import histograms

CONVERSATIONS = 2000
"""Number of conversations in the sample of [C25] Section 6."""
WITHIN = 0.10
"""A number agrees with the published one if the relative difference is at most this."""
LONGEST = (4095, 1000)
"""Longest prompt and output taken from a user's file: predictions go up to 1,000 tokens."""
SIDES = {"prompt": SAMPLED_PROMPTS, "output": SAMPLED_OUTPUTS}


@cache
def conversations(source: Source, seed: int) -> tuple[IntArray, IntArray]:
    """Return prompts and outputs of a sample, shape (CONVERSATIONS,) each."""
    return drawn_lengths(source, np.random.default_rng([seed, 4]), CONVERSATIONS, LONGEST)


def moments(lengths: IntArray) -> dict[str, float]:
    """Return the five statistics of a sample that are published, such as mean and variance."""
    return {
        "smallest": float(lengths.min()),
        "largest": float(lengths.max()),
        "mean": float(lengths.mean()),
        "median": float(np.median(lengths)),
        "variance": float(lengths.var(ddof=1)),
    }


def figure_4(setting: Setting) -> Outcome:
    """Compare samples of the laws with the published numbers."""
    seeds = range(3 if setting.quick else 20)
    usual = conversations_of(setting.given, "lmsys-like")
    # Whether the law was fitted to some of the published numbers.
    fitted = isinstance(usual, str)
    rows: list[list[Any]] = []
    checks = []
    panels, marks = {}, {}
    for place, source in enumerate((usual, "three-moments")):
        samples = [conversations(source, seed) for seed in seeds]
        for side, (what, published) in enumerate(SIDES.items()):
            found = [moments(sample[side]) for sample in samples]
            for name in found[0]:
                value, paper = (
                    float(np.mean([one[name] for one in found])),
                    getattr(published, name),
                )
                label = source if isinstance(source, str) else "file"
                rows.append([label, what, name, paper, value])
                if place == 0:
                    own = fitted and (name != "variance" or usual == "three-moments")
                    text = f"{name} of {what}s within {WITHIN:.0%} ({value / paper - 1:+.0%})"
                    near = abs(value / paper - 1) <= WITHIN
                    checks.append(Statement(text, near, by_construction=own))
            if place == 0:
                edges = np.arange(0, 20 * -(-published.largest // 20) + 1, 20) + 0.5
                counts = np.histogram(samples[0][side], edges)[0]
                panels[f"{what} length"] = (counts.tolist(), edges.tolist())
                marks[f"{what} length"] = {
                    f"published {name} {getattr(published, name)}": getattr(published, name)
                    for name in ("median", "mean")
                }
    picture = histograms(panels, "tokens", "conversations", marks, log=True)
    return Outcome(("law", "what", "figure", "published", "mean_of_samples"), rows, picture, checks)


figure(
    "c25-figure-4",
    "2,000 conversations: prompts 1 to 468, mean 41, median 11, variance 4961; outputs 1 to 883, "
    "mean 85, median 43, variance 9702",
    figure_4,
    {"lmsys": CONVERSATIONS},
    ("lengths",),
)
