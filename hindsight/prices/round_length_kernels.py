"""Approximate values of requests under prices of machine time, and their derivatives.

A *block* is about fifteen steps of a request in rounds of equal length. Rounds have one of a few
lengths (*classes*), and the time grid is coarse. A block pays the price of the cell at its middle.
Where deadlines count, cells are about as long as deadlines, so a block pays the price of each
moment. The adjoint of the recursion gives a subgradient: the seconds of each cell that a request
pays for, by memory and by work.
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

BLOCK = 15
"""Approximate number of consecutive steps of a request that form a block, with one round length for
all. With much longer blocks, the values of requests with long outputs are too large."""

BLOCKS = 40
"""Largest number of blocks into which the steps after a request's first one are divided."""


class Model(NamedTuple):
    """Machine, prices and round lengths from which values of requests are computed.

    Attributes
    ----------
    machine : Machine
        Memory limit M, and the coefficients of the affine lower bound on round lengths.
    cell : float
        Length of a cell (an interval with one price) in seconds.
    lengths : float64 array, shape (classes,)
        Round lengths in seconds, ascending. The rounds of one length are a class.
    price : float64 array, shape (cells,)
        Price per second in each cell.
    parts : float64 array, shape (2, rows)
        Shares of the price, in each row (several consecutive cells): the part that is charged for
        memory, and the part of the rest that those who take part in a round pay.
    row : int64 array, shape (cells,)
        Index in ``parts`` of the row of each cell.
    levy : float64 array, shape (cells,)
        d0 per sum of weights, in each cell: see `Requests`.
    penalty : float
        Cost of a late request: 1, or infinite if the goal is total latency.
    step : float
        Step of the time grid in seconds: the length of a cell, or less with deadlines.
    by_memory, by_work : float64 array, shape (cells + 1,)
        Integral of the price of memory, and of the price of work, from time 0 to the start of each
        cell.
    stop : int64 array, shape (1,)
        Not 0 once the answer is no longer needed.
    """

    machine: Machine
    cell: float
    lengths: FloatArray
    price: FloatArray
    parts: FloatArray
    row: IntArray
    levy: FloatArray
    penalty: float
    step: float
    by_memory: FloatArray
    by_work: FloatArray
    stop: IntArray


class Answer(NamedTuple):
    """Values of requests, and the derivatives of the sum of these values.

    Attributes
    ----------
    values : float64 array, shape (requests,)
        Least latency plus payments of each request, in seconds, or in [0, 1] with deadlines.
    levied : float64 array, shape (requests,)
        What each request pays for taking part in rounds, in seconds.
    by_price : float64 array, shape (cells,)
        Derivatives by the price of each cell.
    by_part : float64 array, shape (2, rows)
        Derivatives by ``parts`` of `Model`.
    steps : float64 array, shape (cells,)
        Steps of the requests in each cell, times their weights.
    """

    values: FloatArray
    levied: FloatArray
    by_price: FloatArray
    by_part: FloatArray
    steps: FloatArray


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
    """Costs of a block for each round length, and values after it at each grid point.

    Attributes
    ----------
    begin, width : int
        Values of the request are stored at the grid points ``begin`` to ``begin`` + ``width``.
    steps : float
        Number of steps of the block, times the weight of the request.
    share : float64 array, shape (3,)
        Share of the request in the overhead of rounds, see `Requests`.
    classes : float64 array, shape (4, classes)
        Duration and payments of the block for each round length, see `_fill_classes`.
    after : float64 array
        Least cost of the request if the block ends at each grid point. In the backward pass, the
        derivatives of the sum of values by these costs.
    """

    begin: int
    width: int
    steps: float
    share: FloatArray
    classes: FloatArray
    after: FloatArray


@step
def _blocks_after_first(output: int) -> int:
    """Return the number of blocks of a request without its first block, which is its first step."""
    return min(output - 1, max(6, min(BLOCKS, (output - 1) // BLOCK)))


@step
def _block(g: int, prompt: int, output: int, machine: Machine) -> _Block:
    """Return block ``g`` of a request's steps.

    Block 0 is the first step. The other blocks have about equally many steps.
    """
    M, d0, d1, d2 = machine
    parts = max(1, _blocks_after_first(output))
    first = 0 if g == 0 else 1 + (output - 1) * (g - 1) // parts
    last = 1 if g == 0 else 1 + (output - 1) * g // parts
    kv = prompt + (first + last + 1) * 0.5
    work = d1 * (prompt if g == 0 else 1.0) + d2 * kv
    rest = (output - last) * (d0 + d1 + d2 * (prompt + (last + output + 1) * 0.5))
    return _Block(float(last - first), work, work + d0 * kv / M, rest)


@step
def _fill_classes(block: _Block, model: Model, classes: FloatArray) -> int:
    """Write the duration and payments of a block for each class, a round length of the model.

    The rows of ``classes`` are the duration in seconds, and the shares of the price of memory and
    of the price of work that the block pays per second. Returns the first class whose rounds are
    long enough for the work of a step.
    """
    first, shortest = 0, model.machine.d0 + block.work
    for j in range(model.lengths.size):
        length = max(model.lengths[j], shortest)
        classes[0, j] = length * block.size
        classes[1, j] = block.shared / length
        classes[2, j] = block.work / (length - model.machine.d0) if block.work > 0.0 else 0.0
        classes[3, j] = block.work / length
        if model.lengths[j] <= shortest:
            first = j
    return first


@step
def _cell(now: float, model: Model) -> int:
    """Return the price cell that contains time ``now``, or the last cell if it is later.

    The minimum is taken in floats, because the conversion of a late time to int may overflow.
    """
    return int(min(now / model.cell, model.price.size - 1.0))


@step
def _between(until: FloatArray, begin: float, end: float) -> float:
    """Return the integral of a price from ``begin`` to ``end``, times in units of the cell length.

    ``until`` holds the integrals from time 0 to the start of each cell.
    """
    last = until.size - 2.0
    first, final = int(min(begin, last)), int(min(end, last))
    below = until[first] + min(begin - first, 1.0) * (until[first + 1] - until[first])
    above = until[final] + min(end - final, 1.0) * (until[final + 1] - until[final])
    return float(above - below)


@step
def _levied_steps(cell: int, run: _Run) -> float:
    """Return ``run.steps`` if the request has a share in the cell, else 0."""
    return run.steps if run.share[1] <= cell < run.share[2] else 0.0


@step
def _cheapest(
    run: _Run, m: int, rest: float, first: int, best: float, model: Model
) -> tuple[float, int]:
    """Return the least cost of a request from a block on that begins at grid point ``m``.

    Also return the class (round length of the block) that attains it. If no class costs less than
    ``best``, the cost of a later start, return ``best`` and -1. ``first`` is the first class that
    is long enough for the block.
    """
    classes, after, choice = run.classes, run.after, -1
    now = (run.begin + m) * model.step
    for j in range(first, model.lengths.size):
        lasts = classes[0, j]
        if model.penalty == math.inf:
            cell = _cell(now + 0.5 * lasts, model)
            row = model.row[cell]
            part, levied = model.parts[0, row], model.parts[1, row]
            paid = (1.0 - levied) * classes[2, j] + levied * classes[3, j]
            cost = lasts * (part * classes[1, j] + (1.0 - part) * paid)
            cost += (1.0 - part) * levied * _levied_steps(cell, run) * model.levy[cell]
            cost *= model.price[cell]
        else:
            begins, ends = now / model.cell, (now + lasts) / model.cell
            cost = _between(model.by_memory, begins, ends) * classes[1, j]
            cost += _between(model.by_work, begins, ends) * classes[2, j]
        if cost >= best:
            continue
        # Add the cost after the block, interpolated between grid points. After the last grid point
        # it is the completion time if the request runs alone from then on. With deadlines it is
        # there the cost of a late request.
        place = min(m + lasts / model.step, float(run.width))
        k = int(place)
        if k >= run.width:
            cost += now + lasts + rest if model.penalty == math.inf else model.penalty
        else:
            f = place - k
            cost += (1.0 - f) * after[k] + f * after[k + 1]
        if cost < best:
            best = cost
            choice = j
    return best, choice


@step
def _pay(
    run: _Run, m: int, i: int, choice: int, share: float, model: Model, answer: Answer
) -> None:
    """Add the derivatives of ``share`` times the cost of a block that begins at grid point ``m``.

    The block of request ``i`` has the round length ``choice``. Derivatives by prices and by parts
    are added to ``answer``, and those by the cost after the block to ``run.after``.
    """
    now = (run.begin + m) * model.step
    classes = run.classes
    lasts, by_memory = classes[0, choice], classes[1, choice]
    first = last = _cell(now + 0.5 * lasts, model)
    if model.penalty < math.inf:
        first, last = int(now / model.cell), _cell(now + lasts, model)
    for c in range(first, last + 1):
        seconds, row = lasts, model.row[c]
        if model.penalty < math.inf:
            seconds = min(now + lasts, (c + 1) * model.cell) - max(now, c * model.cell)
        part, levied, steps = model.parts[0, row], model.parts[1, row], _levied_steps(c, run)
        by_round = seconds * classes[2, choice]
        by_step = seconds * classes[3, choice] + steps * model.levy[c]
        answer.steps[c] += share * steps
        own = (1.0 - part) * levied * model.price[c] * steps * model.levy[c]
        answer.levied[i] += share * own
        by_work = (1.0 - levied) * by_round + levied * by_step
        answer.by_price[c] += share * (part * seconds * by_memory + (1.0 - part) * by_work)
        answer.by_part[0, row] += share * model.price[c] * (seconds * by_memory - by_work)
        answer.by_part[1, row] += share * model.price[c] * (1.0 - part) * (by_step - by_round)
    place = min(m + lasts / model.step, float(run.width))
    k = int(place)
    if k < run.width:
        run.after[k] += share * (1.0 - (place - k))
        run.after[k + 1] += share * (place - k)


@step
def _at_last(now: float, deadline: float, model: Model) -> float:
    """Return the cost of a request that completes at time ``now``, in seconds.

    It is the time itself. With deadlines it is ``model.penalty`` if the request is late, else 0.
    """
    if model.penalty == math.inf:
        return now
    return model.penalty if now > deadline else 0.0


@partial(njit, makes_arrays=True)
def approximate_values(requests: Requests, goals: Goals, model: Model, answer: Answer) -> None:
    """Write the approximate values of requests to ``answer``, and add derivatives of their sum.

    A value is the least latency plus payments of a request, in seconds, or with deadlines the least
    of 1 and its payments if it is on time.
    """
    h = model.step
    counts_late = model.penalty < math.inf
    widest = int(goals.allowance.max() / h) + 3
    least = np.empty((BLOCKS + 2, widest + 1))
    choice = np.empty((BLOCKS + 1, widest + 1), np.int64)
    flow = np.empty((BLOCKS + 2, widest + 1))
    classes = np.empty((4, model.lengths.size))
    for i in range(requests.arrival.size):
        arrival, own = requests.arrival[i], requests.share[i]
        begin, width = int(arrival / h), int(goals.allowance[i] / h) + 2
        count = 1 + _blocks_after_first(requests.output[i])
        # Compute least costs, from the last block to the first. A start at a grid point costs no
        # more than a later start, because the request may wait.
        for m in range(width + 1):
            least[count, m] = _at_last((begin + m) * h, goals.end[i] + h, model)
        for g in range(count - 1, -1, -1):
            block = _block(g, requests.prompt[i], requests.output[i], model.machine)
            first = _fill_classes(block, model, classes)
            run = _Run(begin, width, block.size * own[0], own, classes, least[g + 1])
            if model.stop[0]:
                return
            best = model.penalty if counts_late else 1e300
            for m in range(width, -1, -1):
                best, choice[g, m] = _cheapest(run, m, block.rest, first, best, model)
                least[g, m] = best
                if g == 1 and (begin + m) * h > goals.first_token[i]:
                    least[g, m] = model.penalty
        f = arrival / h - begin
        answer.values[i] = (1.0 - f) * least[0, 0] + f * least[0, 1]
        answer.values[i] -= 0.0 if counts_late else arrival
        # Compute derivatives, from the first block to the last. ``flow`` is the share of the
        # request that begins a block at each grid point, if it makes the choices of least cost.
        flow[: count + 1, : width + 1].fill(0.0)
        flow[0, 0] = 1.0 - f
        flow[0, 1] = f
        for g in range(count):
            block = _block(g, requests.prompt[i], requests.output[i], model.machine)
            _fill_classes(block, model, classes)
            run = _Run(begin, width, block.size * own[0], own, classes, flow[g + 1])
            for m in range(width + 1):
                share = flow[g, m]
                if share < 1e-9:
                    continue
                if choice[g, m] >= 0:
                    _pay(run, m, i, choice[g, m], share, model, answer)
                if choice[g, m] < 0 and m < width:
                    # A later start of the block is cheaper, so the request waits one grid step.
                    flow[g, m + 1] += share
