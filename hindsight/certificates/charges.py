"""What requests pay under the prices of a certificate, by start."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from . import limits
from .format import CertificateTooLargeError
from .limits import CALL
from .problem import Row

Ints = npt.NDArray[np.int64]

Window = tuple[int, int | None]
"""First and last start, None for no last one."""

NO_WEIGHTS = (np.zeros(0, dtype=np.int64),) * 2


class Axis:
    """The starts that a set of prices may charge, increasing; no other start pays anything."""

    def __init__(self, starts: Ints) -> None:
        self.starts = starts
        ends = np.flatnonzero(np.diff(starts, append=-1) != 1)
        run = np.searchsorted(ends, np.arange(len(starts)))
        self.free = starts[ends][run] + 1  # the first start after each that pays nothing

    def least(self, paid: Ints, scale: int, latency: int, window: Window) -> int:
        """The least scale (t + latency) + paid(t) over a window, which is not empty."""
        low, high = window
        first = int(np.searchsorted(self.starts, low))
        end = len(self.starts)
        if high is not None:
            end = int(np.searchsorted(self.starts, high, side="right"))
        free = low
        if first < len(self.starts) and self.starts[first] == low:
            free = int(self.free[first])
        costs = []
        if high is None or free <= high:  # of the starts that pay nothing the first is the cheapest
            costs.append(scale * (free + latency))
        if first < end:
            charged = scale * (self.starts[first:end] + latency) + paid[first:end]
            costs.append(int(charged.min()))
        return min(costs)


class Table(NamedTuple):
    """Weights rho of states, and their heaviest configuration.

    Columns (m, rho) of increasing m, by m + r.
    """

    weights: dict[int, tuple[Ints, Ints]]
    heaviest: int


class PriceSet(NamedTuple):
    """Prices of tables as rows (table, epoch, y), and what they pay for the configurations."""

    entries: Ints
    paid: int


class StateCharges:
    """Prices of states by epoch, as read, and what requests pay."""

    def __init__(
        self,
        states: dict[tuple[int, int], int],
        rows: list[list[int]],
        spend: Callable[[int], None],
    ) -> None:
        self.states = states
        self.rows = rows
        self.axis = Axis(np.arange(len(rows), dtype=np.int64))
        self._spend = spend
        self._prices = np.array(rows, dtype=np.int64).reshape(len(rows), len(states))

    def paid(self, tau: int, m: int, r: int) -> int:
        """Q(tau, m, r) for an epoch that has prices."""
        p = self.states.get((m, r))
        return 0 if p is None else self.rows[tau][p]

    def of(self, s: int, o: int) -> Ints:
        """What a request of these lengths pays, by start, shape (T,)."""
        T = len(self.rows)
        total = np.zeros(T, dtype=np.int64)
        for age in range(min(o, T)):
            p = self.states.get((s + age, o - age))
            if p is not None:
                self._spend(CALL + T)
                total[: T - age] += self._prices[age:, p]
        return total


class TableCharges:
    """What requests pay under sets of prices of tables; what was asked last is kept."""

    def __init__(
        self,
        rows: list[Row],
        tables: list[Table],
        sets: list[PriceSet],
        spend: Callable[[int], None],
    ) -> None:
        self._longest = max(o for _, _, o in rows)
        self._tables = tables
        self._sets = sets
        self._spend = spend
        self._axes: dict[int, Axis] = {}
        self._paid: dict[tuple[int, int, int], Ints] = {}
        self._kept = 0

    def of(self, p: int, s: int, o: int) -> tuple[Axis, Ints]:
        """Under set p: the starts that may pay, and what a request of these lengths does there."""
        if self._kept > limits.LARGEST_AXIS:
            self._kept = 0
            self._axes.clear()
            self._paid.clear()
        if p not in self._axes:
            self._axes[p] = self._axis(p)
        axis = self._axes[p]
        if (p, s, o) not in self._paid:
            self._paid[p, s, o] = self._charge(p, s, o, axis)
            self._kept += CALL + 2 * len(axis.starts)
        self._spend(CALL + len(axis.starts))
        return axis, self._paid[p, s, o]

    def _axis(self, p: int) -> Axis:
        """Of every priced epoch, the last starts as many as the longest request has rounds."""
        epochs = np.array(sorted(set(self._sets[p].entries[:, 1].tolist())), dtype=np.int64)
        widths = np.minimum(np.diff(epochs, prepend=-1), self._longest)
        length = int(widths.sum())
        if length > limits.LARGEST_AXIS:
            raise CertificateTooLargeError(f"prices {p}: too many")
        behind = np.repeat(epochs - np.cumsum(widths) + 1, widths)
        return Axis(behind + np.arange(length, dtype=np.int64))

    def _charge(self, p: int, s: int, o: int, axis: Axis) -> Ints:
        """Two epochs that one request can pay at are as far apart on the axis as they are."""
        entries = self._sets[p].entries
        total = np.zeros(len(axis.starts), dtype=np.int64)
        for k in sorted(set(entries[:, 0].tolist())):
            m, rho = self._tables[k].weights.get(s + o, NO_WEIGHTS)
            ages = m - s
            if not len(ages) or ages[-1] < 0:
                continue
            self._spend(CALL + len(entries) + len(total) * (1 + o // 8))
            weights = np.zeros(o, dtype=np.int64)
            weights[ages[ages >= 0]] = rho[ages >= 0]
            priced = entries[entries[:, 0] == k]
            column = np.zeros(len(total) + o, dtype=np.int64)
            column[np.searchsorted(axis.starts, priced[:, 1])] = priced[:, 2]
            total += np.correlate(column, weights, "valid")[:-1]
        return total
