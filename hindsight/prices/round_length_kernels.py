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
"""Steps per block; with many more, long requests seem too expensive."""

BLOCKS = 40
"""Largest number of blocks per request."""


class Model(NamedTuple):
    """Machine, prices and round lengths from which values of requests are computed.

    Attributes
    ----------
    machine : Machine
        Memory limit M and the minorant.
    cell : float
        Length of a cell (an interval with one price) in seconds.
    lengths : float64 array, shape (classes,)
        Round lengths in seconds, ascending.
    price : float64 array, shape (cells,)
        Price per second in each cell.
    gamma : float64 array, shape (rows,)
        Share of the price that is charged for memory, by row of cells.
    row : int64 array, shape (cells,)
        Row of ``gamma`` of each cell.
    penalty : float
        Cost of being late, 1; infinite where latency counts.
    step : float
        Step of the time grid in seconds: a cell, or less where deadlines count.
    by_memory, by_work : float64 array, shape (cells + 1,)
        Integrals of the price of memory and of the price of work, up to the start of each cell.
    stop : int64 array, shape (1,)
        Not 0 once the answer is no longer needed.
    """

    machine: Machine
    cell: float
    lengths: FloatArray
    price: FloatArray
    gamma: FloatArray
    row: IntArray
    penalty: float
    step: float
    by_memory: FloatArray
    by_work: FloatArray
    stop: IntArray


class Answer(NamedTuple):
    """Values of requests, and the derivatives of their sum by ``price`` and by ``gamma``."""

    values: FloatArray
    by_price: FloatArray
    by_gamma: FloatArray


class _Block(NamedTuple):
    """Consecutive steps of a request in rounds of equal length.

    Attributes
    ----------
    size : float
        Number of steps.
    work, shared : float
        Charges for work (w) and for memory (d0 kv / M + w), in seconds per step.
    rest : float
        Least duration of the request's steps after the block, in seconds.
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
        Range of grid points at which values of a request are stored.
    classes : float64 array, shape (3, classes)
        See `_fill_classes`.
    after : float64 array
        Value after the block at each grid point, or derivative by that value.
    """

    begin: int
    width: int
    classes: FloatArray
    after: FloatArray


@step
def _blocks_after_first(output: int) -> int:
    """Return the number of blocks after the first step, which is a block by itself."""
    return min(output - 1, max(6, min(BLOCKS, (output - 1) // BLOCK)))


@step
def _block(g: int, prompt: int, output: int, machine: Machine) -> _Block:
    """Return block g of a request; all but the first have about equally many steps."""
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
    """Write a block's seconds and its shares of a round's memory and work, for each class.

    Returns the first class whose rounds are long enough for the block's work.
    """
    first, shortest = 0, model.machine.d0 + block.work
    for j in range(model.lengths.size):
        length = max(model.lengths[j], shortest)
        classes[0, j] = length * block.size
        classes[1, j] = block.shared / length
        classes[2, j] = block.work / (length - model.machine.d0) if block.work > 0.0 else 0.0
        if model.lengths[j] <= shortest:
            first = j
    return first


@step
def _cell(now: float, model: Model) -> int:
    """Return the cell of a moment; take the minimum in floats, as a long time may overflow."""
    return int(min(now / model.cell, model.price.size - 1.0))


@step
def _between(until: FloatArray, begin: float, end: float) -> float:
    """Return the integral of a price between two moments, which are given in cells."""
    last = until.size - 2.0
    first, final = int(min(begin, last)), int(min(end, last))
    below = until[first] + min(begin - first, 1.0) * (until[first + 1] - until[first])
    above = until[final] + min(end - final, 1.0) * (until[final + 1] - until[final])
    return float(above - below)


@step
def _cheapest(
    run: _Run, m: int, rest: float, first: int, best: float, model: Model
) -> tuple[float, int]:
    """Return the least value of a block that begins at m and its class, or ``best`` and -1."""
    classes, after, choice = run.classes, run.after, -1
    now = (run.begin + m) * model.step
    for j in range(first, model.lengths.size):
        lasts = classes[0, j]
        if model.penalty == math.inf:
            cell = _cell(now + 0.5 * lasts, model)
            part = model.gamma[model.row[cell]]
            paid = part * classes[1, j] + (1.0 - part) * classes[2, j]
            cost = model.price[cell] * lasts * paid
        else:
            begins, ends = now / model.cell, (now + lasts) / model.cell
            cost = _between(model.by_memory, begins, ends) * classes[1, j]
            cost += _between(model.by_work, begins, ends) * classes[2, j]
        if cost >= best:
            continue
        # Interpolate the value after the block; beyond the window only own time counts.
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
def _pay(run: _Run, m: int, choice: int, share: float, model: Model, answer: Answer) -> None:
    """Run a share of the block from m on in a class; add derivatives by prices and by ``after``."""
    now = (run.begin + m) * model.step
    classes = run.classes
    lasts, by_memory, by_work = classes[0, choice], classes[1, choice], classes[2, choice]
    first = last = _cell(now + 0.5 * lasts, model)
    if model.penalty < math.inf:
        first, last = int(now / model.cell), _cell(now + lasts, model)
    for c in range(first, last + 1):
        seconds, row = lasts, model.row[c]
        if model.penalty < math.inf:
            seconds = min(now + lasts, (c + 1) * model.cell) - max(now, c * model.cell)
        part = model.gamma[row]
        answer.by_price[c] += share * seconds * (part * by_memory + (1.0 - part) * by_work)
        answer.by_gamma[row] += share * seconds * model.price[c] * (by_memory - by_work)
    place = min(m + lasts / model.step, float(run.width))
    k = int(place)
    if k < run.width:
        run.after[k] += share * (1.0 - (place - k))
        run.after[k + 1] += share * (place - k)


@step
def _at_last(now: float, deadline: float, model: Model) -> float:
    """Return the value of completion at ``now``: the time itself, or the penalty if late."""
    if model.penalty == math.inf:
        return now
    return model.penalty if now > deadline else 0.0


@partial(njit, makes_arrays=True)
def approximate_values(requests: Requests, goals: Goals, model: Model, answer: Answer) -> None:
    """Write the values of requests to ``answer``, and add the derivatives of their sum."""
    h = model.step
    counts_late = model.penalty < math.inf
    widest = int(goals.allowance.max() / h) + 3
    least = np.empty((BLOCKS + 2, widest + 1))
    choice = np.empty((BLOCKS + 1, widest + 1), np.int64)
    flow = np.empty((BLOCKS + 2, widest + 1))
    classes = np.empty((3, model.lengths.size))
    for i in range(requests.arrival.size):
        arrival = requests.arrival[i]
        begin, width = int(arrival / h), int(goals.allowance[i] / h) + 2
        count = 1 + _blocks_after_first(requests.output[i])
        # Values, from the last block to the first: G_o(t) = t, and no G falls with time.
        for m in range(width + 1):
            least[count, m] = _at_last((begin + m) * h, goals.end[i] + h, model)
        for g in range(count - 1, -1, -1):
            block = _block(g, requests.prompt[i], requests.output[i], model.machine)
            first = _fill_classes(block, model, classes)
            run = _Run(begin, width, classes, least[g + 1])
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
        # Derivatives: the request flows through its choices, from the first block to the last.
        flow[: count + 1, : width + 1].fill(0.0)
        flow[0, 0] = 1.0 - f
        flow[0, 1] = f
        for g in range(count):
            block = _block(g, requests.prompt[i], requests.output[i], model.machine)
            _fill_classes(block, model, classes)
            run = _Run(begin, width, classes, flow[g + 1])
            for m in range(width + 1):
                share = flow[g, m]
                if share < 1e-9:
                    continue
                if choice[g, m] >= 0:
                    _pay(run, m, choice[g, m], share, model, answer)
                if choice[g, m] < 0 and m < width:
                    # A later start of the block is cheaper: the request waits.
                    flow[g, m + 1] += share
