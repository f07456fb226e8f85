"""Policies that are an order: their look-ahead, their ties, and what orders nothing."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from brute_force import Rows, rows_of
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from per_round import fits_ahead, lookahead_prefix
from strategies import instances

import online
from instances import Instance
from online import IntervalPredictions, Prediction
from online.policy_interface import VisibleRequest


class Told:
    """Predictions given by hand, in order of appearance."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = list(lengths)
        self._next = 0

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        length = self._lengths[self._next]
        self._next += 1
        return Prediction(length, length, length)


def shortest_predicted_first(rows: Rows, limit: int, told: list[int]) -> list[int]:
    """MC-SF round by round with predicted lengths; the latest started are evicted on overflow."""
    order = list(told)
    told = [min(guess, limit - s) for guess, (_, s, _) in zip(told, rows, strict=True)]
    active: list[tuple[int, int]] = []
    done: dict[int, int] = {}
    now = 0
    while len(done) < len(rows):
        done |= {i: t for i, t in active if now - t == rows[i][2]}
        active = [(i, t) for i, t in active if i not in done]
        waiting = [
            i
            for i in range(len(rows))
            if rows[i][0] <= now and i not in done and all(i != j for j, _ in active)
        ]
        while sum(rows[i][1] + now - t + 1 for i, t in active) > limit:
            active.pop()
        for i in sorted(waiting, key=lambda i: (order[i], rows[i][0], i)):
            ahead = [(t, rows[j][1], max(told[j], now - t + 1)) for j, t in active]
            if not fits_ahead([*ahead, (now, rows[i][1], told[i])], now, limit):
                break
            active.append((i, now))
        now += 1
    return [done[i] for i in range(len(rows))]


@given(instances(max_requests=6, max_memory=12, max_arrival=6), st.data())
@settings(max_examples=examples(300))
def test_wrong_predictions_round_by_round(instance: Instance, data: st.DataObject) -> None:
    """[J25] Equation (5)."""
    rows = sorted(rows_of(instance), key=lambda row: row[0])
    instance = Instance.from_arrays(
        [s for _, s, _ in rows],
        [o for _, _, o in rows],
        [a for a, _, _ in rows],
        memory_limit=instance.memory_limit,
    )
    told = [data.draw(st.integers(1, 14)) for _ in rows]
    run = online.simulate(instance, "mc-sf", predictions=Told(told))
    assert run.start_rounds.tolist() == shortest_predicted_first(rows, instance.memory_limit, told)


class ByTable(online.PriorityPolicy):
    """Whatever order it is given, by id."""

    def __init__(self, table: Sequence[object]) -> None:
        self.table = table

    def priority(self, request: VisibleRequest) -> object:
        """As given."""
        return self.table[int(request.id)]


KEYS = st.one_of(
    st.integers(-2, 2),
    st.sampled_from([0.5, float("inf"), float("-inf"), Fraction(1, 3), np.float64(0.25), True]),
    st.tuples(st.integers(-1, 1), st.floats(-1, 1)),
)


@given(instances(max_requests=6, max_memory=12, max_arrival=6), st.data())
@settings(max_examples=examples(300, 100))
def test_any_order_round_by_round(instance: Instance, data: st.DataObject) -> None:
    # Ties: the earlier arrival, then the earlier place in the instance.
    keys = [data.draw(KEYS) for _ in instance]
    rows = rows_of(instance)

    def order(i: int) -> object:
        key = keys[i]
        return key if isinstance(key, tuple) else (key,), rows[i][0]

    wanted = lookahead_prefix(rows, instance.memory_limit, order)
    assert online.simulate(instance, ByTable(keys)).start_rounds.tolist() == wanted


def test_the_volume_is_of_the_prediction_and_not_of_the_hidden_truth() -> None:
    instance = Instance.from_arrays([3, 5], [2, 4], memory_limit=12)
    seen: list[int] = []

    class Looks(online.PriorityPolicy):
        def priority(self, request: VisibleRequest) -> int:
            seen.append(request.volume)
            return request.volume

    online.simulate(instance, Looks, predictions=IntervalPredictions(1, 6))
    assert seen == [3 * 6 + 21, 5 * 6 + 21]
