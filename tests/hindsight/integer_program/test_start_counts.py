"""Counts of starts by class: rows, bounds from any duals, and the method that uses them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from brute_force import optimal_total_latency
from drawn_instances import drawn_instance, tiny

import hindsight
from hindsight import proved_horizon
from hindsight.heuristics.list_scheduling import one_after_another
from hindsight.integer_program.highs import solve_linear
from hindsight.integer_program.start_counts import CountProgram
from hindsight.outcomes.solve_state import SolveState
from hindsight.strategies.beams import Beams
from hindsight.strategies.counts import Counts
from hindsight.strategies.strategy import Problem
from instances import Instance, Schedule

LITTLE = Counts(moves=1, move_slice=1, patience=1)
"""Restarts the annealing every few phases."""


def enlarged(seed: int) -> Instance:
    """A tiny instance whose prompts, and so memory, are counted in a hundredth of its tokens."""
    small = tiny(seed)
    rng = np.random.default_rng(seed)
    return Instance.from_arrays(
        100 * small.prompt_lengths + rng.integers(1, 60, len(small)),
        small.output_lengths,
        small.arrival_times,
        memory_limit=100 * small.memory_limit + 60,
    )


def program_of(instance: Instance) -> CountProgram:
    starts = proved_horizon(instance).starts
    assert starts is not None
    return CountProgram(starts)


def test_a_poor_first_schedule_certifies_nothing_above_the_optimum() -> None:
    # The root is integral and the only schedule known is poor: 8 instead of 5.
    instance = Instance.from_arrays([2, 1], [4, 1], [0, 1], memory_limit=6)
    poor = one_after_another(instance)
    state = SolveState(instance)
    state.offer(poor)
    blind = replace(LITTLE, beams=Beams(first_rounds=(), first_tails=0))
    blind.run(Problem(instance, "total_latency", proved_horizon(instance, poor), 2), state)
    assert state.certified_lower_bound <= 5 == state.upper_bound
    assert optimal_total_latency(instance)[0] == 5


@pytest.mark.parametrize("threads", [1, 2])
def test_highs_closes_the_gap_of_the_linear_program(threads: int) -> None:
    claimed = 0
    for seed in range(12):
        instance = drawn_instance([seed], (6, 6), (260, 300), prompts=(20, 90), outputs=5)
        optimum, _ = optimal_total_latency(instance)
        result = hindsight.solve(instance, 60, threads, method=LITTLE)
        assert (result.lower_bound, result.upper_bound) == (optimum, optimum)
        assert result.certified_lower_bound <= optimum
        claimed += result.certified_lower_bound < optimum
    assert claimed


def test_schedules_are_points_of_the_integer_program() -> None:
    for seed in range(12):
        instance = enlarged(seed)
        optimum, starts = optimal_total_latency(instance)
        best = Schedule(instance, np.array(starts))
        program = program_of(instance)
        model = program.integer_program()
        values = program.values(best)
        assert model.costs @ values + model.offset == optimum
        rows = model.matrix @ values
        assert (rows >= model.row_lower).all()
        assert (rows <= model.row_upper).all()
        assert (values <= model.column_upper).all()
        again = program.schedule(values)
        assert again.total_latency == optimum
        assert (program.values(again) == values).all()
        assert solve_linear(model).objective == pytest.approx(optimum)


def test_the_default_method_proves_above_255_tokens_with_any_threads() -> None:
    rng = np.random.default_rng(0)
    outputs, prompts = rng.integers(1, 5, 13), rng.integers(20, 90, 13)
    instance = Instance.from_arrays(prompts, outputs, rng.integers(0, 3, 13), memory_limit=257)
    one, two = (hindsight.solve(instance, threads=threads) for threads in (1, 2))
    for result in (one, two):
        assert result.status == "optimal"
        assert result.certified_lower_bound <= result.upper_bound
