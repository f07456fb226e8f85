"""Base of all proofs in rounds: reading, counting work, rounding up."""

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
    """A search does not end as the proof claims."""


class Proof(ABC):
    """A proof as read; `bound` computes its bound and counts its leaves."""

    keys: ClassVar[tuple[str, ...]] = ("prices",)
    """Keys of the proof besides ``kind`` and ``scale``."""

    preemptive: ClassVar[bool] = False
    """Whether it also bounds schedules that stop requests."""

    takes_weights: ClassVar[bool] = False
    """Whether its bound counts the latency of each request by its weight."""

    leaves = work = 0

    schedule_cost: int | None = None
    """Total latency of the certificate's schedule, which no search can exclude."""

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
        """Count numbers that are about to be visited."""
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
        """Read rows of as many prices, one row for each epoch or round."""
        listed = list_of(self.part["prices"], "prices")
        if len(listed) * (width + 1) > limits.LARGEST_EPOCH:
            raise CertificateTooLargeError("prices: too many")
        return [wholes(row, "prices", width) for row in listed]

    def _refuse_schedule_within(self, limit: int, reason: str) -> None:
        """Refuse a search that would exclude a limit which the schedule meets."""
        if self.schedule_cost is not None and limit >= self.schedule_cost:
            raise SearchFailedError(reason)

    def _rounded_up(self, scaled: int) -> int:
        """Round a bound in units of 1 / scale up to one on a total latency."""
        return -(-scaled // self.scale)

    def _refuse_overflow(self, charged: int, T: int) -> None:
        """Refuse prices of epochs below T whose charges could overflow int64."""
        latest = T + max(a + o for a, _, o in self.rows)
        if charged + self.scale * latest * max(self.instance.weights) >= LIMIT:
            raise CertificateTooLargeError("prices: the prices or the scale are too large")


def lengths(row: Row) -> tuple[int, int]:
    """Return prompt and output of a request."""
    return row[1:]
