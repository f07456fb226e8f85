"""Schedules as arrays: start and machine of each request, and memory held in every round.

Also the random numbers, and the acceptance threshold, of the compiled searches.

*Fitting test.* P_r is the memory already placed in round r. A request started at t holds
s + r - t in round r of its life. If round r overflows, P_r + s + r - t > M, the first start worth
trying is min(r, P_r + s + r - M): an earlier one t' > t still covers round r if t' < r (its life
t' + 1 .. t' + o begins no later than r and ends after t + o >= r), and overflows it there as long
as t' < P_r + s + r - M. So the search jumps, and no feasible start is passed over. In blocks of
b tokens, of which F_r are free in round r, the tokens s + r - t fit where they are at most b F_r.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hindsight.runtime.compilation import inner, njit, step
from instances import FleetSchedule, Instance, Schedule
from instances.arrays import FloatArray, IntArray

LONGEST_PROFILE = 50_000_000
"""Most entries of the memory profiles of a schedule: its rounds times its machines."""


class Requests(NamedTuple):
    """Columns of the requests, and the memory of each machine.

    Attributes
    ----------
    prompt, output : int64 array, shape (n,)
        Tokens that each request stores before its first round, and its output length.
    arrival, last : int64 array, shape (n,)
        First and last round in which each request may start.
    weight : int64 array, shape (n,)
        Cost of each round by which the request starts later.
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
    """A feasible schedule as arrays, which the compiled searches change in place.

    Attributes
    ----------
    requests : Requests
        The requests, and the memory of each machine.
    starts, machines : int64 array, shape (n,)
        Start of each request, -1 where it is left out, and its machine.
    profiles : int64 array, shape (machines, rounds)
        Blocks held by all requests on machine k in round r, at entry (k, r).
    """

    requests: Requests
    starts: IntArray
    machines: IntArray
    profiles: IntArray


@step
def hold(table: Timetable, i: int, at: int, k: int, sign: int) -> None:
    """Add request i, started at ``at``, to the profile of machine k; subtract with ``sign`` -1.

    A request that is left out, with a start of -1, changes nothing.
    """
    if at < 0:
        return
    requests, profile = table.requests, table.profiles[k]
    prompt, block = requests.prompt[i], requests.block
    rounds = range(at + 1, at + requests.output[i] + 1)
    if block == 1:
        for r in rounds:
            profile[r] += sign * (prompt + r - at)
    else:
        for r in rounds:
            profile[r] += sign * ((prompt + r - at + block - 1) // block)


@inner
def earliest_fit(
    profile: IntArray, start: int, prompt: int, output: int, limit: int, block: int
) -> int:
    """Return the first start >= ``start`` at which a request fits, or -1 if there is none.

    ``profile[r]`` is the number of blocks already held in round r. The request must end within the
    profile. The module docstring proves that no feasible start is passed over.
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
    """Return the earliest start >= ``begin`` of request i over all machines, and its machine.

    The start is -1 if there is none. Machine ``first`` is tried first. The request must end before
    round ``size``, and start by its last allowed start.
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


@njit
def place(table: Timetable, order: IntArray, searches: bool) -> None:
    """Add requests to a timetable in this order, in place.

    With ``searches``, each request takes the first start at which it fits with all others in the
    profiles. A request that is in
    the profiles already keeps its start if no earlier one fits. A request without a feasible start
    is left out, with start -1. Otherwise the profiles do not hold the requests yet, and each
    request keeps its start.
    """
    requests, starts, machines, profiles = table
    for i in order:
        if searches:
            hold(table, i, starts[i], machines[i], -1)
            begin, k, rounds = requests.arrival[i], machines[i], profiles.shape[1]
            starts[i], machines[i] = fit(requests, profiles, i, begin, k, rounds)
        hold(table, i, starts[i], machines[i], 1)


def first_state(seed: int) -> IntArray:
    """Return a first state of `next_uniform`, shape (1,). Similar seeds give unrelated states."""
    return np.array([np.random.default_rng(seed).integers(1, 1 << 32)], np.int64)


@njit
def next_uniform(state: IntArray) -> float:
    """Return a float in [0, 1) from xorshift32 (Marsaglia 2003).

    The 32-bit state is stored as int64. ``state``, shape (1,), is advanced in place; it must not
    be 0.
    """
    x = state[0]
    x ^= (x << 13) & 0xFFFFFFFF
    x ^= x >> 17
    x ^= (x << 5) & 0xFFFFFFFF
    state[0] = x
    number: float = x / 4294967296.0
    return number


@step
def threshold(cost: float, hot: float, cold: float, share: float, uniform: float) -> float:
    """Draw the largest cost at which a move is accepted (Metropolis).

    ``cost`` is the cost without the move, and ``share`` the share of the cooling that is done. The
    threshold is drawn before the cost of the move is known, so that its evaluation can stop early.
    """
    temperature = hot * (cold / hot) ** share
    most: float = cost - temperature * np.log(uniform + 1e-300)
    return most


def schedule_on(
    instance: Instance, machines: IntArray, starts: IntArray
) -> Schedule | FleetSchedule:
    """Return the schedule with these machines and starts, both of shape (n,).

    It is a `FleetSchedule` if the instance has several replicas.
    """
    if instance.replicas == 1:
        return Schedule(instance, starts)
    return FleetSchedule.from_starts(instance, machines, starts)


def columns_of(schedule: Any) -> tuple[IntArray, IntArray]:
    """Return the starts and the machines of a schedule, both of shape (n,)."""
    starts = schedule.start_times
    return starts, getattr(schedule, "assignment", np.zeros_like(starts))


def requests_of(instance: Instance, last: IntArray | None = None) -> Requests:
    """Return the columns of an instance under its memory rule.

    Without ``last``, the cost of a schedule is the weighted sum of its starts. With the last
    allowed starts ``last``, shape (n,), it is the number of requests left out.
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
    """Return a timetable with these starts and machines.

    ``shape`` is the shape of the memory profiles. Requests with a start of -1 are left out.
    """
    table = Timetable(requests, starts.copy(), machines.copy(), np.zeros(shape, np.int64))
    place(table, np.arange(len(starts)), False)
    return table
