"""Arrays of a graph of paths, and of one epoch that is added to it (`hindsight.paths.graph`).

A node at an epoch is a set of active followed requests with their starts, (i, t) as the code
(i << START_BITS) + t, sorted by start, then by index.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.exact.state_arrays import Flags, Masks
from instances.arrays import IntArray, RequestColumns

from .anonymous_states import AnonymousStates

START_BITS = 15
"""Starts, and hence epochs, are below 2^START_BITS."""

FAR = np.int64(1 << 60)
"""Cost above that of any path."""

Codes = npt.NDArray[np.int32]
Shorts = npt.NDArray[np.int16]


class PathGraph(NamedTuple):
    """Graph of paths, see `hindsight.paths.graph`; node 0 is its end, node N - 1 its beginning.

    Attributes
    ----------
    later : int32 array, shape (N,)
        The node reached when nothing more starts, or -1.
    parents : int32 array, shape (N,)
        The node before the last start, or -1 where nothing starts.
    requests : int16 array, shape (N,)
        Request that started last, or -1.
    epochs : int16 array, shape (N,)
        tau.
    slacks : int64 array, shape (N,)
        Slack of tau, for nodes that have a ``later`` node.
    ended_first, ended_counts : int32, int16 array, shape (N,)
        Position in ``ended``, and number, of the requests that complete in round tau + 1.
    ended : int16 array
        Numbers of requests.
    """

    later: Codes
    parents: Codes
    requests: Shorts
    epochs: Shorts
    slacks: IntArray
    ended_first: Codes
    ended_counts: Shorts
    ended: Shorts


COLUMNS = (np.int32, np.int32, np.int16, np.int16, np.int64, np.int32, np.int16)
"""Types of the columns of a graph that have an entry for each node."""


class CoarserGraph(NamedTuple):
    """Graph of fewer followed requests, which bounds the cost of a path up to a node.

    Attributes
    ----------
    graph : PathGraph
        The coarser graph.
    followed : bool array, shape (n,)
        The requests that it follows.
    first, earlier : int64, int32 array
        The nodes whose ``later`` is g are earlier[first[g]:first[g + 1]].
    paid : int64 array, shape (N,)
        Least cost from the beginning of the graph.
    """

    graph: PathGraph
    followed: Flags
    first: IntArray
    earlier: Codes
    paid: IntArray


class Sets(NamedTuple):
    """Sets of active followed requests of one epoch.

    Attributes
    ----------
    members : int32 array, shape (capacity, most members)
        Codes of (i, t).
    sizes : int64 array, shape (capacity,)
        Number of members of each set.
    keys : uint64 array, shape (capacity,)
        Hashes.
    costs : int64 array, shape (capacity,)
        Least cost from here to the end.
    coarser : int32 array, shape (capacity,)
        Node of the coarser graph.
    nodes : int64 array, shape (capacity,)
        Number of the node, counted from the first one of the epoch until that is in the graph.
    """

    members: Codes
    sizes: IntArray
    keys: Masks
    costs: IntArray
    coarser: Codes
    nodes: IntArray

    @classmethod
    def room(cls, capacity: int, most: int) -> Sets:
        """Create arrays for so many sets of up to ``most`` members."""
        kinds = np.int64, np.uint64, np.int64, np.int32, np.int64
        columns = (np.zeros(capacity, kind) for kind in kinds)
        return cls._make([np.zeros((capacity, most), np.int32), *columns])


class Scratch(NamedTuple):
    """Work arrays for the nodes of one epoch, in the order in which they are found.

    Attributes
    ----------
    table : int64 array
        Hash table with open addressing and a power of two of places: number of a node plus 1, or 0
        where free; cleared after each epoch.
    later, slacks, ended_first, ended_counts : int64 array, shape (capacity,)
        As in the graph.
    parents : int64 array, shape (capacity,)
        The node before the last start by its position here, or -1.
    slots : int64 array, shape (capacity,)
        Place of each node in the table.
    fresh : int64 array, shape (capacity,)
        Number of members that start at this epoch.
    """

    table: IntArray
    later: IntArray
    slacks: IntArray
    ended_first: IntArray
    ended_counts: IntArray
    parents: IntArray
    slots: IntArray
    fresh: IntArray


class Blocks(NamedTuple):
    """Tokens that requests hold in whole blocks; blocks of one token where tokens are counted.

    Attributes
    ----------
    size : int
        Tokens of a block.
    stored, peaks : int64 array, shape (n,)
        Tokens stored before the first token is, and held in the last round.
    """

    size: int
    stored: IntArray
    peaks: IntArray


class Extension(NamedTuple):
    """Data from which the nodes at an epoch are built.

    Attributes
    ----------
    tau : int
        The epoch.
    room : int
        Most nodes of the epoch.
    capacity : int
        At least the heaviest configuration at tau.
    prices : int64 array, shape (M + 1, M + 1)
        Epoch prices at tau.
    budget : int
        Largest cost of a path.
    regrets : int64 array, shape (n, epochs + 1)
        Priced cost of starting i at t, less u_i.
    requests : RequestColumns
        The requests.
    blocks : Blocks
        What they hold, in whole blocks.
    added : int64 array
        Requests followed here and not in the coarser graph, increasing.
    kinds : int64 array, shape (n,)
        Equal for identical requests; those of a kind are followed together.
    keys : uint64 array, shape (n, epochs + 1)
        Random numbers for hashes.
    above : Sets
        The nodes at tau + 1 in which nothing starts.
    coarser : CoarserGraph
        The graph of fewer followed requests.
    """

    tau: int
    room: int
    capacity: int
    prices: IntArray
    budget: int
    regrets: IntArray
    requests: RequestColumns
    blocks: Blocks
    added: IntArray
    kinds: IntArray
    keys: Masks
    above: Sets
    coarser: CoarserGraph


class Members(NamedTuple):
    """A set of the next epoch at this one, and behind it those that complete in round tau + 1.

    Attributes
    ----------
    held, rounds : int64 array
        (m, r) of each.
    chosen, places : int64 array
        Of those that complete the request, and its position in ``added`` if it is added.
    order : int64 array
        Work space.
    """

    held: IntArray
    rounds: IntArray
    chosen: IntArray
    places: IntArray
    order: IntArray


class Found(NamedTuple):
    """Room for the nodes at an epoch.

    Attributes
    ----------
    here, scratch : Sets, Scratch
        Their sets, and what is known of them.
    ended : int16 array
        As in the graph.
    states : AnonymousStates
        Of the epoch.
    members : Members
        Work space, one entry more than requests may run at once.
    """

    here: Sets
    scratch: Scratch
    ended: Shorts
    states: AnonymousStates
    members: Members
