"""Local search by ruin and recreate: cycles of simulated annealing from the best schedule.

Sources: ruin and recreate follows Schrimpf, Schneider, Stamm-Wilbrandt and Dueck (2000), and
skipping feasible starts at random ("blinks") follows Christiaens and Vanden Berghe (2020);
`hindsight.schedules.moves` describes the moves.

A cycle is one annealing. Its threads share one schedule: the rounds are cut into regions, at least
one per thread, and moves in a region change only requests that run entirely inside it. New cuts are
drawn every few thousand moves.

Deterministic: the schedule after a cycle depends only on the arguments, the number of moves and the
number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hindsight.runtime.clock import Slices, StoppedEarlyError, never, timed_slices
from instances import FleetSchedule, Instance, Schedule
from instances.arrays import FloatArray, IntArray

from . import timetables
from .moves import Work, ruin_and_recreate, work_space
from .timetables import LONGEST_PROFILE, Timetable, first_state

MOVES_BETWEEN_CUTS = 4096
"""Moves per region until the rounds are cut again. Only then may a better schedule be saved."""

FEWEST_IN_A_REGION = 50
FEWEST_LIVES_IN_A_REGION = 2
"""Least requests per thread, and least rounds per thread. Unit of the latter: the longest plus the
mean output length. With more threads, too many requests run across a cut, and these cannot move."""

IN_A_REGION = 1000
LIVES_IN_A_REGION = 8
"""Least requests and least rounds (same unit) per region if there are more regions than threads.
Small regions keep the data of moves in the processor cache; large ones leave space for moves."""

SPARE_ROUNDS = 1.3
"""Number of rounds that a cycle may use, as a multiple of those of the best schedule."""


class CycleSettings(NamedTuple):
    """Parameters of one cycle: an annealing with a fixed number of moves.

    Attributes
    ----------
    most : int
        Most requests with a start that a move removes, >= 2.
    reach : float
        Largest distance between the starts of removed requests and a random round. Unit: the mean
        output length.
    hot, cold : float
        First and last temperature. Unit: the mean output length times the mean weight, or one
        request left out if requests may be left out.
    weight : float
        Initial weight of the memory prices in the cost of a start.
    """

    most: int = 8
    reach: float = 1.0
    hot: float = 0.1
    cold: float = 0.003
    weight: float = 0.0


ON_TIME = (
    CycleSettings(6, 1.0, 0.3, 0.01),
    CycleSettings(12, 2.0, 0.15, 0.01, 0.5),
    CycleSettings(20, 10.0, 0.3, 0.01),
    CycleSettings(8, 1.0, 0.08, 0.01, 0.25),
)
"""Cycles of one pass of `improved`, which maximizes the number of requests on time."""

FIRST_MOVES, MOST_MOVES = 50, 12_800
"""Moves per request of the first cycle with given settings, and of the longest one. Each cycle has
twice as many moves as the one before with these settings."""

ROUNDS_WITHOUT_GAIN = 3
"""Consecutive passes over `ON_TIME` without a better schedule after which `improved` ends."""


class RuinAndRecreate:
    """Local search by ruin and recreate from the best schedule found so far.

    Parameters
    ----------
    instance : Instance
        The problem, with any memory rule and number of replicas.
    seed : int, default 0
        Seed of the moves.
    threads : int, default 1
        Most threads; fewer are used if requests are few.
    last : int64 array or None, default None
        Last start of each request, shape (n,): the search maximizes the number of requests that
        start by it, and leaves out the others. None minimizes the total latency of all requests.

    Attributes
    ----------
    starts, machines : int64 array
        The best schedule so far, shape (n,); a start is -1 where a request is left out.
    cost : float
        Cost of the best schedule: the weighted sum of starts, or the number of requests left out.
        Infinite before the first schedule.
    moves : int
        Moves made so far by all threads.
    prices : float64 array
        Memory prices of rounds 1, 2, ..., for cycles whose settings have a weight; empty at first.
    """

    def __init__(
        self, instance: Instance, seed: int = 0, threads: int = 1, last: IntArray | None = None
    ) -> None:
        self.requests, self._most_threads = timetables.requests_of(instance, last), threads
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
        self.prices = np.zeros(0)
        self.starts, self.machines = np.full(n, -1, np.int64), np.zeros(n, np.int64)
        self.cost, self.moves = np.inf, 0

    @property
    def schedule(self) -> Schedule | FleetSchedule:
        """Return the best schedule of all requests, on one machine or on a fleet."""
        return timetables.schedule_on(self._instance, self.machines, self.starts)

    @property
    def is_too_long(self) -> bool:
        """Return whether the memory profiles of the best schedule exceed `LONGEST_PROFILE`."""
        return self._count * self._needed_rounds() > LONGEST_PROFILE

    def offer(self, starts: IntArray, machines: IntArray | None = None) -> bool:
        """Take another feasible schedule as the best one if it is better.

        ``machines`` of None are all 0. Return whether the schedule is now the best, or as good.
        """
        cost = self._cost_of(starts)
        if cost < self.cost:
            self.starts, self.cost = starts.copy(), cost
            self.machines = np.zeros_like(starts) if machines is None else machines.copy()
        return cost == self.cost

    def place(self, order: IntArray, must_stop: Callable[[], bool] = never) -> bool:
        """Build a schedule: each request, in this order, takes the first start that fits.

        Return whether the schedule is now the best one, or as good. Return also False if
        ``must_stop`` returned True, or if the memory profiles would exceed `LONGEST_PROFILE`.
        """
        while self._count * self._rounds <= LONGEST_PROFILE:
            none = np.full(len(order), -1, np.int64)
            table = self._table(none, np.zeros_like(none), self._rounds)
            if not _place_all(table, order, must_stop):
                return False
            if self._are_optional or table.starts.min() >= 0:
                return self.offer(table.starts, table.machines)
            # Some request found no start within these rounds: double them.
            self._rounds = min(self._most_rounds, 2 * self._rounds)
        return False

    def shift_left(
        self, starts: IntArray, machines: IntArray, must_stop: Callable[[], bool]
    ) -> tuple[IntArray, IntArray]:
        """Move each request, in order of start, to the first start that fits with all others.

        Repeat until no request moves. The schedule stays feasible and never gets worse.
        """
        rounds = self._rounds_of(starts)
        if self._count * rounds > LONGEST_PROFILE:
            return starts, machines
        table, is_moved = self._table(starts, machines, rounds), True
        while is_moved and not must_stop():
            before = table.starts.copy()
            order = np.argsort(np.where(before < 0, rounds, before), kind="stable")
            is_placed = _place_all(table, order, must_stop)
            is_moved = is_placed and bool((table.starts != before).any())
        return table.starts, table.machines

    def cycle(self, settings: CycleSettings, moves: int, must_stop: Callable[[], bool]) -> bool:
        """Anneal from the best schedule; keep a schedule seen at a cut if it is better.

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
        reach, unit = max(2.0, settings.reach * self._mean_output), float(self._unit)
        parameters = (
            settings.most,
            reach,
            settings.hot * unit,
            settings.cold * unit,
            settings.weight,
        )
        with ThreadPoolExecutor(min(len(regions), self._most_threads)) as pool:
            while done < each:
                works = [
                    Work._make([table, space, *region, *sums, each, *parameters])
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
        return timetables.timetable(self.requests, starts, machines, (self._count, rounds))

    def _rounds_of(self, starts: IntArray) -> int:
        """Return the length of a memory profile for these starts, with round 0 and a spare one."""
        return int((starts + self.requests.output).max()) + 2

    def _needed_rounds(self) -> int:
        """Return the length of a memory profile in a cycle, with spare rounds at the end."""
        if self._are_optional:
            return self._most_rounds
        return int(SPARE_ROUNDS * self._rounds_of(self.starts)) + 2 * self._longest_output

    def _price_sums(self, rounds: int) -> tuple[FloatArray, FloatArray]:
        """Return the running sums of the prices lambda_r and of r lambda_r, shape (rounds,)."""
        # The first price is that of round 1.
        padded, prices = np.zeros(rounds), self.prices[: rounds - 1]
        padded[1 : len(prices) + 1] = prices
        return np.cumsum(padded), np.cumsum(padded * np.arange(rounds))

    def _regions(self, table: Timetable) -> list[tuple[int, int, IntArray, IntArray]]:
        """Cut the rounds into regions with about the same number of requests.

        A region is a tuple of its first and last round, its requests by start, and a state of
        random numbers. There is only one region if requests may be left out.
        """
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
                regions.append((first, last, order[inside[order]], state))
        return regions

    def _cost_of(self, starts: IntArray) -> float:
        """Return the cost of a schedule: infinite if a request is left out that must not be."""
        if self._are_optional:
            return float((starts < 0).sum())
        return float(self.requests.weight @ starts) if starts.min() >= 0 else np.inf


def _place_all(table: Timetable, order: IntArray, must_stop: Callable[[], bool]) -> bool:
    """Place requests in this order; return whether all were placed before ``must_stop``."""
    try:
        for part in timed_slices(len(order), must_stop):
            timetables.place(table, order[part], True)
    except StoppedEarlyError:
        return False
    return True


def improved(
    search: RuinAndRecreate, must_stop: Callable[[], bool], *, patient: bool
) -> Iterator[RuinAndRecreate]:
    """Run passes over `ON_TIME`; yield the search after each cycle that found a better schedule.

    Each pass has twice as many moves as the one before. Unless ``patient``, the search ends after
    `ROUNDS_WITHOUT_GAIN` passes without a better schedule.
    """
    share, fruitless = FIRST_MOVES, 0
    while (patient or fruitless < ROUNDS_WITHOUT_GAIN) and search.cost and not search.is_too_long:
        fruitless += 1
        for settings in ON_TIME:
            if must_stop():
                return
            cost = search.cost
            if settings.weight == 0 or search.prices.any():
                search.cycle(settings, share * len(search.starts), must_stop)
            if search.cost < cost:
                fruitless = 0
                yield search
        share = min(2 * share, MOST_MOVES)
