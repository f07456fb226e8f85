"""Beams, cycles of moves and annealings of the order that improve one schedule while time lasts.

Whole beams (`hindsight.schedules.beams`) build schedules of one machine in tokens, in order of

* the rounds in which the volume relaxation serves the requests, smallest volume first while all
  wait,
* their starts in the best schedule so far, and
* the expected starts of the linear relaxation, once there are any.

Further beams keep the best schedule up to a random round and plan the rest anew. So they fill the
end, where requests are large and pack badly, while every earlier gain moves all that follows.
Cycles of ruin and recreate (`hindsight.schedules.cycles`) take turns with them; some follow the
memory prices of the relaxation. A third kind anneals the order in which requests are placed
(`hindsight.schedules.orders`). The kinds are drawn by what they gained for the moves they took, and
cycles get longer while time lasts. After each of them every request moves to the earliest start
that the others leave it, which can only lower the total latency.

Deterministic: the schedule after k rounds depends on the arguments, the seed, the number of threads
and the relaxations' answers alone, except that near a deadline the last cycle is short enough to
end before it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from hindsight.outcomes.interval import Interval
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.prices.idle_gaps import compress
from hindsight.prices.volume import fill_by_volume
from hindsight.runtime.clock import never
from instances import FleetSchedule
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_rule import TOKENS

from .beams import BeamSettings, beam_schedule, most_running
from .cycles import FIRST_MOVES, MOST_MOVES, RuinAndRecreate
from .draws import first_state
from .moves import CycleSettings
from .orders import OrderAnnealing

CYCLES = (
    CycleSettings(6, 1.0, weight=1.0),
    CycleSettings(40, 10.0, 0.3, 0.02),
    CycleSettings(20, 10.0, 0.05, 0.01),
    CycleSettings(12, 2.0, 0.03, weight=1.0),
    CycleSettings(8, 1.0, 0.03),
)
"""Cycles of moves."""

WHOLE = (
    ("volume", BeamSettings(4, 16)),
    ("start", BeamSettings(4, 16, 0.75)),
    ("volume", BeamSettings(32, 32)),
    ("start", BeamSettings(1, 32)),
)
"""First whole beams, by ranking."""

GUIDED = BeamSettings(4, 32), BeamSettings(32, 16), BeamSettings(128, 16)
"""Whole beams around the order of the relaxation."""

WIDEST, MOST_CHOICES, LEAST_EFFICIENCY = 5, 3, 0.93
"""Beams that keep the best schedule up to a random round have 4 states, up to four times doubled,
8 choices, up to twice doubled, any preference up to 1 and any efficiency from this one on."""

FIRST_TAILS = 50
"""Partial schedules per request that such beams grow before all else."""

NOISY, NOISE = 0.5, 3.0
"""Share of them whose order gets noise, and its standard deviation in ranks."""

ORDER_HEAT, ORDER_COLD = (0.03, 0.3), 0.01
"""Range of the first temperatures of an annealing of the order, and the last one, in mean output
lengths."""

FEWEST_ORDERED = 3
"""Least requests whose order is annealed."""

PLACED_PER_MOVE = 30
"""Requests that an annealing of the order places in the time of a move of ruin and recreate."""

ORDER_MOVES = 8
"""Moves of ruin and recreate in the time of a move of the order."""

EXPLORING = 0.2
"""Share of rounds whose kind is chosen at random."""

PATIENCE = 6
"""Cycles of the longest kind without a better schedule after which a search ends."""


class Improvement:
    """Beams, cycles and annealings that improve an `Interval` with a schedule.

    Parameters
    ----------
    interval : Interval
        State of the solve, of any memory rule and number of replicas.
    seed : int, default 0
        Seed of every random choice.
    threads : int, default 1
        Threads of the cycles.

    Attributes
    ----------
    moves : RuinAndRecreate
        The cycles.
    rounds : int
        Number of beams and cycles run so far.
    """

    def __init__(self, interval: Interval, seed: int = 0, threads: int = 1) -> None:
        self._interval, self._instance, self._threads = interval, interval.source, threads
        self._rng = np.random.default_rng(seed)
        self._keys: dict[str, FloatArray] = {}
        self.moves, self.rounds = RuinAndRecreate(self._instance, seed, threads), 0
        # Cycles of each kind, annealings of the order and beams, with the latency gained and the
        # moves used; older ones count less.
        has_beams = self._instance.memory_rule == TOKENS and self._instance.replicas == 1
        self._kinds = len(CYCLES) + 1 + has_beams
        self._times = [0] * self._kinds
        self._gains, self._works = np.zeros(self._kinds), np.ones(self._kinds)
        self._seconds_per_move = 0.0

    def follow(self, expected_start_times: FloatArray, prices: MemoryPrices) -> None:
        """Also rank by expected starts, shape (n,), and let cycles follow memory prices."""
        self._keys["relaxation"] = np.asarray(expected_start_times, dtype=np.float64)
        self.moves.use_prices(prices.as_floats())

    @property
    def is_guided(self) -> bool:
        """Tell whether it follows a relaxation."""
        return "relaxation" in self._keys

    def run_first(self) -> None:
        """Run beams that need no relaxation: whole ones, then tails."""
        self._interval.phase = "search"
        for ranking, settings in WHOLE:
            self._whole(self._key(ranking), settings)
        self._run_kind(self._kinds - 1, FIRST_TAILS * len(self._instance))

    def run(self, most_rounds: int | None = None, *, patient: bool = False) -> None:
        """Run cycles and tails until proof, limit, interruption, ``most_rounds`` or no gain.

        With ``patient`` it continues without gain, so it ends only if there is a limit. Schedules
        of too many rounds have no cycles.
        """
        interval = self._interval
        interval.phase = "search"
        fruitless = 0
        last = None if most_rounds is None else self.rounds + most_rounds
        while not (interval.is_done() or self.rounds == last or self.moves.is_too_long):
            before, kind = interval.upper_bound, self._draw_kind()
            share = min(FIRST_MOVES << min(self._times[kind], 40), MOST_MOVES)
            self._run_kind(kind, share * len(self._instance))
            self._times[kind] += 1
            is_longest = share == MOST_MOVES
            fruitless = 0 if interval.upper_bound < before else fruitless + is_longest
            if fruitless >= PATIENCE and not patient:
                break

    def run_whole(self) -> None:
        """Run whole beams around the relaxation's order, then tails as long as they gain."""
        interval = self._interval
        interval.phase = "search"
        for settings in GUIDED:
            self._whole(self._keys["relaxation"], settings)
        before = None
        while interval.upper_bound != before:
            before = interval.upper_bound
            self._run_kind(self._kinds - 1, FIRST_TAILS * len(self._instance))

    def run_each_part_once(self) -> None:
        """Run the smallest amount of every kind of work, to compile the kernels."""
        self._whole(self._key("volume"), WHOLE[0][1])
        self.moves.cycle(CYCLES[0], 1, never)
        self._anneal_order(1)

    def _offer_shifted(self, starts: IntArray, machines: IntArray | None = None) -> None:
        moves, interval = self.moves, self._interval
        where = np.zeros_like(starts) if machines is None else machines
        starts, where = moves.shift_left(starts, where, interval.clock.must_stop)
        moves.offer(starts, where)
        interval.offer(moves.schedule_of(starts, where))

    def _take_best(self) -> None:
        """Let the moves begin from the best schedule of the solve."""
        best = self._interval.schedule
        machines = best.assignment if isinstance(best, FleetSchedule) else None
        self.moves.offer(self._interval.schedule.start_times, machines)

    def _whole(self, key: FloatArray, settings: BeamSettings) -> None:
        """Offer the schedule of a beam around an order."""
        if self._interval.is_done():
            return
        self.rounds += 1
        starts = self._beam(key, settings)
        if starts is not None:
            self._offer_shifted(starts)

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

    def _run_kind(self, kind: int, moves: int) -> None:
        """Run a cycle of so many moves, or the work of as many, and note what it gained."""
        interval = self._interval
        before, made = interval.upper_bound, interval.nodes
        if kind < len(CYCLES):
            self._ruin_and_recreate(CYCLES[kind], moves)
        elif kind == len(CYCLES):
            self._anneal_order(moves // ORDER_MOVES)
        else:
            self._run_tails(moves)
        self.rounds += 1
        self._gains[kind] = 0.5 * self._gains[kind] + (before - interval.upper_bound)
        self._works[kind] = 0.5 * self._works[kind] + interval.nodes - made

    def _ruin_and_recreate(self, settings: CycleSettings, most_moves: int) -> None:
        interval, search = self._interval, self.moves
        self._take_best()
        begun, made = interval.clock.seconds(), search.moves
        moves = interval.clock.affordable(most_moves, self._seconds_per_move)
        search.cycle(settings, moves, interval.clock.must_stop)
        self._offer_shifted(search.starts, search.machines)
        made = search.moves - made
        interval.nodes += made
        if made:
            self._seconds_per_move = (interval.clock.seconds() - begun) / made

    def _anneal_order(self, moves: int) -> None:
        """Anneal the order of the best schedule, differently on each thread."""
        interval, (low, high) = self._interval, ORDER_HEAT
        if len(self._instance) < FEWEST_ORDERED:
            return
        self._take_best()

        def anneal(draw: FloatArray) -> OrderAnnealing:
            heat = low * (high / low) ** float(draw[0]), ORDER_COLD
            state, stop = first_state(int(draw[1] * (1 << 32))), interval.clock.must_stop
            schedule = self.moves.starts, self.moves.machines
            annealing = OrderAnnealing(self._instance, schedule, heat, moves, state, must_stop=stop)
            annealing.run(moves, stop)
            return annealing

        with ThreadPoolExecutor(self._threads) as pool:
            for annealing in pool.map(anneal, self._rng.random((self._threads, 2))):
                interval.nodes += annealing.placed // PLACED_PER_MOVE
                if annealing.is_possible:
                    self._offer_shifted(*annealing.best)

    def _run_tails(self, most_nodes: int) -> None:
        """Plan the best schedule anew from random rounds on; beams grow ``most_nodes`` states."""
        interval, rng, instance = self._interval, self._rng, self._instance
        rankings = ["volume", "start"] + ["relaxation"] * self.is_guided
        last = interval.nodes + most_nodes
        while interval.nodes < last and not interval.is_done():
            starts = interval.schedule.start_times
            key = self._key(rankings[int(rng.integers(len(rankings)))])
            if rng.random() < NOISY:
                ranks = np.argsort(np.argsort(key, kind="stable"))
                key = ranks + rng.normal(0.0, NOISE, len(ranks))
            width, choices = 4 << int(rng.integers(WIDEST)), 8 << int(rng.integers(MOST_CHOICES))
            efficiency = rng.uniform(LEAST_EFFICIENCY, 1.0)
            settings = BeamSettings(width, choices, rng.random(), efficiency)
            moment = int(rng.integers(int(starts.min()), int(starts.max()) + 1))
            found = self._beam(key, settings, int((starts < moment).sum()))
            if found is not None and int(instance.weights @ (found - starts)) < 0:
                self._offer_shifted(found)

    def _draw_kind(self) -> int:
        """Draw every kind once, then by their recent gains per move."""
        is_priced = np.array([one.weight > 0 for one in CYCLES] + [False, False])
        kinds = np.flatnonzero(~is_priced[: self._kinds] | self.moves.has_prices).tolist()
        for kind in kinds:
            if self._times[kind] == 0:
                return kind
        rates = self._gains[kinds] / np.maximum(self._works[kinds], 1.0)
        if self._rng.random() < EXPLORING or not rates.any():
            return int(self._rng.choice(kinds))
        return int(self._rng.choice(kinds, p=rates / rates.sum()))

    def _key(self, ranking: str) -> FloatArray:
        if ranking == "start":
            return np.asarray(self._interval.schedule.start_times, dtype=np.float64)
        if ranking not in self._keys:
            # The mean round in which the volume relaxation serves each request.
            rounds = fill_by_volume(compress(self._instance).instance).weighted_rounds
            self._keys[ranking] = np.array(rounds, np.float64) / self._instance.volumes
        return self._keys[ranking]
