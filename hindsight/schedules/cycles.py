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

import numpy as np

from hindsight.outcomes.problem import busy_end
from hindsight.runtime.clock import Slices, never
from instances import FleetSchedule, Instance, Schedule
from instances.arrays import FloatArray, IntArray

from . import timetables
from .moves import CycleSettings, Work, ruin_and_recreate, work_space
from .timetables import LONGEST_PROFILE, SEARCH, Timetable, first_state

IN_A_REGION = 1000
"""Least mean number of requests in a region (interval of rounds) if there are more regions than
threads. Such regions fit into the processor cache. In smaller regions, fewer moves are possible."""

LIVES_IN_A_REGION = 8
"""Least mean length of a region (interval of rounds) if threads have several regions each. Unit:
(longest output length + mean output length)."""

SPARE_ROUNDS = 1.3
"""Annealings allow SPARE_ROUNDS * (rounds of the best schedule) + 2 * (longest output) rounds."""


ON_TIME = (
    CycleSettings(6, 1.0, 0.3, 0.01),
    CycleSettings(12, 2.0, 0.15, 0.01, 0.5),
    CycleSettings(20, 10.0, 0.3, 0.01),
    CycleSettings(8, 1.0, 0.08, 0.01, 0.25),
)
"""Settings of the annealings in each pass of `improved`, in the order in which they run."""

FIRST_MOVES, MOST_MOVES = 50, 12_800
"""`FIRST_MOVES`: moves per request of the first cycle (annealing) with given settings. Each further
cycle with these settings has twice as many as the one before, but at most `MOST_MOVES`."""

ROUNDS_WITHOUT_GAIN = 3
"""`improved` ends after this many passes (annealings with all of `ON_TIME`) without a gain."""


class RuinAndRecreate:
    """Local search from the best schedule so far: moves remove some requests and put them back.

    Parameters
    ----------
    instance : Instance
        The problem, with any memory rule and number of replicas.
    seed : int, default 0
        Seed of the moves.
    threads : int, default 1
        Largest number of threads. With few requests, fewer threads are used.
    last : int64 array or None, default None
        Last allowed start of each request, in rounds, shape (n,). The search then maximizes the
        number of requests that start by it, and leaves out the others. With None it schedules all
        requests and minimizes their weighted total latency.

    Attributes
    ----------
    starts, machines : int64 array
        Start and machine of each request in the best schedule so far, shape (n,). The start of a
        request that is left out is -1.
    cost : float
        Cost of the best schedule: the sum of weight times start, or with ``last`` the number of
        requests left out. Infinite before the first schedule.
    moves : int
        Number of moves made so far by all threads.
    prices : float64 array
        Memory prices of rounds 1, 2, ..., per token and round. Empty until the caller sets them.
        Only cycles with a positive `CycleSettings.weight` use them.
    """

    slices = Slices
    moves_between_cuts = 4096
    """Number of moves in each region (interval of rounds) after which new regions are drawn. Only
    then the present schedule is compared with the best one, and saved if it is better."""

    fewest_in_a_region, fewest_lives_in_a_region = 50, 2.0
    """If each thread has one region: least mean number of requests in it, and its least mean length
    in (longest + mean output length). In smaller regions, too many requests cross a border."""

    def __init__(
        self, instance: Instance, seed: int = 0, threads: int = 1, last: IntArray | None = None
    ) -> None:
        self.requests, self._most_threads = timetables.requests_of(instance, last), threads
        self._instance = instance
        self._are_optional, n = last is not None, len(instance)
        output, arrival = instance.output_lengths, instance.arrival_times
        self._mean_output, self._longest_output = float(output.mean()), int(output.max())
        self._unit = 1.0 if last is not None else self._mean_output * float(instance.weights.mean())
        # Use at most n machines (n is the number of requests): further ones would stay empty.
        self._count = min(instance.replicas, n)
        # The memory profiles (free memory of each machine in each round) have ``_rounds`` rounds,
        # which are enough for most schedules. `place` doubles this number if needed.
        # ``_most_rounds`` is always enough: all requests can run one after another, or with
        # ``last``, none starts after its last allowed start.
        ends = busy_end(instance) if last is None else int((last + output).max())
        self._most_rounds = ends + 2
        volume = sum(instance.volumes.tolist()) // (instance.memory_limit * instance.replicas)
        # If requests may be left out, give the memory profiles more rounds: a request that finds no
        # start at which it ends within these rounds is left out, and the number of rounds is not
        # doubled.
        rounds = int(arrival.max()) + (2 if last is None else 4) * (volume + self._longest_output)
        self._rounds = min(self._most_rounds, rounds + 2)
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
        """Return whether a cycle (annealing) from the best schedule would need too much memory.

        This is so if the memory profiles of the cycle, with an entry for each machine and round,
        would have more than `LONGEST_PROFILE` entries.
        """
        return self._count * self._needed_rounds() > LONGEST_PROFILE

    def offer(self, starts: IntArray, machines: IntArray | None = None) -> bool:
        """Replace the best schedule by another feasible one if that has a lower cost.

        ``machines`` None places all requests on machine 0. Return whether the offered schedule is
        now the best one or has the same cost.
        """
        cost = self._cost_of(starts)
        if cost < self.cost:
            self.starts, self.cost = starts.copy(), cost
            self.machines = np.zeros_like(starts) if machines is None else machines.copy()
        return cost == self.cost

    def place(
        self, order: IntArray, must_stop: Callable[[], bool] = never, mode: int = SEARCH
    ) -> bool:
        """Build a schedule and offer it: each request in ``order`` takes the first start that fits.

        With the mode `IN_TURN` of `hindsight.schedules.timetables.place`, no request starts earlier
        than its predecessor in ``order``, which is faster. Return whether the cost of the schedule
        equals the cost of the best one after the call. Return False without an offer if the stop
        callback ``must_stop`` returned True before all requests were placed, or if the memory
        profiles would have more than `LONGEST_PROFILE` entries.
        """
        while self._count * self._rounds <= LONGEST_PROFILE:
            none = np.full(len(order), -1, np.int64)
            table = self._table(none, np.zeros_like(none), self._rounds)
            if not timetables.place_all(table, order, must_stop, mode):
                return False
            if self._are_optional or table.starts.min() >= 0:
                return self.offer(table.starts, table.machines)
            # Some request found no start at which it ends within `_rounds`, the number of rounds of
            # the memory profiles. Double this number.
            self._rounds = min(self._most_rounds, 2 * self._rounds)
        return False

    def shift_left(
        self, starts: IntArray, machines: IntArray, must_stop: Callable[[], bool]
    ) -> tuple[IntArray, IntArray]:
        """Move each request, in order of start, to the first start that fits with all others.

        Repeat until no request moves or the stop callback ``must_stop`` returns True. The schedule
        stays feasible, and its cost never rises. Return its starts and machines. If its memory
        profiles (free memory of each machine in each round) would have more than `LONGEST_PROFILE`
        entries, return it unchanged.
        """
        rounds = self._rounds_of(starts)
        if self._count * rounds > LONGEST_PROFILE:
            return starts, machines
        table, is_moved = self._table(starts, machines, rounds), True
        while is_moved and not must_stop():
            before = table.starts.copy()
            order = np.argsort(np.where(before < 0, rounds, before), kind="stable")
            is_placed = timetables.place_all(table, order, must_stop, SEARCH)
            is_moved = is_placed and bool((table.starts != before).any())
        return table.starts, table.machines

    def cycle(self, settings: CycleSettings, moves: int, must_stop: Callable[[], bool]) -> bool:
        """Anneal from the best schedule, and replace it by a better one.

        The present schedule is compared with the best one after every `moves_between_cuts` moves in
        each region (interval of rounds).

        Parameters
        ----------
        settings : CycleSettings
            Parameters of the annealing and its moves.
        moves : int
            Number of moves of all threads together. Each region makes an equal part, rounded up.
        must_stop : Callable[[], bool]
            Stop callback, called a few times a second. Once it returns True, the annealing ends
            early, and the best schedule so far is kept.

        Returns
        -------
        bool
            Whether all moves were made. It is False if ``must_stop`` returned True, or if no moves
            were possible because `is_too_long` is True.
        """
        if self.is_too_long:
            return False
        rounds = self._needed_rounds()
        table, cost = self._table(self.starts, self.machines, rounds), self.cost
        sums, regions = self._price_sums(rounds), self._regions(table)
        done, slices = 0, self.slices()
        each = -(-moves // len(regions))
        spaces = [work_space(settings.most, len(self.starts)) for _ in self._states]
        scaled = settings._replace(
            reach=max(2.0, settings.reach * self._mean_output),
            hot=settings.hot * self._unit,
            cold=settings.cold * self._unit,
        )
        with ThreadPoolExecutor(min(len(regions), self._most_threads)) as pool:
            while done < each:
                works = [
                    Work(table, space, *region, *sums, each, scaled)
                    for region, space in zip(regions, spaces, strict=False)
                ]
                until = min(each, done + self.moves_between_cuts)
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
        profiles = timetables.empty_profiles(self._instance, (self._count, rounds))
        return timetables.timetable(self.requests, starts, machines, profiles)

    def _rounds_of(self, starts: IntArray) -> int:
        """Return 2 + the last round in which a request runs: the number of rounds in a profile.

        A memory profile has entries for the rounds 0 .. (last round) + 1. ``starts`` has the
        start of each request, or -1 if it is left out.
        """
        return int((starts + self.requests.output).max()) + 2

    def _needed_rounds(self) -> int:
        """Return the number of rounds in the memory profiles of a cycle (annealing).

        A memory profile has the free memory of a machine in each round. If all requests must be
        scheduled, this includes spare rounds after the end of the best schedule.
        """
        if self._are_optional:
            return self._most_rounds
        return int(SPARE_ROUNDS * self._rounds_of(self.starts)) + 2 * self._longest_output

    def _price_sums(self, rounds: int) -> tuple[FloatArray, FloatArray]:
        """Return the running sums of lambda_r and of r lambda_r, each of shape (rounds,).

        lambda_r is the price of a token of memory in round r. Entry R of an array is the sum over
        the rounds r <= R. A request with prompt length s and start t holds s - t + r tokens in each
        round r = t + 1 .. e of its run. With A and B the two arrays, the price of its memory in the
        whole run is (s - t) (A[e] - A[t]) + B[e] - B[t].
        """
        # The first entry of ``prices`` is the memory price of round 1. Round 0 has price 0.
        padded, prices = np.zeros(rounds), self.prices[: rounds - 1]
        padded[1 : len(prices) + 1] = prices
        return np.cumsum(padded), np.cumsum(padded * np.arange(rounds))

    def _regions(self, table: Timetable) -> list[tuple[int, int, IntArray, IntArray]]:
        """Cut the rounds at random into regions with about the same number of requests.

        A region is an interval of rounds in which one thread makes moves. The result has, for each
        region, its first and last round, the requests that run entirely inside it, sorted by start,
        and the state of the random numbers of its moves. If requests may be left out of the
        schedule, there is only one region, with all requests.
        """
        starts, (_, rounds) = table.starts, table.profiles.shape
        lives = self._rounds_of(self.starts) / (self._longest_output + self._mean_output)
        most = len(starts) // self.fewest_in_a_region
        fewest = min(most, int(lives / self.fewest_lives_in_a_region))
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
        """Return the cost of a schedule with these starts.

        If requests may be left out of the schedule, the cost is the number of requests left out
        (start -1). Otherwise it is the sum of weight times start, or infinite if a start is -1.
        """
        if self._are_optional:
            return float((starts < 0).sum())
        return float(self.requests.weight @ starts) if starts.min() >= 0 else np.inf


def improved(
    search: RuinAndRecreate, must_stop: Callable[[], bool], *, patient: bool
) -> Iterator[RuinAndRecreate]:
    """Maximize the number of requests on time; yield ``search`` after each better schedule.

    A pass runs one cycle (annealing) with each of the settings `ON_TIME`. Each pass makes twice as
    many moves as the one before, up to `MOST_MOVES` per request and cycle. The search ends once
    ``must_stop`` returns True or no request is left out. Unless ``patient``, it also ends after
    `ROUNDS_WITHOUT_GAIN` consecutive passes without a better schedule.
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
