"""Schedules as arrays: start and machine of each request, and memory held in every round.

*Fitting test.* P_r is the memory already placed in round r. A request started at t holds
s + r - t in round r of its life. If round r overflows, P_r + s + r - t > M, the first start worth
trying is min(r, P_r + s + r - M): an earlier one t' > t still covers round r if t' < r (its life
t' + 1 .. t' + o begins no later than r and ends after t + o >= r), and overflows it there as long
as t' < P_r + s + r - M. So the search jumps, and no feasible start is passed over. In blocks of
b tokens, of which F_r are free in round r, the tokens s + r - t fit where they are at most b F_r.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import inner, njit, step
from instances import FleetSchedule, Instance, Schedule
from instances.arrays import FloatArray, IntArray

LONGEST_PROFILE = 50_000_000
"""Most entries of memory profiles: rounds, summed over all machines."""


class Requests(NamedTuple):
    """Columns of the requests, and the memory of each machine.

    Attributes
    ----------
    prompt, output : int64 array, shape (n,)
        Tokens stored before the first round of the request, and its output length.
    arrival, last : int64 array, shape (n,)
        First and last allowed start, rounds.
    weight : int64 array, shape (n,)
        Cost per round of the start.
    penalty : float64 array, shape (n,)
        Cost of leaving a request out; infinite where that is not allowed.
    limit, block : int
        Blocks per machine, and tokens per block.
    """

    prompt: IntArray
    output: IntArray
    arrival: IntArray
    last: IntArray
    weight: IntArray
    penalty: FloatArray
    limit: int
    block: int


class Timetable(NamedTuple):
    """A feasible schedule, which moves change in place.

    Attributes
    ----------
    starts, machines : int64 array, shape (n,)
        Start of each request, -1 where it is left out, and its machine.
    profiles : int64 array, shape (machines, rounds)
        Blocks held; entry (k, r) is for round r on machine k.
    """

    starts: IntArray
    machines: IntArray
    profiles: IntArray


@step
def hold(profile: IntArray, start: int, prompt: int, output: int, sign: int, block: int) -> None:
    """Add the blocks of a request to a profile, or subtract them with ``sign`` -1."""
    if block == 1:
        for r in range(start + 1, start + output + 1):
            profile[r] += sign * (prompt + r - start)
    else:
        for r in range(start + 1, start + output + 1):
            profile[r] += sign * ((prompt + r - start + block - 1) // block)


@inner
def earliest_fit(
    profile: IntArray, start: int, prompt: int, output: int, limit: int, block: int
) -> int:
    """Return the first start >= ``start`` at which a request fits, or -1 past the profile.

    ``profile[r]`` are the blocks already held in round r; see the module docstring.
    """
    size = profile.shape[0]
    if start + output >= size:
        return -1
    r = start + output
    while r > start:
        # Fitting test: in round r the request holds r - start more than its prompt.
        free = limit - profile[r]
        needed = r + prompt - (free if block == 1 else free * block)
        if needed > start:
            start = min(r, needed)
            r = start + output
            if r >= size:
                return -1
        else:
            r -= 1
    return start


@inner
def fit(
    requests: Requests, profiles: IntArray, i: int, begin: int, first: int, size: int
) -> tuple[int, int]:
    """Return the earliest start >= ``begin`` over all machines, or -1, and its machine.

    Machine ``first`` is tried first. The request must end before round ``size``, and start by its
    last allowed start.
    """
    prompt, output, last = requests.prompt[i], requests.output[i], requests.last[i]
    size = min(size, last + output + 1)
    best, where = -1, first
    for after in range(profiles.shape[0]):
        k = (first + after) % profiles.shape[0]
        # Cut off at ``size``, a profile admits only starts earlier than the best one so far.
        at = earliest_fit(profiles[k, :size], begin, prompt, output, requests.limit, requests.block)
        if at >= 0:
            best, where, size = at, k, at + output
        if best == begin:
            break
    return best, where


@step
def hold_start(requests: Requests, profiles: IntArray, i: int, at: int, k: int, sign: int) -> None:
    """Add request i, started at ``at``, to the profile of machine k; subtract with ``sign`` -1."""
    if at >= 0:
        hold(profiles[k], at, requests.prompt[i], requests.output[i], sign, requests.block)


@njit
def fill(requests: Requests, table: Timetable) -> None:
    """Add all requests of a timetable to its profiles, which are empty."""
    for i in range(len(table.starts)):
        hold_start(requests, table.profiles, i, table.starts[i], table.machines[i], 1)


@njit
def place(requests: Requests, table: Timetable, order: IntArray) -> None:
    """Give each request, in this order, the first start at which it fits with all others, in place.

    A request that has a start already keeps it if no earlier one fits. A request without a feasible
    start is left out, with start -1.
    """
    starts, machines, profiles = table.starts, table.machines, table.profiles
    for i in order:
        hold_start(requests, profiles, i, starts[i], machines[i], -1)
        at, k = fit(requests, profiles, i, requests.arrival[i], machines[i], profiles.shape[1])
        starts[i], machines[i] = at, k
        hold_start(requests, profiles, i, at, k, 1)


def schedule_on(
    instance: Instance, machines: IntArray, starts: IntArray
) -> Schedule | FleetSchedule:
    """Return the schedule with these starts: a `FleetSchedule` if there are several replicas."""
    if instance.replicas == 1:
        return Schedule(instance, starts)
    return FleetSchedule.from_starts(instance, machines, starts)


def requests_of(instance: Instance, last: IntArray | None = None) -> Requests:
    """Return the columns of an instance under its memory rule.

    With the last allowed starts ``last``, shape (n,), the cost of a schedule is the number of
    requests left out.
    """
    n, rule = len(instance), instance.memory_rule
    is_latency = last is None
    return Requests(
        np.array(instance.prompt_lengths - rule.unstored),
        np.array(instance.output_lengths),
        np.array(instance.arrival_times),
        np.full(n, 1 << 60) if last is None else np.array(last),
        np.array(instance.weights) if is_latency else np.zeros(n, np.int64),
        np.full(n, np.inf if is_latency else 1.0),
        int(rule.usable_blocks(instance.memory_limit)),
        int(rule.block_size),
    )


def timetable(
    requests: Requests, starts: IntArray, machines: IntArray, shape: tuple[int, int]
) -> Timetable:
    """Return a timetable with memory profiles of the given shape; starts of -1 are left out."""
    table = Timetable(starts.copy(), machines.copy(), np.zeros(shape, np.int64))
    fill(requests, table)
    return table
