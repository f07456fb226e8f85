"""Simulated annealing of the order in which requests are placed, and of their delays.

Sources: the schedule representation extends the serial generation scheme of Kolisch (1996) by
delays; acceptance and cooling follow Kirkpatrick, Gelatt and Vecchi (1983).
`hindsight.schedules.order_moves` describes the moves.

Deterministic: the schedule after k moves depends only on the arguments and the seed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hindsight.runtime.clock import Slices, StoppedEarlyError, never, timed_slices
from instances import Instance, PreemptiveSchedule
from instances.arrays import IntArray

from .cycles import RuinAndRecreate
from .draws import first_state
from .lists import first_orders
from .order_moves import BEST, PLACED, PRESENT, Sequence, anneal, begin_order
from .timetables import LONGEST_PROFILE, requests_of

SLACK = 5.0
"""A move is given up once its loss over the requests placed so far exceeds the acceptance threshold
by this much. Unit: mean output length times mean weight."""

LEAST_SHARE = 0.02
"""Least probability that a request, once drawn, is moved if there are neither delays nor stops. The
probability grows with the volume, because short requests fit anywhere."""

FIRST_CYCLE = 250_000
"""Moves of the first annealing of order and delays; each later one has up to twice as many."""

CYCLE_MOVES_PER_REQUEST = 40_000
"""Most moves of an annealing of order and delays, per request: restarts pay off more than longer
annealings."""

HOT, WARM, COLD = 0.8, 0.4, 0.1
"""First temperatures, used alternately, and the last one. Unit: mean output lengths."""

DELAYED = 0.2
"""Share of moves that change a delay, in annealings of order and delays."""


class OrderAnnealing:
    """One annealing of the order of a schedule.

    Parameters
    ----------
    instance : Instance
        The problem, with any memory rule and number of replicas.
    schedule : tuple of two int64 arrays, shape (n,)
        Starts and machines of a feasible schedule.
    heat : tuple of two floats
        First and last temperature, in mean output lengths.
    moves : int
        Number of moves.
    state : int64 array, shape (1,)
        State of the random numbers, advanced in place.
    delayed : float, default 0
        Share of moves that change a delay; 0 for schedules without delays.
    stops : bool, default False
        Whether requests may stop and resume; only for one machine, with memory counted in tokens.
    must_stop : Callable[[], bool], default never
        Polled while the first schedule is built.

    Attributes
    ----------
    work : Sequence
        The order, the present schedule and the best one.
    is_possible : bool
        Whether the first schedule could be built: its memory profiles fit in `LONGEST_PROFILE`, and
        it was complete before ``must_stop``.
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
        stops: bool = False,
        must_stop: Callable[[], bool] = never,
    ) -> None:
        (starts, machines), n, output = schedule, len(instance), instance.output_lengths
        unit, longest = float(output.mean() * instance.weights.mean()), int(output.max())
        count, shares = min(instance.replicas, n), np.ones(n)
        if not delayed and not stops:
            shares = np.clip(instance.volumes / instance.volumes.mean(), LEAST_SHARE, 1.0)
        rounds = int(1.3 * (int(starts.max()) + longest)) + 2 * longest + 2
        if stops:
            # After the last arrival, a request waits only in rounds in which another one runs.
            rounds = int(instance.arrival_times.max() + output.sum()) + 2
        sizes = output if stops else np.ones(n, np.int64)
        first = np.zeros(int(sizes.sum()), np.int64) if stops else starts
        self.is_possible = count * rounds <= LONGEST_PROFILE
        self.work = Sequence(
            requests=requests_of(instance),
            total=moves,
            hot=heat[0] * unit,
            cold=heat[1] * unit,
            slack=SLACK * unit,
            delayed=delayed,
            longest_delay=max(1, longest // 2),
            stops=stops,
            shares=shares,
            order=np.argsort(starts, kind="stable"),
            delay=np.zeros(n, np.int64),
            offset=np.cumsum(sizes) - sizes,
            rounds=np.tile(first, (3, 1)),
            machines=np.tile(machines, (3, 1)),
            profiles=np.zeros((count, rounds if self.is_possible else 1), np.int64),
            counts=np.zeros(4, np.int64),
            state=state,
        )
        self.is_possible = self.is_possible and self._begin(must_stop)
        self._done = 0

    def _begin(self, must_stop: Callable[[], bool]) -> bool:
        """Build the schedule that the order leads to; return whether that was possible."""
        work = self.work
        try:
            for part in timed_slices(len(work.order), must_stop):
                if not begin_order(work, part.start, part.stop):
                    return False
        except StoppedEarlyError:
            return False
        work.profiles[:] = 0
        work.rounds[BEST], work.machines[BEST] = work.rounds[PRESENT], work.machines[PRESENT]
        return True

    @property
    def best(self) -> tuple[IntArray, IntArray]:
        """Rounds and machines of the best schedule (rows of `Sequence`)."""
        return self.work.rounds[BEST], self.work.machines[BEST]

    @property
    def placed(self) -> int:
        """Number of requests placed by moves so far."""
        return int(self.work.counts[PLACED])

    @property
    def is_done(self) -> bool:
        """Return whether all moves are made."""
        return self._done == self.work.total

    def run(self, moves: int, must_stop: Callable[[], bool] = never) -> int:
        """Make up to ``moves`` of the remaining moves; return the number made."""
        first, slices = self._done, Slices()
        last = min(self.work.total, first + moves) if self.is_possible else first
        while self._done < last and not must_stop():
            with slices.next(last - self._done) as length:
                anneal(self.work, self._done, self._done + length)
            self._done += length
        return self._done - first


class OrderSearch:
    """Annealings of order and delays one after another, each from the best schedule so far.

    Parameters
    ----------
    instance : Instance
        The problem, with any memory rule and number of replicas.
    start_times : int64 array or None, default None
        Starts of a first feasible schedule, shape (n,); None for the best of `first_orders`.
    seed : int, default 0
        Seed of the moves.

    Attributes
    ----------
    best : RuinAndRecreate
        Holder of the best schedule so far.
    moves : int
        Number of moves made.
    """

    def __init__(
        self, instance: Instance, start_times: IntArray | None = None, seed: int = 0
    ) -> None:
        self._instance, self._state = instance, first_state(seed)
        self._annealing: OrderAnnealing | None = None
        self._length, self._cycle, self.moves = FIRST_CYCLE, 0, 0
        self.best = RuinAndRecreate(instance)
        if start_times is not None:
            self.best.offer(start_times)
        else:
            for order in first_orders(instance):
                self.best.place(order)

    @property
    def best_starts(self) -> IntArray:
        """Starts of the best schedule so far, shape (n,)."""
        return self.best.starts

    @property
    def best_cost(self) -> int:
        """Weighted total latency of the best schedule so far, rounds."""
        instance = self._instance
        least = instance.weights @ (instance.output_lengths - instance.arrival_times)
        return int(self.best.cost) + int(least)

    def offer(self, start_times: IntArray) -> None:
        """Let the next annealing start from another feasible schedule if it is better."""
        self.best.offer(start_times)

    def run(self, moves: int) -> None:
        """Make ``moves`` further moves; none if there is only one request."""
        last = self.moves + moves
        while self.moves < last and len(self._instance) > 1:
            if self._annealing is None or self._annealing.is_done:
                self._annealing = self._next()
            made = self._annealing.run(last - self.moves)
            if not made:
                return
            self.moves += made
            self.best.offer(*self._annealing.best)

    def _next(self) -> OrderAnnealing:
        """Return an annealing from the best schedule; the first of each length is hotter."""
        heat, length = (HOT if self._cycle % 2 == 0 else WARM, COLD), self._length
        self._cycle += 1
        if self._cycle % 2 == 0:
            longest = max(FIRST_CYCLE, CYCLE_MOVES_PER_REQUEST * len(self._instance))
            self._length = min(2 * length, longest)
        schedule = self.best.starts, self.best.machines
        state = self._state
        return OrderAnnealing(self._instance, schedule, heat, length, state, delayed=DELAYED)


class PreemptiveOrders:
    """Annealings of the order of requests that may stop; the first order is by ascending volume."""

    def __init__(self, instance: Instance, seed: int) -> None:
        self._instance, self._state = instance, first_state(seed)
        self._order = np.argsort(instance.volumes, kind="stable")

    def anneal(self, moves: int, hot: float, cold: float) -> PreemptiveSchedule:
        """Return the best schedule of one annealing, which starts from the order of the last one.

        ``hot`` and ``cold`` are the first and last temperature, in rounds.
        """
        instance, ranks = self._instance, np.argsort(self._order)
        mean = float(instance.output_lengths.mean())
        schedule, heat = (ranks, np.zeros_like(ranks)), (hot / mean, cold / mean)
        annealing = OrderAnnealing(instance, schedule, heat, moves, self._state, stops=True)
        if len(instance) > 1:
            annealing.run(moves)
        self._order = annealing.work.order
        rounds = np.split(annealing.best[0], annealing.work.offset[1:])
        return PreemptiveSchedule.from_rounds(instance, rounds)
