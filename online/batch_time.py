"""How long a round lasts, given the batch it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from instances import InvalidTypeError, InvalidValueError

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BatchStretch:
    """Consecutive rounds with the same requests.

    Attributes
    ----------
    rounds : how many, >= 1.
    requests : requests that advance in each round.
    new_prompt_tokens : prompt tokens processed in the first round, by requests starting there.
    new_requests : requests that start in the first round.
    memory : KV tokens resident in the first round, held requests included.
    growth : KV tokens added from each round to the next.
    held_memory : of ``memory``, KV tokens of requests that are held, the same in each round.
    """

    rounds: int
    requests: int
    new_prompt_tokens: int
    new_requests: int
    memory: int
    growth: int
    held_memory: int = 0


class BatchTime(Protocol):
    """A batch-time model: seconds of each round of a stretch."""

    def durations(self, stretch: BatchStretch) -> FloatArray:
        """Seconds, shape (stretch.rounds,), each > 0."""


@dataclass(frozen=True)
class AffineTime:
    """Seconds = d0 + d1 * tokens processed + d2 * KV tokens resident.

    A round processes one token for each request that is past its prompt, and all prompt tokens of
    a request that starts. With d1 = 0 and the per-token cost in d2 this is [A25] Eq. (1) as long
    as nothing is held; `online.iteration_time.IterationTime` is that equation also where requests
    pause.

    Parameters
    ----------
    d0 : seconds a round costs whatever it does, > 0.
    d1 : seconds a processed token, >= 0.
    d2 : seconds a resident KV token, >= 0.

    Raises
    ------
    InvalidValueError, InvalidTypeError: a coefficient that is not a number in its range.
    """

    d0: float
    d1: float = 0.0
    d2: float = 0.0

    def __post_init__(self) -> None:
        for field in ("d0", "d1", "d2"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise InvalidTypeError("batch time", field, value, "is not a number of seconds")
            if not math.isfinite(value) or value < 0 or (field == "d0" and value == 0):
                raise InvalidValueError("batch time", field, value, "is out of range")

    def durations(self, stretch: BatchStretch) -> FloatArray:
        """Seconds of each round, shape (stretch.rounds,)."""
        memory = stretch.memory + stretch.growth * np.arange(stretch.rounds, dtype=np.float64)
        seconds = self.d0 + self.d1 * stretch.requests + self.d2 * memory
        seconds[0] += self.d1 * (stretch.new_prompt_tokens - stretch.new_requests)
        return seconds
