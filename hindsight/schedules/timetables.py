"""Schedules as arrays: start and machine of each request, and free memory in every round.

Also the random numbers, and the acceptance threshold, of the compiled searches.

*Fitting test.* Let F_r be the number of tokens that the requests placed already leave free in round
r. A request that starts at t runs in rounds t + 1 .. t + o, and holds s + r - t tokens in each
round r of its run. If s + r - t > F_r, the next start worth trying is min(r, s + r - F_r). *Proof.*
Let t' be a start between t and this one. The run t' + 1 .. t' + o contains round r, because t' < r
and t' + o > t + o >= r. In round r the request holds s + r - t' > F_r tokens, because
t' < s + r - F_r. So the search skips no feasible start. In blocks of b tokens, of which F_r are
free in round r, the request fits in round r if s + r - t <= b F_r.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hindsight.runtime.clock import StoppedEarlyError, timed_slices
from hindsight.runtime.compilation import inner, njit, step
from instances import FleetSchedule, Instance, Schedule
from instances.arrays import FloatArray, IntArray

LONGEST_PROFILE = 50_000_000
"""Largest number of entries (machines x rounds) in memory profiles; no search uses more."""


class Requests(NamedTuple):
    """The requests of an instance, one array per property, and the size of a memory block.

    Attributes
    ----------
    prompt, output : int64 array, shape (n,)
        Tokens that each request stores before its first round, and its output length in tokens.
    arrival, last : int64 array, shape (n,)
        First and last allowed start of each request, in rounds.
    weight : int64 array, shape (n,)
        Weight of each request: the cost of its start is weight times start. All are 0 if the cost
        of a schedule is the number of requests left out.
    penalty : float64 array, shape (n,)
        Cost of leaving a request out of the schedule. Infinite if that is not allowed.
    block : int
        Number of tokens in a block. If memory is counted in tokens, a block is one token.
    """

    prompt: IntArray
    output: IntArray
    arrival: IntArray
    last: IntArray
    weight: IntArray
    penalty: FloatArray
    block: int


class Timetable(NamedTuple):
    """A feasible schedule and its free memory, as arrays that compiled searches change in place.

    Attributes
    ----------
    requests : Requests
        The requests, and the size of a memory block.
    starts, machines : int64 array, shape (n,)
        Start of each request, or -1 if it is left out of the schedule, and its machine.
    profiles : int64 array, shape (machines, rounds)
        Memory profiles. Entry (k, r): memory blocks that are free on machine k in round r.
    """

    requests: Requests
    starts: IntArray
    machines: IntArray
    profiles: IntArray


@step
def hold(table: Timetable, i: int, at: int, k: int, sign: int) -> None:
    """Take the memory of request i, with start ``at``, from the memory profile of machine k.

    A memory profile has the number of free memory blocks in each round. If ``sign`` is -1, give the
    memory back instead. If ``at`` is -1, the request is left out of the schedule, and nothing
    changes.
    """
    requests = table.requests
    if at >= 0:
        prompt, output, block = requests.prompt[i], requests.output[i], requests.block
        _take(table.profiles[k], prompt, output, block, at, sign)


@inner
def _take(profile: IntArray, prompt: int, output: int, block: int, at: int, sign: int) -> None:
    """Take the memory of a request from a profile, or give it back (`hold`)."""
    for r in range(at + 1, at + output + 1):
        tokens = prompt + r - at
        profile[r] -= sign * (tokens if block == 1 else (tokens + block - 1) // block)


@inner
def earliest_fit(profile: IntArray, start: int, prompt: int, output: int, block: int) -> int:
    """Return the first start >= ``start`` at which a request fits, or -1 if there is none.

    ``profile[r]`` is the number of memory blocks that other requests leave free in round r.
    ``block`` is the number of tokens in a block. The last round of the request must be before round
    ``len(profile)``. The proof at the head of this module (*Fitting test*) shows that no feasible
    start is passed over.
    """
    size = profile.shape[0]
    if start + output >= size:
        return -1
    r = start + output
    while r > start:
        # *Fitting test* (proof at the head of this module): in round r, the request holds prompt +
        # r - start tokens. This is more than the free tokens if start < ``needed``. Then the next
        # start to try is ``needed``, or r if that is earlier: with start r, the request does not
        # run in round r.
        needed = r + prompt - (profile[r] if block == 1 else profile[r] * block)
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
    """Return the first start >= ``begin`` at which request i fits on some machine, and the machine.

    ``profiles[k, r]`` is the number of free memory blocks on machine k in round r. The start is -1
    if there is none. If several machines have the same first start, machine ``first`` is taken if
    it is one of them, else the next one of them after it, cyclically. The request must end before
    round ``size``, and must not start after its last allowed start.
    """
    prompt, output, last = requests.prompt[i], requests.output[i], requests.last[i]
    size = min(size, last + output + 1)
    best, where = -1, first
    for after in range(profiles.shape[0]):
        k = (first + after) % profiles.shape[0]
        # The request must end before round ``size``. Once it has a start on some machine, ``size``
        # is its end with this start, so that only earlier starts are found on other machines.
        at = earliest_fit(profiles[k, :size], begin, prompt, output, requests.block)
        if at >= 0:
            best, where, size = at, k, at + output
        if best == begin:
            break
    return best, where


HOLD, SEARCH, IN_TURN = range(3)
"""Modes of `place`. `HOLD`: keep the given starts. `SEARCH`: take the first start that fits.
`IN_TURN`: like `SEARCH`, but no request starts earlier than its predecessor in the order."""


@njit
def place(table: Timetable, order: IntArray, first: int, last: int, mode: int) -> None:
    """Place the requests ``order[first:last]`` in a timetable and its memory profiles, in place.

    A memory profile has the number of free memory blocks of a machine in each round. With `HOLD`,
    each request keeps its start, and its memory must still be free in the profiles.

    Otherwise each request takes the first start that ``mode`` allows, on any machine, at which it
    fits with all other requests. If the request has an old start, its memory there is given back to
    the profiles first. A request without a feasible start gets start -1.
    """
    requests, starts, machines, profiles = table
    for x in range(first, last):
        i = order[x]
        if mode != HOLD:
            hold(table, i, starts[i], machines[i], -1)
            begin, k, rounds = requests.arrival[i], machines[i], profiles.shape[1]
            if mode == IN_TURN and x > 0:
                begin = max(begin, starts[order[x - 1]])
            starts[i], machines[i] = fit(requests, profiles, i, begin, k, rounds)
        hold(table, i, starts[i], machines[i], 1)


def place_all(table: Timetable, order: IntArray, must_stop: Callable[[], bool], mode: int) -> bool:
    """Move each request in ``order`` to the first start at which it fits with all others.

    The timetable is changed in place. ``mode`` is `SEARCH`, or `IN_TURN` if no request may start
    earlier than its predecessor in ``order``. Return whether all requests were tried. If the stop
    callback ``must_stop`` returns True, the remaining requests are not tried.
    """
    try:
        for part in timed_slices(len(order), must_stop):
            place(table, order, part.start, part.stop, mode)
    except StoppedEarlyError:
        return False
    return True


def first_state(seed: int) -> IntArray:
    """Return a first state, shape (1,), of the random numbers of `next_uniform` for a seed.

    Similar seeds give unrelated states.
    """
    return np.array([np.random.default_rng(seed).integers(1, 1 << 32)], np.int64)


@njit
def next_uniform(state: IntArray) -> float:
    """Return a random float in [0, 1), from the generator xorshift32 (Marsaglia 2003).

    ``state``, int64 of shape (1,), has the 32-bit state of the generator, which must not be 0. The
    state is advanced in place.
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
    """Draw the largest cost at which an annealing accepts a move (Metropolis rule).

    A move changes the schedule, and is undone if the cost after it exceeds the result. ``cost`` is
    the cost before the move. The temperature falls from ``hot`` to ``cold``, in the unit of costs,
    and ``share`` in [0, 1] is the share of all moves that are done. ``uniform`` is a random number
    in [0, 1). The threshold is drawn before the cost after the move is known, so that the
    evaluation of the move can stop as soon as it exceeds the threshold.
    """
    temperature = hot * (cold / hot) ** share
    most: float = cost - temperature * np.log(uniform + 1e-300)
    return most


def schedule_on(
    instance: Instance, machines: IntArray, starts: IntArray
) -> Schedule | FleetSchedule:
    """Return the schedule with these machines and starts, both of shape (n,).

    It is a `FleetSchedule` if the instance has several replicas, else a `Schedule`.
    """
    if instance.replicas == 1:
        return Schedule(instance, starts)
    return FleetSchedule.from_starts(instance, machines, starts)


def columns_of(schedule: Any) -> tuple[IntArray, IntArray]:
    """Return the starts and the machines of a schedule, both of shape (n,).

    The machines are all 0 in a schedule for one machine.
    """
    starts = schedule.start_times
    return starts, getattr(schedule, "assignment", np.zeros_like(starts))


def requests_of(instance: Instance, last: IntArray | None = None) -> Requests:
    """Return the requests of an instance, and the size of a block, by the memory rule.

    ``last`` has the last allowed start of each request, shape (n,), or is None. Without it, the
    cost of a schedule is the sum of weight times start, and no request may be left out. With it,
    the cost is the number of requests left out.
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
        int(rule.block_size),
    )


def empty_profiles(instance: Instance, shape: tuple[int, int]) -> IntArray:
    """Return the memory profiles of machines without requests: all their memory blocks are free.

    ``shape`` is (machines, rounds).
    """
    rule = instance.memory_rule
    limits = rule.limits(instance.memory_limit, np.arange(shape[1]))
    return np.broadcast_to(limits, shape) // rule.block_size


def timetable(
    requests: Requests, starts: IntArray, machines: IntArray, profiles: IntArray
) -> Timetable:
    """Return a schedule with these starts and machines as a timetable.

    ``profiles`` are those of `empty_profiles`. The timetable takes the memory of the requests from
    them. Requests with start -1 are left out of the schedule.
    """
    table = Timetable(requests, starts.copy(), machines.copy(), profiles)
    place(table, np.arange(len(starts)), 0, len(starts), HOLD)
    return table
