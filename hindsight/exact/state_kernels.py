"""Compiled kernels of the forward search (`hindsight.exact.states`): bounds, expansion, merging.

A state at epoch tau describes a partial schedule, all of whose starts are < tau: the set of started
requests, the memory that active ones will hold in each later round (the *profile*), the cost so
far, sum over started i of t_i + o_i - a_i, and a lower bound on the total latency of every
completion. Bounds are int64 in units of 1 / `SCALE`.

**Bound.** Let Q(tau, m, r) >= 0 be the price at epoch tau of a request that holds m tokens and
has r rounds to go, and W_tau a capacity, at least the largest total price of requests that fit into
memory together. Then every feasible schedule satisfies

    SCALE * TEL = sum_i P_i(t_i) - sum_tau W_tau
                  + sum_tau [ W_tau - sum over active i of Q(tau, state of i) ],
    P_i(t) = SCALE (t + o_i - a_i) + sum_age Q(t + age, s_i + age, o_i - age),

and each bracket, the slack of an epoch, is >= 0 (`hindsight.prices.states`). A partial schedule
fixes P_i(t_i) of the started requests and the slacks of past epochs; an unstarted request costs at
least u_i(tau) = min of P_i over starts >= max(tau, a_i), and a future slack is at least 0. So the
bound at tau is

    sum over started of P_i(t_i) + sum over unstarted of u_i(tau) - sum of all W + past slacks.

It grows by P_i(tau) - u_i(tau) when i starts at tau (the *regret*, >= 0), and from tau to tau + 1
by the slack of tau and by u_i(tau + 1) - u_i(tau) >= 0 for each request still unstarted (its
*drift*). From the end T of the priced epochs on, u_i grows by SCALE per round if i has arrived by
T, so the prices must reach past the last arrival.

`hindsight.exact.states` states and proves all other rules by which states are removed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.prices.states import SCALE
from hindsight.runtime.compilation import njit, step
from instances.arrays import IntArray, RequestColumns

Keys = npt.NDArray[np.uint64]

MOST_SETS = 1_000_000
"""Limit on the sets of requests that may start next in a state, a partial schedule. If there are
more, the search gives up, because enumerating them takes a second and cannot be interrupted."""


class Layer(NamedTuple):
    """The states of one epoch tau of the forward search, as arrays.

    Epoch tau is the time between rounds tau and tau + 1. A state is a partial schedule whose starts
    are all before tau.

    Attributes
    ----------
    keys : uint64 array, shape (capacity,)
        Hash of each state, computed from its started requests and the number of tokens that they
        hold together in each later round.
    costs : int64 array, shape (capacity,)
        Cost of each state: the total latency of the started requests, in rounds.
    bounds : int64 array, shape (capacity,)
        Lower bound on the total latency of all schedules that extend each state, in units of 1 /
        SCALE rounds.
    memory : uint8 array, shape (capacity, largest o)
        Column j has the tokens that started requests hold together in round tau + 1 + j. Its
        number of columns is the largest output length o.
    starts : int16 array, shape (capacity, n)
        Start of each request, -1 if it has not started.
    """

    keys: Keys
    costs: IntArray
    bounds: IntArray
    memory: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int16]


class Prices(NamedTuple):
    """Prices of states of requests at each epoch, and the costs of starts computed from them.

    The state of a running request is (m, r): it holds m tokens and has r rounds to go. Epoch tau is
    the time between rounds tau and tau + 1. There are n requests, and T epochs with prices. M is
    the memory limit in tokens. All prices and costs are int64, in units of 1 / SCALE rounds.

    Attributes
    ----------
    Q : int64 array, shape (T, M + 1, M + 1)
        Entry (tau, m, r): price at epoch tau of a request that holds m tokens and has r rounds to
        go.
    W : int64 array, shape (T,)
        Capacity of each epoch: at least the largest total price of the states of requests that fit
        into memory together.
    P, u : int64 array, shape (n, T + 1)
        P[i, t] is the priced cost of start t of request i: its latency plus the prices of its
        states. u[i, t] is the least priced cost of any start >= t of request i.
        `hindsight.prices.states.start_values` returns both.
    """

    Q: IntArray
    W: IntArray
    P: IntArray
    u: IntArray

    @property
    def root(self) -> int:
        """Return the lower bound on the total latency of all schedules.

        It is the bound of the state in which no request has started, in units of 1 / SCALE rounds.
        """
        return int(self.u[:, 0].sum() - self.W.sum())


class Child(NamedTuple):
    """Workspace: the child of a state that is being built in the forward search.

    Epoch tau is the time between rounds tau and tau + 1. A state is a partial schedule with all
    starts before tau. Its child also has the requests that start at tau. While sets of these
    requests are enumerated, the child is changed in place.

    Attributes
    ----------
    starts, memory : int64 array
        Start of each request in the child (-1 if it has not started), and tokens that its started
        requests hold in each round. The layout is that of a row of `Layer.starts` and of
        `Layer.memory` at tau, but ``memory`` has one round more.
    drifts, regrets, weights : int64 array, shape (n,)
        Three numbers for each request, in units of 1 / SCALE rounds. ``drifts``: rise of the lower
        bound on total latency, from epoch tau to tau + 1, if the request does not start at tau.
        ``regrets``: this rise if it starts at tau. ``weights``: price of its state at tau if it
        starts then.
    candidates : int64 array, shape (n + 1,)
        Indices of the requests that may start at tau: they have arrived and fit in memory.
    chosen : int64 array, shape (n + 1,)
        Positions in ``candidates`` of the requests that start at tau in the child.
    """

    starts: IntArray
    memory: IntArray
    drifts: IntArray
    regrets: IntArray
    weights: IntArray
    candidates: IntArray
    chosen: IntArray


class Expansion(NamedTuple):
    """Inputs, outputs and workspace of an expansion of the states of one epoch tau.

    Epoch tau is the time between rounds tau and tau + 1. A state is a partial schedule. Its
    children at tau + 1 also have requests that start at tau.

    Attributes
    ----------
    layer, following : Layer
        States at tau, and arrays for their children at tau + 1.
    table : int64 array
        Hash table, of 2^k entries, of the children in ``following``. An entry is the index of a
        child plus 1, or 0 if the entry is free.
    slots : int64 array, shape (capacity,)
        Position of each child in the hash table ``table``.
    requests : RequestColumns
        Lengths, arrivals and the memory limit M.
    twin : int64 array, shape (n,)
        For each request, the request of equal lengths that must start before it or together with
        it, or -1 if there is none.
    marks : uint64 array, shape (n + largest o,)
        Random factors for hashes: one for each request, and one for each later round in which
        memory is held.
    prices : Prices
        Prices from which the lower bounds of states are computed.
    child : Child
        Workspace.
    """

    layer: Layer
    following: Layer
    table: IntArray
    slots: IntArray
    requests: RequestColumns
    twin: IntArray
    marks: Keys
    prices: Prices
    child: Child


class _Sums(NamedTuple):
    """Cost and lower bound of the child being built: a partial schedule with starts up to tau.

    Epoch tau is the time between rounds tau and tau + 1. All but ``cost`` are in units of 1 / SCALE
    rounds. The sum ``bound + drift + slack`` is a lower bound on the total latency of all schedules
    that extend the child.

    Attributes
    ----------
    cost : int
        Total latency of the started requests, in rounds.
    bound : int
        The lower bound at epoch tau. At epoch tau + 1 it is larger by ``drift + slack``.
    drift : int
        Rise of the lower bound, from epoch tau to tau + 1, because of requests that have not
        started by tau.
    slack : int
        Rise of the lower bound, from epoch tau to tau + 1, because of memory: an upper bound on the
        total price of states that fit in memory at tau, minus the prices of the states of the
        requests that run then.
    """

    cost: int
    bound: int
    drift: int
    slack: int


@step
def _fits(i: int, search: Expansion) -> bool:
    """Return whether request i, started at epoch tau, fits in memory in each of its rounds.

    Epoch tau is the time between rounds tau and tau + 1. ``search.child`` is the partial schedule
    that is being extended. Its started requests hold child.memory[j] tokens in round tau + 1 + j,
    and request i must fit into the memory that is left.
    """
    s, o, _, M = search.requests
    memory, j = search.child.memory, o[i] - 1
    while j >= 0 and memory[j] + s[i] + j + 1 <= M:
        j -= 1
    return bool(j < 0)


@step
def _key(search: Expansion) -> Any:
    """Return the hash of ``search.child``, a partial schedule, as a state at epoch tau + 1.

    Epoch tau is the time between rounds tau and tau + 1. The hash depends on the set of started
    requests, and on the number of tokens that they hold together in each round after round tau + 1.
    """
    child, marks, n = search.child, search.marks, len(search.child.starts)
    key = np.uint64(0)
    for i in range(n):
        if child.starts[i] >= 0:
            key += marks[i]
    for j in range(len(marks) - n):
        key += np.uint64(child.memory[1 + j]) * marks[n + j]
    return key ^ (key >> np.uint64(29))


@step
def _find(key: Any, search: Expansion) -> tuple[int, int]:
    """Return the hash table's slot for ``search.child``, and the index of the state equal to it.

    The child is a partial schedule. ``search.following`` has the states (partial schedules) found
    so far at epoch tau + 1, the time after round tau + 1. A state is equal to the child if the same
    requests have started in both and hold equally many tokens in each later round. If no state is
    equal, the index is -1, and the slot is a free one. ``key`` is the hash of the child.
    """
    child, table = search.child, search.table
    keys, _, _, memory, starts = search.following
    n, width = starts.shape[1], memory.shape[1]
    slot: Any = np.int64(key & np.uint64(len(table) - 1))
    while table[slot] > 0:
        v = table[slot] - 1
        if keys[v] == key:
            # Compare state v with the child (both are partial schedules) entry by entry, because
            # creating views of their rows would take longer.
            i, k = 0, 0
            while i < n and (starts[v, i] < 0) == (child.starts[i] < 0):
                i += 1
            while i == n and k < width and memory[v, k] == child.memory[k + 1]:
                k += 1
            if k == width:
                return slot, v
        slot = (slot + 1) & (len(table) - 1)
    return slot, -1


@step
def _begin(q: int, tau: int, search: Expansion) -> tuple[int, _Sums]:
    """Copy state q of epoch tau to ``search.child``, and list the requests that may start at tau.

    Epoch tau is the time between rounds tau and tau + 1. A state is a partial schedule with all
    starts before tau. The requests listed, the candidates, have arrived and fit in memory with the
    started ones. Return the number of candidates, and the `_Sums` of the child before any of them
    starts: its cost and the terms of its lower bound on total latency.
    """
    _, costs, bounds, memory, starts = search.layer
    s, o, a, _ = search.requests
    Q, W, T, child = search.prices.Q, search.prices.W, search.prices.Q.shape[0], search.child
    for k in range(memory.shape[1]):
        child.memory[k] = memory[q, k]
    slack: Any = W[tau] if tau < T else np.int64(0)
    drift: Any = np.int64(0)
    count = 0
    for i in range(len(s)):
        t = np.int64(starts[q, i])
        child.starts[i] = t
        if t < 0:
            drift += child.drifts[i]
            if a[i] <= tau and _fits(i, search):
                child.candidates[count] = i
                count += 1
        elif t + o[i] > tau and tau < T:
            slack -= Q[tau, s[i] + tau - t, t + o[i] - tau]
    return count, _Sums(costs[q], bounds[q], drift, slack)


@step
def _toggle(k: int, tau: int, sign: int, search: Expansion, sums: _Sums) -> _Sums:
    """Start request candidates[k] at epoch tau, or undo this start if ``sign`` is -1.

    Epoch tau is the time between rounds tau and tau + 1. ``search.child`` is the partial schedule
    that is being extended. Its array ``candidates`` has the requests that may start at tau. The
    function changes its starts and its memory per round in place. ``sums`` has the cost of the
    child and the terms of its lower bound on total latency before this change. Return these sums
    after the change.
    """
    s, o, a, _ = search.requests
    child, i = search.child, search.child.candidates[k]
    for j in range(o[i]):
        child.memory[j] += sign * (s[i] + j + 1)
    child.starts[i] = tau if sign > 0 else -1
    return _Sums(
        sums.cost + sign * (tau + o[i] - a[i]),
        sums.bound + sign * child.regrets[i],
        sums.drift - sign * child.drifts[i],
        sums.slack - sign * child.weights[i],
    )


@step
def _next_candidate(k: int, count: int, least: int, budget: int, search: Expansion) -> int:
    """Return the position of the next candidate that may also start at epoch tau in the child.

    Epoch tau is the time between rounds tau and tau + 1. The child is the partial schedule that is
    being extended, and its candidates are the first ``count`` entries of
    ``search.child.candidates``. Return the first position >= k of a candidate that may start, or
    ``count`` if there is none. A candidate may start under three conditions. If it has a twin (a
    request of equal lengths that must not start later), the twin has started. It fits in memory.
    And ``least``, the lower bound on total latency of the child, plus the candidate's regret, the
    rise of this bound if it starts, is at most ``budget``, the largest total latency that is
    searched. These three numbers are in units of 1 / SCALE rounds.
    """
    child, twin = search.child, search.twin
    while k < count:
        i = child.candidates[k]
        is_first = twin[i] < 0 or child.starts[twin[i]] >= 0
        is_cheap = least + child.regrets[i] <= budget
        if is_first and is_cheap and _fits(i, search):
            break
        k += 1
    return k


@step
def _emit(count: int, cost: int, bound: int, search: Expansion) -> int:
    """Append ``search.child`` to the states of epoch tau + 1, or merge it with an equal state.

    Epoch tau is the time between rounds tau and tau + 1. The child is a partial schedule. ``cost``
    is its cost as in `Layer.costs`, and ``bound`` its lower bound on total latency in units of 1 /
    SCALE rounds. States are equal if the same requests have started and hold equally many tokens in
    each later round. Of equal states, the cheaper one is kept. ``count`` is the number of states in
    ``search.following`` before this call. Return their number after the call, or -1 if the arrays
    are full.
    """
    keys, costs, bounds, memory, starts = search.following
    child = search.child
    key = _key(search)
    slot, v = _find(key, search)
    if v >= 0:
        if cost >= costs[v]:
            return count
    else:
        if count >= len(keys):
            return -1
        v = count
        count += 1
        search.table[slot], search.slots[v] = count, slot
    keys[v], costs[v], bounds[v] = key, cost, bound
    for k in range(memory.shape[1]):
        memory[v, k] = child.memory[k + 1]
    for i in range(len(child.starts)):
        starts[v, i] = child.starts[i]
    return count


@step
def _price_epoch(tau: int, search: Expansion) -> None:
    """Write the drift, regret and weight of each request at epoch tau to ``search.child``.

    ``search.child`` is the partial schedule that is being extended. Epoch tau is the time between
    rounds tau and tau + 1. The drift is the rise of the lower bound on total latency if the request
    does not start at tau. The regret is the rise if it starts at tau. The weight is the price of
    its state (tokens held, rounds to go) at tau if it starts at tau. All are in units of 1 / SCALE
    rounds.
    """
    (s, o, _, _), (Q, _, P, u), child = search.requests, search.prices, search.child
    T = Q.shape[0]
    for i in range(len(s)):
        child.drifts[i], child.regrets[i], child.weights[i] = SCALE, 0, 0
        if tau <= T:
            child.regrets[i] = P[i, tau] - u[i, tau]
        if tau < T:
            child.drifts[i] = u[i, tau + 1] - u[i, tau]
            child.weights[i] = Q[tau, s[i], o[i]]


@step
def _next_set(
    tau: int, k: int, some: int, depth: int, sums: _Sums, budget: int, search: Expansion
) -> tuple[int, int, _Sums]:
    """Go to the next set of requests that start at epoch tau in the child of a state.

    Epoch tau is the time between rounds tau and tau + 1. The child is the partial schedule of the
    state, extended by the requests that start at tau. Its candidates are the requests that may
    start then. The sets are visited depth first: the next candidate is added to the set, or
    replaces the last one of the set.

    Parameters
    ----------
    tau : int
        The epoch.
    k : int
        First position in `Child.candidates` of a request that may be added.
    some : int
        Number of candidates.
    depth : int
        Number of requests in the set before this call.
    sums : _Sums
        Sums over the requests of the child before this call: its cost and the terms of its lower
        bound on total latency.
    budget : int
        Largest total latency that is searched, in units of 1 / SCALE rounds. Children with a larger
        lower bound are left out.
    search : Expansion
        The search. Its child is changed in place.

    Returns
    -------
    tuple[int, int, _Sums]
        Three values: the position in `Child.candidates` after the request added last, or -1 if all
        sets have been tried. The number of requests in the new set. The sums of the child with this
        set.
    """
    chosen = search.child.chosen
    while True:
        k = _next_candidate(k, some, sums.bound, budget, search)
        if k < some or depth == 0:
            break
        depth -= 1
        sums = _toggle(chosen[depth], tau, -1, search, sums)
        k = chosen[depth] + 1
    if k == some:
        return -1, 0, sums
    chosen[depth] = k
    return k + 1, depth + 1, _toggle(k, tau, 1, search, sums)


@njit
def expand(
    tau: int, first: int, count: int, budget: int, search: Expansion, patience: int
) -> tuple[int, int]:
    """Append the children, at epoch tau + 1, of the states of epoch tau from index ``first`` on.

    Epoch tau is the time between rounds tau and tau + 1. A state is a partial schedule with all
    starts before its epoch. For each set of requests that can start at tau, it has one child. The
    sets are enumerated depth first, in the order of request indices. They contain only candidates,
    the requests that have arrived and fit in memory with the running ones.

    No request is added to a set if it would not fit in memory, or if the lower bound on total
    latency would then exceed ``budget``, the largest total latency that is searched, in units of 1
    / SCALE rounds (rule *fixing* of `hindsight.exact.states`). Children are left out if their lower
    bound exceeds the budget. Children with the same started requests, which hold equally many
    tokens in each later round, are merged through a hash table. When the call begins,
    ``search.following`` and the hash table have ``count`` children.

    Once the call has visited ``patience`` children, it completes the present state and ends.

    Returns
    -------
    tuple[int, int]
        The number of children in ``search.following``, and the index of the state at which to
        continue. The index is the number of states if all are expanded. It is -1 if the arrays of
        ``search.following`` are full, or if a state has more than `MOST_SETS` children.
    """
    _price_epoch(tau, search)
    visits = 0
    for q in range(first, len(search.layer.costs)):
        if visits >= patience:
            return count, q
        some, sums = _begin(q, tau, search)
        depth, k = 0, 0
        while k >= 0:
            # Append the child: the partial schedule in which the chosen requests start at tau.
            # Leave it out if its lower bound on total latency exceeds the budget, the largest total
            # latency that is searched.
            bound = sums.bound + sums.slack + sums.drift
            if bound <= budget:
                found = _emit(count, sums.cost, bound, search)
                if found < 0:
                    return count, -1
                count = found
            visits += 1
            if visits > patience + MOST_SETS:
                return count, -1
            k, depth, sums = _next_set(tau, k, some, depth, sums, budget, search)
    return count, len(search.layer.costs)


@njit
def dominated(
    rows: npt.NDArray[np.int16], begin: IntArray, end: IntArray, gone: npt.NDArray[np.bool_]
) -> None:
    """Set ``gone`` to True for each state that an earlier state, not gone itself, dominates.

    States are partial schedules in order of cost, so earlier ones cost no more. An earlier state
    dominates another one if no number in its row of ``rows`` is larger.

    Parameters
    ----------
    rows : int16 array, shape (states, columns)
        Row of numbers for each state, of which smaller ones are better: the tokens held in each
        later round, or -1 * (tokens that each request has produced).
    begin, end : int64 array, shape (states,)
        Range of earlier states with which each state is compared: begin .. end - 1. With a smaller
        range, fewer dominated states are found.
    gone : bool array, shape (states,)
        Whether each state is dominated. All are False at first.
    """
    for y in range(len(rows)):
        for x in range(begin[y], end[y]):
            if gone[x]:
                continue
            k = 0
            while k < rows.shape[1] and rows[x, k] <= rows[y, k]:
                k += 1
            if k == rows.shape[1]:
                gone[y] = True
                break
