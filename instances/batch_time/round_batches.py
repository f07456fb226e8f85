"""What the rounds of a schedule in seconds process and store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from instances.arrays import IntArray
from instances.problem.memory_rule import MemoryRule

from .models import BatchStretch


class RoundBatches(NamedTuple):
    """What the rounds of a schedule do, as columns of shape (rounds,); see `BatchStretch`.

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
        for requests, prompts, entered, memory, chunks, held, squares, past in zip(
            *(column.tolist() for column in self), strict=True
        ):
            # In a single round it does not matter whose prompts they are.
            yield BatchStretch(
                *(1, requests, prompts, entered, memory, requests, chunks, held, 0, 0),
                *(squares, past),
            )


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
