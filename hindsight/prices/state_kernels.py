"""Compiled kernels: soft minima over starts, soft and hard maxima over configurations.

**Starts.** For epoch prices, request i pays P_i(t) for starting at t (see
`hindsight.prices.states`). Gibbs weights exp(-P_i(t) / heat), normalised over t, are the
gradient of a smooth stand-in for the minimum over t, which they approach as the heat falls.

**Configurations.** A configuration is a multiset of states (m, r) that can be active together (see
`hindsight.prices.state_tables`, condition (C)). With the states read in order of decreasing r, a
prefix is described by (k, S) = (members, sum of their m), and appending (m, r) is allowed iff
S + m + (k + 1) r <= M. Hence for prices Q(tau, .) and a heat h the partition function

    Z_tau = sum over configurations A of exp(sum of Q over A / h)

is a forward recursion over (k, S), and a backward recursion gives the Gibbs marginals

    z[tau, p] = expected number of members in state p = d (h log Z_tau) / d Q(tau, p).

h log Z_tau >= max over A of Q(A), with equality in the limit h -> 0. A state with c copies counts
as c distinct members. States of price 0 that no start uses are left out: they cannot raise the
maximum.

Prefix weights grow monotonically from 1 to at most exp(W / h). Starting both recursions at
exp(-level / 2 h), ``level`` being about W, keeps every number within exp(+-level / 2 h); so
h >= level / MAX_EXPONENT is enforced per epoch. Weights are applied as two factors exp(q / 2 h):
one of them alone could overflow, which is why reassociation (fastmath) is not allowed here.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import njit, step
from instances.arrays import FloatArray, IntArray

from .state_tables import States

MAX_EXPONENT = 1200.0
"""Largest ratio of a soft maximum to its temperature. exp(ratio / 2) and exp(-ratio / 2) then fit
into float64."""

SELDOM = 3e-4
"""Soft maxima skip a state in which fewer requests than this are expected, until the next
computation that includes all states with a price."""

NEGLIGIBLE_PRICE = 1e-7
"""Largest price of a state, in rounds of latency, that soft maxima count as 0."""


class PricedStarts(NamedTuple):
    """Requests, and the states that each passes through while it runs; input of `gibbs_starts`.

    Attributes
    ----------
    state_of : int64 array, shape (n, largest o)
        Index in `States` of the state of request i at each age, the number of rounds since its
        start. Entries from its output length on are 0.
    output_lengths, arrival_times : int64 array, shape (n,)
        Output length o_i and arrival time a_i of each request, in rounds.
    last_starts : int64 array, shape (n,)
        Last start that is considered for each request, at most T.
    epochs : int
        Number T of epochs with prices.
    unit : float
        Cost of a round of latency: 1, or 0 where late requests are counted.
    penalty : float
        Cost of a request that does not start; infinite if all requests must start.
    """

    state_of: IntArray
    output_lengths: IntArray
    arrival_times: IntArray
    last_starts: IntArray
    epochs: int
    unit: float
    penalty: float


@njit
def gibbs_starts(
    Q: FloatArray,
    requests: PricedStarts,
    heat: float,
    costs: FloatArray,
    x: FloatArray,
    mass: FloatArray,
) -> float:
    """Write the Gibbs weights of starts, and return the sum of the least costs of all requests.

    The cost of a start is the latency, plus the prices of the states that the request passes
    through. Its weight is exp(-cost / heat), normalised over the starts of a request.

    Parameters
    ----------
    Q : float64 array, shape (states, T)
        Price of each state at each epoch, in rounds of latency.
    requests : PricedStarts
        The requests, with the states that they pass through.
    heat : float
        Temperature of the weights, in rounds of latency.
    costs : float64 array, shape (T + 1,)
        Work space for the costs of the starts of one request.
    x : float64 array, shape (n, T + 1)
        Receives the weight of each start.
    mass : float64 array, shape (states, T)
        Receives the expected number of requests in each state at each epoch.
    """
    state_of, o, a, last, T, unit, penalty = requests
    total = 0.0
    mass.fill(0.0)
    for i in range(len(o)):
        x[i].fill(0.0)
        lo, hi = a[i], last[i]
        # Cost of start t: the latency, plus the prices of all states on the way to completion.
        for t in range(lo, hi + 1):
            costs[t] = unit * (t + o[i] - a[i])
        for age in range(o[i]):
            row = Q[state_of[i, age]]
            for t in range(lo, min(hi + 1, T - age)):
                costs[t] += row[t + age]
        # ``best`` is the least cost of a start, or the penalty if that is smaller. Gibbs weights
        # are exp((best - cost) / heat).
        best = min(penalty, costs[lo])
        for t in range(lo, hi + 1):
            best = min(best, costs[t])
        total += best
        weight = np.exp((best - penalty) / heat)
        for t in range(lo, hi + 1):
            d = (costs[t] - best) / heat
            x[i, t] = np.exp(-d) if d < 16.0 else 0.0
            weight += x[i, t]
        begin, end = T, 0
        for t in range(lo, hi + 1):
            x[i, t] *= 1.0 / weight
            if x[i, t] > 0.0:
                begin, end = min(begin, t), t + 1
        # A request that starts at t is in state ``state_of[i, age]`` at epoch t + age.
        for age in range(o[i]):
            row = mass[state_of[i, age]]
            for t in range(begin, min(end, T - age)):
                row[t + age] += x[i, t]
    return total


class SoftMaxima(NamedTuple):
    """Soft maximum of the total price of a configuration, at each epoch.

    A configuration is a multiset of states that can be active together. Its Gibbs weight is
    exp(total price / h) at temperature h. `soft_capacities` updates all attributes.

    Attributes
    ----------
    level : float64 array, shape (T,)
        The latest soft maximum, h log(sum of weights), or an exact maximum. The next soft maximum
        is expected near it. NaN if the two were so far apart that the sum overflowed.
    marginals : float64 array, shape (T, states)
        Expected number z of members of a configuration in each state, under Gibbs weights.
    seldom : bool array, shape (T, states)
        Whether z was below `SELDOM` in the last pass over all states.
    """

    level: FloatArray
    marginals: FloatArray
    seldom: npt.NDArray[np.bool_]


class _Items(NamedTuple):
    """Items that a configuration at one epoch may contain, by decreasing rounds to go.

    A configuration is a multiset of states that can be active together. Each state has as many
    items as requests may be in it together. A prefix (k, S) of a configuration consists of k items
    whose tokens m sum to S.

    Attributes
    ----------
    states : int64 array
        Index of the state of each item.
    roots : float64 array
        exp(q / 2 h), where q is the price of the item and h the temperature.
    offsets, depths : int64 array
        Position in the store of the weights of prefixes before each item, and the number of sizes k
        that are stored there.
    value : float64 array, shape (M + 2, M + 1)
        Work space for weights by k and S, of the forward and of the backward recursion.
    """

    states: IntArray
    roots: FloatArray
    offsets: IntArray
    depths: IntArray
    value: FloatArray


@step
def _listed_items(
    prices: FloatArray,
    mass: FloatArray,
    seldom: npt.NDArray[np.bool_],
    refresh: bool,
    states: States,
    warmth: float,
    items: _Items,
) -> tuple[int, int]:
    """Write the items of one epoch; return their number, and the number of prefix weights.

    An item is a copy of a state that a configuration (multiset of states that can be active
    together) may contain. A state has items if requests are expected in it, or if its price is
    positive. The second condition skips ``seldom`` used states unless ``refresh`` is True.
    ``warmth`` is the temperature of this epoch. A prefix is the first part of a configuration, in
    the order of the items. The prefix weights are those that `_append_items` will store.
    """
    item_states, roots, offsets, _, _ = items
    _, rounds, copies, memory_limit = states
    count, size = 0, 0
    for p in range(len(prices)):
        priced = prices[p] > NEGLIGIBLE_PRICE and (refresh or not seldom[p])
        if mass[p] > SELDOM or priced:
            root = np.exp(0.5 * prices[p] / warmth)
            for _ in range(copies[p]):
                item_states[count], roots[count], offsets[count] = p, root, size
                size += (memory_limit // rounds[p]) * (memory_limit + 1)
                count += 1
    return count, size


@step
def _append_items(items: _Items, count: int, states: States, store: FloatArray) -> int:
    """Sum the weights of all sets of items, by their number of items k and of tokens S.

    ``items.value[k, S]`` becomes the sum over all sets of k items whose tokens m add up to S. The
    weight of a set is exp(total price / h). ``store`` receives the sums as they are before each
    item is added. Returns the largest k.
    """
    item_states, roots, offsets, depths, value = items
    held, rounds, _, memory_limit = states
    last = 0
    for j in range(count):
        m, r, root = held[item_states[j]], rounds[item_states[j]], roots[j]
        depth = min(memory_limit // r, last + 1)
        depths[j] = depth
        # Append item j to all prefixes of k items. k decreases, so that no prefix to which the item
        # has been appended gets it again.
        for k in range(depth - 1, -1, -1):
            top = memory_limit - m - (k + 1) * r
            base = offsets[j] + k * (memory_limit + 1)
            for S in range(top + 1):
                store[base + S] = value[k, S]
            for S in range(top + 1):
                value[k + 1, S + m] += (root * store[base + S]) * root
        last = max(last, depth)
    return last


@step
def _add_marginals(
    items: _Items, count: int, states: States, store: FloatArray, z: FloatArray, total: float
) -> None:
    """Run the backward recursion, and add the expected number of members in state p to ``z[p]``.

    A configuration is a multiset of states that can be active together. value[k, S] becomes the
    weight of all completions of (k, S): all ways to extend a prefix of k items, whose tokens m sum
    to S, to a configuration. ``total`` is the weight of all configurations, and ``store`` holds the
    weights of prefixes before each item.
    """
    item_states, roots, offsets, depths, value = items
    held, rounds, _, memory_limit = states
    for j in range(count - 1, -1, -1):
        m, r, root = held[item_states[j]], rounds[item_states[j]], roots[j]
        share = 0.0
        # Add the completions that contain item j. k increases, so that value[k + 1] still holds the
        # completions without this item.
        for k in range(depths[j]):
            top = memory_limit - m - (k + 1) * r
            base = offsets[j] + k * (memory_limit + 1)
            for S in range(top + 1):
                completed = (root * value[k + 1, S + m]) * root
                share += store[base + S] * completed
                value[k, S] += completed
        z[item_states[j]] += share / total


@partial(njit, makes_arrays=True)
def soft_capacities(
    Q: FloatArray,
    mass: FloatArray,
    states: States,
    heat: float,
    maxima: SoftMaxima,
    refresh: bool,
    first: int,
    stride: int,
) -> None:
    """Write the soft maxima and Gibbs marginals of epochs first, first + stride, ...

    A configuration is a set of requests that fits into memory, each in one state. Its price is the
    sum of the prices Q of their states, and the maxima are over configurations. The marginal of a
    state is the expected number of requests in it, under the Gibbs weights of configurations.
    Epochs are independent, so threads may share them, and the results do not depend on the number
    of threads. A pass with ``refresh`` examines every priced state and marks those that are
    ``seldom`` used. Later passes skip these, set their marginals to 0, and are faster.
    """
    level, marginals, seldom = maxima
    most, width = states.copies.sum(), states.memory_limit + 1
    places = np.zeros((3, most), np.int64)
    value = np.zeros((width + 1, width))
    items = _Items(places[0], np.zeros(most), places[1], places[2], value)
    store = np.zeros(1 << 16)
    for tau in range(first, Q.shape[0], stride):
        z = marginals[tau]
        z.fill(0.0)
        warmth = max(heat, level[tau] / MAX_EXPONENT)
        count, size = _listed_items(Q[tau], mass[tau], seldom[tau], refresh, states, warmth, items)
        if count == 0:
            level[tau] = 0.0
            continue
        if size > len(store):
            store = np.zeros(2 * size)
        start = np.exp(-0.5 * level[tau] / warmth)
        value.fill(0.0)
        value[0, 0] = start
        last = _append_items(items, count, states, store)
        # Sum the weights exp(total price / h) of all configurations (sets of active states), in
        # units of exp(level / h). Then ``value`` becomes the start of the backward recursion: after
        # the last item, nothing can be added.
        total = 0.0
        for k in range(last + 1):
            for S in range(width):
                total += start * value[k, S]
                value[k, S] = start
        if not 0.0 < total < np.inf:
            level[tau] = np.nan
            continue
        level[tau] += warmth * np.log(total)
        _add_marginals(items, count, states, store, z, total)
        if refresh:
            for p in range(len(z)):
                seldom[tau, p] = z[p] < SELDOM


@step
def prepend(value: npt.NDArray[Any], m: int, r: int, weight: Any, memory_limit: int) -> None:
    """Update ``value`` so that one more state (m, r), of price ``weight``, may be used.

    States that are active together are listed by decreasing rounds to go r. ``value[k, S]`` is the
    largest total price of states, among those considered so far, that can follow k states whose
    tokens m sum to S. The states considered so far have r or fewer rounds to go. ``value`` is
    negative where no such k states are possible.
    """
    # k increases, so that value[k + 1] does not contain the new state yet: it is used only once.
    for k in range(value.shape[0] - 1):
        for S in range(memory_limit - m - (k + 1) * r + 1):
            v = value[k + 1, S + m]
            if v >= 0 and v + weight > value[k, S]:
                value[k, S] = v + weight


@partial(njit, makes_arrays=True)
def capacities(Q: IntArray, states: States, W: IntArray, first: int, stride: int) -> None:
    """Write W[tau], the total price of the heaviest configuration at epoch tau, exactly.

    A configuration is a multiset of states that can be active together. Only epochs first, first +
    stride, ... are written, so that threads may share the epochs. ``Q[tau, p]`` is the price of
    state p at epoch tau in integers; negative prices count as 0.
    """
    held, rounds, copies, memory_limit = states
    value = np.empty((memory_limit + 1, memory_limit + 1), np.int64)
    for tau in range(first, Q.shape[0], stride):
        value.fill(0)
        # States are sorted by decreasing number r of rounds to go. Begin with the last state, so
        # that r increases.
        for p in range(Q.shape[1] - 1, -1, -1):
            if Q[tau, p] > 0:
                r = rounds[p]
                # In a set of active states, all states before this one have r or more rounds to
                # go. In the r-th round from now they all run, with r or more tokens each. So at
                # most M / r states fit.
                rows = value[: memory_limit // r + 1]
                for _ in range(copies[p]):
                    prepend(rows, held[p], r, Q[tau, p], memory_limit)
        W[tau] = value[0, 0]
