"""Upper bounds on instances of any size: beams over windows of the best schedule, again and again.

Each round runs one beam search (`hindsight.heuristics.beam_search`) over a window of the best
schedule so far: the requests that start before a random moment stay where they are, the next so
many are sequenced anew, and what follows keeps its order. Within the window the requests are ranked
by

* the rounds in which the volume relaxation serves them, smallest volume first while all wait,
* their starts, or the mean rounds of their memory, in the best schedule so far, or
* the expected starts of the linear relaxation, once there are any,

with some noise at times. The window may reach to the end, and in the first rounds it is everything.
Kinds of windows are drawn by what they gained for the work they took, and beams get wider while
time lasts. Now and then every request moves to the earliest start that the others leave it
(`shift_left`), which can only lower the total latency.

Deterministic: the schedule after k rounds depends on the arguments and the seed alone, except that
near a deadline beams become narrow enough to end before it.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from hindsight.bounds.idle_gaps import compress
from hindsight.bounds.volume import fill_by_volume
from hindsight.heuristics.beam_search import (
    BeamSettings,
    beam_schedule,
    memory_moments,
    most_running,
)
from hindsight.heuristics.left_shift import shift_left
from hindsight.outcomes.solve_state import SolveState
from instances import Instance, Schedule
from instances.arrays import FloatArray, IntArray

WIDTHS = (1, 4, 8, 16, 32, 64, 128, 256, 512)
ROUNDS_PER_WIDTH = 24
"""Rounds before wider beams are drawn as well."""

PATIENCE = 100
"""Rounds without a better schedule, once all widths are drawn, after which the search ends unless
it is told to be patient."""

SHIFT_EVERY = 50
"""Improved schedules are shifted left this often, in rounds; those of whole beams at once."""

LENGTHS = (50, 100, 300, 1000, None)
"""Requests in a window; None: to the end."""

CHOICES = (4, 8, 16, 32, 64)
PREFERENCES = (0.0, 0.5, 0.75, 1.0, 1.25)
EFFICIENCIES = (0.93, 0.97, 1.0, 1.03)
NOISY = 0.2
"""Share of windows whose order gets noise, of NOISE ranks."""

NOISE = 3.0

STEADY = 0.5
"""Share of windows of the plainest settings, which are the best where requests keep arriving."""

FORGOTTEN = 1e-200
"""Rates of gain so far back that dividing by them is dividing by 0."""

EXPLORING = 0.3
"""Share of rounds whose kind of window is drawn blindly."""

FIRST_ROUNDS = (
    ("volume", BeamSettings(4, 16)),
    ("start", BeamSettings(4, 16, 0.75)),
    ("volume", BeamSettings(32, 32)),
    ("start", BeamSettings(1, 32)),
)
"""Whole beams to begin with."""

AGAIN = (BeamSettings(4, 64), BeamSettings(4, 32), BeamSettings(4, 16))
"""Whole beams around the best schedule, for as long as they better it."""


WindowKind = tuple[str, int | None]
"""Ranking and number of requests."""


def volume_order_key(instance: Instance) -> FloatArray:
    """Mean round in which the volume relaxation serves each request, float64, shape (n,)."""
    filling = fill_by_volume(compress(instance).instance)
    return np.array(filling.weighted_rounds, dtype=np.float64) / instance.volumes


class LargeSearch:
    """Rounds of beam searches, feeding an `SolveState` that holds a schedule already.

    Attributes
    ----------
    rounds : int
        Beams run so far.
    """

    def __init__(self, interval: SolveState, seed: int = 0) -> None:
        self._interval = interval
        self._instance = interval.instance
        self._rng = np.random.default_rng(seed)
        self._moment = memory_moments(self._instance)[1]
        self._keys: dict[str, FloatArray] = {}
        self._kinds: list[WindowKind] = [
            (ranking, length) for ranking in ("volume", "start", "mean") for length in LENGTHS
        ]
        # Latency gained and states grown, by kind of window.
        self._gains = dict.fromkeys(self._kinds, 0.0)
        self._works = dict.fromkeys(self._kinds, 1.0)
        self._seconds_per_state = 0.0
        self._shifted = True
        self._arriving = bool(self._instance.arrival_times.any())
        self.rounds = 0

    def rank_by(self, expected_start_times: FloatArray) -> None:
        """Draw windows ranked by expected starts, shape (n,), as well."""
        self._keys["relaxation"] = np.asarray(expected_start_times, dtype=np.float64)
        for length in LENGTHS:
            kind = ("relaxation", length)
            if kind not in self._works:
                self._kinds.append(kind)
                self._gains[kind], self._works[kind] = 0.0, 1.0

    def run(self, most_rounds: int | None = None, *, patient: bool = False) -> None:
        """Go on until proof, time limit or interruption, ``most_rounds``, or nothing is found.

        ``patient`` goes on after that too, which ends only where there is a limit.
        """
        interval = self._interval
        interval.phase = "search"
        fruitless = 0
        last = None if most_rounds is None else self.rounds + most_rounds
        while not interval.is_done() and self.rounds != last:
            level = min(len(WIDTHS), 4 + self.rounds // ROUNDS_PER_WIDTH)
            if level == len(WIDTHS) and fruitless >= PATIENCE and not patient:
                break
            before = interval.upper_bound
            if self.rounds < len(FIRST_ROUNDS):
                self._whole(*FIRST_ROUNDS[self.rounds])
            else:
                self._window(WIDTHS[1:level])
            self.rounds += 1
            if self.rounds % SHIFT_EVERY == 0 and not self._shifted:
                self._offer_shifted(interval.schedule.start_times)
            fruitless = 0 if interval.upper_bound < before else fruitless + 1
        if not self._shifted:
            self._offer_shifted(interval.schedule.start_times)

    def run_whole(self) -> None:
        """Whole beams around the relaxation's order, then around the best schedule in turns.

        Where requests keep arriving these gain in seconds what windows do not in minutes.
        """
        interval = self._interval
        interval.phase = "search"
        if "relaxation" in self._keys and not interval.is_done():
            self._whole("relaxation", AGAIN[1])
        before = None
        while interval.upper_bound != before:
            before = interval.upper_bound
            for settings in AGAIN:
                if interval.is_done():
                    return
                self._whole("start", settings)

    def run_each_part_once(self) -> None:
        """Every kind of work in its smallest amount, proved or not: compiles the kernels."""
        self._whole(*FIRST_ROUNDS[0])
        self._window(WIDTHS[1:2])

    def _offer_shifted(self, starts: IntArray) -> None:
        shifted = shift_left(self._instance, starts, self._interval.must_stop)
        self._interval.offer(Schedule(self._instance, shifted))
        self._shifted = True

    def _whole(self, ranking: str, settings: BeamSettings) -> None:
        starts = self._beam(np.argsort(self._key(ranking), kind="stable"), settings, 0, None)
        if starts is not None:
            self._offer_shifted(starts)

    def _window(self, widths: tuple[int, ...]) -> None:
        interval, rng = self._interval, self._rng
        starts = interval.schedule.start_times
        n = len(starts)
        kind = self._draw_kind()
        ranking, length = kind
        by_start = np.argsort(starts, kind="stable")
        moment = rng.integers(int(starts.min()), int(starts.max()) + 1)
        first = int(np.searchsorted(starts[by_start], moment))
        stop = n if length is None else min(n, first + length)
        inside = by_start[first:stop]
        inside = inside[np.argsort(self._key(ranking)[inside], kind="stable")]
        if rng.random() < NOISY:
            ranks = np.arange(len(inside)) + rng.normal(0.0, NOISE, len(inside))
            inside = inside[np.argsort(ranks, kind="stable")]
        order = np.concatenate([by_start[:first], inside, by_start[stop:]])
        settings = BeamSettings(
            self._affordable(int(rng.choice(widths)), stop - first),
            int(rng.choice(CHOICES)),
            float(rng.choice(PREFERENCES)),
            float(rng.choice(EFFICIENCIES)),
        )
        if self._arriving and rng.random() < STEADY:
            settings = replace(settings, preference=1.0, efficiency=1.0)
        before = interval.upper_bound
        better = self._beam(order, settings, first, stop)
        if better is not None and interval.offer(Schedule(self._instance, better)):
            self._shifted = False
        self._gains[kind] = 0.9 * self._gains[kind] + (before - interval.upper_bound)
        self._works[kind] = 0.9 * self._works[kind] + settings.width * (stop - first)

    def _draw_kind(self) -> WindowKind:
        if self._rng.random() < EXPLORING or not any(self._gains.values()):
            return self._kinds[int(self._rng.integers(len(self._kinds)))]
        rates = np.array([self._gains[kind] / self._works[kind] for kind in self._kinds])
        if rates.sum() < FORGOTTEN:
            return self._kinds[int(self._rng.integers(len(self._kinds)))]
        return self._kinds[int(self._rng.choice(len(rates), p=rates / rates.sum()))]

    def _affordable(self, width: int, requests: int) -> int:
        """The width, or what of it is likely to end in half the time left."""
        left = self._interval.seconds_left()
        while width > 1 and width * requests * self._seconds_per_state > 0.5 * left:
            width //= 2
        return width

    def _key(self, ranking: str) -> FloatArray:
        if ranking == "start":
            return self._interval.schedule.start_times.astype(np.float64)
        if ranking == "mean":
            return self._interval.schedule.start_times + self._moment
        if ranking not in self._keys:
            self._keys[ranking] = volume_order_key(self._instance)
        return self._keys[ranking]

    def _beam(
        self, order: IntArray, settings: BeamSettings, first: int, stop: int | None
    ) -> IntArray | None:
        interval, instance = self._interval, self._instance
        starts = interval.schedule.start_times
        # Twice what ran at once so far: a beam that needs more gives up.
        room = 2 * most_running(instance, starts) + 64
        begun = time.perf_counter()
        found = beam_schedule(
            *(instance, order, settings, room, interval.must_stop),
            kept=starts[order[:first]] if first else None,
            until=stop,
            follow=None if stop is None else starts,
        )
        grown = settings.width * ((len(instance) if stop is None else stop) - first)
        interval.nodes += grown
        if found is not None and grown:
            self._seconds_per_state = (time.perf_counter() - begun) / grown
        return found
