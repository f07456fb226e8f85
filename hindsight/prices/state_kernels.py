"""Compiled kernels: soft minima over starts, soft and hard maxima over configurations.

**Starts.** For epoch prices, request i pays P_i(t) for starting at t (see
`hindsight.prices.states`). Gibbs weights exp(-P_i(t) / heat), normalised over t, are the gradient
of a smooth lower bound on the minimum of P_i. This bound approaches the minimum as the heat falls.

**Configurations.** A configuration is a multiset of states (m, r) that can be active together (see
`hindsight.prices.state_tables`, condition (C)). With the states read in order of decreasing r, a
prefix is described by (k, S) = (members, sum of their m), and appending (m, r) is allowed iff
S + m + (k + 1) r <= M. Hence for prices Q(tau, .) and a heat h the partition function

    Z_tau = sum over configurations A of exp(sum of Q over A / h)

is computed by a forward recursion over (k, S). A backward recursion gives the Gibbs marginals

    z[tau, p] = expected number of members in state p = d (h log Z_tau) / d Q(tau, p).

h log Z_tau >= max over A of Q(A), with equality in the limit h -> 0. A state in which c requests
can be at the same time counts as c distinct members. States of price 0 that no start uses are left
out: they cannot raise the maximum.

The weights of prefixes grow from 1 to at most exp(W / h). Both recursions start at
exp(-level / 2 h), with ``level`` about W, so that all numbers stay between exp(-level / 2 h) and
exp(level / 2 h). So h >= level / MAX_EXPONENT is enforced at each epoch. The weight exp(q / h) of a
state is applied as two factors exp(q / 2 h), because exp(q / h) itself could overflow. For this
reason reassociation (fastmath), which could multiply the two factors first, is not allowed here.
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
"""Limit on x = (soft maximum) / temperature: exp(x / 2), exp(-x / 2) must fit into float64."""

SELDOM = 3e-4
"""Soft maxima skip states whose expected number of requests is smaller than this."""

NEGLIGIBLE_PRICE = 1e-7
"""Prices of states up to this one, in rounds of latency, count as 0 in soft maxima."""


class PricedStarts(NamedTuple):
    """Requests, with the states that each passes through while it runs: input of `gibbs_starts`.

    Attributes
    ----------
    state_of : int64 array, shape (n, largest o)
        Index in `States` of the state in which request i is at each age, the number of rounds since
        its start. Entries from its output length on are 0 and not used.
    output_lengths, arrival_times : int64 array, shape (n,)
        Output length o_i and arrival time a_i of each request, in rounds.
    last_starts : int64 array, shape (n,)
        Last start that is considered for each request, at most T.
    epochs : int
        Number T of epochs (times between two rounds) with prices.
    unit : float
        Cost of a round of latency: 1, or 0 where late requests are counted instead of latency.
    penalty : float
        Cost of a request that does not start, in the unit of costs; infinite if all requests must
        start.
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
    through. Not starting costs the penalty in ``requests``. The weight of each choice is
    proportional to exp(-cost / heat), and the weights of all choices of a request sum to 1. An
    epoch is the time between two rounds, and T is the number of epochs with prices.

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
        All 0. Receives the weight of each start.
    mass : float64 array, shape (states, T)
        All 0. Receives the expected number of requests in each state at each epoch.
    """
    state_of, o, a, last, T, unit, penalty = requests
    total = 0.0
    for i in range(len(o)):
        lo, hi = a[i], last[i]
        # ``costs[t]`` becomes the cost of start t: the latency, plus the prices of all states
        # through which the request passes from epoch t (the time after round t) to its completion.
        # Prices are 0 from epoch T on.
        for t in range(lo, hi + 1):
            costs[t] = unit * (t + o[i] - a[i])
        for age in range(o[i]):
            row = Q[state_of[i, age]]
            for t in range(lo, min(hi + 1, T - age)):
                costs[t] += row[t + age]
        # ``best`` is the least cost of a start, or the penalty for not starting if that is smaller.
        # The Gibbs weight of a start is exp((best - cost) / heat), divided by the sum of weights.
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
        # Request i is in state ``state_of[i, age]`` at epoch t + age if it starts at t. So the
        # weight of start t is added to the mass of this state.
        for age in range(o[i]):
            row = mass[state_of[i, age]]
            for t in range(begin, min(end, T - age)):
                row[t + age] += x[i, t]
    return total


class SoftMaxima(NamedTuple):
    """Soft maximum of the total price of a configuration, at each of T epochs.

    An epoch is the time between two rounds. A configuration is a multiset of states that fit into
    memory together. Its Gibbs weight is exp(total price / h) at temperature h. `soft_capacities`
    updates all attributes.

    Attributes
    ----------
    level : float64 array, shape (T,)
        The latest soft maximum h log(sum of weights); before the first one, an exact maximum. The
        next sum of weights is computed in units of exp(level / h), because the next soft maximum is
        expected near ``level``. The entry is NaN if this sum overflowed.
    marginals : float64 array, shape (T, states)
        Expected number z of members of a configuration in each state, if its probability is
        proportional to its Gibbs weight.
    seldom : bool array, shape (T, states)
        Whether the marginal of the state was below `SELDOM` in the last call with ``refresh``,
        which includes all priced states.
    """

    level: FloatArray
    marginals: FloatArray
    seldom: npt.NDArray[np.bool_]


class _Items(NamedTuple):
    """Items that a configuration at one epoch may contain, by decreasing rounds to go.

    An epoch is the time between two rounds. A configuration is a multiset of states (m tokens used,
    r rounds to go) that fit into memory together. If c requests can be in a state at the same time,
    the list has c equal items for this state. So each configuration is a set of items. Its weight
    is exp(total price / h), at temperature h.

    Two recursions sum weights by k, a number of items, and S, the sum of their tokens m. The
    forward recursion goes through the items in order and sums the weights of sets of the items so
    far. It stores these sums before each item. The backward recursion goes through the items from
    the last to the first, and uses the stored sums.

    Attributes
    ----------
    states : int64 array
        Index of the state of each item.
    roots : float64 array
        exp(q / (2 h)) for each item, where q is the price of its state. It is the square root of
        the item's weight exp(q / h), and is multiplied in twice: exp(q / h) itself could overflow.
    offsets, depths : int64 array
        ``offsets``: first position, in the array ``store``, of the sums that the forward recursion
        stores before each item. ``depths``: number of values of k for which it stores these sums.
    value : float64 array, shape (M + 2, M + 1)
        Entry (k, S) is the sum of weights for k and S, in the recursion that runs at present.
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
    """Write the items of one epoch. Return their number, and the size of ``store`` for them.

    ``store`` is the array in which `_append_items` stores sums of weights.

    An epoch is the time between two rounds. An item is one of the equal copies of a state that a
    configuration (multiset of states that fit into memory together) may contain. A state gets items
    in two cases: if more than `SELDOM` requests are expected in it (``mass``), or if its price
    exceeds `NEGLIGIBLE_PRICE`. In the second case, states marked ``seldom`` get items only if
    ``refresh`` is True. ``warmth`` is the temperature of the weights exp(price / warmth) of states.
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
    """Sum the weights of all configurations, by their number of items k and of tokens S.

    An item is a copy of a state (m tokens used, r rounds to go). A configuration is a set of the
    ``count`` items whose states fit into memory together. Its weight is exp(total price / h), with
    temperature h. ``items.value[k, S]`` becomes the sum of the weights of all configurations of k
    items whose tokens m add up to S. Items are added one by one, and ``store`` receives the sums as
    they are before each item. Returns the largest k.
    """
    item_states, roots, offsets, depths, value = items
    held, rounds, _, memory_limit = states
    last = 0
    for j in range(count):
        m, r, root = held[item_states[j]], rounds[item_states[j]], roots[j]
        depth = min(memory_limit // r, last + 1)
        depths[j] = depth
        # Append item j to all configurations (sets of items that fit into memory) of k earlier
        # items. k decreases, so value[k] is read before configurations that contain item j are
        # added to it. So no configuration gets item j twice.
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

    A configuration is a set of the ``count`` items (copies of states) that fit into memory
    together. Its probability is proportional to its weight exp(total price / h), with temperature
    h. The recursion visits the items from the last to the first.

    At item j, a *beginning* is a set of k items before j whose tokens m sum to S. For each k and S,
    ``store`` has the total weight of all beginnings, as written by `_append_items`. An *end* is a
    set of items from j on that fits into memory with a beginning. ``items.value[k, S]`` becomes the
    total weight of all ends. The total weight of the configurations with item j is the sum over k
    and S of (weight of the beginnings) * (weight of the ends that contain item j). Divided by
    ``total``, the weight of all configurations, this is the probability of item j. It is added to
    the entry of ``z`` for the state of item j.
    """
    item_states, roots, offsets, depths, value = items
    held, rounds, _, memory_limit = states
    for j in range(count - 1, -1, -1):
        m, r, root = held[item_states[j]], rounds[item_states[j]], roots[j]
        share = 0.0
        # An extension of k earlier items is a set of items from j on that fits into memory with
        # them. Add the weights of the extensions with item j to value[k]. k increases, so value[k +
        # 1] is read before its extensions with item j are added. So no extension has item j twice.
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
    """Write to ``maxima`` the soft maxima and Gibbs marginals of epochs first, first + stride, ...

    An epoch is the time between two rounds. A configuration is a set of requests that fits into
    memory, each in one state. Its price is the sum of the prices Q of their states. The soft
    maximum over all configurations is heat log(sum of exp(price / heat)), with temperature
    ``heat``. The marginal of a state is the expected number of requests in it, if the probability
    of a configuration is proportional to exp(price / heat). Each thread computes its own epochs, so
    the results do not depend on the number of threads. A call with ``refresh`` includes every
    priced state, and marks the states whose marginal is below `SELDOM`. Later calls skip these
    states and set their marginals to 0, which takes less time.
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
        # Add up the weights exp(total price / h) of all configurations (sets of states that fit
        # into memory together), each divided by exp(level / h). This means to multiply by ``start``
        # = exp(-level / (2 h)) twice. All entries of ``value`` have the first factor already. Then
        # set the entries to the first values of the backward recursion: after the last item, only
        # the empty set of items is left, of weight 1 * ``start``.
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
    """Update ``value`` so that a list of states may contain state (m, r) once more.

    In state (m, r) a request holds m tokens and has r rounds to go. A list has states that fit
    into memory together, sorted by decreasing r. ``weight`` is the price of state (m, r). Calls
    come in the order of increasing r: one call for each time that a list may contain a state. So in
    a list, the state of this call comes before the states of earlier calls.

    ``value[k, S]`` is the largest total price of states from this and earlier calls that may follow
    k states of larger or equal r, which have S tokens in all. It is negative if no such k states
    fit into memory.
    """
    # Let the state of this call be state k + 1 of a list whose first k states have S tokens. Then
    # the first k + 1 states have S + m tokens, and the total price of the states after them is at
    # most value[k + 1, S + m]. k increases, so value[k + 1] is read before it is updated. So no
    # list contains the state of this call twice.
    for k in range(value.shape[0] - 1):
        for S in range(memory_limit - m - (k + 1) * r + 1):
            v = value[k + 1, S + m]
            if v >= 0 and v + weight > value[k, S]:
                value[k, S] = v + weight


@partial(njit, makes_arrays=True)
def capacities(Q: IntArray, states: States, W: IntArray, first: int, stride: int) -> None:
    """Write to W[tau] the largest total price of a configuration at epoch tau, exactly.

    An epoch is the time between two rounds. A configuration is a multiset of states that fit into
    memory together. Only epochs first, first + stride, ... are written, so that threads may share
    the epochs. ``Q[tau, p]`` is the price of state p at epoch tau in integers; negative prices
    count as 0.
    """
    held, rounds, copies, memory_limit = states
    value = np.empty((memory_limit + 1, memory_limit + 1), np.int64)
    for tau in range(first, Q.shape[0], stride):
        value.fill(0)
        # States are sorted by decreasing number r of rounds to go. Visit them from the last to the
        # first: `prepend` must get them by increasing r.
        for p in range(Q.shape[1] - 1, -1, -1):
            if Q[tau, p] > 0:
                r = rounds[p]
                # In a list of states that fit into memory, all states before state p have at least
                # its r rounds to go. In the r-th round from now all these requests run, and each
                # holds at least the r tokens that it produces until then. So at most M / r states
                # fit.
                rows = value[: memory_limit // r + 1]
                for _ in range(copies[p]):
                    prepend(rows, held[p], r, Q[tau, p], memory_limit)
        W[tau] = value[0, 0]
