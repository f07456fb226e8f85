"""The path search: configuration prices, then paths through what runs together.

Phase after phase as in `hindsight.strategies.configurations`, and at the end of each of them graphs
of paths (`hindsight.paths.graph`, `hindsight.paths.relaxation`): a graph for a limit holds every
schedule within the limit, so that none is left where all paths are dropped, and a schedule found in
it is optimal. Limits are halved towards the lower bound while graphs have no room, and room grows
from phase to phase. All bounds are in integers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from hindsight.configurations.prices import SCALE, start_values
from hindsight.outcomes.results import Objective
from hindsight.outcomes.solve_state import SolveState
from hindsight.paths.graph import (
    PathGraph,
    StoppedError,
    TooLargeError,
    build_graph,
    most_at_once,
)
from hindsight.paths.relaxation import PathRelaxation
from hindsight.runtime.cores import available_cores
from hindsight.runtime.memory_use import available_bytes
from instances import InvalidTypeError, Schedule
from instances.validation import check_ranges, ranged

from .configurations import Configurations, ConfigurationSearch
from .strategy import Problem

BYTES_A_NODE = 160
"""Of a graph and of the work on it, besides a byte for each request that may run at once."""


@dataclass(frozen=True)
class Paths:
    """Annealed schedules, prices of what runs together, and paths that they leave.

    Attributes
    ----------
    configurations : Configurations
        Parameters of what both strategies do.
    settled : float, default 0.02
        Gain of the root bound in a phase, relative to the upper bound, above which it has no
        graphs: every hundredth that prices close makes graphs several times smaller.
    searched_states : int, default 500_000
        Of the exact search in any phase, at most: what it leaves open then is left to graphs.
    nodes : int, default 6_000_000
        Of a graph in the first phase.
    most_nodes : int, default 32_000_000
        Of a graph in any phase.
    memory_share : float, default 0.3
        Of the memory available at the beginning of a phase, which its graphs may take.
    node_growth : int, default 3
        Growth of the graphs from phase to phase.
    iterations : int, default 60
        Of the ascent on a graph.
    first_heat, last_heat : float, defaults 1.0 and 0.2
        Of the weights of paths in that ascent, in rounds.
    rate : float, default 1.0
        Its first step, in rounds.
    """

    configurations: Configurations = field(default_factory=Configurations)
    settled: float = ranged(0.02, minimum=0)
    searched_states: int = ranged(500_000, minimum=1)
    nodes: int = ranged(6_000_000, minimum=1)
    most_nodes: int = ranged(32_000_000, minimum=1)
    memory_share: float = ranged(0.3, above=0, maximum=1)
    node_growth: int = ranged(3, minimum=1)
    iterations: int = ranged(60, minimum=3)
    first_heat: float = ranged(1.0, above=0)
    last_heat: float = ranged(0.2, above=0)
    rate: float = ranged(1.0, above=0)

    name: ClassVar[str] = "paths"
    objectives: ClassVar[tuple[Objective, ...]] = ("total_latency",)

    def __post_init__(self) -> None:
        check_ranges(self)
        if not isinstance(self.configurations, Configurations):
            raise InvalidTypeError(
                "Paths", "configurations", self.configurations, "is not Configurations"
            )

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
        self._nodes = self._paths.nodes
        self._gain = 0

    def run_each_part_once(self) -> None:
        """Every kind of work in its smallest amount, proved or not: compiles the kernels."""
        super().run_each_part_once()
        limit = self.state.upper_bound
        graph = self._graph(limit)
        assert graph is not None
        relaxation = self._relaxation(graph, limit)
        relaxation.track([0])
        relaxation.run(3, (1.0, 0.2), 1.0)

    def _improve_prices(self, work: int) -> int:
        """See `ConfigurationSearch`; remembers the gain."""
        self._gain = super()._improve_prices(work)
        return self._gain

    def _exhaust(self, states: int) -> None:
        """The search of partial schedules, then graphs as large as this phase has room for."""
        state, parameters = self.state, self._paths
        super()._exhaust(min(states, parameters.searched_states))
        if state.is_done() or self._gain > parameters.settled * state.upper_bound:
            return
        bytes_a_node = BYTES_A_NODE + most_at_once(self._lengths[0], self.instance.memory_limit)
        room = int(parameters.memory_share * available_bytes()) // bytes_a_node
        self._nodes = min(self._nodes, parameters.most_nodes, room)
        too_large = state.upper_bound
        limit = state.upper_bound - 1
        while state.lower_bound <= limit < too_large and not state.is_done():
            try:
                graph = self._graph(limit)
            except TooLargeError:
                too_large = limit
            except StoppedError:
                return
            else:
                if graph is None:
                    state.raise_lower(limit + 1, certified=True)
                elif not self._close(graph, limit):
                    break
            # Near the limit that has no room nothing is left to gain.
            limit = state.lower_bound + (too_large - state.lower_bound) // 2
            if limit - state.lower_bound < (too_large - (state.root_bound or 0)) // 16:
                break
        self._nodes *= parameters.node_growth

    def _graph(self, limit: int) -> PathGraph | None:
        assert self._root_prices is not None
        assert self._capacities is not None
        stop = self.state.clock.must_stop
        return build_graph(
            self.instance, self._root_prices, self._capacities, limit, self._nodes, stop
        )

    def _relaxation(self, graph: PathGraph, limit: int) -> PathRelaxation:
        assert self._root_prices is not None
        _, u = start_values(self._root_prices, *self._lengths)
        stop = self.state.clock.must_stop
        return PathRelaxation(self.instance, graph, limit, u[:, 0] / SCALE, self._nodes, stop)

    def _close(self, graph: PathGraph, limit: int) -> bool:
        """Prove what a graph proves; whether that is all there is to know of its limit."""
        state = self.state
        state.nodes += len(graph)
        parameters = self._paths
        heats = (parameters.first_heat, parameters.last_heat)
        relaxation = self._relaxation(graph, limit)
        outcome = relaxation.run(parameters.iterations, heats, parameters.rate)
        if outcome.start_times is not None:
            state.offer(Schedule(self.instance, outcome.start_times))
        state.raise_lower(outcome.lower_bound, certified=True)
        return outcome.start_times is not None or outcome.lower_bound > limit
