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
from hindsight.runtime.compilation import inner, njit
from instances.arrays import IntArray, RequestColumns

from .state_pruning import AnyInts, Layer, Rules, improvable
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


@inner
def _fits(i: int, profile: IntArray, requests: RequestColumns) -> bool:
    """Whether request i fits in every round of its life when it starts where ``profile`` begins."""
    s, o, _, M = requests
    j = o[i] - 1
    while j >= 0 and profile[j] + s[i] + j + 1 <= M:
        j -= 1
    return bool(j < 0)


@inner
def _first_slot(mask: Masks, profile: AnyInts, random_keys: Masks, size: int) -> Any:
    """Where a hash table of ``size`` places, a power of two, is first looked at for a state."""
    key = np.uint64(0)
    for w in range(len(mask)):
        key = (key ^ mask[w]) * np.uint64(0x9E3779B97F4A7C15)
    for j in range(len(profile)):
        key += np.uint64(profile[j]) * random_keys[j]
    key ^= key >> np.uint64(29)
    return np.int64(key & np.uint64(size - 1))


@inner
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


class Task(NamedTuple):
    """The requests, the prices and the rules of one search.

    Attributes
    ----------
    requests : SearchedRequests
        The problem.
    prices : Prices
        Of its epochs.
    rules : Rules
        Those in force.
    budget : int
        Largest bound of a state, in units of 1 / SCALE.
    """

    requests: SearchedRequests
    prices: Prices
    rules: Rules
    budget: int


class Children(NamedTuple):
    """The states at tau + 1, found so far.

    Attributes
    ----------
    layer : Layer
        The states.
    found : int64 array, shape (1,)
        How many there are.
    table : int64 array
        Hash table of them, a power of two of places: the number of a state, -1 where free.
    stats : int64 array, shape (5,)
        States that rules 1, 2 and 3 of *improvable* removed, states merged, and branches that
        *fixing* left.
    """

    layer: Layer
    found: IntArray
    table: IntArray
    stats: IntArray


COST, REGRET, SLACK, DRIFT = 0, 1, 2, 3
"""Places of `Child.sums`: cost, prices paid (the bound at tau), slack of tau, rise of the u_i."""


class Child(NamedTuple):
    """A state at tau together with what starts at tau: the child that is made of it.

    Attributes
    ----------
    mask, starts, history : array
        As in `Layer`, of this one.
    profile : int64 array, shape (largest o + 1,)
        Memory in round tau + 1 + j.
    sums : int64 array, shape (4,)
        The bound at tau + 1 is the sum of all but the cost.
    changes : int64 array, shape (n, 4)
        What each request adds to the sums by starting at tau.
    candidates : int64 array, shape (n + 1,)
        How many unstarted requests have arrived and fit, and which these are.
    chosen : int64 array, shape (n + 1,)
        How many start at tau, and their places among the candidates, increasing.
    """

    mask: Masks
    starts: IntArray
    history: IntArray
    profile: IntArray
    sums: IntArray
    changes: IntArray
    candidates: IntArray
    chosen: IntArray


@inner
def _set_changes(tau: int, task: Task, changes: IntArray) -> None:
    """Write `Child.changes` of tau over zeros."""
    s, o, a, _ = task.requests.columns
    Q, _, P, u = task.prices
    T = Q.shape[0]
    for i in range(len(s)):
        changes[i, COST] = ((tau + o[i] - a[i]) << COST_SHIFT) + (s[i] + o[i]) * tau
        if tau <= T:
            changes[i, REGRET] = P[i, tau] - u[i, tau]
        if tau < T:
            changes[i, SLACK] = -Q[tau, s[i], o[i]]
        changes[i, DRIFT] = u[i, tau] - u[i, tau + 1] if tau < T else -SCALE


@inner
def _read_state(tau: int, q: int, layer: Layer, task: Task, child: Child) -> None:
    """Make ``child`` the child of state q in which nothing starts, and find its candidates."""
    s, o, a, _ = task.requests.columns
    Q, W = task.prices.Q, task.prices.W
    _, starts, history, profile, sums, changes, candidates, chosen = child
    T = Q.shape[0]
    for w in range(len(child.mask)):
        child.mask[w] = layer.masks[q, w]
    for j in range(layer.profiles.shape[1]):
        profile[j] = layer.profiles[q, j]
    for j in range(len(history)):
        history[j] = layer.histories[q, j]
    count, drift, slack = 0, np.int64(0), W[tau] if tau < T else np.int64(0)
    for i in range(len(s)):
        start = np.int64(layer.starts[q, i])
        starts[i] = start
        if start < 0:
            drift -= changes[i, DRIFT]
            if a[i] <= tau and _fits(i, profile, task.requests.columns):
                count += 1
                candidates[count] = i
        elif start + o[i] > tau and tau < T:
            slack -= Q[tau, s[i] + tau - start, start + o[i] - tau]
    sums[COST], sums[REGRET] = layer.costs[q], layer.bounds[q]
    sums[SLACK], sums[DRIFT] = slack, drift
    candidates[0], chosen[0] = count, 0


@inner
def _start(k: int, tau: int, columns: RequestColumns, child: Child) -> None:
    """Start the request at place k of the candidates at tau."""
    i = child.candidates[k]
    s = columns.prompt_lengths[i]
    for j in range(columns.output_lengths[i]):
        child.profile[j] += s + j + 1
    child.starts[i] = tau
    child.mask[i >> 6] |= np.uint64(1) << np.uint64(i & 63)
    for c in range(4):
        child.sums[c] += child.changes[i, c]
    child.chosen[0] += 1
    child.chosen[child.chosen[0]] = k


@inner
def _take_back(columns: RequestColumns, child: Child) -> int:
    """Undo the last `_start`; returns its place among the candidates."""
    k = child.chosen[child.chosen[0]]
    child.chosen[0] -= 1
    i = child.candidates[k]
    s = columns.prompt_lengths[i]
    for j in range(columns.output_lengths[i]):
        child.profile[j] -= s + j + 1
    child.starts[i] = -1
    child.mask[i >> 6] ^= np.uint64(1) << np.uint64(i & 63)
    for c in range(4):
        child.sums[c] -= child.changes[i, c]
    return int(k)


@inner
def _startable(k: int, task: Task, child: Child, stats: IntArray) -> int:
    """The first place >= k of a candidate that may start beside those chosen, or -1."""
    requests, _, rules, budget = task
    twin = requests.twin
    for place in range(k, child.candidates[0] + 1):
        i = child.candidates[place]
        # Twins: not before the one it is held to.
        if twin[i] >= 0 and child.starts[twin[i]] < 0:
            continue
        # Fixing: with this regret the bound would exceed the budget.
        if rules.fixing and child.sums[REGRET] + child.changes[i, REGRET] > budget:
            stats[4] += 1
            continue
        if _fits(i, child.profile, requests.columns):
            return place
    return -1


@inner
def _next_child(tau: int, task: Task, child: Child, stats: IntArray) -> bool:
    """Go on to the next set of requests that start at tau, depth first; False after the last."""
    columns, chosen = task.requests.columns, child.chosen
    k = chosen[chosen[0]] + 1 if chosen[0] else 1
    place = _startable(k, task, child, stats)
    while place < 0 and chosen[0] > 0:
        k = _take_back(columns, child) + 1
        place = _startable(k, task, child, stats)
    if place > 0:
        _start(place, tau, columns, child)
    return place > 0


@inner
def _keep(child: Child, bound: int, task: Task, children: Children) -> bool:
    """Put a child among the children, or merge it into one of them; False where there is no room.

    *Merge*: of equal started sets and profiles the cheaper one stays.
    """
    layer, found, table, stats = children
    mask, starts, history, profile, sums, _, _, _ = child
    slot, v = 0, -1
    if task.rules.merge:
        keys = task.requests.random_keys
        slot, v = _find(mask, profile[1:], keys, table, layer.masks, layer.profiles)
    if v >= 0:
        stats[3] += 1
        if sums[COST] >= layer.costs[v]:
            return True
    else:
        if found[0] >= layer.masks.shape[0]:
            return False
        v = found[0]
        found[0] += 1
        if task.rules.merge:
            table[slot] = v
    for w in range(len(mask)):
        layer.masks[v, w] = mask[w]
    layer.costs[v], layer.bounds[v] = sums[COST], bound
    for j in range(layer.profiles.shape[1]):
        layer.profiles[v, j] = profile[j + 1]
    for j in range(len(history)):
        layer.histories[v, j] = history[j]
    for j in range(len(starts)):
        layer.starts[v, j] = starts[j]
    return True


@inner
def _keep_children(
    tau: int, task: Task, child: Child, children: Children, patience: int
) -> tuple[int, bool]:
    """Keep the children of a state from ``child`` on, until all are through.

    Returns what is left of the patience, -1 where some children are left to be kept, and whether
    that is for want of room.
    """
    sums, history, stats = child.sums, child.history, children.stats
    place, columns = (tau + 1) & (len(history) - 1), task.requests.columns
    while patience > 0:
        patience -= 1
        bound = sums[REGRET] + sums[SLACK] + sums[DRIFT]
        history[place] = child.profile[0]
        if (
            bound <= task.budget
            and not improvable(tau + 1, child.starts, history, columns, task.rules, stats)
            and not _keep(child, bound, task, children)
        ):
            return -1, True
        if not _next_child(tau, task, child, stats):
            return patience, False
    return -1, False


@inner
def _expand_states(
    tau: int,
    first: int,
    last: int,
    layer: Layer,
    task: Task,
    child: Child,
    children: Children,
    patience: int,
) -> tuple[int, bool]:
    """Do what `expand` says, with its working space."""
    for q in range(first, last):
        depth = child.chosen[0]
        _read_state(tau, q, layer, task, child)
        # Go on where the last call stopped.
        for d in range(depth):
            _start(child.chosen[d + 1], tau, task.requests.columns, child)
        patience, full = _keep_children(tau, task, child, children, patience)
        if patience < 0:
            return q, full
    return last, False


@njit
def expand(
    tau: int,
    first: int,
    last: int,
    layer: Layer,
    children: Children,
    task: Task,
    resume: IntArray,
    patience: int,
) -> tuple[int, bool]:
    """Append the children (at tau + 1) of states first .. last - 1 of a layer.

    The children of a state are the sets of unstarted requests that start at tau, enumerated depth
    first in index order among the candidates, those that have arrived and fit beside the active
    ones; a branch is left by *fixing* or when a request no longer fits. Children are pruned by
    their bound and by `improvable`, and merged.

    Stops early, at the next child to be kept, when its layer is full or after ``patience``
    children; ``resume`` (shape (n + 1,), zeros to begin with) then holds `Child.chosen` of that
    child, and the next call goes on there.

    Returns
    -------
    tuple[int, bool]
        The state to go on with (``last`` when all are done), and whether the layer is full.
    """
    requests = task.requests
    n, R = len(requests.twin), layer.profiles.shape[1]
    child = Child(
        np.zeros(layer.masks.shape[1], dtype=np.uint64),
        np.zeros(n, dtype=np.int64),
        np.zeros(layer.histories.shape[1], dtype=np.int64),
        np.zeros(R + 1, dtype=np.int64),
        np.zeros(4, dtype=np.int64),
        np.zeros((n, 4), dtype=np.int64),
        np.zeros(n + 1, dtype=np.int64),
        resume,
    )
    # Memory held by others comes into sight at the far end of the profile.
    if tau + 1 + R < len(requests.background):
        child.profile[R] = requests.background[tau + 1 + R]
    _set_changes(tau, task, child.changes)
    return _expand_states(tau, first, last, layer, task, child, children, patience)


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
