"""The integer program: its arrays beside the Pyomo models, its points, and the method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from brute_force import optimal_total_latency
from drawn_instances import drawn_instance, tiny
from effort import sweep
from tiny_problems import drawn_instance as drawn_on_all_axes
from tiny_problems import drawn_levels, least_total_latency

import hindsight
import online
from hindsight.exact.highs import LinearModel, solve_linear
from hindsight.exact.horizon import proved_horizon
from hindsight.exact.own_models import compile_model
from hindsight.exact.program import Program
from hindsight.exact.pyomo_model import FORMULATIONS, model_of
from hindsight.exact.starts import StartSets, all_starts, latest_starts, starts_until
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.rounds.large_memory import close_at_any_size
from hindsight.runtime.search import Search
from hindsight.schedules.lists import one_after_another
from instances import Instance, Schedule
from instances.problem.memory_rule import TOKENS
from instances.service_level import limits_of


def drawn_starts(seed: int) -> list[StartSets]:
    """All starts of a problem on all axes, and those in time under drawn levels."""
    instance = drawn_on_all_axes(seed)
    horizon = int(instance.arrival_times.max() + instance.output_lengths.sum())
    levels = drawn_levels(np.random.default_rng(seed), len(instance))
    last = latest_starts(instance, limits_of(levels, len(instance)))
    return [all_starts(instance, horizon), starts_until(instance, last)]


def least(model: LinearModel) -> float:
    if not len(model.costs):
        return model.offset
    found = solve_linear(model, threads=1).objective
    assert found is not None
    return found


@pytest.mark.parametrize("seed", sweep(range(7000, 7200), one_in=8))
def test_arrays_and_pyomo_models_agree(seed: int) -> None:
    for starts in drawn_starts(seed):
        for relax in (False, True):
            expected = least(Program(starts, relax=relax).linear)
            if starts.instance.memory_rule == TOKENS:
                again = least(Program(starts, relax=relax, differences=True).linear)
                assert again == pytest.approx(expected, abs=1e-6)
            for formulation in FORMULATIONS:
                model = model_of(starts, formulation, relax=relax)
                if len(model.x):
                    value = least(compile_model(model)[0])
                    assert value == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("seed", sweep(range(7200, 7300), one_in=8))
def test_schedules_are_points_of_the_program(seed: int) -> None:
    starts = drawn_starts(seed)[0]
    best: Any = hindsight.solve(starts.instance, 5, threads=1, progress=False).schedule
    program = Program(starts)
    model, values = program.linear, program.point(best)
    assert model.costs @ values + model.offset == best.total_latency
    rows = model.matrix @ values
    assert (rows >= model.row_lower).all()
    assert (rows <= model.row_upper).all()
    assert (values <= model.column_upper).all()
    again = program.schedule(values)
    assert again.is_feasible
    assert again.total_latency == best.total_latency
    assert (program.point(again) == values).all()


def mean_starts_by_definition(
    program: Program, values: Any, own: Any, arrivals: Any
) -> list[float]:
    """Divide the counts of a class among its requests, one earliest part after another."""
    parts = [
        [float(t), float(x)]
        for t, x, k in zip(program.epochs, values, program.owners, strict=False)
        if (program.classes[k] is own) and x > 0
    ]
    means = []
    for _ in own:
        left, total = 1.0, 0.0
        while left > 1e-9 and parts:
            taken = min(left, parts[0][1])
            total, left = total + taken * parts[0][0], left - taken
            parts[0][1] -= taken
            parts = parts[1:] if parts[0][1] < 1e-9 else parts
        means.append(total)
    together = [[m for m, a in zip(means, arrivals, strict=True) if a == b] for b in arrivals]
    return [sum(some) / len(some) for some in together]


def test_mean_starts_give_counts_in_order_of_arrival() -> None:
    instance = Instance.from_arrays(
        [2, 2, 2, 2, 1], [3, 3, 3, 3, 4], [0, 0, 2, 5, 1], memory_limit=8
    )
    program = Program(all_starts(instance, 16), relax=True, differences=True)
    values = solve_linear(program.linear, threads=1).values
    assert values is not None
    found = program.mean_starts(values)
    for own in program.classes:
        arrivals = instance.arrival_times[own]
        expected = mean_starts_by_definition(program, values, own, arrivals)
        assert found[own] == pytest.approx(expected)
        assert (found[own] >= arrivals - 1e-9).all()


@pytest.mark.parametrize("seed", range(12))
def test_orders_from_the_relaxation_are_those_of_the_program(seed: int) -> None:
    """Sorted-LP and LP-Swap stand on the program, which has the value that prices have."""
    instance = drawn_instance([seed], (8, 8), (14, 20), prompts=(1, 5), outputs=9)
    exact = hindsight.relax(instance, method="lp")
    priced = hindsight.relax(instance, method="lagrangian", tolerance=1e-6)
    assert hindsight.relax(instance).method == "lp"
    assert priced.objective == pytest.approx(exact.objective, rel=2e-3)
    assert priced.objective <= exact.objective + 1e-6
    assert abs(priced.certified_bound - exact.certified_bound) <= 1
    for name in ("sorted-lp", "lp-swap"):
        given = online.make_policy(name, relaxation=lambda _: exact)
        starts = online.simulate(instance, given).start_rounds
        assert (online.simulate(instance, name).start_rounds == starts).all()


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


def test_the_program_has_the_optimum_of_an_enumeration() -> None:
    for seed in range(12):
        instance = enlarged(seed)
        optimum, starts = optimal_total_latency(instance)
        program = Program(all_starts(instance, proved_horizon(instance)[1]))
        assert least(program.linear) == pytest.approx(optimum)
        values = program.point(Schedule(instance, np.array(starts)))
        assert program.linear.costs @ values + program.linear.offset == optimum


def test_a_poor_first_schedule_certifies_nothing_above_the_optimum() -> None:
    # The root is integral and the only schedule known is poor: 8 instead of 5.
    instance = Instance.from_arrays([2, 1], [4, 1], [0, 1], memory_limit=6)
    poor = one_after_another(instance)
    state = Interval(Problem(instance))
    state.offer(poor)
    close_at_any_size(state, Search(threads=2), "mip")
    assert state.certified_lower_bound <= 5 == state.upper_bound
    assert optimal_total_latency(instance)[0] == 5


@pytest.mark.parametrize("threads", [1, 2])
def test_highs_closes_the_gap_of_the_linear_program(threads: int) -> None:
    claimed = 0
    for seed in range(12):
        instance = drawn_instance([seed], (6, 6), (260, 300), prompts=(20, 90), outputs=5)
        optimum, _ = optimal_total_latency(instance)
        result = hindsight.solve(instance, 60, threads=threads)
        assert (result.lower_bound, result.upper_bound) == (optimum, optimum)
        assert result.certified_lower_bound <= optimum
        claimed += result.certified_lower_bound < optimum
    assert claimed


@pytest.mark.parametrize("weights", [None, [1, 5, 2, 1, 3, 1, 9]])
def test_the_default_method_proves_above_255_tokens_with_any_threads(weights: Any) -> None:
    rng = np.random.default_rng(0)
    outputs, prompts = rng.integers(1, 5, 7), rng.integers(20, 90, 7)
    instance = Instance.from_arrays(
        prompts, outputs, rng.integers(0, 3, 7), memory_limit=257, weights=weights
    )
    one, two = (hindsight.solve(instance, threads=threads) for threads in (1, 2))
    for result in (one, two):
        assert result.status == "optimal"
        assert result.upper_bound == least_total_latency(instance)
        assert result.certified_lower_bound <= result.upper_bound
