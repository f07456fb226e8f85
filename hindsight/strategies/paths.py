"""The path search: configuration prices, then paths through what runs together.

Phase after phase as in `hindsight.strategies.configurations`, and at the end of each of them graphs
of paths (`hindsight.paths.refinement`): a graph for a limit holds every schedule within the limit,
so that none is left where all paths are dropped, and the last schedule found on the way is optimal.
Limits grow towards the upper bound as far as graphs are likely to have room, and to come to their
end in the time that is left. All bounds are in integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from hindsight.outcomes.interval import Interval
from hindsight.paths.graph import (
    PricedInstance,
    Room,
    TooLargeError,
    coarsest_graph,
    finer_graph,
)
from hindsight.paths.growth import LARGE, GraphGrowth
from hindsight.paths.refinement import Refinement
from hindsight.paths.relaxation import Climb, PathRelaxation
from hindsight.prices.state_ascent import StateAscent
from hindsight.prices.state_proofs import PathPrices, StatePrices
from hindsight.runtime.clock import Clock, never
from hindsight.runtime.memory_use import available_bytes
from instances import Instance, Schedule
from instances.arrays import IntArray

from .configurations import Configurations, ConfigurationSearch
from .strategy import Problem, Strategy

BYTES_A_NODE = 80
"""Bytes of a node, as measured at the largest graphs."""

FIRST_PART = 0.03
"""Share of the room and time for the first graph, of which nothing is known."""

AT_ONCE = 0.7
"""Of the rounds that all of the room and the time are good for: so few are tried at once."""

TIME_SHARE = 0.7
"""Share of the time left for which a graph is started."""

SPARE_ROOM = 5.0
"""Room of a graph, relative to the nodes expected: one that needs more is abandoned early, and the
next limit uses what that has shown."""

LEAST_STEPS = 32
"""Number of limits between the first bound and the best schedule if each is worthwhile."""


@dataclass(frozen=True)
class Paths(Strategy):
    """Annealed schedules, prices of what runs together, and graphs of paths under them.

    Attributes
    ----------
    configurations : Configurations
        Parameters of the phases that both strategies share.
    settled : float, default 0.0035
        Gain of the root bound in a phase, relative to the upper bound, above which it builds no
        large graphs: every hundredth that prices close makes graphs several times smaller.
    converged : float, default 0.002
        Gain of the root bound in a phase, relative to the upper bound, below which later phases
        keep their prices: graphs gain more in the same time.
    searched_states : int, default 150_000
        Most states of the exact search in any phase; graphs handle the rest.
    few_nodes : int, default 5_000_000
        Most nodes of graphs before the second phase of prices.
    most_nodes : int, default 200_000_000
        Most nodes of a graph in any phase.
    memory_share : float, default 0.6
        Share of the memory available at the start of a phase that its graphs may use.
    expected : tuple[float, float], default (300_000.0, 0.05)
        Nodes of a graph whose limit is the bound of prices, and the logarithm of its growth with
        every round more: where the first graph reaches.
    table_bytes : int, default 400_000_000
        Bytes of the tables of anonymous states.
    climb : Climb
        The ascent of prices on a graph.
    """

    configurations: Configurations = field(default_factory=Configurations)
    settled: float = 0.0035
    converged: float = 0.002
    searched_states: int = 150_000
    few_nodes: int = 5_000_000
    most_nodes: int = 200_000_000
    memory_share: float = 0.6
    expected: tuple[float, float] = (300_000.0, 0.05)
    table_bytes: int = 400_000_000
    climb: Climb = field(default_factory=Climb)

    name: ClassVar[str] = "paths"

    def refusal(self, problem: Problem) -> str | None:
        """Refuse weights, and tables that are too large."""
        return self.configurations.refusal(problem)

    def run(self, problem: Problem, state: Interval) -> None:
        """Run phases until proof, time limit or interruption."""
        threads = problem.cores
        PathSearch(state, problem.seed, threads, self, problem.prices).run()


class PathSearch(ConfigurationSearch):
    """Solve by the phases of this module, which reports its results to a `Interval`."""

    def __init__(
        self,
        state: Interval,
        seed: int,
        threads: int = 1,
        parameters: Paths | None = None,
        prices: StatePrices | None = None,
    ) -> None:
        self._paths = parameters or Paths()
        super().__init__(state, seed, threads, self._paths.configurations, prices)
        # Before the first phase nothing is settled.
        self._gain: float = math.inf
        self._graphs = GraphSearch(state, self._paths, threads)

    def run(self) -> None:
        """Run phases until proof, time limit or interruption."""
        try:
            super().run()
        finally:
            proved = self._graphs.root_bound
            if proved > (self.state.root_bound or 0):
                self.state.root_bound = proved

    def _improve_prices(self, work: int) -> int:
        """See `ConfigurationSearch`; store the gain, and stop at the first small one."""
        may_gain = self._gain > self._paths.converged * self.state.upper_bound
        gain = super()._improve_prices(work) if may_gain else 0
        self._gain = gain
        return gain

    @property
    def _is_settled(self) -> bool:
        return bool(self._gain <= self._paths.settled * self.state.upper_bound)

    def _prove_root(self, ascent: StateAscent) -> None:
        """See `ConfigurationSearch`; paths may have proved more."""
        before = self.state.proof
        super()._prove_root(ascent)
        if self._graphs.proved and self._graphs.proved >= (self.state.root_bound or 0):
            self.state.proof = before

    def _exhaust(self, states: int) -> None:
        """Search partial schedules, then build graphs as large as this phase has room for."""
        state, parameters = self.state, self._paths
        super()._exhaust(min(states, parameters.searched_states))
        root = state.root_bound or 0
        # In the first phase everything counts as gain.
        is_small = self._gain < root and (
            self._graphs.growth.nodes(state.upper_bound - 1 - root) <= parameters.few_nodes
        )
        if state.is_done() or not (self._is_settled or is_small):
            return
        with self._schedules_beside(few_requests=True):
            self._graphs.run(self._root_prices, self._must_stop)


def run_graphs_once(instance: Instance, limit: int) -> None:
    """Run the smallest amount of every kind of work on graphs, to compile the kernels.

    All prices are 0, so that graphs hold every schedule within the limit on total latency.
    """
    levels, rounds = instance.memory_limit + 1, int(instance.arrival_times.max()) + 1
    Q, W = np.zeros((rounds, levels, levels), np.int64), np.zeros(rounds, np.int64)
    priced = PricedInstance(instance, Q, W, limit)
    u, nobody = priced.first_prices, np.zeros(len(instance), np.bool_)
    everybody = np.arange(len(instance))
    coarsest, room = coarsest_graph(priced), Room(10_000, 100_000)
    graph = finer_graph(priced, coarsest, nobody, everybody, u, room, never)
    assert graph is not None
    relaxation = PathRelaxation(priced, graph, ~nobody, u, 10_000, never)
    relaxation.track([0])
    relaxation.climb(Climb(3))


class GraphSearch:
    """Graphs of paths under given prices, limit after limit, reported to a `Interval`.

    Where the state's instance hands out memory in blocks, prices are those of
    `instances.problem.memory_translation.relaxed` of it, and graphs hold schedules in blocks.

    Attributes
    ----------
    growth : GraphGrowth
        What is known of the size of graphs.
    root_bound, proved : int
        Largest bounds proved by graphs: without tracking requests, and in all.
    """

    def __init__(self, state: Interval, parameters: Paths, threads: int) -> None:
        self._state, self._paths, self._threads = state, parameters, threads
        self._room = parameters.most_nodes
        self.growth = GraphGrowth(*parameters.expected, len(state.problem))
        self.root_bound = self.proved = 0

    def run(self, prices: tuple[IntArray, IntArray], must_stop: Callable[[], bool]) -> None:
        """Prove limits that grow towards the upper bound, as far as time and room are likely to do.

        Parameters
        ----------
        prices : tuple[int64 array, int64 array]
            Prices Q and capacities W.
        must_stop : Callable[[], bool]
            Polled throughout; may take what another thread found.
        """
        state, parameters = self._state, self._paths
        room = int(parameters.memory_share * available_bytes()) // BYTES_A_NODE
        self._room = max(1, min(parameters.most_nodes, room))
        too_large = state.upper_bound
        while not state.is_done():
            limit = self.next_limit(too_large)
            if limit is None:
                break
            if not self._refine(prices, limit, must_stop):
                too_large = limit

    def next_limit(self, too_large: int) -> int | None:
        """Return the largest limit that graphs are likely to have room for, if it is worthwhile."""
        state, growth, root = self._state, self.growth, self._state.root_bound or 0
        last = state.upper_bound - 1
        room, seconds = self._room, TIME_SHARE * state.clock.seconds_left()
        reach = growth.reach(room, seconds)
        least = min(last, state.lower_bound + (last - root) // LEAST_STEPS)
        if not growth.is_tried:
            if AT_ONCE * reach < last - root:
                reach = growth.reach(FIRST_PART * room, FIRST_PART * seconds)
            reach = max(reach, least - root)
        limit = min(last, root + int(reach))
        if limit >= too_large:
            limit = (state.lower_bound + too_large) // 2
        return limit if least <= limit < too_large else None

    def _refine(
        self, prices: tuple[IntArray, IntArray], limit: int, must_stop: Callable[[], bool]
    ) -> bool:
        """Prove a limit by graphs and learn how they grow; return whether they finished."""
        state, root = self._state, self._state.root_bound or 0
        parameters, clock = self._paths, Clock()
        room = min(self._room, int(max(LARGE, SPARE_ROOM * self.growth.nodes(limit - root))))
        try:
            priced = PricedInstance(state.problem, *prices, limit)
        except (TooLargeError, MemoryError):
            return False

        outcome = Refinement(
            priced,
            Room(room, parameters.table_bytes, self._threads),
            parameters.climb,
            must_stop,
        ).run()
        state.nodes += outcome.nodes
        self.root_bound = max(self.root_bound, outcome.root_bound)
        if outcome.start_times is not None:
            state.offer(Schedule(state.problem, outcome.start_times))
        proved = min(outcome.lower_bound, state.upper_bound)
        if proved > max(self.proved, root):
            self.proved = proved
            state.proof = PathPrices(StatePrices(prices[0]), proved - 1, outcome.stages)
        state.prove(proved, "paths")
        if outcome.is_whole and outcome.most_nodes:
            self.growth.learn(limit - root, outcome.most_nodes, clock.seconds())
        elif not (outcome.is_whole or state.is_proved):
            self.growth.learn_too_large(limit - root, room)
        return outcome.is_whole
