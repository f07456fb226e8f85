"""List schedules against their rule, request by request."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from brute_force import memory_in_round
from hypothesis import given
from hypothesis import strategies as st
from strategies import instances as drawn

import hindsight
from hindsight.schedules.cycles import RuinAndRecreate
from hindsight.schedules.lists import first_schedule, list_orders, one_after_another
from hindsight.schedules.timetables import IN_TURN, SEARCH
from instances import Instance, generate


def by_definition(instance: Instance, order: list[int], in_turn: bool) -> list[int]:
    """Each request in the order tries one round after another beside those placed before it."""
    started: dict[int, int] = {}
    for i in order:
        now = instance[i].arrival_time
        if in_turn and started:
            now = max(now, list(started.values())[-1])
        part = Instance([instance[k] for k in (*started, i)], instance.memory_limit)
        while any(
            memory_in_round(part, [*started.values(), now], r) > instance.memory_limit
            for r in range(now + 1, now + instance[i].output_length + 1)
        ):
            now += 1
        started[i] = now
    return [started[i] for i in range(len(instance))]


@given(st.data(), drawn(max_requests=7), st.booleans())
def test_each_request_takes_the_first_start_that_fits(
    data: st.DataObject, instance: Instance, in_turn: bool
) -> None:
    order = data.draw(st.permutations(range(len(instance))))
    search = RuinAndRecreate(instance)
    assert search.place(np.array(order), mode=IN_TURN if in_turn else SEARCH)
    assert search.starts.tolist() == by_definition(instance, order, in_turn)


@given(drawn(max_weight=3))
def test_orders_by_definition(instance: Instance) -> None:
    for name, order in list_orders(instance).items():

        def key(i: int, name: str = name) -> Fraction:
            weight = 1 if name == "arrival_time" else instance[i].weight
            return Fraction(getattr(instance[i], name), weight)

        assert order.tolist() == sorted(range(len(instance)), key=key)


def test_the_best_list_schedule_is_the_best_of_all_orders() -> None:
    for seed in range(3):
        instance = generate("arrival-model-2", seed, n=20)
        listed = [by_definition(instance, order.tolist(), False) for order in orders_of(instance)]
        listed.append(first_schedule(instance).start_times.tolist())
        least = min(sum(starts) for starts in listed)
        assert int(hindsight.best_list_schedule(instance).start_times.sum()) == least


def orders_of(instance: Instance) -> list[np.ndarray]:
    return list(list_orders(instance).values())


def test_many_rounds_leave_one_request_after_another() -> None:
    """All fit side by side, but their memory profile would be too long."""
    instance = Instance.from_arrays([1] * 3, [10**8] * 3, memory_limit=10**9)
    assert hindsight.best_list_schedule(instance) == one_after_another(instance)


def test_few_requests_have_time_for_list_schedules_and_an_idle_gap_costs_no_memory() -> None:
    instance = Instance.from_arrays([1, 1, 1], [9, 9, 5], [0, 0, 10**9], memory_limit=12)
    stopped = hindsight.best_list_schedule(instance, lambda: True)
    assert stopped == hindsight.best_list_schedule(instance)
    assert stopped.start_times.tolist() == [0, 8, 10**9]
