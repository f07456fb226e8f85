"""The batch of a round, and batch times: how long a round lasts, given its batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from instances.arrays import FloatArray
from instances.errors import InvalidTypeError


@dataclass(frozen=True, slots=True)
class BatchStretch:
    """Consecutive rounds with the same requests.

    Attributes
    ----------
    rounds : int
        How many, >= 1.
    requests : int
        Requests that advance in each round.
    new_prompt_tokens : int
        Prompt tokens processed in the first round by requests that complete their prompt there.
    new_requests : int
        How many those are.
    memory : int
        KV tokens resident in the first round, held requests included.
    growth : int
        KV tokens added from each round to the next.
    chunk_tokens : int
        Prompt tokens processed in every round by requests whose prompt takes longer; these are not
        among ``requests``.
    held_memory : int
        Of ``memory``, KV tokens of requests that are held, the same in each round.
    new_squares, chunk_squares : int
        Squares of the prompt tokens that each request processes in the first round, summed over
        those that complete their prompt there, and over the others.
    new_past, chunk_past : int
        The same of the products with the tokens of the request that were processed before; the
        latter grows by ``chunk_squares`` from each round to the next.
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
        """Tokens processed in the first round: prompts and chunks whole, one a request else."""
        return self.later_tokens + self.new_prompt_tokens - self.new_requests

    @property
    def later_tokens(self) -> int:
        """Tokens processed in each later round."""
        return self.requests + self.chunk_tokens

    def resident(self) -> FloatArray:
        """KV tokens resident in each round, shape (rounds,)."""
        return self.memory + self.growth * np.arange(self.rounds, dtype=np.float64)

    def batch_memory(self) -> FloatArray:
        """Return the tokens held by requests that advance or process a chunk, shape (rounds,)."""
        return self.resident() - self.held_memory


class BatchTime(Protocol):
    """A batch-time model: seconds of each round of a stretch."""

    def durations(self, stretch: BatchStretch) -> FloatArray:
        """Seconds, shape (stretch.rounds,), each > 0."""


def check_batch_time(value: Any) -> BatchTime:
    """A batch time as it is.

    Raises
    ------
    InvalidTypeError
        Not one: a preset or its name, a class.
    """
    if not callable(getattr(value, "durations", None)) or isinstance(value, type):
        reason = "is not a batch time, such as preset(name).batch_time of instances.batch_time"
        raise InvalidTypeError(None, "batch_time", value, reason)
    return value  # type: ignore[no-any-return]
