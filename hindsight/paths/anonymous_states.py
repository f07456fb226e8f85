"""Compiled kernels: the heaviest anonymous states that fit in memory with followed requests.

At an epoch, a request in state (m, r) holds m tokens and has r rounds to go. Of some active
requests, the *followed* ones, the states are given. All others are *anonymous*: they may form any
configuration of states that requests can be in at that epoch (`hindsight.prices.state_tables`) and
that fits in memory with the followed ones. The largest total price of anonymous states is found by
a dynamic program over (k, S): k members chosen so far, whose m add up to S. States are tried in
order of decreasing r, and a state (m, r) fits iff S + m + (k + 1) r <= M.

*Values.* Let V_r(k, S) be the largest price of states with r or fewer rounds to go that fit after k
members with sum S; V_0 = 0. Let theta be the largest r of an anonymous state. Followed members with
r > theta come before all anonymous states, so their number and sum are an index (k, S) into
V_theta. A followed member (m, r) with r <= theta comes between anonymous states. It changes V as
follows: for less than r rounds to go V is as without it; V_r(k, S) becomes V_r(k + 1, S + m) if the
member fits, and impossible otherwise; and larger r continue from there.

*Tree.* Followed members with r <= theta, in order of increasing r, lead from one V to the next. So
the V of all sets of followed members form a tree of tables, in which sets share tables if their
members of small r are the same. k members with r or more rounds to go have k r <= M, so V_r has
rows for these k only. The tree is a cache: it is emptied when it is full.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.prices.state_kernels import prepend
from hindsight.runtime.compilation import inner, njit, step
from instances.arrays import IntArray, RequestColumns

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""Factor of Fibonacci hashing: the odd number nearest to 2^64 / (golden ratio 1.618...)."""


class AnonymousStates(NamedTuple):
    """Anonymous states of one epoch, and tables of the largest total prices of sets of them.

    An epoch is the time between two rounds. A path graph has schedules as its paths. Its nodes
    record the starts of the *followed* requests only. All other requests are *anonymous*. In state
    (m, r) a request holds m tokens and has r rounds to go. M is the memory limit in tokens.

    V_r(k, S) is the largest total price of anonymous states with at most r rounds to go that fit in
    memory together with k requests. These k requests hold S tokens in total, and each has at least
    r rounds to go. The largest r is theta: no anonymous state with a price above 0 has more rounds
    to go. V also depends on the followed requests that run, because they take memory. There is one
    table of V for each set of them for which it was needed. The tables form a tree: the set of a
    child has one more followed request than the set of its parent.

    Attributes
    ----------
    tables : int32 array, shape (capacity, rows, M + 1)
        The table of V of each node of the tree, in units of 1 / SCALE rounds. ``capacity`` is the
        largest number of nodes. Row rows[r] + k of a table has V_r(k, S) for S = 0 .. M. An entry
        is -1 if the k requests and the node's followed requests do not fit in memory together.
    rows : int64 array, shape (theta + 2,)
        First row of each V_r in a table.
    used : int64 array, shape (1,)
        Number of nodes in the tree. Node 0, the root, has no followed request.
    keys, nodes : int64 array
        Hash table that finds a child of a node. Its size is a power of two. Each used slot has the
        number of a child in ``nodes``, and in ``keys`` an integer that encodes its parent node and
        the state of its additional request. The key of a free slot is -1.
    first : int64 array, shape (M + 3,)
        The states with r rounds to go are at first[r] .. first[r + 1] - 1 in the arrays ``held``,
        ``copies`` and ``weights``.
    held, copies, weights : int64 array, shape ((M + 1)^2,)
        For each anonymous state (m, r): its tokens m, the largest number of requests that can be in
        it at once, and its price in units of 1 / SCALE rounds.
    longest : int64 array, shape (1,)
        theta, the largest number of rounds to go of an anonymous state with a price at this epoch.
    counts : int64 array, shape (M + 1, M + 1)
        Workspace: the number of anonymous requests that can be in each state (m, r). All are 0 when
        `set_epoch` is called.
    """

    tables: npt.NDArray[np.int32]
    rows: IntArray
    used: IntArray
    keys: IntArray
    nodes: IntArray
    first: IntArray
    held: IntArray
    copies: IntArray
    weights: IntArray
    longest: IntArray
    counts: IntArray


def room_for_states(longest: int, most: int, memory_limit: int, size: int) -> AnonymousStates:
    """Allocate the arrays of `AnonymousStates` for a path graph.

    The nodes of the graph record the starts of some requests. An anonymous state is a state (tokens
    held, rounds to go) of any other request.

    Parameters
    ----------
    longest : int
        Largest number of rounds to go of an anonymous state.
    most : int
        Largest number of requests that run at once.
    memory_limit : int
        Memory limit M in tokens.
    size : int
        Approximate size of the arrays in bytes. It determines for how many price tables there is
        room.
    """
    side = memory_limit + 1
    counts = 1 + np.minimum(most + 1, memory_limit // np.maximum(1, np.arange(longest + 1)))
    rows = np.concatenate([[0], np.cumsum(counts)])
    capacity = max(most + 2, size // (4 * int(rows[-1]) * side)) if longest else 1
    places = 1 << (4 * capacity).bit_length()
    tables = np.empty((capacity, int(rows[-1]), side), np.int32)
    keys, nodes = np.full(places, -1, np.int64), np.zeros(places, np.int64)
    used, longest_here = np.zeros((2, 1), np.int64)
    first, counts = np.zeros(memory_limit + 3, np.int64), np.zeros((side, side), np.int64)
    listed = np.zeros((3, side * side), np.int64)
    columns = tables, rows, used, keys, nodes, first, *listed, longest_here, counts
    return AnonymousStates._make(columns)


@njit
def set_epoch(
    tau: int,
    prices: IntArray,
    requests: RequestColumns,
    followed: npt.NDArray[np.bool_],
    states: AnonymousStates,
) -> None:
    """Prepare ``states`` for epoch ``tau``: list the states that have a price above 0.

    Epoch tau is the time between rounds tau and tau + 1. ``followed`` flags the requests whose
    starts the path graph records. All other requests are anonymous. In state (m, r) a request holds
    m tokens and has r rounds to go. A state is listed if an anonymous request can be in it at tau,
    with its price and the number of anonymous requests that can be in it. The tables of largest
    total prices of the previous epoch are discarded.
    """
    s, o, a, M = requests
    _, _, _, _, _, first, held, copies, weights, longest, counts = states
    theta = 0
    for i in range(len(s)):
        if followed[i]:
            continue
        for age in range(min(o[i] - 1, tau - a[i]) + 1):
            m, r = s[i] + age, o[i] - age
            if prices[m, r] > 0:
                counts[m, r] += 1
                theta = max(theta, r)
    at = 0
    for r in range(1, theta + 1):
        first[r] = at
        for m in range(M + 1 - r):
            if counts[m, r] > 0:
                held[at], weights[at] = m, prices[m, r]
                copies[at] = min(counts[m, r], M // (m + r))
                at += 1
    first[theta + 1] = at
    longest[0] = theta
    _begin(states)


@step
def _begin(states: AnonymousStates) -> None:
    """Discard all tables of largest prices, and compute the table without followed requests.

    Followed requests are those whose starts the path graph records, and all others are anonymous.
    In state (m, r) a running request holds m tokens and has r rounds to go. Each state has a price
    at the present epoch (time between two rounds). The table of a set of followed requests has the
    largest total prices of states of anonymous requests that fit in memory with this set. The
    tables form a tree (`AnonymousStates`). Its root is the table computed here, for the empty set.
    """
    for slot in range(len(states.keys)):
        states.keys[slot] = -1
    states.used[0] = 1
    for row in range(states.rows[1]):
        for S in range(states.tables.shape[2]):
            states.tables[0, row, S] = 0
    _fill(states, 0, 1)


@inner
def _fill(states: AnonymousStates, node: int, begin: int) -> None:
    """Compute V_r in the table of tree node ``node`` for r = begin .. theta, from V_(begin - 1).

    Followed requests are those whose starts the path graph records. Anonymous states are states of
    the other requests. Each node of the tree of tables (`AnonymousStates`) has the table of V for
    one set of running followed requests. V_r(k, S) is the largest total price of anonymous states
    with at most r rounds to go that fit in memory together with this set and k more requests. These
    k requests hold S tokens in total, and each has at least r rounds to go. theta is the largest
    number of rounds to go of an anonymous state with a price above 0 at this epoch (time between
    two rounds).
    """
    tables, rows, _, _, _, first, held, copies, weights, longest, _ = states
    M = tables.shape[2] - 1
    for r in range(begin, longest[0] + 1):
        size = rows[r + 1] - rows[r]
        value = tables[node, rows[r] : rows[r] + size]
        for k in range(size):
            for S in range(M + 1):
                value[k, S] = tables[node, rows[r - 1] + k, S]
        for p in range(first[r], first[r + 1]):
            for _ in range(copies[p]):
                prepend(value, held[p], r, weights[p], M)


@step
def _child(states: AnonymousStates, parent: int, m: int, r: int) -> int:
    """Return the tree node for the followed requests of ``parent`` and one more, in state (m, r).

    In state (m, r) a request holds m tokens and has r rounds to go. Followed requests are those
    whose starts the path graph records. Each node of the tree has a table for one set of them: the
    largest total prices of states of other, anonymous requests that fit in memory with this set
    (`AnonymousStates`). If the tree lacks the node, add it and compute its table. Return -1 if
    there is no room for another node.
    """
    tables, rows, used = states.tables, states.rows, states.used
    keys, nodes, M = states.keys, states.nodes, tables.shape[2] - 1
    key = (np.int64(parent) * (M + 1) + m) * (M + 1) + r
    places = len(keys)
    slot = np.int64(((np.uint64(key) * MULTIPLIER) >> np.uint64(20)) & np.uint64(places - 1))
    while keys[slot] >= 0:
        if keys[slot] == key:
            found: int = nodes[slot]
            return found
        slot = (slot + 1) & (places - 1)
    node: int = used[0]
    if node >= tables.shape[0]:
        return -1
    used[0] += 1
    keys[slot], nodes[slot] = key, node
    here, before = tables[node, rows[r] : rows[r + 1]], tables[parent, rows[r] : rows[r + 1]]
    for k in range(len(here)):
        for S in range(M + 1):
            here[k, S] = -1
    for k in range(len(here) - 1):
        for S in range(M - m - (k + 1) * r + 1):
            here[k, S] = before[k + 1, S + m]
    _fill(states, node, r + 1)
    return node


@inner
def heaviest_beside(
    states: AnonymousStates, held: IntArray, rounds: IntArray, size: int, scratch: IntArray
) -> int:
    """Return the largest total price of anonymous states that fit in memory with followed requests.

    An epoch is the time between two rounds. Followed requests are those whose starts the path graph
    records. Anonymous states are those in which the other requests can be at the epoch of
    ``states``. In state (m, r) a request holds m tokens and has r rounds to go.

    Parameters
    ----------
    states : AnonymousStates
        Anonymous states of the epoch.
    held, rounds : int64 array
        Tokens m and rounds to go r of the followed requests that run, in any order.
    size : int
        Number of followed requests that run. They are the first ``size`` entries of ``held`` and
        ``rounds``.
    scratch : int64 array
        Workspace of at least ``size`` entries.
    """
    theta = states.longest[0]
    k, S, left = 0, np.int64(0), 0
    for q in range(size):
        if rounds[q] > theta:
            k += 1
            S += held[q]
        else:
            p = left
            while p > 0 and rounds[scratch[p - 1]] > rounds[q]:
                scratch[p] = scratch[p - 1]
                p -= 1
            scratch[p] = q
            left += 1
    node = p = 0
    while p < left:
        node = _child(states, node, held[scratch[p]], rounds[scratch[p]])
        p += 1
        if node < 0:
            # There is no room for another table. Discard all tables, and begin at the root again.
            _begin(states)
            node = p = 0
    heaviest: int = states.tables[node, states.rows[theta] + k, S]
    return heaviest
