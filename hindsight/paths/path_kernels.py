"""Compiled kernels on a path graph: least costs from both ends, Gibbs weights, node splitting.

Node numbers decrease along arcs, from the beginning N - 1 to the end 0 (`hindsight.paths.graph`).
The arc from a node to the next epoch costs ``arcs[g]`` (`costs_of_arcs`); arcs to nodes with one
more start cost 0.
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
    """Return the cost of each node's arc to the next epoch.

    It is the slack of the node, plus the regret P - u of each request that completes.
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
    """Return the least cost from each node to the end, FAR if there is no path."""
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
    """Return the least cost from the beginning to each node, FAR if there is no path."""
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
    """Return the mean completions of each request, if paths have weights exp(-cost / heat).

    ``value`` is from `costs_to_the_end`. Weights are relative to exp(-value / heat) of a node, so
    none exceeds the number of paths.
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
    """Group nodes by their target node, -1 if none.

    Return ``first`` and ``members``: the nodes with target g are members[first[g]:first[g + 1]].
    """
    nodes = np.flatnonzero(targets >= 0)
    pairs = np.ones(len(nodes), np.bool_), (targets[nodes], nodes)
    matrix = sp.csr_array(pairs, (len(targets), len(targets)))
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)


@partial(njit, makes_arrays=True)
def best_path(
    graph: PathGraph, arcs: IntArray, value: IntArray, requests: int
) -> tuple[IntArray, IntArray]:
    """Return the last start of each request on a cheapest path, and its number of starts there.

    Node numbers decrease along a path, so one pass through the nodes finds all starts.
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
    """Return the subgraph of the chosen nodes, numbered in the order of ``chosen``.

    Its array ``ended`` is that of the graph.
    """
    # Index -1, which means no node, reads the last entry: that entry must stay -1.
    new = np.full(len(graph.later) + 1, -1, np.int32)
    new[chosen] = np.arange(len(chosen), dtype=np.int32)
    columns: Any = [column[chosen] for column in graph[2:-1]]
    later, parents = new[graph.later[chosen]], new[graph.parents[chosen]]
    return PathGraph._make([later, parents, *columns, graph.ended])


class Split(NamedTuple):
    """Nodes of a graph, split by which tracked requests have been started.

    Attributes
    ----------
    heads : int32 array, shape (N,)
        The new node added last for each old node, or -1.
    linked : int32 array, shape (capacity,)
        The new node added before for the same old node, or -1.
    old : int32 array, shape (capacity,)
        Old node of each new node.
    masks : uint64 array, shape (capacity,)
        Set of tracked requests that have been started, as bits.
    costs : int64 array, shape (capacity,)
        Least cost of a path from the beginning to the node.
    later, parents : int32 array, shape (capacity,)
        Arcs, as in `PathGraph`.
    alive : bool array, shape (capacity,)
        Whether a path within the limit may pass the node.
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
"""Types of the columns of a `Split` that have an entry for each new node."""


class Tracking(NamedTuple):
    """Data from which nodes are split by tracked requests, and a limit on the cost of paths.

    Attributes
    ----------
    arcs, value : int64 array, shape (N,)
        Costs of arcs, and least costs from nodes to the end.
    first, children : int64, int32 array
        Nodes with one more start, `grouped` by the node before that start.
    bits : uint64 array, shape (n,)
        Bit of each tracked request; 0 for all others.
    required : uint64 array, shape (epochs,)
        For each epoch, the tracked requests that no arc starts then or later, as bits.
    budget : int
        Largest cost of a path.
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
    """Write new node ``count`` for old node h."""
    split.old[count], split.masks[count], split.costs[count] = h, mask, cost
    split.parents[count], split.later[count] = parent, -1
    split.linked[count] = split.heads[h]
    split.heads[h] = count


@step
def _start_another(graph: PathGraph, track: Tracking, split: Split, x: int, count: int) -> int:
    """Add the nodes with one more start than new node x.

    Return the number of new nodes, or -1 if the arrays are full.
    """
    g, mask, cost = split.old[x], split.masks[x], split.costs[x]
    for c in range(track.first[g], track.first[g + 1]):
        h = track.children[c]
        bit = track.bits[graph.requests[h]]
        # A tracked request starts only once.
        if bit & mask != 0 or track.value[h] >= FAR or cost + track.value[h] > track.budget:
            continue
        if count >= len(split.old):
            return -1
        _add_node(split, h, mask | bit, cost, x, count)
        count += 1
    return count


@step
def _go_on(graph: PathGraph, track: Tracking, split: Split, x: int, count: int) -> int:
    """Add the node that new node x leads to at the next epoch, unless it exists already.

    Return the number of new nodes, or -1 if the arrays are full.
    """
    g = split.old[x]
    h = graph.later[g]
    cost = split.costs[x] + track.arcs[g]
    if h < 0 or track.value[h] >= FAR or cost + track.value[h] > track.budget:
        return count
    # The list is short: one new node per set of tracked requests.
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
    """Split all nodes, in the order of paths, by which tracked requests have been started.

    Return the number of new nodes, or -1 if the arrays are full. A tracked request starts at most
    once, and by the last epoch in which an arc starts it.
    """
    value, budget = track.value, track.budget
    last, count = len(value) - 1, 1
    _add_node(split, last, np.uint64(0), 0, -1, 0)
    for g in range(last, -1, -1):
        x = split.heads[g]
        need = track.required[graph.epochs[g]]
        while x >= 0:
            # Tracked requests that must have started before this epoch, but have not.
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
