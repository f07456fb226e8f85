"""Phases of the strategy of configurations."""

from __future__ import annotations

import pytest

import hindsight
from hindsight.outcomes.solve_state import SolveState
from hindsight.runtime.clock import Clock
from hindsight.strategies.configurations import Configurations, ConfigurationSearch
from instances import Instance


@pytest.mark.parametrize(("copies", "is_searched"), [(30, True), (1, False)])
def test_requests_of_few_kinds_are_searched_under_the_first_prices(
    copies: int, is_searched: bool
) -> None:
    kinds = 60 // copies
    lengths = [1 + k % 9 for k in range(kinds)], [1 + k % 7 for k in range(kinds)]
    instance = Instance.from_arrays(*(one * copies for one in lengths), memory_limit=40)
    nodes: list[int] = []

    class Recorded(ConfigurationSearch):
        def _improve_prices(self, work: int) -> int:
            nodes.append(self.state.nodes)
            return super()._improve_prices(work)

    state = SolveState(instance, Clock(should_stop=lambda: bool(nodes)))
    state.offer(hindsight.best_list_schedule(instance))
    Recorded(state, 0, 1, Configurations(states=1000, moves=1000)).run()
    # Where the search proved the optimum, prices did not ascend.
    before_prices = nodes[0] if nodes else state.nodes
    assert (before_prices > 0) == is_searched
