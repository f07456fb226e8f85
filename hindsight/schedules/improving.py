"""Improvement of one schedule while time lasts: beam search, ruin and recreate, annealed orders.

*Whole beams* are beam searches (`hindsight.schedules.beams`) over all requests. They build
schedules of one machine, with memory counted in tokens, in order of

* the rounds in which the volume relaxation serves the requests (smallest volume first), and their
  starts in the best schedule so far, or
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
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_rule import TOKENS

from .beams import BeamSettings, beam_schedule, most_running
from .cycles import FIRST_MOVES, MOST_MOVES, RuinAndRecreate
from .moves import CycleSettings
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
"""Settings of the cycles: annealings whose moves remove some requests and put them back."""

BEAMS = (BeamSettings(4, 16), BeamSettings(32, 32), BeamSettings(128, 16))
"""Beam searches over all requests run with these settings, in several orders of the requests. The
last one runs only in the order from a linear relaxation. Each tail (beam search over the end of a
schedule) draws one of these settings and a random `BeamSettings.preference`."""

FIRST_TAILS = 50
"""Tails are beam searches over the end of the best schedule. Right after the beam searches over all
n requests, a run of several tails extends about FIRST_TAILS * n partial schedules in all."""

NOISE = 3.0
"""Tails (beam searches over the end of the best schedule) shift each request at random in the
order. Each tail draws the standard deviation of its shifts, in places, between 0 and `NOISE`."""

ORDER_HEAT, ORDER_COLD = (0.03, 0.3), 0.01
"""Annealing of the order of requests: least and largest first temperature, and last temperature.
Unit: mean output length times mean weight."""

FEWEST_ORDERED = 3
"""Least number of requests in an instance for which the order of placing them is annealed."""

PLACED_PER_MOVE = 30
"""A move of ruin and recreate takes as long as placing about this many requests in an annealing of
the order of requests. The solve counts the work of all heuristics in moves of ruin and recreate."""

ORDER_MOVES = 8
"""A move of order annealing takes about as long as this many moves of ruin and recreate."""

EXPLORING = 0.2
"""Probability that the heuristic to run next is drawn uniformly. Else each one has a probability in
proportion to its recent gain per move. Gain: fall in the total latency of the best schedule."""

PATIENCE = 6
"""`Improvement.run` ends after this many runs of `MOST_MOVES` moves per request without a gain."""


class Improvement:
    """Heuristics that improve the best schedule of a solve: beam searches and local searches.

    Parameters
    ----------
    interval : Interval
        Best schedule, lower bounds and clock of the solve. It must have a first schedule. Any
        memory rule and number of replicas are allowed.
    seed : int, default 0
        Seed of every random choice.
    threads : int, default 1
        Number of threads of the local searches.

    Attributes
    ----------
    moves : RuinAndRecreate
        The local search that removes some requests and puts them back.
    rounds : int
        Number of runs so far, summed over all heuristics.
    """

    def __init__(self, interval: Interval, seed: int = 0, threads: int = 1) -> None:
        self._interval, self._instance, self._threads = interval, interval.source, threads
        self._rng = np.random.default_rng(seed)
        self._keys: dict[str, FloatArray] = {}
        self.moves, self.rounds = RuinAndRecreate(self._instance, seed, threads), 0
        # The heuristics (kinds of work) have numbers: one for each entry of `CYCLES`, then one for
        # the annealing of the order of the requests, then one for tails (beam searches over the end
        # of the best schedule). For each kind, ``_times`` is its number of runs. ``_gains`` is the
        # number of rounds by which its runs lowered the total latency of the best schedule, and
        # ``_works`` the number of moves of its runs. In both sums, each run counts half as much as
        # the next run of the kind.
        has_beams = self._instance.memory_rule == TOKENS and self._instance.replicas == 1
        self._kinds = len(CYCLES) + 1 + has_beams
        self._times = [0] * self._kinds
        self._gains, self._works = np.zeros(self._kinds), np.ones(self._kinds)
        self._seconds_per_move = 0.0

    def follow(self, expected_start_times: FloatArray, prices: MemoryPrices) -> None:
        """Let the heuristics use the expected starts and memory prices of a linear relaxation.

        Later beam searches order the requests by ``expected_start_times``, shape (n,). Later cycles
        (annealings) add ``prices`` to the costs of starts.
        """
        self._keys["relaxation"] = np.asarray(expected_start_times, dtype=np.float64)
        self.moves.prices = prices.as_floats()

    @property
    def is_guided(self) -> bool:
        """Return whether `follow` has given the expected starts of a relaxation."""
        return "relaxation" in self._keys

    def run_beams(self) -> None:
        """Run beam searches over all requests, then tails.

        Tails are beam searches over the end of the best schedule. If the expected starts of a
        linear relaxation are known (`is_guided`), tails run again as long as they lower the total
        latency.
        """
        interval, gains = self._interval, True
        interval.phase = "search"
        for settings in BEAMS if self.is_guided else BEAMS[:2]:
            for ranking in ["relaxation"] if self.is_guided else ["volume", "start"]:
                self._whole(self._key(ranking), settings)
        while gains:
            before = interval.upper_bound
            self._run_kind(self._kinds - 1, FIRST_TAILS * len(self._instance))
            gains = self.is_guided and interval.upper_bound < before

    def run(self, most_rounds: int | None = None, *, patient: bool = False) -> None:
        """Run the heuristics in random order until the solve is done.

        Stop after ``most_rounds`` runs of heuristics (None: no limit), or if the best schedule has
        too many rounds for an array of the free memory in each round
        (`RuinAndRecreate.is_too_long`). Unless ``patient``, also stop once `PATIENCE` runs of
        heuristics with the largest number of moves have followed one another without a better
        schedule.
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

    def _offer_shifted(self, starts: IntArray, machines: IntArray | None = None) -> None:
        """Move each request of a schedule to the first start that fits with the others; offer it.

        The schedule is given by ``starts`` and ``machines``. ``machines`` None means that all
        requests run on machine 0. The solve and the local search keep the result if it is better
        than their best schedule.
        """
        moves, interval = self.moves, self._interval
        where = np.zeros_like(starts) if machines is None else machines
        starts, where = moves.shift_left(starts, where, interval.clock.must_stop)
        moves.offer(starts, where)
        interval.offer(schedule_on(interval.source, where, starts))

    def _whole(self, key: FloatArray, settings: BeamSettings) -> None:
        """Run a beam search over all requests in order of ascending ``key``; offer its schedule.

        ``key`` has one entry per request, shape (n,). If the solve is done, do nothing.
        """
        if self._interval.is_done():
            return
        self.rounds += 1
        starts = self._beam(key, settings)
        if starts is not None:
            self._offer_shifted(starts)

    def _beam(self, key: FloatArray, settings: BeamSettings, kept: int = 0) -> IntArray | None:
        """Run a beam search that fixes the ``kept`` earliest starts of the best schedule.

        The other requests are ordered by ascending ``key``, which has one entry per request, shape
        (n,). Return all starts, shape (n,), or None if the search found no schedule.
        """
        interval, instance = self._interval, self._instance
        best = interval.schedule.start_times
        by_start = np.argsort(best, kind="stable")
        rest = np.sort(by_start[kept:])
        order = np.append(by_start[:kept], rest[np.argsort(key[rest], kind="stable")])
        # ``room`` is the largest number of requests that may run at once in the beam search: about
        # twice the number in the best schedule.
        room = 2 * most_running(instance, best) + 64
        interval.moves += settings.width * len(rest)
        stop = interval.clock.must_stop
        return beam_schedule(instance, order, settings, room, stop, best[order[:kept]])

    def _run_kind(self, kind: int, moves: int) -> None:
        """Run heuristic number ``kind``, and record by how much it lowered the total latency.

        It runs about as long as ``moves`` moves of ruin and recreate would take. Numbers below
        len(`CYCLES`) are cycles (annealings by ruin and recreate). Number len(`CYCLES`) is the
        annealing of the order of the requests. The next number stands for tails: beam searches over
        the end of the best schedule.
        """
        interval = self._interval
        before, made = interval.upper_bound, interval.moves
        if kind < len(CYCLES):
            self._ruin_and_recreate(CYCLES[kind], moves)
        elif kind == len(CYCLES):
            self._anneal_order(moves // ORDER_MOVES)
        else:
            self._run_tails(moves)
        self.rounds += 1
        self._gains[kind] = 0.5 * self._gains[kind] + (before - interval.upper_bound)
        self._works[kind] = 0.5 * self._works[kind] + interval.moves - made

    def _ruin_and_recreate(self, settings: CycleSettings, most_moves: int) -> None:
        interval, search = self._interval, self.moves
        self.moves.offer(*columns_of(interval.schedule))
        begun, made = interval.clock.seconds(), search.moves
        moves = interval.clock.affordable(most_moves, self._seconds_per_move)
        search.cycle(settings, moves, interval.clock.must_stop)
        self._offer_shifted(search.starts, search.machines)
        made = search.moves - made
        interval.moves += made
        if made:
            self._seconds_per_move = (interval.clock.seconds() - begun) / made

    def _anneal_order(self, moves: int) -> None:
        """Anneal the order in which the requests of the best schedule are placed.

        Each thread runs another annealing with ``moves`` moves and a random first temperature. All
        annealings start from the best schedule of the solve. Each offers its best schedule to the
        solve.
        """
        interval, (low, high) = self._interval, ORDER_HEAT
        if len(self._instance) < FEWEST_ORDERED:
            return
        self.moves.offer(*columns_of(interval.schedule))

        def anneal(draw: FloatArray) -> OrderAnnealing:
            heat = low * (high / low) ** float(draw[0]), ORDER_COLD
            state, stop = first_state(int(draw[1] * (1 << 32))), interval.clock.must_stop
            schedule = self.moves.starts, self.moves.machines
            annealing = OrderAnnealing(self._instance, schedule, heat, moves, state, must_stop=stop)
            annealing.run(moves, stop)
            return annealing

        with ThreadPoolExecutor(self._threads) as pool:
            for annealing in pool.map(anneal, self._rng.random((self._threads, 2))):
                interval.moves += int(annealing.work.counts[PLACED]) // PLACED_PER_MOVE
                if annealing.is_possible:
                    self._offer_shifted(*annealing.best)

    def _run_tails(self, most_nodes: int) -> None:
        """Run tails: beam searches that replan the best schedule from a random round on.

        Stop once these searches have extended ``most_nodes`` partial schedules together, or once
        the solve is done.
        """
        interval, rng, instance = self._interval, self._rng, self._instance
        rankings = ["volume", "start"] + ["relaxation"] * self.is_guided
        last = interval.moves + most_nodes
        while interval.moves < last and not interval.is_done():
            starts = interval.schedule.start_times
            key = self._key(rankings[int(rng.integers(len(rankings)))])
            ranks = np.argsort(np.argsort(key, kind="stable"))
            key = ranks + rng.normal(0.0, NOISE * rng.random(), len(ranks))
            settings = BEAMS[int(rng.integers(len(BEAMS)))]._replace(preference=rng.random())
            moment = int(rng.integers(int(starts.min()), int(starts.max()) + 1))
            found = self._beam(key, settings, int((starts < moment).sum()))
            if found is not None and int(instance.weights @ (found - starts)) < 0:
                self._offer_shifted(found)

    def _draw_kind(self) -> int:
        """Choose the heuristic to run next, and return its number (see ``__init__``).

        Heuristics that have not run yet come first. Then one is drawn. With probability
        `EXPLORING`, all are equally likely. Otherwise the probability of each is proportional to
        its recent gain per move. The gain is the fall in the total latency of the best schedule.
        """
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
        """Return the sort keys, shape (n,), of the order of requests that ``ranking`` names.

        "volume": mean round in which the volume relaxation serves a request. In it, each round
        serves at most M units of volume (tokens times rounds), with M the memory limit, those of
        the requests of smallest volume first. "start": start in the best schedule. "relaxation":
        expected start in the linear relaxation.
        """
        if ranking == "start":
            return np.asarray(self._interval.schedule.start_times, dtype=np.float64)
        if ranking not in self._keys:
            # Sort keys of the order "volume": mean round in which each request is served in the
            # volume relaxation, where a round serves at most M units of volume (tokens times
            # rounds), with M the memory limit.
            rounds = fill_by_volume(compress(self._instance).instance).weighted_rounds
            self._keys[ranking] = np.array(rounds, np.float64) / self._instance.volumes
        return self._keys[ranking]
