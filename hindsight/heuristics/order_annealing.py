"""Upper bounds at any size: annealing of the order in which requests are placed.

A schedule is an order of the requests: each, in turn, takes the first start at which it fits for
its whole life beside those before it. A move puts a request elsewhere in the order, or swaps two,
and places everything behind anew, because a long request that waits changes what thousands of later
rounds can hold. Ruin and recreate (`hindsight.heuristics.ruin_and_recreate`) does not see that: it
leaves all others where they are.

Moves sweep the order from its front, so that the memory of the requests before the present one is
always at hand, and a move touches only those that it places. It ends early if nothing moved, or as
soon as the loss exceeds what is accepted by `SLACK`. Requests are moved with a probability that
grows with their volume: the many short ones fit anywhere.

Not every schedule has such an order, because an earlier start makes a request larger in every later
round: the first schedule is the one that the order of the given starts leads to.

Deterministic: the schedule depends on the arguments and the number of moves alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from hindsight.runtime.clock import Slices, StoppedEarlyError, timed_slices
from hindsight.runtime.compilation import njit, overwrite, step
from instances import Instance
from instances.arrays import FloatArray, IntArray, RequestColumns

from .annealing_kernels import next_uniform, threshold
from .schedule_decoder import earliest_fit, fit_in_order, hold

FARTHEST = 200
"""Most places by which a move puts a request elsewhere."""

SWAPPED = 0.3
"""Share of moves that swap two requests."""

EARLIER, SWAP, LATER = -1, 0, 1
"""Kinds of moves; the negative one takes a move back."""

SLACK = 5.0
"""Loss, in mean output lengths of the mean weight, that those placed so far may have beyond what is
accepted, as those behind may still gain."""

LEAST_SHARE = 0.02
"""Least probability with which a drawn request is moved."""

SPARE_ROUNDS = 1.3
"""Most rounds of a schedule, as a multiple of those of the first one."""


class Order(NamedTuple):
    """An order, its schedule, and how far the sweep has come; moves change it in place.

    Attributes
    ----------
    order : int64 array, shape (n,)
        Requests in the order in which they are placed.
    starts, best : int64 array, shape (n,)
        Start of each request, and its start in the best schedule.
    profile : int64 array
        Memory of the requests before the present place; entry r for round r.
    counts : int64 array, shape (4,)
        The present place, the weighted latency gained since the first schedule, the same of the
        best schedule, and how many requests were placed.
    state : int64 array, shape (1,)
        State of `next_uniform`.
    """

    order: IntArray
    starts: IntArray
    best: IntArray
    profile: IntArray
    counts: IntArray
    state: IntArray


class Cooling(NamedTuple):
    """Moves of an annealing, its temperatures in rounds, the slack, and who is moved.

    Attributes
    ----------
    total : int
        Number of moves.
    hot, cold, slack : float
        First and last temperature, and the loss allowed on the way, times weights.
    shares : float64 array, shape (n,)
        Probability with which a drawn request is moved.
    weights : int64 array, shape (n,)
        Weight of each request.
    """

    total: int
    hot: float
    cold: float
    slack: float
    shares: FloatArray
    weights: IntArray


@step
def _change(order: IntArray, one: int, two: int, kind: int) -> None:
    """Swap two places of the order, or put the request at one place at another."""
    if kind == SWAP:
        order[one], order[two] = order[two], order[one]
        return
    place, to = (one, two) if kind == LATER else (two, one)
    i, by = order[place], 1 if to > place else -1
    while place != to:
        order[place] = order[place + by]
        place += by
    order[to] = i


@step
def _advance(requests: RequestColumns, work: Order, place: int) -> int:
    """Add the request at a place to the profile; return the next place, at last the first one."""
    prompt, output, _, _ = requests
    order, starts, _, profile, _, _ = work
    i = order[place]
    hold(profile, starts[i], prompt[i], output[i], 1)
    if place < len(order) - 2:
        return place + 1
    for k in order[: place + 1]:
        hold(profile, starts[k], prompt[k], output[k], -1)
    return 0


@step
def _place(
    requests: RequestColumns,
    work: Order,
    weights: IntArray,
    new: IntArray,
    places: tuple[int, int],
    bids: tuple[float, float],
) -> tuple[int, int]:
    """Place the requests from one place of the order on, and take them from the profile again.

    ``places``: the first one, and the last that the move changed. ``bids``: the loss to accept, and
    the one to give up at. Returns the change of the cost and the first place that was not reached,
    negative if the move is refused.
    """
    prompt, output, arrival, limit = requests
    order, starts, _, profile, _, _ = work
    first, last = places
    most, hopeless = bids
    n = len(order)
    j, change, moved, fits = first, 0, 0, True
    while j < n:
        i = order[j]
        at = earliest_fit(profile, arrival[i], prompt[i], output[i], limit)
        if at < 0:
            fits = False
            break
        hold(profile, at, prompt[i], output[i], 1)
        new[i] = at
        change += weights[i] * (at - starts[i])
        moved += at != starts[i]
        j += 1
        if j > last and (moved == 0 or change > hopeless):
            break
    for k in range(first, j):
        i = order[k]
        hold(profile, new[i], prompt[i], output[i], -1)
    return change, j if fits and change <= most else -j


@partial(njit, makes_arrays=True)
def anneal_order(
    requests: RequestColumns, cooling: Cooling, first_move: int, last_move: int, work: Order
) -> None:
    """Make moves first_move .. last_move - 1, all in place."""
    order, starts, best, _, counts, state = work
    n = len(order)
    new = np.zeros(n, np.int64)
    place = counts[0]
    for move in range(first_move, last_move):
        is_drawn = False
        while not is_drawn:
            place = _advance(requests, work, place)
            other = min(n - 1, place + int(FARTHEST ** next_uniform(state)))
            kind = LATER if next_uniform(state) < 0.5 else EARLIER
            i = order[place if kind == LATER else other]
            is_drawn = next_uniform(state) < cooling.shares[i]
        if next_uniform(state) < SWAPPED:
            kind = SWAP
        _change(order, place, other, kind)
        done, uniform = move / cooling.total, next_uniform(state) + 1e-300
        most = threshold(0.0, cooling.hot, cooling.cold, done, uniform)
        bids = (most, most + cooling.slack)
        change, end = _place(requests, work, cooling.weights, new, (place, other), bids)
        counts[3] += abs(end) - place
        if end < 0:
            _change(order, place, other, -kind)
            continue
        for i in order[place:end]:
            starts[i] = new[i]
        counts[1] -= change
        if counts[1] > counts[2]:
            counts[2] = counts[1]
            overwrite(best, starts)
    counts[0] = place


def annealed_order(
    instance: Instance,
    start_times: IntArray,
    seed: int,
    moves: int,
    temperatures: tuple[float, float],
    must_stop: Callable[[], bool],
) -> tuple[IntArray, int]:
    """Return the starts of the best schedule found, shape (n,), and how many requests were placed.

    Parameters
    ----------
    instance : Instance
        The problem, with two requests at least.
    start_times : int64 array
        A feasible schedule, shape (n,).
    seed : int
        Seed of the moves, at least 1.
    moves : int
        Number of moves.
    temperatures : tuple of two floats
        First and last temperature, in mean output lengths of the mean weight.
    must_stop : Callable[[], bool]
        Polled a few times a second.
    """
    columns = instance.columns
    order = np.argsort(start_times, kind="stable")
    longest = int(columns.output_lengths.max())
    rounds = int(SPARE_ROUNDS * (int(np.max(start_times)) + longest)) + 2 * longest
    starts, profile = np.zeros(len(order), np.int64), np.zeros(rounds, np.int64)
    try:
        for part in timed_slices(len(order), must_stop):
            fit_in_order(columns, order[part], starts, profile, False)
    except StoppedEarlyError:
        return start_times, 0
    if starts.min() < 0:  # it takes too many rounds
        return start_times, 0
    profile[:] = 0
    unit = float(columns.output_lengths.mean() * instance.weights.mean())
    hot, cold = (unit * one for one in temperatures)
    shares = np.clip(instance.volumes / instance.volumes.mean(), LEAST_SHARE, 1.0)
    cooling = Cooling(moves, hot, cold, SLACK * unit, shares, instance.weights)
    counts, state = np.zeros(4, np.int64), np.array([seed], np.int64)
    work = Order(order, starts, starts.copy(), profile, counts, state)
    done, slices = 0, Slices()
    while done < moves and not must_stop():
        with slices.next(moves - done) as length:
            anneal_order(columns, cooling, done, done + length, work)
        done += length
    return work.best, int(counts[3])
