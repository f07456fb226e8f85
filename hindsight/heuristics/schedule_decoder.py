"""Schedules as lists of numbers: compiled encoder and decoder.

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
as t' < P_r + s + r - M. So the search jumps, and no feasible start is passed over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import njit
from instances.arrays import IntArray, RequestColumns

REJECTED = -1
"""Returned for a schedule that costs too much or does not fit into the profile."""


class Encoding(NamedTuple):
    """A schedule, as in the module docstring, and what it stands for.

    Attributes
    ----------
    order : int64 array, shape (n,)
        Requests by start time.
    delay : int64 array, shape (n,)
        Of each request, rounds >= 0.
    starts : int64 array, shape (n,)
        Start times.
    """

    order: IntArray
    delay: IntArray
    starts: IntArray


class Profile(NamedTuple):
    """Work space: the memory already placed.

    Attributes
    ----------
    memory : int64 array
        Entry r for round r; a schedule that does not fit in is rejected.
    filled : int64 array, shape (1,)
        It is zero beyond that round, so that clearing costs no more than what was written.
    """

    memory: IntArray
    filled: IntArray


class Span(NamedTuple):
    """How far a decoding goes, and what it passes on to requests behind it.

    Attributes
    ----------
    stop : int
        Positions 0 .. stop - 1 count.
    tail_weight : float
        Of the mean start of the last of them: the delay that later requests are thought to get.
    tail_size : int
        How many they are.
    """

    stop: int
    tail_weight: float
    tail_size: int


@njit
def hold(profile: IntArray, start: int, prompt: int, output: int, sign: int) -> None:
    """Add the memory of a run to the profile, or with ``sign`` -1 take it away."""
    for r in range(start + 1, start + output + 1):
        profile[r] += sign * (prompt + r - start)


@njit
def earliest_fit(profile: IntArray, start: int, prompt: int, output: int, limit: int) -> int:
    """First start >= ``start`` at which a request fits, or `REJECTED` past the profile's end.

    ``profile[r]`` is the memory already placed in round r; see the module docstring.
    """
    size = profile.shape[0]
    if start + output >= size:
        return REJECTED
    r = start + output
    while r > start:
        needed = r + profile[r] + prompt - limit
        if needed > start:
            start = min(r, needed)
            r = start + output
            if r >= size:
                return REJECTED
        else:
            r -= 1
    return start


@njit
def decode(
    requests: RequestColumns,
    encoding: Encoding,
    first: int,
    span: Span,
    out: IntArray,
    work: Profile,
    bound: float,
) -> float:
    """Decode positions first .. stop - 1 behind the fixed prefix ``starts[order[:first]]``.

    Writes the starts to ``out`` (shape (n,), the prefix is left alone); returns the latency of
    positions 0 .. stop - 1 plus ``tail_weight`` times the mean start of the last ``tail_size`` of
    them, or `REJECTED` as soon as that must exceed ``bound``.
    """
    prompt, output, arrival, limit = requests
    order, delay, starts = encoding
    stop, tail_weight, tail_size = span
    profile, filled = work
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
def first_fit(requests: RequestColumns, order: IntArray, work: Profile) -> IntArray:
    """Serial generation: each request, in the given order, at the first start that fits.

    Returns the starts, shape (n,). ``work`` must have room for all.
    """
    prompt, output, arrival, limit = requests
    profile, filled = work
    profile[:] = 0
    filled[0] = len(profile) - 1
    starts = np.zeros(order.shape[0], np.int64)
    for i in order:
        starts[i] = earliest_fit(profile, arrival[i], prompt[i], output[i], limit)
        hold(profile, starts[i], prompt[i], output[i], 1)
    return starts


@njit
def encode(requests: RequestColumns, encoding: Encoding, work: Profile) -> None:
    """The delays, in place, that make `decode` return a feasible schedule of known order."""
    prompt, output, arrival, limit = requests
    order, delay, starts = encoding
    profile, filled = work
    profile[:] = 0
    filled[0] = len(profile) - 1
    now = 0
    for i in order:
        t = earliest_fit(profile, max(now, arrival[i]), prompt[i], output[i], limit)
        delay[i] = starts[i] - t
        hold(profile, starts[i], prompt[i], output[i], 1)
        now = starts[i]
