"""The iteration time of [A25] Equation (1)."""

from __future__ import annotations

from dataclasses import dataclass

from instances.arrays import FloatArray
from instances.validation import as_number, set_fields

from .models import BatchStretch


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

    d0: float
    d1: float = 0.0

    def __post_init__(self) -> None:
        set_fields(
            self,
            d0=as_number(self.d0, "iteration time", "d0", above=0),
            d1=as_number(self.d1, "iteration time", "d1", minimum=0),
        )

    def durations(self, stretch: BatchStretch) -> FloatArray:
        """Seconds of each round, shape (stretch.rounds,)."""
        return self.d0 + self.d1 * stretch.batch_memory()
