"""Approximate values of requests under prices of machine time, and their derivatives.

The value of a request is its least latency plus what it pays for machine time, over all choices of
its rounds. A *block* is four or more consecutive steps of a request (fewer if its output is short)
in rounds of equal length. Rounds have one of a few lengths (*classes*), and blocks begin at points
of a coarse time grid. A block pays for each moment at the price of that moment. Payments are
differences of integrals of prices, which are piecewise linear in time. A recursion from the last
block to the first computes the values. Its adjoint, from the first block to the last, computes a
subgradient: the derivatives of the values by these integrals.
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

BLOCKS = 240
"""Largest number of blocks (consecutive rounds) into which a request's later rounds are cut."""


class Model(NamedTuple):
    """Machine, prices and round lengths from which least costs V_i of requests are computed.

    Attributes
    ----------
    machine : Machine
        Memory limit M, and the coefficients of the minorant (lower bound on a round's length).
    lengths : float64 array, shape (classes,)
        Round lengths D that a request may choose for a block of its steps (a run of consecutive
        rounds), in seconds, ascending. Each D is a class.
    penalty : float
        Cost of a late request: 1, or infinite if the goal is total latency.
    step : float
        Step of the time grid in seconds.
    until : float64 array, shape (points, 3)
        Integrals of the prices alpha, beta and eta of machine time from time 0 to each grid point.
    levies : float64 array
        Integrals over time of what each request pays per round for taking part. The integral of
        request i up to grid point x is ``levies[place + min(max(x, first), after)]``, where (first,
        after, place) is row i of `Requests.share`. The request pays only in the grid steps first ..
        after - 1.
    stop : int64 array, shape (1,)
        Another thread sets it to 1 to end the computation, whose result is then not used.
    """

    machine: Machine
    lengths: FloatArray
    penalty: float
    step: float
    until: FloatArray
    levies: FloatArray
    stop: IntArray


class Answer(NamedTuple):
    """Least costs V_i of requests, and the derivatives of their sum by integrals of prices.

    Attributes
    ----------
    values : float64 array, shape (requests,)
        Least latency plus payments of each request, in seconds, or in [0, 1] with deadlines.
    by_until, by_levies : float64 array
        Derivatives of the sum of the values by each entry of `Model.until` and `Model.levies`, in
        arrays of the same shapes.
    """

    values: FloatArray
    by_until: FloatArray
    by_levies: FloatArray


class _Block(NamedTuple):
    """A block: a run of consecutive steps of a request, in rounds of equal length.

    Attributes
    ----------
    size : float
        Number of steps.
    work, shared : float
        Seconds that multiply prices when a step pays. ``work`` = d1 tok + d2 kv, the seconds that
        the step adds to a round, multiplies beta, the price of work, and eta, that of work and
        taking part. ``shared`` = d0 kv / M + ``work`` multiplies alpha, the price of memory and
        work. The step processes tok tokens. In the block the request holds kv tokens on average.
    rest : float
        Least duration of all steps of the request after the block, in seconds.
    shortest : float
        Least length of a step, in seconds.
    """

    size: float
    work: float
    shared: float
    rest: float
    shortest: float


class _Run(NamedTuple):
    """Payments of a block of steps, and the costs after it, at grid points from ``begin`` on.

    A block is a run of consecutive steps of a request, in rounds of equal length.

    Attributes
    ----------
    begin, width : int
        ``begin``: first grid point with entries in the arrays, that of the request's arrival.
        ``width``: number of grid steps from it to the last point with entries.
    classes : float64 array, shape (3, classes)
        For each round length D: duration of the block in grid steps, 1 / D, and 1 / (D - d0), where
        d0 is the overhead of a round. Row 1 multiplies column 0 of ``paid``, row 2 multiplies
        column 1.
    paid : float64 array, shape (grid points, 2)
        Integrals over time, up to each grid point, of the two kinds of payments in `_fill_paid`.
        While derivatives are computed, it has the derivatives of the cost by these integrals
        instead.
    after : float64 array, shape (grid points,)
        Least cost after the block if it ends at each grid point. While derivatives are computed, it
        has the derivatives of the cost by these costs instead.
    """

    begin: int
    width: int
    classes: FloatArray
    paid: FloatArray
    after: FloatArray


@step
def _blocks_after_first(output: int, model: Model) -> int:
    """Return the number of blocks of a request after block 0, its first step.

    A block is a run of consecutive steps of the request.
    """
    # ``size`` is the wanted number of steps per block (run of consecutive steps): four or more,
    # which together last at least half a step of the time grid.
    size = max(4, int(model.step / (2.0 * model.machine.d0)))
    return min(output - 1, max(6, min(BLOCKS, (output - 1) // size)))


@step
def _block(g: int, prompt: int, output: int, model: Model) -> _Block:
    """Return block ``g`` of a request's steps: some consecutive steps in rounds of equal length.

    Block 0 is the first step, which processes the prompt. The other blocks have about equally many
    steps.
    """
    M, d0, d1, d2, least, square = model.machine
    parts = max(1, _blocks_after_first(output, model))
    first = 0 if g == 0 else 1 + (output - 1) * (g - 1) // parts
    last = 1 if g == 0 else 1 + (output - 1) * g // parts
    kv = prompt + (first + last + 1) * 0.5
    tokens = (d1 + square * prompt) * prompt if g == 0 else d1
    work, shortest = tokens + d2 * kv, max(d0 + tokens, least) + d2 * kv
    rest = (output - last) * (max(d0 + d1, least) + d2 * (prompt + (last + output + 1) * 0.5))
    return _Block(float(last - first), work, work + d0 * kv / M, rest, shortest)


@step
def _fill_classes(block: _Block, model: Model, classes: FloatArray) -> int:
    """Write three numbers for each class (round length D) to its column of ``classes``.

    A block is a run of consecutive steps of a request, in rounds of equal length D. The numbers are
    the duration of the block in grid steps, 1 / D, and 1 / (D - d0), where d0 is the overhead of a
    round. If a round of length D is too short for the tokens of a step, the least sufficient length
    replaces D. Classes ascend in D. Return the last class whose D is too short, or 0: shorter
    classes have the same numbers and need not be considered.
    """
    first, shortest = 0, block.shortest
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
    """Write integrals of a block's payments up to each grid point from ``low`` on to ``run.paid``.

    A block is a run of consecutive steps of a request. Column 0 has the integral of alpha
    ``block.shared`` + eta ``block.work`` + mu. Column 1 has that of beta ``block.work``. Here
    alpha, beta and eta are prices of machine time, and mu is the payment per round for taking part.
    In rounds of length D the block pays column 0 times 1 / D plus column 1 times 1 / (D - d0),
    where d0 is the overhead of a round. ``own`` is the row of the request in `Requests.share`.
    """
    for x in range(low, run.width + 1):
        at = run.begin + x
        paid = block.shared * model.until[at, 0] + block.work * model.until[at, 2]
        run.paid[x, 0] = paid + model.levies[own[2] + min(max(at, own[0]), own[1])]
        run.paid[x, 1] = block.work * model.until[at, 1]


@step
def _add_paid(block: _Block, run: _Run, low: int, own: IntArray, answer: Answer) -> None:
    """Add derivatives by the integrals of prices to ``answer``, and set ``run.paid`` to 0.

    Before the call, ``run.paid`` has the derivatives of a cost by the integrals of payments that
    `_fill_paid` writes. These integrals are linear in the integrals ``until`` and ``levies`` of
    `Model`, so the chain rule gives the derivatives by ``until`` and ``levies``.
    """
    for x in range(low, run.width + 1):
        at, paid = run.begin + x, run.paid[x, 0]
        answer.by_until[at, 0] += block.shared * paid
        answer.by_until[at, 1] += block.work * run.paid[x, 1]
        answer.by_until[at, 2] += block.work * paid
        answer.by_levies[own[2] + min(max(at, own[0]), own[1])] += paid
        run.paid[x, 0] = run.paid[x, 1] = 0.0


@step
def _cheapest(run: _Run, m: int, first: int, best: float, model: Model) -> tuple[float, int]:
    """Return the least cost of a block and all steps after it, from grid point ``m`` on.

    A block is a run of consecutive steps of a request, which may begin at grid point ``m`` or
    later. ``best`` is the least cost if it begins after ``m``. A class is a round length of the
    block. If some class costs less than ``best`` at ``m``, return the least cost and its class.
    Otherwise return ``best`` and -1. ``first`` is the first class to consider (`_fill_classes`).
    """
    choice = -1
    for j in range(first, model.lengths.size):
        # If the block (run of consecutive steps) ends after the last grid point, use the cost after
        # the block at this point. This cost is more than the least cost of the whole request, or is
        # the cost of a late request. So the result would be the same with a larger cost.
        place = min(m + run.classes[0, j], float(run.width))
        k = min(int(place), run.width - 1)
        f = place - k
        cost = run.after[k] + f * (run.after[k + 1] - run.after[k])
        # A block is a run of consecutive steps of the request. ``cost`` is so far the cost after
        # the block, without what the block pays. It does not fall if the block ends later. So if it
        # is ``best`` or more, neither this class (round length) nor a longer one costs less than
        # ``best``.
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
    """Add the derivatives of a cost, multiplied by ``share``, to the arrays of ``run``.

    The cost is that of a block (run of consecutive steps) of a request and of all steps after it.
    The block begins at grid point ``m`` and has the round length of class ``j``. ``run.paid``
    receives the derivatives by the integrals of payments, and ``run.after`` those by the costs
    after the block. ``share`` is the probability that the block begins at ``m``.
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
    """Write the first and last grid point at which each block may begin, and count the blocks.

    A block is a run of consecutive steps of a request. Row g of ``starts`` is for block g, and grid
    points are counted from the arrival on. The first point of a block is the arrival plus the least
    duration of the blocks before it. The last point is the latest from which the request can
    complete within ``allowance`` seconds of its arrival. The row after the last block is for the
    completion. Return the number of blocks.
    """
    count, earliest = 1 + _blocks_after_first(output, model), 0
    for g in range(count + 1):
        rest = lasts = 0.0
        if g < count:
            block = _block(g, prompt, output, model)
            lasts, rest = block.size * block.shortest, block.rest
        starts[g, 0] = earliest
        starts[g, 1] = max(int((allowance - rest - lasts) / model.step) + 2, earliest + 1)
        earliest = min(int(earliest + lasts / model.step), int(allowance / model.step) + 1)
    return count


@step
def _drop_late_starts(starts: IntArray, least: FloatArray, most: float) -> None:
    """Lower ``starts[1]``, the last grid point at which a block may begin, to omit late points.

    A block is a run of consecutive steps of a request. ``starts[0]`` is the first grid point at
    which it may begin, and does not change. ``least[x]`` is the least cost of the request from the
    block on, if the block begins at grid point x or later. It increases with x. Costs of ``most``
    or more need not be known: ``most`` is the cost of a late request, or the latest completion time
    in seconds up to which costs are computed. Costs between two grid points are interpolated, so
    one point with such a cost is kept. Point x is therefore omitted if the point before it, x - 1,
    already has such a cost.
    """
    while starts[1] > starts[0] + 1 and least[starts[1] - 1] >= most:
        starts[1] -= 1


@partial(njit, makes_arrays=True)
def approximate_values(requests: Requests, goals: Goals, model: Model, answer: Answer) -> None:
    """Write the least costs V_i of requests to ``answer``, and add the derivatives of their sum.

    V_i is the least latency plus payments of request i, computed on a time grid. It is approximate,
    so it proves no bound.
    """
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
        most = arrival + goals.allowance[i] if model.penalty == math.inf else model.penalty
        # From the last block (run of consecutive steps) to the first, compute least[g, m]: the
        # least cost of the request from block g on if this block begins at grid point m or later.
        # Row ``count`` has the cost of completion at each grid point.
        for m in range(starts[count, 0], starts[count, 1] + 1):
            late = min(model.penalty, 1e300) if (begin + m - 1) * h > goals.end[i] else 0.0
            least[count, m] = (begin + m) * h if model.penalty == math.inf else late
        for g in range(count - 1, -1, -1):
            block = _block(g, prompt, output, model)
            first = _fill_classes(block, model, classes)
            starts[g, 1] = min(starts[g, 1], starts[g + 1, 1])
            run = _Run(begin, starts[g + 1, 1], classes, paid, least[g + 1])
            _fill_paid(block, run, starts[g, 0], own, model)
            if model.stop[0]:
                return
            best = min(model.penalty, 1e300)
            for m in range(starts[g, 1], starts[g, 0] - 1, -1):
                best, choice[g, m] = _cheapest(run, m, first, best, model)
                least[g, m] = best
                if g == 1 and (begin + m) * h > goals.first_token[i]:
                    least[g, m] = model.penalty
            _drop_late_starts(starts[g], least[g], most)
        f = arrival / h - begin
        answer.values[i] = (1.0 - f) * least[0, 0] + f * least[0, 1]
        answer.values[i] -= arrival if model.penalty == math.inf else 0.0
        # Compute derivatives, from the first block (run of consecutive steps) to the last. flow[g,
        # m] is the probability with which block g begins at grid point m, if the request makes its
        # cheapest choices. A start between two grid points counts for both, with the weights of
        # linear interpolation.
        flow[: count + 1, : starts[count, 1] + 1].fill(0.0)
        flow[0, 0] = 1.0 - f
        flow[0, 1] = f
        for g in range(count):
            block = _block(g, prompt, output, model)
            _fill_classes(block, model, classes)
            run = _Run(begin, starts[g + 1, 1], classes, by_paid, flow[g + 1])
            for m in range(starts[g, 0], starts[g, 1] + 1):
                share = flow[g, m]
                if share < 1e-9:
                    continue
                if choice[g, m] >= 0:
                    _follow(run, m, choice[g, m], share)
                elif m < starts[g, 1]:
                    # The choice -1 means that it is cheaper to begin block g (a run of steps) at a
                    # later grid point. The request waits for one grid step, so its probability at
                    # grid point m moves to m + 1.
                    flow[g, m + 1] += share
            _add_paid(block, run, starts[g, 0], own, answer)
