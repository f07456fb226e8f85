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

from hindsight.exact.state_kernels import Flags, Masks
from hindsight.runtime.compilation import inner, njit, step
from instances.arrays import IntArray, RequestColumns

from .anonymous_states import AnonymousStates, heaviest_beside

START_BITS = 15
"""Starts, and hence epochs, are below 2^START_BITS."""

STARTS = (1 << START_BITS) - 1

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
    """Arrays for sets of active followed requests of one epoch.

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
    """

    members: Codes
    sizes: IntArray
    keys: Masks
    costs: IntArray
    coarser: Codes


class Scratch(NamedTuple):
    """Work arrays for the nodes of one epoch, in the order in which they are found.

    Attributes
    ----------
    table : int64 array
        Hash table with open addressing and a power of two of places: number of a node plus 1, or 0
        where free; cleared after each call.
    slots : int64 array, shape (capacity,)
        Place of each node in it.
    later, parents, slacks, ended_first, ended_counts : int64 array, shape (capacity,)
        As in the graph; nodes before starts are given by their position here.
    fresh : int64 array, shape (capacity,)
        Number of members that start at this epoch.
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
    budget : int
        Largest cost of a path.
    capacity : int
        At least the heaviest configuration at tau.
    prices : int64 array, shape (M + 1, M + 1)
        Epoch prices at tau.
    regrets : int64 array, shape (n, epochs + 1)
        Priced cost of starting i at t, less u_i.
    requests : RequestColumns
        The requests.
    added : int64 array
        Requests followed here and not in the coarser graph, increasing.
    kinds : int64 array, shape (n,)
        Equal for identical requests; those of a kind are followed together.
    keys : uint64 array, shape (n, epochs + 1)
        Random numbers for hashes.
    above, above_nodes : Sets, int64 array
        The nodes at tau + 1 in which nothing starts, and their numbers in the graph.
    coarser : CoarserGraph
        The graph of fewer followed requests.
    blocks : Blocks
        What the requests hold, in whole blocks.
    """

    tau: int
    budget: int
    capacity: int
    prices: IntArray
    regrets: IntArray
    requests: RequestColumns
    added: IntArray
    kinds: IntArray
    keys: Masks
    above: Sets
    above_nodes: IntArray
    coarser: CoarserGraph
    blocks: Blocks


class Members(NamedTuple):
    """A set of the next epoch at this one, and behind it those that complete in round tau + 1.

    Attributes
    ----------
    held, rounds : int64 array
        (m, r) of each.
    chosen, places : int64 array
        Requests that complete, and positions in ``added`` of those that are added.
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


class _Sums(NamedTuple):
    """Totals over all members: cost to the end, memory in round tau + 1, price at tau."""

    cost: int
    held: int
    price: int


@inner
def _find(sets: Sets, table: IntArray, key: Any, members: Codes, size: int) -> tuple[int, int]:
    """Return the slot of a set in the hash table, and its number or -1."""
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


@step
def _place_set(given: Extension, q: int, members: Members) -> _Sums:
    """Write the states at tau of the members of set q; what they come to."""
    s, o, _, _ = given.requests
    above, tau, prices = given.above, given.tau, given.prices
    size, stored, _ = given.blocks
    memory: Any = np.int64(0)
    price: Any = np.int64(0)
    for k in range(above.sizes[q]):
        code = above.members[q, k]
        i, t = code >> START_BITS, code & STARTS
        members.held[k], members.rounds[k] = s[i] + tau - t, o[i] - tau + t
        memory += -(-(stored[i] + tau + 1 - t) // size) * size
        price += prices[members.held[k], members.rounds[k]]
    return _Sums(above.costs[q], memory, price)


@step
def _choose(
    given: Extension, i: int, size: int, depth: int, members: Members, sums: _Sums
) -> _Sums:
    """Let request i complete as well; return the new totals."""
    s, o, _, _ = given.requests
    peak = s[i] + o[i]
    members.chosen[depth] = i
    members.held[size + depth], members.rounds[size + depth] = peak - 1, 1
    return _Sums(
        sums.cost + given.regrets[i, given.tau + 1 - o[i]],
        sums.held + given.blocks.peaks[i],
        sums.price + given.prices[peak - 1, 1],
    )


@step
def _leave(given: Extension, i: int, sums: _Sums) -> _Sums:
    """Return the totals without request i, which completes."""
    s, o, _, _ = given.requests
    peak = s[i] + o[i]
    return _Sums(
        sums.cost - given.regrets[i, given.tau + 1 - o[i]],
        sums.held - given.blocks.peaks[i],
        sums.price - given.prices[peak - 1, 1],
    )


@step
def _complete_coarser(
    given: Extension, c: int, size: int, members: Members, sums: _Sums
) -> tuple[int, _Sums]:
    """Complete what completes in coarser node c; return how many, or -1 if they do not fit."""
    M = given.requests.memory_limit
    graph = given.coarser.graph
    count = graph.ended_counts[c]
    for depth in range(count):
        i: Any = np.int64(graph.ended[graph.ended_first[c] + depth])
        if sums.held + given.blocks.peaks[i] > M:
            return -1, sums
        sums = _choose(given, i, size, depth, members, sums)
    return count, sums


@step
def _next_added(given: Extension, q: int, begin: int, sums: _Sums, most: int) -> int:
    """Find the first place from ``begin`` on of an added request that may complete too, or -1.

    The request must fit, and leave the cost at ``most`` or less.
    """
    _, o, a, M = given.requests
    peaks = given.blocks.peaks
    added, kinds, members = given.added, given.kinds, given.above.members
    for x in range(begin, len(added)):
        i = added[x]
        t = given.tau + 1 - o[i]
        if t < a[i] or sums.cost + given.regrets[i, t] > most or sums.held + peaks[i] > M:
            continue
        fits = True
        for k in range(given.above.sizes[q]):
            j = members[q, k] >> START_BITS
            # A request is active only once; of identical requests the smaller index is first.
            if j == i or (kinds[j] == kinds[i] and j < i):
                fits = False
                break
        if fits:
            return x
    return -1


@step
def _write_node(
    given: Extension, q: int, chosen: IntArray, depth: int, found: Found, counts: tuple[int, int]
) -> None:
    """Write set q with the chosen requests that complete in round tau + 1."""
    above, here, scratch = given.above, found.here, found.scratch
    node, taken = counts
    o, size, key = given.requests.output_lengths, above.sizes[q], above.keys[q]
    members = here.members[node]
    for k in range(size):
        members[k] = above.members[q, k]
    for d in range(depth):
        i = chosen[d]
        found.ended[taken + d] = i
        # Members are sorted by start, then by index.
        t = given.tau + 1 - o[i]
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
        key ^= given.keys[i, t]
    here.sizes[node], here.keys[node] = size, key
    scratch.later[node] = given.above_nodes[q]
    scratch.ended_first[node], scratch.ended_counts[node] = taken, depth


@step
def _add_choices(
    given: Extension,
    q: int,
    c: int,
    members: Members,
    of_set: _Sums,
    counts: tuple[int, int],
    found: Found,
    room: int,
) -> tuple[int, int]:
    """Add the nodes before set q that map to node c of the coarser graph; see `extend_sets`."""
    nodes, taken = counts
    size, paid = given.above.sizes[q], given.coarser.paid[c]
    left, least = given.budget - paid, given.coarser.graph.slacks[c]
    coarse, sums = _complete_coarser(given, c, size, members, of_set)
    if coarse < 0 or sums.cost + least > left:
        return nodes, taken
    # Enumerate every choice of added requests that complete as well, depth first.
    depth, place = coarse, 0
    while place >= 0:
        others = heaviest_beside(
            found.states, members.held, members.rounds, size + depth, members.order
        )
        slack = given.capacity - sums.price - others
        if sums.cost + slack <= left:
            if nodes >= room or taken + depth > len(found.ended):
                return -1, taken
            _write_node(given, q, members.chosen, depth, found, (nodes, taken))
            found.here.costs[nodes], found.here.coarser[nodes] = sums.cost + slack, c
            found.scratch.slacks[nodes] = slack
            nodes, taken = nodes + 1, taken + depth
        place = _next_added(given, q, place, sums, left - least)
        while place < 0 and depth > coarse:
            depth -= 1
            sums = _leave(given, members.chosen[depth], sums)
            place = _next_added(given, q, members.places[depth] + 1, sums, left - least)
        if place >= 0:
            members.places[depth] = place
            sums = _choose(given, given.added[place], size, depth, members, sums)
            depth, place = depth + 1, place + 1
    return nodes, taken


@njit
def extend_sets(
    given: Extension, begin: int, end: int, counts: tuple[int, int], found: Found, room: int
) -> tuple[int, int]:
    """Find the nodes at tau, within the budget, whose next epoch has one of the given sets.

    Returns the number of nodes so far, or -1 if ``room`` is too small, and the entries of ``ended``
    in use; `join_parents` adds the other nodes once all sets are extended.

    Parameters
    ----------
    given : Extension
        Data to build from.
    begin, end : int
        Range of the sets ``above`` to extend: begin .. end - 1.
    counts : tuple[int, int]
        Nodes found so far, and entries of ``ended`` in use.
    found : Found
        Output arrays.
    room : int
        Most nodes.
    """
    coarser, above = given.coarser, given.above
    members = found.members
    for q in range(begin, end):
        of_set = _place_set(given, q, members)
        beside = above.coarser[q]
        # Nodes of the coarser graph that lead to the coarser node of this set.
        for e in range(coarser.first[beside], coarser.first[beside + 1]):
            c = coarser.earlier[e]
            if coarser.paid[c] < FAR:
                counts = _add_choices(given, q, c, members, of_set, counts, found, room)
                if counts[0] < 0:
                    return counts
    return counts


@njit
def join_parents(  # noqa: C901
    tau: int,
    nodes: int,
    here: Sets,
    scratch: Scratch,
    coarser: CoarserGraph,
    random_keys: Masks,
    room: int,
) -> int:
    """Add the nodes before each start at tau, pass costs on, number all; return how many, or -1.

    Members that start at tau come last, in the order of indices, as starts at one epoch are taken
    in that order. Numbers go from most fresh members to none.
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

    Returns the number of nodes with no start at tau, which are copied to ``above``.
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
