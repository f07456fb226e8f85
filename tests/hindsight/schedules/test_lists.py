"""List schedules against their rule, round by round."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from brute_force import memory_in_round
from hypothesis import given
from hypothesis import strategies as st
from strategies import instances as drawn

from hindsight.schedules import lists as list_scheduling
from hindsight.schedules.lists import PRIORITIES, prefix_schedule, prefix_schedule_within
from instances import Instance, Request, generate


def by_definition(instance: Instance, priority: Callable[[Request], int], skip: bool) -> list[int]:
    """Each round asks the waiting requests, in order of priority, whether all their rounds fit."""
    started: dict[int, int] = {}
    now = 0
    while len(started) < len(instance):
        waiting = [
            i
            for i, request in enumerate(instance)
            if i not in started and request.arrival_time <= now
        ]
        for i in sorted(waiting, key=lambda i: (priority(instance[i]), i)):
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


@given(drawn(max_requests=7), st.sampled_from(sorted(PRIORITIES)), st.booleans())
def test_requests_start_as_soon_as_they_fit(instance: Instance, name: str, skip: bool) -> None:
    priority = PRIORITIES[name]
    expected = by_definition(instance, priority, skip)
    assert prefix_schedule(instance, priority, skip=skip).start_times.tolist() == expected


def test_ranks_are_whatever_has_an_order() -> None:
    instance = generate("arrival-model-1", 0, n=12)
    names = [str(request.output_length).zfill(4) for request in instance]
    lengths = prefix_schedule(instance, PRIORITIES["output_length"])
    assert prefix_schedule(instance, lambda request: names[int(request.id)]) == lengths  # type: ignore[arg-type, return-value]
    far = prefix_schedule(instance, lambda request: request.output_length * 10**30)
    assert far == lengths
    draw = np.random.default_rng(0)
    assert prefix_schedule(instance, lambda _: draw.random()).is_feasible  # type: ignore[arg-type]


@pytest.mark.parametrize("epochs", [1, 7])
def test_it_goes_on_where_it_was_left(epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = generate("arrival-model-2", 0, n=40)
    at_once = prefix_schedule(instance, PRIORITIES["volume"], skip=True)
    place, calls = list_scheduling._place, []

    def few(*arguments: object) -> object:
        calls.append(1)
        return place(*arguments[:5], epochs, arguments[6])  # type: ignore[arg-type]

    monkeypatch.setattr(list_scheduling, "_place", few)
    assert prefix_schedule(instance, PRIORITIES["volume"], skip=True) == at_once
    assert len(calls) > 40 // epochs // 2
    stops = iter([False, False, True])
    stopped = prefix_schedule_within(instance, PRIORITIES["volume"], lambda: next(stops))
    assert stopped is None
