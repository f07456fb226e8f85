"""The look-ahead under predictions that are wrong, and at the edges of memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from brute_force import Rows, rows_of
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from per_round import fits_ahead
from strategies import instances

import online
from instances import Instance
from online.policy_interface import LookaheadPrefixPolicy
from online.policy_interface.predictions import Prediction


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


@pytest.mark.parametrize("nothing", [None, float("nan"), np.float64("nan")])
def test_a_priority_that_orders_nothing_is_told(nothing: object) -> None:
    # A method without a return gives None, which would pass for first come, first served.
    class Forgetful(LookaheadPrefixPolicy):
        name = "forgetful"

        def priority(self, request):  # type: ignore[no-untyped-def]
            return nothing if request.prompt_length == 2 else 1.5

    instance = Instance.from_arrays([3, 2], [2, 1], memory_limit=6)
    with pytest.raises(
        online.PolicyError, match="'forgetful', round 1: .* request 1 is (None|nan)"
    ):
        online.simulate(instance, Forgetful())
