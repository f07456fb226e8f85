"""Integer program over the number of requests of a class per start, with exact integer bounds.

A *class* is all requests of one prompt length s and one output length o, whenever they arrive. With
X[c, t] of class c started at t, at times that complete lists of starts allow
(`hindsight.integer_program.starts`), every schedule within the lists satisfies

    minimise    sum (t + o_c) X[c, t] - sum a_i
    subject to  sum over active (c, t) of (s_c + r - t) X[c, t] <= M          for every round r,
                sum_t X[c, t] = n_c,
                sum_{u <= t} X[c, u] <= requests of c that have arrived by t,
                0 <= X[c, t] <= min(requests of c that may start at t, M // (s_c + o_c)),

as requests started together hold s_c + o_c tokens each in their last round. Conversely an integer
X is a schedule: give the starts of a class, in order, to its requests in order of arrival. So
requests that differ only in their arrival share columns, and symmetric choices between them
disappear.

*Bound.* Write the rows as l <= A X <= u, and let y be any integers, one for each row, negative only
where u and positive only where l is finite. For integer costs C, all X in [0, q] that satisfy the
rows have

    C X = y A X + (C - y A) X
        >= sum_{y > 0} y l + sum_{y < 0} y u + sum_j min(0, (C - y A)_j q_j),

everything in integers. With C = `SCALE` times the latencies and y the rounded duals of HiGHS it is
a lower bound, whatever HiGHS's tolerances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from hindsight.runtime.clock import never
from instances import Schedule
from instances.arrays import FloatArray, IntArray

from .highs import LinearModel, Termination, WarmProgram
from .starts import StartSets

SCALE = 1 << 24
"""Bounds are integers in units of 1 / SCALE rounds of latency."""

HEADROOM = 2.0**61
"""Largest sum of terms for which a bound is computed, so that it fits into 64 bits."""

UNBOUNDED = 1 << 40
"""Stands for a missing bound."""


@dataclass(frozen=True, eq=False)
class Relaxed:
    """Result of the linear relaxation.

    Attributes
    ----------
    bound : int
        Exact lower bound on total latency.
    values : float64 array, shape (columns,)
        Solution of HiGHS.
    row_duals : float64 array, shape (rows,)
        Row duals of HiGHS.
    """

    bound: int
    values: FloatArray
    row_duals: FloatArray


_Row: TypeAlias = tuple[IntArray, IntArray, int, int]
"""Columns, their weights, and the bounds of their sum."""


class CountProgram:
    """The program over given starts.

    Parameters
    ----------
    starts : StartSets
        Complete lists of starts for all schedules sought.
    should_stop : Callable[[], bool], default never
        Polled; returning True interrupts a relaxation.

    Attributes
    ----------
    horizon : int
        Last round; the first rows are those of rounds 1 .. horizon.
    epochs, prompts, outputs : int64 array, shape (columns,)
        Start, prompt length and output length of each column.
    upper, row_lower, row_upper : int64 array
        Bounds of columns and rows; `UNBOUNDED` or its negative where there is none.
    """

    def __init__(self, starts: StartSets, should_stop: Callable[[], bool] = never) -> None:
        self._starts = starts
        self.horizon = starts.horizon
        instance = starts.instance
        members: dict[tuple[int, int], list[int]] = {}
        for i in np.argsort(instance.arrival_times, kind="stable").tolist():
            lengths = int(instance.prompt_lengths[i]), int(instance.output_lengths[i])
            members.setdefault(lengths, []).append(i)
        classes = sorted(members, key=lambda c: (_volume(*c), c))
        self._members = [members[c] for c in classes]
        self.upper = self._make_columns(classes)
        rows = [*self._memory_rows(), *self._class_rows()]
        places, values, least, most = zip(*rows, strict=True)
        self.row_lower, self.row_upper = (np.array(x, dtype=np.int64) for x in (least, most))
        ends = np.cumsum([0, *map(len, places)])
        self._matrix = sp.csr_array(
            (np.concatenate(values), np.concatenate(places), ends),
            shape=(len(rows), len(self.epochs)),
            dtype=np.int64,
        )
        self._program = WarmProgram(
            self._costs.astype(np.float64),
            self.upper.astype(np.float64),
            "simplex",
            presolve=False,
            should_stop=should_stop,
        )
        for where, weights, low, high in rows:
            sides = (-np.inf if low == -UNBOUNDED else low, high)
            self._program.add_row(*sides, where, weights.astype(np.float64))

    def _make_columns(self, classes: list[tuple[int, int]]) -> IntArray:
        """Create a column for each class and possible start; return their upper bounds."""
        limit, columns = self._starts.instance.memory_limit, []
        for k, (prompt, output) in enumerate(classes):
            lists = np.concatenate([self._starts.starts[i] for i in self._members[k]])
            times, allowed = np.unique(lists, return_counts=True)
            together = np.minimum(allowed, limit // (prompt + output))
            size = (np.full(len(times), x) for x in (k, prompt, output))
            columns.append(np.array([times, together, *size], dtype=np.int64))
        self.epochs, upper, self._class_of, self.prompts, self.outputs = np.hstack(columns)
        self._costs: IntArray = self.epochs + self.outputs
        self._offset = -int(self._starts.instance.arrival_times.sum())
        most: IntArray = upper
        return most

    def _columns_by_class(self) -> Iterator[tuple[list[int], IntArray]]:
        """Yield the requests of each class by arrival, and its columns by start."""
        for k, own in enumerate(self._members):
            yield own, np.flatnonzero(self._class_of == k)

    def _memory_rows(self) -> Iterator[_Row]:
        """Yield rows that limit the memory held in every round."""
        for r in range(1, self.horizon + 1):
            active = np.flatnonzero((self.epochs < r) & (r <= self._costs))
            held = self.prompts[active] + r - self.epochs[active]
            yield active, held, -UNBOUNDED, self._starts.instance.memory_limit

    def _class_rows(self) -> Iterator[_Row]:
        """Yield rows that start every request of a class, at most those that have arrived."""
        arrivals = self._starts.instance.arrival_times
        for own, of_class in self._columns_by_class():
            yield of_class, np.ones_like(of_class), len(own), len(own)
            for count, (i, j) in enumerate(pairwise(own), start=1):
                if arrivals[i] < arrivals[j]:
                    before = of_class[self.epochs[of_class] < arrivals[j]]
                    yield before, np.ones_like(before), -UNBOUNDED, count

    def integer_program(self) -> LinearModel:
        """Return the program with integer columns, for a search by HiGHS."""
        low = self.row_lower.astype(np.float64)
        return LinearModel(
            costs=self._costs.astype(np.float64),
            offset=self._offset,
            matrix=sp.csc_array(self._matrix, dtype=np.float64),
            row_lower=np.where(self.row_lower == -UNBOUNDED, -np.inf, low),
            row_upper=self.row_upper.astype(np.float64),
            column_lower=np.zeros(len(self.upper)),
            column_upper=self.upper.astype(np.float64),
            integer=np.ones(len(self._costs), dtype=np.bool_),
        )

    def relax(self) -> Relaxed | None:
        """Solve the linear relaxation; its bound is exact. Return None without an optimum."""
        result = self._program.solve()
        if result.values is None or result.row_duals is None:
            return None
        bound = self.lagrangian(result.row_duals * SCALE)
        if result.termination is not Termination.OPTIMAL or bound is None:
            return None
        # Latencies are integers: so is the least sum that reaches the bound.
        return Relaxed(-(-bound // SCALE) + self._offset, result.values, result.row_duals)

    def lagrangian(self, duals: FloatArray) -> int | None:
        """Compute the bound of the module docstring after rounding, in units of 1 / `SCALE`.

        It leaves out the arrivals. The result is None if 64 bits are too few.
        """
        if not np.isfinite(duals).all() or np.abs(duals).max(initial=0.0) >= HEADROOM:
            return None
        y = np.rint(duals).astype(np.int64)
        y[(y > 0) & (self.row_lower == -UNBOUNDED)] = 0
        sides = np.where(y > 0, self.row_lower, np.where(y < 0, self.row_upper, 0))
        sizes, costs = np.abs(y).astype(np.float64), SCALE * self._costs
        largest = sp.csr_array(abs(self._matrix.T), dtype=np.float64) @ sizes + np.abs(costs)
        if sizes @ np.abs(sides) + largest @ np.maximum(self.upper, 1) >= HEADROOM:
            return None
        reduced = costs - self._matrix.T @ y
        return int(y @ sides) + int(np.minimum(0, reduced * self.upper).sum())

    def values(self, schedule: Schedule) -> FloatArray:
        """Return the columns of a schedule within the lists, shape (columns,)."""
        values = np.zeros(len(self.epochs))
        for own, of_class in self._columns_by_class():
            place = dict(zip(self.epochs[of_class].tolist(), of_class.tolist(), strict=True))
            for start in schedule.start_times[own].tolist():
                values[place[start]] += 1
        return values

    def expected_starts(self, values: FloatArray) -> FloatArray:
        """Return the mean start of each request, in turns within its class, shape (n,)."""
        expected = np.zeros(len(self._starts.instance))
        for own, of_class in self._columns_by_class():
            shares = values[of_class]
            reached = np.append(0.0, np.cumsum(shares))
            sums = np.append(0.0, np.cumsum(shares * self.epochs[of_class]))
            expected[own] = np.diff(np.interp(np.arange(len(own) + 1), reached, sums))
        return expected

    def schedule(self, values: FloatArray) -> Schedule:
        """Return the schedule of an integer solution, feasible or not."""
        starts = np.zeros(len(self._starts.instance), dtype=np.int64)
        counts = np.rint(values).astype(np.int64)
        for own, of_class in self._columns_by_class():
            starts[own] = np.repeat(self.epochs[of_class], counts[of_class])
        return Schedule(self._starts.instance, starts)


def _volume(prompt: int, output: int) -> int:
    return prompt * output + output * (output + 1) // 2
