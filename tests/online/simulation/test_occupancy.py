"""Stacked bands against the definition of memory, one round at a time."""

from __future__ import annotations

import numpy as np
import strategies
from brute_force import memory_in_round
from hypothesis import given

from instances import Instance, Schedule
from online.simulation.occupancy import Band, bands_of, stays_of


def test_two_requests_as_they_are_stacked() -> None:
    """Round r is drawn from r - 1 to r: the first lies below, and all of it ends at its end."""
    schedule = Schedule(Instance.from_arrays([1, 2], [3, 1], memory_limit=9), [0, 1])
    below, above = bands_of(stays_of(schedule))
    assert (below.stay, below.begin, above.stay, above.begin) == (0, 0, 1, 1)
    assert (below.bottom.tolist(), below.top.tolist()) == ([0, 0, 0], [2, 3, 4])
    assert (above.bottom.tolist(), above.top.tolist()) == ([3], [6])
    x, y = below.outline()
    assert x.tolist() == [0, 1, 1, 2, 2, 3, 3, 2, 2, 1, 1, 0]
    assert y.tolist() == [2, 2, 3, 3, 4, 4, 0, 0, 0, 0, 0, 0]


def test_of_equal_starts_the_longer_lies_lower() -> None:
    schedule = Schedule(Instance.from_arrays([1, 1], [1, 3], memory_limit=9), [0, 0])
    assert [band.stay for band in bands_of(stays_of(schedule))] == [1, 0]


def shoelace(band: Band) -> float:
    x, y = band.outline()
    return abs(float(x @ np.roll(y, 1) - y @ np.roll(x, 1))) / 2


@given(strategies.any_schedules())
def test_bands_tile_what_each_round_holds(schedule: Schedule) -> None:
    stays = stays_of(schedule)
    bands = bands_of(stays)
    assert sorted(band.stay for band in bands) == list(range(len(schedule.instance)))
    starts = schedule.start_times.tolist()
    for round_index in range(1, schedule.makespan + 1):
        parts = [
            (int(band.bottom[place]), int(band.top[place]))
            for band in bands
            if 0 <= (place := round_index - 1 - band.begin) < len(band.top)
        ]
        # From 0 up, each on top of the one before, to all that the round holds.
        edges = [0, *(top for _, top in parts)]
        assert [bottom for bottom, _ in parts] == edges[:-1]
        assert edges[-1] == memory_in_round(schedule.instance, starts, round_index)
    for band in bands:
        request = schedule.instance[band.stay]
        volume = sum(request.prompt_length + k for k in range(1, request.output_length + 1))
        assert shoelace(band) == volume
