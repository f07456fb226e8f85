"""Compiled kernels of the forward search (`states`): bounds, expansion, merging.

A state at epoch tau is what a partial schedule, all of whose starts are < tau, leaves behind: the
set of started requests (a bit mask, in as many words as n requests take), the memory the active
ones will hold in each later round (``profile[j]`` for round tau + 1 + j), its cost so far, and a
lower bound on the total latency of every completion. Bounds are int64 in units of 1 / `SCALE`.

**Costs** are compared lexicographically: first f = sum over started i of t_i + o_i - a_i, then
w = sum over started i of (s_i + o_i) t_i. Both are sums over requests, so the cost of a schedule is
that of any prefix plus that of the rest. In code a cost is one integer, (f << COST_SHIFT) + w.

**Bound.** For epoch prices Q(tau, m, r) >= 0 and capacities W_tau (no configuration has a total
Q(tau, .) above W_tau), every feasible schedule satisfies

    SCALE * TEL = sum_i P_i(t_i) - sum_tau W_tau
                  + sum_tau [ W_tau - sum over active i of Q(tau, state of i) ],
    P_i(t) = SCALE (t + o_i - a_i) + sum_age Q(t + age, s_i + age, o_i - age),

and each bracket, the slack of an epoch, is >= 0 (`hindsight.prices.states`). A partial
schedule fixes P_i(t_i) of the started requests and the slacks of past epochs; an unstarted request
costs at least u_i(tau) = min of P_i over starts >= max(tau, a_i), and a future slack is at least 0.
So the bound at tau is

    sum over started of P_i(t_i) + sum over unstarted of u_i(tau) - sum of all W + past slacks.

It grows by P_i(tau) - u_i(tau) when i starts at tau (its regret, >= 0), and from tau to tau + 1 by
the slack of tau and by u_i(tau + 1) - u_i(tau) >= 0 for each request still unstarted. From the end
T of the priced epochs on, u_i grows by SCALE a round, provided that i has arrived by T: the prices
must reach past the last arrival.

**Merge.** Two states at tau with the same started set and the same profile have the same
completions, at the same additional cost; the cheaper one stays.

**Dominance** and **Improvable** states: `hindsight.exact.state_pruning`.

**Twins.** Requests of the same lengths start in order of arrival, and in index order where they
arrive together. Let i come before j in this order, so a_i <= a_j, and t_j < t_i. To exchange the
two starts is feasible, as t_j >= a_j >= a_i and t_i > t_j >= a_j, and changes neither the memory
nor the cost; and a class of twins is sorted after finitely many such exchanges. The search holds
each request to one of those before it in this order with a smaller index, the last of them: all in
a row when requests are numbered by arrival. (The shorter of two requests first would be no rule:
the longer one need not fit where the shorter one was.)

**Fixing.** Request i is not started at tau where the bound, with the regrets of what starts at tau
beside it, would exceed the budget by its own regret: the slack of tau and what is left unstarted
add >= 0 to it.

This and the bound do all that prices can do by *start windows* and by *precedences*. Let B be the
bound of the empty schedule, x_i(t) = P_i(t) - u_i(0) >= 0 for t >= a_i, and c the budget - B. Then
SCALE * TEL >= B + sum_i x_i(t_i), so in every schedule within the budget x_i(t_i) <= c, which fixes
the earliest and the latest start of i, and x_i(t_i) + x_j(t_j) <= c, which proves that i starts no
later than j if all t_j < t_i have a larger sum. The bound at tau is B + sum over started of
x_i(t_i) + sum over unstarted of min over t >= tau of x_i(t) + past slacks, all of them >= 0. So a
start with x_i(tau) > c is not made (with it the bound is >= B + x_i(tau)); a state at tau with i
unstarted past its latest start is pruned by its bound; and so is one with j started and i, which
may start no later, unstarted: its bound is >= B + x_j(t_j) + x_i(t) for some t >= tau > t_j.

Why all of these are sound *together* is proved in `hindsight.exact.state_pruning`.

(Sharper look-aheads were tried and dropped. Bounds from starts that fit beside the active requests
and from the slack of the memory they leave free: a tenth fewer states at twice the time. Capacities
of only what the start windows allow to run: the same at n = 15 and 20, better by 0.015 of 9241
rounds at n = 50. Pruning branches by what skipped requests add to the bound: no faster. Dominance
between different started sets: no state removed.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.prices.states import SCALE
from hindsight.runtime.compilation import njit, step
from instances.arrays import IntArray, RequestColumns

from .state_arrays import COST_SHIFT, Expansion, Layer, Masks
from .state_pruning import improvable


class _Sums(NamedTuple):
    """Sums of a child: cost, bound without drift and slack, drift of unstarted requests, slack."""

    cost: int
    bound: int
    drift: int
    slack: int


@step
def _fits(i: int, profile: IntArray, requests: RequestColumns) -> bool:
    """Return whether request i, started now, fits on top of ``profile`` in all its rounds."""
    s, o, _, M = requests
    j = o[i] - 1
    while j >= 0 and profile[j] + s[i] + j + 1 <= M:
        j -= 1
    return bool(j < 0)


@step
def _first_slot(
    mask: Masks, profile: npt.NDArray[Any], begin: int, random_keys: Masks, size: int
) -> Any:
    """Return the place in a hash table where the search for a state begins.

    ``size`` is the table size, a power of two. ``begin`` is the first entry of ``profile`` that
    belongs to the state.
    """
    key = np.uint64(0)
    for w in range(len(mask)):
        key = (key ^ mask[w]) * np.uint64(0x9E3779B97F4A7C15)
    for j in range(len(random_keys)):
        key += np.uint64(profile[begin + j]) * random_keys[j]
    key ^= key >> np.uint64(29)
    return np.int64(key & np.uint64(size - 1))


@step
def _find(search: Expansion) -> tuple[int, int]:
    """Return the slot of the child in the hash table, and the number of an equal state, or -1."""
    mask, profile, table = search.child.mask, search.child.profile, search.table
    masks, profiles = search.following.masks, search.following.profiles
    size = table.shape[0]
    slot = _first_slot(mask, profile, 1, search.random_keys, size)
    while True:
        v = table[slot]
        if v < 0:
            return slot, v
        # Compare element by element: a view of a row takes longer to create than to compare.
        same = masks[v, 0] == mask[0]
        for w in range(1, len(mask)):
            same &= masks[v, w] == mask[w]
        j = 0
        while same and j < profiles.shape[1]:
            same = profiles[v, j] == profile[j + 1]
            j += 1
        if same:
            return slot, v
        slot = (slot + 1) & (size - 1)


@step
def _begin(q: int, tau: int, search: Expansion) -> tuple[int, _Sums]:
    """Copy state q to the child; return the number of candidates, and the sums before any start."""
    masks, costs, bounds, profiles, histories, starts = search.layer
    s, o, a, _ = search.columns
    Q, W, T, child = search.prices.Q, search.prices.W, search.prices.Q.shape[0], search.child
    for w in range(len(child.mask)):
        child.mask[w] = masks[q, w]
    for j in range(profiles.shape[1]):
        child.profile[j] = profiles[q, j]
    for j in range(len(child.history)):
        child.history[j] = histories[q, j]
    slack: Any = W[tau] if tau < T else np.int64(0)
    drift: Any = np.int64(0)
    count = 0
    for i in range(len(s)):
        t = np.int64(starts[q, i])
        child.starts[i] = t
        if t < 0:
            drift += child.drifts[i]
            if a[i] <= tau and _fits(i, child.profile, search.columns):
                child.candidates[count] = i
                count += 1
        elif t + o[i] > tau and tau < T:
            slack -= Q[tau, s[i] + tau - t, t + o[i] - tau]
    return count, _Sums(costs[q], bounds[q], drift, slack)


@step
def _toggle(k: int, tau: int, sign: int, search: Expansion, sums: _Sums) -> _Sums:
    """Start candidate number k at tau; with ``sign`` -1 undo its start."""
    s, o, a, _ = search.columns
    child, i = search.child, search.child.candidates[k]
    for j in range(o[i]):
        child.profile[j] += sign * (s[i] + j + 1)
    child.starts[i] = tau if sign > 0 else -1
    child.mask[i >> 6] ^= np.uint64(1) << np.uint64(i & 63)
    return _Sums(
        sums.cost + sign * (((tau + o[i] - a[i]) << COST_SHIFT) + (s[i] + o[i]) * tau),
        sums.bound + sign * child.regrets[i],
        sums.drift - sign * child.drifts[i],
        sums.slack - sign * child.weights[i],
    )


@step
def _next_candidate(k: int, count: int, least: int, budget: int, search: Expansion) -> int:
    """Return the place, from k on, of the first candidate that can start too, or ``count``."""
    child, twin = search.child, search.twin
    while k < count:
        i = child.candidates[k]
        is_first = twin[i] < 0 or child.starts[twin[i]] >= 0
        is_cheap = least + child.regrets[i] <= budget
        if is_first and is_cheap and _fits(i, child.profile, search.columns):
            break
        k += 1
    return k


@step
def _emit(tau: int, count: int, cost: int, bound: int, search: Expansion) -> int:
    """Append the child at tau + 1, or merge it; return the number of children, -1 if full."""
    masks, costs, bounds, profiles, histories, starts = search.following
    child, history = search.child, search.child.history
    history[(tau + 1) % len(history)] = child.profile[0]
    if improvable(tau + 1, child.starts, history, search.columns):
        return count
    slot, v = _find(search)
    if v >= 0:
        if cost >= costs[v]:
            return count
    else:
        if count >= len(masks):
            return -1
        v = count
        count += 1
        search.table[slot] = v
    for w in range(len(child.mask)):
        masks[v, w] = child.mask[w]
    costs[v], bounds[v] = cost, bound
    for j in range(profiles.shape[1]):
        profiles[v, j] = child.profile[j + 1]
    for j in range(len(history)):
        histories[v, j] = history[j]
    for j in range(len(child.starts)):
        starts[v, j] = child.starts[j]
    return count


@step
def _price_epoch(tau: int, search: Expansion) -> None:
    """Compute ``drifts``, ``regrets`` and ``weights`` of all requests at tau."""
    (s, o, _, _), (Q, _, P, u), child = search.columns, search.prices, search.child
    T = Q.shape[0]
    for i in range(len(s)):
        child.drifts[i] = u[i, tau + 1] - u[i, tau] if tau < T else SCALE
        if tau <= T:
            child.regrets[i] = P[i, tau] - u[i, tau]
        if tau < T:
            child.weights[i] = Q[tau, s[i], o[i]]


@step
def _resume(tau: int, sums: _Sums, search: Expansion) -> tuple[int, int, _Sums]:
    """Restore the requests started in the child if the last call stopped within this state."""
    child, k = search.child, 0
    depth = child.depth[0]
    child.depth[0] = 0
    for d in range(depth):
        sums = _toggle(child.chosen[d], tau, 1, search, sums)
        k = child.chosen[d] + 1
    return depth, k, sums


@step
def _next_set(
    tau: int, k: int, some: int, depth: int, sums: _Sums, budget: int, search: Expansion
) -> tuple[int, int, _Sums]:
    """Go to the next set of started requests, depth first: add a candidate, or replace the last.

    Returns
    -------
    tuple[int, int, _Sums]
        The place after the request started last, or -1 after the last set; the number of requests
        started; and the sums of the child.
    """
    chosen = search.child.chosen
    k = _next_candidate(k, some, sums.bound, budget, search)
    while k == some and depth > 0:
        depth -= 1
        k = chosen[depth]
        sums = _toggle(k, tau, -1, search, sums)
        k = _next_candidate(k + 1, some, sums.bound, budget, search)
    if k == some:
        return -1, 0, sums
    chosen[depth] = k
    return k + 1, depth + 1, _toggle(k, tau, 1, search, sums)


@njit
def expand(
    tau: int, first: int, last: int, count: int, budget: int, search: Expansion, patience: int
) -> tuple[int, int, bool]:
    """Append the children (at tau + 1) of states first .. last - 1 to the following layer.

    Each child of a state is a set of unstarted requests that start at tau. The sets are enumerated
    depth first, in index order, among the candidates: requests that have arrived and fit with the
    active ones. A branch is pruned by *fixing*, or if a request no longer fits. Children are pruned
    by their bound and by `improvable`, and merged through the hash table, which already has
    ``count`` states.

    Stops early, before the next child, when the arrays are full or after ``patience`` children. The
    next call resumes there.

    Returns
    -------
    tuple[int, int, bool]
        The number of children in the following layer, the state at which to resume (``last`` when
        all are done), and whether the arrays are full.
    """
    _price_epoch(tau, search)
    visits = 0
    for q in range(first, last):
        some, sums = _begin(q, tau, search)
        depth, k, sums = _resume(tau, sums, search)
        while k >= 0:
            # Append this child unless its bound exceeds the budget.
            bound, found = sums.bound + sums.slack + sums.drift, count
            is_late = visits >= patience
            if not is_late and bound <= budget:
                found = _emit(tau, count, sums.cost, bound, search)
            if is_late or found < 0:
                search.child.depth[0] = depth
                return count, q, not is_late
            visits, count = visits + 1, found
            k, depth, sums = _next_set(tau, k, some, depth, sums, budget, search)
    return count, last, False


@njit
def insert_states(table: IntArray, layer: Layer, random_keys: Masks, first: int, last: int) -> None:
    """Insert states first .. last - 1, all of them different, into a hash table.

    Open addressing with linear probing; the size of ``table`` is a power of two, -1 marks a free
    slot.
    """
    size = len(table)
    for v in range(first, last):
        slot = _first_slot(layer.masks[v], layer.profiles[v], 0, random_keys, size)
        while table[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        table[slot] = v
