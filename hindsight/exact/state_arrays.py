"""Arrays of the forward search (`hindsight.exact.states`), in the form of its compiled loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from instances.arrays import IntArray, RequestColumns

Masks = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

COST_SHIFT = 26
"""A cost is (TEL << COST_SHIFT) + sum of (s + o) t, exact while that sum is < 2^COST_SHIFT; TEL is
the total latency."""


class Layer(NamedTuple):
    """The states of one epoch tau, as arrays.

    Attributes
    ----------
    masks : uint64 array, shape (capacity, words)
        Started requests: request i is bit i % 64 of word i // 64.
    costs : int64 array, shape (capacity,)
        (TEL << COST_SHIFT) + sum of (s + o) t over started requests.
    bounds : int64 array, shape (capacity,)
        Lower bounds on total latency, in units of 1 / SCALE.
    profiles : uint8 array, shape (capacity, largest o)
        Memory held in round tau + 1 + j, in column j.
    histories : uint8 array, shape (capacity, H)
        Memory held in round r, in column r % H.
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
    """Epoch prices and quantities computed from them, int64, in units of 1 / SCALE.

    Attributes
    ----------
    Q : int64 array, shape (T, M + 1, M + 1)
        Price of each state of a request at each epoch.
    W : int64 array, shape (T,)
        Capacity of each epoch: at least the largest total price of requests active together.
    P, u : int64 array, shape (n, T + 1)
        Priced cost of each start, and its minimum over later starts, as
        `hindsight.prices.states.start_values` returns them.
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
    """Workspace: the child of a state, while the requests that start at tau are enumerated.

    Attributes
    ----------
    mask, starts, profile, history : array
        Rows as in a `Layer`; the profile has one more round.
    drifts, regrets, weights : int64 array, shape (n,)
        For each request: the rise of the bound if it does not start at tau, the rise if it starts
        at tau, and the capacity of the epoch that it then takes.
    candidates : int64 array, shape (n + 1,)
        Requests that may start at tau.
    chosen, depth : int64 array, shape (n + 1,), (1,)
        Places in ``candidates`` of the requests that start, and their number when an expansion was
        interrupted.
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
        """Allocate the workspace for children of the states of a layer."""
        n, rounds = layer.starts.shape[1], layer.profiles.shape[1]
        sizes = (n, rounds + 1, layer.histories.shape[1], n, n, n, n + 1, n + 1, 1)
        columns = (np.zeros(size, np.int64) for size in sizes)
        return cls(np.zeros(layer.masks.shape[1], np.uint64), *columns)


class Expansion(NamedTuple):
    """Inputs, outputs and workspace of an expansion of the states of one epoch.

    Attributes
    ----------
    layer, following : Layer
        States at tau, and arrays for their children.
    table : int64 array
        Hash table of the children; its size is a power of two.
    columns : RequestColumns
        Lengths, arrivals and M.
    twin : int64 array, shape (n,)
        Twin that must start no later than this request, or -1.
    random_keys : uint64 array, shape (largest o,)
        Random keys for the hash of a profile.
    prices : Prices
        Prices from which the bounds of states are computed.
    child : Child
        Workspace.
    """

    layer: Layer
    following: Layer
    table: IntArray
    columns: RequestColumns
    twin: IntArray
    random_keys: Masks
    prices: Prices
    child: Child
