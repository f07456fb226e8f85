"""Local search by ruin and recreate: cycles of simulated annealing from the best schedule.

Sources: ruin and recreate follows Schrimpf, Schneider, Stamm-Wilbrandt and Dueck (2000), and
skipping feasible starts at random ("blinks") follows Christiaens and Vanden Berghe (2020);
`hindsight.schedules.moves` describes the moves.

Threads share one schedule: the time axis is cut into regions, at least one per thread. Moves in a
region change only requests that run entirely inside it. New cuts are drawn after every few thousand
moves.

Deterministic: the schedule after a cycle depends only on the arguments, the number of moves and the
number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from hindsight.runtime.clock import Slices, StoppedEarlyError, never, timed_slices
from instances import FleetSchedule, Instance, Schedule
from instances.arrays import FloatArray, IntArray

from .draws import first_state
from .moves import CycleSettings, Region, Work, ruin_and_recreate, work_space
from .timetables import LONGEST_PROFILE, Timetable, place, requests_of, schedule_on, timetable

MOVES_BETWEEN_CUTS = 4096
"""Moves per region before the rounds are cut again and the best schedule is saved."""

FEWEST_IN_A_REGION = 50
FEWEST_LIVES_IN_A_REGION = 2
"""Least requests per thread, and least rounds per thread in units of the sum of longest and mean
output length. More threads do not pay off: requests that run across a cut stay where they are until
the next cuts."""

IN_A_REGION = 1000
LIVES_IN_A_REGION = 8
"""Least requests and least rounds (same unit) per region if there are more regions than threads:
small regions keep the data of moves in the processor cache; large ones leave space for moves."""

SPARE_ROUNDS = 1.3
"""Rounds of the memory profiles in a cycle, as a multiple of those of the best schedule."""

ON_TIME = (
    CycleSettings(6, 1.0, 0.3, 0.01),
    CycleSettings(12, 2.0, 0.15, 0.01, 0.5),
    CycleSettings(20, 10.0, 0.3, 0.01),
    CycleSettings(8, 1.0, 0.08, 0.01, 0.25),
)
"""Cycles of one pass of `improved`: as many requests as possible start by their last start."""

FIRST_MOVES, MOST_MOVES = 50, 12_800
"""Moves per request of the first cycle of a kind, and of the longest. Each cycle has twice as many
moves as the one before."""

ROUNDS_WITHOUT_GAIN = 3
"""Passes over `ON_TIME` without a better schedule after which `improved` ends."""


class RuinAndRecreate:
    """Local search by ruin and recreate on one schedule; keeps the best schedule found.

    Parameters
    ----------
    instance : Instance
        The problem, with any memory rule and number of replicas.
    seed : int, default 0
        Seed of the moves.
    threads : int, default 1
        Most threads; fewer are used if requests are few.
    last : int64 array or None, default None
        Last start of each request, shape (n,). The search then maximizes the number of requests
        that start by it. None minimizes the total latency of all requests.

    Attributes
    ----------
    starts, machines : int64 array
        The best schedule so far, shape (n,); a start is -1 where a request is left out.
    cost : float
        Cost of the best schedule: the weighted sum of starts, or the number of requests left out;
        infinite before the first schedule.
    moves : int
        Moves made so far by all threads.
    """

    def __init__(
        self, instance: Instance, seed: int = 0, threads: int = 1, last: IntArray | None = None
    ) -> None:
        self.requests, self._most_threads = requests_of(instance, last), threads
        self._instance = instance
        self._are_optional, n = last is not None, len(instance)
        output, arrival = instance.output_lengths, instance.arrival_times
        self._mean_output, self._longest_output = float(output.mean()), int(output.max())
        self._unit = 1.0 if self._are_optional else self._mean_output * instance.weights.mean()
        # More machines than requests are of no use.
        self._count = min(instance.replicas, n)
        # Requests run one after another end by the first; most schedules end by the second.
        self._most_rounds = int(arrival.max() + output.sum()) + 2
        if last is not None:
            self._most_rounds = int((last + output).max()) + 2
        volume = sum(instance.volumes.tolist()) // (instance.memory_limit * instance.replicas)
        rounds = int(arrival.max()) + 4 * (volume + self._longest_output) + 2
        self._rounds = min(self._most_rounds, rounds)
        self._random, self._states = np.random.default_rng(seed), [first_state(seed)]
        self._prices = np.zeros(0)
        self.starts, self.machines = np.full(n, -1, np.int64), np.zeros(n, np.int64)
        self.cost, self.moves = np.inf, 0

    def use_prices(self, prices: FloatArray) -> None:
        """Use these memory prices of rounds 1, 2, ... in cycles whose settings have a weight."""
        self._prices = prices

    @property
    def schedule(self) -> Schedule | FleetSchedule:
        """Return the best schedule of all requests, on one machine or on a fleet."""
        return schedule_on(self._instance, self.machines, self.starts)

    @property
    def has_prices(self) -> bool:
        """Return whether there are memory prices for cycles to use."""
        return bool(self._prices.any())

    @property
    def is_too_long(self) -> bool:
        """Return whether the memory profiles of the best schedule exceed `LONGEST_PROFILE`."""
        return self._count * self._needed_rounds() > LONGEST_PROFILE

    def offer(self, starts: IntArray, machines: IntArray | None = None) -> bool:
        """Take another feasible schedule, shape (n,), as the best one if it is better.

        Return whether the schedule is as good as the best one.
        """
        cost = self._cost_of(starts)
        if cost < self.cost:
            self.starts, self.cost = starts.copy(), cost
            self.machines = np.zeros_like(starts) if machines is None else machines.copy()
        return cost == self.cost

    def place(self, order: IntArray, must_stop: Callable[[], bool] = never) -> bool:
        """Place requests one by one, each at its earliest start that fits with those placed before.

        Offers the schedule to `offer`, and returns whether it is as good as the best one. Returns
        False if the memory profiles would exceed `LONGEST_PROFILE`.
        """
        while self._count * self._rounds <= LONGEST_PROFILE:
            none = np.full(len(order), -1, np.int64)
            table = self._table(none, np.zeros_like(none), self._rounds)
            try:
                for part in timed_slices(len(order), must_stop):
                    place(self.requests, table, order[part])
            except StoppedEarlyError:
                return False
            if self._are_optional or table.starts.min() >= 0:
                return self.offer(table.starts, table.machines)
            # Some requests find no start in these rounds: try again with twice as many rounds.
            self._rounds = min(self._most_rounds, 2 * self._rounds)
        return False

    def shift_left(
        self, starts: IntArray, machines: IntArray, must_stop: Callable[[], bool]
    ) -> tuple[IntArray, IntArray]:
        """Move requests, in order of start, to the earliest start that fits with all others.

        Passes repeat until no request moves. The schedule stays feasible and never gets worse.
        """
        rounds = self._rounds_of(starts)
        if self._count * rounds > LONGEST_PROFILE:
            return starts, machines
        table, is_moved = self._table(starts, machines, rounds), True
        while is_moved and not must_stop():
            before = table.starts.copy()
            order = np.argsort(np.where(before < 0, rounds, before), kind="stable")
            try:
                for part in timed_slices(len(order), must_stop):
                    place(self.requests, table, order[part])
            except StoppedEarlyError:
                break
            is_moved = bool((table.starts != before).any())
        return table.starts, table.machines

    def cycle(self, settings: CycleSettings, moves: int, must_stop: Callable[[], bool]) -> bool:
        """Anneal from the best schedule; keep the best of the schedules seen at the cuts.

        Parameters
        ----------
        settings : CycleSettings
            Parameters of the moves.
        moves : int
            Number of moves of all threads together, rounded up to the same number per region.
        must_stop : Callable[[], bool]
            Polled a few times a second.

        Returns
        -------
        bool
            Whether all moves were made.
        """
        if self.is_too_long:
            return False
        rounds = self._needed_rounds()
        table, cost = self._table(self.starts, self.machines, rounds), self.cost
        sums, regions, done, slices = self._price_sums(rounds), self._regions(table), 0, Slices()
        each = -(-moves // len(regions))
        spaces = [work_space(settings.most, len(self.starts)) for _ in self._states]
        mean, unit = self._mean_output, float(self._unit)
        with ThreadPoolExecutor(min(len(regions), self._most_threads)) as pool:
            while done < each:
                works = [
                    Work(self.requests, table, region, settings, space, *sums, each, mean, unit)
                    for region, space in zip(regions, spaces, strict=False)
                ]
                until = min(each, done + MOVES_BETWEEN_CUTS)
                while done < until and not must_stop():
                    with slices.next(until - done) as length:
                        last = done + length
                        tasks = [pool.submit(ruin_and_recreate, work, done, last) for work in works]
                        cost += sum(task.result() for task in tasks)
                    done = last
                    self.moves += length * len(regions)
                if cost < self.cost:
                    self.offer(table.starts, table.machines)
                if done < until:
                    return False
                regions = self._regions(table)
        return True

    def _table(self, starts: IntArray, machines: IntArray, rounds: int) -> Timetable:
        return timetable(self.requests, starts, machines, (self._count, rounds))

    def _rounds_of(self, starts: IntArray) -> int:
        """Return the length of a profile for these starts, with round 0 and one spare round."""
        return int((starts + self.requests.output).max()) + 2

    def _needed_rounds(self) -> int:
        """Return the length of a profile for the best schedule, with spare rounds at the end."""
        if self._are_optional:
            return self._most_rounds
        return int(SPARE_ROUNDS * self._rounds_of(self.starts)) + 2 * self._longest_output

    def _price_sums(self, rounds: int) -> tuple[FloatArray, FloatArray]:
        padded = np.zeros(rounds)
        known = self._prices[: rounds - 1]
        padded[1 : len(known) + 1] = known
        return np.cumsum(padded), np.cumsum(padded * np.arange(rounds))

    def _regions(self, table: Timetable) -> list[Region]:
        """Cut the rounds into regions with about the same number of requests."""
        starts, (_, rounds) = table.starts, table.profiles.shape
        lives = self._rounds_of(self.starts) / (self._longest_output + self._mean_output)
        fewest = min(len(starts) // FEWEST_IN_A_REGION, int(lives / FEWEST_LIVES_IN_A_REGION))
        near = min(len(starts) // IN_A_REGION, int(lives / LIVES_IN_A_REGION))
        count = 1 if self._are_optional else max(1, min(self._most_threads, fewest), near)
        while len(self._states) < count:
            self._states.append(first_state(int(self._random.integers(1 << 32))))
        order = np.argsort(starts, kind="stable")
        shares = (np.arange(1, count) + self._random.uniform(-0.25, 0.25, count - 1)) / count
        cuts = starts[order[(shares * len(order)).astype(np.int64)]]
        regions = []
        for (first, last), state in zip(
            pairwise([0, *cuts.tolist(), rounds - 1]), self._states, strict=False
        ):
            inside = (starts >= first) & (starts + self.requests.output <= last) | (count == 1)
            if inside.any():
                regions.append(Region(first, last, order[inside[order]], state))
        return regions

    def _cost_of(self, starts: IntArray) -> float:
        if self._are_optional:
            return float((starts < 0).sum())
        return float(self.requests.weight @ starts) if starts.min() >= 0 else np.inf


def improved(
    search: RuinAndRecreate, must_stop: Callable[[], bool], *, patient: bool
) -> Iterator[RuinAndRecreate]:
    """Run cycles that maximize the requests on time; yield the search after each better schedule.

    Each pass over `ON_TIME` has twice as many moves as the one before. Unless ``patient``, the
    search ends after `ROUNDS_WITHOUT_GAIN` passes without a better schedule.
    """
    share, fruitless = FIRST_MOVES, 0
    while (patient or fruitless < ROUNDS_WITHOUT_GAIN) and search.cost and not search.is_too_long:
        fruitless += 1
        for settings in ON_TIME:
            if must_stop():
                return
            cost = search.cost
            if settings.weight == 0 or search.has_prices:
                search.cycle(settings, share * len(search.starts), must_stop)
            if search.cost < cost:
                fruitless = 0
                yield search
        share = min(2 * share, MOST_MOVES)
