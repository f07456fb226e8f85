"""The integer program: its arrays beside the Pyomo models, its points, and the method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from brute_force import optimal_total_latency
from drawn_instances import drawn_instance
from effort import sweep
from tiny_problems import drawn_instance as drawn_on_all_axes
from tiny_problems import drawn_levels, least_total_latency

import hindsight
import online
from hindsight.exact.highs import LinearModel, solve_linear
from hindsight.exact.program import Program
from hindsight.exact.pyomo_model import FORMULATIONS, model_of
from hindsight.exact.starts import StartSets, all_starts, latest_starts, starts_until
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.prices.horizon import proved_horizon
from hindsight.rounds.latency import TotalLatency
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
    found = solve_linear(model, threads=1).objective if len(model.costs) else model.offset
    assert found is not None
    return found


@pytest.mark.parametrize("seed", sweep(range(7000, 7200), one_in=12))
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
                    pyo.SolverFactory("appsi_highs").solve(model)
                    value = pyo.value(next(model.component_data_objects(pyo.Objective)))
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


@pytest.mark.parametrize("seed", range(6))
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


def test_a_poor_first_schedule_certifies_nothing_above_the_optimum() -> None:
    # The root is integral and the only schedule known is poor: 8 instead of 5.
    instance = Instance.from_arrays([2, 1], [4, 1], [0, 1], memory_limit=6)
    state = Interval(Problem(instance))
    state.offer(one_after_another(instance))
    TotalLatency(state, Search(threads=2), "mip", has_states=False).run()
    result = state.result()
    assert result.certified_lower_bound <= 5 == result.upper_bound
    assert optimal_total_latency(instance)[0] == 5


def test_an_optimum_may_end_after_the_schedule_that_the_horizon_is_proved_with() -> None:
    """The optimum of the last three requests is 7. It waits one round with the longest one."""
    instance = Instance.from_arrays([1, 1, 2, 2], [1, 3, 1, 2], [0, 50, 50, 50], memory_limit=7)
    assert proved_horizon(instance, Schedule(instance, [0, 50, 52, 50]))[1] >= 54


@pytest.mark.parametrize("weights", [None, [1, 5, 2, 1, 3, 1, 9]])
def test_the_default_method_proves_above_255_tokens_with_any_threads(weights: Any) -> None:
    rng = np.random.default_rng(0)
    outputs, prompts = rng.integers(1, 5, 7), rng.integers(20, 90, 7)
    instance = Instance.from_arrays(
        prompts, outputs, rng.integers(0, 3, 7), memory_limit=257, weights=weights
    )
    for result in (hindsight.solve(instance, threads=threads) for threads in (1, 2)):
        assert result.status == "optimal"
        assert result.upper_bound == least_total_latency(instance)
        assert result.certified_lower_bound <= result.upper_bound
