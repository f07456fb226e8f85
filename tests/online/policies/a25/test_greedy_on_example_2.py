"""FCFS without look-ahead on [A25] Example 2, iteration by iteration."""

from __future__ import annotations

import heapq

import online
from online.policies.a25.greedy import GreedyFirstComeFirstServed
from online.policy_interface.policy import Decision, State
from studies.reproduction.a25.fluid_experiments import (
    EXAMPLE_2_TIME,
    example_2_source,
    serve,
    stage_counts,
)


class Scripted(GreedyFirstComeFirstServed):
    """Greedy from a state of the paper's on."""

    def take(self, count: int) -> list[int]:
        """The first of the queue."""
        return [heapq.heappop(self._queue)[1] for _ in range(count)]


class SixAndThree(Scripted):
    """Begins with 3 prompts one stage ahead of 6 others, then does as it always does."""

    first = 3

    def decide(self, state: State) -> Decision:
        if state.round_index == 0 and not state.running:
            return Decision(
                start=[heapq.heappop(self._queue)[1] for _ in range(self.first)], wake=1
            )
        if state.round_index == 1:
            return Decision(start=self.take(6), wake=2)
        return super().decide(state)


def test_example_2_falls_into_a_cascade() -> None:
    """12 units, 6 + 3 prompts and a backlog: evictions in every other iteration for ever."""
    counts = stage_counts(serve(example_2_source(200), SixAndThree(), EXAMPLE_2_TIME))
    # (prefill, decode, evicted): iteration 1 of the example is the second here.
    assert counts[1] == (6, 3, 0)
    # 6 decodes fill the memory, so nothing is prefilled; then 12 prefills, of which 6 must go.
    assert counts[2:8] == [(0, 6, 0), (12, 0, 6), (0, 6, 0), (12, 0, 6), (0, 6, 0), (12, 0, 6)]
    completions = [decode for _, decode, _ in counts[2:22]]
    assert sum(completions) / 20 == 3


def test_the_map_y_to_12_minus_2_y() -> None:
    """4 is its fixed point, 3 and 5 lead to the cycle 6, 0."""
    for first, decodes in ((4, [4, 4, 4, 4]), (5, [5, 2, 6, 0]), (3, [3, 6, 0, 6])):
        policy = Primed(first)
        counts = stage_counts(serve(example_2_source(200), policy, EXAMPLE_2_TIME))
        assert [decode for _, decode, _ in counts[1:5]] == decodes, first


class Primed(Scripted):
    """Prefills ``first`` prompts alone, so that they are the decodes of the next iteration."""

    def __init__(self, first: int) -> None:
        self.first = first

    def decide(self, state: State) -> Decision:
        if state.round_index == 0 and not state.running:
            return Decision(
                start=[heapq.heappop(self._queue)[1] for _ in range(self.first)], wake=1
            )
        return super().decide(state)


def test_wait_holds_the_equilibrium() -> None:
    """The same backlog under WAIT: 4 at each stage, 12 units, 4 completions an iteration."""
    policy = online.make_policy("wait", thresholds={(1, 1): 4})
    run = serve(example_2_source(200), policy, EXAMPLE_2_TIME)
    counts = stage_counts(run)
    assert counts[0] == (4, 0, 0)
    assert set(counts[1:50]) == {(4, 4, 0)}
    assert run.evictions == 0
    assert set(run.memory_profile()[2:51].tolist()) == {12}
    assert abs(run.round_end_times[49] - run.round_end_times[9] - 40) < 1e-9
