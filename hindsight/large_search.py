"""Upper bounds on instances of any size: beams around the best schedule's order, again and again.

Each round runs one beam search (`hindsight.beam_search`) around one order of the requests:

* the order in which the volume relaxation serves them, smallest volume first while all wait;
* the order of starts, or of mean rounds of memory, of the best schedule so far, as it is or with
  some noise: a large neighbourhood of that schedule, since every request may move by as many ranks
  as the window has.

Then every request of the result moves to the earliest start that the others leave it
(`shift_left`), which can only lower the total latency. Settings that led to the best schedules are
tried again and varied; beams get wider while time lasts.

Deterministic: the schedule after k rounds depends on the arguments and the seed alone, except that
no beam is begun that is unlikely to end before the deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from instances import Instance, Schedule
from instances.instance import IntArray

from .annealing_kernels import earliest_fit
from .beam_kernels import FloatArray
from .beam_search import SLICE_SECONDS, BeamSettings, beam_schedule, memory_moments, most_running
from .idle_gaps import compress
from .interval import Interval
from .optional_numba import njit
from .volume_bounds import fill_by_volume

WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
ROUNDS_PER_WIDTH = 8
"""Rounds before beams get wider."""

PATIENCE = 24
"""Rounds at the largest width without a better schedule after which the search ends."""

CHOICES = (4, 8, 16, 32, 64)
PREFERENCES = (0.0, 0.5, 0.75, 1.0, 1.25)
EFFICIENCIES = (0.9, 0.95, 1.0)
NOISES = (0.0, 0.0, 0.01, 0.05)
"""Noise on an order: standard deviation in shares of the window."""

ORDERS = ("volume", "start", "mean")

LONGEST_PROFILE = 50_000_000
"""Rounds up to which schedules are shifted left."""

Choice = tuple[str, int, float, float, float]
"""Order, choices, preference, efficiency and noise."""


@dataclass(frozen=True)
class _Trial:
    latency: int
    choice: Choice


@njit
def _shift_left(
    first: int,
    last: int,
    order: IntArray,
    starts: IntArray,
    profile: IntArray,
    prompt: IntArray,
    output: IntArray,
    arrival: IntArray,
    limit: int,
) -> None:
    for position in range(first, last):
        i = order[position]
        for r in range(starts[i] + 1, starts[i] + output[i] + 1):
            profile[r] -= prompt[i] + r - starts[i]
        starts[i] = earliest_fit(profile, arrival[i], prompt[i], output[i], limit)
        for r in range(starts[i] + 1, starts[i] + output[i] + 1):
            profile[r] += prompt[i] + r - starts[i]


def shift_left(
    instance: Instance, start_times: IntArray, should_stop: Callable[[], bool]
) -> IntArray:
    """Move requests, in order of start, to the earliest start at which they fit beside all others.

    Passes go on until nothing moves. Feasible and no worse whenever it is stopped; start times are
    int64, shape (n,), of a feasible schedule.
    """
    starts = np.array(start_times, dtype=np.int64)
    makespan = Schedule(instance, starts).makespan
    if makespan > LONGEST_PROFILE:
        return starts
    profile = np.zeros(makespan + 2, dtype=np.int64)
    profile[: makespan + 1] = Schedule(instance, starts).memory_profile()
    columns = (
        instance.prompt_lengths.copy(),
        instance.output_lengths.copy(),
        instance.arrival_times.copy(),
    )
    n = len(instance)
    step = 1
    while True:
        before = int(starts.sum())
        order = np.argsort(starts, kind="stable")
        first = 0
        while first < n:
            if should_stop():
                return starts
            mark = time.perf_counter()
            last = min(n, first + step)
            _shift_left(first, last, order, starts, profile, *columns, instance.memory_limit)
            first = last
            spent = time.perf_counter() - mark
            if spent > 2 * SLICE_SECONDS:
                step = max(1, step // 2)
            elif spent < SLICE_SECONDS:
                step *= 2
        if int(starts.sum()) == before:
            return starts


def volume_order_key(instance: Instance) -> FloatArray:
    """Mean round in which the volume relaxation serves each request, float64, shape (n,)."""
    filling = fill_by_volume(compress(instance).instance)
    volume, _ = memory_moments(instance)
    return np.array(filling.weighted_rounds, dtype=np.float64) / volume


class LargeSearch:
    """Rounds of beam searches, feeding an `Interval` that holds a schedule already.

    Attributes
    ----------
    rounds : beams run so far.
    """

    def __init__(self, interval: Interval, seed: int = 0) -> None:
        self._interval = interval
        self._instance = interval.instance
        self._rng = np.random.default_rng(seed)
        self._volume_key: FloatArray | None = None
        self._moment = memory_moments(self._instance)[1]
        self._trials: list[_Trial] = []
        self._seconds_per_width = 0.0
        self.rounds = 0

    def run(self, most_rounds: int | None = None) -> None:
        """Go on until proof, time limit or interruption, ``most_rounds``, or nothing is found."""
        interval = self._interval
        interval.phase = "search"
        level = since_wider = fruitless = 0
        while not interval.is_done():
            if most_rounds is not None and self.rounds >= most_rounds:
                return
            if level == len(WIDTHS) - 1 and fruitless >= PATIENCE:
                return
            width = self._affordable(WIDTHS[level])
            better = self._round(self._next_choice(since_wider), width)
            fruitless = 0 if better else fruitless + 1
            since_wider += 1
            if since_wider >= ROUNDS_PER_WIDTH and level < len(WIDTHS) - 1:
                level, since_wider = level + 1, 0

    def run_each_part_once(self) -> None:
        """One round in its smallest amount, proved or not: compiles the kernels."""
        self._round(self._next_choice(0), 1)

    def _affordable(self, width: int) -> int:
        """The width, or what of it is likely to end in half the time left."""
        left = self._interval.seconds_left()
        while width > 1 and width * self._seconds_per_width > 0.5 * left:
            width //= 2
        return width

    def _next_choice(self, since_wider: int) -> Choice:
        first: tuple[Choice, ...] = (
            ("volume", 16, 1.0, 1.0, 0.0),
            ("start", 16, 0.75, 1.0, 0.0),
            ("mean", 16, 1.0, 1.0, 0.0),
        )
        if self.rounds < len(first):
            return first[self.rounds]
        leaders = sorted(self._trials, key=lambda trial: trial.latency)[:3]
        if not leaders:
            return self._random_choice()
        if since_wider == 0:
            return leaders[0].choice
        leader = leaders[int(self._rng.integers(len(leaders)))].choice
        draw = self._rng.random()
        if draw < 0.2:
            return self._random_choice()
        other = self._random_choice()
        varied = int(self._rng.integers(len(other)))
        mixed = list(leader)
        mixed[varied] = other[varied]
        return (mixed[0], mixed[1], mixed[2], mixed[3], mixed[4])  # type: ignore[return-value]

    def _random_choice(self) -> Choice:
        rng = self._rng
        return (
            ORDERS[int(rng.integers(len(ORDERS)))],
            CHOICES[int(rng.integers(len(CHOICES)))],
            PREFERENCES[int(rng.integers(len(PREFERENCES)))],
            EFFICIENCIES[int(rng.integers(len(EFFICIENCIES)))],
            NOISES[int(rng.integers(len(NOISES)))],
        )

    def _order(self, kind: str, noise: float) -> IntArray:
        if kind == "volume":
            if self._volume_key is None:
                self._volume_key = volume_order_key(self._instance)
            key = self._volume_key
        else:
            key = self._interval.schedule.start_times.astype(np.float64)
            if kind == "mean":
                key = key + self._moment
        order = np.argsort(key, kind="stable")
        if noise > 0.0:
            ranks = np.arange(len(order)) + self._rng.normal(0.0, noise * 256, len(order))
            order = order[np.argsort(ranks, kind="stable")]
        return order

    def _round(self, choice: Choice, width: int) -> bool:
        interval, instance = self._interval, self._instance
        kind, choices, preference, efficiency, noise = choice
        begun = time.perf_counter()
        order = self._order(kind, noise)
        # Twice what ran at once so far: a beam that needs more gives up.
        room = 2 * most_running(instance, interval.schedule.start_times) + 64
        settings = BeamSettings(width, choices, preference, efficiency)
        starts = beam_schedule(instance, order, settings, room, interval.must_stop)
        self.rounds += 1
        if starts is None:
            return False
        interval.nodes += width * len(instance)
        starts = shift_left(instance, starts, interval.must_stop)
        self._seconds_per_width = (time.perf_counter() - begun) / width
        schedule = Schedule(instance, starts)
        self._trials.append(_Trial(schedule.total_latency, choice))
        return interval.offer(schedule)
