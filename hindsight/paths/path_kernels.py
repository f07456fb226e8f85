"""Compiled kernels over a graph of paths: least costs both ways, Gibbs weights, nodes split.

Numbers of nodes fall along arcs, from the beginning N - 1 to the end 0 (`hindsight.paths.graph`).
The arc from a node to the next epoch costs ``arcs[g]`` (`costs_of_arcs`), those to nodes in which
one request more starts cost 0. Long loops take a range of nodes, so that whoever calls them can
look at the clock in between.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hindsight.exact_search.state_search_kernels import Flags, Masks
from hindsight.runtime.compilation import njit
from instances.arrays import FloatArray, IntArray

from .layer_kernels import FAR, Codes, PathGraph


@njit
def costs_of_arcs(graph: PathGraph, starts: IntArray, u: IntArray, o: IntArray) -> IntArray:
    """What each arc to the next epoch costs: the slack, and P - u of all that complete."""
    _, _, _, epochs, slacks, ended_first, ended_counts, ended = graph
    arcs = slacks.copy()
    for g in range(len(arcs)):
        for x in range(ended_first[g], ended_first[g] + ended_counts[g]):
            i = ended[x]
            arcs[g] += starts[i, epochs[g] + 1 - o[i]] - u[i]
    return arcs


@njit
def costs_to_the_end(
    graph: PathGraph, arcs: IntArray, value: IntArray, begin: int, end: int
) -> None:
    """value[g]: least cost from node g to 0, begin <= g < end; FAR to begin with, 0 at node 0."""
    later, parents = graph.later, graph.parents
    for g in range(begin, end):
        h = later[g]
        if h >= 0 and value[h] < FAR:
            value[g] = min(value[g], value[h] + arcs[g])
        p = parents[g]
        if p >= 0 and value[g] < value[p]:
            value[p] = value[g]


@njit
def costs_from_the_start(
    graph: PathGraph, arcs: IntArray, value: IntArray, begin: int, end: int
) -> None:
    """value[g]: least cost from the last node to g, for end > g >= begin; FAR to begin with."""
    later, parents = graph.later, graph.parents
    for g in range(end - 1, begin - 1, -1):
        p = parents[g]
        if p >= 0:
            value[g] = value[p]
        h = later[g]
        if h >= 0 and value[g] < FAR:
            value[h] = min(value[h], value[g] + arcs[g])


@njit
def gibbs_paths(
    graph: PathGraph,
    arcs: IntArray,
    value: IntArray,
    heat: float,
    weights: FloatArray,
    shares: FloatArray,
    completions: FloatArray,
) -> None:
    """completions[i]: how often a path has i complete, paths weighted by exp(-cost / heat).

    ``value`` is that of `costs_to_the_end`: relative to it no weight exceeds the number of paths.
    ``weights`` and ``shares`` are scratch, shape (N,).
    """
    later, parents, _, _, _, ended_first, ended_counts, ended = graph
    size = len(later)
    weights[:] = 0.0
    shares[:] = 0.0
    completions[:] = 0.0
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


@njit
def grouped(targets: Codes) -> tuple[IntArray, Codes]:
    """The nodes with target g are members[first[g]:first[g + 1]]; -1 is no target."""
    size = len(targets)
    first = np.zeros(size + 1, np.int64)
    for g in range(size):
        if targets[g] >= 0:
            first[targets[g] + 1] += 1
    for g in range(size):
        first[g + 1] += first[g]
    place = first[:-1].copy()
    members = np.empty(first[size], np.int32)
    for g in range(size):
        p = targets[g]
        if p >= 0:
            members[place[p]] = g
            place[p] += 1
    return first, members


@njit
def best_path(
    graph: PathGraph,
    arcs: IntArray,
    value: IntArray,
    starts: IntArray,
    counts: IntArray,
) -> None:
    """How often a cheapest path starts each request, and when it last did.

    Nodes in which one request more starts are looked for downwards: all that a path passes has
    smaller and smaller numbers, so that this is one walk through them.
    """
    counts[:] = 0
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
            return
        g = following
        counts[graph.requests[g]] += 1
        starts[graph.requests[g]] = graph.epochs[g]


@njit
def keep_nodes(graph: PathGraph, kept: Flags) -> int:
    """Move the kept nodes to the front of a graph, in their order; how many they are.

    In place, since the largest graphs take most of the memory. What completes stays where it is.
    """
    later, parents, requests, epochs, slacks, ended_first, ended_counts, _ = graph
    new = np.full(len(later), -1, np.int32)
    left = 0
    for g in range(len(later)):
        if kept[g]:
            new[g] = left
            left += 1
    for g in range(len(later)):
        if kept[g]:
            k = new[g]
            later[k] = new[later[g]] if later[g] >= 0 else -1
            parents[k] = new[parents[g]] if parents[g] >= 0 else -1
            requests[k], epochs[k], slacks[k] = requests[g], epochs[g], slacks[g]
            ended_first[k], ended_counts[k] = ended_first[g], ended_counts[g]
    return left


@njit
def kept_nodes(graph: PathGraph, order: IntArray, kept: Flags) -> PathGraph:
    """The graph of the kept nodes, numbered in stable order of ``order`` < len(order)."""
    later, parents, requests, epochs, slacks, ended_first, ended_counts, ended = graph
    size = len(later)
    place = np.zeros(size + 2, np.int64)
    completions = 0
    for g in range(size):
        if kept[g]:
            place[order[g] + 1] += 1
            completions += ended_counts[g]
    for k in range(size + 1):
        place[k + 1] += place[k]
    left = place[size + 1]
    new = np.full(size, -1, np.int32)
    for g in range(size):
        if kept[g]:
            new[g] = place[order[g]]
            place[order[g]] += 1
    out = PathGraph(
        np.full(left, -1, np.int32),
        np.full(left, -1, np.int32),
        np.empty(left, np.int16),
        np.empty(left, np.int16),
        np.empty(left, np.int64),
        np.empty(left, np.int32),
        np.empty(left, np.int16),
        np.empty(completions, np.int16),
    )
    taken = 0
    for g in range(size):
        if kept[g]:
            k = new[g]
            if later[g] >= 0:
                out.later[k] = new[later[g]]
            if parents[g] >= 0:
                out.parents[k] = new[parents[g]]
            out.requests[k], out.epochs[k], out.slacks[k] = requests[g], epochs[g], slacks[g]
            out.ended_first[k], out.ended_counts[k] = taken, ended_counts[g]
            for x in range(ended_counts[g]):
                out.ended[taken + x] = ended[ended_first[g] + x]
            taken += ended_counts[g]
    return out


class Split(NamedTuple):
    """Nodes of a graph told apart by which tracked requests have been started.

    Attributes
    ----------
    heads : int32 array, shape (N,)
        Of each old node the last of its new ones, or -1.
    linked : int32 array, shape (capacity,)
        The next new node of the same old one, or -1.
    old : int32 array, shape (capacity,)
        The old node.
    masks : uint64 array, shape (capacity,)
        Tracked requests started.
    costs : int64 array, shape (capacity,)
        Least cost from the start.
    later, parents : int32 array, shape (capacity,)
        Arcs.
    alive : bool array, shape (capacity,)
        Whether a path within the limit may pass.
    table : int32 array
        Open addressing, a power of two of places.
    """

    heads: Codes
    linked: Codes
    old: Codes
    masks: Masks
    costs: IntArray
    later: Codes
    parents: Codes
    alive: Flags
    table: Codes


@njit
def split_nodes(
    graph: PathGraph,
    arcs: IntArray,
    value: IntArray,
    first: IntArray,
    children: Codes,
    bits: Masks,
    required: Masks,
    budget: int,
    split: Split,
    count: int,
    begin: int,
    end: int,
) -> int:
    """Split the nodes end > g >= begin; the number of new nodes, or -1 where there is no room.

    A tracked request is started once at most, and by its last epoch: ``required[tau]`` are the
    tracked requests that nothing starts from tau on.
    """
    later, requests, epochs = graph.later, graph.requests, graph.epochs
    heads, linked, old, masks, total, new_later, new_parents, alive, table = split
    room, places = len(old), len(table)
    for g in range(end - 1, begin - 1, -1):
        x = heads[g]
        need = required[epochs[g]]
        while x >= 0:
            # What starts at this epoch is not in the mask of the nodes before it.
            missing = need & ~masks[x]
            if value[g] < FAR and total[x] + value[g] <= budget and missing == 0:
                alive[x] = True
                for c in range(first[g], first[g + 1]):
                    h = children[c]
                    bit = bits[requests[h]]
                    if bit & masks[x] != 0 or value[h] >= FAR or total[x] + value[h] > budget:
                        continue
                    if count >= room:
                        return -1
                    old[count], masks[count], total[count] = h, masks[x] | bit, total[x]
                    new_parents[count], new_later[count] = x, -1
                    linked[count] = heads[h]
                    heads[h] = count
                    count += 1
                h = later[g]
                if h >= 0 and value[h] < FAR and total[x] + arcs[g] + value[h] <= budget:
                    cost = total[x] + arcs[g]
                    key = masks[x] + np.uint64(h) * np.uint64(0x9E3779B97F4A7C15)
                    key ^= key >> np.uint64(31)
                    key *= np.uint64(0xBF58476D1CE4E5B9)
                    key ^= key >> np.uint64(29)
                    slot = np.int64(key & np.uint64(places - 1))
                    while table[slot] >= 0 and (
                        old[table[slot]] != h or masks[table[slot]] != masks[x]
                    ):
                        slot = (slot + 1) & (places - 1)
                    y = table[slot]
                    if y < 0:
                        if count >= room:
                            return -1
                        y = count
                        table[slot] = y
                        old[y], masks[y], total[y] = h, masks[x], cost
                        new_parents[y], new_later[y] = -1, -1
                        linked[y] = heads[h]
                        heads[h] = y
                        count += 1
                    elif cost < total[y]:
                        total[y] = cost
                    new_later[x] = y
            x = linked[x]
    return count
