"""Compiled kernels of the forward search (`state_search`): bounds, expansion, merging.

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

and each bracket, the slack of an epoch, is >= 0 (`hindsight.configurations.prices`). A partial
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

**Dominance** and **Improvable** states: `hindsight.exact_search.state_pruning`.

**Background.** Other requests with fixed starts may hold ``background[r]`` in round r: M is then
M - background[r] there. Nothing changes: profiles and histories include the background, which
is the same in every state of an epoch and in every variant of a schedule.

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

Why all of these are sound *together* is proved in `hindsight.exact_search.state_pruning`.

(Sharper look-aheads were tried: starts that fit beside the active requests, and slacks left by the
memory they leave free: a tenth fewer states at twice the time. Capacities of only what the start
windows let run: the same at n = 15 and 20, by 0.015 of 9241 rounds better at n = 50. Branches left
for what the requests passed over add to the bound: no less time. Dominance between different
started sets removed none.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hindsight.configurations.prices import SCALE
from hindsight.runtime.compilation import njit
from instances.arrays import IntArray, RequestColumns

from .state_pruning import AnyInts, Rules, improvable
from .state_pruning import Flags as Flags
from .state_pruning import Masks as Masks

COST_SHIFT = 26
"""A cost is (TEL << COST_SHIFT) + sum of (s + o) t: exact while that sum is below 2^COST_SHIFT."""

NO_BUDGET = 1 << 60
"""Above every bound."""


class SearchedRequests(NamedTuple):
    """What the search is about.

    Attributes
    ----------
    columns : RequestColumns
        Lengths, arrivals and M.
    twin : int64 array, shape (n,)
        A request that may not start later than each, or -1.
    background : int64 array
        Memory that requests outside the search hold in round r.
    random_keys : uint64 array, shape (largest o,)
        Of the hash of a profile.
    """

    columns: RequestColumns
    twin: IntArray
    background: IntArray
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
        As `hindsight.configurations.prices.start_values` gives them.
    """

    Q: IntArray
    W: IntArray
    P: IntArray
    u: IntArray

    @property
    def root(self) -> int:
        """Bound of the empty schedule."""
        return int(self.u[:, 0].sum() - self.W.sum())


class Layer(NamedTuple):
    """Room for the states of one epoch tau.

    Attributes
    ----------
    masks : uint64 array, shape (capacity, words)
        Started requests: request i is bit i % 64 of word i // 64.
    costs : int64 array, shape (capacity,)
        (TEL << COST_SHIFT) + sum of (s + o) t.
    bounds : int64 array, shape (capacity,)
        In units of 1 / SCALE.
    profiles : integer array, shape (capacity, largest o)
        Memory in round tau + 1 + j.
    histories : integer array, shape (capacity, H)
        Memory in round r at r % H.
    starts : integer array, shape (capacity, n)
        Start times, -1 where not started.
    """

    masks: Masks
    costs: IntArray
    bounds: IntArray
    profiles: AnyInts
    histories: AnyInts
    starts: AnyInts


@njit
def _fits(i: int, profile: IntArray, requests: RequestColumns) -> bool:
    """Whether request i fits in every round of its life when it starts where ``profile`` begins."""
    s, o, _, M = requests
    j = o[i] - 1
    while j >= 0 and profile[j] + s[i] + j + 1 <= M:
        j -= 1
    return bool(j < 0)


@njit
def _first_slot(mask: Masks, profile: AnyInts, random_keys: Masks, size: int) -> Any:
    """Where a hash table of ``size`` places, a power of two, is first looked at for a state."""
    key = np.uint64(0)
    for w in range(len(mask)):
        key = (key ^ mask[w]) * np.uint64(0x9E3779B97F4A7C15)
    for j in range(len(profile)):
        key += np.uint64(profile[j]) * random_keys[j]
    key ^= key >> np.uint64(29)
    return np.int64(key & np.uint64(size - 1))


@njit
def _find(
    mask: Masks,
    profile: IntArray,
    random_keys: Masks,
    table: IntArray,
    masks: Masks,
    profiles: AnyInts,
) -> tuple[int, int]:
    """The slot of a state in the hash table, and its number or -1."""
    size = table.shape[0]
    slot = _first_slot(mask, profile, random_keys, size)
    while True:
        v = table[slot]
        if v < 0:
            return slot, v
        # Not by rows of the arrays: a view costs more than a comparison.
        same = masks[v, 0] == mask[0]
        for w in range(1, len(mask)):
            same &= masks[v, w] == mask[w]
        if same:
            for j in range(profiles.shape[1]):
                if profiles[v, j] != profile[j]:
                    same = False
                    break
            if same:
                return slot, v
        slot = (slot + 1) & (size - 1)


@njit
def expand(
    tau: int,
    first: int,
    last: int,
    layer: Layer,
    nc: int,
    following: Layer,
    table: IntArray,
    requests: SearchedRequests,
    prices: Prices,
    budget: int,
    rules: Rules,
    stats: IntArray,
    resume: IntArray,
    patience: int,
) -> tuple[int, int, bool]:
    """Append the children (at tau + 1) of states first .. last - 1 to the following layer.

    The children of a state are the sets of unstarted requests that start at tau, enumerated depth
    first in index order among the candidates, those that have arrived and fit beside the active
    ones; a branch is left by *fixing* or when a request no longer fits. Children are pruned by
    their bound and by `improvable`, and merged through the hash table ``table``. ``nc`` children
    are there already. ``stats[3:]`` count the children merged and the branches that *fixing* left.

    Stops early, at the next child to be emitted, when the arrays are full or after ``patience``
    children; ``resume`` (shape (n + 1,), -1 first to begin with) then holds the number of requests
    started at tau in that child and their places among the candidates, and the next call goes on
    there.

    Returns
    -------
    tuple[int, int, bool]
        The number of children in the following layer, the state to go on with (``last`` when all
        are done), and whether the arrays are full.
    """
    masks, costs, bounds, profiles, histories, starts = layer
    nmasks, ncosts, nbounds, nprofiles, nhistories, nstarts = following
    columns, twin, background, random_keys = requests
    s, o, a, _ = columns
    Q, W, P, u = prices
    n, H, R, T = len(s), histories.shape[1], profiles.shape[1], Q.shape[0]
    capacity, words = nmasks.shape
    mask = np.zeros(words, dtype=np.uint64)
    st = np.zeros(n, dtype=np.int64)
    prof = np.zeros(R + 1, dtype=np.int64)
    hist = np.zeros(H, dtype=np.int64)
    chosen = np.zeros(n + 1, dtype=np.int64)
    candidates = np.zeros(n, dtype=np.int64)
    drifts = np.zeros(n, dtype=np.int64)
    regrets = np.zeros(n, dtype=np.int64)
    weights = np.zeros(n, dtype=np.int64)
    visits = 0
    for i in range(n):
        drifts[i] = u[i, tau + 1] - u[i, tau] if tau < T else SCALE
        if tau <= T:
            regrets[i] = P[i, tau] - u[i, tau]
        if tau < T:
            weights[i] = Q[tau, s[i], o[i]]
    # Memory held by others comes into sight at the far end of the profile.
    if tau + 1 + R < len(background):
        prof[R] = background[tau + 1 + R]
    for q in range(first, last):
        f, lb = costs[q], bounds[q]
        slack = W[tau] if tau < T else np.int64(0)
        drift = np.int64(0)
        for w in range(words):
            mask[w] = masks[q, w]
        for j in range(R):
            prof[j] = profiles[q, j]
        for j in range(H):
            hist[j] = histories[q, j]
        count = 0
        for i in range(n):
            st[i] = starts[q, i]
            if st[i] < 0:
                drift += drifts[i]
                if a[i] <= tau and _fits(i, prof, columns):
                    candidates[count] = i
                    count += 1
            elif st[i] + o[i] > tau and tau < T:
                slack -= Q[tau, s[i] + tau - st[i], st[i] + o[i] - tau]
        depth, first_k = 0, 0
        if resume[0] >= 0:
            depth = resume[0]
            resume[0] = -1
            for d in range(depth):
                k = resume[d + 1]
                i, chosen[d] = candidates[k], k
                for j in range(o[i]):
                    prof[j] += s[i] + j + 1
                st[i] = tau
                mask[i >> 6] |= np.uint64(1) << np.uint64(i & 63)
                f += ((tau + o[i] - a[i]) << COST_SHIFT) + (s[i] + o[i]) * tau
                lb += regrets[i]
                drift -= drifts[i]
                slack -= weights[i]
                first_k = k + 1
        while True:
            if visits >= patience:
                resume[0] = depth
                for k in range(depth):
                    resume[k + 1] = chosen[k]
                return nc, q, False
            visits += 1
            bound = lb + slack + drift
            if bound <= budget:
                hist[(tau + 1) % H] = prof[0]
                if not improvable(tau + 1, st, hist, columns, rules, stats):
                    slot, v = 0, -1
                    if rules.merge:
                        slot, v = _find(mask, prof[1:], random_keys, table, nmasks, nprofiles)
                    better = True
                    if v < 0:
                        if nc >= capacity:
                            resume[0] = depth
                            for k in range(depth):
                                resume[k + 1] = chosen[k]
                            return nc, q, True
                        v = nc
                        nc += 1
                        if rules.merge:
                            table[slot] = v
                    else:
                        stats[3] += 1
                        better = f < ncosts[v]
                    if better:
                        for w in range(words):
                            nmasks[v, w] = mask[w]
                        ncosts[v], nbounds[v] = f, bound
                        for j in range(R):
                            nprofiles[v, j] = prof[j + 1]
                        for j in range(H):
                            nhistories[v, j] = hist[j]
                        for j in range(n):
                            nstarts[v, j] = st[j]
            # the next subset to start at tau, depth first
            moved = False
            while not moved:
                for k in range(first_k, count):
                    i = candidates[k]
                    if twin[i] >= 0 and st[twin[i]] < 0:
                        continue
                    if rules.fixing and lb + regrets[i] > budget:
                        stats[4] += 1
                        continue
                    if not _fits(i, prof, columns):
                        continue
                    for j in range(o[i]):
                        prof[j] += s[i] + j + 1
                    st[i] = tau
                    mask[i >> 6] |= np.uint64(1) << np.uint64(i & 63)
                    f += ((tau + o[i] - a[i]) << COST_SHIFT) + (s[i] + o[i]) * tau
                    lb += regrets[i]
                    drift -= drifts[i]
                    slack -= weights[i]
                    chosen[depth] = k
                    depth += 1
                    first_k = k + 1
                    moved = True
                    break
                if moved or depth == 0:
                    break
                depth -= 1
                k = chosen[depth]
                i = candidates[k]
                for j in range(o[i]):
                    prof[j] -= s[i] + j + 1
                st[i] = -1
                mask[i >> 6] ^= np.uint64(1) << np.uint64(i & 63)
                f -= ((tau + o[i] - a[i]) << COST_SHIFT) + (s[i] + o[i]) * tau
                lb -= regrets[i]
                drift += drifts[i]
                slack += weights[i]
                first_k = k + 1
            if not moved:
                break
    return nc, last, False


@njit
def insert_states(table: IntArray, layer: Layer, random_keys: Masks, first: int, last: int) -> None:
    """Put states first .. last - 1, all of them different, into a hash table.

    Open addressing with linear probing: ``table`` has a power of two of places, -1 where free.
    """
    size = len(table)
    for v in range(first, last):
        slot = _first_slot(layer.masks[v], layer.profiles[v], random_keys, size)
        while table[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        table[slot] = v
