"""Compiled kernel that adds one epoch to a graph of paths, from the last epoch backwards.

`hindsight.paths.graph` states what the graph is and proves what may be left out of it. A node at
an epoch is a set of active followed requests with their starts, (i, t) as the code
(i << START_BITS) + t, sorted by start, then by index. Going backwards, the predecessors of a node y
at tau + 1 in which nothing starts at tau + 1 are y with any followed requests added that complete
in round tau + 1; each of them is a node at tau, and taking out what started last at tau gives the
nodes before its starts. Whatever is active fits: requests only leave until the first start after,
so the sum in the round in which one completes, which is tested where it is added, is what matters.

Which of the requests that the coarser graph follows complete is read from its arcs: the node of the
coarser graph beside y has the predecessors that are left there, and nothing else need be tried.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.exact_search.state_search_kernels import Flags, Masks
from hindsight.runtime.compilation import njit
from instances.arrays import IntArray, RequestColumns

from .anonymous_states import AnonymousStates, heaviest_beside

START_BITS = 15
"""Starts, and with them epochs, are below 2^START_BITS."""

STARTS = (1 << START_BITS) - 1

FAR = np.int64(1 << 60)
"""A cost that no path has."""

Codes = npt.NDArray[np.int32]
Shorts = npt.NDArray[np.int16]


class PathGraph(NamedTuple):
    """A graph of paths, see `hindsight.paths.graph`; node 0 is its end, node N - 1 its beginning.

    Attributes
    ----------
    later : int32 array, shape (N,)
        The node reached when nothing more starts, or -1.
    parents : int32 array, shape (N,)
        The node before the last start, or -1 where nothing starts.
    requests : int16 array, shape (N,)
        What started last, or -1.
    epochs : int16 array, shape (N,)
        tau.
    slacks : int64 array, shape (N,)
        Of tau, where something is later.
    ended_first, ended_counts : int32, int16 array, shape (N,)
        Where the requests that complete in round tau + 1 are in ``ended``, and how many they are.
    ended : int16 array
        Requests.
    """

    later: Codes
    parents: Codes
    requests: Shorts
    epochs: Shorts
    slacks: IntArray
    ended_first: Codes
    ended_counts: Shorts
    ended: Shorts


class CoarserGraph(NamedTuple):
    """The graph of fewer followed requests that bounds what a path paid before.

    Attributes
    ----------
    graph : PathGraph
        That graph.
    followed : bool array, shape (n,)
        The requests that it follows.
    first, earlier : int64, int32 array
        The nodes whose ``later`` is g are earlier[first[g]:first[g + 1]].
    paid : int64 array, shape (N,)
        Least cost from its beginning.
    """

    graph: PathGraph
    followed: Flags
    first: IntArray
    earlier: Codes
    paid: IntArray


class Sets(NamedTuple):
    """Room for sets of active followed requests of one epoch.

    Attributes
    ----------
    members : int32 array, shape (capacity, most members)
        Codes of (i, t).
    sizes : int64 array, shape (capacity,)
        Members of each.
    keys : uint64 array, shape (capacity,)
        Hashes.
    costs : int64 array, shape (capacity,)
        Least cost from here to the end.
    coarser : int32 array, shape (capacity,)
        The node of the coarser graph.
    """

    members: Codes
    sizes: IntArray
    keys: Masks
    costs: IntArray
    coarser: Codes


class Scratch(NamedTuple):
    """Of the nodes of one epoch, in the order in which they are found.

    Attributes
    ----------
    table : int64 array
        Open addressing, a power of two of places: the number of a node plus 1, 0 where free; free
        again after each call.
    slots : int64 array, shape (capacity,)
        Place of each node in it.
    later, parents, slacks, ended_first, ended_counts : int64 array, shape (capacity,)
        As in the graph; nodes before starts by their place here.
    fresh : int64 array, shape (capacity,)
        Members that start at this epoch.
    numbers : int64 array, shape (capacity,)
        Position among the nodes of the epoch in the order of the graph.
    """

    table: IntArray
    slots: IntArray
    later: IntArray
    parents: IntArray
    slacks: IntArray
    ended_first: IntArray
    ended_counts: IntArray
    fresh: IntArray
    numbers: IntArray


class Costs(NamedTuple):
    """What starts and an epoch cost.

    Attributes
    ----------
    regrets : int64 array, shape (n, epochs + 1)
        Priced cost of starting i at t, less u_i.
    prices : int64 array, shape (M + 1, M + 1)
        Epoch prices at tau.
    capacity : int
        At least the heaviest configuration at tau.
    budget : int
        Largest cost of a path.
    """

    regrets: IntArray
    prices: IntArray
    capacity: int
    budget: int


@njit
def _find(sets: Sets, table: IntArray, key: Any, members: Codes, size: int) -> tuple[int, int]:
    """The slot of a set in the hash table, and its number or -1."""
    places = table.shape[0]
    slot: Any = np.int64(key & np.uint64(places - 1))
    while True:
        v = table[slot] - 1
        if v < 0:
            return slot, v
        if sets.keys[v] == key and sets.sizes[v] == size:
            same = True
            for k in range(size):
                if sets.members[v, k] != members[k]:
                    same = False
                    break
            if same:
                return slot, v
        slot = (slot + 1) & (places - 1)


@njit
def extend_sets(
    tau: int,
    begin: int,
    end: int,
    counts: tuple[int, int],
    above: Sets,
    above_nodes: IntArray,
    here: Sets,
    scratch: Scratch,
    ended: Shorts,
    coarser: CoarserGraph,
    added: IntArray,
    requests: RequestColumns,
    kinds: IntArray,
    costs: Costs,
    states: AnonymousStates,
    random_keys: Masks,
    room: int,
) -> tuple[int, int]:
    """The nodes at tau, within the budget, whose next epoch has one of the sets begin .. end - 1.

    Returns how many nodes there are now, or -1 where ``room`` is short, and how much of ``ended``
    is taken; `join_parents` adds the others when all sets are through.

    Parameters
    ----------
    tau, begin, end : int
        The epoch, and which of the sets ``above`` are extended.
    counts : tuple[int, int]
        Nodes found so far, and how much of ``ended`` is taken.
    above, above_nodes : Sets, int64 array
        The nodes at tau + 1 in which nothing starts, and their numbers in the graph.
    here, scratch, ended : Sets, Scratch, int16 array
        Filled.
    coarser : CoarserGraph
        The graph of fewer followed requests.
    added : int64 array
        The requests followed here and not there, increasing.
    requests : RequestColumns
        What is served.
    kinds : int64 array, shape (n,)
        Equal for identical requests; those of a kind are followed together.
    costs : Costs
        Of starts and of tau.
    states : AnonymousStates
        Of tau.
    random_keys : uint64 array, shape (n, epochs + 1)
        Of the hashes.
    room : int
        Most nodes.
    """
    s, o, a, M = requests
    regrets, prices, capacity, budget = costs
    nodes, taken = counts
    most, graph = here.members.shape[1], coarser.graph
    chosen, places, held_by, rounds_of, order = np.zeros((5, most + 1), np.int64)
    for q in range(begin, end):
        size = above.sizes[q]
        all_held, all_prices = np.int64(0), np.int64(0)
        for k in range(size):
            code = above.members[q, k]
            i, t = code >> START_BITS, code & STARTS
            held_by[k], rounds_of[k] = s[i] + tau - t, o[i] - tau + t
            all_held += held_by[k] + 1
            all_prices += prices[held_by[k], rounds_of[k]]
        beside = above.coarser[q]
        for e in range(coarser.first[beside], coarser.first[beside + 1]):
            c = coarser.earlier[e]
            if coarser.paid[c] >= FAR:
                continue
            left, least = budget - coarser.paid[c], graph.slacks[c]
            cost, held, price, depth = above.costs[q], all_held, all_prices, 0
            for x in range(graph.ended_first[c], graph.ended_first[c] + graph.ended_counts[c]):
                i = np.int64(graph.ended[x])
                cost += regrets[i, tau + 1 - o[i]]
                held += s[i] + o[i]
                if held > M:
                    break
                price += prices[s[i] + o[i] - 1, 1]
                held_by[size + depth], rounds_of[size + depth] = s[i] + o[i] - 1, 1
                chosen[depth] = i
                depth += 1
            if depth < graph.ended_counts[c] or cost + least > left:
                continue
            coarse, next_one = depth, 0
            while True:
                others = heaviest_beside(states, held_by, rounds_of, size + depth, order)
                slack = capacity - price - others
                if cost + slack <= left:
                    if nodes >= room or taken + depth > len(ended):
                        return -1, taken
                    _write_set(above, q, chosen, depth, tau, o, here, nodes, random_keys)
                    here.costs[nodes], here.coarser[nodes] = cost + slack, c
                    scratch.slacks[nodes], scratch.later[nodes] = slack, above_nodes[q]
                    scratch.ended_first[nodes], scratch.ended_counts[nodes] = taken, depth
                    for d in range(depth):
                        ended[taken + d] = chosen[d]
                    taken += depth
                    nodes += 1
                moved = False
                while not moved:
                    for x in range(next_one, len(added)):
                        i = added[x]
                        t = tau + 1 - o[i]
                        if t < a[i] or cost + regrets[i, t] + least > left:
                            continue
                        if held + s[i] + o[i] > M:
                            continue
                        fits = True
                        for k in range(size):
                            j = above.members[q, k] >> START_BITS
                            # Once at a time; of identical requests the one of smaller index first.
                            if j == i or (kinds[j] == kinds[i] and j < i):
                                fits = False
                                break
                        if not fits:
                            continue
                        chosen[depth], places[depth] = i, x
                        held_by[size + depth], rounds_of[size + depth] = s[i] + o[i] - 1, 1
                        depth += 1
                        cost += regrets[i, t]
                        held += s[i] + o[i]
                        price += prices[s[i] + o[i] - 1, 1]
                        next_one = x + 1
                        moved = True
                        break
                    if moved or depth == coarse:
                        break
                    depth -= 1
                    i = chosen[depth]
                    cost -= regrets[i, tau + 1 - o[i]]
                    held -= s[i] + o[i]
                    price -= prices[s[i] + o[i] - 1, 1]
                    next_one = places[depth] + 1
                if not moved:
                    break
    return nodes, taken


@njit
def _write_set(
    above: Sets,
    q: int,
    chosen: IntArray,
    depth: int,
    tau: int,
    o: IntArray,
    here: Sets,
    node: int,
    random_keys: Masks,
) -> None:
    """Set q of the epoch above with the chosen ones that complete in round tau + 1."""
    size = above.sizes[q]
    key = above.keys[q]
    members = here.members[node]
    for k in range(size):
        members[k] = above.members[q, k]
    for d in range(depth):
        i = chosen[d]
        t = tau + 1 - o[i]
        position = size
        while position > 0:
            code = members[position - 1]
            t2, i2 = code & STARTS, code >> START_BITS
            if t2 < t or (t2 == t and i2 < i):
                break
            members[position] = code
            position -= 1
        members[position] = (i << START_BITS) | t
        size += 1
        key ^= random_keys[i, t]
    here.sizes[node] = size
    here.keys[node] = key


@njit
def join_parents(
    tau: int,
    nodes: int,
    here: Sets,
    scratch: Scratch,
    coarser: CoarserGraph,
    random_keys: Masks,
    room: int,
) -> int:
    """Add the nodes before each start at tau, carry costs to them, and number all; how many, or -1.

    Members that start at tau stand last, the one of the largest index at the end: starts at one
    epoch are taken in the order of indices. Numbers go from most fresh members to none.
    """
    for v in range(nodes):
        slot, _ = _find(here, scratch.table, here.keys[v], here.members[v], here.sizes[v])
        scratch.table[slot] = v + 1
        scratch.slots[v] = slot
    v, most = 0, 0
    full = False
    while v < nodes:
        size, fresh = here.sizes[v], 0
        while fresh < size and (here.members[v, size - 1 - fresh] & STARTS) == tau:
            fresh += 1
        scratch.fresh[v] = fresh
        scratch.parents[v] = -1
        most = max(most, fresh)
        if fresh:
            i = here.members[v, size - 1] >> START_BITS
            key = here.keys[v] ^ random_keys[i, tau]
            slot, p = _find(here, scratch.table, key, here.members[v], size - 1)
            if p < 0:
                if nodes >= room:
                    full = True
                    break
                p = nodes
                nodes += 1
                for k in range(size - 1):
                    here.members[p, k] = here.members[v, k]
                here.sizes[p], here.keys[p], here.costs[p] = size - 1, key, FAR
                beside = here.coarser[v]
                here.coarser[p] = coarser.graph.parents[beside] if coarser.followed[i] else beside
                scratch.table[slot], scratch.slots[p] = p + 1, slot
                scratch.later[p], scratch.slacks[p] = -1, 0
                scratch.ended_first[p], scratch.ended_counts[p] = 0, 0
            scratch.parents[v] = p
        v += 1
    for v in range(nodes):
        scratch.table[scratch.slots[v]] = 0
    if full:
        return -1
    number = 0
    for fresh in range(most, -1, -1):
        for v in range(nodes):
            if scratch.fresh[v] == fresh:
                scratch.numbers[v] = number
                number += 1
                p = scratch.parents[v]
                if fresh and here.costs[v] < here.costs[p]:
                    here.costs[p] = here.costs[v]
    return nodes


@njit
def store_epoch(
    tau: int,
    nodes: int,
    first: int,
    here: Sets,
    scratch: Scratch,
    above: Sets,
    above_nodes: IntArray,
    graph: PathGraph,
) -> int:
    """Write the nodes of an epoch into the graph from number ``first`` on.

    Returns how many start nothing at tau: they are copied to ``above``.
    """
    count = 0
    for v in range(nodes):
        g = first + scratch.numbers[v]
        graph.later[g], graph.epochs[g], graph.slacks[g] = scratch.later[v], tau, scratch.slacks[v]
        graph.ended_first[g] = scratch.ended_first[v]
        graph.ended_counts[g] = scratch.ended_counts[v]
        if scratch.fresh[v]:
            graph.parents[g] = first + scratch.numbers[scratch.parents[v]]
            graph.requests[g] = here.members[v, here.sizes[v] - 1] >> START_BITS
        else:
            graph.parents[g], graph.requests[g] = -1, -1
            for k in range(here.sizes[v]):
                above.members[count, k] = here.members[v, k]
            above.sizes[count], above.keys[count] = here.sizes[v], here.keys[v]
            above.costs[count], above_nodes[count] = here.costs[v], g
            above.coarser[count] = here.coarser[v]
            count += 1
    return count
