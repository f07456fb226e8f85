"""Compiled kernels on a path graph: least costs from both ends, Gibbs weights, node splitting.

A node of a path graph is an epoch with a set of running requests and their starts
(`hindsight.paths.graph`). Node numbers decrease along arcs, from N - 1, the beginning of all paths,
to 0, their end. The arc from node g to the next epoch costs ``arcs[g]`` (`costs_of_arcs`). An arc
to a node at the same epoch, in which one more request starts, costs 0.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hindsight.runtime.compilation import njit, step
from instances.arrays import FloatArray, IntArray

from .layers import FAR, Codes, Flags, Masks, PathGraph


@partial(njit, makes_arrays=True)
def costs_of_arcs(graph: PathGraph, starts: IntArray, u: IntArray, o: IntArray) -> IntArray:
    """Return the cost of each node's arc to the next epoch, in units of 1 / SCALE rounds.

    A node is an epoch (time between two rounds) and the set of requests that run then, with their
    starts. Every path leaves each epoch by such an arc. Its cost is the slack of the node plus the
    regrets of the requests that complete on the arc. The slack is the capacity W of the epoch minus
    the largest total price of requests that can run in the node. W is at least the largest total
    price of requests that fit in memory. The regret of request i, started at t, is P_i(t) - u_i.
    ``starts`` has the priced costs P_i(t) (latency plus prices), ``u`` the start prices u_i
    (multipliers of "request i starts once"), and ``o`` the output lengths.
    """
    _, _, _, epochs, slacks, ended_first, ended_counts, ended = graph
    arcs = slacks.copy()
    for g in range(len(arcs)):
        for x in range(ended_first[g], ended_first[g] + ended_counts[g]):
            i = ended[x]
            arcs[g] += starts[i, epochs[g] + 1 - o[i]] - u[i]
    return arcs


@partial(njit, makes_arrays=True)
def costs_to_the_end(graph: PathGraph, arcs: IntArray) -> IntArray:
    """Return the least cost of a path from each node to the end, or `FAR` if there is no path.

    A node is an epoch (time between two rounds) and a set of requests that run then. arcs[g] is the
    cost of the arc from node g to the next epoch. All other arcs stay within an epoch: one more
    request starts. They cost 0.
    """
    later, parents = graph.later, graph.parents
    value = np.full(len(later), FAR)
    value[0] = 0
    for g in range(len(later)):
        h = later[g]
        if h >= 0 and value[h] < FAR:
            value[g] = min(value[g], value[h] + arcs[g])
        p = parents[g]
        if p >= 0 and value[g] < value[p]:
            value[p] = value[g]
    return value


@partial(njit, makes_arrays=True)
def costs_from_the_start(graph: PathGraph, arcs: IntArray) -> IntArray:
    """Return the least cost of a path from the beginning of the graph to each node.

    The cost is `FAR` if there is no path. A node is an epoch (time between two rounds) and a set of
    requests that run then. arcs[g] is the cost of the arc from node g to the next epoch. All other
    arcs stay within an epoch: one more request starts. They cost 0.
    """
    later, parents = graph.later, graph.parents
    value = np.full(len(later), FAR)
    value[len(later) - 1] = 0
    for g in range(len(later) - 1, -1, -1):
        p = parents[g]
        if p >= 0:
            value[g] = value[p]
        h = later[g]
        if h >= 0 and value[g] < FAR:
            value[h] = min(value[h], value[g] + arcs[g])
    return value


@partial(njit, makes_arrays=True)
def gibbs_paths(
    graph: PathGraph, arcs: IntArray, value: IntArray, heat: float, requests: int
) -> FloatArray:
    """Return the mean number of completions of each request over paths with Gibbs weights.

    A path has the Gibbs weight exp(-cost / heat), where the temperature ``heat`` has the unit of
    costs. arcs[g] is the cost of the arc from node g to the next epoch (time between two rounds).
    All other arcs stay within an epoch: one more request starts. They cost 0. value[g] is the least
    cost of a path from node g to the end (`costs_to_the_end`), and ``requests`` the number of
    requests.

    To avoid overflow, the weights of all paths from node g to the end are divided by the largest
    one, exp(-value[g] / heat). Each is then at most 1, and their sum at most the number of these
    paths.
    """
    later, parents, _, _, _, ended_first, ended_counts, ended = graph
    size = len(later)
    weights, shares, completions = np.zeros(size), np.zeros(size), np.zeros(requests)
    weights[0] = 1.0
    for g in range(1, size):
        h = later[g]
        if h >= 0 and weights[h] > 0.0:
            weights[g] += np.exp((value[g] - value[h] - arcs[g]) / heat) * weights[h]
        p = parents[g]
        if p >= 0 and weights[g] > 0.0:
            weights[p] += np.exp((value[p] - value[g]) / heat) * weights[g]
    shares[size - 1] = 1.0
    for g in range(size - 1, 0, -1):
        if weights[g] <= 0.0:
            continue
        p = parents[g]
        if p >= 0 and shares[p] > 0.0:
            part = np.exp((value[p] - value[g]) / heat) * weights[g] / weights[p]
            shares[g] += shares[p] * part
        h = later[g]
        if h >= 0 and shares[g] > 0.0 and weights[h] > 0.0:
            part = np.exp((value[g] - value[h] - arcs[g]) / heat) * weights[h] / weights[g]
            shares[h] += shares[g] * part
            for x in range(ended_first[g], ended_first[g] + ended_counts[g]):
                completions[ended[x]] += shares[g] * part
    return completions


def grouped(targets: Codes) -> tuple[IntArray, Codes]:
    """Group the nodes v of a graph by targets[v], the node at the other end of an arc of v.

    targets[v] is -1 if v has no such arc. Return two arrays, ``first`` and ``members``: g is the
    target of the nodes members[first[g]:first[g + 1]].
    """
    nodes = np.flatnonzero(targets >= 0)
    pairs = np.ones(len(nodes), np.bool_), (targets[nodes], nodes)
    matrix = sp.csr_array(pairs, (len(targets), len(targets)))
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)


@partial(njit, makes_arrays=True)
def best_path(
    graph: PathGraph, arcs: IntArray, value: IntArray, requests: int
) -> tuple[IntArray, IntArray]:
    """Return each request's last start on a cheapest path, and how often the path starts it.

    A path may start a request several times or never. The last start is 0 if the path never starts
    the request. arcs[g] is the cost of the arc from node g to the next epoch (time between two
    rounds). All other arcs cost 0. value[g] is the least cost of a path from node g to the end
    (`costs_to_the_end`), and ``requests`` the number of requests. Node numbers decrease along a
    path, so one pass through the nodes finds all starts.
    """
    starts, counts = np.zeros(requests, np.int64), np.zeros(requests, np.int64)
    g: Any = len(graph.later) - 1
    while g > 0:
        h = graph.later[g]
        if h >= 0 and value[h] < FAR and value[h] + arcs[g] == value[g]:
            g = np.int64(h)
            continue
        following = g - 1
        while following >= 0 and (graph.parents[following] != g or value[following] != value[g]):
            following -= 1
        if following < 0:
            break
        g = following
        counts[graph.requests[g]] += 1
        starts[graph.requests[g]] = graph.epochs[g]
    return starts, counts


def keep_nodes(graph: PathGraph, chosen: IntArray) -> PathGraph:
    """Return the subgraph of the nodes ``chosen``, which get the numbers 0, 1, ... in this order.

    Arcs to nodes not chosen are removed. The array ``ended`` (requests that complete, node by node)
    is shared with ``graph``.
    """
    # new[g] is the number of node g in the subgraph, or -1 if it is not chosen. A node without an
    # arc has -1 as its target. Index -1 reads the extra last entry of ``new``, which stays -1.
    new = np.full(len(graph.later) + 1, -1, np.int32)
    new[chosen] = np.arange(len(chosen), dtype=np.int32)
    columns: Any = [column[chosen] for column in graph[2:-1]]
    later, parents = new[graph.later[chosen]], new[graph.parents[chosen]]
    return PathGraph._make([later, parents, *columns, graph.ended])


class Split(NamedTuple):
    """Copies of the nodes of a path graph, which record more than the nodes themselves.

    A node records which requests run, but not which have completed. Its copies also record, for
    some *tracked* requests, whether the paths to the copy have started them. A node has one copy
    for each set of tracked requests that some path to the node has started. Below, an *old* node is
    one of the N nodes of the graph, and a *new* node is one of the copies. ``capacity`` is the
    largest number of copies.

    Attributes
    ----------
    heads : int32 array, shape (N,)
        New node that was added last for each old node, or -1 if there is none.
    linked : int32 array, shape (capacity,)
        For each new node, the new node of the same old node that was added before it, or -1.
    old : int32 array, shape (capacity,)
        Old node of each new node.
    masks : uint64 array, shape (capacity,)
        Tracked requests that paths to each new node have started, one bit per request.
    costs : int64 array, shape (capacity,)
        Least cost of a path from the beginning to the new node, in units of 1 / SCALE rounds.
    later, parents : int32 array, shape (capacity,)
        Arcs between new nodes, as in `PathGraph`: the node reached at the next epoch (time between
        two rounds), and the node with one start less at the same epoch. Each is -1 if there is
        none.
    alive : bool array, shape (capacity,)
        False if every path through the new node costs more than `Tracking.budget`, or if the paths
        to the new node have not started a tracked request that no later arc starts.
    """

    heads: Codes
    linked: Codes
    old: Codes
    masks: Masks
    costs: IntArray
    later: Codes
    parents: Codes
    alive: Flags


SPLIT_COLUMNS = (np.int32, np.int32, np.uint64, np.int64, np.int32, np.int32, np.bool_)
"""Types of the arrays of `Split` after ``heads``, in the order of fields: one entry per copy."""


class Tracking(NamedTuple):
    """Inputs of `split_nodes`: costs in a path graph, requests to track, and a limit on costs.

    To *track* a request is to record in the nodes of the graph whether it has been started. Each
    node is at an epoch, the time between two rounds.

    Attributes
    ----------
    arcs, value : int64 array, shape (N,)
        Cost of the arc from each node to the next epoch, and least cost of a path from each node to
        the end, in units of 1 / SCALE rounds. All other arcs stay within an epoch: one more request
        starts. They cost 0.
    first, children : int64, int32 array
        Nodes grouped by their parent, the node with one start less at the same epoch. The nodes
        children[first[g]:first[g + 1]] are reached from node g by one more start.
    bits : uint64 array, shape (n,)
        Bit that stands for each tracked request in sets of requests, 0 for all other requests.
    required : uint64 array, shape (epochs,)
        For each epoch, a number whose bits are the tracked requests that no arc starts at this
        epoch or later. So a schedule starts them before it.
    budget : int
        Upper bound, in units of 1 / SCALE rounds, on the cost of each path that is a schedule
        within the limit on total latency. A path that costs more can be ignored.
    """

    arcs: IntArray
    value: IntArray
    first: IntArray
    children: Codes
    bits: Masks
    required: Masks
    budget: int


@step
def _add_node(split: Split, h: int, mask: Any, cost: int, parent: int, count: int) -> None:
    """Write a copy of graph node h, as entry ``count`` of the arrays ``split``.

    A copy stands for all paths to the node that have started the same *tracked* requests: it
    records which of these have been started. Each tracked request has a bit in ``mask``, which is 1
    if the paths have started it. ``cost`` is the least cost of such a path. ``parent`` is the copy
    from which a path reaches this copy by a start at the same epoch (time between two rounds), or
    -1 if there is none.
    """
    split.old[count], split.masks[count], split.costs[count] = h, mask, cost
    split.parents[count], split.later[count] = parent, -1
    split.linked[count] = split.heads[h]
    split.heads[h] = count


@step
def _start_another(graph: PathGraph, track: Tracking, split: Split, x: int, count: int) -> int:
    """Add the node copies that paths reach from node copy x by one more start at the same epoch.

    A node is an epoch (time between two rounds) and the set of requests that run then. A copy of a
    node stands for all paths to the node that have started the same *tracked* requests (those with
    a bit in ``track.bits``). ``count`` is the number of copies in ``split`` before this call.
    Return their number after the call, or -1 if the arrays are full.
    """
    g, mask, cost = split.old[x], split.masks[x], split.costs[x]
    for c in range(track.first[g], track.first[g + 1]):
        h = track.children[c]
        bit = track.bits[graph.requests[h]]
        # Copies record which tracked requests (those with a ``bit``) their paths have started. Skip
        # this start if it would start such a request again. Also skip it if every path with this
        # start costs more than ``track.budget``. Such a path is not a schedule within the limit on
        # total latency.
        if bit & mask != 0 or track.value[h] >= FAR or cost + track.value[h] > track.budget:
            continue
        if count >= len(split.old):
            return -1
        _add_node(split, h, mask | bit, cost, x, count)
        count += 1
    return count


@step
def _go_on(graph: PathGraph, track: Tracking, split: Split, x: int, count: int) -> int:
    """Link node copy x to the copy that it reaches at the next epoch. Add that copy if missing.

    A node is an epoch (time between two rounds) and the set of requests that run then. A copy of a
    node stands for all paths to the node that have started the same *tracked* requests (those with
    a bit in ``track.bits``). ``count`` is the number of copies in ``split`` before this call.
    Return their number after the call, or -1 if the arrays are full.
    """
    g = split.old[x]
    h = graph.later[g]
    cost = split.costs[x] + track.arcs[g]
    if h < 0 or track.value[h] >= FAR or cost + track.value[h] > track.budget:
        return count
    # Look for the copy of node h that records the same started requests as copy x. The list of
    # copies of a node is short: it has one entry for each set of tracked requests that paths to the
    # node have started.
    y = split.heads[h]
    while y >= 0 and split.masks[y] != split.masks[x]:
        y = split.linked[y]
    if y < 0:
        if count >= len(split.old):
            return -1
        y = count
        _add_node(split, h, split.masks[x], cost, -1, count)
        count += 1
    elif cost < split.costs[y]:
        split.costs[y] = cost
    split.later[x] = y
    return count


@njit
def split_nodes(graph: PathGraph, track: Tracking, split: Split) -> int:
    """Copy each graph node once for each set of tracked requests that paths to the node started.

    An epoch is the time between two rounds. Tracked requests, those with a bit in ``track.bits``,
    are those of which copies record whether they have been started. A copy is made only for paths
    that have started no tracked request twice and cost at most ``track.budget``. Other paths are no
    schedules within the limit on total latency. A copy is marked as not alive, and gets no arcs, if
    its paths have passed the last epoch at which an arc starts some tracked request, but have not
    started this request. The copies are written to ``split``. Return their number, or -1 if the
    arrays are full.
    """
    value, budget = track.value, track.budget
    last, count = len(value) - 1, 1
    _add_node(split, last, np.uint64(0), 0, -1, 0)
    for g in range(last, -1, -1):
        x = split.heads[g]
        need = track.required[graph.epochs[g]]
        while x >= 0:
            # Copies of nodes record which tracked requests have been started. ``missing`` has one
            # bit for each tracked request that no arc starts at this epoch (time between two
            # rounds) or later, and that the paths to copy x have not started.
            missing = need & ~split.masks[x]
            if value[g] < FAR and split.costs[x] + value[g] <= budget and missing == 0:
                split.alive[x] = True
                count = _start_another(graph, track, split, x, count)
                if count >= 0:
                    count = _go_on(graph, track, split, x, count)
                if count < 0:
                    return -1
            x = split.linked[x]
    return count
