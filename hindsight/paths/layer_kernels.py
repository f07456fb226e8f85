"""Compiled kernel that adds one epoch to the graph of paths, from the last epoch backwards.

`hindsight.paths.graph` states what the graph is and proves what may be left out of it. A node at
an epoch is a set of active requests with their starts, (i, t) as the code (i << START_BITS) + t,
sorted by start, then by index. Going backwards, the predecessors of a node y at tau + 1 in which
nothing starts at tau + 1 are y with any requests added that complete in round tau + 1; each of them
is a node at tau, and taking out what started last at tau gives the nodes before its starts.
Whatever is active fits: requests only leave until the first start after, so the sum in the round in
which one completes, which is tested where it is added, is what matters.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.exact_search.state_search_kernels import Masks
from hindsight.runtime.compilation import njit
from instances.arrays import IntArray, RequestColumns

START_BITS = 15
"""Starts, and with them epochs, are below 2^START_BITS."""

FAR = np.int64(1 << 60)
"""A cost that no path has."""

Codes = npt.NDArray[np.int32]


class Sets(NamedTuple):
    """Room for sets of active requests of one epoch.

    Attributes
    ----------
    members : int32 array, shape (capacity, most members)
        Codes of (i, t).
    sizes : int64 array, shape (capacity,)
        Members of each.
    keys : uint64 array, shape (capacity,)
        Hashes.
    costs : int64 array, shape (capacity,)
        Least cost from here to the end, with what the active requests' starts cost.
    """

    members: Codes
    sizes: IntArray
    keys: Masks
    costs: IntArray


class Scratch(NamedTuple):
    """Of the nodes of one epoch, in the order in which they are found.

    Attributes
    ----------
    table : int64 array
        Open addressing, a power of two of places, -1 where free; free again after each call.
    slots : int64 array, shape (capacity,)
        Place of each node in it.
    later : int64 array, shape (capacity,)
        Node reached when nothing more starts, or -1.
    parents : int64 array, shape (capacity,)
        Node without what started last, or -1.
    fresh : int64 array, shape (capacity,)
        Members that start at this epoch.
    numbers : int64 array, shape (capacity,)
        Position among the nodes of the epoch in the order of the graph.
    """

    table: IntArray
    slots: IntArray
    later: IntArray
    parents: IntArray
    fresh: IntArray
    numbers: IntArray


@njit
def _find(sets: Sets, table: IntArray, key: Any, members: Codes, size: int) -> tuple[int, int]:
    """The slot of a set in the hash table, and its number or -1."""
    places = table.shape[0]
    slot: Any = np.int64(key & np.uint64(places - 1))
    while True:
        v = table[slot]
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
    nodes: int,
    above: Sets,
    above_nodes: IntArray,
    here: Sets,
    scratch: Scratch,
    requests: RequestColumns,
    kinds: IntArray,
    regrets: IntArray,
    prices: IntArray,
    capacity: int,
    budget: int,
    random_keys: Masks,
    room: int,
) -> int:
    """The nodes at tau, within the budget, whose next epoch has one of the sets begin .. end - 1.

    Returns how many nodes there are now, or -1 where ``room`` is short; `join_parents` adds the
    others when all sets are through.

    Parameters
    ----------
    tau, begin, end : int
        The epoch, and which of the sets ``above`` are extended.
    nodes : int
        Found so far.
    above, above_nodes : Sets, int64 array
        The nodes at tau + 1 in which nothing starts, and their numbers in the graph.
    here, scratch : Sets, Scratch
        Filled.
    requests : RequestColumns
        What is served.
    kinds : int64 array, shape (n,)
        Equal for identical requests.
    regrets : int64 array, shape (n, epochs)
        Cost of starting i at t, >= 0; above the budget where it cannot.
    prices, capacity : int64 array, shape (M + 1, M + 1), and int
        Epoch prices at tau, and at least the heaviest configuration.
    budget : int
        Largest cost.
    random_keys : uint64 array, shape (n, epochs)
        Of the hashes.
    room : int
        Most nodes.
    """
    s, o, a, M = requests
    n, most = len(s), here.members.shape[1]
    starts_mask = (1 << START_BITS) - 1
    chosen = np.zeros(most, np.int64)
    for q in range(begin, end):
        size = above.sizes[q]
        held, slack = np.int64(0), np.int64(capacity)
        for k in range(size):
            code = above.members[q, k]
            i, t = code >> START_BITS, code & starts_mask
            held += s[i] + tau + 1 - t
            slack -= prices[s[i] + tau - t, o[i] - tau + t]
        cost = above.costs[q]
        depth, nexti = 0, 0
        while True:
            if cost + slack <= budget:
                if nodes >= room:
                    return -1
                _write_set(above, q, chosen, depth, tau, o, here, nodes, random_keys)
                here.costs[nodes] = cost + slack
                scratch.later[nodes] = above_nodes[q]
                nodes += 1
            moved = False
            while not moved:
                for i in range(nexti, n):
                    t = tau + 1 - o[i]
                    if t < a[i] or cost + regrets[i, t] > budget or held + s[i] + o[i] > M:
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
                    chosen[depth] = i
                    depth += 1
                    cost += regrets[i, t]
                    held += s[i] + o[i]
                    slack -= prices[s[i] + o[i] - 1, 1]
                    nexti = i + 1
                    moved = True
                    break
                if moved or depth == 0:
                    break
                depth -= 1
                i = chosen[depth]
                cost -= regrets[i, tau + 1 - o[i]]
                held -= s[i] + o[i]
                slack += prices[s[i] + o[i] - 1, 1]
                nexti = i + 1
            if not moved:
                break
    return nodes


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
    starts_mask = (1 << START_BITS) - 1
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
            t2, i2 = code & starts_mask, code >> START_BITS
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
    tau: int, nodes: int, here: Sets, scratch: Scratch, random_keys: Masks, room: int
) -> int:
    """Add the nodes before each start at tau, carry costs to them, and number all; how many, or -1.

    Members that start at tau stand last, the one of the largest index at the end: starts at one
    epoch are taken in the order of indices. Numbers go from most fresh members to none.
    """
    starts_mask = (1 << START_BITS) - 1
    for v in range(nodes):
        slot, _ = _find(here, scratch.table, here.keys[v], here.members[v], here.sizes[v])
        scratch.table[slot] = v
        scratch.slots[v] = slot
    v, most = 0, 0
    full = False
    while v < nodes:
        size, fresh = here.sizes[v], 0
        while fresh < size and (here.members[v, size - 1 - fresh] & starts_mask) == tau:
            fresh += 1
        scratch.fresh[v] = fresh
        scratch.parents[v] = -1
        most = max(most, fresh)
        if fresh:
            key = here.keys[v] ^ random_keys[here.members[v, size - 1] >> START_BITS, tau]
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
                scratch.table[slot], scratch.slots[p], scratch.later[p] = p, slot, -1
            scratch.parents[v] = p
        v += 1
    for v in range(nodes):
        scratch.table[scratch.slots[v]] = -1
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
    later: Codes,
    parents: Codes,
    requests: npt.NDArray[np.int16],
    epochs: npt.NDArray[np.int16],
) -> int:
    """Write the nodes of an epoch into the graph from number ``first`` on.

    Returns how many start nothing at tau: they are copied to ``above``.
    """
    count = 0
    for v in range(nodes):
        g = first + scratch.numbers[v]
        later[g] = scratch.later[v]
        epochs[g] = tau
        if scratch.fresh[v]:
            parents[g] = first + scratch.numbers[scratch.parents[v]]
            requests[g] = here.members[v, here.sizes[v] - 1] >> START_BITS
        else:
            parents[g], requests[g] = -1, -1
            for k in range(here.sizes[v]):
                above.members[count, k] = here.members[v, k]
            above.sizes[count], above.keys[count] = here.sizes[v], here.keys[v]
            above.costs[count], above_nodes[count] = here.costs[v], g
            count += 1
    return count
