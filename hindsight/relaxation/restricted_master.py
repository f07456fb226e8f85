"""The relaxation over a few starts, to which column generation adds more.

When `hindsight.relaxation.price_ascent` has nearly optimal prices, the starts of an optimal
solution have almost zero reduced cost. A linear program over such starts alone usually attains the
value of the whole relaxation at once. Otherwise its own prices find the missing starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from hindsight.bounds.cheapest_starts import RequestClasses, start_costs
from hindsight.integer_program.highs import LinearModel, LinearResult, Termination, solve_linear
from hindsight.runtime.clock import Clock
from instances import Schedule
from instances.arrays import FloatArray, IntArray

LARGEST_MASTER = 6_000_000
"""Most non-zeros of a linear program."""

NEGATIVE = 1e-7
"""A start with a reduced cost below minus this value, in rounds, is missing."""

PRESOLVING = 10
"""Time before HiGHS polls the clock, as a multiple of the time to build the program."""

CLOCK_EVERY = 100
"""Classes of requests whose starts are priced between two polls of the clock."""

MOST_ADDED = 8
"""Most starts added for a class at once: the cheapest missing ones."""


@dataclass(frozen=True, eq=False)
class MasterSolution:
    """Optimal solution over the present starts.

    Attributes
    ----------
    objective : float
        Objective value; the solution keeps the memory limit within HiGHS's tolerance of 1e-7.
    prices : float64 array
        Dual prices of rounds 1 .. horizon, shape (horizon,).
    class_prices : float64 array
        Cost of a request of each class, shape (classes,).
    weights : list[tuple[int64 array, float64 array]]
        Starts of each class, as (starts, weights), with weights summing to 1.
    """

    objective: float
    prices: FloatArray
    class_prices: FloatArray
    weights: list[tuple[IntArray, FloatArray]]


class RestrictedMaster:
    """Starts of each class of requests, and the linear program over them.

    Parameters
    ----------
    classes : RequestClasses
        Classes of the requests.
    memory_limit : int
        M, tokens.
    schedule : Schedule or None
        A feasible schedule, whose starts make the program feasible. None leaves that to `add`.
    """

    def __init__(
        self, classes: RequestClasses, memory_limit: int, schedule: Schedule | None
    ) -> None:
        self._classes = classes
        self._limit = memory_limit
        self._starts: list[IntArray] = (
            [np.zeros(0, dtype=np.int64)] * len(classes.counts)
            if schedule is None
            else [np.unique(starts) for starts in classes.grouped(schedule.start_times)]
        )

    @property
    def entries(self) -> int:
        """Return the non-zeros of the memory rows."""
        lengths = self._classes.output_lengths.tolist()
        return sum(len(at) * o for at, o in zip(self._starts, lengths, strict=True))

    def add(self, starts: list[IntArray]) -> int:
        """Add starts for each class; return how many were new."""
        before = sum(map(len, self._starts))
        self._starts = [np.union1d(old, new) for old, new in zip(self._starts, starts, strict=True)]
        return sum(map(len, self._starts)) - before

    def solve(self, clock: Clock, threads: int | None) -> MasterSolution | None:
        """Solve the program; return None if HiGHS did not finish or there was no time to begin."""
        begun = clock.seconds()
        model, horizon = self._model()
        if clock.seconds_left() < PRESOLVING * (clock.seconds() - begun):
            return None
        result = solve_linear(
            model,
            time_limit=clock.limit_left(),
            threads=threads,
            method="simplex",
            should_stop=clock.must_stop,
        )
        if result.termination is not Termination.OPTIMAL or result.row_duals is None:
            return None
        return self._solution(result, horizon)

    def _model(self) -> tuple[LinearModel, int]:
        c = self._classes
        horizon = max(
            int(at[-1]) + int(o) for at, o in zip(self._starts, c.output_lengths, strict=True)
        )
        count = len(c.counts)
        costs, rows, values, lengths = [], [], [], []
        for k, at in enumerate(self._starts):
            s, o, a = int(c.prompt_lengths[k]), int(c.output_lengths[k]), int(c.arrival_times[k])
            ages = np.arange(1, o + 1)
            # A start at t holds s + j in round t + j, which is row t + j - 1 here.
            block = np.empty((len(at), o + 1), dtype=np.int64)
            block[:, 0] = horizon + k
            block[:, 1:] = at[:, None] + (ages - 1)
            held = np.empty(block.shape)
            held[:, 0] = 1.0
            held[:, 1:] = s + ages
            rows.append(block.ravel())
            values.append(held.ravel())
            lengths.append(np.full(len(at), o + 1))
            costs.append(int(c.weights[k]) * (at + (o - a)))
        starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        cost = np.concatenate(costs).astype(np.float64)
        matrix = sp.csc_array(
            (np.concatenate(values), np.concatenate(rows), starts),
            shape=(horizon + count, len(cost)),
        )
        matrix.sort_indices()
        limits = np.full(horizon, float(self._limit))
        model = LinearModel(
            costs=cost,
            offset=0.0,
            matrix=matrix,
            row_lower=np.concatenate([np.full(horizon, -np.inf), c.counts]),
            row_upper=np.concatenate([limits, c.counts]),
            column_lower=np.zeros(len(cost)),
            column_upper=np.full(len(cost), np.inf),
            integer=np.zeros(len(cost), dtype=bool),
        )
        return model, horizon

    def _solution(self, result: LinearResult, horizon: int) -> MasterSolution:
        assert result.row_duals is not None
        assert result.values is not None
        assert result.objective is not None
        weights: list[tuple[IntArray, FloatArray]] = []
        position = 0
        for at in self._starts:
            x = np.maximum(result.values[position : position + len(at)], 0.0)
            position += len(at)
            used = x > 0
            weights.append((at[used], x[used] / x.sum()))
        return MasterSolution(
            result.objective,
            np.maximum(-result.row_duals[:horizon], 0.0),
            result.row_duals[horizon:],
            weights,
        )


def starts_near(
    classes: RequestClasses,
    prices: FloatArray,
    final: IntArray,
    within: float,
    most: int,
    should_stop: Callable[[], bool],
    floor: FloatArray | None = None,
) -> list[IntArray] | None:
    """Return for each class up to ``most`` of its cheapest starts within a priced cost.

    Returns None if ``should_stop`` returned True: all starts of all requests are examined.

    Parameters
    ----------
    classes : RequestClasses
        Classes of identical requests.
    prices : float64 array
        Prices of rounds 1, 2, ..., shape (rounds,); later rounds are free.
    final : IntArray
        Last start of each class.
    within : float
        Largest excess over the cheapest start, or over ``floor``.
    most : int
        Most starts of a class.
    should_stop : Callable[[], bool]
        Polled; returning True stops the computation.
    floor : float64 array or None, default None
        Priced cost per class to compare with, instead of the cheapest.
    """
    reach = max(len(prices), int(final.max())) + int(classes.output_lengths.max()) + 1
    padded = np.zeros(reach + 1)
    padded[1 : len(prices) + 1] = prices
    sums = np.cumsum(padded)
    weighted = np.cumsum(padded * np.arange(reach + 1))
    chosen: list[IntArray] = []
    for k in range(len(classes.counts)):
        if k % CLOCK_EVERY == 0 and should_stop():
            return None
        a, s = int(classes.arrival_times[k]), int(classes.prompt_lengths[k])
        o = int(classes.output_lengths[k])
        weight = float(classes.weights[k])
        costs = start_costs(sums, weighted, weight, a, s, o, a, int(final[k]) + 1)
        base = float(costs.min()) if floor is None else float(floor[k])
        near = np.flatnonzero(costs <= base + within)
        if len(near) > most:
            near = near[np.argpartition(costs[near], most)[:most]]
        chosen.append(a + np.sort(near))
    return chosen
