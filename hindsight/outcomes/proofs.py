"""Proofs of lower bounds: prices of memory, and of what runs together, in integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from instances import InvalidValueError
from instances.arrays import IntArray

PRICE_SCALE = 1 << 20
"""Denominator of the prices of `StatePrices`."""

LARGEST_MOVED = 50_000_000
"""Entries of prices with idle gaps put back in, beyond which they are dropped."""


@dataclass(frozen=True, eq=False)
class StatePrices:
    """Integer epoch prices: a proof of a lower bound (`hindsight.configurations.prices`).

    Attributes
    ----------
    prices : int64 array
        Q >= 0, int64, shape (T, M + 1, M + 1), indexed [tau, m, r], in units of 1 / ``scale``
        rounds of latency.
    scale : int
        The denominator.
    """

    prices: IntArray
    scale: int = PRICE_SCALE


@dataclass(frozen=True, eq=False)
class PathStage:
    """A stage of `PathPrices`: nodes are dropped, and those left are told apart by more requests.

    Attributes
    ----------
    start_prices : int64 array, shape (n,)
        u, at which nodes are dropped; of requests not followed yet the least cost of a start.
    followed, tracked : tuple[int, ...]
        Requests that nodes are told apart by from now on: by whether they are active and since
        when, and by whether they have been started.
    """

    start_prices: IntArray
    followed: tuple[int, ...] = ()
    tracked: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class PathPrices:
    """Prices, and what leaves no path with a total latency within a limit (`hindsight.paths`).

    Attributes
    ----------
    prices : StatePrices
        Of what runs together.
    limit : int
        Total latency that no schedule keeps within.
    stages : tuple[PathStage, ...]
        After the last of them no path is left.
    """

    prices: StatePrices
    limit: int
    stages: tuple[PathStage, ...]


def moved_proof(proof: Proof, arrival_times: IntArray, shifts: IntArray) -> Proof:
    """Prices of an instance without idle gaps as prices of the original one.

    The prices from a block's first arrival on move with the block; the gaps get none. The bound may
    be weaker there, so it is evaluated anew.

    Parameters
    ----------
    proof : Proof
        Of the instance without its gaps.
    arrival_times : int64 array
        Of the instance without gaps, shape (n,).
    shifts : int64 array
        Rounds each request was moved towards 0, shape (n,); see `hindsight.bounds.idle_gaps`.
    """
    if not shifts.any():
        return proof
    if isinstance(proof, BranchedPrices):
        return BranchedPrices(
            tuple(
                (node[0], node[1] + int(shifts[node[0]]))
                if isinstance(node, tuple)
                else cast(MemoryPrices, moved_proof(node, arrival_times, shifts))
                for node in proof.nodes
            )
        )
    if isinstance(proof, PathPrices):
        # Start prices are of costs, which move with the blocks.
        moved_prices = moved_proof(proof.prices, arrival_times, shifts)
        if not isinstance(moved_prices, StatePrices):
            return moved_prices
        return PathPrices(moved_prices, proof.limit, proof.stages)
    if isinstance(proof, PreemptivePrices):
        old = proof.numerators[1:]
    else:
        old = proof.prices if isinstance(proof, StatePrices) else proof.numerators
    shift_of = _shift_of(len(old), arrival_times, shifts)
    length = len(old) + int(shift_of.max(initial=0))
    if length * int(np.prod(old.shape[1:], dtype=np.int64)) > LARGEST_MOVED:
        return MemoryPrices(np.zeros(0, dtype=np.int64), 1)
    moved = np.zeros((length, *old.shape[1:]), dtype=np.int64)
    moved[np.arange(len(old)) + shift_of] = old
    if isinstance(proof, StatePrices):
        return StatePrices(moved, proof.scale)
    if isinstance(proof, PreemptivePrices):
        return PreemptivePrices(np.concatenate([proof.numerators[:1], moved]), proof.denominator)
    return MemoryPrices(moved, proof.denominator)


def without_gaps(prices: StatePrices, arrival_times: IntArray, shifts: IntArray) -> StatePrices:
    """Prices of an instance as prices of the one without its idle gaps: `moved_proof` back.

    Parameters
    ----------
    prices : StatePrices
        Of the instance as given.
    arrival_times, shifts : int64 array
        As in `moved_proof`.
    """
    old = prices.prices
    moved = np.arange(len(old)) + _shift_of(len(old), arrival_times, shifts)
    return StatePrices(old[moved[moved < len(old)]], prices.scale)


def _shift_of(length: int, arrival_times: IntArray, shifts: IntArray) -> IntArray:
    """By how much each epoch of the instance without gaps moves, shape (length,)."""
    order = np.argsort(arrival_times, kind="stable")
    arrived = np.searchsorted(arrival_times[order], np.arange(length), side="right")
    shift_of: IntArray = np.concatenate([[0], shifts[order]])[arrived]
    return shift_of


@dataclass(frozen=True, eq=False)
class MemoryPrices:
    """Prices per token and round, ``numerators[r - 1] / denominator`` in round r >= 1.

    Rounds beyond ``len(numerators)`` have price 0.

    Raises
    ------
    InvalidValueError
        A negative price or a denominator below 1.
    """

    numerators: IntArray
    denominator: int

    def __post_init__(self) -> None:
        if self.denominator < 1:
            raise InvalidValueError("prices", "denominator", self.denominator, "is below 1")
        if len(self.numerators) and int(self.numerators.min()) < 0:
            worst = int(self.numerators.min())
            raise InvalidValueError("prices", "numerator", worst, "is negative")

    @property
    def horizon(self) -> int:
        """Last round with a price."""
        return len(self.numerators)

    def as_floats(self) -> npt.NDArray[np.float64]:
        """Prices as floats, shape (horizon,)."""
        return self.numerators / float(self.denominator)


@dataclass(frozen=True, eq=False)
class PreemptivePrices:
    """Prices of holding memory in a round, in units of 1 / ``denominator``.

    Attributes
    ----------
    numerators : int64 array, shape (T + 1, M + 1) or (T + 1, 1)
        ``numerators[r, m]`` is the price of holding m tokens in round r; with one column,
        ``numerators[r, 0]`` is that of a single token. Row 0 and column 0 of a table are 0.
    denominator : int
        At least 1.

    Raises
    ------
    InvalidValueError
        A negative price, or a denominator below 1.
    """

    numerators: IntArray
    denominator: int

    def __post_init__(self) -> None:
        if self.denominator < 1:
            raise InvalidValueError("prices", "denominator", self.denominator, "is below 1")
        if self.numerators.size and int(self.numerators.min()) < 0:
            worst = int(self.numerators.min())
            raise InvalidValueError("prices", "numerator", worst, "is negative")

    @property
    def is_linear(self) -> bool:
        """Whether a round has one price a token."""
        return bool(self.numerators.shape[1] == 1)


@dataclass(frozen=True, eq=False)
class BranchedPrices:
    """Memory prices that depend on when some requests start: a binary tree of cases.

    Attributes
    ----------
    nodes : tuple
        Preorder. A split (i, t) is followed by the nodes for schedules in which request i starts by
        round t, then by those for the others; a leaf is its prices.
    """

    nodes: tuple[tuple[int, int] | MemoryPrices, ...]


Proof = MemoryPrices | StatePrices | PathPrices | PreemptivePrices | BranchedPrices
