"""Compiled encoder and decoder of schedules, and the fitting test that all heuristics share.

*Encoding.* A schedule is a permutation ``order`` (requests by start time) and a ``delay >= 0`` for
each request. The decoder starts the requests in that order: request i takes the first start
t0 >= max(a_i, start of its predecessor) at which it fits beside those already placed, in *every*
round of its life; if ``delay[i] > 0`` it takes the first such start >= t0 + ``delay[i]`` instead.

*Every feasible schedule is decodable.* Sort by start time and let ``delay[i]`` = t_i - t0. This is
>= 0: t_i is a start that is >= a_i and >= that of the predecessor, and at which i fits beside those
placed before, a subset of the schedule; t0 is the first of these. And the first such start
>= t0 + ``delay[i]`` = t_i is t_i itself. Plain serial generation (no delays, any order) does not
have this property, and misses optima here: an earlier start makes a request larger in every later
round.

*Fitting test.* P_r is the memory already placed in round r. A request started at t holds
s + r - t in round r of its life. If round r overflows, P_r + s + r - t > M, the first start worth
trying is min(r, P_r + s + r - M): an earlier one t' > t still covers round r if t' < r (its life
t' + 1 .. t' + o begins no later than r and ends after t + o >= r), and overflows it there as long
as t' < P_r + s + r - M. So the search jumps, and no feasible start is passed over. In blocks of
b tokens, of which F_r are free in round r, the tokens s + r - t fit where they are at most b F_r.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hindsight.runtime.clock import StoppedEarlyError, timed_slices
from hindsight.runtime.compilation import njit, plain_at_first, step
from instances import Instance, Schedule
from instances.arrays import IntArray, RequestColumns

LONGEST_PROFILE = 50_000_000
"""Most rounds of a schedule that is shifted left, or improved in blocks."""

REJECTED = -1
"""Returned for a schedule that costs too much or does not fit into the profile."""


class Encoding(NamedTuple):
    """A schedule in the encoding of the module docstring, with its start times.

    Attributes
    ----------
    order : int64 array, shape (n,)
        Requests by start time.
    delay : int64 array, shape (n,)
        Delay of each request, rounds >= 0.
    starts : int64 array, shape (n,)
        Start times.
    """

    order: IntArray
    delay: IntArray
    starts: IntArray


class Profile(NamedTuple):
    """Work space for the memory already placed.

    Attributes
    ----------
    memory : int64 array
        Entry r for round r; a schedule with more rounds is rejected.
    filled : int64 array, shape (1,)
        Last round that may be non-zero, so that clearing costs no more than was written.
    """

    memory: IntArray
    filled: IntArray


class Span(NamedTuple):
    """Positions that a decoding covers, and the delay it passes on to later requests.

    Attributes
    ----------
    stop : int
        Positions 0 .. stop - 1 count.
    tail_weight : float
        Weight of the mean start of the last positions: the delay expected for later requests.
    tail_size : int
        Number of these last positions.
    """

    stop: int
    tail_weight: float
    tail_size: int


@step
def hold(
    profile: IntArray,
    start: int,
    prompt: int,
    output: int,
    sign: int,
    block_size: int | None = None,
) -> None:
    """Add the memory of a run to the profile, or subtract it with ``sign`` -1."""
    for r in range(start + 1, start + output + 1):
        tokens = prompt + r - start
        profile[r] += sign * (tokens if block_size is None else -(-tokens // block_size))


@step
def earliest_fit(
    profile: IntArray,
    start: int,
    prompt: int,
    output: int,
    limit: int,
    block_size: int | None = None,
) -> int:
    """Return the first start >= ``start`` at which a request fits; `REJECTED` past the profile.

    ``profile[r]`` is the memory already placed in round r; see the module docstring. With a block
    size, the profile and ``limit`` count blocks, and ``prompt`` counts tokens stored before the
    first round.
    """
    size = profile.shape[0]
    if start + output >= size:
        return REJECTED
    r = start + output
    while r > start:
        # In round r the request holds r - start more than its prompt, which must fit.
        room = limit - profile[r]
        if block_size is not None:
            room *= block_size
        needed = r + prompt - room
        if needed > start:
            start = min(r, needed)
            r = start + output
            if r >= size:
                return REJECTED
        else:
            r -= 1
    return start


@njit
def decode(  # noqa: C901
    requests: RequestColumns,
    encoding: Encoding,
    first: int,
    span: Span,
    out: IntArray,
    work: Profile,
    bound: float,
) -> float:
    """Find the starts of positions first .. stop - 1 of an encoding, after those already fixed.

    Writes the starts to ``out``, shape (n,), and leaves those of the prefix alone. Returns the
    latency of positions 0 .. stop - 1 plus ``tail_weight`` times the mean start of the last
    ``tail_size`` of them, or `REJECTED` as soon as that must exceed ``bound``.
    """
    prompt, output, arrival, limit = requests
    order, delay, starts = encoding
    stop, tail_weight, tail_size = span
    profile, filled = work
    # Start from the prefix: its latency, and the memory of what still runs at its last start.
    now = starts[order[first - 1]] if first > 0 else 0
    for r in range(now, filled[0] + 1):
        profile[r] = 0
    filled[0] = now
    cost = 0.0
    for j in range(first):
        i = order[j]
        end = starts[i] + output[i]
        cost += end - arrival[i]
        if end > now:  # starts are monotone: only what still runs matters
            hold(profile, now, prompt[i] + now - starts[i], end - now, 1)
            filled[0] = max(filled[0], end)
    rest_output = 0.0
    rest_arrival = 0.0
    for j in range(first, stop):
        rest_output += output[order[j]]
        rest_arrival += arrival[order[j]]
    rest = stop - first
    tail = 0.0
    for j in range(stop - tail_size, first):
        tail += starts[order[j]]
    # Decode the rest one by one, until the cost so far is too large.
    for j in range(first, stop):
        i = order[j]
        t = earliest_fit(profile, max(now, arrival[i]), prompt[i], output[i], limit)
        if t >= 0 and delay[i] > 0:
            t = earliest_fit(profile, t + delay[i], prompt[i], output[i], limit)
        if t < 0:
            return float(REJECTED)
        end = t + output[i]
        hold(profile, t, prompt[i], output[i], 1)
        filled[0] = max(filled[0], end)
        out[i] = t
        now = t
        cost += end - arrival[i]
        rest -= 1
        rest_output -= output[i]
        rest_arrival -= arrival[i]
        if j >= stop - tail_size:
            tail += t
        # every later start is >= now (the order is by start time) and >= its arrival
        least = rest_output + max(0.0, rest * now - rest_arrival)
        if j < stop - tail_size:  # all of the tail is still to come
            least += tail_weight * now
        if cost + least > bound:
            return float(REJECTED)
    if tail_size > 0:
        cost += tail_weight * tail / tail_size
    return cost if cost <= bound else float(REJECTED)


@njit
def fit_in_order(
    requests: RequestColumns,
    order: IntArray,
    starts: IntArray,
    profile: IntArray,
    are_placed: bool,
    block_size: int | None = None,
) -> None:
    """Give each request, in the given order, the first start at which it fits, in place.

    With ``are_placed`` they are in the profile already, and may stay where they are.
    """
    prompt, output, arrival, limit = requests
    for i in order:
        if are_placed:
            hold(profile, starts[i], prompt[i], output[i], -1, block_size)
        starts[i] = earliest_fit(profile, arrival[i], prompt[i], output[i], limit, block_size)
        hold(profile, starts[i], prompt[i], output[i], 1, block_size)


def shift_left(
    instance: Instance, start_times: IntArray, should_stop: Callable[[], bool]
) -> IntArray:
    """Move requests, in order of start, to the earliest start that fits beside all others.

    Passes repeat until nothing moves. The schedule is feasible and no worse at every moment; start
    times are int64, shape (n,), of a feasible schedule.
    """
    schedule = Schedule(instance, start_times)
    starts = np.array(start_times, dtype=np.int64)
    if schedule.makespan > LONGEST_PROFILE:
        return starts
    profile = np.append(schedule.memory_profile(), 0)
    moved = True
    while moved and not should_stop():
        before = int(starts.sum())
        order = np.argsort(starts, kind="stable")
        try:
            for part in timed_slices(len(instance), should_stop):
                fit_in_order(instance.columns, order[part], starts, profile, True)
        except StoppedEarlyError:
            break
        moved = int(starts.sum()) < before
    return starts


@plain_at_first
def encode(requests: RequestColumns, encoding: Encoding, work: Profile) -> None:
    """Set the delays that make `decode` return a feasible schedule of known order."""
    prompt, output, arrival, limit = requests
    order, delay, starts = encoding
    profile, filled = work
    profile.fill(0)
    filled[0] = len(profile) - 1
    now = 0
    for i in order:
        t = earliest_fit(profile, max(now, arrival[i]), prompt[i], output[i], limit)
        delay[i] = starts[i] - t
        hold(profile, starts[i], prompt[i], output[i], 1)
        now = starts[i]
