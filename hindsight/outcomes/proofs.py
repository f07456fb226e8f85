"""Proofs of lower bounds on total latency, in integers: the base class, and memory prices.

Each kind of proof is a class. The class defines how the proof changes when idle gaps are put back
into the instance, and the form of the proof in a certificate. The certificate checker evaluates
proofs without using this code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.runtime.clock import never
from instances import Instance, InvalidValueError
from instances.arrays import IntArray

LARGEST_MOVED = 50_000_000
"""Most entries of the prices of an instance with idle gaps; larger price arrays are dropped."""

SHORTER_SCALES = (1 << 6, 1 << 9, 1 << 12, 1 << 16)
"""Denominators tried for a certificate: the first one that keeps the bound is used."""


class Wanted(NamedTuple):
    """Requirements of a certificate on its proof.

    Attributes
    ----------
    must_stop : Callable[[], bool], default never
        Polled while smaller denominators are tried.
    preemptive : bool, default False
        Whether the certificate is about the preemptive optimum.
    scale : int or None, default None
        Required denominator, one of `Proof.scales`. With None the proof chooses one.
    """

    must_stop: Callable[[], bool] = never
    preemptive: bool = False
    scale: int | None = None


# Requirements of a certificate on the optimum without preemption.
PLAIN = Wanted()


class Proof(ABC):
    """A proof of a lower bound on total latency, in integers.

    Attributes
    ----------
    optima : frozenset[bool]
        Which optima the proof bounds: with preemption (True), without preemption (False).
    scales : tuple[int or None, ...]
        Denominators that a certificate tries until the proof holds. For None the proof chooses.
    """

    optima: ClassVar[frozenset[bool]] = frozenset({False})
    scales: ClassVar[tuple[int | None, ...]] = (None,)

    @property
    def steps(self) -> tuple[Proof, ...]:
        """Return the proofs that a certificate may contain, the simplest first."""
        return (self,)

    @property
    def largest_bound(self) -> int | None:
        """Return an upper limit on the proved bound, or None if only the checker can compute it."""
        return None

    def moved(self, arrival_times: IntArray, shifts: IntArray) -> Proof:
        """Return the proof for the instance with its idle gaps put back.

        The requests between two gaps form a block. The prices from the first arrival of a block to
        that of the next block are shifted by as many rounds as its requests. Rounds in a gap have
        price 0. So the bound may become weaker, and is evaluated again.

        Parameters
        ----------
        arrival_times : int64 array, shape (n,)
            Arrival times of the instance without gaps.
        shifts : int64 array, shape (n,)
            Rounds by which each request was moved towards 0; see `hindsight.prices.idle_gaps`.
        """
        return self._moved(arrival_times, shifts) if shifts.any() else self

    @abstractmethod
    def _moved(self, arrival_times: IntArray, shifts: IntArray) -> Proof: ...

    @abstractmethod
    def to_part(self, instance: Instance, wanted: Wanted = PLAIN) -> dict[str, Any]:
        """Return the ``"proof"`` object of a certificate, for an instance in tokens."""

    def check_shape(self, instance: Instance) -> None:
        """Raise InvalidValueError if the shape of the proof does not match the instance."""


def check_prices(numerators: IntArray, denominator: int) -> None:
    """Check that prices are valid.

    Raises
    ------
    InvalidValueError
        A price is negative, or the denominator is below 1.
    """
    if denominator < 1:
        raise InvalidValueError("prices", "denominator", denominator, "is below 1")
    if numerators.size and int(numerators.min()) < 0:
        raise InvalidValueError("prices", "numerator", int(numerators.min()), "is negative")


@dataclass(frozen=True, eq=False)
class MemoryPrices(Proof):
    """Prices per token and round, ``numerators[r - 1] / denominator`` in round r >= 1.

    Rounds after ``len(numerators)`` have price 0. Memory prices bound the optima with and without
    preemption.

    Raises
    ------
    InvalidValueError
        A price is negative, or the denominator is below 1.
    """

    numerators: IntArray
    denominator: int

    optima: ClassVar[frozenset[bool]] = frozenset({False, True})

    def __post_init__(self) -> None:
        check_prices(self.numerators, self.denominator)

    @property
    def horizon(self) -> int:
        """Return the last round with a price."""
        return len(self.numerators)

    def as_floats(self) -> npt.NDArray[np.float64]:
        """Return the prices of rounds 1 .. horizon as floats, shape (horizon,)."""
        return self.numerators / float(self.denominator)

    def _moved(self, arrival_times: IntArray, shifts: IntArray) -> MemoryPrices:
        moved = moved_rows(self.numerators, arrival_times, shifts)
        return NO_PRICES if moved is None else MemoryPrices(moved, self.denominator)

    def to_part(self, instance: Instance, wanted: Wanted = PLAIN) -> dict[str, Any]:
        """Return the ``"proof"`` object of a certificate, see `Proof`."""
        return {
            "kind": "preemptive-memory-prices" if wanted.preemptive else "memory-prices",
            "scale": self.denominator,
            "prices": self.numerators.tolist(),
        }


NO_PRICES = MemoryPrices(np.zeros(0, dtype=np.int64), 1)
"""Memory prices of 0 in every round: they prove the sum of the output lengths as bound."""


def moved_rows(old: IntArray, arrival_times: IntArray, shifts: IntArray) -> IntArray | None:
    """Return price rows by epoch, shifted for the idle gaps put back, or None if too large."""
    shift_of = row_shifts(len(old), arrival_times, shifts)
    length = len(old) + int(shift_of.max(initial=0))
    if length * int(np.prod(old.shape[1:], dtype=np.int64)) > LARGEST_MOVED:
        return None
    moved = np.zeros((length, *old.shape[1:]), dtype=np.int64)
    moved[np.arange(len(old)) + shift_of] = old
    return moved


def row_shifts(length: int, arrival_times: IntArray, shifts: IntArray) -> IntArray:
    """Return the shift in rounds of each epoch of the instance without gaps, shape (length,)."""
    order = np.argsort(arrival_times, kind="stable")
    arrived = np.searchsorted(arrival_times[order], np.arange(length), side="right")
    shift_of: IntArray = np.concatenate([[0], shifts[order]])[arrived]
    return shift_of


def rounded(prices: IntArray, full: int, scale: int) -> IntArray:
    """Convert prices from units of 1 / ``full`` to units of 1 / ``scale``, rounding halves up."""
    return (prices * scale + full // 2) // full


def shortest_scale(full: int, bound: Callable[[int], int], must_stop: Callable[[], bool]) -> int:
    """Return the first denominator of `SHORTER_SCALES` that keeps the bound, else ``full``."""
    if not must_stop():
        most = bound(full)
        for shorter in SHORTER_SCALES:
            if must_stop() or shorter >= full:
                break
            if bound(shorter) >= most:
                return shorter
    return full
