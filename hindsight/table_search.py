"""The strong search: annealed schedules, table prices, and an exact search pruned by them.

Phase after phase, each with twice the work of the one before: anneal schedules
(`hindsight.local_search`), improve the prices of state tables (`hindsight.dual_ascent`,
`hindsight.table_separation`), which bound the optimum in exact integers (`hindsight.epoch_prices`),
and exhaust growing budgets of total latency (`hindsight.state_search`): an exhausted budget is a
proof that no schedule stays within it, and all of its arithmetic is on integers.

Work is counted in moves, rounds and states, not in seconds, so that a solve that ends with a proof
takes the same course on every machine.
"""

from __future__ import annotations

import numpy as np

from instances import Instance, Schedule

from .dual_ascent import DualAscent
from .epoch_prices import epoch_prices, exact_bound
from .interval import Interval
from .local_search import LocalSearch
from .optional_numba import HAVE_NUMBA
from .state_search import StateSearch
from .state_tables import (
    StateTable,
    core_table,
    lift,
    memory_table,
    state_copies,
)
from .table_separation import TableSeparator

LARGEST_MEMORY_LIMIT = 255
"""Tables have (M + 1)^2 entries, and their dynamic programs M^3 steps and more."""

LARGEST_PRICE_ARRAY = 20_000_000
"""Entries of the epoch prices, T (M + 1)^2, beyond which this search is not attempted."""

MOVES = 100_000
"""Annealing moves of the first phase."""

MOVE_SLICE = 10_000
"""Moves between two looks at the clock."""

STATES = 60_000
"""States of the exact search in its first phase."""

MOST_STATES = 1_500_000
"""States of one epoch kept at once: bounds memory to about a gigabyte."""

SEPARATION_EPOCHS = 9
"""Epochs that tables are separated from in a round."""

TABLES_A_ROUND = 3
"""Tables kept of those separated in a round."""

SMALL_GAP = 0.02
"""Relative gap from which the exact search is worth trying on many requests."""

FEW_REQUESTS = 28
"""Requests up to which the exact search is worth trying at any gap."""


def suits(instance: Instance, epochs: int) -> bool:
    """Whether this search can take the instance: compiled kernels, and tables of a fair size."""
    entries = (epochs + 1) * (instance.memory_limit + 1) ** 2
    return (
        HAVE_NUMBA
        and instance.memory_limit <= LARGEST_MEMORY_LIMIT
        and entries <= LARGEST_PRICE_ARRAY
    )


class TableSearch:
    """One solve by the phases of this module, feeding an `Interval`.

    Attributes
    ----------
    root_bound : bound of the prices alone, exact; None before the first prices.
    root_prices : the epoch prices Q that prove it.
    proof_prices : the prices under which the last budget was exhausted, or None.
    """

    def __init__(self, interval: Interval, seed: int) -> None:
        instance = interval.instance
        self.interval = interval
        self.instance = instance
        self.root_bound: int | None = None
        self.root_prices: np.ndarray | None = None
        self.proof_prices: np.ndarray | None = None
        self._rng = np.random.default_rng(seed)
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
        self._dual = DualAscent(
            *self._lengths,
            self._copies,
            interval.schedule.makespan + 1,
            self._first_tables(),
        )
        self._separator = TableSeparator(self._copies, instance.memory_limit)
        self._search = (
            StateSearch(*self._lengths, instance.memory_limit, MOST_STATES)
            if len(instance) <= StateSearch.max_requests
            else None
        )
        self._share = 0.4

    def run(self) -> None:
        """Phases until proof, time limit or interruption."""
        phase = 0
        while not self.interval.is_done():
            work = 2**phase
            self.interval.phase = "heuristics"
            self._anneal(MOVES * work)
            self.interval.phase = "relaxation"
            if not self.interval.is_done():
                self._improve_prices(work)
            self.interval.phase = "search"
            if not self.interval.is_done() and self._search_is_worthwhile():
                self._exhaust(STATES * work)
            phase += 1

    def _first_tables(self) -> list[StateTable]:
        """The memory constraint and the pairwise cores of every prompt length, lifted."""
        limit = self.instance.memory_limit
        sigmas = sorted({*self.instance.prompt_lengths.tolist(), 1} - {0})
        tables = [memory_table(limit), *(core_table(sigma, limit) for sigma in sigmas)]
        return [
            StateTable(
                lift(table.coefficients, table.capacity, self._copies, limit),
                table.capacity,
                table.name,
            )
            for table in tables
        ]

    def _anneal(self, moves: int) -> None:
        done = 0
        while done < moves and not self.interval.must_stop():
            result = self._annealing.run(move_limit=min(MOVE_SLICE, moves - done))
            done += MOVE_SLICE
            if result.total_latency < self.interval.upper_bound:
                self.interval.offer(Schedule(self.instance, result.start_times))

    def _improve_prices(self, rounds: int) -> None:
        """Rounds of separation and ascent, a polish, and the exact bound of what results."""
        interval, dual = self.interval, self._dual
        count = len(self.instance)
        if dual.best_bound == -np.inf:
            dual.ascend(
                500, (4.0 + 0.1 * count, 0.1), (0.5 + 0.03 * count, 0.02), interval.must_stop
            )
        for _ in range(rounds):
            if interval.must_stop():
                break
            self._separate()
            dual.ascend(200, (0.5, 0.1), (0.1, 0.01), interval.must_stop)
        if not interval.must_stop():
            dual.ascend(100 + 100 * rounds, (0.3, 0.03), (0.05, 0.002), interval.must_stop)
        self._prove_root()

    def _separate(self) -> None:
        mass = self._dual.masses()
        busy = mass.sum(axis=(1, 2)) > 0.5
        last = int(np.flatnonzero(busy).max(initial=0)) + 1
        found: list[tuple[StateTable, float]] = []
        for epoch in self._rng.permutation(last)[:SEPARATION_EPOCHS]:
            if self.interval.must_stop():
                return
            cut = self._separator.separate(mass, int(epoch))
            if cut is not None:
                found.append(cut)
        found.sort(key=lambda cut: -cut[1])
        self._dual.drop_slack()
        self._dual.add([table for table, _ in found[:TABLES_A_ROUND]])

    def _prove_root(self) -> None:
        tables, prices = self._dual.best
        Q, W = epoch_prices(
            np.array([table.coefficients for table in tables]),
            np.array([table.capacity for table in tables]),
            prices,
            self._copies,
        )
        bound = exact_bound(Q, *self._lengths, self.instance.memory_limit, self._copies)
        if self._search is not None:
            self._search.set_prices(Q, W)
        if self.root_bound is None or bound > self.root_bound:
            self.root_bound, self.root_prices = bound, Q
        self.interval.raise_lower(min(bound, self.interval.upper_bound), certified=True)

    def _search_is_worthwhile(self) -> bool:
        interval = self.interval
        gap = (interval.upper_bound - interval.lower_bound) / interval.upper_bound
        return self._search is not None and (
            len(self.instance) <= FEW_REQUESTS or gap <= SMALL_GAP
        )

    def _exhaust(self, states: int) -> None:
        """Exhaust a share of the gap, then all of it; the share shrinks where it was too much."""
        assert self._search is not None
        interval = self.interval
        for share in (self._share, 1.0):
            if interval.is_done():
                return
            gap = interval.upper_bound - interval.lower_bound
            budget = interval.lower_bound + int(share * gap)
            budget = min(budget, interval.upper_bound - 1)
            outcome = self._search.run(
                budget, should_stop=interval.must_stop, state_limit=states
            )
            interval.nodes += outcome.states
            if outcome.start_times is not None:
                interval.offer(Schedule(self.instance, outcome.start_times))
            if outcome.status != "exhausted":
                if share < 1.0:
                    self._share *= 0.5
                return
            self.proof_prices = self._search.epoch_prices
            # Within the budget nothing is left but, maybe, the optimum just found.
            proved = budget + 1 if outcome.start_times is None else interval.upper_bound
            interval.raise_lower(min(proved, interval.upper_bound), certified=True)
