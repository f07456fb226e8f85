"""Integer program over the number of requests of a class per start.

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
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from instances import Schedule
from instances.arrays import FloatArray, IntArray

from .highs import LinearModel
from .starts import StartSets

_Row: TypeAlias = tuple[IntArray, IntArray, float, float]
"""Columns, their weights, and the bounds of their sum."""


class CountProgram:
    """The program over given starts.

    Parameters
    ----------
    starts : StartSets
        Complete lists of starts for all schedules sought.

    Attributes
    ----------
    epochs, prompts, outputs : int64 array, shape (columns,)
        Start, prompt length and output length of each column.
    upper : int64 array, shape (columns,)
        Upper bounds of the columns.
    """

    def __init__(self, starts: StartSets) -> None:
        self._starts = starts
        instance = starts.instance
        members: dict[tuple[int, int], list[int]] = {}
        for i in np.argsort(instance.arrival_times, kind="stable").tolist():
            lengths = int(instance.prompt_lengths[i]), int(instance.output_lengths[i])
            members.setdefault(lengths, []).append(i)
        classes = sorted(members, key=lambda c: (_volume(*c), c))
        self._members = [members[c] for c in classes]
        self.upper = self._make_columns(classes)

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
        for r in range(1, self._starts.horizon + 1):
            active = np.flatnonzero((self.epochs < r) & (r <= self._costs))
            held = self.prompts[active] + r - self.epochs[active]
            yield active, held, -np.inf, self._starts.instance.memory_limit

    def _class_rows(self) -> Iterator[_Row]:
        """Yield rows that start every request of a class, at most those that have arrived."""
        arrivals = self._starts.instance.arrival_times
        for own, of_class in self._columns_by_class():
            yield of_class, np.ones_like(of_class), len(own), len(own)
            for count, (i, j) in enumerate(pairwise(own), start=1):
                if arrivals[i] < arrivals[j]:
                    before = of_class[self.epochs[of_class] < arrivals[j]]
                    yield before, np.ones_like(before), -np.inf, count

    def integer_program(self) -> LinearModel:
        """Return the program, for a search by HiGHS."""
        rows = [*self._memory_rows(), *self._class_rows()]
        places, values, least, most = zip(*rows, strict=True)
        ends = np.cumsum([0, *map(len, places)])
        matrix = sp.csr_array(
            (np.concatenate(values), np.concatenate(places), ends),
            shape=(len(rows), len(self.epochs)),
            dtype=np.float64,
        )
        return LinearModel(
            costs=self._costs.astype(np.float64),
            offset=self._offset,
            matrix=sp.csc_array(matrix),
            row_lower=np.array(least, dtype=np.float64),
            row_upper=np.array(most, dtype=np.float64),
            column_lower=np.zeros(len(self.upper)),
            column_upper=self.upper.astype(np.float64),
            integer=np.ones(len(self._costs), dtype=np.bool_),
        )

    def values(self, schedule: Schedule) -> FloatArray:
        """Return the columns of a schedule within the lists, shape (columns,)."""
        values = np.zeros(len(self.epochs))
        for own, of_class in self._columns_by_class():
            place = dict(zip(self.epochs[of_class].tolist(), of_class.tolist(), strict=True))
            for start in schedule.start_times[own].tolist():
                values[place[start]] += 1
        return values

    def schedule(self, values: FloatArray) -> Schedule:
        """Return the schedule of an integer solution, feasible or not."""
        starts = np.zeros(len(self._starts.instance), dtype=np.int64)
        counts = np.rint(values).astype(np.int64)
        for own, of_class in self._columns_by_class():
            starts[own] = np.repeat(self.epochs[of_class], counts[of_class])
        return Schedule(self._starts.instance, starts)


def _volume(prompt: int, output: int) -> int:
    return prompt * output + output * (output + 1) // 2
