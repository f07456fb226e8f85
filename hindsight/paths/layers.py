"""Arrays of a path graph, and of the epoch that is being added to it (`hindsight.paths.graph`).

A node at an epoch is a set of active followed requests i with their starts t. Each member is stored
as the code (i << START_BITS) + t, sorted by start, then by index.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from instances.arrays import IntArray, RequestColumns

from .anonymous_states import AnonymousStates

START_BITS = 15
"""Bits of a start in the code of a member: epochs are below 2^START_BITS."""

FAR = np.int64(1 << 60)
"""Cost of a node that no path reaches, above that of any path, in units of 1 / SCALE."""

Codes = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Masks = npt.NDArray[np.uint64]
Shorts = npt.NDArray[np.int16]


class PathGraph(NamedTuple):
    """Path graph (`hindsight.paths.graph`). Node 0 is its end, node N - 1 its beginning.

    Attributes
    ----------
    later : int32 array, shape (N,)
        Node at the next epoch that is reached if no further request starts, or -1.
    parents : int32 array, shape (N,)
        Node before the last start at this epoch, or -1 if no request starts at it.
    requests : int16 array, shape (N,)
        Request that started last at this epoch, or -1.
    epochs : int16 array, shape (N,)
        Epoch tau of the node.
    slacks : int64 array, shape (N,)
        Slack of the node, in units of 1 / SCALE, if it has a ``later`` node.
    ended_first, ended_counts : int32, int16 array, shape (N,)
        Followed requests that complete in round tau + 1: position of the first in ``ended``, and
        their number.
    ended : int16 array
        Indices of the requests that complete, grouped by node.
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
"""Types of the columns of a `PathGraph` that have an entry for each node."""


class CoarserGraph(NamedTuple):
    """Graph that follows fewer requests, and gives lower bounds on costs of paths up to a node.

    Attributes
    ----------
    graph : PathGraph
        The coarser graph.
    followed : bool array, shape (n,)
        The requests that it follows.
    first, earlier : int64, int32 array
        Nodes `grouped` by their ``later`` node: earlier[first[g]:first[g + 1]] lead to g.
    paid : int64 array, shape (N,)
        Least cost from the beginning of the graph to each node.
    """

    graph: PathGraph
    followed: Flags
    first: IntArray
    earlier: Codes
    paid: IntArray


class Sets(NamedTuple):
    """Sets of active followed requests at one epoch: the nodes of that epoch.

    Attributes
    ----------
    members : int32 array, shape (capacity, most members)
        Codes of the members (i, t), sorted by start, then by index.
    sizes : int64 array, shape (capacity,)
        Number of members of each set.
    keys : uint64 array, shape (capacity,)
        Hash of each set.
    costs : int64 array, shape (capacity,)
        Least cost from the set to the end of the graph.
    coarser : int32 array, shape (capacity,)
        Corresponding node of the coarser graph: the set without the requests added.
    nodes : int64 array, shape (capacity,)
        Number of the node, within its epoch until the epoch is stored, and then in the graph.
    """

    members: Codes
    sizes: IntArray
    keys: Masks
    costs: IntArray
    coarser: Codes
    nodes: IntArray

    @classmethod
    def room(cls, capacity: int, most: int) -> Sets:
        """Allocate arrays for ``capacity`` sets of up to ``most`` members."""
        kinds = np.int64, np.uint64, np.int64, np.int32, np.int64
        columns = (np.zeros(capacity, kind) for kind in kinds)
        return cls._make([np.zeros((capacity, most), np.int32), *columns])


class Scratch(NamedTuple):
    """Work arrays for the nodes of one epoch, in the order in which they are found.

    Attributes
    ----------
    table : int64 array
        Hash table of 2^k slots: index of a node plus 1, or 0 if the slot is free. It is cleared
        after each epoch.
    later, slacks, ended_first, ended_counts : int64 array, shape (capacity,)
        As in `PathGraph`.
    parents : int64 array, shape (capacity,)
        Index in these arrays of the node before the last start, or -1.
    slots : int64 array, shape (capacity,)
        Slot of each node in the table.
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
    """KV cache memory of requests, in whole blocks. Blocks of one token count tokens.

    Attributes
    ----------
    size : int
        Tokens per block.
    stored, peaks : int64 array, shape (n,)
        Tokens stored before the first output token, and tokens held in the last round.
    """

    size: int
    stored: IntArray
    peaks: IntArray


class Extension(NamedTuple):
    """Data from which the nodes at epoch tau are built.

    Attributes
    ----------
    tau : int
        The epoch.
    room : int
        Largest number of nodes of the epoch.
    capacity : int
        W_tau, the largest total price of a configuration at tau.
    prices : int64 array, shape (M + 1, M + 1)
        Epoch prices at tau.
    budget : int
        Largest cost of a path, in units of 1 / SCALE.
    regrets : int64 array, shape (n, epochs + 1)
        Regret (reduced cost) of starting request i at t: its priced cost less u_i.
    requests : RequestColumns
        The requests.
    blocks : Blocks
        Memory of the requests, in whole blocks.
    added : int64 array
        Requests followed here and not in the coarser graph, in increasing order.
    kinds : int64 array, shape (n,)
        Class of each request, equal for identical requests.
    keys : uint64 array, shape (n, epochs + 1)
        Random number of each member (i, t), from which sets are hashed.
    above : Sets
        The nodes at tau + 1 before any request starts at tau + 1.
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
    """Workspace: the members of a set at tau + 1, then requests that complete in round tau + 1.

    Attributes
    ----------
    held, rounds : int64 array
        State of each member at tau: tokens held and rounds to go.
    chosen, places : int64 array
        For each member that completes: the request, and its index in ``added`` if it is in there.
    order : int64 array
        Workspace of `heaviest_beside`.
    """

    held: IntArray
    rounds: IntArray
    chosen: IntArray
    places: IntArray
    order: IntArray


class Found(NamedTuple):
    """Output arrays and workspace for the nodes at an epoch.

    Attributes
    ----------
    here, scratch : Sets, Scratch
        Sets of the nodes found, and further data of these nodes.
    ended : int16 array
        As in `PathGraph`.
    states : AnonymousStates
        Anonymous states of the epoch.
    members : Members
        Workspace, one entry longer than the largest number of requests that run together.
    """

    here: Sets
    scratch: Scratch
    ended: Shorts
    states: AnonymousStates
    members: Members
