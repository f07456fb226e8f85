"""The flow of volumes against linear programming, the closed form, and the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import optimal_total_latency, rows_of
from drawn_instances import drawn_instance
from scipy.optimize import linprog

import hindsight
from hindsight import best_list_schedule, transportation_bound
from hindsight.prices.horizon import proved_horizon
from hindsight.prices.volume import cheapest_flow, mean_busy_time_bound, small_transportation_bound
from instances import Instance


def drawn(seed: int) -> Instance:
    return drawn_instance([47, seed], (1, 5), (4, 12), last_arrival=(0, 9, 39)[seed % 3])


@pytest.mark.parametrize("seed", range(12))
def test_the_cheapest_flow_by_linear_programming(seed: int) -> None:
    """Over more rounds than any schedule needs; requests one after another are a flow too."""
    instance = drawn(seed)
    rows = rows_of(instance)
    volumes = [sum(s + age for age in range(1, o + 1)) for _, s, o in rows]
    horizon = max(a for a, _, _ in rows) + sum(o for *_, o in rows)
    cells = [(i, r) for i, (a, _, _) in enumerate(rows) for r in range(a + 1, horizon + 1)]
    supply, capacity = np.zeros((len(rows), len(cells))), np.zeros((horizon, len(cells)))
    for column, (i, r) in enumerate(cells):
        supply[i, column] = capacity[r - 1, column] = 1
    answer = linprog(
        [r / volumes[i] for i, r in cells],
        A_ub=capacity,
        b_ub=np.full(horizon, instance.memory_limit),
        A_eq=supply,
        b_eq=volumes,
        bounds=[(0, rows[i][1] + rows[i][2]) for i, _ in cells],
    )
    assert answer.status == 0
    assert float(cheapest_flow(instance)) == pytest.approx(answer.fun, rel=1e-9)


def test_it_bounds_the_optimum_and_exceeds_the_closed_form() -> None:
    gains = 0
    for seed in range(40):
        instance = drawn(seed)
        bound = transportation_bound(instance)
        assert mean_busy_time_bound(instance) <= bound <= optimal_total_latency(instance)[0]
        gains += bound > mean_busy_time_bound(instance)
    assert gains > 10


def test_a_large_network_is_passed_over() -> None:
    instance = Instance.from_arrays([5] * 300, [50] * 300, memory_limit=100)
    assert small_transportation_bound(instance) is None
    result = hindsight.solve(instance, method="beams", time_limit=0)
    assert "transportation" not in result.bounds


def test_a_solve_without_time_proves_what_the_flow_does() -> None:
    raised = 0
    for seed in range(40):
        instance = drawn(seed)
        result = hindsight.solve(instance, method="beams", time_limit=0)
        assert result.certified_lower_bound >= transportation_bound(instance)
        first = max(
            proved_horizon(instance, best_list_schedule(instance))[0].bound,
            mean_busy_time_bound(instance),
        )
        raised += result.certified_lower_bound == transportation_bound(instance) > first
    assert raised
