"""Branch and bound over the number of requests of a class per start, earliest epochs first.

The program is that of `hindsight.integer_program.start_counts`. Memory is most expensive in the
first rounds, so a solution that is integral up to some epoch and fractional behind it already pays
most of the cost of integrality. Therefore the leaf with the least bound is split at its first epoch
with a fraction, on a column there or on a sum of starts by then. The choice uses earlier splits:
new candidates are tried, others are rated by their gains so far (pseudocosts; Achterberg, Koch and
Martin 2005, doi 10.1016/j.orl.2004.04.002).

The least bound of the leaves is a lower bound at any time, in integers. Each leaf's bound is
evaluated exactly, or that of its parent is kept, and a leaf is dropped only by an exact bound or a
proof that it is empty.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hindsight.runtime.clock import never
from instances import Schedule

from .start_counts import SCALE, Box, CountProgram, Relaxed

WHOLE = 1e-6
"""Largest distance from an integer at which a value counts as integral."""

FRACTION_OF_SUM = 0.02
"""Least distance from an integer at which a sum may be split."""

TRIED = 4
"""Most untried candidates that are tried at a split."""

REMEMBERED = 8
"""Number of splits, roughly, over which the gains of a candidate are averaged."""

LEAST_GAIN = 1e-3
"""Smallest gain, in rounds, used when both sides of a split are weighed."""


class Split(NamedTuple):
    """A column or a row to split, and its fractional value."""

    is_row: bool
    position: int
    value: float


@dataclass(eq=False, slots=True)
class _Leaf:
    """A box, given by one bound more than its parent's, and its possible splits."""

    parent: _Leaf | None
    split: Split | None
    is_upper: bool
    candidates: list[Split]

    def box(self, whole: Box) -> Box:
        """Return the bounds of the leaf."""
        box = copied(whole)
        leaf = self
        while leaf.parent is not None:
            leaf.narrow(box)
            leaf = leaf.parent
        return box

    def narrow(self, box: Box) -> None:
        """Apply the leaf's own bound."""
        assert self.split is not None
        is_row, position, value = self.split
        low, high = box[2 * is_row], box[2 * is_row + 1]
        if self.is_upper:
            high[position] = min(int(high[position]), int(np.floor(value)))
        else:
            low[position] = max(int(low[position]), int(np.floor(value)) + 1)


def copied(box: Box) -> Box:
    """Copy the bounds, so that they can be narrowed."""
    return Box(*(bound.copy() for bound in box))


@dataclass(eq=False, slots=True)
class _Gains:
    """Average gains of a candidate per unit of fraction rounded away, downwards and upwards."""

    rates: list[float] = field(default_factory=lambda: [0.0, 0.0])
    times: int = 0

    def learn(self, fraction: float, gains: list[float]) -> None:
        """Update the averages with the gains of a split."""
        for side, distance in enumerate((fraction, 1 - fraction)):
            rate = gains[side] / max(distance, 0.05)
            self.rates[side] += (rate - self.rates[side]) / (self.times + 1)
        self.times = min(self.times + 1, REMEMBERED)

    def expected(self, fraction: float) -> float:
        """Return the product of the expected gains of both sides."""
        return _product([self.rates[0] * fraction, self.rates[1] * (1 - fraction)])


def _product(gains: list[float]) -> float:
    return max(gains[0], LEAST_GAIN) * max(gains[1], LEAST_GAIN)


class CountTree:
    """Branch-and-bound tree, which `grow` extends.

    Parameters
    ----------
    program : CountProgram
        The program.
    should_stop : Callable[[], bool], default never
        Polled before every relaxation.

    Attributes
    ----------
    columns : int
        Number of columns of the program.
    relaxations : int
        Relaxations solved so far.
    leaves : int
        Number of open leaves.
    root : Relaxed
        Relaxation of the whole program.
    """

    def __init__(self, program: CountProgram, should_stop: Callable[[], bool] = never) -> None:
        self._program = program
        self._should_stop = should_stop
        self._gains: dict[tuple[bool, int], _Gains] = {}
        self.columns = len(program.epochs)
        self.relaxations = 1
        self.root = program.relax(program.whole)
        root = _Leaf(None, None, False, [])
        self._open: list[tuple[int, int, _Leaf]] = []
        # Least bound of leaves that have a bound but no solution to split by.
        self._stuck: int | None = None
        self._found: list[Schedule] = []
        self._numbered = 0
        if self.root.bound is not None:
            self._add(root, self.root, self.root.bound)

    @property
    def leaves(self) -> int:
        """Return the number of open leaves."""
        return len(self._open)

    @property
    def bound(self) -> int | None:
        """Return a lower bound on schedules within the lists; None if no leaf is left."""
        least = [self._open[0][0]] if self._open else []
        if self._stuck is not None:
            least.append(self._stuck)
        return -(-min(least) // SCALE) if least else None

    @property
    def is_stuck(self) -> bool:
        """Tell whether splitting can no longer raise the bound."""
        return self._stuck is not None and (not self._open or self._open[0][0] >= self._stuck)

    def take_found(self) -> Iterator[Schedule]:
        """Yield the feasible schedules found since the last call."""
        while self._found:
            yield self._found.pop()

    def grow(self, upper_bound: int, relaxations: int) -> None:
        """Split leaves until ``relaxations`` are solved or all leaves are closed.

        A leaf is closed if it holds nothing below ``upper_bound``.
        """
        last = self.relaxations + relaxations
        while self._open and not self.is_stuck and self.relaxations < last:
            if self._open[0][0] > (upper_bound - 1) * SCALE:
                self._open.clear()
                break
            if self._should_stop() or not self._split(upper_bound):
                break
            if self._found:
                upper_bound = min(upper_bound, *(found.total_latency for found in self._found))

    def _split(self, upper_bound: int) -> bool:
        """Split the leaf of the least bound; return False if stopped before that."""
        bound, _, leaf = self._open[0]
        box = leaf.box(self._program.whole)
        most = (upper_bound - 1) * SCALE
        best: list[tuple[_Leaf, Relaxed, int]] = []
        best_score = -1.0
        for split in self._tried(leaf.candidates):
            fraction = split.value - np.floor(split.value)
            children: list[tuple[_Leaf, Relaxed, int]] = []
            gains: list[float] = []
            for is_upper in (True, False):
                child = _Leaf(leaf, split, is_upper, [])
                narrowed = copied(box)
                child.narrow(narrowed)
                relaxed = self._program.relax(narrowed)
                self.relaxations += 1
                if self._should_stop():
                    return False
                raised = most + 1 if relaxed.bound is None else max(bound, relaxed.bound)
                gains.append((min(raised, most) - bound) / SCALE)
                if raised <= most:
                    children.append((child, relaxed, raised))
            known = self._gains.setdefault(split[:2], _Gains())
            known.learn(fraction, gains)
            if _product(gains) > best_score:
                best, best_score = children, _product(gains)
        heapq.heappop(self._open)
        for opened in best:
            self._add(*opened)
        return True

    def _tried(self, candidates: list[Split]) -> list[Split]:
        """Choose untried candidates, the most fractional first, and the best of the others."""
        new = [split for split in candidates if split[:2] not in self._gains][:TRIED]
        known = [split for split in candidates if split[:2] in self._gains]
        if known:
            new.append(max(known, key=self._expected))
        return new

    def _expected(self, split: Split) -> float:
        return self._gains[split[:2]].expected(split.value - np.floor(split.value))

    def _add(self, leaf: _Leaf, relaxed: Relaxed, bound: int) -> None:
        """Open a leaf; one without fractions is a schedule, one without a solution stays open."""
        if relaxed.values is not None:
            leaf.candidates = self._candidates(relaxed)
            if leaf.candidates:
                self._numbered += 1
                heapq.heappush(self._open, (bound, self._numbered, leaf))
                return
            schedule = self._program.schedule(relaxed.values)
            if not schedule.violations():
                self._found.append(schedule)
                # This leaf has nothing better.
                if -(-bound // SCALE) >= schedule.total_latency:
                    return
        self._stuck = bound if self._stuck is None else min(self._stuck, bound)

    def _candidates(self, relaxed: Relaxed) -> list[Split]:
        """Return columns and sums with a fraction at the first epoch that has any, ranked."""
        program, values = self._program, relaxed.values
        assert values is not None
        distances = np.abs(values - np.rint(values))
        fractional = np.flatnonzero(distances > WHOLE)
        if not len(fractional):
            return []
        epoch = program.epochs[fractional].min()
        here = fractional[program.epochs[fractional] == epoch]
        ranked = [(distances[j], Split(False, int(j), float(values[j]))) for j in here]
        sums = program.rows(values, program.first_sum)
        for k in np.flatnonzero(program.sum_epochs == epoch):
            distance = abs(sums[k] - np.rint(sums[k]))
            if distance > FRACTION_OF_SUM:
                # A sum changes more than a column does.
                row = Split(True, program.first_sum + int(k), float(sums[k]))
                ranked.append((distance + 0.2, row))
        ranked.sort(key=lambda one: (-one[0], one[1]))
        return [split for _, split in ranked]
