"""Batch-time models: seconds of a round as a function of the tokens it processes and holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from instances.arrays import FloatArray, IntArray
from instances.problem.batches import BatchStretch
from instances.problem.memory_rule import MemoryRule
from instances.validation import check_ranges, ranged


class RoundBatches(NamedTuple):
    """Requests and tokens of the rounds of a schedule, columns of shape (rounds,).

    Attributes
    ----------
    requests : int64 array
        Requests that advance.
    new_prompt_tokens, new_requests : int64 array
        Prompt tokens of those that complete their prompt, and how many those are.
    memory : int64 array
        KV tokens stored.
    chunk_tokens : int64 array
        Prompt tokens processed by others.
    held_memory : int64 array
        Of ``memory``, that of requests that do nothing.
    squares, past : int64 array
        Squares of the prompt tokens that each request processes, and their products with the tokens
        processed of it before, summed.
    """

    requests: IntArray
    new_prompt_tokens: IntArray
    new_requests: IntArray
    memory: IntArray
    chunk_tokens: IntArray
    held_memory: IntArray
    squares: IntArray
    past: IntArray

    def stretches(self) -> Iterator[BatchStretch]:
        """Each round as a batch time takes it."""
        for row in zip(*[column.tolist() for column in self], strict=True):
            requests, prompts, entered, memory, chunks, held, squares, past = row
            counts = (requests, prompts, entered, memory, requests, chunks, held)
            # In a single round it does not matter whose prompts they are.
            yield BatchStretch(1, *counts, chunk_squares=squares, chunk_past=past)


def stored_tokens(
    rule: MemoryRule,
    tokens: IntArray,
    prompt_left: IntArray,
    chunk_tokens: IntArray,
    advances: np.ndarray[Any, np.dtype[np.bool_]],
) -> tuple[IntArray, IntArray]:
    """Tokens stored by the stretches of a schedule.

    Parameters
    ----------
    rule : MemoryRule
        How memory is counted.
    tokens : int64 array, shape (k,)
        Prompt and output tokens that the request has when each stretch begins; stretches are in
        order of request, then of round.
    prompt_left, chunk_tokens : int64 array, shape (k,)
        See `Stretch`.
    advances : bool array, shape (k,)
        Whether a token is emitted in each round.

    Returns
    -------
    int64 array, int64 array
        What is stored in the first round less what a round adds, and what it adds.
    """
    # The newest token is stored by the round that continues from it: it is missing from one that
    # advances, and as long as the request is held after one. Prompts hold all they keep.
    continues = np.where(advances | (prompt_left > 0), np.arange(len(tokens)), 0)
    owing = advances[np.maximum.accumulate(continues)]
    stored = tokens - rule.unstored * owing
    growth = advances.astype(np.int64)
    if rule.prompt_allocation == "chunks":
        stored = stored - np.where(advances, 0, prompt_left)
        growth = np.where(advances, 1, chunk_tokens)
    return stored, growth


@dataclass(frozen=True)
class AffineTime:
    """Seconds = d0 + d1 * tokens processed + d2 * KV tokens resident.

    A round processes one token for each request that is past its prompt, and the prompt tokens
    of the others: all of them, or the chunk that the policy allots. With d1 = 0 and the
    per-token cost in d2 this is [A25] Equation (1) as long as nothing is held;
    `IterationTime` is that equation also where requests pause.

    Parameters
    ----------
    d0 : float
        Seconds a round costs whatever it does, > 0.
    d1 : float, default 0.0
        Seconds a processed token, >= 0.
    d2 : float, default 0.0
        Seconds a resident KV token, >= 0.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A coefficient that is not a number in its range.
    """

    d0: float = ranged(above=0)
    d1: float = ranged(0.0, minimum=0)
    d2: float = ranged(0.0, minimum=0)

    def __post_init__(self) -> None:
        check_ranges(self, "batch time")

    def durations(self, stretch: BatchStretch) -> FloatArray:
        """Seconds of each round, shape (stretch.rounds,)."""
        seconds = self.d0 + self.d1 * stretch.later_tokens + self.d2 * stretch.resident()
        seconds[0] += self.d1 * (stretch.first_tokens - stretch.later_tokens)
        return seconds


@dataclass(frozen=True)
class IterationTime:
    """Seconds = d0 + d1 * KV tokens of the batch ([A25] Equation (1)).

    The batch is what advances: requests that are held keep their memory but cost no time. The
    symbols are the paper's; its d1 is the d2 of `AffineTime`, and as long as nothing is held
    ``IterationTime(d0, d1)`` and ``AffineTime(d0, 0, d1)`` are the same.

    Parameters
    ----------
    d0 : float
        Seconds an iteration costs whatever it does, > 0.
    d1 : float, default 0.0
        Seconds a KV token of the batch, >= 0.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A coefficient that is not a number in its range.
    """

    d0: float = ranged(above=0)
    d1: float = ranged(0.0, minimum=0)

    def __post_init__(self) -> None:
        check_ranges(self, "iteration time")

    def durations(self, stretch: BatchStretch) -> FloatArray:
        """Seconds of each round, shape (stretch.rounds,)."""
        return self.d0 + self.d1 * stretch.batch_memory()
