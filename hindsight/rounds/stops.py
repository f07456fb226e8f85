"""Bounds on the preemptive optimum of total latency.

*Upper bounds* come from list schedules without preemption, then from annealed orders and from beams
of the state search. *Lower bounds*, all in exact integers, come from output lengths and mean busy
times (`hindsight.rounds.openings`), then from memory prices per token, from tables of prices if
these are small enough, and from the state search within growing budgets. All lower bounds are for
the single-machine relaxation, in which every schedule of the problem is feasible. With two threads,
orders are annealed in the second one.

Orders are annealed for each replica separately, among the requests that the best schedule without
preemption assigns to it. For memory in blocks they are annealed in a stricter instance in tokens,
whose schedules all fit the blocks (`instances.problem.memory_translation.restricted`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hindsight.exact.stops import PreemptiveSearch
from hindsight.outcomes.interval import Interval
from hindsight.prices.ascent import Stage, ascend
from hindsight.prices.stops import (
    SETTINGS,
    PreemptivePrices,
    preemptive_price_bound,
    round_preemptive_prices,
    smooth_bound,
)
from hindsight.prices.volume import fill_by_volume, filling_prices
from hindsight.runtime.beside import Beside
from hindsight.runtime.clock import SLICE_SECONDS
from hindsight.runtime.search import Search
from hindsight.schedules.orders import PreemptiveOrders
from instances import FleetSchedule, PreemptiveSchedule
from instances.arrays import FloatArray
from instances.problem.memory_translation import restricted

from .openings import in_source

LONGEST_OUTPUT = 30_000
"""Largest output length for the state search, which stores emitted tokens in 16 bits."""

LARGEST_ORDER_WORK = 10_000_000
"""Most rounds, and most output tokens, for which orders are annealed and prices improved."""

LARGEST_PRICE_WORK = 400_000_000
"""Most (rounds) x (output tokens) for which memory prices are evaluated: this cannot be interrupted
and takes about a second."""

LARGEST_TABLE_WORK = 100_000_000
"""Most (rounds) x (memory limit) x (output tokens) for which price tables are used."""

SLICE_TOKENS, MOST_MOVES = 3_000_000, 100_000
"""Tokens placed in one annealing run, about a tenth of a second, and the most moves of a run. There
are 2^k runs in phase k."""

COLDEST = 0.3
"""Last temperature of an annealing run, in rounds. The first one is the mean output length."""

ASCENT, HEAT = 200, 0.03
"""Ascent steps in the first phase, and its first temperature and step size, in rounds. Each later
phase has twice as many steps at half the temperature. At a temperature of 1, an ascent loses more
than the first prices prove."""

BEAM, STATES, MOST_STATES = 300, 20_000, 2_000_000
"""Most states per round: in the beam of the first phase, in its exact search, and in any search."""

PHASES, MOST_PHASES = 6, 64
"""Number of phases that improve prices, and most phases in all. A solve ends earlier if its state
search runs out of memory."""


class Preemptive:
    """Solver by annealed orders, prices, and an exact search pruned by the prices, in phases.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve. It already has a schedule.
    search : Search
        Options of the solve.
    """

    def __init__(self, interval: Interval, search: Search) -> None:
        self._interval, self._below = interval, interval.problem.below
        self._table: FloatArray | None = None
        self._search: PreemptiveSearch | None = None
        self._above: PreemptiveSearch | None = None
        self._linear: PreemptivePrices | None = None
        self._step, self._threads, self._has_optimum_below = 1, search.cores, False
        self._must_stop: Callable[[], bool] = interval.clock.must_stop
        self._seed = search.seed

    def run(self) -> None:
        """Run all phases until the bounds meet, the solve must stop, or no phase gains anything."""
        interval, below = self._interval, self._below
        last, tokens = interval.schedule.makespan, int(below.output_lengths.sum())
        if max(last, tokens) > LARGEST_ORDER_WORK:
            interval.note_stop()
            return
        self._orders = _Orders(interval, self._seed)
        self._anneal(1)
        self._linear_prices()
        has_tables = (
            last * tokens * below.memory_limit <= LARGEST_TABLE_WORK
            and int(below.output_lengths.max()) <= LONGEST_OUTPUT
        )
        if not has_tables:
            for phase in range(1, PHASES):
                self._anneal(2**phase)
            interval.note_stop()
        elif self._threads == 1:
            self._close(anneals=True)
        else:
            beside: Beside[Any] = Beside(self._anneal_beside, interval.offer)
            self._must_stop = partial(beside.take_then, interval.is_done)
            with beside.running():
                self._close(anneals=False)
                while self._has_optimum_below and interval.clock.limit_left() is not None:
                    if interval.is_done() or beside.ends_within(SLICE_SECONDS):
                        break
                    beside.take()
            if self._has_optimum_below and interval.clock.limit_left() is None:
                for phase in range(1, PHASES):
                    self._anneal(2**phase)
            interval.is_done()

    def _close(self, *, anneals: bool) -> None:
        """Run phases: anneal orders if ``anneals``, improve price tables, search states."""
        interval = self._interval
        for phase in range(MOST_PHASES):
            if interval.is_done():
                return
            if phase and anneals:
                self._anneal(2**phase)
            if phase < PHASES and not self._has_optimum_below:
                self._improve_prices(2**phase)
            if not self._exhaust(phase):
                interval.stop_reason = "size"
                return
            if self._has_optimum_below and interval.clock.limit_left() is None and phase >= PHASES:
                break
        interval.note_stop()

    def run_each_part_once(self) -> None:
        """Run a minimal amount of every kind of work, to compile the kernels."""
        below = self._below
        self._orders = _Orders(self._interval, self._seed)
        self._anneal(1)
        self._linear_prices()
        rounds, limit = self._interval.schedule.makespan, below.memory_limit
        stage = Stage(2, (1.0, 1.0), (1.0, 1.0))
        dual = partial(smooth_bound, below.columns)
        table = ascend(dual, np.zeros((rounds + 1, limit + 1)), (stage,))
        prices = round_preemptive_prices(table)
        preemptive_price_bound(below, prices)
        search = PreemptiveSearch(below, prices)
        search.run(self._interval.upper_bound, 100, self._interval.clock.must_stop)

    def _anneal(self, work: int) -> None:
        self._interval.phase = "heuristics"
        for _ in range(work):
            if self._interval.is_done():
                return
            self._interval.offer(self._orders.anneal())

    def _anneal_beside(self, found: Callable[[Any], object], must_stop: Callable[[], bool]) -> None:
        """Anneal orders in a second thread, while the first one computes lower bounds."""
        least = self._interval.upper_bound
        while not must_stop():
            schedule = self._orders.anneal()
            if schedule.total_latency < least:
                least = schedule.total_latency
                found(schedule)

    def _linear_prices(self) -> None:
        if self._interval.is_done():
            return
        self._interval.phase = "relaxation"
        last = int(self._below.arrival_times.max())
        prices = filling_prices(fill_by_volume(self._below))
        column = np.zeros((max(last, len(prices)) + 1, 1))
        column[1 : len(prices) + 1, 0] = prices
        if len(column) * int(self._below.output_lengths.sum()) <= LARGEST_PRICE_WORK:
            self._linear = round_preemptive_prices(column)
            self._prove_root(self._linear)

    def _improve_prices(self, work: int) -> None:
        interval, below = self._interval, self._below
        if interval.is_done():
            return
        interval.phase = "relaxation"
        if self._table is None:
            prices = filling_prices(fill_by_volume(below))
            rounds, states = max(len(prices), interval.schedule.makespan), below.memory_limit + 1
            self._table = np.zeros((rounds + 1, states))
            self._table[1 : len(prices) + 1] = prices[:, None] * np.arange(states)
        heat = HEAT / work
        stage = Stage(ASCENT * work, (heat, 0.2 * heat), (heat, 0.05 * heat))
        dual, stop = partial(smooth_bound, below.columns), self._must_stop
        self._table = ascend(dual, self._table, (stage,), must_stop=stop, settings=SETTINGS)
        rounded = round_preemptive_prices(self._table)
        before = interval.lower_bound
        self._prove_root(rounded)
        if self._search is None or interval.lower_bound > before:
            self._search = PreemptiveSearch(below, rounded)

    def _prove_root(self, prices: PreemptivePrices) -> None:
        bound = preemptive_price_bound(self._below, prices)
        self._interval.prove(bound, "preemptive prices", proof=prices)

    def _exhaust(self, phase: int) -> bool:
        """Run a beam, then exact searches within growing budgets; False if memory runs out."""
        interval = self._interval
        if interval.is_done() or self._search is None or self._has_optimum_below:
            return True
        interval.phase = "search"
        stop, most = self._must_stop, min(STATES << 2 * phase, MOST_STATES)
        beam = self._search if interval.problem.is_plain else self._search_above()
        if beam is not None:
            width = min(BEAM << phase, MOST_STATES)
            found = beam.run(interval.upper_bound - 1, MOST_STATES, stop, width=width)
            interval.nodes += found.states
            if found.found is not None:
                interval.offer(in_source(found.found, interval.source))
        while not (interval.is_done() or self._has_optimum_below):
            budget = min(interval.lower_bound + self._step - 1, interval.upper_bound - 1)
            outcome = self._search.run(budget, most, stop)
            interval.nodes += outcome.states
            if outcome.status != "exhausted":
                self._step = max(1, self._step // 4)
                return most < MOST_STATES or outcome.status == "stopped"
            if outcome.found is None:
                interval.prove(budget + 1, "state search")
            else:
                self._take_optimum(outcome.found)
            self._step *= 2
        return True

    def _search_above(self) -> PreemptiveSearch | None:
        """Return the search of the instance in tokens whose schedules fit the blocks."""
        source = self._interval.source
        if self._above is None and self._linear is not None and source.replicas == 1:
            self._above = PreemptiveSearch(restricted(source), self._linear)
        return self._above

    def _take_optimum(self, found: PreemptiveSchedule) -> None:
        """Record the optimum of the relaxation as lower bound; offer its schedule if feasible."""
        interval = self._interval
        if interval.source.replicas == 1:
            here = in_source(found, interval.source)
            if here.is_feasible:
                interval.offer(here)
        interval.prove(found.total_latency, "state search")
        self._has_optimum_below = True


class _Orders:
    """Annealing of the order of the requests on each replica."""

    def __init__(self, interval: Interval, seed: int) -> None:
        source, best = interval.source, interval.schedule
        self._source = source
        assignment = getattr(best, "assignment", np.zeros(len(source), np.int64))
        self._assignment, self._parts = assignment, list(getattr(best, "parts", [best]))
        self._busy = [k for k, part in enumerate(self._parts) if part is not None]
        self._machines = [source.alone(np.flatnonzero(assignment == k)) for k in self._busy]
        self._orders = [PreemptiveOrders(restricted(one), seed) for one in self._machines]
        self._turn = 0

    def anneal(self) -> PreemptiveSchedule | FleetSchedule:
        """Anneal the order on the next replica; return the schedule with the best orders so far."""
        turn = self._turn
        self._turn = (turn + 1) % len(self._busy)
        machine, k = self._machines[turn], self._busy[turn]
        tokens = int(machine.output_lengths.sum())
        moves = max(1, min(MOST_MOVES, SLICE_TOKENS // tokens))
        hot = float(machine.output_lengths.mean())
        found: PreemptiveSchedule = in_source(
            self._orders[turn].anneal(moves, hot, COLDEST), machine
        )
        if self._source.replicas == 1:
            return PreemptiveSchedule.moved(found, self._source, np.zeros_like(found.start_times))
        if found.total_latency < self._parts[k].total_latency:
            self._parts[k] = found
        parts = list(self._parts)
        return FleetSchedule(self._source, self._assignment, parts)
