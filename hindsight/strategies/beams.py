"""Upper bounds on instances of any size: beams, and ruin and recreate, while time lasts.

Whole beams (`hindsight.heuristics.beam_search`) build schedules in order of

* the rounds in which the volume relaxation serves the requests, smallest volume first while all
  wait,
* their starts in the best schedule so far, and
* the expected starts of the linear relaxation, once there are any.

Further beams keep the best schedule up to a random round and plan the rest anew. So they fill the
end, where requests are large and pack badly, while every earlier gain moves all that follows.
Cycles of ruin and recreate (`hindsight.heuristics.ruin_and_recreate`) take turns with them; some
follow the memory prices of the relaxation. A third kind anneals the order in which requests are
placed (`hindsight.heuristics.order_annealing`). The kinds are drawn by what they gained for the
moves they took, and cycles get longer while time lasts. Now and then every
request moves to the earliest start that the others leave it (`shift_left`), which can only lower
the total latency.

Deterministic: the schedule after k rounds depends on the arguments, the seed, the number of threads
and the relaxations' answers alone, except that near a deadline the last cycle is short enough to
end before it. Under a time limit the clock may break the relaxations off.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hindsight.heuristics.beam_search import BeamSettings, beam_schedule, most_running
from hindsight.heuristics.order_annealing import annealed_order
from hindsight.heuristics.ruin_and_recreate import CycleSettings, RuinAndRecreate
from hindsight.heuristics.schedule_decoder import shift_left
from hindsight.interval import Interval
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.prices.idle_gaps import compress
from hindsight.prices.token_relaxation import TokenRelaxation
from hindsight.prices.volume import fill_by_volume
from hindsight.result import MEMORY_PRICES
from hindsight.runtime.clock import Clock, never
from instances import Instance, Schedule
from instances.arrays import FloatArray, IntArray

from .strategy import Problem, Strategy

RANKINGS = ("volume", "start")
"""Cycles that need no relaxation."""

NOISY, NOISE = 0.5, 3.0
"""Share of tails whose order gets noise, and its standard deviation in ranks."""

ORDER_HEAT, ORDER_COLD = (0.03, 0.3), 0.01
"""Range of the first temperatures of an annealing of the order, and the last one, in mean output
lengths."""

FEWEST_ORDERED = 3
"""Least requests whose order is annealed."""

PLACED_PER_MOVE = 30
"""Requests that an annealing of the order places in the time of a move of ruin and recreate."""

ORDER_MOVES = 8
"""Moves of ruin and recreate in the time of a move of the order."""


def volume_order_key(instance: Instance) -> FloatArray:
    """Return the mean round in which the volume relaxation serves each request, shape (n,)."""
    filling = fill_by_volume(compress(instance).instance)
    return np.array(filling.weighted_rounds, dtype=np.float64) / instance.volumes


@dataclass(frozen=True)
class Beams(Strategy):
    """Beam searches around the best order so far, with the relaxation at scale for a bound.

    Attributes
    ----------
    cycles : tuple[CycleSettings, ...]
        The kinds of cycles.
    first_moves, most_moves : int
        Moves per request of the first cycle of each kind, and of the longest; each cycle has twice
        as many as the one before.
    patience : int, default 6
        Cycles of the longest kind without a better schedule after which the search ends, unless it
        is run as patient.
    exploring : float, default 0.2
        Share of cycles whose kind is chosen at random.
    first_rounds : tuple[tuple[str, BeamSettings], ...]
        Initial whole beams, by ranking.
    guided : tuple[BeamSettings, ...]
        Whole beams around the relaxation's order.
    again : tuple[BeamSettings, ...]
        Whole beams around the best schedule, repeated as long as they improve it.
    tails : tuple[BeamSettings, ...]
        Beams that keep the best schedule up to a random round, drawn with equal probability.
    first_tails : int, default 50
        Partial schedules per request that such beams grow before the relaxation, and again after
        its whole beams for as long as they find a better schedule.
    relaxation_share : float, default 0.25
        Share of the time left that the relaxation may use before the beams continue.
    relaxation_tolerance : float, default 1e-3
        Relative gap at which the relaxation ends.
    """

    cycles: tuple[CycleSettings, ...] = (
        CycleSettings(6, 1.0, 1.0),
        CycleSettings(40, 10.0, 0.0, hot=0.3, cold=0.02, blink=0.0, second=0.0),
        CycleSettings(20, 10.0, 0.0, hot=0.05, cold=0.01, blink=0.0, second=0.0),
        CycleSettings(12, 2.0, 1.0, hot=0.03),
        CycleSettings(8, 1.0, 0.0, hot=0.03),
    )
    first_moves: int = 50
    most_moves: int = 12_800
    patience: int = 6
    exploring: float = 0.2
    first_rounds: tuple[tuple[str, BeamSettings], ...] = (
        ("volume", BeamSettings(4, 16)),
        ("start", BeamSettings(4, 16, 0.75)),
        ("volume", BeamSettings(32, 32)),
        ("start", BeamSettings(1, 32)),
    )
    guided: tuple[BeamSettings, ...] = (
        BeamSettings(4, 32),
        BeamSettings(32, 16),
        BeamSettings(128, 16),
    )
    again: tuple[BeamSettings, ...] = (
        BeamSettings(4, 64),
        BeamSettings(4, 32),
        BeamSettings(4, 16),
    )
    tails: tuple[BeamSettings, ...] = tuple(
        BeamSettings(width, choices, preference, efficiency)
        for width in (4, 8, 16, 32, 64)
        for choices in (8, 16, 32)
        for preference in (0.0, 0.5, 0.75, 1.0)
        for efficiency in (0.93, 0.97, 1.0)
    )
    first_tails: int = 50
    relaxation_share: float = 0.25
    relaxation_tolerance: float = 1e-3

    name: ClassVar[str] = "beams"

    def run(self, problem: Problem, state: Interval) -> None:
        """Run beams, with the relaxation for a bound and a further order after the first beams.

        They alternate as long as the relaxation is interrupted; then beams use the rest of the time
        limit. Without a limit the relaxation ends by itself, and so do the beams.
        """
        if state.root_bound is None:
            prices = problem.first_bounds.price_bound
            state.root_bound, state.proof = prices.bound, prices.prices
        if state.is_done():
            return
        search = LargeSearch(state, problem.seed, self, problem.cores)
        search.run_first()
        relaxation: TokenRelaxation | None = None
        while not state.is_done():
            relaxation = relaxation or TokenRelaxation(
                state.problem,
                tolerance=self.relaxation_tolerance,
                progress=lambda line: state.prove(line.lower_bound, MEMORY_PRICES),
                clock=Clock(should_stop=state.clock.must_stop),
            )
            state.phase = "relaxation"
            left = state.clock.limit_left()
            relaxation.clock.allow(None if left is None else self.relaxation_share * left)
            relaxation.go_on()
            relaxed = relaxation.result()
            state.prove(relaxed.certified_bound, MEMORY_PRICES, proof=relaxed.memory_prices)
            search.follow(relaxed.expected_start_times, relaxed.memory_prices)
            search.run_whole()
            is_last = relaxed.stop_reason != "time-limit"
            search.run(patient=is_last and left is not None)
            if is_last:
                break
        state.note_stop()


class LargeSearch:
    """Beams and cycles of ruin and recreate that improve a `Interval` with a schedule.

    Parameters
    ----------
    interval : Interval
        State of the solve.
    seed : int, default 0
        Seed of every random choice.
    parameters : Beams or None, default None
        Parameters of the strategy; None uses its defaults.
    threads : int, default 1
        Threads of the cycles.

    Attributes
    ----------
    rounds : int
        Number of beams and cycles run so far.
    """

    def __init__(
        self,
        interval: Interval,
        seed: int = 0,
        parameters: Beams | None = None,
        threads: int = 1,
    ) -> None:
        self._interval = interval
        self._parameters = parameters or Beams()
        self._instance = interval.problem
        self._threads = threads
        self._rng = np.random.default_rng(seed)
        self._keys: dict[str, FloatArray] = {}
        self._search = RuinAndRecreate(self._instance, interval.schedule.start_times, seed, threads)
        # Cycles of each kind, tails and annealings of the order, with the latency gained and the
        # moves used; older ones count less.
        kinds = len(self._parameters.cycles) + 2
        self._times = [0] * kinds
        self._gains, self._works = np.zeros(kinds), np.ones(kinds)
        self._seconds_per_move = 0.0
        self.rounds = 0

    def follow(self, expected_start_times: FloatArray, prices: MemoryPrices) -> None:
        """Also rank by expected starts, shape (n,), and let cycles follow memory prices."""
        self._keys["relaxation"] = np.asarray(expected_start_times, dtype=np.float64)
        self._search.use_prices(prices)

    @property
    def is_guided(self) -> bool:
        """Tell whether it follows a relaxation."""
        return "relaxation" in self._keys

    def run_first(self) -> None:
        """Run beams that need no relaxation: whole ones, then tails."""
        self._interval.phase = "search"
        for ranking, settings in self._parameters.first_rounds:
            self._whole(self._key(ranking), settings)
        self._run_first_tails()

    def run(self, most_rounds: int | None = None, *, patient: bool = False) -> None:
        """Run cycles and tails until proof, limit, interruption, ``most_rounds`` or no gain.

        With ``patient`` it continues without gain, so it ends only if there is a limit. Schedules
        of too many rounds have no cycles.
        """
        interval, parameters = self._interval, self._parameters
        interval.phase = "search"
        fruitless = 0
        last = None if most_rounds is None else self.rounds + most_rounds
        while not (interval.is_done() or self.rounds == last or self._search.is_too_long):
            before = interval.upper_bound
            longest = self._cycle()
            fruitless = 0 if interval.upper_bound < before else fruitless + longest
            if fruitless >= parameters.patience and not patient:
                break

    def run_whole(self) -> None:
        """Run whole beams around the relaxation's order, then repeatedly around their results.

        Tails follow for as long as they better the best schedule.
        """
        interval, parameters = self._interval, self._parameters
        interval.phase = "search"
        key = self._keys["relaxation"]
        found = [self._whole(key, settings) for settings in parameters.guided]
        best = min(
            (schedule for schedule in found if schedule is not None),
            key=lambda schedule: schedule.total_latency,
            default=interval.schedule,
        )
        is_better = True
        while is_better:
            is_better = False
            for settings in parameters.again:
                schedule = self._whole(best.start_times.astype(np.float64), settings)
                if schedule is not None and schedule.total_latency < best.total_latency:
                    best, is_better = schedule, True
        before = None
        while interval.upper_bound != before:
            before = interval.upper_bound
            self._run_first_tails()

    def run_each_part_once(self) -> None:
        """Run the smallest amount of every kind of work, to compile the kernels."""
        ranking, settings = self._parameters.first_rounds[0]
        self._whole(self._key(ranking), settings)
        self._search.cycle(self._parameters.cycles[0], 1, never)
        self._anneal_order(1)

    def _offer_shifted(self, starts: IntArray) -> Schedule:
        shifted = shift_left(self._instance, starts, self._interval.clock.must_stop)
        schedule = Schedule(self._instance, shifted)
        self._interval.offer(schedule)
        return schedule

    def _whole(self, key: FloatArray, settings: BeamSettings) -> Schedule | None:
        """Return the schedule of a beam around an order, or None if stopped or stuck."""
        if self._interval.is_done():
            return None
        self.rounds += 1
        starts = self._beam(key, settings)
        return None if starts is None else self._offer_shifted(starts)

    def _beam(self, key: FloatArray, settings: BeamSettings, kept: int = 0) -> IntArray | None:
        """Return the starts of a beam that keeps the first ``kept`` starts of the best schedule."""
        interval, instance = self._interval, self._instance
        best = interval.schedule.start_times
        by_start = np.argsort(best, kind="stable")
        rest = np.sort(by_start[kept:])
        order = np.append(by_start[:kept], rest[np.argsort(key[rest], kind="stable")])
        # Allow twice the requests that ran at once so far: a beam that needs more gives up.
        room = 2 * most_running(instance, best) + 64
        interval.nodes += settings.width * len(rest)
        stop = interval.clock.must_stop
        return beam_schedule(instance, order, settings, room, stop, best[order[:kept]])

    def _cycle(self) -> bool:
        """Run one cycle, or tails for as many moves; return whether it was of the longest kind."""
        parameters, kind = self._parameters, self._draw_kind()
        share = min(parameters.first_moves << min(self._times[kind], 40), parameters.most_moves)
        self._run_kind(kind, share * len(self._instance))
        self._times[kind] += 1
        return share == parameters.most_moves

    def _run_first_tails(self) -> None:
        parameters = self._parameters
        self._run_kind(len(parameters.cycles), parameters.first_tails * len(self._instance))

    def _run_kind(self, kind: int, moves: int) -> None:
        """Run a cycle of so many moves, or tails of so many states, and note what it gained."""
        interval, cycles = self._interval, self._parameters.cycles
        before, made = interval.upper_bound, interval.nodes
        if kind < len(cycles):
            self._ruin_and_recreate(cycles[kind], moves)
        elif kind == len(cycles):
            self._run_tails(moves)
        else:
            self._anneal_order(moves // ORDER_MOVES)
        self.rounds += 1
        self._gains[kind] = 0.5 * self._gains[kind] + (before - interval.upper_bound)
        self._works[kind] = 0.5 * self._works[kind] + interval.nodes - made

    def _ruin_and_recreate(self, settings: CycleSettings, most_moves: int) -> None:
        interval, search = self._interval, self._search
        search.offer(interval.schedule.start_times)
        begun, made = interval.clock.seconds(), search.moves
        moves = interval.clock.affordable(most_moves, self._seconds_per_move)
        search.cycle(settings, moves, interval.clock.must_stop)
        self._offer_shifted(search.best_starts)
        made = search.moves - made
        interval.nodes += made
        if made:
            self._seconds_per_move = (interval.clock.seconds() - begun) / made

    def _anneal_order(self, moves: int) -> None:
        """Anneal the order of the best schedule, differently on each thread."""
        interval, low = self._interval, np.log(ORDER_HEAT[0])
        if len(self._instance) < FEWEST_ORDERED:
            return
        draws, starts = self._rng.random((self._threads, 2)), interval.schedule.start_times

        def anneal(draw: FloatArray) -> tuple[IntArray, int]:
            hot = float(np.exp(low + draw[0] * (np.log(ORDER_HEAT[1]) - low)))
            return annealed_order(
                self._instance,
                starts,
                1 + int(draw[1] * (1 << 32)),
                moves,
                (hot, ORDER_COLD),
                interval.clock.must_stop,
            )

        with ThreadPoolExecutor(self._threads) as pool:
            for found, placed in pool.map(anneal, draws):
                interval.nodes += placed // PLACED_PER_MOVE
                self._offer_shifted(found)

    def _run_tails(self, most_nodes: int) -> None:
        """Plan the best schedule anew from random rounds on; beams grow ``most_nodes`` states."""
        interval, rng, tails = self._interval, self._rng, self._parameters.tails
        instance = self._instance
        rankings = [*RANKINGS, "relaxation"] if self.is_guided else RANKINGS
        last = interval.nodes + most_nodes
        while tails and interval.nodes < last and not interval.is_done():
            starts = interval.schedule.start_times
            key = self._key(rankings[int(rng.integers(len(rankings)))])
            if rng.random() < NOISY:
                ranks = np.argsort(np.argsort(key, kind="stable"))
                key = ranks + rng.normal(0.0, NOISE, len(ranks))
            settings = tails[int(rng.integers(len(tails)))]
            moment = int(rng.integers(int(starts.min()), int(starts.max()) + 1))
            found = self._beam(key, settings, int((starts < moment).sum()))
            if found is not None and int(instance.weights @ (found - starts)) < 0:
                self._offer_shifted(found)

    def _draw_kind(self) -> int:
        """Draw every kind once, then by their recent gains per move."""
        cycles, has_prices = self._parameters.cycles, self._search.has_prices
        priced = [k for k, cycle in enumerate(cycles) if cycle.weight == 0 or has_prices]
        kinds: list[int] = [*priced, *range(len(cycles), len(self._times))]
        for kind in kinds:
            if self._times[kind] == 0:
                return kind
        rates = self._gains[kinds] / np.maximum(self._works[kinds], 1.0)
        if self._rng.random() < self._parameters.exploring or not rates.any():
            return int(self._rng.choice(kinds))
        return int(self._rng.choice(kinds, p=rates / rates.sum()))

    def _key(self, ranking: str) -> FloatArray:
        if ranking == "start":
            return np.asarray(self._interval.schedule.start_times, dtype=np.float64)
        if ranking not in self._keys:
            self._keys[ranking] = volume_order_key(self._instance)
        return self._keys[ranking]
