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

from dataclasses import dataclass, replace
from typing import ClassVar

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
from hindsight.outcomes.results import Objective
from hindsight.outcomes.solve_state import SolveState
from hindsight.relaxation.scale import ScaleRelaxation
from hindsight.runtime.clock import Clock
from instances import Instance, InvalidTypeError, InvalidValueError, Schedule
from instances.arrays import FloatArray, IntArray
from instances.validation import check_ranges, ranged

from .strategy import Problem

FORGOTTEN = 1e-200
"""Rates of gain so far back that dividing by them is dividing by 0."""

RANKINGS = ("volume", "start", "mean")
"""Those that need no relaxation."""

WindowKind = tuple[str, int | None]
"""Ranking and number of requests."""


def volume_order_key(instance: Instance) -> FloatArray:
    """Mean round in which the volume relaxation serves each request, float64, shape (n,)."""
    filling = fill_by_volume(compress(instance).instance)
    return np.array(filling.weighted_rounds, dtype=np.float64) / instance.volumes


@dataclass(frozen=True)
class Beams:
    """Beam searches around the best order so far, and the relaxation at scale for a bound.

    Attributes
    ----------
    widths : tuple[int, ...], default 1 to 512
        Partial schedules kept by a beam; wider ones are drawn as time goes by.
    rounds_per_width : int, default 24
        Rounds before the next width is drawn as well.
    patience : int, default 100
        Rounds without a better schedule, once all widths are drawn, after which the search ends
        unless it is told to be patient.
    shift_every : int, default 50
        Improved schedules are shifted left this often, in rounds; those of whole beams at once.
    lengths : tuple[int or None, ...], default (50, 100, 300, 1000, None)
        Requests in a window; None: to the end.
    choices, preferences, efficiencies : tuple
        Drawn from for each window; fields of `BeamSettings`.
    noisy : float, default 0.2
        Share of windows whose order gets noise.
    noise : float, default 3.0
        Its standard deviation, ranks.
    steady : float, default 0.5
        Share of windows of the plainest settings, the best where requests keep arriving.
    exploring : float, default 0.3
        Share of rounds whose kind of window is drawn blindly.
    first_rounds : tuple[tuple[str, BeamSettings], ...]
        Whole beams to begin with, by ranking.
    again : tuple[BeamSettings, ...]
        Whole beams around the best schedule, for as long as they better it; the second of them is
        also that around the relaxation's order.
    relaxation_share : float, default 0.3
        Share of the time left that the relaxation may take before the beams go on.
    relaxation_tolerance : float, default 1e-3
        Relative gap at which it ends.
    """

    widths: tuple[int, ...] = ranged((1, 4, 8, 16, 32, 64, 128, 256, 512), items=2, minimum=1)
    rounds_per_width: int = ranged(24, minimum=1)
    patience: int = ranged(100, minimum=1)
    shift_every: int = ranged(50, minimum=1)
    lengths: tuple[int | None, ...] = ranged((50, 100, 300, 1000, None), minimum=1)
    choices: tuple[int, ...] = ranged((4, 8, 16, 32, 64), minimum=1)
    preferences: tuple[float, ...] = ranged((0.0, 0.5, 0.75, 1.0, 1.25), minimum=0)
    efficiencies: tuple[float, ...] = ranged((0.93, 0.97, 1.0, 1.03), above=0)
    noisy: float = ranged(0.2, minimum=0, maximum=1)
    noise: float = ranged(3.0, minimum=0)
    steady: float = ranged(0.5, minimum=0, maximum=1)
    exploring: float = ranged(0.3, minimum=0, maximum=1)
    first_rounds: tuple[tuple[str, BeamSettings], ...] = (
        ("volume", BeamSettings(4, 16)),
        ("start", BeamSettings(4, 16, 0.75)),
        ("volume", BeamSettings(32, 32)),
        ("start", BeamSettings(1, 32)),
    )
    again: tuple[BeamSettings, ...] = (
        BeamSettings(4, 64),
        BeamSettings(4, 32),
        BeamSettings(4, 16),
    )
    relaxation_share: float = ranged(0.3, above=0, maximum=1)
    relaxation_tolerance: float = ranged(1e-3, above=0)

    name: ClassVar[str] = "beams"
    objectives: ClassVar[tuple[Objective, ...]] = ("total_latency",)

    def __post_init__(self) -> None:
        check_ranges(self)
        if len(self.again) < 2:
            raise InvalidValueError("Beams", "again", self.again, "has fewer than 2 items")
        for settings in (*self.again, *(settings for _, settings in self.first_rounds)):
            if not isinstance(settings, BeamSettings):
                raise InvalidTypeError("Beams", "again", settings, "is not BeamSettings")
        for ranking, _ in self.first_rounds:
            if ranking not in RANKINGS:
                reason = f"is not one of {', '.join(RANKINGS)}"
                raise InvalidValueError("Beams", "first_rounds", ranking, reason)

    def refusal(self, problem: Problem) -> None:
        """Nothing is refused."""

    def run(self, problem: Problem, state: SolveState) -> None:
        """Beams, with the relaxation for a bound and a further order after the first of them.

        They take turns for as long as the relaxation was broken off; then beams have what is left
        of the time limit. Without one the relaxation ends by itself, and so do the beams.
        """
        if state.root_bound is None:
            prices = problem.first_bounds.price_bound
            state.root_bound, state.proof = prices.bound, prices.prices
        search = LargeSearch(state, problem.seed, self)
        search.run(len(self.first_rounds))
        relaxation: ScaleRelaxation | None = None
        while not state.is_done():
            state.phase = "relaxation"
            relaxation = relaxation or ScaleRelaxation(
                state.instance,
                horizon=None,
                tolerance=self.relaxation_tolerance,
                threads=problem.threads,
                progress=lambda line: state.raise_lower(line.lower_bound, certified=True),
                clock=Clock(should_stop=state.clock.must_stop),
            )
            left = state.clock.limit_left()
            relaxation.clock.allow(None if left is None else self.relaxation_share * left)
            relaxation.go_on()
            relaxed = relaxation.result()
            state.raise_lower(relaxed.certified_bound, certified=True)
            if state.root_bound is None or relaxed.certified_bound > state.root_bound:
                state.root_bound, state.proof = relaxed.certified_bound, relaxed.memory_prices
            search.rank_by(relaxed.expected_start_times)
            search.run_whole()
            is_last = relaxed.stop_reason != "time-limit"
            search.run(patient=is_last and left is not None)
            if is_last:
                break
        state.note_stop()


class LargeSearch:
    """Rounds of beam searches, feeding a `SolveState` that holds a schedule already.

    Attributes
    ----------
    rounds : int
        Beams run so far.
    """

    def __init__(
        self, interval: SolveState, seed: int = 0, parameters: Beams | None = None
    ) -> None:
        self._interval = interval
        self._parameters = parameters or Beams()
        self._instance = interval.instance
        self._rng = np.random.default_rng(seed)
        self._moment = memory_moments(self._instance)[1]
        self._keys: dict[str, FloatArray] = {}
        self._kinds: list[WindowKind] = [
            (ranking, length) for ranking in RANKINGS for length in self._parameters.lengths
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
        for length in self._parameters.lengths:
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
            level = min(
                len(self._parameters.widths), 4 + self.rounds // self._parameters.rounds_per_width
            )
            if (
                level == len(self._parameters.widths)
                and fruitless >= self._parameters.patience
                and not patient
            ):
                break
            before = interval.upper_bound
            if self.rounds < len(self._parameters.first_rounds):
                self._whole(*self._parameters.first_rounds[self.rounds])
            else:
                self._window(self._parameters.widths[1:level])
            self.rounds += 1
            if self.rounds % self._parameters.shift_every == 0 and not self._shifted:
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
            self._whole("relaxation", self._parameters.again[1])
        before = None
        while interval.upper_bound != before:
            before = interval.upper_bound
            for settings in self._parameters.again:
                if interval.is_done():
                    return
                self._whole("start", settings)

    def run_each_part_once(self) -> None:
        """Every kind of work in its smallest amount, proved or not: compiles the kernels."""
        self._whole(*self._parameters.first_rounds[0])
        self._window(self._parameters.widths[1:2])

    def _offer_shifted(self, starts: IntArray) -> None:
        shifted = shift_left(self._instance, starts, self._interval.clock.must_stop)
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
        if rng.random() < self._parameters.noisy:
            ranks = np.arange(len(inside)) + rng.normal(0.0, self._parameters.noise, len(inside))
            inside = inside[np.argsort(ranks, kind="stable")]
        order = np.concatenate([by_start[:first], inside, by_start[stop:]])
        settings = BeamSettings(
            self._affordable(int(rng.choice(widths)), stop - first),
            int(rng.choice(self._parameters.choices)),
            float(rng.choice(self._parameters.preferences)),
            float(rng.choice(self._parameters.efficiencies)),
        )
        if self._arriving and rng.random() < self._parameters.steady:
            settings = replace(settings, preference=1.0, efficiency=1.0)
        before = interval.upper_bound
        better = self._beam(order, settings, first, stop)
        if better is not None and interval.offer(Schedule(self._instance, better)):
            self._shifted = False
        self._gains[kind] = 0.9 * self._gains[kind] + (before - interval.upper_bound)
        self._works[kind] = 0.9 * self._works[kind] + settings.width * (stop - first)

    def _draw_kind(self) -> WindowKind:
        if self._rng.random() < self._parameters.exploring or not any(self._gains.values()):
            return self._kinds[int(self._rng.integers(len(self._kinds)))]
        rates = np.array([self._gains[kind] / self._works[kind] for kind in self._kinds])
        if rates.sum() < FORGOTTEN:
            return self._kinds[int(self._rng.integers(len(self._kinds)))]
        return self._kinds[int(self._rng.choice(len(rates), p=rates / rates.sum()))]

    def _affordable(self, width: int, requests: int) -> int:
        """The width, or what of it is likely to end in half the time left."""
        left = self._interval.clock.seconds_left()
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
        begun = interval.clock.seconds()
        found = beam_schedule(
            *(instance, order, settings, room, interval.clock.must_stop),
            kept=starts[order[:first]] if first else None,
            until=stop,
            follow=None if stop is None else starts,
        )
        grown = settings.width * ((len(instance) if stop is None else stop) - first)
        interval.nodes += grown
        if found is not None and grown:
            self._seconds_per_state = (interval.clock.seconds() - begun) / grown
        return found
