"""State tables against enumeration: configurations, and every feasible schedule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from brute_force import all_feasible_schedules, heaviest, rows_of, sound_horizon
from drawn_instances import by_state, copies_of, maximum_weight, tiny
from effort import sweep

from hindsight.prices.state_tables import (
    MOST_CORES,
    core_table,
    first_tables,
    memory_table,
    ordered_states,
)
from instances import Instance, generate
from instances.arrays import IntArray
from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH


class Table(NamedTuple):
    """Coefficients by m and r, and the capacity."""

    coefficients: IntArray
    capacity: int


def table_of(limit: int, sigma: int | None) -> Table:
    """The memory table, or the core of sigma, for all states that fit into the memory."""
    m, r = np.indices((limit + 1, limit + 1))
    inside = ordered_states(((r >= 1) & (m + r <= limit)).astype(np.int64))
    coefficients = np.zeros_like(m)
    rows = memory_table(inside) if sigma is None else core_table(inside, sigma)
    coefficients[inside.held, inside.rounds] = rows
    return Table(coefficients, limit if sigma is None else 1)


def left_hand_sides(table: Table, instance: Instance, starts: tuple[int, ...]) -> list[int]:
    """The table's sum at every epoch, from the definition of a state."""
    rows = rows_of(instance)
    last = max(t + o for t, (_, _, o) in zip(starts, rows, strict=True))
    sums = [0] * last
    for start, (_, prompt, output) in zip(starts, rows, strict=True):
        for age in range(output):
            sums[start + age] += int(table.coefficients[prompt + age, output - age])
    return sums


def tables_of(instance: Instance) -> list[Table]:
    limit = instance.memory_limit
    return [table_of(limit, sigma) for sigma in (None, *range(1, limit + 1))]


@pytest.mark.parametrize("seed", sweep(range(60)))
def test_maximum_weight_by_enumeration(seed: int) -> None:
    instance = tiny(seed)
    copies = copies_of(instance)
    rho = np.random.default_rng(seed).integers(0, 10, copies.shape)
    weight = maximum_weight(rho, copies, instance.memory_limit)
    assert weight == heaviest(by_state(copies), by_state(rho), instance.memory_limit, ())


def test_many_requests_without_a_prompt_fit_together() -> None:
    # Four requests of one token each fill M = 4: more members than M / 2 + 1.
    instance = Instance.from_arrays(
        [0] * 4, [1] * 4, memory_limit=4, metadata={ALLOW_ZERO_PROMPT_LENGTH: True}
    )
    table, copies = table_of(4, None), copies_of(instance)
    assert maximum_weight(table.coefficients, copies, 4) == table.capacity == 4


@pytest.mark.parametrize("seed", sweep(range(60)))
def test_no_table_cuts_off_a_feasible_schedule(seed: int) -> None:
    instance = tiny(seed)
    tables = tables_of(instance)
    copies = copies_of(instance)
    for table in tables:
        assert maximum_weight(table.coefficients, copies, instance.memory_limit) <= table.capacity
    for count, starts in enumerate(all_feasible_schedules(instance, sound_horizon(instance))):
        if count % 7 and count > 200:
            continue
        for table in tables:
            sums = left_hand_sides(table, instance, starts)
            assert max(sums) <= table.capacity
        if count > 2000:
            break


def test_first_tables_are_of_lengths_evenly_spaced() -> None:
    """Whatever fits together weighs 1 at most under each of them."""
    instance = generate("arrival-model-1", seed=1, n=30)
    limit, copies = instance.memory_limit, copies_of(instance)
    states = ordered_states(copies)
    tables = first_tables(states, instance.prompt_lengths)
    assert len(tables) <= MOST_CORES + 1
    assert tables.shape[1] == len(states.held)
    for row in tables:
        coefficients = np.zeros(copies.shape, dtype=np.int64)
        coefficients[states.held, states.rounds] = np.rint(row * limit)
        assert maximum_weight(coefficients, copies, limit) <= limit
