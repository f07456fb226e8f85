"""Prompt and output lengths of [W25] Section 7: conversations, summaries and their mixture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from instances import FileFormatError, Instance
from instances.arrays import IntArray
from instances.generators.length_laws import draw_lengths, draw_order
from instances.generators.registry import SYNTHETIC
from instances.generators.synthetic_traces import (
    CONVERSATION_OUTPUTS,
    CONVERSATION_PROMPTS,
    MEMORY_LIMIT,
    SUMMARY_OUTPUTS,
    SUMMARY_PROMPTS,
)
from instances.traces import open_trace

SUMMARY_FILE = "arxiv_summarization_lengths.csv"
"""Vidur's processed trace of the arXiv set that the paper summarises, in the folder of traces."""


@dataclass(frozen=True, eq=False)
class Lengths:
    """Of requests, in tokens: int64, shape (n,) each."""

    prompts: IntArray
    outputs: IntArray

    def __len__(self) -> int:
        return len(self.prompts)

    def taken(self, order: IntArray) -> Lengths:
        """Those at the positions given."""
        return Lengths(self.prompts[order], self.outputs[order])

    def instance(self, count: int, name: str) -> Instance:
        """The first ``count`` of them, all at once, on the paper's M = 16,492."""
        return Instance.from_arrays(
            self.prompts[:count],
            self.outputs[:count],
            memory_limit=MEMORY_LIMIT,
            name=name,
            metadata={SYNTHETIC: "lengths drawn from laws with published means and medians"},
        )


def conversations(rng: np.random.Generator, count: int) -> Lengths:
    """Synthetic: drawn from laws with the published means and medians, independently."""
    return Lengths(
        draw_lengths(rng, CONVERSATION_PROMPTS.law(), count),
        draw_lengths(rng, CONVERSATION_OUTPUTS.law(), count),
    )


def summaries(rng: np.random.Generator, count: int, traces: Path | None) -> Lengths:
    """Requests of the trace, without repetition; without a folder, drawn from published moments.

    Raises
    ------
    OSError
        The folder has no such file.
    FileFormatError
        It is malformed, or holds fewer requests.
    """
    if traces is None:
        return Lengths(
            draw_lengths(rng, SUMMARY_PROMPTS.law(), count),
            draw_lengths(rng, SUMMARY_OUTPUTS.law(), count),
        )
    known = trace_lengths(traces / SUMMARY_FILE)
    if len(known) < count:
        raise FileFormatError(traces / SUMMARY_FILE, f"holds fewer than {count} requests")
    return known.taken(draw_order(rng, len(known))[:count])


def mixture(rng: np.random.Generator, count: int, traces: Path | None) -> Lengths:
    """Four conversations to a summary, shuffled: 1,600 and 400 in the paper."""
    long = count // 5
    short, others = conversations(rng, count - long), summaries(rng, long, traces)
    order = draw_order(rng, count)
    return Lengths(
        np.concatenate([short.prompts, others.prompts])[order],
        np.concatenate([short.outputs, others.outputs])[order],
    )


@cache
def trace_lengths(path: Path) -> Lengths:
    """All requests of a trace.

    Raises
    ------
    OSError, FileFormatError
        It cannot be read.
    """
    with open_trace(path) as rows:
        pairs = np.array([(row.prompt_tokens, row.output_tokens) for row in rows], dtype=np.int64)
    if not len(pairs):
        raise FileFormatError(path, "holds no requests")
    return Lengths(pairs[:, 0], pairs[:, 1])


def central_range(values: Sequence[float], share: float = 0.99) -> tuple[float, float]:
    """The smallest and largest of ``values`` once the tails are cut, the same number at each end.

    Of 1,000 values and 0.99 five are cut at each end.
    """
    ordered = sorted(values)
    cut = math.floor(len(ordered) * (1 - share) / 2 + 1e-9)
    return ordered[cut], ordered[len(ordered) - 1 - cut]
