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
from instances import FleetSchedule, Instance, Schedule
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_rule import TOKENS

from .beams import BeamSettings, beam_schedule, most_running
from .cycles import CycleSettings, RuinAndRecreate
from .draws import first_state
from .orders import OrderAnnealing

IN_TOKENS = (
    CycleSettings(6, 1.0, 1.0),
    CycleSettings(40, 10.0, 0.0, hot=0.3, cold=0.02, blink=0.0, second=0.0),
    CycleSettings(20, 10.0, 0.0, hot=0.05, cold=0.01, blink=0.0, second=0.0),
    CycleSettings(12, 2.0, 1.0, hot=0.03),
    CycleSettings(8, 1.0, 0.0, hot=0.03),
)
"""Cycles in tokens on one machine."""

IN_BLOCKS = (
    CycleSettings(6, 1.0, second=0.0),
    CycleSettings(12, 2.0, hot=0.3, cold=0.02, blink=0.0, second=0.0),
    CycleSettings(20, 10.0, hot=0.05, cold=0.01, blink=0.0, second=0.0),
    CycleSettings(8, 1.0, hot=0.03, second=0.0),
)
"""Cycles in blocks on one machine."""

ON_FLEETS = tuple(
    CycleSettings(12, 2.0, hot=hot, cold=cold, second=0.0)
    for hot, cold in ((0.3, 0.05), (0.3, 0.02), (0.1, 0.01))
)
"""Cycles on several machines."""

WHOLE = (
    ("volume", BeamSettings(4, 16)),
    ("start", BeamSettings(4, 16, 0.75)),
    ("volume", BeamSettings(32, 32)),
    ("start", BeamSettings(1, 32)),
)
"""First whole beams, by ranking."""

GUIDED = BeamSettings(4, 32), BeamSettings(32, 16), BeamSettings(128, 16)
"""Whole beams around the order of the relaxation."""

AGAIN = BeamSettings(4, 64), BeamSettings(4, 32), BeamSettings(4, 16)
"""Whole beams around the best of these, repeated as long as they improve it."""

WIDTHS, CHOICES = (4, 8, 16, 32, 64), (8, 16, 32)
PREFERENCES, EFFICIENCIES = (0.0, 0.5, 0.75, 1.0), (0.93, 0.97, 1.0)
"""Settings of beams that keep the best schedule up to a random round, drawn one by one."""

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

FIRST_MOVES, MOST_MOVES = 50, 12_800
"""Moves per request of the first cycle of each kind, and of the longest; each cycle has twice as
many as the one before."""

PATIENCE = 6
"""Cycles of the longest kind without a better schedule after which a search ends."""


def volume_order_key(instance: Instance) -> FloatArray:
    """Return the mean round in which the volume relaxation serves each request, shape (n,)."""
    filling = fill_by_volume(compress(instance).instance)
    return np.array(filling.weighted_rounds, dtype=np.float64) / instance.volumes


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
    first_moves, most_moves : int
        See `FIRST_MOVES`.
    patience : int, default `PATIENCE`
        See `PATIENCE`.

    Attributes
    ----------
    moves : RuinAndRecreate
        The cycles.
    rounds : int
        Number of beams and cycles run so far.
    """

    def __init__(
        self,
        interval: Interval,
        seed: int = 0,
        threads: int = 1,
        first_moves: int = FIRST_MOVES,
        most_moves: int = MOST_MOVES,
        patience: int = PATIENCE,
    ) -> None:
        self._interval, self._instance = interval, interval.source
        self._threads, self._patience = threads, patience
        self._shares = first_moves, most_moves
        self._rng = np.random.default_rng(seed)
        self._keys: dict[str, FloatArray] = {}
        self.moves, self.rounds = RuinAndRecreate(self._instance, seed, threads), 0
        in_tokens = self._instance.memory_rule == TOKENS
        self._has_beams = in_tokens and self._instance.replicas == 1
        self._cycles: tuple[CycleSettings, ...] = IN_TOKENS if in_tokens else IN_BLOCKS
        if self._instance.replicas > 1:
            self._cycles = ON_FLEETS
        # Cycles of each kind, annealings of the order and beams, with the latency gained and the
        # moves used; older ones count less.
        self._kinds = len(self._cycles) + 1 + self._has_beams
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
            share = min(self._shares[0] << min(self._times[kind], 40), self._shares[1])
            self._run_kind(kind, share * len(self._instance))
            self._times[kind] += 1
            is_longest = share == self._shares[1]
            fruitless = 0 if interval.upper_bound < before else fruitless + is_longest
            if fruitless >= self._patience and not patient:
                break

    def run_whole(self) -> None:
        """Run whole beams around the relaxation's order, then repeatedly around their results.

        Tails follow for as long as they better the best schedule.
        """
        interval = self._interval
        interval.phase = "search"
        found = [self._whole(self._keys["relaxation"], settings) for settings in GUIDED]
        best = min(
            (schedule for schedule in found if schedule is not None),
            key=lambda schedule: schedule.total_latency,
            default=interval.schedule,
        )
        is_better = True
        while is_better:
            is_better = False
            for settings in AGAIN:
                schedule = self._whole(best.start_times.astype(np.float64), settings)
                if schedule is not None and schedule.total_latency < best.total_latency:
                    best, is_better = schedule, True
        before = None
        while interval.upper_bound != before:
            before = interval.upper_bound
            self._run_kind(self._kinds - 1, FIRST_TAILS * len(self._instance))

    def run_each_part_once(self) -> None:
        """Run the smallest amount of every kind of work, to compile the kernels."""
        self._whole(self._key("volume"), WHOLE[0][1])
        self.moves.cycle(self._cycles[0], 1, never)
        self._anneal_order(1)

    def _offer_shifted(
        self, starts: IntArray, machines: IntArray | None = None
    ) -> Schedule | FleetSchedule:
        moves, interval = self.moves, self._interval
        where = np.zeros_like(starts) if machines is None else machines
        starts, where = moves.shift_left(starts, where, interval.clock.must_stop)
        moves.offer(starts, where)
        schedule = moves.schedule_of(starts, where)
        interval.offer(schedule)
        return schedule

    def _take_best(self) -> None:
        """Let the moves begin from the best schedule of the solve."""
        best = self._interval.schedule
        machines = best.assignment if isinstance(best, FleetSchedule) else None
        self.moves.offer(self._interval.schedule.start_times, machines)

    def _whole(self, key: FloatArray, settings: BeamSettings) -> Schedule | FleetSchedule | None:
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

    def _run_kind(self, kind: int, moves: int) -> None:
        """Run a cycle of so many moves, or the work of as many, and note what it gained."""
        interval = self._interval
        before, made = interval.upper_bound, interval.nodes
        if kind < len(self._cycles):
            self._ruin_and_recreate(self._cycles[kind], moves)
        elif kind == len(self._cycles):
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
        interval, low = self._interval, np.log(ORDER_HEAT[0])
        if len(self._instance) < FEWEST_ORDERED:
            return
        self._take_best()

        def anneal(draw: FloatArray) -> OrderAnnealing:
            hot = float(np.exp(low + draw[0] * (np.log(ORDER_HEAT[1]) - low)))
            state, stop = first_state(int(draw[1] * (1 << 32))), interval.clock.must_stop
            heat, schedule = (hot, ORDER_COLD), (self.moves.starts, self.moves.machines)
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
            choices = int(rng.choice(WIDTHS)), int(rng.choice(CHOICES))
            settings = BeamSettings(*choices, rng.choice(PREFERENCES), rng.choice(EFFICIENCIES))
            moment = int(rng.integers(int(starts.min()), int(starts.max()) + 1))
            found = self._beam(key, settings, int((starts < moment).sum()))
            if found is not None and int(instance.weights @ (found - starts)) < 0:
                self._offer_shifted(found)

    def _draw_kind(self) -> int:
        """Draw every kind once, then by their recent gains per move."""
        priced = len(self._cycles) if self.moves.has_prices else 0
        kinds = [
            k
            for k in range(self._kinds)
            if k < priced or k >= len(self._cycles) or self._cycles[k].weight == 0
        ]
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
            self._keys[ranking] = volume_order_key(self._instance)
        return self._keys[ranking]
