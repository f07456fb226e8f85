"""Proofs of lower bounds on total latency, in integers: their base class, and memory prices.

Each kind of proof is a class. It defines how the proof changes when idle gaps return to its
instance, and how a certificate writes it. The checker of certificates evaluates the proof and
shares no code with it.
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
"""Most entries of prices with idle gaps; larger ones are dropped."""

SHORTER_SCALES = (1 << 6, 1 << 9, 1 << 12, 1 << 16)
"""Denominators tried in a certificate: the first that loses nothing is used."""


class Wanted(NamedTuple):
    """Form in which a certificate needs a proof.

    Attributes
    ----------
    must_stop : Callable[[], bool], default never
        Polled during the search for shorter numbers.
    preemptive : bool, default False
        Whether the certificate is of the preemptive optimum.
    scale : int or None, default None
        Required denominator, one of `Proof.scales`; None leaves the choice to the proof.
    """

    must_stop: Callable[[], bool] = never
    preemptive: bool = False
    scale: int | None = None


PLAIN = Wanted()


class Proof(ABC):
    """A proof of a lower bound on total latency, in integers.

    Attributes
    ----------
    optima : frozenset[bool]
        Optima that the proof bounds: with preemption (True), without (False), or both.
    scales : tuple[int or None, ...]
        Denominators that a certificate tries until the proof holds; None leaves the choice to it.
    """

    optima: ClassVar[frozenset[bool]] = frozenset({False})
    scales: ClassVar[tuple[int | None, ...]] = (None,)

    @property
    def steps(self) -> tuple[Proof, ...]:
        """Return the proofs that a certificate tries, the simplest first."""
        return (self,)

    @property
    def largest_bound(self) -> int | None:
        """Return the largest bound that the proof may give, or None if only the checker knows."""
        return None

    def moved(self, arrival_times: IntArray, shifts: IntArray) -> Proof:
        """Return the proof for the instance with its idle gaps.

        Prices from a block's first arrival on move with the block. Rounds in a gap have no price,
        so the bound may become weaker and is evaluated again.

        Parameters
        ----------
        arrival_times : int64 array, shape (n,)
            Arrival times of the instance without gaps.
        shifts : int64 array, shape (n,)
            Rounds each request was moved towards 0; see `hindsight.prices.idle_gaps`.
        """
        return self._moved(arrival_times, shifts) if shifts.any() else self

    @abstractmethod
    def _moved(self, arrival_times: IntArray, shifts: IntArray) -> Proof: ...

    @abstractmethod
    def to_part(self, instance: Instance, wanted: Wanted = PLAIN) -> dict[str, Any]:
        """Return the proof as the ``"proof"`` of a certificate of an instance in tokens."""

    def check_shape(self, instance: Instance) -> None:
        """Raise InvalidValueError if the proof cannot belong to this instance."""


def check_prices(numerators: IntArray, denominator: int) -> None:
    """Refuse invalid prices.

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

    Rounds beyond ``len(numerators)`` have price 0. Memory prices bound both optima.

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
        """Return prices as floats, shape (horizon,)."""
        return self.numerators / float(self.denominator)

    def _moved(self, arrival_times: IntArray, shifts: IntArray) -> MemoryPrices:
        moved = moved_rows(self.numerators, arrival_times, shifts)
        return NO_PRICES if moved is None else MemoryPrices(moved, self.denominator)

    def to_part(self, instance: Instance, wanted: Wanted = PLAIN) -> dict[str, Any]:
        """See `Proof`."""
        return {
            "kind": "preemptive-memory-prices" if wanted.preemptive else "memory-prices",
            "scale": self.denominator,
            "prices": self.numerators.tolist(),
        }


NO_PRICES = MemoryPrices(np.zeros(0, dtype=np.int64), 1)
"""Prices that are 0 everywhere: their bound is the sum of the output lengths."""


def moved_rows(old: IntArray, arrival_times: IntArray, shifts: IntArray) -> IntArray | None:
    """Return rows by epoch with the idle gaps restored, or None if they would be too large."""
    shift_of = row_shifts(len(old), arrival_times, shifts)
    length = len(old) + int(shift_of.max(initial=0))
    if length * int(np.prod(old.shape[1:], dtype=np.int64)) > LARGEST_MOVED:
        return None
    moved = np.zeros((length, *old.shape[1:]), dtype=np.int64)
    moved[np.arange(len(old)) + shift_of] = old
    return moved


def row_shifts(length: int, arrival_times: IntArray, shifts: IntArray) -> IntArray:
    """Return the shift of each epoch of the instance without gaps, shape (length,)."""
    order = np.argsort(arrival_times, kind="stable")
    arrived = np.searchsorted(arrival_times[order], np.arange(length), side="right")
    shift_of: IntArray = np.concatenate([[0], shifts[order]])[arrived]
    return shift_of


def rounded(prices: IntArray, full: int, scale: int) -> IntArray:
    """Return prices in units of 1 / ``full`` rounded to units of 1 / ``scale``, halves up."""
    return (prices * scale + full // 2) // full


def shortest_scale(full: int, bound: Callable[[int], int], must_stop: Callable[[], bool]) -> int:
    """Return the first of `SHORTER_SCALES` that gives the bound of ``full``, or ``full``."""
    if not must_stop():
        most = bound(full)
        for shorter in SHORTER_SCALES:
            if must_stop() or shorter >= full:
                break
            if bound(shorter) >= most:
                return shorter
    return full
