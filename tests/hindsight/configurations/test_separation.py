"""Separated tables: exactly valid, violated where they were found, and cutting nothing off."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import all_feasible_schedules, rows_of, sound_horizon
from drawn_instances import copies_of, four_requests

from hindsight import relax
from hindsight.configurations.separation import TableSeparator
from hindsight.configurations.tables import is_valid, state_copies


def test_separated_tables_are_valid_and_cut_off_no_schedule() -> None:
    found = 0
    for seed in range(25):
        instance = four_requests(seed)
        limit, rows = instance.memory_limit, rows_of(instance)
        copies, epochs = copies_of(instance), sound_horizon(instance) + 10
        mass = np.zeros((epochs, *copies.shape))
        for (starts, weights), (_, s, o) in zip(relax(instance).fractions, rows, strict=True):
            for age in range(o):
                mass[starts + age, s + age, o - age] += weights
        separator = TableSeparator(copies, limit)
        new = []
        for epoch in range(4):
            cut = separator.separate(mass, epoch)
            if cut is None:
                continue
            table, violation = cut
            assert is_valid(table, copies, limit)
            left = np.einsum("tmr,mr->t", mass, table.coefficients) / table.capacity
            assert violation == pytest.approx((left[left > 1.001] - 1).sum())
            new.append(table)
        found += len(new)
        schedules = list(all_feasible_schedules(instance, sound_horizon(instance)))
        for starts in schedules[:: max(1, len(schedules) // 150)]:
            for table in new:
                sums = np.zeros(epochs, dtype=np.int64)
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
