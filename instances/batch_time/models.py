"""Batch-time models: seconds of a round as a function of the tokens it processes and holds."""

from __future__ import annotations

from dataclasses import dataclass

from instances.arrays import FloatArray
from instances.problem.batches import BatchStretch
from instances.validation import check_ranges, ranged


@dataclass(frozen=True)
class AffineTime:
    """Batch time: seconds of a round = d0 + d1 * tokens processed + d2 * KV tokens in the cache.

    A round processes one token for each request whose prompt is processed already. For each other
    request it processes the whole prompt, or the chunk that the policy chooses. With d1 = 0 this is
    [A25] Equation (1), as long as no request pauses in the cache. If requests pause, only
    `IterationTime` is that equation.

    Parameters
    ----------
    d0 : float
        Fixed seconds per round, > 0.
    d1 : float, default 0.0
        Seconds per processed token, >= 0.
    d2 : float, default 0.0
        Seconds per KV token in the cache, >= 0.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A coefficient is not a number in its range.
    """

    d0: float = ranged(above=0)
    d1: float = ranged(0.0, minimum=0)
    d2: float = ranged(0.0, minimum=0)

    def __post_init__(self) -> None:
        check_ranges(self, "batch time")

    def durations(self, stretch: BatchStretch) -> FloatArray:
        """Return the seconds of each round of a batch, shape (stretch.rounds,)."""
        seconds = self.d0 + self.d1 * stretch.later_tokens + self.d2 * stretch.resident()
        seconds[0] += self.d1 * (stretch.first_tokens - stretch.later_tokens)
        return seconds


@dataclass(frozen=True)
class IterationTime:
    """Batch time: seconds of a round = d0 + d1 * KV tokens of the batch ([A25] Equation (1)).

    The batch is the set of requests that emit a token or process their prompt in the round.
    Requests that pause in the cache keep their memory but cost no time. The paper's d1 is the d2 of
    `AffineTime`: as long as no request pauses, ``IterationTime(d0, d1)`` equals
    ``AffineTime(d0, 0, d1)``.

    Parameters
    ----------
    d0 : float
        Fixed seconds per round, > 0.
    d1 : float, default 0.0
        Seconds per KV token of the batch, >= 0.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A coefficient is not a number in its range.
    """

    d0: float = ranged(above=0)
    d1: float = ranged(0.0, minimum=0)

    def __post_init__(self) -> None:
        check_ranges(self, "iteration time")

    def durations(self, stretch: BatchStretch) -> FloatArray:
        """Return the seconds of each round of a batch, shape (stretch.rounds,)."""
        return self.d0 + self.d1 * stretch.batch_memory()
