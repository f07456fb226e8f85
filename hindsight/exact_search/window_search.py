"""Large-neighbourhood search: windows of a schedule are solved again exactly, under prices.

A *window* frees some requests of a feasible schedule and keeps the others where they are. What is
left is a small instance of the same problem in which the others hold a background of memory, and
`hindsight.exact_search.state_search` solves it exactly: it finds a cheaper arrangement of the free
requests or proves that there is none (among starts from the window's first epoch on).

**Prices of the window.** Let Q be epoch prices with capacities W (no configuration weighs more than
W_tau; `hindsight.configurations.prices`), and F_tau the total Q of the fixed requests that are
active at tau. Then the free requests active at tau weigh at most W_tau - F_tau, because fixed and
free together form a configuration; and at most V_tau, the heaviest configuration of free requests
alone. So Q with capacities min(W_tau - F_tau, V_tau) bounds the window, in integers. From the
window's last completion on, Q is set to 0: the slack that the fixed schedule has there is no
business of the window's, and prices of 0 with capacity 0 are valid whatever starts late. So prices
of the whole instance, once good, make every window easy: only its own share of the gap is left to
search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hindsight.configurations.prices import integer_capacities
from hindsight.configurations.tables import state_copies
from hindsight.runtime.clock import never
from instances import Instance
from instances.arrays import IntArray, RequestColumns

from .state_search import SearchOutcome, StateSearch

FEWEST, MOST = 4, 24
"""Most requests freed at once."""

FIRST_SIZE = 8
"""Requests freed in the first windows; the size then adapts to the states needed."""

WINDOW_STATES = 60_000
"""States after which a window is abandoned."""

EASY_STATES = WINDOW_STATES // 8
"""Most states for which a window counts as easy, so that the next ones are larger."""


def resolve_window(
    instance: Instance,
    start_times: IntArray,
    free: IntArray,
    prices: IntArray,
    capacities: IntArray,
    *,
    state_limit: int | None = None,
    should_stop: Callable[[], bool] = never,
) -> SearchOutcome[IntArray]:
    """Solve a window exactly: the best starts of ``free`` while all other requests keep theirs.

    Starts before the window's first epoch, which is the earliest start among the free requests less
    the mean output length of all requests (rounded down, and at least 0), are not considered.

    Parameters
    ----------
    instance : Instance
        The instance.
    start_times : int64 array
        A feasible schedule, shape (n,).
    free : int64 array
        Indices of the requests that may move, at least one.
    prices, capacities : int64 array
        Q and W of `hindsight.configurations.prices`, int64, shapes (T, M + 1, M + 1) and (T,), as
        `StateSearch.set_prices` takes them.
    state_limit : int or None, default None
        States after which the search gives up; None for no limit.
    should_stop : Callable[[], bool], default never
        Polled throughout.

    Returns
    -------
    SearchOutcome[IntArray]
        ``found`` has the start times of all requests, int64, shape (n,), of a strictly better
        schedule, or is None. If it is None and the window is exhausted, no better one exists.
    """
    starts = np.asarray(start_times, dtype=np.int64)
    free = np.unique(np.asarray(free, dtype=np.int64))
    s, o, a, limit = instance.columns
    first = max(0, int(starts[free].min()) - int(o.mean()))
    last = int((starts + o)[free].max())
    arrivals = np.maximum(a[free] - first, 0)
    fixed = np.setdiff1d(np.arange(len(instance)), free)
    fixed = fixed[(starts + o)[fixed] > first]

    # Memory that the fixed requests hold, and their share of the capacities.
    end = int((starts + o).max())
    background = np.zeros(max(1, end - first + 1), dtype=np.int64)
    epochs = max(0, min(last, len(capacities)) - first)
    Q = prices[first : first + epochs].copy()
    W = capacities[first : first + epochs].copy()
    for i in fixed:
        rounds = np.arange(max(starts[i], first) + 1, starts[i] + o[i] + 1)
        background[rounds - first] += s[i] + rounds - starts[i]
        # Active at epochs starts .. starts + o - 1, with s + age tokens and o - age rounds to go.
        ages = np.arange(max(0, first - starts[i]), min(o[i], first + epochs - starts[i]))
        now = starts[i] + ages - first
        W[now] -= Q[now, s[i] + ages, o[i] - ages]
    copies = state_copies(s[free], o[free], limit)
    if epochs:
        Q[:, copies == 0] = 0
        W = np.minimum(W, integer_capacities(Q, copies))

    requests = RequestColumns(s[free], o[free], arrivals, limit)
    search = StateSearch(requests, background=background)
    search.set_prices(Q, W)
    now_latency = int((starts[free] - first + o[free] - arrivals).sum())
    outcome = search.run(now_latency - 1, should_stop=should_stop, state_limit=state_limit)
    if outcome.found is None:
        return outcome
    better = starts.copy()
    better[free] = outcome.found + first
    return replace(outcome, found=better)


class WindowSearch:
    """Windows one after another, each of which frees a run of consecutive starts.

    A sweep moves over the schedule by half a window at a time from a random place. Windows grow
    while they are easy and shrink when one is abandoned. Deterministic: the result depends only on
    the arguments and the seed.

    Parameters
    ----------
    instance : Instance
        The instance.
    seed : int, default 0
        Seed of the windows' places.

    Attributes
    ----------
    size
        Requests that the next window frees.
    windows, solved : int
        Windows tried, and those solved exactly.
    """

    def __init__(self, instance: Instance, seed: int = 0) -> None:
        self._instance = instance
        self._rng = np.random.default_rng(seed)
        self.size = min(FIRST_SIZE, len(instance))
        self.windows = self.solved = 0

    def sweep(
        self,
        start_times: IntArray,
        prices: IntArray,
        capacities: IntArray,
        should_stop: Callable[[], bool],
    ) -> IntArray:
        """Sweep once over the schedule; return the best start times found, shape (n,)."""
        starts = np.array(start_times, dtype=np.int64)
        count = len(starts)
        position = -int(self._rng.integers(0, max(1, self.size // 2)))
        while position < count and not should_stop():
            order = np.lexsort((np.arange(count), starts))
            free = order[max(0, position) : position + self.size]
            position += max(1, self.size // 2)
            if not len(free):
                continue
            outcome = resolve_window(
                self._instance,
                starts,
                free,
                prices,
                capacities,
                state_limit=WINDOW_STATES,
                should_stop=should_stop,
            )
            self.windows += 1
            self.solved += outcome.status == "exhausted"
            if outcome.found is not None:
                starts = outcome.found
            if outcome.status != "exhausted":
                self.size = max(min(FEWEST, count), self.size - 1)
            elif outcome.states <= EASY_STATES:
                self.size = min(MOST, count, self.size + 1)
        return starts
