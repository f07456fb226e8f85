"""Separated tables: exactly valid, violated where they were found, and cutting nothing off."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import all_feasible_schedules, rows_of, sound_horizon
from drawn_instances import columns_of, copies_of, four_requests

from hindsight.configurations.separation import TableSeparator
from hindsight.configurations.table_ascent import DualAscent
from hindsight.configurations.tables import core_table, is_valid, memory_table, state_copies


def test_separated_tables_are_valid_and_cut_off_no_schedule() -> None:
    found = 0
    for seed in range(25):
        instance = four_requests(seed)
        limit = instance.memory_limit
        copies = copies_of(instance)
        tables = [memory_table(limit), core_table(1, limit)]
        epochs = sound_horizon(instance)
        dual = DualAscent(*columns_of(instance), copies, epochs, tables)
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
