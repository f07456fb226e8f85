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
where u and positive only where l is finite. For integer costs C, all X in the box [p, q] that
satisfy the rows have

    C X = y A X + (C - y A) X
        >= sum_{y > 0} y l + sum_{y < 0} y u + sum_j min((C - y A)_j p_j, (C - y A)_j q_j),

everything in integers. With C = `SCALE` times the latencies and y the rounded duals of HiGHS it is
a lower bound, whatever HiGHS's tolerances. With C = 0 and a value above 0 no such X exists: this
is how HiGHS's claim of infeasibility is checked.

*Sums.* Further rows, without bounds of their own, count the requests that have started by each of
the first epochs, for several prefixes of the classes sorted by volume. They are integers in every
schedule, so a branch and bound may split them (`hindsight.integer_program.count_tree`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple, TypeAlias

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

EPOCHS, SUMS = 10, 6
"""Number of first epochs for which sums are counted, and sums of each epoch."""


class Box(NamedTuple):
    """Bounds of columns and rows, all int64; `UNBOUNDED` or its negative where there is none."""

    lower: IntArray
    upper: IntArray
    row_lower: IntArray
    row_upper: IntArray


@dataclass(frozen=True, eq=False)
class Relaxed:
    """Result of the linear relaxation of a box.

    Attributes
    ----------
    bound : int or None
        Exact lower bound in units of 1 / `SCALE`; None if the box is proved to hold no schedule.
    values : float64 array or None
        Solution of HiGHS, shape (columns,); None if it found none.
    row_duals : float64 array or None
        Row duals of HiGHS, shape (rows,).
    """

    bound: int | None
    values: FloatArray | None
    row_duals: FloatArray | None


_Row: TypeAlias = tuple[IntArray, IntArray, int, int]
"""Columns, their weights, and the bounds of their sum."""

NOTHING_KNOWN = Relaxed(-(1 << 62), None, None)


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
    first_sum : int
        First row that is a sum.
    sum_epochs : int64 array
        Epochs of the sums.
    whole : Box
        Box of every schedule within the lists.
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
        upper = self._make_columns(classes)
        rows = [*self._memory_rows(), *self._class_rows()]
        self.first_sum = len(rows)
        rows += self._sum_rows()
        places, values, least, most = zip(*rows, strict=True)
        least, most = (np.array(bounds, dtype=np.int64) for bounds in (least, most))
        self.whole = Box(np.zeros_like(upper), upper, least, most)
        ends = np.cumsum([0, *map(len, places)])
        self._matrix = sp.csr_array(
            (np.concatenate(values), np.concatenate(places), ends),
            shape=(len(rows), len(self.epochs)),
            dtype=np.int64,
        )
        self._transposed = sp.csr_array(self._matrix.T)
        self._matrix_sizes = sp.csr_array(abs(self._transposed), dtype=np.float64)
        self._program = WarmProgram(
            self._costs.astype(np.float64),
            upper.astype(np.float64),
            "simplex",
            presolve=False,
            should_stop=should_stop,
        )
        for where, weights, low, high in rows:
            self._program.add_row(low, high, where, weights.astype(np.float64))

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
        self._offset = -int(self._starts.instance.arrival_times.sum()) * SCALE
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

    def _sum_rows(self) -> Iterator[_Row]:
        """Yield rows that count starts by each of the first epochs, for prefixes of the classes."""
        numbers = np.cumsum([len(own) for own in self._members])
        shares = numbers[-1] * np.arange(1, SUMS + 1) / SUMS
        last_classes = np.unique(np.searchsorted(numbers, shares))
        self.sum_epochs = np.repeat(np.arange(EPOCHS), len(last_classes))
        for t, last in product(range(EPOCHS), last_classes.tolist()):
            of_sum = np.flatnonzero((self.epochs <= t) & (self._class_of <= last))
            yield of_sum, np.ones_like(of_sum), -UNBOUNDED, UNBOUNDED

    def integer_program(self) -> LinearModel:
        """Return the program with integer columns, for a search by HiGHS; it has no sums."""
        rows = slice(self.first_sum)
        low, high = (side[rows].astype(np.float64) for side in self.whole[2:])
        return LinearModel(
            costs=self._costs.astype(np.float64),
            offset=self._offset / SCALE,
            matrix=sp.csc_array(self._matrix[rows], dtype=np.float64),
            row_lower=np.where(low == -UNBOUNDED, -np.inf, low),
            row_upper=np.where(high == UNBOUNDED, np.inf, high),
            column_lower=self.whole.lower.astype(np.float64),
            column_upper=self.whole.upper.astype(np.float64),
            integer=np.ones(len(self._costs), dtype=np.bool_),
        )

    def relax(self, box: Box) -> Relaxed:
        """Solve the linear relaxation within a box; its bound is exact."""
        self._program.set_bounds(*box)
        result = self._program.solve()
        if result.termination is Termination.INFEASIBLE:
            ray = self._program.dual_ray()
            if ray is not None and self._proves_empty(ray, box):
                return Relaxed(None, None, None)
        if result.termination is not Termination.OPTIMAL or result.row_duals is None:
            return NOTHING_KNOWN
        bound = self.lagrangian(SCALE * self._costs, result.row_duals * SCALE, box)
        if bound is None:
            return NOTHING_KNOWN
        return Relaxed(bound + self._offset, result.values, result.row_duals)

    def lagrangian(self, costs: IntArray, duals: FloatArray, box: Box) -> int | None:
        """Compute the bound of the module docstring after rounding; None if 64 bits are too few."""
        if not np.isfinite(duals).all() or np.abs(duals).max(initial=0.0) >= HEADROOM:
            return None
        y = np.rint(duals).astype(np.int64)
        y[((y > 0) & (box.row_lower == -UNBOUNDED)) | ((y < 0) & (box.row_upper == UNBOUNDED))] = 0
        sides = np.where(y > 0, box.row_lower, np.where(y < 0, box.row_upper, 0))
        sizes = np.abs(y).astype(np.float64)
        largest = self._matrix_sizes @ sizes + np.abs(costs)
        if sizes @ np.abs(sides) + largest @ np.maximum(box.upper, 1) >= HEADROOM:
            return None
        reduced = costs - self._transposed @ y
        least = np.minimum(reduced * box.lower, reduced * box.upper)
        return int(y @ sides) + int(least.sum())

    def rows(self, values: FloatArray, first: int = 0) -> FloatArray:
        """Evaluate the rows from ``first`` on at a point."""
        return np.asarray(self._matrix[first:] @ values)

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

    def _proves_empty(self, ray: FloatArray, box: Box) -> bool:
        largest = np.abs(ray).max(initial=0.0)
        if not 0 < largest < np.inf:
            return False
        nothing = np.zeros_like(self._costs)
        values = (self.lagrangian(nothing, sign * SCALE / largest * ray, box) for sign in (1, -1))
        return any(value is not None and value > 0 for value in values)


def _volume(prompt: int, output: int) -> int:
    return prompt * output + output * (output + 1) // 2
