"""Proofs of lower bounds on total latency, in integers: the base class, and memory prices.

Each kind of proof is a class. A solve removes idle gaps from the instance: rounds in which no
optimal schedule runs a request. The class defines how the proof changes when these rounds are put
back. It also defines the form of the proof in a certificate. The certificate checker evaluates
proofs without using this code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from instances import Instance, InvalidValueError
from instances.arrays import IntArray

LARGEST_MOVED = 50_000_000
"""Largest number of prices that `Proof.moved` may return. Larger proofs are dropped."""


class Proof(ABC):
    """A proof of a lower bound on total latency. Its numbers are integers, so checks are exact.

    Attributes
    ----------
    optima : frozenset[bool]
        Optima that the proof bounds from below. True is in the set if it bounds the optimum with
        preemption, False if it bounds the optimum without preemption.
    """

    optima: ClassVar[frozenset[bool]] = frozenset({False})

    @property
    def steps(self) -> tuple[Proof, ...]:
        """Return this proof and the simpler proofs that it includes, the simplest first.

        For example, a proof by a path graph includes the prices of the states of requests from
        which the costs of paths are computed.
        """
        return (self,)

    def moved(self, arrival_times: IntArray, shifts: IntArray) -> Proof:
        """Return the proof for the user's instance, from the proof for it without idle gaps.

        Idle gaps are rounds in which no optimal schedule runs a request. The requests between two
        gaps form a block. Removing the gaps moved all requests of a block to an earlier time by the
        same number of rounds. The rounds of a block reach from its first arrival to the first
        arrival of the next block. This method moves the prices of these rounds back, to a later
        time, by the same number of rounds. Rounds in a gap get the price 0. The moved prices may
        prove a smaller lower bound, so the caller must compute the bound again.

        Parameters
        ----------
        arrival_times : int64 array, shape (n,)
            Arrival time of each request, in rounds, after the gaps were removed.
        shifts : int64 array, shape (n,)
            Number of rounds by which each request was moved to an earlier time when the gaps were
            removed; see `hindsight.prices.idle_gaps`.
        """
        return self._moved(arrival_times, shifts) if shifts.any() else self

    @abstractmethod
    def _moved(self, arrival_times: IntArray, shifts: IntArray) -> Proof: ...

    @abstractmethod
    def to_part(self, instance: Instance, *, preemptive: bool = False) -> dict[str, Any]:
        """Return the JSON object of this proof, the value of the key ``"proof"`` of a certificate.

        Parameters
        ----------
        instance : Instance
            The instance that the proof is about, with memory counted in tokens.
        preemptive : bool, default False
            Whether the certificate bounds the optimum with preemption.
        """

    def check_shape(self, instance: Instance) -> None:
        """Raise InvalidValueError if the price arrays of the proof have the wrong shape."""


@dataclass(frozen=True, eq=False)
class MemoryPricesProof(Proof):
    """Proof that consists of an array of memory prices ``numerators / denominator``, all >= 0.

    Raises
    ------
    InvalidValueError
        A price is negative, or the denominator is below 1.
    """

    numerators: IntArray
    denominator: int

    def __post_init__(self) -> None:
        if self.denominator < 1:
            raise InvalidValueError("prices", "denominator", self.denominator, "is below 1")
        if self.numerators.size and (least := int(self.numerators.min())) < 0:
            raise InvalidValueError("prices", "numerator", least, "is negative")


@dataclass(frozen=True, eq=False)
class MemoryPrices(MemoryPricesProof):
    """Memory prices: a price for each token of memory that a request holds in a round.

    The price of a token in round r >= 1 is ``numerators[r - 1] / denominator``. Rounds after
    ``len(numerators)`` have price 0. The prices are multipliers of the memory limits, and prove a
    lower bound on the optimum with preemption and on the optimum without preemption.

    Raises
    ------
    InvalidValueError
        A price is negative, or the denominator is below 1.
    """

    optima: ClassVar[frozenset[bool]] = frozenset({False, True})

    @property
    def horizon(self) -> int:
        """Return the number of the last round that has a price; all later rounds have price 0."""
        return len(self.numerators)

    def as_floats(self) -> npt.NDArray[np.float64]:
        """Return the prices of rounds 1 .. horizon as floats, shape (horizon,)."""
        return self.numerators / float(self.denominator)

    def _moved(self, arrival_times: IntArray, shifts: IntArray) -> MemoryPrices:
        moved = moved_rows(self.numerators, arrival_times, shifts)
        return NO_PRICES if moved is None else MemoryPrices(moved, self.denominator)

    def to_part(self, instance: Instance, *, preemptive: bool = False) -> dict[str, Any]:
        """Return the JSON object of these prices for a certificate, see `Proof.to_part`."""
        return {
            "kind": "preemptive-memory-prices" if preemptive else "memory-prices",
            "scale": self.denominator,
            "prices": self.numerators.tolist(),
        }


NO_PRICES = MemoryPrices(np.zeros(0, dtype=np.int64), 1)
"""Memory prices of 0. The lower bound that they prove is the total latency if no request waits."""


def moved_rows(old: IntArray, arrival_times: IntArray, shifts: IntArray) -> IntArray | None:
    """Move prices to the rounds of the user's instance; return None if they become too many.

    Idle gaps (rounds in which no optimal schedule runs a request) were removed from the user's
    instance before the prices were computed. Here the gaps are put back, as `Proof.moved`
    describes.

    Parameters
    ----------
    old : int64 array, shape (R, ...)
        Prices in the instance without gaps. A row has the prices of one epoch: a moment between
        two rounds, counted from 0. For memory prices, row r - 1 has the price of round r.
    arrival_times, shifts : int64 array, shape (n,)
        Parameters of `Proof.moved`.

    Returns
    -------
    int64 array or None
        Prices in the instance with gaps, 0 in the gaps, with the same axes as ``old``. None if the
        array would have more than `LARGEST_MOVED` entries.
    """
    shift_of = row_shifts(len(old), arrival_times, shifts)
    length = len(old) + int(shift_of.max(initial=0))
    if length * int(np.prod(old.shape[1:], dtype=np.int64)) > LARGEST_MOVED:
        return None
    moved = np.zeros((length, *old.shape[1:]), dtype=np.int64)
    moved[np.arange(len(old)) + shift_of] = old
    return moved


def row_shifts(length: int, arrival_times: IntArray, shifts: IntArray) -> IntArray:
    """Return by how many rounds each epoch moves when idle gaps are put back, shape (length,).

    An epoch is a moment between two rounds. Idle gaps are rounds in which no optimal schedule runs
    a request (see `Proof.moved`). An epoch moves by as many rounds as the request that arrived
    last at or before it. Epochs before the first arrival do not move.

    Parameters
    ----------
    length : int
        Number of epochs of the instance without gaps.
    arrival_times, shifts : int64 array, shape (n,)
        Parameters of `Proof.moved`.
    """
    order = np.argsort(arrival_times, kind="stable")
    arrived = np.searchsorted(arrival_times[order], np.arange(length), side="right")
    shift_of: IntArray = np.concatenate([[0], shifts[order]])[arrived]
    return shift_of
