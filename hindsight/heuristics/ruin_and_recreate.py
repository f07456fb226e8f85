"""Upper bounds at any size: ruin and recreate, annealed in cycles.

Sources: ruin and recreate follows Schrimpf, Schneider, Stamm-Wilbrandt and Dueck (2000), and
skipping places that fit ("blinks") follows Christiaens and Vanden Berghe (2020);
`hindsight.heuristics.ruin_and_recreate_kernels` describes the moves.

Threads share one schedule: the rounds are cut into regions, at least one per thread. Moves in a
region change only requests that live in it. The cuts move after every few thousand moves.

Deterministic: the schedule after a cycle depends on the arguments, the number of moves and the
number of threads alone.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from hindsight.outcomes.proofs import MemoryPrices
from hindsight.runtime.clock import Slices
from instances import Instance
from instances.arrays import IntArray

from .ruin_and_recreate_kernels import (
    Moves,
    PriceSums,
    Region,
    StartBuckets,
    Timetable,
    fill,
    ruin_and_recreate,
)

BUCKETS_PER_OUTPUT = 20
"""Number of buckets in the mean output length."""

MOVES_BETWEEN_CUTS = 4096
"""Moves of each thread before the rounds are cut again and the best schedule is saved."""

FEWEST_IN_A_REGION = 50
FEWEST_LIVES_IN_A_REGION = 2
"""Requests, and rounds in longest output lengths, that one more thread needs to be a gain: requests
that live across a cut stay where they are until the cuts move."""

IN_A_REGION = 1000
LIVES_IN_A_REGION = 8
"""Least requests of a region, and least rounds in longest output lengths: small regions keep the
data of moves in the processor's cache, and large ones leave requests room to move."""

SPARE_ROUNDS = 1.3
"""Most rounds of a schedule, as a multiple of those of the first schedule."""

MOST_ROUNDS = 20_000_000
"""Most rounds for which cycles run: a move costs the rounds of the requests it touches, and each
round takes three numbers."""


@dataclass(frozen=True)
class CycleSettings:
    """Parameters of one kind of cycle; lengths and temperatures are in mean output lengths.

    Temperatures also scale with the mean weight.

    Attributes
    ----------
    most : int
        Most requests removed at once.
    reach : float
        Requests are removed that start within this distance of a random moment.
    weight : float
        Initial weight of memory prices. A cycle with a weight above 0 is skipped without prices.
    hot, cold : float
        First and last temperature.
    priced_until : float
        Share of the cycle after which prices have no weight.
    blink : float
        Probability that the search for a start passes over one that fits.
    second : float
        Probability that a request is also tried at its next start that fits.
    """

    most: int = 8
    reach: float = 1.0
    weight: float = 0.0
    hot: float = 0.1
    cold: float = 0.003
    priced_until: float = 0.8
    blink: float = 0.01
    second: float = 0.3


class RuinAndRecreate:
    """Ruin and recreate on one schedule, with the best schedule found.

    Parameters
    ----------
    instance : Instance
        The problem.
    start_times : int64 array
        A feasible schedule, shape (n,).
    seed : int, default 0
        Seed of the moves.
    threads : int, default 1
        Most threads; fewer are used if requests are few.

    Attributes
    ----------
    best_starts : int64 array
        The best schedule so far, shape (n,).
    best_cost : int
        Its total latency, rounds.
    moves : int
        Moves made so far by all threads.
    """

    def __init__(
        self, instance: Instance, start_times: IntArray, seed: int = 0, threads: int = 1
    ) -> None:
        self._requests, self._weights = instance.columns, instance.weights
        self._mean_output = float(instance.output_lengths.mean())
        self._rounds = 0
        self._random = np.random.default_rng(seed)
        self._prices = np.zeros(0)
        longest = int(instance.output_lengths.max()) + int(self._mean_output)
        latest = int((np.asarray(start_times) + instance.output_lengths).max())
        lives = latest / longest
        most = min(len(instance) // FEWEST_IN_A_REGION, int(lives / FEWEST_LIVES_IN_A_REGION))
        self._threads = max(1, min(threads, most))
        near = min(len(instance) // IN_A_REGION, int(lives / LIVES_IN_A_REGION))
        self._states = [
            np.array([self._random.integers(1, 1 << 32)], np.int64)
            for _ in range(max(self._threads, near))
        ]
        self.moves = 0
        self.best_starts = np.array(start_times, dtype=np.int64)
        self.best_cost = self._total_latency(self.best_starts)

    def use_prices(self, prices: MemoryPrices) -> None:
        """Let cycles with a weight follow these prices of rounds 1, 2, ..."""
        self._prices = prices.as_floats()
        self._rounds = 0

    @property
    def has_prices(self) -> bool:
        """Tell whether there are prices that cycles can follow."""
        return bool(self._prices.any())

    @property
    def is_too_long(self) -> bool:
        """Tell whether the best schedule has too many rounds for cycles."""
        return self._rounds_of_best() > MOST_ROUNDS

    def offer(self, start_times: IntArray) -> None:
        """Continue from another feasible schedule, shape (n,), if it is better."""
        cost = self._total_latency(start_times)
        if cost < self.best_cost:
            self.best_starts, self.best_cost = start_times.copy(), cost

    def cycle(self, settings: CycleSettings, moves: int, must_stop: Callable[[], bool]) -> bool:
        """Anneal from the best schedule, and save the best one seen between cuts.

        Parameters
        ----------
        settings : CycleSettings
            Parameters of the moves.
        moves : int
            Number of moves of all threads together.
        must_stop : Callable[[], bool]
            Polled a few times a second.

        Returns
        -------
        bool
            Whether all moves were made.
        """
        if self.is_too_long:
            return False
        self._begin()
        scale, mean_weight = self._mean_output, float(self._weights.mean())
        each = -(-moves // len(self._states))
        plan = Moves(
            total=each,
            hot=settings.hot * scale * mean_weight,
            cold=settings.cold * scale * mean_weight,
            most=min(settings.most, max(2, len(self.best_starts))),
            reach=min(max(2.0, settings.reach * scale), self._rounds),
            weight=settings.weight,
            priced_until=settings.priced_until,
            blink=settings.blink,
            second=settings.second,
        )
        with ThreadPoolExecutor(self._threads) as pool:
            done, slices = 0, Slices()
            while done < each:
                regions = self._regions()
                until = min(each, done + MOVES_BETWEEN_CUTS)
                while done < until and not must_stop():
                    with slices.next(until - done) as length:
                        span = (done, done + length)
                        self._cost += sum(pool.map(partial(self._move, plan, span), regions))
                    done += length
                    self.moves += length * len(regions)
                if self._cost < self.best_cost:
                    self.best_starts, self.best_cost = self._starts.copy(), self._cost
                if done < until:
                    return False
        return True

    def _move(self, plan: Moves, span: tuple[int, int], region: Region) -> int:
        first, last = span
        return ruin_and_recreate(
            self._requests, self._sums, region, plan, first, last, self._timetable
        )

    @property
    def _starts(self) -> IntArray:
        return self._timetable.starts

    def _rounds_of_best(self) -> int:
        return int((self.best_starts + self._requests.output_lengths).max()) + 1

    def _begin(self) -> None:
        """Write the best schedule into buckets and profile, with spare rounds behind it."""
        self._cost = self.best_cost
        needed = self._rounds_of_best()
        if needed > self._rounds:
            longest = int(self._requests.output_lengths.max())
            self._rounds = rounds = int(SPARE_ROUNDS * needed) + 2 * longest
            padded = np.zeros(rounds)
            known = self._prices[: rounds - 1]
            padded[1 : len(known) + 1] = known
            weighted_sums = np.cumsum(padded * np.arange(rounds))
            self._sums = PriceSums(np.cumsum(padded), weighted_sums, self._weights)
        width = max(1, int(self._mean_output / BUCKETS_PER_OUTPUT))
        starts = self.best_starts.copy()
        heads = np.full(self._rounds // width + 1, -1, np.int64)
        following, preceding = np.full((2, len(starts)), -1, np.int64)
        buckets = StartBuckets(width, heads, following, preceding)
        self._timetable = Timetable(starts, buckets, np.zeros(self._rounds, np.int64))
        fill(self._requests, self._timetable)

    def _regions(self) -> list[Region]:
        """Cut the rounds, about evenly by requests, so that regions share no bucket."""
        width = self._timetable.buckets.width
        count = len(self._states)
        order = np.argsort(self._starts, kind="stable")
        shares = (np.arange(1, count) + self._random.uniform(-0.25, 0.25, count - 1)) / count
        cuts = self._starts[order[(shares * len(order)).astype(np.int64)]] // width * width
        ends = [0, *cuts.tolist(), self._rounds - 1]
        begins = np.searchsorted(self._starts[order], ends)
        completions = self._starts + self._requests.output_lengths
        regions = []
        for k, state in enumerate(self._states):
            first, last = ends[k], ends[k + 1]
            inside = np.sort(order[begins[k] : begins[k + 1]])
            inside = inside[completions[inside] <= last]
            if len(inside):
                regions.append(Region(first, last, inside, state))
        return regions

    def _total_latency(self, starts: IntArray) -> int:
        _, output, arrival, _ = self._requests
        return int(self._weights @ (starts + output - arrival))
