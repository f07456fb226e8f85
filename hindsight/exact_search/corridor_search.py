"""The corridor method: beams among the schedules near the best one, guided by prices.

The *corridor* of radius d around a schedule (Sniedovich and Voss 2006) holds the schedules in which
no request starts more than d rounds sooner or later. A beam (`hindsight.exact_search.state_search`
with a width) prefers what prices call cheap, and over many epochs loses the states that lead to the
best schedules known. In a corridor far fewer states compete for its width, and their bounds are
higher, as u_i is the least P_i over the corridor alone: the beam is nearly exact there, while all
of the schedule may move at once, which no window with fixed surroundings allows.

A sweep goes over the schedule from its first start to its last, with corridors that are wide for
some consecutive starts and narrow for all others, and then through corridors as wide for all, the
last of which is the beam without a corridor. Every schedule found is the centre of the next
corridor, and a sweep that finds nothing doubles the width. Nothing is proved: what is found is a
feasible schedule.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hindsight.prices.states import SCALE
from instances.arrays import FloatArray, IntArray

from .state_search import StateSearch
from .state_search_kernels import Prices

FIRST_WIDTH = 1_000
"""States of an epoch that are kept in the first sweep."""

STATES_PER_WIDTH = 16
"""Room of the search, in widths, for the children of kept states; no width exceeds it."""

RADII = (1.5, 3.0, 6.0, np.inf)
"""Radii of the corridors for all requests, in mean output lengths."""

CONSECUTIVE = 24
WIDE, NARROW = 4.0, 1.0
"""Number of starts within the wide part of a corridor, and its radii in mean output lengths."""

OUTSIDE = SCALE << 34
"""Cost of a start outside the corridor: above any budget, and small enough to add several."""


def corridor_prices(
    prices: Prices, arrival_times: IntArray, start_times: IntArray, radii: FloatArray
) -> Prices:
    """Return prices that keep a search within a corridor around a schedule.

    Parameters
    ----------
    prices : Prices
        Prices in force.
    arrival_times, start_times : int64 array
        Arrivals and starts of the requests, shape (n,).
    radii : float array
        Rounds by which each start may change, shape (n,).
    """
    epochs = np.arange(prices.P.shape[1])
    arrivals, starts = arrival_times[:, np.newaxis], start_times[:, np.newaxis]
    inside = (epochs >= arrivals) & (np.abs(epochs - starts) <= radii[:, np.newaxis])
    P = np.where(inside, prices.P, OUTSIDE)
    u = np.minimum.accumulate(P[:, ::-1], axis=1)[:, ::-1]
    return prices._replace(P=P, u=np.ascontiguousarray(u))


class CorridorSearch:
    """Beams in corridors, one after another; each call continues from the last.

    Deterministic: the result depends only on the arguments and the prices in force.

    Parameters
    ----------
    search : StateSearch
        State search of the instance; its prices in force guide the beams.
    seed : int, default 0
        Seed of the places where sweeps begin.

    Attributes
    ----------
    width
        States of an epoch that the next beam keeps, if the limit on all states allows it.
    """

    def __init__(self, search: StateSearch, seed: int = 0) -> None:
        self._search = search
        self._rng = np.random.default_rng(seed)
        self._most = max(1, search.max_states // STATES_PER_WIDTH)
        self.width = min(FIRST_WIDTH, self._most)
        self._found = False
        self._sweep = self._corridors()

    def improve(
        self, start_times: IntArray, states: int, should_stop: Callable[[], bool]
    ) -> IntArray | None:
        """Return the best starts found, shape (n,), or None if none are better than the given ones.

        Parameters
        ----------
        start_times : int64 array
            A feasible schedule, shape (n,).
        states : int
            Total states after which no further beam begins, and which no beam exceeds.
        should_stop : Callable[[], bool]
            Polled throughout.
        """
        search, best = self._search, None
        _, outputs, arrivals, _ = search.requests
        around = np.asarray(start_times, dtype=np.int64)
        widest = max(1, states // search.prices.P.shape[1])
        while states > 0 and not should_stop():
            latency = int((around + outputs - arrivals).sum())
            radii = self._radii(around, *self._sweep[0])
            prices = corridor_prices(search.prices, arrivals, around, radii)
            width = min(self.width, widest)
            outcome = search.run(latency - 1, width, should_stop, prices=prices)
            states -= outcome.states
            if outcome.found is not None:
                best = around = outcome.found
                self._found = True
            elif outcome.status != "stopped":
                del self._sweep[0]
            if not self._sweep:
                if outcome.peak < width:
                    states = 0  # no schedule is better, whatever the width
                if not self._found and width == self.width:
                    self.width = min(2 * width, self._most)
                self._found = False
                self._sweep = self._corridors()
        return best

    def _corridors(self) -> list[tuple[float, int | None]]:
        """List the corridors of a sweep: the radius, and the first place in the order of starts."""
        count = len(self._search.requests.output_lengths)
        first = -int(self._rng.integers(CONSECUTIVE // 2))
        places = range(first, count if count > CONSECUTIVE else first, CONSECUTIVE // 2)
        return [*((WIDE, place) for place in places), *((radius, None) for radius in RADII)]

    def _radii(self, start_times: IntArray, radius: float, place: int | None) -> FloatArray:
        """Return the rounds by which each start may change."""
        radii = np.full(len(start_times), radius if place is None else NARROW)
        if place is not None:
            by_start = np.argsort(start_times, kind="stable")
            radii[by_start[max(0, place) : place + CONSECUTIVE]] = radius
        return radii * float(self._search.requests.output_lengths.mean())
