"""Throughput of the cascade as a table."""

from __future__ import annotations

import pytest

from studies.adversaries.cascade import cascades
from studies.adversaries.reductions import partition_checks, three_partition_checks
from studies.adversaries.tables import cascade_table, reduction_table


def test_losses() -> None:
    rows = {
        (row.setting, row.policy): row for row in cascades(["fcfs-greedy", "mc-sf"], [200], seeds=2)
    }
    level = rows["one-type, level start", "fcfs-greedy"]
    assert (level.arrived, level.lost, level.evictions, level.seeds) == (4, 0, 0, 1)
    uneven = rows["one-type, imbalanced", "fcfs-greedy"]
    # Six every other round, after the first three: 3 + 6 * 99 of 801 requests by round 200.
    assert uneven.completed == pytest.approx((3 + 6 * 99) / 200)
    assert uneven.lost == pytest.approx(1 - (3 + 6 * 99) / (801 - 4))
    assert uneven.evictions > 2.5
    assert rows["one-type, imbalanced", "mc-sf"].evictions == 0
    assert rows["two-types, Poisson", "fcfs-greedy"].seeds == 2
    assert 0.02 < rows["two-types, Poisson", "fcfs-greedy"].lost < 0.3
    table = cascade_table(list(rows.values()))
    assert len(table.rows) == 8
    assert table.rows[0][6] == "0.0 %"


def test_reductions() -> None:
    planted, drawn = three_partition_checks([2], 3, target=20)
    assert (planted.instances, planted.proved, planted.at_target) == (3, 3, 3)
    assert drawn.proved == 3
    (halves,) = partition_checks([6], 3)
    assert halves.proved == 3
    assert [row[0] for row in reduction_table([planted, halves]).rows] == [
        "three-partition",
        "partition-makespan",
    ]
