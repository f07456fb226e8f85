"""Arrays of a path graph, and of the epoch that is being added to it (`hindsight.paths.graph`).

A path graph *follows* some requests. A node at an epoch is the set of followed requests i that run
then, with their starts t. Each request of a node is stored as the code (i << START_BITS) + t. The
codes of a node are sorted by start, then by index.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from instances.arrays import IntArray, RequestColumns

from .anonymous_states import AnonymousStates

START_BITS = 15
"""Number of bits of the start t in the code (i << START_BITS) + t of a request i and its start."""

FAR = np.int64(1 << 60)
"""Cost that marks graph nodes on no path. Any path costs less, in units of 1 / SCALE rounds."""

Codes = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Masks = npt.NDArray[np.uint64]
Shorts = npt.NDArray[np.int16]


class PathGraph(NamedTuple):
    """Path graph: all schedules within a limit on total latency are among its paths.

    The *followed* requests of a graph are those whose starts its nodes record. Epoch tau is the
    time between rounds tau and tau + 1. A node is an epoch tau and the set of followed requests
    that run then, with their starts. There are two kinds of arcs: to a node at the same epoch in
    which one more request starts, and to a node at the next epoch. Node N - 1 is the beginning of
    all paths, and node 0 their end.

    Attributes
    ----------
    later : int32 array, shape (N,)
        Node at the next epoch that is reached if no further followed request starts at tau, or -1
        if there is no such arc.
    parents : int32 array, shape (N,)
        Parent of the node: the same set of requests without the last one that starts at tau. It is
        -1 if no request of the node starts at tau.
    requests : int16 array, shape (N,)
        Request of the node that its parent lacks, so it starts on the arc from the parent. It is -1
        if there is no parent.
    epochs : int16 array, shape (N,)
        Epoch tau of the node.
    slacks : int64 array, shape (N,)
        Slack of the node, in units of 1 / SCALE rounds: the capacity of epoch tau minus the total
        price of the node's requests and of the most expensive other requests that fit in memory
        with them. The capacity is at least the largest total price of any requests that fit. Used
        only if ``later`` is not -1.
    ended_first, ended_counts : int32, int16 array, shape (N,)
        Followed requests of the node that complete in round tau + 1: the position of the first of
        them in ``ended``, and their number.
    ended : int16 array
        Indices of the followed requests that complete in the round after each node's epoch, node by
        node.
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
"""Types of the arrays of a `PathGraph` that have an entry for each node, in the order of fields."""


class CoarserGraph(NamedTuple):
    """Path graph that records the starts of fewer requests than the graph being built.

    An epoch is the time between two rounds. The *followed* requests of a graph are those whose
    starts its nodes record while these requests run. Let y be a node of the graph being built, and
    y' the node of the coarser graph with the same requests, without those that are not followed
    there. The least cost of a path to y' is a lower bound on the cost of paths to y.

    Attributes
    ----------
    graph : PathGraph
        The coarser graph.
    followed : bool array, shape (n,)
        Whether each request is followed in the coarser graph.
    first, earlier : int64, int32 array
        Nodes grouped by their successor at the next epoch (``graph.later``). Node g is the
        successor of the nodes earlier[first[g]:first[g + 1]].
    paid : int64 array, shape (N,)
        Least cost of a path from the beginning of the coarser graph to each of its nodes, in units
        of 1 / SCALE rounds.
    """

    graph: PathGraph
    followed: Flags
    first: IntArray
    earlier: Codes
    paid: IntArray


class Sets(NamedTuple):
    """Nodes of a path graph at one epoch: sets of followed requests that run, with their starts.

    An epoch is the time between two rounds. The *followed* requests of a graph are those whose
    starts its nodes record. ``capacity`` is the largest number of nodes for which the arrays have
    room.

    Attributes
    ----------
    members : int32 array, shape (capacity, most members)
        Codes (i << START_BITS) + t of the requests i of each set and their starts t, sorted by
        start, then by index.
    sizes : int64 array, shape (capacity,)
        Number of requests of each set.
    keys : uint64 array, shape (capacity,)
        Hash of each set.
    costs : int64 array, shape (capacity,)
        Least cost of a path from the node to the end of the graph, in units of 1 / SCALE rounds.
    coarser : int32 array, shape (capacity,)
        Node of a coarser graph, whose nodes record the starts of fewer requests: this set without
        the requests whose starts the coarser graph does not record.
    nodes : int64 array, shape (capacity,)
        Number of the node: within its epoch until the nodes of the epoch are written to the graph,
        and in the whole graph afterwards.
    """

    members: Codes
    sizes: IntArray
    keys: Masks
    costs: IntArray
    coarser: Codes
    nodes: IntArray

    @classmethod
    def room(cls, capacity: int, most: int) -> Sets:
        """Allocate arrays for ``capacity`` sets of up to ``most`` running requests."""
        kinds = np.int64, np.uint64, np.int64, np.int32, np.int64
        columns = (np.zeros(capacity, kind) for kind in kinds)
        return cls._make([np.zeros((capacity, most), np.int32), *columns])


class Scratch(NamedTuple):
    """Work arrays for the nodes of one epoch of a path graph, in the order in which they are found.

    An epoch is the time between two rounds. A node is a set of running requests with their starts.
    ``capacity`` is the largest number of nodes for which the arrays have room.

    Attributes
    ----------
    table : int64 array
        Hash table with 2^k entries that finds a node by its set of running requests. An entry is
        the index of a node plus 1, or 0 if it is free. The table is cleared after each epoch.
    later, slacks, ended_first, ended_counts : int64 array, shape (capacity,)
        The arrays of these names of a `PathGraph`, for the nodes of this epoch.
    parents : int64 array, shape (capacity,)
        Index in these arrays of the node's parent: the node without its last request that starts at
        this epoch. It is -1 if no request starts at this epoch.
    slots : int64 array, shape (capacity,)
        Position of each node in the hash table ``table``.
    fresh : int64 array, shape (capacity,)
        Number of requests of each node that start at this epoch.
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
    """KV cache memory of each request, which is allocated in whole blocks of ``size`` tokens.

    Attributes
    ----------
    size : int
        Tokens per block. It is 1 if memory is not allocated in blocks.
    stored, peaks : int64 array, shape (n,)
        ``stored`` are the tokens that each request stores before its first output token. ``peaks``
        are the tokens that it occupies in its last round, rounded up to whole blocks.
    """

    size: int
    stored: IntArray
    peaks: IntArray


class Extension(NamedTuple):
    """Inputs of the step that adds the nodes at epoch tau to a path graph.

    The *followed* requests of a graph are those whose starts its nodes record. Epoch tau is the
    time between rounds tau and tau + 1.

    Attributes
    ----------
    tau : int
        The epoch.
    room : int
        Largest number of nodes at this epoch.
    capacity : int
        Capacity W_tau of epoch tau: at least the largest total price of requests that can run
        together at tau, in units of 1 / SCALE rounds.
    prices : int64 array, shape (M + 1, M + 1)
        Entry (m, r): price at tau of a request that holds m tokens and has r rounds to go, in units
        of 1 / SCALE rounds.
    budget : int
        Upper bound, in units of 1 / SCALE rounds, on the cost of each path that is a schedule
        within the limit on total latency.
    regrets : int64 array, shape (n, epochs + 1)
        Entry (i, t): regret (reduced cost) of starting request i at t, in units of 1 / SCALE
        rounds. It is the priced cost of this start (latency plus prices of states) minus the start
        price u_i of the request. u_i is the multiplier of "request i starts once".
    requests : RequestColumns
        Lengths, arrivals and the memory limit M.
    blocks : Blocks
        Memory of the requests, in whole blocks.
    added : int64 array
        Requests that are followed in this graph but not in the coarser graph, in increasing order.
    kinds : int64 array, shape (n,)
        Number of the class of each request. Identical requests are of one class.
    keys : uint64 array, shape (n, epochs + 1)
        Random number for each request i and start t, from which sets of running requests are
        hashed.
    above : Sets
        Entry nodes of epoch tau + 1: those in which no request starts at tau + 1. Arcs from nodes
        at tau lead to them.
    coarser : CoarserGraph
        Graph with fewer followed requests. The costs of its paths show which nodes need not be
        built.
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
    """Workspace: the requests that run at epoch tau in the node that is being built.

    Epoch tau is the time between rounds tau and tau + 1. Only followed requests are listed: those
    whose starts the path graph records. In each array, the requests that also run at tau + 1 come
    first, and those that complete in round tau + 1 come after them.

    Attributes
    ----------
    held, rounds : int64 array
        Tokens held and rounds to go of each of these requests at tau.
    chosen, places : int64 array
        For each request that completes in round tau + 1: its index, and its position in
        `Extension.added` if it is in that array. Entries of other requests are not used.
    order : int64 array
        Array in which `heaviest_beside` sorts these requests.
    """

    held: IntArray
    rounds: IntArray
    chosen: IntArray
    places: IntArray
    order: IntArray


class Found(NamedTuple):
    """Output arrays and workspace for the nodes of a path graph at one epoch tau.

    Epoch tau is the time between rounds tau and tau + 1.

    Attributes
    ----------
    here, scratch : Sets, Scratch
        Sets of running requests of the nodes found, and further data of these nodes.
    ended : int16 array
        Indices of the requests that complete in round tau + 1, node by node, as in `PathGraph`.
    states : AnonymousStates
        States at this epoch of the requests whose starts the graph does not record.
    members : Members
        Workspace, one entry longer than the largest number of requests that run together.
    """

    here: Sets
    scratch: Scratch
    ended: Shorts
    states: AnonymousStates
    members: Members
