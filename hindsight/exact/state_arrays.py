"""Arrays of the forward search (`hindsight.exact.states`), as its compiled loops take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from instances.arrays import IntArray, RequestColumns

Masks = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

COST_SHIFT = 26
"""A cost is (TEL << COST_SHIFT) + sum of (s + o) t, exact while that sum is < 2^COST_SHIFT."""


class Layer(NamedTuple):
    """Arrays for the states of one epoch tau.

    Attributes
    ----------
    masks : uint64 array, shape (capacity, words)
        Started requests: request i is bit i % 64 of word i // 64.
    costs : int64 array, shape (capacity,)
        (TEL << COST_SHIFT) + sum of (s + o) t.
    bounds : int64 array, shape (capacity,)
        In units of 1 / SCALE.
    profiles : uint8 array, shape (capacity, largest o)
        Memory in round tau + 1 + j.
    histories : uint8 array, shape (capacity, H)
        Memory in round r at r % H.
    starts : int16 array, shape (capacity, n)
        Start times, -1 where not started.
    """

    masks: Masks
    costs: IntArray
    bounds: IntArray
    profiles: npt.NDArray[np.uint8]
    histories: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int16]


class Prices(NamedTuple):
    """Epoch prices and what follows from them, int64, in units of 1 / SCALE.

    Attributes
    ----------
    Q : int64 array, shape (T, M + 1, M + 1)
        Prices.
    W : int64 array, shape (T,)
        Capacities.
    P, u : int64 array, shape (n, T + 1)
        As `hindsight.prices.states.start_values` gives them.
    """

    Q: IntArray
    W: IntArray
    P: IntArray
    u: IntArray

    @property
    def root(self) -> int:
        """Return the bound of the empty schedule."""
        return int(self.u[:, 0].sum() - self.W.sum())


class Child(NamedTuple):
    """A child while requests are started in it.

    Attributes
    ----------
    mask, starts, profile, history : array
        Rows as those of a `Layer`; the profile has one round more.
    drifts, regrets, weights : int64 array, shape (n,)
        What it adds to drift, bound and slack when a request is not started at tau, when it is,
        and what it then takes of the epoch's capacity.
    candidates : int64 array, shape (n + 1,)
        Requests that may start at tau.
    chosen, depth : int64 array, shape (n + 1,), (1,)
        Places among the candidates of those that start, and their number where an expansion goes
        on.
    """

    mask: Masks
    starts: IntArray
    profile: IntArray
    history: IntArray
    drifts: IntArray
    regrets: IntArray
    weights: IntArray
    candidates: IntArray
    chosen: IntArray
    depth: IntArray

    @classmethod
    def room_in(cls, layer: Layer) -> Child:
        """Return work space for the children of states of a layer."""
        n, rounds = layer.starts.shape[1], layer.profiles.shape[1]
        sizes = (n, rounds + 1, layer.histories.shape[1], n, n, n, n + 1, n + 1, 1)
        columns = (np.zeros(size, np.int64) for size in sizes)
        return cls(np.zeros(layer.masks.shape[1], np.uint64), *columns)


class Expansion(NamedTuple):
    """Input and work arrays of an expansion.

    Attributes
    ----------
    layer, following : Layer
        States at tau, and room for their children.
    table : int64 array
        Hash table of the children, a power of two of places.
    columns : RequestColumns
        Lengths, arrivals and M.
    twin : int64 array, shape (n,)
        A request that may not start later than this one, or -1.
    random_keys : uint64 array, shape (largest o,)
        Random keys for the hash of a profile.
    prices : Prices
        Prices that bound states.
    child : Child
        Work space.
    """

    layer: Layer
    following: Layer
    table: IntArray
    columns: RequestColumns
    twin: IntArray
    random_keys: Masks
    prices: Prices
    child: Child
