"""Policies that are an order: their look-ahead, their ties, and what orders nothing."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from brute_force import rows_of
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from per_round import lookahead_prefix
from strategies import instances

import online
from instances import Instance
from online import IntervalPredictions


class ByTable(online.PriorityPolicy):
    """Whatever order it is given, by id."""

    def __init__(self, table: Sequence[object]) -> None:
        self.table = table

    def priority(self, request: Any) -> object:
        """As given."""
        return self.table[int(request.id)]


KEYS = st.one_of(
    st.integers(-2, 2),
    st.sampled_from([0.5, float("inf"), float("-inf"), Fraction(1, 3), np.float64(0.25), True]),
    st.tuples(st.integers(-1, 1), st.floats(-1, 1)),
)


NAMED: dict[str, Any] = {
    **dict.fromkeys(["mc-sf", "h-sf"], lambda arrival, s, o: o),
    **dict.fromkeys(["mc-benchmark", "fcfs"], lambda arrival, s, o: arrival),
    "mc-sf-total": lambda arrival, s, o: s + o,
    "smallest-volume-first": lambda arrival, s, o: o * (2 * s + o + 1),
}


@given(instances(max_requests=7, max_memory=14, max_arrival=7), st.data())
@settings(max_examples=examples(300, 100))
def test_any_order_round_by_round(instance: Instance, data: st.DataObject) -> None:
    """[J25] Algorithms 1, 2; [C25] Algorithm 3; [W25] Sections 7, EC.1."""
    keys = [data.draw(KEYS) for _ in instance]
    rows = rows_of(instance)
    tables = {name: [key(*row) for row in rows] for name, key in NAMED.items()}
    for policy, table in [(ByTable(keys), keys), *tables.items()]:
        # Ties: the earlier arrival, then the earlier place in the instance.
        tuples = [key if isinstance(key, tuple) else (key,) for key in table]
        order = [(key, row[0]) for key, row in zip(tuples, rows, strict=True)]
        wanted = lookahead_prefix(rows, instance.memory_limit, order.__getitem__)
        assert online.simulate(instance, policy).start_rounds.tolist() == wanted


def test_the_volume_is_of_the_prediction_and_not_of_the_hidden_truth() -> None:
    instance = Instance.from_arrays([3, 5], [2, 4], memory_limit=12)
    seen: list[int] = []

    class Looks(online.PriorityPolicy):
        def priority(self, request: Any) -> int:
            seen.append(request.volume)
            return request.volume

    online.simulate(instance, Looks, predictions=IntervalPredictions(1, 6))
    assert seen == [3 * 6 + 21, 5 * 6 + 21]
