"""The path search: configuration prices, then paths through what runs together.

Phase after phase as in `hindsight.strategies.configurations`, and at the end of each of them graphs
of paths (`hindsight.paths.refinement`): a graph for a limit holds every schedule within the limit,
so that none is left where all paths are dropped, and the last schedule found on the way is optimal.
Limits grow towards the upper bound as far as graphs are likely to have room, and to come to their
end in the time that is left. All bounds are in integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from hindsight.configurations.ascent import ConfigurationAscent
from hindsight.outcomes.proofs import PathPrices, StatePrices
from hindsight.outcomes.results import Objective
from hindsight.outcomes.solve_state import SolveState
from hindsight.paths.graph import PricedInstance, coarsest_graph, finer_graph
from hindsight.paths.refinement import Refinement
from hindsight.paths.relaxation import Climb, PathRelaxation
from hindsight.runtime.clock import Clock, never
from hindsight.runtime.cores import available_cores
from hindsight.runtime.memory_use import available_bytes
from instances import InvalidTypeError, Schedule
from instances.validation import check_ranges, ranged

from .configurations import Configurations, ConfigurationSearch
from .strategy import Problem

BYTES_A_NODE = 80
"""Of a graph and of the work on it, as measured at the largest graphs."""

LEAST_GROWTH, MOST_GROWTH = 0.02, 0.2
"""Of the logarithm of a graph's nodes with every round of its limit, as measured from 25 to 60
requests."""

GROWTH_OF_MANY, MANY = 0.03, 50
"""That growth from so many requests on, after the first graph and until others have shown it."""

SECONDS_A_NODE = 2.5e-6
"""Of the largest graph of a limit, for all of its graphs, while they have not shown it."""

FIRST_SHARE = 0.7
"""Of the rounds that there is room for as far as is known, which the first graph tries at once
where they are all that is open."""

LARGE = 1_000_000
"""Nodes of a graph that shows how long they take."""

TIME_SHARE = 0.7
"""Of the time left, which a graph is begun for."""


@dataclass(frozen=True)
class Paths:
    """Annealed schedules, prices of what runs together, and paths that they leave.

    Attributes
    ----------
    configurations : Configurations
        Parameters of what both strategies do.
    settled : float, default 0.0035
        Gain of the root bound in a phase, relative to the upper bound, above which it has no large
        graphs: every hundredth that prices close makes them several times smaller.
    converged : float, default 0.002
        Gain of the root bound in a phase, relative to the upper bound, below which later phases
        leave prices as they are: graphs gain more in the same time.
    searched_states : int, default 150_000
        Of the exact search in any phase, at most: what it leaves open then is left to graphs.
    few_nodes : int, default 5_000_000
        Of graphs that wait for the second phase of prices only.
    most_nodes : int, default 200_000_000
        Of a graph in any phase.
    memory_share : float, default 0.6
        Of the memory available at the beginning of a phase, which its graphs may take.
    expected : tuple[float, float], default (300_000.0, 0.05)
        Nodes of a graph whose limit is the bound of prices, and the logarithm of its growth with
        every round more: where the first graph reaches.
    table_bytes : int, default 400_000_000
        Of the tables of anonymous states.
    climb : Climb
        The ascent of prices on a graph.
    """

    configurations: Configurations = field(default_factory=Configurations)
    settled: float = ranged(0.0035, minimum=0)
    converged: float = ranged(0.002, minimum=0)
    searched_states: int = ranged(150_000, minimum=1)
    few_nodes: int = ranged(5_000_000, minimum=1)
    most_nodes: int = ranged(200_000_000, minimum=1)
    memory_share: float = ranged(0.6, above=0, maximum=1)
    expected: tuple[float, float] = ranged((300_000.0, 0.05), above=0)
    table_bytes: int = ranged(400_000_000, minimum=1)
    climb: Climb = field(default_factory=Climb)

    name: ClassVar[str] = "paths"
    objectives: ClassVar[tuple[Objective, ...]] = ("total_latency",)

    def __post_init__(self) -> None:
        check_ranges(self)
        if not isinstance(self.configurations, Configurations):
            raise InvalidTypeError(
                "Paths", "configurations", self.configurations, "is not Configurations"
            )
        if not isinstance(self.climb, Climb):
            raise InvalidTypeError("Paths", "climb", self.climb, "is not Climb")

    def refusal(self, problem: Problem) -> str | None:
        """Tables too large."""
        return self.configurations.refusal(problem)

    def run(self, problem: Problem, state: SolveState) -> None:
        """Phases until proof, time limit or interruption."""
        PathSearch(state, problem.seed, problem.threads or available_cores(), self).run()


class PathSearch(ConfigurationSearch):
    """One solve by the phases of this module, feeding a `SolveState`."""

    def __init__(
        self,
        state: SolveState,
        seed: int,
        threads: int = 1,
        parameters: Paths | None = None,
    ) -> None:
        self._paths = parameters or Paths()
        super().__init__(state, seed, threads, self._paths.configurations)
        self._room = self._paths.most_nodes
        self._gain = 0
        self._seconds_a_node = SECONDS_A_NODE
        self._smallest, self._growth = self._paths.expected
        self._reach = 0.0
        self._path_root = self._proved = 0

    def run(self) -> None:
        """Phases until proof, time limit or interruption."""
        try:
            super().run()
        finally:
            self.state.root_bound = max(self.state.root_bound or 0, self._path_root)

    def run_each_part_once(self) -> None:
        """Every kind of work in its smallest amount, proved or not: compiles the kernels."""
        super().run_each_part_once()
        priced = self._priced(self.state.upper_bound)
        u, nobody = priced.first_prices, np.zeros(len(self.instance), np.bool_)
        everybody = np.arange(len(self.instance))
        graph = finer_graph(
            priced, coarsest_graph(priced), nobody, everybody, u, 10_000, 100_000, never
        )
        assert graph is not None
        relaxation = PathRelaxation(priced, graph, ~nobody, u, 10_000, never)
        relaxation.track([0])
        relaxation.climb(Climb(3))

    def _improve_prices(self, work: int) -> int:
        """See `ConfigurationSearch`; remembers the gain, and ends with the first small one."""
        is_first = self.state.root_bound is None
        if is_first or self._gain > self._paths.converged * self.state.upper_bound:
            self._gain = super()._improve_prices(work)
            return self._gain
        return 0

    def _prove_root(self, ascent: ConfigurationAscent) -> None:
        """See `ConfigurationSearch`; paths may have proved more."""
        before = self.state.proof
        super()._prove_root(ascent)
        if self._proved and self._proved >= (self.state.root_bound or 0):
            self.state.proof = before

    def _exhaust(self, states: int) -> None:
        """The search of partial schedules, then graphs as large as this phase has room for."""
        state, parameters = self.state, self._paths
        super()._exhaust(min(states, parameters.searched_states))
        is_settled = self._gain <= parameters.settled * state.upper_bound
        # In the first phase everything is gained.
        is_small = self._gain < state.lower_bound and self._expected_nodes() <= parameters.few_nodes
        if state.is_done() or not (is_settled or is_small):
            return
        room = int(parameters.memory_share * available_bytes()) // BYTES_A_NODE
        self._room = min(parameters.most_nodes, room)
        too_large = state.upper_bound
        while not state.is_done():
            limit = self._next_limit(too_large)
            if limit is None:
                break
            if not self._refine(limit):
                too_large = limit

    def _expected_nodes(self) -> float:
        """Of the graph whose limit is that of the best schedule."""
        reach = self.state.upper_bound - 1 - (self.state.root_bound or 0)
        return self._smallest * math.exp(min(100.0, self._growth * (reach - self._reach)))

    def _next_limit(self, too_large: int) -> int | None:
        """The largest limit that graphs are likely to have room for, if it is worth the while."""
        state, root = self.state, self.state.root_bound or 0
        last = state.upper_bound - 1
        nodes = min(self._room, TIME_SHARE * state.clock.seconds_left() / self._seconds_a_node)
        further = math.log(max(0.1, nodes / self._smallest)) / self._growth
        if self._reach == 0.0 and FIRST_SHARE * further < last - root:
            # Nothing is known yet.
            further *= 0.5
        limit = min(last, root + int(self._reach + further))
        if limit >= too_large:
            limit = (state.lower_bound + too_large) // 2
        least = state.lower_bound + (last - root) // 32
        return limit if min(least, last) <= limit < too_large else None

    def _refine(self, limit: int) -> bool:
        """Prove what graphs prove, and learn how they grow; whether they came to their end."""
        state, root = self.state, self.state.root_bound or 0
        must_stop = state.clock.must_stop
        parameters = self._paths
        clock = Clock()
        outcome = Refinement(
            *(self._priced(limit), self._room, parameters.table_bytes, parameters.climb),
            *(must_stop, self._threads),
        ).run()
        state.nodes += outcome.nodes
        self._path_root = max(self._path_root, outcome.root_bound)
        if outcome.start_times is not None:
            state.offer(Schedule(self.instance, outcome.start_times))
        proved = min(outcome.lower_bound, state.upper_bound)
        if proved > max(self._proved, root):
            assert self._root_prices is not None
            self._proved = proved
            state.proof = PathPrices(StatePrices(self._root_prices), proved - 1, outcome.stages)
        state.raise_lower(proved, certified=True)
        reach, nodes = float(limit - root), float(max(1, outcome.most_nodes))
        if not outcome.is_whole:
            nodes = max(nodes, 3.0 * self._room)
        if reach > self._reach + 1 and (self._reach > 0 or not outcome.is_whole):
            seen = math.log(max(1.0, nodes / self._smallest)) / (reach - self._reach)
            self._growth = min(max(seen, LEAST_GROWTH), MOST_GROWTH)
        elif outcome.is_whole and self._reach == 0:
            most = GROWTH_OF_MANY * max(1.0, MANY / len(self.instance))
            self._growth = min(self._growth, most)
        if outcome.is_whole:
            self._reach, self._smallest = reach, nodes
            if nodes > LARGE:
                self._seconds_a_node = clock.seconds() / nodes
        return outcome.is_whole

    def _priced(self, limit: int) -> PricedInstance:
        assert self._root_prices is not None
        assert self._capacities is not None
        return PricedInstance(self.instance, self._root_prices, self._capacities, limit)
