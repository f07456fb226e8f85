"""Batch-time models: seconds of a round as a function of the tokens it processes and holds."""

from __future__ import annotations

from dataclasses import dataclass

from instances.arrays import FloatArray
from instances.problem.batches import BatchStretch
from instances.validation import check_ranges, ranged


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
