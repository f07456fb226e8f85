"""Base class of all proofs in rounds: reads prices, counts work and rounds bounds up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from . import limits
from .format import (
    LIMIT,
    CertificateError,
    CertificateTooLargeError,
    MalformedCertificateError,
    keys_of,
    list_of,
    whole,
    wholes,
)
from .problem import Row, Rows

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.signedinteger[Any]]
Flags = npt.NDArray[np.bool_]


class SearchFailedError(CertificateError):
    """The search does not end as the proof claims."""


class Proof(ABC):
    """A proof read from a certificate; `bound` computes its lower bound and counts its leaves."""

    keys: ClassVar[tuple[str, ...]] = ("prices",)
    """Keys of the JSON object in addition to ``kind`` and ``scale``."""

    preemptive: ClassVar[bool] = False
    """Whether the bound also holds for schedules that preempt requests."""

    takes_weights: ClassVar[bool] = False
    """Whether the bound is on weighted total latency."""

    leaves = work = 0

    schedule_cost: int | None = None
    """Total latency of the schedule of the certificate; no search can exclude this value."""

    should_stop: Callable[[], bool] | None = None

    def __init__(self, instance: Rows, part: Mapping[str, Any]) -> None:
        keys_of(part, ("kind", "scale", *self.keys), "proof")
        if max(instance.weights) > 1 and not self.takes_weights:
            raise MalformedCertificateError(
                f"proof: {part['kind']} counts every request alike: it takes no weights"
            )
        self.instance, self.rows, self.limit = instance, instance.rows, instance.memory_limit
        self.part = part
        self.kind: str = part["kind"]
        self.scale = whole(part["scale"], "scale", 1)
        self.most_work = limits.LARGEST_WORK

    @abstractmethod
    def bound(self) -> int:
        """Compute the lower bound that this proof gives."""

    def spend(self, numbers: int) -> None:
        """Count array entries about to be visited; raise if the work exceeds the limit."""
        self.work += numbers
        is_late = self.should_stop is not None and self.should_stop()
        if is_late or self.work > self.most_work:
            raise CertificateTooLargeError("proof: to check it takes more than this checker does")

    def _token_prices(self) -> list[int]:
        """Read prices of a token in rounds 1, 2, ..."""
        numerators = wholes(self.part["prices"], "prices")
        if len(numerators) > limits.LARGEST_EPOCH:
            raise CertificateTooLargeError(f"prices: more than {limits.LARGEST_EPOCH} rounds")
        return numerators

    def _price_rows(self, width: int) -> list[list[int]]:
        """Read prices, one row of ``width`` prices for each epoch or round."""
        listed = list_of(self.part["prices"], "prices")
        if len(listed) * (width + 1) > limits.LARGEST_EPOCH:
            raise CertificateTooLargeError("prices: too many")
        return [wholes(row, "prices", width) for row in listed]

    def _refuse_schedule_within(self, limit: int, reason: str) -> None:
        """Refuse the claim that no total latency is <= ``limit``, if that of the schedule is."""
        if self.schedule_cost is not None and limit >= self.schedule_cost:
            raise SearchFailedError(reason)

    def _rounded_up(self, scaled: int) -> int:
        """Convert a bound in units of 1 / scale to rounds, rounded up."""
        return -(-scaled // self.scale)

    def _refuse_overflow(self, charged: int, T: int) -> None:
        """Refuse prices if the priced cost of a start could overflow int64.

        ``charged`` is at least the sum of prices that a request pays; there are prices for T
        epochs.
        """
        latest = T + max(a + o for a, _, o in self.rows)
        if charged + self.scale * latest * max(self.instance.weights) >= LIMIT:
            raise CertificateTooLargeError("prices: the prices or the scale are too large")


def lengths(row: Row) -> tuple[int, int]:
    """Return the prompt and output length of a request."""
    return row[1:]
