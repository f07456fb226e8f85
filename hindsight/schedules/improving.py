"""Improvement of one schedule while time lasts: beam search, ruin and recreate, annealed orders.

*Whole beams* are beam searches (`hindsight.schedules.beams`) over all requests. They build
schedules of one machine, with memory counted in tokens, in order of

* the rounds in which the volume relaxation serves the requests (smallest volume first),
* their starts in the best schedule so far, and
* the expected starts of the linear relaxation, once it has been solved.

*Tails* are beam searches that keep the best schedule up to a random round and replan the requests
that start later. *Cycles* are annealings by ruin and recreate (`hindsight.schedules.cycles`); some
use the memory prices of the relaxation. Another annealing changes the order in which requests are
placed (`hindsight.schedules.orders`).

Tails, each setting of cycles and annealings of the order are the kinds of work. The next kind is
drawn by the recent reduction in total latency per move of each kind, and every time a kind is drawn
it makes twice as many moves. Whenever a schedule is found, each request moves to the earliest start
that fits with the others, which can only lower the total latency.

Deterministic: the schedule after k beams, cycles and annealings depends only on the arguments and
the solutions of the relaxations, except that the last cycle before a time limit is shortened.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from hindsight.outcomes.interval import Interval
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.prices.idle_gaps import compress
from hindsight.prices.volume import fill_by_volume
from hindsight.runtime.clock import never
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_rule import TOKENS

from .beams import BeamSettings, beam_schedule, most_running
from .cycles import FIRST_MOVES, MOST_MOVES, CycleSettings, RuinAndRecreate
from .order_moves import PLACED
from .orders import OrderAnnealing
from .timetables import columns_of, first_state, schedule_on

CYCLES = (
    CycleSettings(6, 1.0, weight=1.0),
    CycleSettings(40, 10.0, 0.3, 0.02),
    CycleSettings(20, 10.0, 0.05, 0.01),
    CycleSettings(12, 2.0, 0.03, weight=1.0),
    CycleSettings(8, 1.0, 0.03),
)
"""Settings of the cycles of ruin and recreate."""

WHOLE = (
    ("volume", BeamSettings(4, 16)),
    ("start", BeamSettings(4, 16, 0.75)),
    ("volume", BeamSettings(32, 32)),
    ("start", BeamSettings(1, 32)),
)
"""Whole beams before a relaxation is solved: the order of the requests, and the settings."""

GUIDED = tuple(("relaxation", BeamSettings(*one)) for one in ((4, 32), (32, 16), (128, 16)))
"""Whole beams with a relaxation, in order of its expected starts."""

WIDEST, MOST_CHOICES, LEAST_EFFICIENCY = 5, 3, 0.93
"""Limits of the random settings of a tail. Its width is 4, doubled fewer than `WIDEST` times. Its
number of choices is 8, doubled fewer than `MOST_CHOICES` times. Its efficiency is at least the last
value, and at most 1."""

FIRST_TAILS = 50
"""Partial schedules per request that tails extend after the whole beams."""

NOISY, NOISE = 0.5, 3.0
"""Share of tails whose order is perturbed, and the standard deviation of a change, in ranks."""

ORDER_HEAT, ORDER_COLD = (0.03, 0.3), 0.01
"""Range of first temperatures of an annealing of the order, and its last temperature. Unit: mean
output lengths."""

FEWEST_ORDERED = 3
"""Least requests whose order is annealed."""

PLACED_PER_MOVE = 30
"""Requests that an annealing of the order places in the time of one move of a cycle."""

ORDER_MOVES = 8
"""Moves of a cycle in the time of one move of an annealing of the order."""

EXPLORING = 0.2
"""Probability that the next kind of work is drawn uniformly, instead of by recent gains."""

PATIENCE = 6
"""Runs of the largest amount of work without a better schedule after which a search ends."""


class Improvement:
    """Beams, cycles and annealings that improve the schedule of an `Interval`.

    Parameters
    ----------
    interval : Interval
        Bounds of the solve, with a first schedule. Any memory rule and number of replicas.
    seed : int, default 0
        Seed of every random choice.
    threads : int, default 1
        Number of threads of cycles and of annealings.

    Attributes
    ----------
    moves : RuinAndRecreate
        The local search by cycles.
    rounds : int
        Number of whole beams, cycles, annealings and runs of tails so far.
    """

    def __init__(self, interval: Interval, seed: int = 0, threads: int = 1) -> None:
        self._interval, self._instance, self._threads = interval, interval.source, threads
        self._rng = np.random.default_rng(seed)
        self._keys: dict[str, FloatArray] = {}
        self.moves, self.rounds = RuinAndRecreate(self._instance, seed, threads), 0
        # Kinds of work: one kind per entry of `CYCLES`, annealings of the order, and tails. For
        # each: how often it ran, the latency that it gained, and its moves. Older runs count less.
        has_beams = self._instance.memory_rule == TOKENS and self._instance.replicas == 1
        self._kinds = len(CYCLES) + 1 + has_beams
        self._times = [0] * self._kinds
        self._gains, self._works = np.zeros(self._kinds), np.ones(self._kinds)
        self._seconds_per_move = 0.0

    def follow(self, expected_start_times: FloatArray, prices: MemoryPrices) -> None:
        """Use the expected starts, shape (n,), and the memory prices of a solved relaxation."""
        self._keys["relaxation"] = np.asarray(expected_start_times, dtype=np.float64)
        self.moves.prices = prices.as_floats()

    @property
    def is_guided(self) -> bool:
        """Return whether `follow` was called."""
        return "relaxation" in self._keys

    def run_beams(self) -> None:
        """Run whole beams, then tails; with a relaxation, tails run again as long as they gain."""
        interval, gains = self._interval, True
        interval.phase = "search"
        for ranking, settings in GUIDED if self.is_guided else WHOLE:
            self._whole(self._key(ranking), settings)
        while gains:
            before = interval.upper_bound
            self._run_kind(self._kinds - 1, FIRST_TAILS * len(self._instance))
            gains = self.is_guided and interval.upper_bound < before

    def run(self, most_rounds: int | None = None, *, patient: bool = False) -> None:
        """Run kinds of work until the solve is done, or `PATIENCE` runs found no better schedule.

        It also ends after ``most_rounds`` runs, and if the schedule has too many rounds
        (`RuinAndRecreate.is_too_long`). With ``patient`` it continues without better schedules.
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

    def run_each_part_once(self) -> None:
        """Run the smallest amount of every kind of work, to compile the kernels."""
        self._whole(self._key("volume"), WHOLE[0][1])
        self.moves.cycle(CYCLES[0], 1, never)
        self._anneal_order(1)

    def _offer_shifted(self, starts: IntArray, machines: IntArray | None = None) -> None:
        """Move the requests of a schedule to earlier starts, and offer it to the solve."""
        moves, interval = self.moves, self._interval
        where = np.zeros_like(starts) if machines is None else machines
        starts, where = moves.shift_left(starts, where, interval.clock.must_stop)
        moves.offer(starts, where)
        interval.offer(schedule_on(interval.source, where, starts))

    def _take_best(self) -> None:
        """Let cycles and annealings start from the best schedule of the solve."""
        self.moves.offer(*columns_of(self._interval.schedule))

    def _whole(self, key: FloatArray, settings: BeamSettings) -> None:
        """Run a beam search over all requests, by ascending ``key``; offer its schedule."""
        if self._interval.is_done():
            return
        self.rounds += 1
        starts = self._beam(key, settings)
        if starts is not None:
            self._offer_shifted(starts)

    def _beam(self, key: FloatArray, settings: BeamSettings, kept: int = 0) -> IntArray | None:
        """Run a beam search that keeps the first ``kept`` starts of the best schedule.

        The other requests are ranked by ``key``, shape (n,). Return the starts found, or None.
        """
        interval, instance = self._interval, self._instance
        best = interval.schedule.start_times
        by_start = np.argsort(best, kind="stable")
        rest = np.sort(by_start[kept:])
        order = np.append(by_start[:kept], rest[np.argsort(key[rest], kind="stable")])
        # Allow about twice as many requests at once as in the best schedule; otherwise give up.
        room = 2 * most_running(instance, best) + 64
        interval.nodes += settings.width * len(rest)
        stop = interval.clock.must_stop
        return beam_schedule(instance, order, settings, room, stop, best[order[:kept]])

    def _run_kind(self, kind: int, moves: int) -> None:
        """Run one kind of work for the time of ``moves`` moves of a cycle; record its gain."""
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
        """Anneal the order of the best schedule, from another temperature on each thread."""
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
                interval.nodes += int(annealing.work.counts[PLACED]) // PLACED_PER_MOVE
                if annealing.is_possible:
                    self._offer_shifted(*annealing.best)

    def _run_tails(self, most_nodes: int) -> None:
        """Replan the best schedule from random rounds on; extend ``most_nodes`` states in all."""
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
        """Return a kind of work that has not run yet, or else draw one by gains per move."""
        is_priced = np.array([one.weight > 0 for one in CYCLES] + [False, False])
        kinds = np.flatnonzero(~is_priced[: self._kinds] | self.moves.prices.any()).tolist()
        for kind in kinds:
            if self._times[kind] == 0:
                return kind
        rates = self._gains[kinds] / np.maximum(self._works[kinds], 1.0)
        if self._rng.random() < EXPLORING or not rates.any():
            return int(self._rng.choice(kinds))
        return int(self._rng.choice(kinds, p=rates / rates.sum()))

    def _key(self, ranking: str) -> FloatArray:
        """Return the sort keys of an order of the requests, shape (n,)."""
        if ranking == "start":
            return np.asarray(self._interval.schedule.start_times, dtype=np.float64)
        if ranking not in self._keys:
            # The mean round in which the volume relaxation serves each request.
            rounds = fill_by_volume(compress(self._instance).instance).weighted_rounds
            self._keys[ranking] = np.array(rounds, np.float64) / self._instance.volumes
        return self._keys[ranking]
