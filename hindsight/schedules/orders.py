"""Annealing of the order in which requests are placed, and of their delays.

Sources: the schedule representation extends the serial generation scheme of Kolisch (1996) by
delays; acceptance and cooling follow Kirkpatrick, Gelatt and Vecchi (1983).
`hindsight.schedules.order_moves` describes the moves.

Deterministic: the schedule after k moves depends on the arguments and the seed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hindsight.runtime.clock import Slices, StoppedEarlyError, never, timed_slices
from instances import Instance, PreemptiveSchedule
from instances.arrays import IntArray

from .cycles import RuinAndRecreate
from .draws import first_state
from .order_moves import PLACED, Annealing, Sequence, anneal, begin_order
from .timetables import LONGEST_PROFILE, requests_of

FARTHEST = 200
"""Most places by which a move puts a request elsewhere."""

SLACK = 5.0
"""Loss, in mean output lengths of the mean weight, that those placed so far may have beyond what is
accepted, as those behind may still gain."""

LEAST_SHARE = 0.02
"""Least probability with which a drawn request is moved, of large instances: it grows with the
volume, because the many short requests fit anywhere."""

FIRST_CYCLE = 250_000
"""Moves of the first annealing of order and delays; each later one has up to twice as many."""

CYCLE_MOVES_PER_REQUEST = 40_000
"""Most moves of one, times n: restarts pay off more than longer annealings."""

HOT, WARM, COLD = 0.8, 0.4, 0.1
"""First temperatures in turn and the last one, in mean output lengths."""

DELAYED = 0.2
"""Share of their moves that change a delay."""


@dataclass(frozen=True)
class OrderSettings:
    """Parameters of an annealing of the order; temperatures are in mean output lengths.

    Attributes
    ----------
    hot, cold : float
        First and last temperature.
    delayed : float
        Share of moves that change a delay; 0 for schedules without delays.
    in_order : bool
        Whether no request starts before the one placed before it.
    by_volume : bool
        Whether requests of little volume are moved less often.
    """

    hot: float
    cold: float
    delayed: float = 0.0
    in_order: bool = False
    by_volume: bool = True


class OrderAnnealing:
    """One annealing of the order of a schedule.

    Parameters
    ----------
    instance : Instance
        The problem, with any memory rule and number of replicas.
    starts, machines : int64 array, shape (n,)
        A feasible schedule.
    settings : OrderSettings
        Parameters of the moves.
    moves : int
        Number of moves.
    state : int64 array, shape (1,)
        State of the random numbers, advanced in place.
    stops : bool, default False
        Whether requests may stop and go on, on one machine counted in tokens.
    must_stop : Callable[[], bool], default never
        Polled while the first schedule is built.

    Attributes
    ----------
    work : Sequence
        The order, the present schedule and the best one.
    is_possible : bool
        Whether the schedule that the order leads to fits in memory, and there was time for it.
    """

    def __init__(
        self,
        instance: Instance,
        starts: IntArray,
        machines: IntArray,
        settings: OrderSettings,
        moves: int,
        state: IntArray,
        *,
        stops: bool = False,
        must_stop: Callable[[], bool] = never,
    ) -> None:
        self._requests, n, output = requests_of(instance), len(instance), instance.output_lengths
        unit = float(output.mean() * instance.weights.mean())
        shares = np.ones(n)
        if settings.by_volume:
            shares = np.clip(instance.volumes / instance.volumes.mean(), LEAST_SHARE, 1.0)
        self._plan = Annealing(
            moves,
            settings.hot * unit,
            settings.cold * unit,
            SLACK * unit,
            float(min(n, FARTHEST)),
            settings.delayed,
            max(1, int(output.max()) // 2),
            int(settings.in_order),
            int(stops),
            shares,
        )
        longest, count = int(output.max()), min(instance.replicas, n)
        rounds = int(1.3 * (int(starts.max()) + longest)) + 2 * longest + 2
        if stops:
            # After the last arrival, a token waits only in rounds that hold other requests' tokens.
            rounds = int(instance.arrival_times.max() + output.sum()) + 2
        sizes = output if stops else np.ones(n, np.int64)
        offset = np.cumsum(sizes) - sizes
        first = np.zeros(int(sizes.sum()), np.int64) if stops else starts.copy()
        self.is_possible = count * rounds <= LONGEST_PROFILE
        profiles = np.zeros((count, rounds if self.is_possible else 1), np.int64)
        self.work = Sequence(
            order=np.argsort(starts, kind="stable"),
            delay=np.zeros(n, np.int64),
            offset=offset,
            rounds=first,
            new=first.copy(),
            best=first.copy(),
            machines=machines.copy(),
            new_machines=machines.copy(),
            best_machines=machines.copy(),
            profiles=profiles,
            counts=np.zeros(4, np.int64),
            state=state,
        )
        self.is_possible = self.is_possible and self._begin(must_stop)
        self._done = 0

    def _begin(self, must_stop: Callable[[], bool]) -> bool:
        """Build the schedule that the order leads to; tell whether that was possible."""
        work = self.work
        try:
            for part in timed_slices(len(work.order), must_stop):
                if not begin_order(self._requests, self._plan, work, part.start, part.stop):
                    return False
        except StoppedEarlyError:
            return False
        work.profiles[:] = 0
        work.best[:], work.best_machines[:] = work.rounds, work.machines
        return True

    @property
    def placed(self) -> int:
        """Number of requests placed by moves so far."""
        return int(self.work.counts[PLACED])

    @property
    def is_done(self) -> bool:
        """Tell whether all moves are made."""
        return self._done == self._plan.total

    def run(self, moves: int, must_stop: Callable[[], bool] = never) -> int:
        """Make further moves, at most all of the annealing; return how many were made."""
        first, slices = self._done, Slices()
        last = min(self._plan.total, first + moves) if self.is_possible else first
        while self._done < last and not must_stop():
            with slices.next(last - self._done) as length:
                until = self._done + length
                anneal(self._requests, self._plan, self.work, self._done, until)
            self._done = until
        return self._done - first


class OrderSearch:
    """Annealings of order and delays one after another, each from the best schedule so far.

    Parameters
    ----------
    instance : Instance
        The problem, with any memory rule and number of replicas.
    start_times : int64 array or None, default None
        A feasible schedule to begin with, shape (n,); None for the best of some orders.
    seed : int, default 0
        Seed of the moves.

    Attributes
    ----------
    best_starts, best_machines : int64 array
        The best schedule so far, shape (n,).
    best_cost : int
        Its weighted total latency, rounds.
    moves : int
        Number of moves made.
    """

    def __init__(
        self, instance: Instance, start_times: IntArray | None = None, seed: int = 0
    ) -> None:
        self._instance, self._state = instance, first_state(seed)
        self._annealing: OrderAnnealing | None = None
        self._length, self._cycle, self.moves = FIRST_CYCLE, 0, 0
        first = RuinAndRecreate(instance)
        if start_times is not None:
            first.offer(start_times)
        else:
            for key in (instance.volumes, instance.peak_memories, instance.output_lengths):
                for order in (
                    np.argsort(key / instance.weights),
                    np.lexsort((key, instance.arrival_times)),
                ):
                    first.place(order)
        self.best_starts, self.best_machines = first.starts, first.machines
        self.best_cost = self._cost_of(first.starts)

    def run(self, moves: int) -> None:
        """Make ``moves`` further moves; an instance of one request needs none."""
        last = self.moves + moves
        while self.moves < last and len(self._instance) > 1:
            if self._annealing is None or self._annealing.is_done:
                self._begin()
            assert self._annealing is not None
            made = self._annealing.run(last - self.moves)
            if not made:
                return
            self.moves += made
            work = self._annealing.work
            self.offer(work.best, work.best_machines)

    def offer(self, start_times: IntArray, machines: IntArray | None = None) -> None:
        """Let the next annealing start from another feasible schedule if it is better."""
        cost = self._cost_of(start_times)
        if cost < self.best_cost:
            self.best_starts, self.best_cost = start_times.copy(), cost
            self.best_machines = np.zeros_like(start_times) if machines is None else machines.copy()

    def _begin(self) -> None:
        longest = max(FIRST_CYCLE, CYCLE_MOVES_PER_REQUEST * len(self._instance))
        hot = HOT if self._cycle % 2 == 0 else WARM
        settings = OrderSettings(hot, COLD, DELAYED, in_order=True, by_volume=False)
        schedule = self.best_starts, self.best_machines
        self._annealing = OrderAnnealing(
            self._instance, *schedule, settings, self._length, self._state
        )
        self._cycle += 1
        if self._cycle % 2 == 0:
            self._length = min(2 * self._length, longest)

    def _cost_of(self, starts: IntArray) -> int:
        instance = self._instance
        return int(instance.weights @ (starts + instance.output_lengths - instance.arrival_times))


class PreemptiveOrders:
    """Annealings of the order of requests that may stop, starting from smallest volume first."""

    def __init__(self, instance: Instance, seed: int) -> None:
        self._instance, self._state = instance, first_state(seed)
        self._order = np.argsort(instance.volumes, kind="stable")

    def anneal(self, moves: int, hot: float, cold: float) -> PreemptiveSchedule:
        """Return the best schedule of one annealing, which starts from the last one's order.

        ``hot`` and ``cold`` are the first and last temperature, in rounds.
        """
        instance, ranks = self._instance, np.argsort(self._order)
        mean = float(instance.output_lengths.mean())
        settings = OrderSettings(hot / mean, cold / mean, by_volume=False)
        nowhere = np.zeros_like(ranks)
        annealing = OrderAnnealing(
            instance, ranks, nowhere, settings, moves, self._state, stops=True
        )
        if len(instance) > 1:
            annealing.run(moves)
        self._order = annealing.work.order
        rounds = np.split(annealing.work.best, annealing.work.offset[1:])
        return PreemptiveSchedule.from_rounds(instance, rounds)
