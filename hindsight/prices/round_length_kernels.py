"""Approximate values of requests under prices of machine time, and their derivatives.

A *block* is about fifteen steps of a request in rounds of equal length. Rounds have one of a few
lengths (*classes*), and blocks begin at points of a coarse time grid. A block pays for each moment
at its price. Payments are differences of integrals of prices, which are piecewise linear in time.
The adjoint of the recursion gives a subgradient: the derivatives by these integrals.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import njit, step
from instances.arrays import FloatArray, IntArray

from .round_length_tangents import Machine
from .round_length_values import Goals, Requests

BLOCKS = 120
"""Largest number of blocks per request after its first step."""


class Model(NamedTuple):
    """Machine, prices and round lengths from which values of requests are computed.

    Attributes
    ----------
    machine : Machine
        Memory limit M and the minorant.
    lengths : float64 array, shape (classes,)
        Round lengths in seconds, ascending. The rounds of one length are a class.
    penalty : float
        Cost of a late request: 1, or infinite if the goal is total latency.
    step : float
        Step of the time grid in seconds.
    until : float64 array, shape (points, 3)
        Integrals of the prices alpha, beta and eta of machine time from time 0 to each grid point.
    levies : float64 array
        Integrals, from their first cell on, of what requests pay per round that they take part in:
        request i has the integral to grid point x at place + x, with first, after and place of
        `Requests` and x between first and after.
    stop : int64 array, shape (1,)
        Not 0 once the answer is no longer needed.
    """

    machine: Machine
    lengths: FloatArray
    penalty: float
    step: float
    until: FloatArray
    levies: FloatArray
    stop: IntArray


class Answer(NamedTuple):
    """Values of requests, and the derivatives of the sum of these values.

    Attributes
    ----------
    values : float64 array, shape (requests,)
        Least latency plus payments of each request, in seconds, or in [0, 1] with deadlines.
    by_until, by_levies : float64 array
        Derivatives by ``until`` and ``levies`` of `Model`.
    """

    values: FloatArray
    by_until: FloatArray
    by_levies: FloatArray


class _Block(NamedTuple):
    """Consecutive steps of a request in rounds of equal length.

    Attributes
    ----------
    size : float
        Number of steps.
    work, shared : float
        What a step is charged at price 1, in seconds: w, multiplied by the price of work, and
        d0 kv / M + w, multiplied by the price of memory. kv is the mean number of tokens held.
    rest : float
        Least duration of all steps of the request after the block, in seconds.
    """

    size: float
    work: float
    shared: float
    rest: float


class _Run(NamedTuple):
    """Data of a block that begins at a grid point from ``begin`` to ``begin`` + ``width``.

    Attributes
    ----------
    begin, width : int
        Values after the block are stored at the grid points ``begin`` to ``begin`` + ``width``.
    rest : float
        Least duration of the request's steps after the block, in seconds.
    classes : float64 array, shape (3, classes)
        Duration of the block for each round length, and factors of its payments, see
        `_fill_classes`.
    paid : float64 array
        Integrals of the payments of `_fill_paid` up to each grid point, or derivatives by them.
    after : float64 array
        Cost after the block at each grid point, or derivative by that cost.
    """

    begin: int
    width: int
    rest: float
    classes: FloatArray
    paid: FloatArray
    after: FloatArray


@step
def _blocks_after_first(output: int, model: Model) -> int:
    """Return the number of blocks of a request without its first block, which is its first step."""
    # A block has eight steps or more, and lasts half a step of the time grid or more.
    size = max(8, int(model.step / (2.0 * model.machine.d0)))
    return min(output - 1, max(6, min(BLOCKS, (output - 1) // size)))


@step
def _block(g: int, prompt: int, output: int, model: Model) -> _Block:
    """Return block ``g`` of a request's steps.

    Block 0 is the first step. The other blocks have about equally many steps.
    """
    M, d0, d1, d2 = model.machine
    parts = max(1, _blocks_after_first(output, model))
    first = 0 if g == 0 else 1 + (output - 1) * (g - 1) // parts
    last = 1 if g == 0 else 1 + (output - 1) * g // parts
    kv = prompt + (first + last + 1) * 0.5
    work = d1 * (prompt if g == 0 else 1.0) + d2 * kv
    rest = (output - last) * (d0 + d1 + d2 * (prompt + (last + output + 1) * 0.5))
    return _Block(float(last - first), work, work + d0 * kv / M, rest)


@step
def _fill_classes(block: _Block, model: Model, classes: FloatArray) -> int:
    """Write what a block does in each class of rounds: a column of ``classes`` for each.

    These are its duration in grid steps, its rounds per second, and its rounds per second beyond
    d0. Return the first class whose rounds are long enough for the block's work.
    """
    first, shortest = 0, model.machine.d0 + block.work
    for j in range(model.lengths.size):
        length = max(model.lengths[j], shortest)
        classes[0, j] = length * block.size / model.step
        classes[1, j] = 1.0 / length
        classes[2, j] = 1.0 / (length - model.machine.d0) if block.work > 0.0 else 0.0
        if model.lengths[j] <= shortest:
            first = j
    return first


@step
def _fill_paid(block: _Block, run: _Run, low: int, own: IntArray, model: Model) -> None:
    """Write the payments of a block up to each grid point from ``low`` on.

    The first are at one round per second at the prices alpha and eta, and for taking part. The
    second are at one round per second beyond d0 at the price beta. ``own`` is the row of the
    request in ``share`` of `Requests`.
    """
    for x in range(low, run.width + 1):
        at = run.begin + x
        paid = block.shared * model.until[at, 0] + block.work * model.until[at, 2]
        run.paid[x, 0] = paid + model.levies[own[2] + min(max(at, own[0]), own[1])]
        run.paid[x, 1] = block.work * model.until[at, 1]


@step
def _add_paid(block: _Block, run: _Run, low: int, own: IntArray, answer: Answer) -> None:
    """Add the derivatives by the payments of `_fill_paid` to ``answer``, and set them to 0."""
    for x in range(low, run.width + 1):
        at, paid = run.begin + x, run.paid[x, 0]
        answer.by_until[at, 0] += block.shared * paid
        answer.by_until[at, 1] += block.work * run.paid[x, 1]
        answer.by_until[at, 2] += block.work * paid
        answer.by_levies[own[2] + min(max(at, own[0]), own[1])] += paid
        run.paid[x, 0] = run.paid[x, 1] = 0.0


@step
def _cheapest(run: _Run, m: int, first: int, best: float, model: Model) -> tuple[float, int]:
    """Return the least cost of a request from a block on that begins at grid point ``m``.

    Also return the class (round length of the block) that attains it. If no class costs less than
    ``best``, the cost of a later start, return ``best`` and -1. ``first`` is the first class that
    is long enough for the block.
    """
    choice = -1
    for j in range(first, model.lengths.size):
        place = m + run.classes[0, j]
        k, f = run.width - 1, 1.0
        if place < run.width:
            k = int(place)
            f = place - k
            cost = run.after[k] + f * (run.after[k + 1] - run.after[k])
        # After the last grid point, the cost is the completion time if the request runs alone from
        # then on. With deadlines it is there the cost of a late request.
        elif model.penalty < math.inf:
            cost = model.penalty
        else:
            cost = (run.begin + place) * model.step + run.rest
        # Costs rise with time: longer rounds cannot be cheaper.
        if cost >= best:
            break
        for kind in range(2):
            paid = run.paid[k, kind] + f * (run.paid[k + 1, kind] - run.paid[k, kind])
            cost += run.classes[kind + 1, j] * (paid - run.paid[m, kind])
        if cost < best:
            best, choice = cost, j
    return best, choice


@step
def _follow(run: _Run, m: int, j: int, share: float) -> None:
    """Add ``share`` times the derivatives of the cost of a block to ``run.paid`` and ``run.after``.

    The block begins at grid point ``m``, in class ``j``.
    """
    place = min(m + run.classes[0, j], float(run.width))
    k = min(int(place), run.width - 1)
    f = place - k
    for kind in range(2):
        paid = share * run.classes[kind + 1, j]
        run.paid[m, kind] -= paid
        run.paid[k, kind] += (1.0 - f) * paid
        run.paid[k + 1, kind] += f * paid
    if place < run.width:
        run.after[k] += share * (1.0 - f)
        run.after[k + 1] += share * f


@step
def _fill_starts(prompt: int, output: int, allowance: float, model: Model, starts: IntArray) -> int:
    """Write the grid points, from arrival on, at which each block may begin; return their number.

    A block begins after the least duration of the blocks before it. It begins so early that the
    request may complete within its window. The last entry is for completion.
    """
    count, earliest = 1 + _blocks_after_first(output, model), 0
    for g in range(count + 1):
        rest = lasts = 0.0
        if g < count:
            block = _block(g, prompt, output, model)
            lasts, rest = block.size * (model.machine.d0 + block.work), block.rest
        starts[g, 0] = earliest
        starts[g, 1] = max(int((allowance - rest - lasts) / model.step) + 2, earliest + 1)
        earliest = min(int(earliest + lasts / model.step), int(allowance / model.step) + 1)
    return count


@partial(njit, makes_arrays=True)
def approximate_values(requests: Requests, goals: Goals, model: Model, answer: Answer) -> None:
    """Write the values of requests to ``answer``, and add the derivatives of their sum."""
    h = model.step
    widest = int(goals.allowance.max() / h) + 4
    least = np.empty((BLOCKS + 2, widest + 1))
    choice = np.empty((BLOCKS + 1, widest + 1), np.int64)
    flow = np.empty((BLOCKS + 2, widest + 1))
    paid, by_paid = np.empty((widest + 1, 2)), np.zeros((widest + 1, 2))
    classes = np.empty((3, model.lengths.size))
    starts = np.empty((BLOCKS + 2, 2), np.int64)
    for i in range(requests.arrival.size):
        arrival, prompt, output = requests.arrival[i], requests.prompt[i], requests.output[i]
        begin, own = int(arrival / h), requests.share[i]
        count = _fill_starts(prompt, output, goals.allowance[i], model, starts)
        # Compute least costs, from the last block to the first. A start at a grid point costs no
        # more than a later start, because the request may wait.
        for m in range(starts[count, 0], starts[count, 1] + 1):
            late = min(model.penalty, 1e300) if (begin + m - 1) * h > goals.end[i] else 0.0
            least[count, m] = (begin + m) * h if model.penalty == math.inf else late
        for g in range(count - 1, -1, -1):
            block = _block(g, prompt, output, model)
            first = _fill_classes(block, model, classes)
            run = _Run(begin, starts[g + 1, 1], block.rest, classes, paid, least[g + 1])
            _fill_paid(block, run, starts[g, 0], own, model)
            if model.stop[0]:
                return
            best = min(model.penalty, 1e300)
            for m in range(starts[g, 1], starts[g, 0] - 1, -1):
                best, choice[g, m] = _cheapest(run, m, first, best, model)
                least[g, m] = best
                if g == 1 and (begin + m) * h > goals.first_token[i]:
                    least[g, m] = model.penalty
        f = arrival / h - begin
        answer.values[i] = (1.0 - f) * least[0, 0] + f * least[0, 1]
        answer.values[i] -= arrival if model.penalty == math.inf else 0.0
        # Derivatives: the request flows through its choices, from the first block to the last.
        flow[: count + 1, : starts[count, 1] + 1].fill(0.0)
        flow[0, 0] = 1.0 - f
        flow[0, 1] = f
        for g in range(count):
            block = _block(g, prompt, output, model)
            _fill_classes(block, model, classes)
            run = _Run(begin, starts[g + 1, 1], block.rest, classes, by_paid, flow[g + 1])
            for m in range(starts[g, 0], starts[g, 1] + 1):
                share = flow[g, m]
                if share < 1e-9:
                    continue
                if choice[g, m] >= 0:
                    _follow(run, m, choice[g, m], share)
                elif m < starts[g, 1]:
                    # A later start of the block is cheaper, so the request waits one grid step.
                    flow[g, m + 1] += share
            _add_paid(block, run, starts[g, 0], own, answer)
