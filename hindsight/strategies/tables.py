"""The strong search: annealed schedules, table prices, and an exact search pruned by them.

Phase after phase, each with twice the work of the one before: anneal schedules
(`hindsight.heuristics.annealing`), improve prices of what runs together
(`hindsight.configurations.ascent`, begun from a few state tables,
`hindsight.configurations.warm_start`), which bound the optimum in exact integers
(`hindsight.configurations.prices`), solve windows of the schedule again under those prices
(`hindsight.exact_search.window_search`), and exhaust growing budgets of total latency
(`hindsight.exact_search.state_search`): an exhausted budget is a proof that no schedule stays
within it, and all of its arithmetic is on integers.

Work is counted in moves, rounds and states, not in seconds, so that a solve that ends with a proof
takes the same course on every machine.
"""

from __future__ import annotations

import numpy as np

from hindsight.configurations.ascent import ConfigurationAscent
from hindsight.configurations.prices import exact_bound
from hindsight.configurations.tables import state_copies
from hindsight.configurations.warm_start import LARGEST_MEMORY_LIMIT, warm_ascent
from hindsight.exact_search.state_search import StateSearch
from hindsight.exact_search.window_search import WindowSearch
from hindsight.heuristics.annealing import LocalSearch
from hindsight.outcomes.solve_state import SolveState
from instances import Instance, Schedule
from instances.arrays import IntArray

LARGEST_PRICE_ARRAY = 20_000_000
"""Entries of the epoch prices, T (M + 1)^2, beyond which this search is not attempted."""

MOVES = 100_000
"""Annealing moves of the first phase."""

MOVE_SLICE = 10_000
"""Moves between two looks at the clock."""

STATES = 150_000
"""States of the exact search in its first phase."""

MOST_STATES = 1_500_000
"""States of one epoch kept at once: bounds memory to about a gigabyte."""

FEW_REQUESTS = 28
"""Requests up to which the exact search has a fair chance of closing the gap: no windows then."""

SEARCH_GROWTH = 3
"""Growth of the exact search from phase to phase on few requests."""

WORTHWHILE_GAIN = 0.001
"""Gain of the root bound, relative to the upper bound, that earns the prices twice the work."""

FIRST_STEP = 0.002
"""First step of the budget above the root bound, relative to the upper bound."""

ASCENT = 60
"""Iterations of the configuration ascent in the first phase."""

FADES = (1.0, 1.0, 0.5, 0.25)
"""Heats and steps of the ascent, by phase, as shares of the first; the last for all later ones."""


def suits(instance: Instance, epochs: int) -> bool:
    """Whether this search can take the instance: its tables have a fair size."""
    entries = (epochs + 1) * (instance.memory_limit + 1) ** 2
    return instance.memory_limit <= LARGEST_MEMORY_LIMIT and entries <= LARGEST_PRICE_ARRAY


class TableSearch:
    """One solve by the phases of this module, feeding an `SolveState`.

    Attributes
    ----------
    root_bound : int or None
        Bound of the prices alone, exact; None before the first prices.
    root_prices : np.ndarray or None
        The epoch prices Q that prove it.
    """

    def __init__(self, interval: SolveState, seed: int, threads: int = 1) -> None:
        instance = interval.instance
        self.interval = interval
        self.instance = instance
        self.root_bound: int | None = None
        self.root_prices: np.ndarray | None = None
        self._threads = threads
        self._capacities: IntArray | None = None
        self._lengths = (
            instance.prompt_lengths,
            instance.output_lengths,
            instance.arrival_times,
        )
        self._annealing = LocalSearch(
            *self._lengths,
            instance.memory_limit,
            interval.schedule.start_times,
            seed=seed,
        )
        self._copies = state_copies(*self._lengths[:2], instance.memory_limit)
        self._search = (
            StateSearch(*self._lengths, instance.memory_limit, MOST_STATES)
            if len(instance) <= StateSearch.max_requests
            else None
        )
        self._windows = WindowSearch(instance, seed)
        self._ascent: ConfigurationAscent | None = None
        self._step = max(1, round(FIRST_STEP * interval.upper_bound))

    def run(self) -> None:
        """Phases until proof, time limit or interruption."""
        interval = self.interval
        moves, price_work, states = MOVES, 1, STATES
        growth = SEARCH_GROWTH if len(self.instance) <= FEW_REQUESTS else 2
        while not interval.is_done():
            interval.phase = "heuristics"
            self._anneal(moves)
            interval.phase = "relaxation"
            gain = 0 if interval.is_done() else self._improve_prices(price_work)
            interval.phase = "windows"
            if len(self.instance) > FEW_REQUESTS and not interval.is_done():
                self._resolve_windows()
            interval.phase = "search"
            if self._search is not None and not interval.is_done():
                self._exhaust(states)
            moves *= 2
            states *= growth
            # Prices that have settled are not worth twice the work; the search is.
            if gain >= WORTHWHILE_GAIN * interval.upper_bound:
                price_work *= 2

    def run_each_part_once(self) -> None:
        """Every kind of work in its smallest amount, proved or not: compiles the kernels."""
        self._anneal(MOVE_SLICE)
        self._improve_prices(1)
        self._resolve_windows()
        if self._search is not None:
            self._search.run(self.interval.upper_bound)

    def _anneal(self, moves: int) -> None:
        done = 0
        while done < moves and not self.interval.must_stop():
            result = self._annealing.run(move_limit=min(MOVE_SLICE, moves - done))
            done += MOVE_SLICE
            if result.total_latency < self.interval.upper_bound:
                self.interval.offer(Schedule(self.instance, result.start_times))

    def _improve_prices(self, work: int) -> int:
        """An ascent, and the exact bound of what results; returns how much the bound gained."""
        before = self.root_bound or 0
        stop = self.interval.must_stop
        if self._ascent is None:
            self._ascent = warm_ascent(
                self.instance,
                self._copies,
                self.interval.schedule.makespan,
                self._threads,
                stop,
            )
        fade = FADES[min(work.bit_length() - 1, len(FADES) - 1)]
        self._ascent.ascend(
            ASCENT * work,
            start_heat=(0.3 * fade, 0.1 * fade),
            configuration_heat=(max(0.05 * fade, 0.03), max(0.03 * fade, 0.01)),
            step=(0.2 * fade, 0.02 * fade),
            should_stop=stop,
        )
        self._prove_root(self._ascent)
        return (self.root_bound or 0) - before

    def _prove_root(self, ascent: ConfigurationAscent) -> None:
        Q, W = ascent.integer_prices()
        bound = exact_bound(Q, *self._lengths, self.instance.memory_limit, self._copies)
        if self._search is not None:
            self._search.set_prices(Q, W)
        if self.root_bound is None or bound > self.root_bound:
            self.root_bound, self.root_prices, self._capacities = bound, Q, W
        self.interval.raise_lower(min(bound, self.interval.upper_bound), certified=True)

    def _resolve_windows(self) -> None:
        """Sweeps of exact windows until one finds nothing."""
        interval = self.interval
        assert self.root_prices is not None
        assert self._capacities is not None
        while not interval.must_stop():
            starts = self._windows.sweep(
                interval.schedule.start_times,
                self.root_prices,
                self._capacities,
                interval.must_stop,
            )
            if not interval.offer(Schedule(self.instance, starts)):
                return

    def _exhaust(self, states: int) -> None:
        """Exhaust growing budgets until ``states`` are spent; the first step adapts."""
        assert self._search is not None
        interval = self.interval
        step = self._step
        while states > 0 and not interval.is_done():
            budget = min(interval.lower_bound + step - 1, interval.upper_bound - 1)
            outcome = self._search.run(budget, should_stop=interval.must_stop, state_limit=states)
            states -= outcome.states
            interval.nodes += outcome.states
            if outcome.start_times is not None:
                interval.offer(Schedule(self.instance, outcome.start_times))
            if outcome.status != "exhausted":
                self._step = max(1, step // 3)
                return
            # Within the budget nothing is left but, maybe, the optimum just found.
            proved = budget + 1 if outcome.start_times is None else interval.upper_bound
            interval.raise_lower(min(proved, interval.upper_bound), certified=True)
            self._step = step
            step *= 2
