"""Batches of rounds, and the interface of batch times: models of the seconds a batch takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from instances.arrays import FloatArray
from instances.errors import InvalidTypeError


@dataclass(frozen=True, slots=True)
class BatchStretch:
    """Batch of consecutive rounds that run the same requests: the input of a batch time.

    In each round a request either emits an output token, or processes a chunk of its prompt
    without emitting a token, or is paused in the cache (held).

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
        Part of ``memory``, in KV tokens, of held requests; equal in all rounds.
    new_squares, chunk_squares : int
        Sums of x^2, where x are the prompt tokens that a request processes in the first round: over
        the requests that complete their prompt in it, and over the requests with chunks.
    new_past, chunk_past : int
        The same two sums of x y, where y are the tokens that the request has processed before.
        ``chunk_past`` grows by ``chunk_squares`` from each round to the next.
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
        """Tokens processed in the first round: prompts, chunks, and one per other request."""
        return self.later_tokens + self.new_prompt_tokens - self.new_requests

    @property
    def later_tokens(self) -> int:
        """Tokens processed in each round after the first: one per request, and the chunks."""
        return self.requests + self.chunk_tokens

    def resident(self) -> FloatArray:
        """Return the KV tokens of all requests in each round, shape (rounds,)."""
        return self.memory + self.growth * np.arange(self.rounds, dtype=np.float64)

    def batch_memory(self) -> FloatArray:
        """Return the KV tokens of requests that do not pause in each round, shape (rounds,)."""
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
