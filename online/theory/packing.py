"""Comparing schedules by order and packing ([C25] Definitions 8.1 and 8.3)."""

from __future__ import annotations

from instances import Schedule


def preserves_order(first: Schedule, second: Schedule) -> bool:
    """Tell whether no two requests start in opposite orders ([C25] Definition 8.1)."""
    pairs = sorted(zip(first.start_times.tolist(), second.start_times.tolist(), strict=True))
    latest_before, latest, start = -1, -1, None
    for one, other in pairs:
        if one != start:
            start, latest_before = one, latest
        if other < latest_before:
            return False
        latest = max(latest, other)
    return True


def is_delayed(schedule: Schedule, relative_to: Schedule) -> bool:
    """Tell whether no request starts sooner than in the other schedule ([C25] Definition 8.1)."""
    return bool((schedule.start_times >= relative_to.start_times).all())


def is_optimally_packed(schedule: Schedule) -> bool:
    """Tell whether no request can move towards the last earlier start ([C25] Definition 8.3).

    For a request that starts at i, with j the last start before i of any request, each of the
    starts j, .., i - 1 must break the memory limit. A request never moves before its arrival.
    """
    starts = schedule.start_times.tolist()
    times = sorted(set(starts))
    for position, start in enumerate(starts):
        earlier = [time for time in times if time < start]
        if not earlier:
            continue
        arrival = schedule.instance[position].arrival_time
        for moved in range(max(earlier[-1], arrival), start):
            trial = [*starts[:position], moved, *starts[position + 1 :]]
            if Schedule(schedule.instance, trial).is_feasible:
                return False
    return True
