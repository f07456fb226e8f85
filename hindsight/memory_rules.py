"""Optima under memory rules that count blocks, or store the newest token later.

With blocks of one token the instance *is* one in tokens (`instances.problem.memory_translation`)
and is solved as that, exactly. With larger blocks there is one in tokens below it and one above:

- *Lower bounds*, and what proves them, are those of the instance below. Every schedule in blocks is
  one of its schedules, so no bound of it exceeds the optimum in blocks; the same holds of
  schedules that may stop requests, and of the makespan, because the schedules are the same.
- *Schedules* are a list schedule of the instance above, which fits the blocks, and the orders of
  those of the instance below, placed in blocks. Then they are improved in blocks
  (`hindsight.schedules.improving`), and every one is checked in them. Of the makespan, and of
  schedules that may stop requests, they are all those of the instance above.
- *Graphs of paths* (`hindsight.paths`) are built in blocks, under prices of the instance below:
  they prove more than it can, and with every request followed their paths are schedules in blocks.
- *Small instances* are proved by the integer program with the blocks as coefficients. It contains
  each start that a schedule at least as good as the best one known can use: a start whose priced
  cost in the instance below exceeds the cheapest by more than the gap belongs to worse schedules
  of the instance below, so to worse schedules in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from instances import Instance
from instances.problem.memory_translation import relaxed, restricted
from instances.problem.preemptive_schedule import AnySchedule

from .exact.starts import start_sets
from .outcomes.interval import Interval
from .outcomes.result import Progress, Result
from .prices.state_ascent import LARGEST_MEMORY_LIMIT
from .prices.state_proofs import StatePrices
from .prices.state_tables import state_copies
from .prices.states import exact_bound, integer_capacities
from .rounds import Task, solve_rounds
from .runtime.cores import available_cores
from .runtime.search import Search
from .schedules.improving import Improvement
from .schedules.lists import best_list_schedule
from .strategies.paths import GraphSearch, Paths
from .strategies.program import search_program, starts_by_relaxation
from .strategies.strategy import Problem

SHARE_OF_BOUNDS, SHARE_OF_SCHEDULES = 0.45, 0.4
"""Shares of the time left: for the instance below, and of other goals than latency for the one
above."""

SHARE_BEFORE_GRAPHS = 0.3
"""The same where graphs of paths in blocks may follow: these gain more in the same time."""


SHARE_OF_MOVES = 0.5
"""Share of the time left for schedules in blocks, before graphs and the integer program."""

PATIENCE = 12
"""Cycles without a better schedule that end the search for them without a time limit."""


def with_instance(schedule: AnySchedule, instance: Instance) -> AnySchedule:
    """Return the same rounds as a schedule of another instance with the same outputs."""
    return schedule.moved(instance, np.zeros(len(instance), dtype=np.int64))


def solve_by_memory_rule(instance: Instance, task: Task, search: Search) -> Result:
    """Solve an instance whose memory is not counted in tokens; see the module docstring.

    Parameters
    ----------
    instance : Instance
        The problem.
    task : Task
        The task, checked; it has no user-defined bounds.
    search : Search
        The search options, checked.
    """
    if instance.memory_rule.block_size == 1:
        below = relaxed(instance)
        found = solve_rounds(below, task, replace(search, start=_moved(search.start, below)))
        schedule = with_instance(found.schedule, instance)
        return replace(found, problem=instance, schedule=schedule)
    with search.clock.listening():
        blocks = _BlockSearch(instance, task, search)
        with blocks.state.kept_when_interrupted():
            blocks.run()
        return blocks.result()


def run_makespan(task: Task, problem: Problem, state: Interval) -> None:
    """Close the interval around the least makespan by the integer program, as far as time allows.

    The program is the one of the instance itself, with its replicas and blocks.
    """
    for strategy in task.strategies:
        strategy.run(problem, state)


def _moved(start: AnySchedule | None, instance: Instance) -> AnySchedule | None:
    return None if start is None else with_instance(start, instance)


class _BlockSearch:
    """Solve in blocks that reports its results to an `Interval`."""

    def __init__(self, instance: Instance, task: Task, search: Search) -> None:
        self.state = Interval(instance, *task.about, search.clock, search.progress, search.gap)
        self._task = task
        self._options = search
        self._instance = instance
        self._below = relaxed(instance)
        self._blocks = Improvement(self.state, search.seed, search.threads or 1)

    def run(self) -> None:
        """Take bounds from below and schedules from above, then search in blocks for both."""
        state, instance, start = self.state, self._instance, self._options.start
        if start is not None:
            state.offer(start)
        above = restricted(instance)
        state.offer(
            with_instance(best_list_schedule(above, should_stop=state.clock.must_stop), instance)
        )
        state.prove(instance.total_output_length if self._is_latency else 0, "output lengths")
        state.phase = "relaxation"
        share = SHARE_OF_BOUNDS
        if self._is_latency and self._below.memory_limit <= LARGEST_MEMORY_LIMIT:
            share = SHARE_BEFORE_GRAPHS
        below = self._in_tokens(
            self._below, share, _moved(start, self._below), state.follow("memory in tokens")
        )
        state.take_bounds(below)
        state.phase = "heuristics"
        self._try(below.schedule)
        if state.is_done():
            return
        if state.optimum != "latency":
            self._try(self._in_tokens(above, SHARE_OF_SCHEDULES).schedule)
        else:
            left = state.clock.limit_left()
            with state.clock.within(math.inf if left is None else SHARE_OF_MOVES * left):
                self._improve(PATIENCE if left is None else math.inf)
            if not state.is_done():
                self._follow_paths(below)
            if not state.is_done():
                self._search(below)
            if not state.is_done() and state.clock.limit_left() is not None:
                self._improve(math.inf)
        if state.optimum == "makespan":
            options = self._options
            problem = Problem(instance, self._task.goal, None, options.threads, options.seed)
            run_makespan(self._task, problem, state)
        state.is_done()

    @property
    def _is_latency(self) -> bool:
        return self.state.optimum != "makespan"

    def _in_tokens(
        self,
        instance: Instance,
        share: float,
        start: AnySchedule | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Result:
        """Solve an instance in tokens with a share of the time left."""
        left = self.state.clock.limit_left()
        limit = None if left is None else share * left
        return solve_rounds(instance, self._task, self._options.part(limit, start, progress))

    def _try(self, schedule: AnySchedule) -> None:
        """Offer a schedule in tokens if it fits the blocks, and its order placed in blocks."""
        there = with_instance(schedule, self._instance)
        if there.is_feasible:
            self.state.offer(there)
        if self._blocks.moves.place(np.argsort(schedule.start_times, kind="stable")):
            self.state.offer(self._blocks.moves.schedule)

    def _improve(self, patience: float = PATIENCE) -> None:
        state = self.state
        fruitless = 0
        while fruitless < patience and not (state.is_done() or self._blocks.moves.is_too_long):
            before = state.upper_bound
            self._blocks.run(1, patient=True)
            fruitless = 0 if state.upper_bound < before else fruitless + 1

    def _follow_paths(self, below: Result) -> None:
        """Build graphs of paths in blocks under the prices below."""
        paths = next((one for one in self._task.strategies if isinstance(one, Paths)), None)
        prices = below.proof and below.proof.steps[0]
        if paths is None or not isinstance(prices, StatePrices):
            return
        state, (s, o, _, limit) = self.state, self._below.columns
        state.phase = "search"
        Q, W = prices.prices, integer_capacities(prices.prices, state_copies(s, o, limit))
        # Graphs are as large as their limits are far from what the prices alone prove.
        state.root_bound = exact_bound(Q, self._below)
        graphs = GraphSearch(state, paths, self._options.threads or available_cores())
        graphs.proved = below.certified_lower_bound
        try:
            graphs.run((Q, W), state.clock.must_stop)
        finally:
            state.root_bound = max(below.root_bound or 0, graphs.root_bound)

    def _search(self, below: Result) -> None:
        """Solve the integer program in blocks, over the starts that prices below leave."""
        state, instance = self.state, self._instance
        useful = starts_by_relaxation(state, self._below, below.proof)
        if useful is None:
            return
        program = start_sets(instance, useful)
        state.horizon = program.horizon
        options = self._options
        problem = Problem(instance, self._task.goal, None, options.threads, options.seed)
        search_program(problem, state, program)

    def result(self) -> Result:
        """Return the result for the instance in blocks."""
        return self.state.result(horizon=self.state.latest_completion)
