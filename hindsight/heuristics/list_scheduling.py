"""Feasible schedules from a fixed order: the first upper bounds.

These are hindsight heuristics, not policies: they see every request. With all requests known at
arrival and order by output length, `prefix_schedule` is MC-SF's schedule ([J25] Algorithm 1).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from instances import Instance, Request, Schedule
from instances.problem.memory import MemoryForecast

Priority = Callable[[Request], int]

PRIORITIES: dict[str, Priority] = {
    "output_length": lambda request: request.output_length,
    "volume": lambda request: request.volume,
    "peak_memory": lambda request: request.peak_memory,
    "arrival_time": lambda request: request.arrival_time,
}


def one_after_another(instance: Instance) -> Schedule:
    """Each request alone, in order of arrival: feasible, and instant at any size."""
    starts = np.zeros(len(instance), dtype=np.int64)
    now = 0
    outputs, arrivals = instance.output_lengths.tolist(), instance.arrival_times.tolist()
    for index in np.argsort(instance.arrival_times, kind="stable").tolist():
        starts[index] = now = max(now, arrivals[index])
        now += outputs[index]
    return Schedule(instance, starts)


def prefix_schedule(instance: Instance, priority: Priority, *, skip: bool = False) -> Schedule:
    """Start arrived requests in order of priority as soon as they fit for their whole run.

    Parameters
    ----------
    instance : Instance
        The problem.
    priority : Priority
        Smallest first; ties in the instance's order.
    skip : bool, default False
        Go on past a request that does not fit, instead of waiting for it.
    """
    schedule = prefix_schedule_within(instance, priority, skip=skip)
    assert schedule is not None
    return schedule


def prefix_schedule_within(
    instance: Instance,
    priority: Priority,
    should_stop: Callable[[], bool] | None = None,
    *,
    skip: bool = False,
) -> Schedule | None:
    """`prefix_schedule` for a caller with a clock: None where ``should_stop`` broke it off."""
    instance.require_tokens()
    forecast = MemoryForecast(instance.memory_limit)
    arrivals = sorted(range(len(instance)), key=lambda i: (instance[i].arrival_time, i))
    starts = np.zeros(len(instance), dtype=np.int64)
    queue: list[tuple[int, int]] = []
    position = 0
    now = instance[arrivals[0]].arrival_time
    while position < len(arrivals) or queue:
        if should_stop is not None and should_stop():
            return None
        while position < len(arrivals) and instance[arrivals[position]].arrival_time <= now:
            index = arrivals[position]
            heapq.heappush(queue, (priority(instance[index]), index))
            position += 1
        forecast.advance(now)
        queue = _start_what_fits(instance, forecast, queue, starts, now, skip=skip)
        now = _next_epoch(instance, forecast, queue, arrivals, position, now, skip=skip)
    return Schedule(instance, starts)


def _start_what_fits(
    instance: Instance,
    forecast: MemoryForecast,
    queue: list[tuple[int, int]],
    starts: np.ndarray,
    now: int,
    *,
    skip: bool,
) -> list[tuple[int, int]]:
    """The requests that stay in the queue, a heap again; the first of it does not fit."""
    blocked: list[tuple[int, int]] = []
    while queue:
        index = queue[0][1]
        request = instance[index]
        if forecast.fits(request.prompt_length, request.output_length, now):
            forecast.add(now, request.prompt_length, request.output_length)
            starts[index] = now
            heapq.heappop(queue)
        elif skip:
            blocked.append(heapq.heappop(queue))
        else:
            return queue
    return blocked  # sorted, hence a heap


def _next_epoch(
    instance: Instance,
    forecast: MemoryForecast,
    blocked: list[tuple[int, int]],
    arrivals: list[int],
    position: int,
    now: int,
    *,
    skip: bool,
) -> int:
    """The next round at which something can start."""
    candidates = []
    if position < len(arrivals):
        candidates.append(instance[arrivals[position]].arrival_time)
    end = forecast.next_end()
    if end is not None and blocked:
        candidates.append(end)
        for _, index in blocked if skip else blocked[:1]:
            request = instance[index]
            fit = forecast.earliest_fit(
                request.prompt_length, request.output_length, now + 1, min(candidates) - 1
            )
            if fit is not None:
                candidates.append(fit)
    return min(candidates, default=now)


def best_list_schedule(
    instance: Instance,
    *,
    thorough: bool = True,
    should_stop: Callable[[], bool] | None = None,
    found: Callable[[Schedule], object] | None = None,
) -> Schedule:
    """The best of the prefix schedules over all priorities, checked; ties to the first.

    With ``thorough`` those that skip are tried as well.
    What is not done when ``should_stop`` says so is left out, and where nothing is done the
    requests run one after another. With ``thorough``, which is for few requests, it is asked of
    those that skip only. ``found`` is told of each schedule that is better than those before,
    checked or not.
    """
    instance.require_tokens()
    best: Schedule | None = None
    for skip in (False, True) if thorough else (False,):
        stop = None if thorough and not skip else should_stop
        for priority in PRIORITIES.values():
            schedule = prefix_schedule_within(instance, priority, stop, skip=skip)
            if schedule is None:
                break
            if best is None or schedule.total_latency < best.total_latency:
                best = schedule
                if found is not None:
                    found(best)
    best = best or one_after_another(instance)
    violations = best.violations()
    if violations:
        raise AssertionError(f"a list schedule is infeasible: {violations[0]}")
    return best
