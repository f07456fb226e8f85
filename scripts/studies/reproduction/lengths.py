"""Sources of request lengths: laws with published moments, or a reader's own file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import numpy as np

from instances import FileFormatError
from instances.arrays import IntArray
from instances.generators.length_laws import Law, draw_lengths, draw_order, moments
from instances.generators.synthetic_traces import (
    CONVERSATION_OUTPUTS,
    CONVERSATION_PROMPTS,
    SERVED_OUTPUTS,
    SERVED_PROMPTS,
    SUMMARY_OUTPUTS,
    SUMMARY_PROMPTS,
)

from .length_file import LengthFile


@dataclass(frozen=True)
class MomentsOfSample:
    """Moments that [C25] Section 6 states of its sample, in tokens.

    Attributes
    ----------
    variance : float
        Tokens squared.
    """

    smallest: int
    largest: int
    mean: float
    median: float
    variance: float

    @property
    def figures(self) -> Mapping[str, float]:
        """Return all five by name."""
        return {
            "smallest": self.smallest,
            "largest": self.largest,
            "mean": self.mean,
            "median": self.median,
            "variance": self.variance,
        }


SAMPLED_PROMPTS = MomentsOfSample(1, 468, 41, 11, 4961)
SAMPLED_OUTPUTS = MomentsOfSample(1, 883, 85, 43, 9702)


@cache
def three_moment_law(published: MomentsOfSample) -> Law:
    """A rounded generalised gamma law cut at the largest length, shape (largest,).

    Its scale is set by the median, its two shapes by mean and variance after rounding and cutting.
    """
    from scipy.optimize import root
    from scipy.stats import gengamma

    edges = np.arange(1, published.largest) + 0.5

    def law(logarithms: Sequence[float]) -> Law:
        shapes = gengamma(*np.exp(logarithms))
        scaled = edges / published.median * shapes.median()
        return np.diff(np.concatenate([[0.0], shapes.cdf(scaled), [1.0]]))

    def departure(logarithms: Sequence[float]) -> list[float]:
        mean, variance = moments(law(logarithms))
        return [mean / published.mean - 1, np.sqrt(variance / published.variance) - 1]

    found = root(departure, (0.5, -0.5), tol=1e-12)
    if not found.success or max(map(abs, departure(found.x))) > 1e-6:
        raise ArithmeticError(f"no generalised gamma law has the moments of {published}")
    return law(found.x)


LawName = Literal["lmsys-like", "conversations", "three-moments"]
LAWS: tuple[LawName, ...] = get_args(LawName)
"""Synthetic conversations: means and medians of [W25] and of [J25], and the moments of [C25]."""


def _laws(name: LawName | Literal["summaries"]) -> tuple[Law, Law]:
    if name == "three-moments":
        return three_moment_law(SAMPLED_PROMPTS), three_moment_law(SAMPLED_OUTPUTS)
    published = {
        "lmsys-like": (CONVERSATION_PROMPTS, CONVERSATION_OUTPUTS),
        "conversations": (SERVED_PROMPTS, SERVED_OUTPUTS),
        "summaries": (SUMMARY_PROMPTS, SUMMARY_OUTPUTS),
    }[name]
    prompts, outputs = (one.law() for one in published)
    return prompts, outputs


Source = LengthFile | LawName | Literal["summaries"]
"""Where lengths come from: a reader's file, or a law."""


def drawn_lengths(
    source: Source, rng: np.random.Generator, count: int, longest: tuple[int, int]
) -> tuple[IntArray, IntArray]:
    """Prompts and outputs, shape (count,) each.

    Of a file, rows without repetition, a prompt with its own output; of a law, independent draws.

    Parameters
    ----------
    source : Source
        The file or the law.
    rng : numpy.random.Generator
        What chooses.
    count : int
        How many.
    longest : tuple[int, int]
        Prompts and outputs that are longer are passed over in a file; laws end by themselves.

    Raises
    ------
    FileFormatError
        The file holds fewer requests.
    """
    if isinstance(source, str):
        prompts, outputs = (draw_lengths(rng, law, count) for law in _laws(source))
        return prompts, outputs
    prompts, outputs = source.lengths()
    kept = np.flatnonzero((prompts <= longest[0]) & (outputs <= longest[1]))
    if len(kept) < count:
        reason = (
            f"holds {len(kept):,} requests with prompts up to {longest[0]:,} and outputs up to "
            f"{longest[1]:,} {source.unit}, and {count:,} are needed"
        )
        raise FileFormatError(source.path, reason)
    chosen = kept[draw_order(rng, len(kept))[:count]]
    return prompts[chosen], outputs[chosen]
