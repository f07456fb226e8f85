"""Prompt and output lengths of [W25] Section 7: conversations, summaries and their mixture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instances import Instance
from instances.arrays import IntArray
from instances.generators.length_laws import draw_order
from instances.generators.registry import SYNTHETIC
from instances.generators.synthetic_traces import MEMORY_LIMIT, SUMMARY_OUTPUTS, SUMMARY_PROMPTS
from studies.reproduction.conditions import OWN, Conditions
from studies.reproduction.lengths import drawn_lengths

LONGEST = (SUMMARY_PROMPTS.maximum, SUMMARY_OUTPUTS.maximum)
"""Prompts and outputs that a reader's file may have: a context holds one token more."""


SHORT, LONG = 1600, 400
"""Conversations and summaries in the paper."""


@dataclass(frozen=True, eq=False)
class Lengths:
    """Lengths of requests, in tokens: int64, shape (n,) each."""

    prompts: IntArray
    outputs: IntArray

    def __len__(self) -> int:
        return len(self.prompts)

    def instance(self, count: int, name: str, memory_limit: int = MEMORY_LIMIT) -> Instance:
        """The first ``count`` of them, all at once, on the paper's M = 16,492 or another."""
        return Instance.from_arrays(
            self.prompts[:count],
            self.outputs[:count],
            memory_limit=memory_limit,
            name=name,
            metadata={SYNTHETIC: "lengths drawn from laws with published means and medians"},
        )


def conversations(rng: np.random.Generator, count: int, given: Conditions = OWN) -> Lengths:
    """Draw from a reader's file, or from laws with the published means and medians, independently.

    Raises
    ------
    FileFormatError
        The file holds fewer.
    """
    return Lengths(*drawn_lengths(given.conversations("lmsys-like"), rng, count, LONGEST))


def summaries(rng: np.random.Generator, count: int, given: Conditions = OWN) -> Lengths:
    """Draw from a reader's file without repetition, or from laws with the published moments.

    Raises
    ------
    FileFormatError
        The file holds fewer.
    """
    return Lengths(*drawn_lengths(given.summaries(), rng, count, LONGEST))


def mixture(rng: np.random.Generator, count: int, given: Conditions = OWN) -> Lengths:
    """Four conversations to a summary, shuffled: 1,600 and 400 in the paper."""
    long = count // 5
    short, others = conversations(rng, count - long, given), summaries(rng, long, given)
    order = draw_order(rng, count)
    return Lengths(
        np.concatenate([short.prompts, others.prompts])[order],
        np.concatenate([short.outputs, others.outputs])[order],
    )


def central_range(values: Sequence[float], share: float = 0.99) -> tuple[float, float]:
    """The smallest and largest of ``values`` once the tails are cut, the same number at each end.

    Of 1,000 values and 0.99 five are cut at each end.
    """
    ordered = sorted(values)
    cut = math.floor(len(ordered) * (1 - share) / 2 + 1e-9)
    return ordered[cut], ordered[len(ordered) - 1 - cut]
