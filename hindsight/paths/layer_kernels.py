"""Compiled kernels that add one epoch to a path graph, from the last epoch backwards.

`hindsight.paths.graph` defines the graph and proves which nodes may be left out. The graph
*follows* some requests: a node is an epoch tau and the set of followed requests that run then, with
their starts. Let y be a node at tau + 1 in which no request starts at tau + 1. In a node at tau
from which an arc goes to y, the requests of y run, and any followed requests that complete in round
tau + 1. `extend_sets` enumerates these nodes. Removing the requests that start at tau, the last one
first, gives the nodes before these starts, which `join_parents` adds.

*Memory.* Every set of running requests fits in memory. Until the next start requests only complete,
so the memory is largest in rounds in which a request completes. The memory of such a round is
tested when the request is added.

*Coarser graph.* The coarser graph records the starts of fewer requests. Let y' be its node for y
without the requests that it does not follow. Of the requests that the coarser graph follows, only
sets that complete on an arc of that graph to y' need be tried. For each such arc, all sets of the
requests that only the finer graph follows are tried.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hindsight.runtime.compilation import inner, njit, step
from instances.arrays import IntArray

from .anonymous_states import heaviest_beside
from .layers import FAR, START_BITS, Codes, Extension, Found, Members, PathGraph, Sets

STARTS = (1 << START_BITS) - 1


class _Sums(NamedTuple):
    """Sums over the requests that run at epoch tau in the node that is being built.

    Epoch tau is the time between rounds tau and tau + 1. A node of the path graph is an epoch and
    the set of requests that run then, with their starts. Only requests whose starts the graph
    records are counted.

    Attributes
    ----------
    cost : int
        Least cost of a path from the node to the end of the graph, in units of 1 / SCALE rounds. It
        does not yet include the cost of the node itself, its slack: the capacity of epoch tau minus
        the prices of requests that can run then (`PathGraph.slacks`).
    held : int
        Tokens that the requests hold in round tau + 1.
    price : int
        Total price of the states of the requests at tau, in units of 1 / SCALE rounds.
    """

    cost: int
    held: int
    price: int


@inner
def _find(sets: Sets, table: IntArray, key: Any, members: Codes, size: int) -> tuple[int, int]:
    """Return the slot of a set of running requests in the hash table, and the index of its node.

    An epoch is the time between two rounds. ``sets`` has the nodes of one epoch of a path graph:
    sets of running requests with their starts. ``table`` is the hash table that finds a node by its
    set. The set to look for has the hash ``key`` and the entries members[:size], one for each
    request i and its start t: the code (i << START_BITS) + t. If no node has this set, the index is
    -1, and the slot is a free one.
    """
    places = table.shape[0]
    slot: Any = np.int64(key & np.uint64(places - 1))
    while True:
        v = table[slot] - 1
        if v < 0:
            return slot, v
        if sets.keys[v] == key and sets.sizes[v] == size:
            k = 0
            while k < size and sets.members[v, k] == members[k]:
                k += 1
            if k == size:
                return slot, v
        slot = (slot + 1) & (places - 1)


@step
def _place_set(given: Extension, q: int, members: Members) -> _Sums:
    """Write the states at epoch tau of the requests that run in node q of epoch tau + 1.

    Epoch tau is the time between rounds tau and tau + 1. Node q is entry q of ``given.above``. The
    state of a request is its tokens held and rounds to go. The states become the first entries of
    ``members.held`` and ``members.rounds``. Return three numbers: the least cost of a path from
    node q to the end of the graph, the memory of the requests in tokens in round tau + 1, and the
    total price of their states at tau.
    """
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
def _complete(given: Extension, i: int, sign: int, sums: _Sums) -> _Sums:
    """Return the cost, memory and price of the requests of a node at tau, after adding request i.

    Epoch tau is the time between rounds tau and tau + 1. Request i completes in round tau + 1. The
    three numbers are the fields of `_Sums`, and ``sums`` has them without request i. If ``sign`` is
    -1, request i is removed: ``sums`` has them with request i, and the result without it.
    """
    s, o, _, _ = given.requests
    return _Sums(
        sums.cost + sign * given.regrets[i, given.tau + 1 - o[i]],
        sums.held + sign * given.blocks.peaks[i],
        sums.price + sign * given.prices[s[i] + o[i] - 1, 1],
    )


@step
def _choose(given: Extension, i: int, at: int, members: Members, sums: _Sums) -> _Sums:
    """Add request i, which completes in round tau + 1, to the node being built at epoch tau.

    Epoch tau is the time between rounds tau and tau + 1. A node is a set of running requests with
    their starts. The index of request i and its state at tau (tokens held, rounds to go) become
    entry ``at`` of the arrays ``members``. ``sums`` are the cost, memory and price of the other
    requests of the node, as in the fields of `_Sums`. Return these sums with request i included.
    """
    members.chosen[at], members.rounds[at] = i, 1
    members.held[at] = given.requests.prompt_lengths[i] + given.requests.output_lengths[i] - 1
    return _complete(given, i, 1, sums)


@step
def _complete_coarser(
    given: Extension, c: int, size: int, members: Members, sums: _Sums
) -> tuple[int, _Sums]:
    """Write the requests that complete on the arc from node c of the coarser graph to tau + 1.

    Epoch tau is the time between rounds tau and tau + 1. A node is an epoch and the set of requests
    that run then, of those whose starts the graph records. The coarser graph records fewer starts
    than the graph being built. Node c is at epoch tau. The requests that complete on its arc to
    epoch tau + 1, so in round tau + 1, become the entries from ``size`` on of the arrays
    ``members``. ``sums`` are the cost, memory and price (`_Sums`) of the requests in the entries
    below ``size``. Return the total number of entries, or -1 if the requests do not fit in memory,
    and the sums over all entries.
    """
    graph, end = given.coarser.graph, size
    for x in range(graph.ended_first[c], graph.ended_first[c] + graph.ended_counts[c]):
        i: Any = np.int64(graph.ended[x])
        if sums.held + given.blocks.peaks[i] > given.requests.memory_limit:
            return -1, sums
        sums = _choose(given, i, end, members, sums)
        end += 1
    return end, sums


@step
def _next_added(given: Extension, q: int, begin: int, sums: _Sums, most: int) -> int:
    """Return the position in ``given.added`` of the next request that may end in round tau + 1.

    Epoch tau is the time between rounds tau and tau + 1. ``given.added`` has the requests whose
    starts this graph records and the coarser graph does not. Return the first position >= ``begin``
    of such a request in this array, or -1 if there is none. The request must have arrived by its
    start, fit in memory, and not run in node q of epoch tau + 1 (entry q of ``given.above``).
    ``sums`` are the cost, memory and price (`_Sums`) of the requests already in the node being
    built at epoch tau. With this request, their cost must be at most ``most``, in units of 1 /
    SCALE rounds.
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
            # Request j runs at epoch tau + 1, the time after round tau + 1. So it is not request i,
            # which completes in round tau + 1. If i and j are identical (of equal kind), i started
            # before j, because it completes before j. Of identical requests, the one of smaller
            # index starts first, so i must have the smaller index.
            if j == i or (kinds[j] == kinds[i] and j < i):
                fits = False
                break
        if fits:
            return x
    return -1


@step
def _write_node(given: Extension, q: int, end: int, found: Found, counts: tuple[int, int]) -> None:
    """Write the node at epoch tau in which the requests of node q and some completing ones run.

    Epoch tau is the time between rounds tau and tau + 1. A node is a set of running requests with
    their starts. Node q is entry q of ``given.above``, at epoch tau + 1. The new node gets an arc
    to it. The requests that complete on this arc, in round tau + 1, are in
    found.members.chosen[first:end], where ``first`` is the number of requests of node q.

    ``counts`` has the index of the new node in the arrays of ``found``, and the number of indices
    of completing requests written to ``found.ended`` so far.
    """
    above, here, scratch = given.above, found.here, found.scratch
    node, taken = counts
    first, key = above.sizes[q], above.keys[q]
    members = here.members[node]
    for k in range(first):
        members[k] = above.members[q, k]
    for size in range(first, end):
        i = found.members.chosen[size]
        found.ended[taken + size - first] = i
        # Insert request i so that the requests of the node are sorted by start, then by index.
        t = given.tau + 1 - given.requests.output_lengths[i]
        position = size
        while position > 0:
            code = members[position - 1]
            t2, i2 = code & STARTS, code >> START_BITS
            if t2 < t or (t2 == t and i2 < i):
                break
            members[position] = code
            position -= 1
        members[position] = (i << START_BITS) | t
        key ^= given.keys[i, t]
    here.sizes[node], here.keys[node] = end, key
    scratch.later[node] = above.nodes[q]
    scratch.ended_first[node], scratch.ended_counts[node] = taken, end - first


@step
def _add_choices(
    given: Extension, q: int, c: int, of_set: _Sums, counts: tuple[int, int], found: Found
) -> tuple[int, int]:
    """Add the nodes at epoch tau that have an arc to node q of tau + 1 and that refine node c.

    Epoch tau is the time between rounds tau and tau + 1. A node is a set of running requests with
    their starts. Node c is a node at epoch tau of the coarser graph, which records the starts of
    fewer requests. A node refines c if it has the requests of c and otherwise only requests whose
    starts the coarser graph does not record.

    Parameters
    ----------
    given : Extension
        Data from which the nodes are built.
    q, c : int
        Index in ``given.above`` of the node at tau + 1, and node of the coarser graph at tau.
    of_set : _Sums
        Cost, memory and price (`_Sums`), at tau, of the requests that run in node q.
    counts : tuple[int, int]
        Number of nodes written to ``found`` so far, and number of indices of completing requests
        written to ``found.ended`` so far.
    found : Found
        Arrays to which the nodes at tau are written.

    Returns
    -------
    tuple[int, int]
        The new ``counts``. The number of nodes is -1 if the arrays are full.
    """
    nodes, taken = counts
    size, members = given.above.sizes[q], found.members
    left, least = given.budget - given.coarser.paid[c], given.coarser.graph.slacks[c]
    coarse, sums = _complete_coarser(given, c, size, members, of_set)
    if coarse < 0 or sums.cost + least > left:
        return nodes, taken
    # Each new node refines node c of the coarser graph: it has the requests of c, and possibly some
    # of ``given.added``, which complete in round tau + 1. Enumerate these sets depth first. The
    # least cost of a path from the new node to the end is its slack plus sums.cost. The slack is
    # the capacity of epoch tau minus the total price of the node's requests and of the most
    # expensive other requests that fit in memory with them. It is at least ``least``, the slack of
    # c: slacks do not fall as a graph records more requests. sums.cost only grows as requests are
    # added. The budget is the largest cost of a schedule within the limit on total latency. A path
    # to the new node costs at least as much as the cheapest path to c. So ``left``, the budget
    # minus the cost of this path, is an upper limit on the cost from the new node on. Skip each set
    # with sums.cost > left - least: all paths through its node cost more than the budget.
    end, place = coarse, 0
    while place >= 0:
        others = heaviest_beside(found.states, members.held, members.rounds, end, members.order)
        slack = given.capacity - sums.price - others
        if sums.cost + slack <= left:
            if nodes >= given.room or taken + end - size > len(found.ended):
                return -1, taken
            _write_node(given, q, end, found, (nodes, taken))
            found.here.costs[nodes], found.here.coarser[nodes] = sums.cost + slack, c
            found.scratch.slacks[nodes] = slack
            nodes, taken = nodes + 1, taken + end - size
        while True:
            place = _next_added(given, q, place, sums, left - least)
            if place >= 0 or end == coarse:
                break
            end -= 1
            sums = _complete(given, members.chosen[end], -1, sums)
            place = members.places[end] + 1
        if place >= 0:
            members.places[end] = place
            sums = _choose(given, given.added[place], end, members, sums)
            end, place = end + 1, place + 1
    return nodes, taken


@njit
def extend_sets(
    given: Extension, begin: int, end: int, counts: tuple[int, int], found: Found
) -> tuple[int, int]:
    """Find the exit nodes of epoch tau with arcs to given entry nodes of epoch tau + 1.

    A node is an epoch (time between two rounds) and the set of requests that run then, with their
    starts. A path enters an epoch in an *entry node*, in which no request starts at this epoch. It
    leaves the epoch in an *exit node*, which has an arc to the next epoch. A node may be both.
    ``given.above`` has the entry nodes of epoch tau + 1. After this function has been called for
    all of them, `join_parents` adds the nodes that a path visits at epoch tau before it reaches an
    exit node.

    An exit node is left out if every path through it costs more than ``given.budget``. Then none of
    these paths is a schedule within the limit on total latency.

    Parameters
    ----------
    given : Extension
        Data from which the nodes are built.
    begin, end : int
        Range of nodes at tau + 1: this call finds the predecessors of the nodes begin .. end - 1 in
        ``given.above``.
    counts : tuple[int, int]
        Number of nodes written to ``found`` by earlier calls, and number of indices of completing
        requests written to ``found.ended`` so far.
    found : Found
        Arrays to which the nodes at tau are written.

    Returns
    -------
    tuple[int, int]
        The new ``counts``. The number of nodes is -1 if the arrays are full.
    """
    coarser = given.coarser
    for q in range(begin, end):
        of_set = _place_set(given, q, found.members)
        beside = given.above.coarser[q]
        # Node ``beside`` of the coarser graph, at epoch tau + 1, is node q without the requests
        # whose starts the coarser graph does not record. Try each node c of the coarser graph at
        # epoch tau that has an arc to ``beside``.
        for e in range(coarser.first[beside], coarser.first[beside + 1]):
            c = coarser.earlier[e]
            if coarser.paid[c] < FAR:
                counts = _add_choices(given, q, c, of_set, counts, found)
                if counts[0] < 0:
                    return counts
    return counts


@step
def _add_parent(given: Extension, v: int, nodes: int, found: Found) -> int:
    """Find or add the parent of node v at epoch tau, and write its number as the parent of v.

    Epoch tau is the time between rounds tau and tau + 1. A node is a set of running requests with
    their starts. Its parent is the same set without the last request that starts at tau. A path
    goes from the parent to v by starting this request. ``nodes`` is the number of nodes in
    ``found`` before this call. Return their number after the call, or -1 if the arrays are full.
    """
    here, scratch, coarser = found.here, found.scratch, given.coarser
    size = here.sizes[v] - 1
    i = here.members[v, size] >> START_BITS
    key = here.keys[v] ^ given.keys[i, given.tau]
    slot, p = _find(here, scratch.table, key, here.members[v], size)
    if p < 0:
        if nodes >= given.room:
            return -1
        p = nodes
        nodes += 1
        for k in range(size):
            here.members[p, k] = here.members[v, k]
        here.sizes[p], here.keys[p], here.costs[p] = size, key, FAR
        beside = here.coarser[v]
        here.coarser[p] = coarser.graph.parents[beside] if coarser.followed[i] else beside
        scratch.table[slot], scratch.slots[p] = p + 1, slot
        scratch.later[p], scratch.slacks[p] = -1, 0
        scratch.ended_first[p], scratch.ended_counts[p] = 0, 0
    scratch.parents[v] = p
    return nodes


@njit
def join_parents(given: Extension, nodes: int, found: Found) -> int:
    """Add the nodes that paths visit at epoch tau before the exit nodes, and number all nodes.

    Epoch tau is the time between rounds tau and tau + 1. A node is a set of running requests with
    their starts. The exit nodes of epoch tau, those with an arc to epoch tau + 1, are in ``found``
    already. A path starts the requests that start at tau one by one, in the order of indices. So
    just before a node it visits the *parent* of the node: the same set without the last of these
    requests. This function adds the parents of the exit nodes, the parents of these, and so on. The
    last of them, in which no request starts at tau, are the *entry nodes*: paths enter the epoch
    there. Then it numbers the nodes. Nodes with more starts at tau get smaller numbers, because
    arcs lead to smaller numbers.

    ``nodes`` is the number of nodes in ``found`` before this call. Return their number after the
    call, or -1 if the arrays are full.
    """
    here, scratch = found.here, found.scratch
    for v in range(nodes):
        slot, _ = _find(here, scratch.table, here.keys[v], here.members[v], here.sizes[v])
        scratch.table[slot], scratch.slots[v] = v + 1, slot
    v, most = 0, 0
    while v < nodes:
        size, fresh = here.sizes[v], 0
        while fresh < size and (here.members[v, size - 1 - fresh] & STARTS) == given.tau:
            fresh += 1
        scratch.fresh[v], scratch.parents[v] = fresh, -1
        most = max(most, fresh)
        if fresh:
            nodes = _add_parent(given, v, nodes, found)
            if nodes < 0:
                return nodes
        v += 1
    for v in range(nodes):
        scratch.table[scratch.slots[v]] = 0
    number = 0
    for fresh in range(most, -1, -1):
        for v in range(nodes):
            if scratch.fresh[v] == fresh:
                here.nodes[v] = number
                number += 1
                p = scratch.parents[v]
                if fresh and here.costs[v] < here.costs[p]:
                    here.costs[p] = here.costs[v]
    return nodes


def store_epoch(given: Extension, nodes: int, first: int, found: Found, graph: PathGraph) -> int:
    """Write the nodes at epoch tau from ``found`` into the graph, with numbers from ``first`` on.

    Epoch tau is the time between rounds tau and tau + 1. A node is a set of running requests with
    their starts. ``nodes`` is the number of nodes in ``found``. The entry nodes, in which no
    request starts at tau, are also copied to ``given.above``. From these copies the nodes of epoch
    tau - 1 are built next. Return the number of copies.
    """
    above, here, scratch = given.above, found.here, found.scratch
    g, fresh = first + here.nodes[:nodes], np.flatnonzero(scratch.fresh[:nodes])
    for name in ("later", "slacks", "ended_first", "ended_counts"):
        getattr(graph, name)[g] = getattr(scratch, name)[:nodes]
    graph.epochs[g], graph.parents[g], graph.requests[g] = given.tau, -1, -1
    graph.parents[g[fresh]] = first + here.nodes[scratch.parents[fresh]]
    graph.requests[g[fresh]] = here.members[fresh, here.sizes[fresh] - 1] >> START_BITS
    entries = np.flatnonzero(scratch.fresh[:nodes] == 0)
    pairs: Any = zip(above, here._replace(nodes=g), strict=True)
    for target, source in pairs:
        target[: len(entries)] = source[entries]
    return len(entries)
