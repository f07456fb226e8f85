"""Batches of requests in rounds, and the interface of batch times: models of a round's seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from instances.arrays import FloatArray
from instances.errors import InvalidTypeError


@dataclass(frozen=True, slots=True)
class BatchStretch:
    """Consecutive rounds with the same batch of requests, as the input of a batch time.

    In each round a request does one of three things. It emits an output token, or it processes a
    chunk of its prompt without emitting a token, or it is held: it pauses and stays in memory.

    Attributes
    ----------
    rounds : int
        Number of rounds, >= 1.
    requests : int
        Number of requests that emit a token in each round.
    new_prompt_tokens : int
        Prompt tokens processed in the first round by requests that complete their prompt in it.
    new_requests : int
        Number of requests that complete their prompt in the first round.
    memory : int
        KV tokens of all requests in the first round, held requests included.
    growth : int
        KV tokens added from each round to the next.
    chunk_tokens : int
        Prompt tokens processed in every round by requests that do not complete their prompt in
        these rounds. These requests are not among ``requests``.
    held_memory : int
        Part of ``memory``, in KV tokens, that held requests have. It is equal in all rounds.
    new_squares, chunk_squares : int
        Sums of x^2, where x is the number of prompt tokens that a request processes in the first
        round. ``new_squares`` is over the requests that complete their prompt in this round,
        ``chunk_squares`` over the requests with chunks.
    new_past, chunk_past : int
        Sums of x y over the same two groups of requests, where y is the number of tokens that the
        request has processed before. ``chunk_past`` is that of the first round, and grows by
        ``chunk_squares`` from each round to the next.
    """

    rounds: int
    requests: int
    new_prompt_tokens: int
    new_requests: int
    memory: int
    growth: int
    chunk_tokens: int = 0
    held_memory: int = 0
    new_squares: int = 0
    new_past: int = 0
    chunk_squares: int = 0
    chunk_past: int = 0

    @property
    def first_tokens(self) -> int:
        """Tokens processed in the first round: prompts, chunks, and one per decoding request."""
        return self.later_tokens + self.new_prompt_tokens - self.new_requests

    @property
    def later_tokens(self) -> int:
        """Tokens processed in each later round: one per request that emits a token, and chunks."""
        return self.requests + self.chunk_tokens

    def resident(self) -> FloatArray:
        """Return the KV tokens of all requests in each round, shape (rounds,)."""
        return self.memory + self.growth * np.arange(self.rounds, dtype=np.float64)

    def batch_memory(self) -> FloatArray:
        """Return, for each round, the KV tokens of requests not paused in it, shape (rounds,)."""
        return self.resident() - self.held_memory


class BatchTime(Protocol):
    """Interface of batch times: models of the seconds that a round takes, given its batch."""

    def durations(self, stretch: BatchStretch) -> FloatArray:
        """Return the seconds of each round of a batch, > 0, shape (stretch.rounds,)."""


def check_batch_time(value: Any) -> BatchTime:
    """Return ``value`` if it is a batch time; raise an error otherwise.

    Raises
    ------
    InvalidTypeError
        The value is not a batch time: for example a preset, the name of a preset, or a class.
    """
    if not callable(getattr(value, "durations", None)) or isinstance(value, type):
        reason = "is not a batch time, such as preset(name).batch_time of instances.batch_time"
        raise InvalidTypeError(None, "batch_time", value, reason)
    return value  # type: ignore[no-any-return]
