"""Simulated annealing of the order in which requests are placed, and of their delays.

`hindsight.schedules.order_moves` defines the order and the delays of a schedule, and the moves.
Sources: orders follow the serial schedule generation scheme of Kolisch (1996); acceptance and
cooling follow Kirkpatrick, Gelatt and Vecchi (1983).

Deterministic: the schedule after k moves depends only on the arguments and the seed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hindsight.runtime.clock import Slices, never
from hindsight.runtime.compilation import plain
from instances import Instance
from instances.arrays import IntArray

from . import timetables
from .cycles import RuinAndRecreate
from .lists import list_orders
from .order_moves import BEST, PRESENT, Sequence, anneal
from .timetables import SEARCH, Timetable, fit, hold, place_all, requests_of

SLACK = 5.0
"""A move is rejected once the requests that it has placed so far raise the cost by more than its
acceptance threshold plus this number. Unit: mean output length times mean weight."""

LEAST_SHARE = 0.02
"""Without delays, a drawn request is moved with probability volume / mean volume, limited to
LEAST_SHARE .. 1, else another is drawn. Small requests fit anywhere: moving them gains less."""

FIRST_CYCLE = 50_000
"""Moves of each of the first two annealings of `OrderSearch`; the next two have twice as many."""

CYCLE_MOVES_PER_REQUEST = 40_000
"""Largest number of moves of one annealing of `OrderSearch`, divided by the number of requests.
Two annealings of this length lower the cost more than a single one of twice the length."""

HOT, WARM, COLD = 0.8, 0.4, 0.1
"""First temperatures of the annealings of `OrderSearch`: `HOT` and `WARM` in turn. Last temperature
of all of them: `COLD`. Unit: the mean output length times the mean weight."""

DELAYED = 0.2
"""Share of the moves of `OrderSearch` that change the delay of a request, not the order."""


class OrderAnnealing:
    """One simulated annealing of the order in which the requests of a schedule are placed.

    Each request, in this order, takes the first start at which it fits with those placed before.
    With a delay of d rounds, it takes the first such start at least d rounds later.

    Parameters
    ----------
    instance : Instance
        The problem, with any memory rule and number of replicas.
    schedule : tuple of two int64 arrays, shape (n,)
        Starts and machines of a feasible schedule. The first order is by ascending start.
    heat : tuple of two floats
        First and last temperature. Unit: the mean output length times the mean weight.
    moves : int
        Number of moves of the whole annealing.
    state : int64 array, shape (1,)
        State of the random numbers (`timetables.next_uniform`), advanced in place.
    delayed : float, default 0
        Share of the moves that change a delay. 0 stands for schedules without delays.
    must_stop : Callable[[], bool], default never
        Stop callback, called while the first schedule is built. If it returns True, this schedule
        stays incomplete, and no moves can be made.

    Attributes
    ----------
    work : Sequence
        The order of the requests, the present schedule and the best one.
    left : int
        Number of moves that are not made yet.
    is_possible : bool
        Whether moves can be made. It is False if the memory profiles would have more than
        `LONGEST_PROFILE` entries, or if the first schedule is incomplete.
    """

    def __init__(
        self,
        instance: Instance,
        schedule: tuple[IntArray, IntArray],
        heat: tuple[float, float],
        moves: int,
        state: IntArray,
        *,
        delayed: float = 0.0,
        must_stop: Callable[[], bool] = never,
    ) -> None:
        (starts, machines), n, output = schedule, len(instance), instance.output_lengths
        unit, longest = float(output.mean() * instance.weights.mean()), int(output.max())
        count, least = min(instance.replicas, n), 1.0 if delayed else LEAST_SHARE
        size = int(1.3 * (int(starts.max()) + longest)) + 2 * longest + 2
        three, where = np.tile(starts, (3, 1)), np.tile(machines, (3, 1))
        self.is_possible = count * size <= timetables.LONGEST_PROFILE
        profiles = timetables.empty_profiles(instance, (count, size if self.is_possible else 1))
        self.work = Sequence(
            table=Timetable(requests_of(instance), three[PRESENT], where[PRESENT], profiles),
            total=moves,
            hot=heat[0] * unit,
            cold=heat[1] * unit,
            slack=SLACK * unit,
            delayed=delayed,
            longest_delay=max(1, longest // 2),
            shares=np.clip(instance.volumes / instance.volumes.mean(), least, 1.0),
            order=np.argsort(starts, kind="stable"),
            delay=np.zeros(n, np.int64),
            starts=three,
            machines=where,
            counts=np.zeros(4, np.int64),
            state=state,
        )
        self.left = moves
        self.is_possible = self.is_possible and self._begin(must_stop)

    def _begin(self, must_stop: Callable[[], bool]) -> bool:
        """Build the schedule of the first order; return whether all requests could be placed.

        With delays, each request keeps its start: its delay is this start minus the first start at
        which it fits with the requests placed before. Without delays, each request moves to the
        first start at which it fits. Return False also if ``must_stop`` returned True before all of
        them were placed.
        """
        work, now = self.work, 0
        table = work.table._replace(profiles=work.table.profiles.copy())
        if work.delayed > 0:
            for i in work.order.tolist():
                k, begin = int(table.machines[i]), max(int(table.requests.arrival[i]), now)
                at, _ = fit(table.requests, table.profiles, i, begin, k, table.profiles.shape[1])
                now = int(table.starts[i])
                work.delay[i] = now - at
                plain(hold)(table, i, now, k, 1)
        else:
            table.starts[:] = -1
            if not place_all(table, work.order, must_stop, SEARCH) or table.starts.min() < 0:
                return False
        work.starts[BEST], work.machines[BEST] = work.starts[PRESENT], work.machines[PRESENT]
        return True

    @property
    def best(self) -> tuple[IntArray, IntArray]:
        """Return start and machine of each request in the best schedule, both of shape (n,)."""
        return self.work.starts[BEST], self.work.machines[BEST]

    def run(self, moves: int, must_stop: Callable[[], bool] = never) -> int:
        """Make ``moves`` further moves of the annealing; return the number made.

        The number made is smaller if fewer moves are left, or if ``must_stop`` returns True, which
        ends the call.
        """
        before, slices = self.left, Slices()
        last = max(0, before - moves) if self.is_possible else before
        while self.left > last and not must_stop():
            done = self.work.total - self.left
            with slices.next(self.left - last) as length:
                anneal(self.work, done, done + length)
            self.left -= length
        return before - self.left


class OrderSearch:
    """Search for a schedule by annealing the order in which requests are placed, and their delays.

    Each request, in this order, takes the first start at which it fits with those placed before.
    With a delay of d rounds, it takes the first such start at least d rounds later. Annealings
    follow one another, and each one begins with the best schedule so far.

    Parameters
    ----------
    instance : Instance
        The problem, with any memory rule and number of replicas.
    start_times : int64 array or None, default None
        Starts of a feasible schedule, shape (n,), from which the search begins. With None, it
        begins with the best schedule from `list_orders`.
    seed : int, default 0
        Seed of the random numbers with which moves are drawn.

    Attributes
    ----------
    best : RuinAndRecreate
        Holder of the best schedule so far. Callers may offer other feasible schedules to it, and
        the next annealing starts from the best one.
    moves : int
        Number of moves made in all annealings.
    """

    def __init__(
        self, instance: Instance, start_times: IntArray | None = None, seed: int = 0
    ) -> None:
        self._instance, self._state = instance, timetables.first_state(seed)
        self._annealing: OrderAnnealing | None = None
        self._cycle = self.moves = 0
        self.best = RuinAndRecreate(instance)
        if start_times is not None:
            self.best.offer(start_times)
        else:
            for order in list_orders(instance).values():
                self.best.place(order)

    @property
    def best_cost(self) -> int:
        """Return the weighted total latency of the best schedule so far, in rounds."""
        instance = self._instance
        least = instance.weights @ (instance.output_lengths - instance.arrival_times)
        return int(self.best.cost) + int(least)

    def run(self, moves: int) -> None:
        """Make ``moves`` further moves of the annealings, and keep the best schedule found.

        If there is only one request, make none.
        """
        last = self.moves + moves
        while self.moves < last and len(self._instance) > 1:
            if self._annealing is None or not self._annealing.left:
                self._annealing = self._next()
            made = self._annealing.run(last - self.moves)
            if not made:
                return
            self.moves += made
            self.best.offer(*self._annealing.best)

    def _next(self) -> OrderAnnealing:
        """Return the next annealing, which begins with the best schedule so far.

        Annealings come in pairs with equal numbers of moves. The first of a pair begins at the
        temperature `HOT`, the second at the lower temperature `WARM`.
        """
        instance, k, state = self._instance, self._cycle, self._state
        self._cycle += 1
        longest = max(FIRST_CYCLE, CYCLE_MOVES_PER_REQUEST * len(instance))
        length = min(FIRST_CYCLE << min(k // 2, 40), longest)
        schedule, heat = (self.best.starts, self.best.machines), (WARM if k % 2 else HOT, COLD)
        return OrderAnnealing(instance, schedule, heat, length, state, delayed=DELAYED)
