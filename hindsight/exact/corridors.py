"""Beam searches among the schedules near the best one, guided by state prices.

The *corridor* around a schedule (Sniedovich and Voss 2006) holds the schedules in which no start
differs from its start in the schedule by more than a radius. A beam search over all schedules keeps
the partial schedules that look cheap by their prices, and drops those that lead to the best
schedules known. In a corridor, far fewer partial schedules compete, and their bounds are higher.
Here the radius is large for some consecutive starts, at a random place, and small for all others.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hindsight.prices.states import SCALE
from instances.arrays import IntArray, RequestColumns

from .state_kernels import Prices
from .states import StateSearch

FIRST_WIDTH, MOST_DOUBLINGS, SWEEP = 200, 12, 8
"""Beam search keeps at most `FIRST_WIDTH` states (partial schedules) at an epoch. This number is
doubled after n / `SWEEP` searches without a better schedule of n requests, up to `MOST_DOUBLINGS`
times."""

FIRST_STATES, STATE_GROWTH, MOST_STATES = 50_000, 4, 3_000_000
"""A call of `CorridorSearch.improve` begins no beam search after it has kept a number of states:
`FIRST_STATES` in the first call, and `STATE_GROWTH` times as many as the call before in every
other, but at most `MOST_STATES`."""

CONSECUTIVE, WIDE, NARROW = 24, 4.0, 1.0
"""Number of consecutive starts with a large radius. Large and small radius, in mean outputs."""

OUTSIDE = SCALE << 34
"""Cost of a start outside the corridor: above every limit on total latency, in 1 / SCALE rounds."""


class CorridorSearch:
    """Beam searches in corridors around the best schedule.

    A corridor holds all schedules whose starts differ little from those of a given schedule.

    Parameters
    ----------
    requests : RequestColumns
        The problem, as for `StateSearch`.
    max_states : int
        Largest number of states (partial schedules) of one epoch, the time between two rounds.
    seed : int, default 0
        Seed of the places of the corridors.
    """

    def __init__(self, requests: RequestColumns, max_states: int, seed: int = 0) -> None:
        self._search, self._rng = StateSearch(requests, max_states), np.random.default_rng(seed)
        self._fruitless, self._states = 0, FIRST_STATES

    def improve(
        self, start_times: IntArray, prices: Prices, should_stop: Callable[[], bool]
    ) -> IntArray:
        """Return the starts, shape (n,), of the best schedule found.

        Each call visits `STATE_GROWTH` times as many states as the one before, up to a limit.

        Parameters
        ----------
        start_times : int64 array
            Starts of a feasible schedule, shape (n,).
        prices : Prices
            Prices that guide the beams.
        should_stop : Callable[[], bool]
            Polled many times per second.
        """
        search, best, place = self._search, start_times, self._place()
        _, outputs, arrivals, _ = search.requests
        sweep, states = max(1, len(best) // SWEEP), self._states
        self._states = min(STATE_GROWTH * states, MOST_STATES)
        while states > 0 and not should_stop():
            search.prices = corridor_prices(prices, best, outputs, place)
            width = FIRST_WIDTH << min(self._fruitless // sweep, MOST_DOUBLINGS)
            latency = int((best + outputs - arrivals).sum())
            outcome = search.run(latency - 1, should_stop, width=width)
            states -= outcome.states
            if outcome.found is None:
                self._fruitless, place = self._fruitless + 1, self._place()
            else:
                best, self._fruitless = outcome.found, self._fruitless - self._fruitless % sweep
        return best

    def _place(self) -> int:
        """Draw the first of the starts with a large radius, as a place in the order of starts."""
        n = len(self._search.requests.output_lengths)
        return int(self._rng.integers(-CONSECUTIVE // 2, max(1, n - CONSECUTIVE // 2)))


def corridor_prices(prices: Prices, start_times: IntArray, outputs: IntArray, place: int) -> Prices:
    """Return prices with which a search stays in a corridor around a schedule.

    Parameters
    ----------
    prices : Prices
        Prices of the search.
    start_times, outputs : int64 array
        Starts in the schedule and output lengths of the requests, shape (n,).
    place : int
        Place, in the order of starts, of the first of the starts with a large radius.
    """
    radii = np.full((len(outputs), 1), NARROW)
    radii[np.argsort(start_times, kind="stable")[max(0, place) : place + CONSECUTIVE]] = WIDE
    change = np.abs(np.arange(prices.P.shape[1]) - start_times[:, np.newaxis])
    P = np.where(change > radii * outputs.mean(), OUTSIDE, prices.P)
    u = np.minimum.accumulate(P[:, ::-1], axis=1)[:, ::-1]
    return prices._replace(P=P, u=np.ascontiguousarray(u))
