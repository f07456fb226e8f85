"""Compiled kernels over a graph of paths: least costs both ways, Gibbs weights, nodes split.

Numbers of nodes fall along arcs (`hindsight.paths.graph`). The arc into a node that starts request
i at tau costs ``costs[i]`` + SCALE tau, all others 0. Long loops take a range of nodes, so that
whoever calls them can look at the clock in between.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.configurations.prices import SCALE
from hindsight.exact_search.state_search_kernels import Flags, Masks
from hindsight.runtime.compilation import njit
from instances.arrays import FloatArray, IntArray

from .layer_kernels import FAR, Codes

Shorts = npt.NDArray[np.int16]


class Arcs(NamedTuple):
    """The arrays of a `hindsight.paths.graph.PathGraph`, as compiled loops take them."""

    later: Codes
    parents: Codes
    requests: Shorts
    epochs: Shorts
    ends: Flags


@njit
def costs_to_the_end(arcs: Arcs, costs: IntArray, value: IntArray, begin: int, end: int) -> None:
    """value[g]: least cost from node g to an end, for begin <= g < end; FAR to begin with."""
    later, parents, requests, epochs, ends = arcs
    for g in range(begin, end):
        if ends[g]:
            value[g] = min(value[g], 0)
        if later[g] >= 0:
            value[g] = min(value[g], value[later[g]])
        p = parents[g]
        if p >= 0 and value[g] < FAR:
            cost = value[g] + costs[requests[g]] + SCALE * epochs[g]
            value[p] = min(value[p], cost)


@njit
def costs_from_the_start(
    arcs: Arcs, costs: IntArray, value: IntArray, begin: int, end: int
) -> None:
    """value[g]: least cost from the last node to g, for end > g >= begin; FAR to begin with."""
    later, parents, requests, epochs, _ = arcs
    for g in range(end - 1, begin - 1, -1):
        p = parents[g]
        if p >= 0 and value[p] < FAR:
            value[g] = value[p] + costs[requests[g]] + SCALE * epochs[g]
        h = later[g]
        if h >= 0 and value[g] < value[h]:
            value[h] = value[g]


@njit
def gibbs_paths(
    arcs: Arcs,
    costs: IntArray,
    value: IntArray,
    heat: float,
    weights: FloatArray,
    shares: FloatArray,
    starts: FloatArray,
) -> None:
    """starts[i]: how often a path starts i, paths weighted by exp(-cost / heat).

    ``value`` is that of `costs_to_the_end`: relative to it no weight exceeds the number of paths.
    ``weights`` and ``shares`` are scratch, shape (N,).
    """
    later, parents, requests, epochs, ends = arcs
    size = len(later)
    weights[:] = 0.0
    shares[:] = 0.0
    starts[:] = 0.0
    for g in range(size):
        if value[g] >= FAR:
            continue
        if ends[g]:
            weights[g] += np.exp(value[g] / heat)
        h = later[g]
        if h >= 0 and weights[h] > 0.0:
            weights[g] += np.exp((value[g] - value[h]) / heat) * weights[h]
        p = parents[g]
        if p >= 0 and weights[g] > 0.0:
            cost = value[g] + costs[requests[g]] + SCALE * epochs[g]
            weights[p] += np.exp((value[p] - cost) / heat) * weights[g]
    shares[size - 1] = 1.0
    for g in range(size - 1, -1, -1):
        if weights[g] <= 0.0:
            continue
        p = parents[g]
        if p >= 0 and shares[p] > 0.0:
            cost = value[g] + costs[requests[g]] + SCALE * epochs[g]
            share = shares[p] / weights[p] * np.exp((value[p] - cost) / heat) * weights[g]
            shares[g] += share
            starts[requests[g]] += share
        h = later[g]
        if h >= 0 and shares[g] > 0.0 and weights[h] > 0.0:
            shares[h] += shares[g] / weights[g] * np.exp((value[g] - value[h]) / heat) * weights[h]


@njit
def children_of(parents: Codes) -> tuple[IntArray, Codes]:
    """The nodes with parent g are children[first[g]:first[g + 1]]."""
    size = len(parents)
    first = np.zeros(size + 1, np.int64)
    for g in range(size):
        if parents[g] >= 0:
            first[parents[g] + 1] += 1
    for g in range(size):
        first[g + 1] += first[g]
    place = first[:-1].copy()
    children = np.empty(first[size], np.int32)
    for g in range(size):
        p = parents[g]
        if p >= 0:
            children[place[p]] = g
            place[p] += 1
    return first, children


@njit
def best_path(
    arcs: Arcs,
    costs: IntArray,
    value: IntArray,
    first: IntArray,
    children: Codes,
    starts: IntArray,
    counts: IntArray,
) -> None:
    """How often a cheapest path starts each request, and when it last did."""
    later, _, requests, epochs, ends = arcs
    counts[:] = 0
    g = len(later) - 1
    while True:
        best = np.int64(0) if ends[g] else FAR
        following, request = -1, -1
        if later[g] >= 0 and value[later[g]] < best:
            best, following = value[later[g]], later[g]
        for c in range(first[g], first[g + 1]):
            h = children[c]
            if value[h] >= FAR:
                continue
            cost = value[h] + costs[requests[h]] + SCALE * epochs[h]
            if cost < best:
                best, following, request = cost, h, requests[h]
        if following < 0:
            return
        if request >= 0:
            counts[request] += 1
            starts[request] = epochs[following]
        g = following


@njit
def kept_arcs(arcs: Arcs, order: IntArray, kept: Flags) -> Arcs:
    """The graph of the kept nodes, numbered in stable order of ``order`` < len(order)."""
    later, parents, requests, epochs, ends = arcs
    size = len(later)
    place = np.zeros(size + 2, np.int64)
    for g in range(size):
        if kept[g]:
            place[order[g] + 1] += 1
    for k in range(size + 1):
        place[k + 1] += place[k]
    left = place[size + 1]
    new = np.full(size, -1, np.int32)
    for g in range(size):
        if kept[g]:
            new[g] = place[order[g]]
            place[order[g]] += 1
    out = Arcs(
        np.full(left, -1, np.int32),
        np.full(left, -1, np.int32),
        np.empty(left, np.int16),
        np.empty(left, np.int16),
        np.empty(left, np.bool_),
    )
    for g in range(size):
        if kept[g]:
            k = new[g]
            if later[g] >= 0:
                out.later[k] = new[later[g]]
            if parents[g] >= 0:
                out.parents[k] = new[parents[g]]
            out.requests[k], out.epochs[k], out.ends[k] = requests[g], epochs[g], ends[g]
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
    arcs: Arcs,
    costs: IntArray,
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
    later, _, requests, epochs, _ = arcs
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
                    if bit & masks[x] != 0 or value[h] >= FAR:
                        continue
                    cost = total[x] + costs[requests[h]] + SCALE * epochs[h]
                    if cost + value[h] > budget:
                        continue
                    if count >= room:
                        return -1
                    old[count], masks[count], total[count] = h, masks[x] | bit, cost
                    new_parents[count], new_later[count] = x, -1
                    linked[count] = heads[h]
                    heads[h] = count
                    count += 1
                h = later[g]
                if h >= 0 and value[h] < FAR and total[x] + value[h] <= budget:
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
                        old[y], masks[y], total[y] = h, masks[x], total[x]
                        new_parents[y], new_later[y] = -1, -1
                        linked[y] = heads[h]
                        heads[h] = y
                        count += 1
                    elif total[x] < total[y]:
                        total[y] = total[x]
                    new_later[x] = y
            x = linked[x]
    return count
