"""Base of all proofs of a certificate: reading, counting work, rounding up, axes of starts."""

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
    whole,
)
from .problem import Rows

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.signedinteger[Any]]

"""First and last start; None for no last start."""


class SearchFailedError(CertificateError):
    """A search does not end as the proof claims."""


class Proof(ABC):
    """A proof as read; `bound` computes its bound and fills in its counts."""

    keys: ClassVar[tuple[str, ...]]
    """Keys of the proof besides ``kind`` and ``scale``."""

    preemptive: ClassVar[bool] = False
    """Whether it also bounds schedules that stop requests."""

    takes_weights: ClassVar[bool] = False
    """Whether its bound counts the latency of each request by its weight."""

    def __init__(self, instance: Rows, part: Mapping[str, Any]) -> None:
        keys_of(part, ("kind", "scale", *self.keys), "proof")
        if instance.is_weighted and not self.takes_weights:
            raise MalformedCertificateError(
                f"proof: {part['kind']} counts every request alike: it takes no weights"
            )
        self.rows, self.weights = instance.rows, instance.weights
        self.block_size, self.stored = instance.block_size, instance.stored
        self.limit, self.machines = instance.memory_limit, instance.machines
        self.part = part
        self.kind: str = part["kind"]
        self.scale = whole(part["scale"], "scale", 1)
        self.price_sets = 0
        self.leaves = 0
        self.weakest = "the proof"
        self.schedule_cost: int | None = None
        """Total latency of the certificate's schedule, which no search can exclude."""
        self.should_stop: Callable[[], bool] | None = None
        self.work = 0

    @property
    def most_work(self) -> int:
        """Return the limit on numbers visited."""
        return limits.LARGEST_WORK

    @abstractmethod
    def bound(self) -> int:
        """Compute the lower bound that this proof gives."""

    def spend(self, numbers: int) -> None:
        """Count numbers that are about to be visited."""
        self.work += numbers
        stopped = self.should_stop is not None and self.should_stop()
        if stopped or self.work > self.most_work:
            raise CertificateTooLargeError("proof: to check it takes more than this checker does")

    def in_blocks(self, tokens: Numbers) -> Numbers:
        """Round tokens stored up to whole blocks."""
        if self.block_size == 1:
            return tokens
        return -(-tokens // self.block_size) * self.block_size

    def _excludes_schedule(self, limit: int) -> bool:
        """Tell whether a search would exclude a limit that the schedule meets."""
        return self.schedule_cost is not None and limit >= self.schedule_cost

    def _rounded_up(self, scaled: int) -> int:
        """Round a bound in units of 1 / scale up to one on a total latency."""
        return -(-scaled // self.scale)

    def _refuse_overflow(self, charged: int, T: int, where: str) -> None:
        """Refuse prices of epochs below T whose charges could overflow int64."""
        latest = T + max(a + o for a, _, o in self.rows)
        if charged + self.scale * latest * max(self.weights) >= LIMIT:
            raise CertificateTooLargeError(f"{where}: the prices or the scale are too large")
