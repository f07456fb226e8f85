"""List schedules against their rule, round by round."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from brute_force import memory_in_round
from hypothesis import given
from hypothesis import strategies as st
from strategies import instances as drawn

from hindsight.schedules import lists as list_scheduling
from hindsight.schedules.lists import list_orders, prefix_schedule
from instances import Instance, generate


def by_definition(instance: Instance, order: list[int], skip: bool) -> list[int]:
    """Each round asks the waiting requests, in order of priority, whether all their rounds fit."""
    started: dict[int, int] = {}
    now = 0
    while len(started) < len(instance):
        waiting = [
            i
            for i, request in enumerate(instance)
            if i not in started and request.arrival_time <= now
        ]
        for i in sorted(waiting, key=order.index):
            with_it = [*started, i]
            part = Instance([instance[k] for k in with_it], instance.memory_limit)
            starts = [*started.values(), now]
            last = now + instance[i].output_length
            if all(
                memory_in_round(part, starts, r) <= instance.memory_limit
                for r in range(now + 1, last + 1)
            ):
                started[i] = now
            elif not skip:
                break
        now += 1
    return [started[i] for i in range(len(instance))]


@given(st.data(), drawn(max_requests=7), st.booleans())
def test_requests_start_as_soon_as_they_fit(
    data: st.DataObject, instance: Instance, skip: bool
) -> None:
    order = data.draw(st.permutations(range(len(instance))))
    found = prefix_schedule(instance, np.array(order), skip=skip)
    assert found is not None
    assert found.start_times.tolist() == by_definition(instance, order, skip)


@given(drawn(max_weight=3))
def test_orders_by_definition(instance: Instance) -> None:
    for name, order in list_orders(instance).items():

        def key(i: int, name: str = name) -> Fraction:
            weight = 1 if name == "arrival_time" else instance[i].weight
            return Fraction(getattr(instance[i], name), weight)

        assert order.tolist() == sorted(range(len(instance)), key=key)


@pytest.mark.parametrize("epochs", [1, 7])
def test_it_goes_on_where_it_was_left(epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = generate("arrival-model-2", 0, n=40)
    order = list_orders(instance)["volume"]
    at_once = prefix_schedule(instance, order, skip=True)
    place, calls = list_scheduling._place, []

    def few(*arguments: object) -> object:
        calls.append(1)
        return place(*arguments[:5], epochs, arguments[6])  # type: ignore[arg-type]

    monkeypatch.setattr(list_scheduling, "_place", few)
    assert prefix_schedule(instance, order, skip=True) == at_once
    assert len(calls) > 40 // epochs // 2
    stops = iter([False, False, True])
    assert prefix_schedule(instance, order, lambda: next(stops)) is None
