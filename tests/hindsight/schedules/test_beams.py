"""Beams: feasible whatever the settings, and in turn where they have no choice."""

from __future__ import annotations

import numpy as np
from brute_force import is_feasible_by_definition, optimal_total_latency
from hypothesis import given
from hypothesis import strategies as st
from strategies import instances, schedules

from hindsight.runtime.clock import never
from hindsight.schedules.beams import BeamSettings, beam_schedule, most_running
from hindsight.schedules.cycles import RuinAndRecreate
from hindsight.schedules.lists import list_orders
from hindsight.schedules.timetables import IN_TURN
from instances import Instance, Schedule


@given(st.data())
def test_beams_are_feasible(data: st.DataObject) -> None:
    instance = data.draw(instances(max_requests=9))
    order = np.array(data.draw(st.permutations(range(len(instance)))), dtype=np.int64)
    settings = BeamSettings(
        data.draw(st.integers(1, 5)),
        data.draw(st.integers(1, 4)),
        data.draw(st.sampled_from((0.0, 0.5, 1.0, 2.0))),
    )
    starts = beam_schedule(instance, order, settings, len(instance), never)
    assert starts is not None
    assert is_feasible_by_definition(instance, starts.tolist())
    # Behind any part of it, the requests that are left in another order.
    count = data.draw(st.integers(0, len(instance)))
    by_start = np.argsort(starts, kind="stable")
    kept = starts[by_start[:count]]
    order = np.append(by_start[:count], data.draw(st.permutations(by_start[count:].tolist())))
    order = order.astype(np.int64)
    again = beam_schedule(instance, order, settings, len(instance), never, kept)
    assert again is not None
    assert again[order[:count]].tolist() == kept.tolist()
    assert is_feasible_by_definition(instance, again.tolist())


@given(instances(max_requests=9, arrivals=False))
def test_without_choice_a_beam_starts_requests_in_turn(instance: Instance) -> None:
    for order in list_orders(instance).values():
        starts = beam_schedule(instance, order, BeamSettings(1, 1), len(instance), never)
        listed = RuinAndRecreate(instance)
        assert listed.place(order, mode=IN_TURN)
        assert starts is not None
        assert starts.tolist() == listed.starts.tolist()


def test_a_beam_of_everything_finds_the_optimum() -> None:
    # Without delays the optimum starts every request as soon as it fits, in one of six orders.
    instance = Instance.from_arrays([4, 2, 2], [2, 3, 4], memory_limit=9)
    starts = beam_schedule(instance, np.arange(3), BeamSettings(64, 3, 0.0), 3, never)
    assert starts is not None
    assert Schedule(instance, starts).total_latency == optimal_total_latency(instance)[0]


def test_a_beam_without_room_or_time_gives_up() -> None:
    instance = Instance.from_arrays([1, 1, 1], [5, 5, 5], memory_limit=18)
    assert beam_schedule(instance, np.arange(3), BeamSettings(2, 2), 3, never) is not None
    # With room for two at once the third waits for an end that the fitting test does not need.
    assert beam_schedule(instance, np.arange(3), BeamSettings(2, 1), 2, never) is None
    assert beam_schedule(instance, np.arange(3), BeamSettings(2, 2), 3, lambda: True) is None
    kept = np.zeros(2, np.int64)
    assert beam_schedule(instance, np.arange(3), BeamSettings(2, 2), 2, never, kept) is None


@given(schedules())
def test_most_running_by_definition(schedule: Schedule) -> None:
    starts = schedule.start_times
    ends = schedule.completion_times
    running = [int(((starts < r) & (r <= ends)).sum()) for r in range(1, schedule.makespan + 1)]
    assert most_running(schedule.instance, starts) == max(running)
