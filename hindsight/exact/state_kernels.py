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

from hindsight.prices.states import SCALE
from hindsight.runtime.compilation import njit, step
from instances.arrays import IntArray, RequestColumns

from .state_pruning import COST_SHIFT, AnyInts, Layer, Rules, improvable
from .state_pruning import Flags as Flags
from .state_pruning import Masks as Masks

NO_BUDGET = 1 << 60
"""A value above every bound."""


class SearchedRequests(NamedTuple):
    """Requests as the search needs them.

    Attributes
    ----------
    columns : RequestColumns
        Lengths, arrivals and M.
    twin : int64 array, shape (n,)
        A request that may not start later than this one, or -1.
    random_keys : uint64 array, shape (largest o,)
        Random keys for the hash of a profile.
    """

    columns: RequestColumns
    twin: IntArray
    random_keys: Masks


class Prices(NamedTuple):
    """Epoch prices and what follows from them, int64, in units of 1 / SCALE.

    Attributes
    ----------
    Q : int64 array, shape (T, M + 1, M + 1)
        Prices.
    W : int64 array, shape (T,)
        Capacities.
    P, u : int64 array, shape (n, T + 1)
        As `hindsight.prices.states.start_values` gives them.
    """

    Q: IntArray
    W: IntArray
    P: IntArray
    u: IntArray

    @property
    def root(self) -> int:
        """Return the bound of the empty schedule."""
        return int(self.u[:, 0].sum() - self.W.sum())


class Child(NamedTuple):
    """A child while requests are started in it.

    Attributes
    ----------
    mask, starts, profile, history : array
        Rows as those of a `Layer`; the profile has one round more.
    drifts, regrets, weights : int64 array, shape (n,)
        What it adds to drift, bound and slack when a request is not started at tau, when it is,
        and what it then takes of the epoch's capacity.
    """

    mask: Masks
    starts: IntArray
    profile: IntArray
    history: IntArray
    drifts: IntArray
    regrets: IntArray
    weights: IntArray

    @classmethod
    def room_in(cls, layer: Layer) -> Child:
        """Return work space for the children of states of a layer."""
        n, rounds = layer.starts.shape[1], layer.profiles.shape[1]
        sizes = (n, rounds + 1, layer.histories.shape[1], n, n, n)
        columns = (np.zeros(size, np.int64) for size in sizes)
        return cls(np.zeros(layer.masks.shape[1], np.uint64), *columns)


class Expansion(NamedTuple):
    """Input and work arrays of an expansion.

    Attributes
    ----------
    layer, following : Layer
        States at tau, and room for their children.
    table : int64 array
        Hash table of the children, a power of two of places.
    requests : SearchedRequests
        The requests.
    prices : Prices
        Prices that bound states.
    rules : Rules
        The rules in force.
    stats : int64 array, shape (5,)
        States removed by `improvable` and by merging, and branches pruned by *fixing*.
    resume : int64 array, shape (n + 1,)
        Where to go on: the number of requests started at tau in the child that comes next, and
        their places among the candidates; -1 first to begin with.
    child : Child
        Work space.
    candidates, chosen : int64 array
        Work space, shape (n + 1,): requests that may start, and the places among them of
        those that do.
    """

    layer: Layer
    following: Layer
    table: IntArray
    requests: SearchedRequests
    prices: Prices
    rules: Rules
    stats: IntArray
    resume: IntArray
    child: Child
    candidates: IntArray
    chosen: IntArray


class _Sums(NamedTuple):
    """Cost, bound without drift and slack, drift of the unstarted, and slack of a child."""

    cost: int
    bound: int
    drift: int
    slack: int


@step
def _fits(i: int, profile: IntArray, requests: RequestColumns) -> bool:
    """Tell whether request i fits in every round of its life if it starts with ``profile``."""
    s, o, _, M = requests
    j = o[i] - 1
    while j >= 0 and profile[j] + s[i] + j + 1 <= M:
        j -= 1
    return bool(j < 0)


@step
def _first_slot(mask: Masks, profile: AnyInts, begin: int, random_keys: Masks, size: int) -> Any:
    """Return the place in a hash table where the search for a state begins.

    The table size is a power of two; ``begin`` is the entry at which its profile begins.
    """
    key = np.uint64(0)
    for w in range(len(mask)):
        key = (key ^ mask[w]) * np.uint64(0x9E3779B97F4A7C15)
    for j in range(len(random_keys)):
        key += np.uint64(profile[begin + j]) * random_keys[j]
    key ^= key >> np.uint64(29)
    return np.int64(key & np.uint64(size - 1))


@step
def _find(
    child: Child, random_keys: Masks, table: IntArray, masks: Masks, profiles: AnyInts
) -> tuple[int, int]:
    """Return the slot of a child in the hash table, and the number of its equal there or -1."""
    mask, profile = child.mask, child.profile
    size = table.shape[0]
    slot = _first_slot(mask, profile, 1, random_keys, size)
    while True:
        v = table[slot]
        if v < 0:
            return slot, v
        # Compare element by element: creating a view of a row costs more than the comparison.
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
def _begin(
    q: int, tau: int, search: Expansion, child: Child, candidates: IntArray
) -> tuple[int, _Sums]:
    """Copy state q; return how many requests may start, and its sums while none has started."""
    masks, costs, bounds, profiles, histories, starts = search.layer
    s, o, a, _ = columns = search.requests.columns
    Q, W, T = search.prices.Q, search.prices.W, search.prices.Q.shape[0]
    mask, own_starts, profile, history, drifts, _, _ = child
    for w in range(len(mask)):
        mask[w] = masks[q, w]
    for j in range(profiles.shape[1]):
        profile[j] = profiles[q, j]
    for j in range(len(history)):
        history[j] = histories[q, j]
    slack: Any = W[tau] if tau < T else np.int64(0)
    drift: Any = np.int64(0)
    count = 0
    for i in range(len(s)):
        t = np.int64(starts[q, i])
        own_starts[i] = t
        if t < 0:
            drift += drifts[i]
            if a[i] <= tau and _fits(i, profile, columns):
                candidates[count] = i
                count += 1
        elif t + o[i] > tau and tau < T:
            slack -= Q[tau, s[i] + tau - t, t + o[i] - tau]
    return count, _Sums(costs[q], bounds[q], drift, slack)


@step
def _toggle(
    i: int, tau: int, sign: int, columns: RequestColumns, child: Child, sums: _Sums
) -> _Sums:
    """Start request i at tau, or undo that with ``sign`` -1."""
    s, o, a, _ = columns
    mask, starts, profile, _, drifts, regrets, weights = child
    cost, bound, drift, slack = sums
    for j in range(o[i]):
        profile[j] += sign * (s[i] + j + 1)
    starts[i] = tau if sign > 0 else -1
    mask[i >> 6] ^= np.uint64(1) << np.uint64(i & 63)
    return _Sums(
        cost + sign * (((tau + o[i] - a[i]) << COST_SHIFT) + (s[i] + o[i]) * tau),
        bound + sign * regrets[i],
        drift - sign * drifts[i],
        slack - sign * weights[i],
    )


@step
def _next_candidate(
    k: int,
    count: int,
    candidates: IntArray,
    least: int,
    budget: int,
    child: Child,
    search: Expansion,
) -> int:
    """Return the first candidate from place k on that fits beside the others, or ``count``."""
    columns, twin, _ = search.requests
    while k < count:
        i = candidates[k]
        if twin[i] < 0 or child.starts[twin[i]] >= 0:
            if search.rules.fixing and least + child.regrets[i] > budget:
                search.stats[4] += 1
            elif _fits(i, child.profile, columns):
                break
        k += 1
    return k


@step
def _emit(tau: int, count: int, cost: int, bound: int, child: Child, search: Expansion) -> int:
    """Append a child at tau + 1, or merge it; return the number of children, -1 without room."""
    following, table, requests = search.following, search.table, search.requests
    rules, stats = search.rules, search.stats
    masks, costs, bounds, profiles, histories, starts = following
    mask, own_starts, profile, history, _, _, _ = child
    history[(tau + 1) % len(history)] = profile[0]
    if improvable(tau + 1, own_starts, history, requests.columns, rules, stats):
        return count
    slot, v = 0, -1
    if rules.merge:
        slot, v = _find(child, requests.random_keys, table, masks, profiles)
    if v >= 0:
        stats[3] += 1
        if cost >= costs[v]:
            return count
    else:
        if count >= len(masks):
            return -1
        v = count
        count += 1
        if rules.merge:
            table[slot] = v
    for w in range(len(mask)):
        masks[v, w] = mask[w]
    costs[v], bounds[v] = cost, bound
    for j in range(profiles.shape[1]):
        profiles[v, j] = profile[j + 1]
    for j in range(len(history)):
        histories[v, j] = history[j]
    for j in range(len(own_starts)):
        starts[v, j] = own_starts[j]
    return count


@step
def _suspend(resume: IntArray, depth: int, chosen: IntArray) -> None:
    resume[0] = depth
    for k in range(depth):
        resume[k + 1] = chosen[k]


@step
def _price_epoch(tau: int, search: Expansion) -> None:
    """Compute what each request adds to drift, bound and slack at tau."""
    (s, o, _, _), (Q, _, P, u) = search.requests.columns, search.prices
    _, _, _, _, drifts, regrets, weights = search.child
    T = Q.shape[0]
    for i in range(len(s)):
        drifts[i] = u[i, tau + 1] - u[i, tau] if tau < T else SCALE
        if tau <= T:
            regrets[i] = P[i, tau] - u[i, tau]
        if tau < T:
            weights[i] = Q[tau, s[i], o[i]]


@step
def _resume(tau: int, sums: _Sums, search: Expansion) -> tuple[int, int, _Sums]:
    """Start the requests that were started when the last call stopped, if it stopped within."""
    resume, candidates, chosen = search.resume, search.candidates, search.chosen
    depth, k = max(resume[0], 0), 0
    resume[0] = -1
    for d in range(depth):
        chosen[d] = resume[d + 1]
        k = chosen[d] + 1
        sums = _toggle(candidates[chosen[d]], tau, 1, search.requests.columns, search.child, sums)
    return depth, k, sums


@step
def _next_set(
    tau: int, k: int, some: int, depth: int, sums: _Sums, budget: int, search: Expansion
) -> tuple[int, int, _Sums]:
    """Go to the next set: one request more, or one less and a later one in its place.

    Returns
    -------
    tuple[int, int, _Sums]
        The place after the request started last, or -1 after the last set; the number of requests
        started; and the sums of the child.
    """
    candidates, chosen, child = search.candidates, search.chosen, search.child
    columns = search.requests.columns
    k = _next_candidate(k, some, candidates, sums.bound, budget, child, search)
    while k == some and depth > 0:
        depth -= 1
        k = chosen[depth]
        sums = _toggle(candidates[k], tau, -1, columns, child, sums)
        k = _next_candidate(k + 1, some, candidates, sums.bound, budget, child, search)
    if k == some:
        return -1, 0, sums
    chosen[depth] = k
    return k + 1, depth + 1, _toggle(candidates[k], tau, 1, columns, child, sums)


@njit
def expand(
    tau: int, first: int, last: int, count: int, budget: int, search: Expansion, patience: int
) -> tuple[int, int, bool]:
    """Append the children (at tau + 1) of states first .. last - 1 to the following layer.

    The children of a state are the sets of unstarted requests that start at tau, enumerated depth
    first in index order among the candidates, which have arrived and fit beside the active
    requests. *Fixing*, or a request that no longer fits, prunes a branch. Children are pruned by
    their bound and by `improvable`, and merged through the hash table, which already has ``count``.

    Stops early, before the next child, when the arrays are full or after ``patience`` children;
    the next call resumes there.

    Returns
    -------
    tuple[int, int, bool]
        The number of children in the following layer, the state at which to resume (``last`` when
        all are done), and whether the arrays are full.
    """
    child, chosen = search.child, search.chosen
    _price_epoch(tau, search)
    visits = 0
    for q in range(first, last):
        some, sums = _begin(q, tau, search, child, search.candidates)
        depth, k, sums = _resume(tau, sums, search)
        while k >= 0:
            # Emit this child unless its bound exceeds the budget.
            if visits >= patience:
                _suspend(search.resume, depth, chosen)
                return count, q, False
            visits += 1
            bound = sums.bound + sums.slack + sums.drift
            if bound <= budget:
                found = _emit(tau, count, sums.cost, bound, child, search)
                if found < 0:
                    _suspend(search.resume, depth, chosen)
                    return count, q, True
                count = found
            k, depth, sums = _next_set(tau, k, some, depth, sums, budget, search)
    return count, last, False


@njit
def insert_states(table: IntArray, layer: Layer, random_keys: Masks, first: int, last: int) -> None:
    """Put states first .. last - 1, all of them different, into a hash table.

    Open addressing with linear probing; the size of ``table`` is a power of two, -1 marks free.
    """
    size = len(table)
    for v in range(first, last):
        slot = _first_slot(layer.masks[v], layer.profiles[v], 0, random_keys, size)
        while table[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        table[slot] = v
