"""The interval around the preemptive optimum.

*Upper bounds*: annealed orders and beams of the state search, after the list schedules without
preemption. *Lower bounds*, all in exact integers: prices a token, tables of prices where they are
small enough, and the state search under growing budgets, after output lengths and mean busy times
(`hindsight.strategies.openings`). With two threads orders are annealed beside the bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from hindsight.exact.stops import PreemptiveSearch
from hindsight.outcomes.goals import PREEMPTIVE, Optimum
from hindsight.outcomes.interval import Interval
from hindsight.prices.ascent import Stage, ascend
from hindsight.prices.stops import (
    PreemptivePrices,
    StopDual,
    preemptive_price_bound,
    round_preemptive_prices,
)
from hindsight.prices.volume import fill_by_volume, filling_prices
from hindsight.runtime.beside import Beside
from hindsight.schedules.orders import PreemptiveOrders
from instances import PreemptiveSchedule
from instances.arrays import FloatArray

from .strategy import Problem, Strategy

LONGEST_OUTPUT = 30_000
"""Largest output length, as progress is stored in 16 bits."""


@dataclass(frozen=True)
class Preemptive(Strategy):
    """Annealed orders, prices of rounds, and an exact search that they prune, in phases.

    Attributes
    ----------
    largest_order_work : int, default 10_000_000
        Most rounds, and tokens, for which orders are annealed and prices ascended.
    largest_price_work : int, default 400_000_000
        Most (rounds) x (output tokens) for which prices of rounds are evaluated, which cannot be
        interrupted: about a second.
    largest_table_work : int, default 100_000_000
        Most (rounds) x (memory limit) x (output tokens) for which there are price tables.
    slice_tokens : int, default 3_000_000
        Tokens placed by one annealing; phase k has 2^k times as many. Compiled, about a tenth of a
        second.
    most_moves : int, default 100_000
        Most moves of one annealing.
    coldest : float, default 0.3
        Last temperature of an annealing, in rounds; the first is the mean output length.
    ascent : int, default 200
        Steps of the ascent in the first phase; each phase has twice as many.
    heat : float, default 0.03
        First temperature, in rounds, and first step of the ascent in the first phase; halved from
        phase to phase. At a heat of 1 an ascent loses more than the first prices prove.
    beam : int, default 300
        States of one round that the beam of the first phase keeps.
    states : int, default 20_000
        States of one round that the exact search of the first phase keeps.
    most_states : int, default 2_000_000
        States of one round that fit into memory.
    phases : int, default 6
        Phases after which prices stay fixed; a solve then ends if its state search cannot go on.
    most_phases : int, default 64
        Phases after which every solve ends.
    """

    largest_order_work: int = 10_000_000
    largest_price_work: int = 400_000_000
    largest_table_work: int = 100_000_000
    slice_tokens: int = 3_000_000
    most_moves: int = 100_000
    coldest: float = 0.3
    ascent: int = 200
    heat: float = 0.03
    beam: int = 300
    states: int = 20_000
    most_states: int = 2_000_000
    phases: int = 6
    most_phases: int = 64

    name: ClassVar[str] = "preemptive"
    objectives: ClassVar[tuple[Optimum, ...]] = (PREEMPTIVE,)

    def run(self, problem: Problem, state: Interval) -> None:
        """Run phases until proof, time limit or interruption, or until nothing here goes on."""
        PreemptivePhases(state, problem.seed, self, problem.cores).run()


class PreemptivePhases:
    """Solve by the phases of this module, which improves a `Interval` with a schedule."""

    def __init__(
        self,
        state: Interval,
        seed: int = 0,
        parameters: Preemptive | None = None,
        threads: int = 1,
    ) -> None:
        self._interval = state
        self._instance = state.problem
        self._parameters = parameters or Preemptive()
        self._seed = seed
        self._table: FloatArray | None = None
        self._search: PreemptiveSearch | None = None
        self._step = 1
        self._threads = threads
        self._must_stop: Callable[[], bool] = state.clock.must_stop

    def run(self) -> None:
        """Run all phases until proof, time limit or interruption."""
        interval, parameters = self._interval, self._parameters
        if interval.is_done():
            return
        last, tokens = interval.schedule.makespan, int(self._instance.output_lengths.sum())
        if max(last, tokens) > parameters.largest_order_work:
            interval.note_stop()
            return
        orders = PreemptiveOrders(self._instance, self._seed)
        self._anneal(orders, 1)
        self._linear_prices()
        has_tables = (
            last * tokens * self._instance.memory_limit <= parameters.largest_table_work
            and int(self._instance.output_lengths.max()) <= LONGEST_OUTPUT
        )
        if not has_tables:
            for phase in range(1, parameters.phases):
                self._anneal(orders, 2**phase)
            interval.note_stop()
        elif self._threads == 1:
            self._close(orders)
        else:
            beside = Beside(partial(self._anneal_beside, orders), interval.offer)
            self._must_stop = partial(beside.take_then, interval.is_done)
            with beside.running():
                self._close(None)
            interval.is_done()

    def _close(self, orders: PreemptiveOrders | None) -> None:
        """Run phases of annealed orders, unless None, prices of tables and the state search."""
        interval, parameters = self._interval, self._parameters
        for phase in range(parameters.most_phases):
            if interval.is_done():
                return
            if phase and orders is not None:
                self._anneal(orders, 2**phase)
            if phase < parameters.phases:
                self._improve_prices(2**phase)
            if not self._exhaust(phase):
                interval.stop_reason = "size"
                return
        interval.note_stop()

    def run_each_part_once(self) -> None:
        """Run the smallest amount of every kind of work, to compile the kernels."""
        instance = self._instance
        self._interval.offer(PreemptiveOrders(instance, self._seed).anneal(10, 1.0, 0.3))
        self._linear_prices()
        rounds, limit = self._interval.schedule.makespan, instance.memory_limit
        stage = Stage(2, (1.0, 1.0), (1.0, 1.0))
        table = ascend(StopDual(instance, rounds), np.zeros((rounds + 1, limit + 1)), (stage,))
        prices = round_preemptive_prices(table)
        preemptive_price_bound(instance, prices)
        search = PreemptiveSearch(instance, prices)
        search.run(self._interval.upper_bound, 100, self._interval.clock.must_stop)

    def _anneal(self, orders: PreemptiveOrders, work: int) -> None:
        self._interval.phase = "heuristics"
        for _ in range(work):
            if self._interval.is_done():
                return
            self._interval.offer(self._annealed(orders))

    def _annealed(self, orders: PreemptiveOrders) -> PreemptiveSchedule:
        tokens = int(self._instance.output_lengths.sum())
        moves = max(1, min(self._parameters.most_moves, self._parameters.slice_tokens // tokens))
        hot = float(self._instance.output_lengths.mean())
        return orders.anneal(moves, hot, self._parameters.coldest)

    def _anneal_beside(
        self,
        orders: PreemptiveOrders,
        found: Callable[[PreemptiveSchedule], object],
        must_stop: Callable[[], bool],
    ) -> None:
        """Anneal in a thread beside that of the prices and the state search."""
        least = self._interval.upper_bound
        while not must_stop():
            schedule = self._annealed(orders)
            if schedule.total_latency < least:
                least = schedule.total_latency
                found(schedule)

    def _linear_prices(self) -> None:
        if self._interval.is_done():
            return
        self._interval.phase = "relaxation"
        last = int(self._instance.arrival_times.max())
        prices = filling_prices(fill_by_volume(self._instance))
        column = np.zeros((max(last, len(prices)) + 1, 1))
        column[1 : len(prices) + 1, 0] = prices
        work = len(column) * int(self._instance.output_lengths.sum())
        if work <= self._parameters.largest_price_work:
            self._prove_root(round_preemptive_prices(column))

    def _improve_prices(self, work: int) -> None:
        interval, instance = self._interval, self._instance
        if interval.is_done():
            return
        interval.phase = "relaxation"
        if self._table is None:
            prices = filling_prices(fill_by_volume(instance))
            rounds = max(len(prices), interval.schedule.makespan)
            self._table = np.zeros((rounds + 1, instance.memory_limit + 1))
            self._table[1 : len(prices) + 1] = prices[:, None] * np.arange(
                instance.memory_limit + 1
            )
        heat = self._parameters.heat / work
        stage = Stage(self._parameters.ascent * work, (heat, 0.2 * heat), (heat, 0.05 * heat))
        dual = StopDual(instance, len(self._table) - 1)
        stop, settings = self._must_stop, StopDual.settings
        self._table = ascend(dual, self._table, (stage,), must_stop=stop, settings=settings)
        rounded = round_preemptive_prices(self._table)
        before = interval.lower_bound
        self._prove_root(rounded)
        if self._search is None or interval.lower_bound > before:
            self._search = PreemptiveSearch(instance, rounded)

    def _prove_root(self, prices: PreemptivePrices) -> None:
        bound = preemptive_price_bound(self._instance, prices)
        self._interval.prove(bound, "preemptive prices", proof=prices)

    def _exhaust(self, phase: int) -> bool:
        """Run a beam, and growing budgets while they are exhausted; False if memory is short."""
        interval = self._interval
        if interval.is_done() or self._search is None:
            return True
        interval.phase = "search"
        at_once = self._parameters.most_states
        width = min(self._parameters.beam << phase, at_once)
        most = min(self._parameters.states << 2 * phase, at_once)
        stop = self._must_stop
        found = self._search.run(interval.upper_bound - 1, at_once, stop, width=width)
        interval.nodes += found.states
        if found.found is not None:
            interval.offer(found.found)
        while not interval.is_done():
            budget = min(interval.lower_bound + self._step - 1, interval.upper_bound - 1)
            outcome = self._search.run(budget, most, stop)
            interval.nodes += outcome.states
            if outcome.status != "exhausted":
                self._step = max(1, self._step // 4)
                return most < at_once or outcome.status == "stopped"
            if outcome.found is not None:
                interval.offer(outcome.found)
                interval.prove(outcome.found.total_latency, "state search")
            else:
                interval.prove(budget + 1, "state search")
            self._step *= 2
        return True
