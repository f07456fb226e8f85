"""Separated tables: exactly valid, violated where they were found, and cutting nothing off."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import all_feasible_schedules, rows_of, sound_horizon

from hindsight.configurations.separation import TableSeparator
from hindsight.configurations.table_ascent import DualAscent
from hindsight.configurations.tables import core_table, is_valid, memory_table, state_copies
from instances import Instance


def tiny(seed: int) -> Instance:
    rng = np.random.default_rng([43, seed])
    n, limit = 4, int(rng.integers(5, 10))
    prompts = [int(s) for s in rng.integers(1, 4, n)]
    outputs = [int(rng.integers(1, min(limit - s, 5) + 1)) for s in prompts]
    arrivals = [int(a) for a in rng.integers(0, 4, n)] if seed % 2 else [0] * n
    return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=limit)


def test_separated_tables_are_valid_and_cut_off_no_schedule() -> None:
    found = 0
    for seed in range(25):
        instance = tiny(seed)
        limit = instance.memory_limit
        columns = (instance.prompt_lengths, instance.output_lengths)
        copies = state_copies(*columns, limit)
        tables = [memory_table(limit), core_table(1, limit)]
        epochs = sound_horizon(instance)
        dual = DualAscent(*columns, instance.arrival_times, copies, epochs, tables)
        dual.ascend(80, (4.0, 0.1), (0.5, 0.02))
        mass = dual.masses()
        separator = TableSeparator(copies, limit)
        new = []
        for epoch in range(min(4, epochs)):
            cut = separator.separate(mass, epoch)
            if cut is None:
                continue
            table, violation = cut
            assert is_valid(table, copies, limit)
            left = np.einsum("tmr,mr->t", mass, table.coefficients) / table.capacity
            excess = left[left > 1.001] - 1
            assert violation == pytest.approx(excess.sum())
            new.append(table)
        found += len(new)
        rows = rows_of(instance)
        schedules = list(all_feasible_schedules(instance, min(epochs, sound_horizon(instance))))
        for starts in schedules[:: max(1, len(schedules) // 150)]:
            for table in new:
                sums = np.zeros(epochs + 10, dtype=np.int64)
                for start, (_, s, o) in zip(starts, rows, strict=True):
                    age = np.arange(o)
                    sums[start + age] += table.coefficients[s + age, o - age]
                assert sums.max() <= table.capacity
    assert found > 10


def test_nothing_is_found_where_nothing_is_violated() -> None:
    copies = state_copies([1, 1], [3, 3], 8)
    mass = np.zeros((9, 9))
    separator = TableSeparator(copies, 8)
    assert separator.solve(mass) is None
    mass[1, 3] = mass[2, 2] = 0.4
    assert separator.solve(mass) is None
