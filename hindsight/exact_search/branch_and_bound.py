"""Proofs of optimality as trees over start windows, each leaf closed by prices of state tables.

A node is a window [lo_i, hi_i] of starts for every request; the root has [a_i, infinity). A split
(i, t) divides it into t_i <= t and t_i >= t + 1. So whatever the splits are, every schedule lies in
exactly one leaf, and if the schedules of every leaf cost at least U, so does the optimum.

*The bound of a node* is that of `hindsight.configurations.prices` over its windows. The best prices
are the duals of the linear program over x[i, t] in [0, 1], t in the window of i,

    min sum (t + o_i - a_i) x[i, t]    s.t.  sum_t x[i, t] = 1,
    sum_{i, t} rho_k(s_i + tau - t, t + o_i - tau) x[i, t] <= D_k     for tables k, epochs tau,

whose rows are generated when violated. The starts at or past the last priced epoch T are one
column, t = T, the cheapest of them. HiGHS solves the program; its duals are rounded to integers in
units of 1 / `SCALE`, and the bound is evaluated from those integers alone:

    SCALE * TEL >= sum_i min over [lo_i, hi_i] of P_i - sum_{k, tau} y[k, tau] D_k.

Nothing depends on the tolerances of HiGHS: bad duals only prove less.

*Tightening.* Let y bound a node by B (in units of 1 / SCALE), with p_i the least P_i. If
B + P_i(t) - p_i > SCALE (U - 1) for all t in the first part [lo_i, t'] of a window, the node's
schedules that start i there cost at least U: the *same prices* prove it. Such a cut is written as
one more split, whose cut-off side is a leaf with these prices.

Search is depth first, the side that holds the smaller part of the fractional starts last; what is
not closed in time stays a leaf with the bound it has, and the tree still proves the smallest of
its leaves' bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from hindsight.configurations.separation import TableSeparator
from hindsight.configurations.tables import ConfigurationCut, state_copies
from hindsight.configurations.warm_start import LARGEST_MEMORY_LIMIT, first_tables
from hindsight.integer_program.highs import WarmProgram
from hindsight.runtime.clock import Clock
from instances import Instance, InvalidValueError, Schedule
from instances.arrays import FloatArray, IntArray

SCALE = 1 << 14
"""Prices are integers in units of 1 / SCALE: fine enough for the bound, and short in a file."""

ROWS_A_ROUND = 120
"""Rows added to the linear program at once, the most violated first."""

ROOT_ROUNDS = 12
"""Most rounds of table separation at the root."""

EPOCHS_A_ROUND = 8
TABLES_A_ROUND = 4
"""Epochs tried, and tables kept, in a round of separation."""

KEPT_VALUES = 200
"""Most sets of prices whose priced costs of all starts are kept in memory."""

LARGEST_PROGRAM = 60_000
"""Most starts n (T + 1) for which a tree is attempted."""


@dataclass(eq=False)
class _Node:
    """A node of the tree: a split into two, or a leaf with prices."""

    lo: IntArray
    hi: IntArray
    parent_prices: int
    split: tuple[int, int] | None = None
    children: tuple[_Node, _Node] | None = None
    prices: int = 0


@dataclass(frozen=True, eq=False)
class WindowTree:
    """A tree over start windows; see the module docstring.

    Attributes
    ----------
    tables : tuple[ConfigurationCut, ...]
        Tables to which the prices refer.
    prices : tuple[dict[tuple[int, int], int], ...]
        Price sets that the leaves use, as {(table, epoch): y}, y >= 1 in units of 1 / ``scale`` per
        unit of the table's coefficients.
    nodes : tuple[tuple[int, int] | int, ...]
        Parents first, left part first: (i, t) for a split, an index into ``prices`` for a leaf.
    lower_bound : int
        The smallest of the leaves' bounds, proved.
    root_bound : int
        Bound proved by the root's prices alone.
    is_complete : bool
        Whether every leaf reaches the schedule's total latency.
    programs : int
        Number of linear programs solved.
    scale : int
        Denominator of the prices.
    """

    tables: tuple[ConfigurationCut, ...]
    prices: tuple[dict[tuple[int, int], int], ...]
    nodes: tuple[tuple[int, int] | int, ...]
    lower_bound: int
    root_bound: int
    is_complete: bool
    programs: int
    scale: int = SCALE

    @property
    def leaves(self) -> int:
        """Return the number of leaves."""
        return sum(isinstance(node, int) for node in self.nodes)


def suits_tree(instance: Instance, schedule: Schedule) -> bool:
    """Tell whether a window tree can be attempted: no weights, and tables of moderate size."""
    epochs = max(schedule.makespan, int(instance.arrival_times.max())) + 2
    is_small = instance.memory_limit <= LARGEST_MEMORY_LIMIT
    return is_small and not instance.is_weighted and len(instance) * epochs <= LARGEST_PROGRAM


def prove_by_windows(
    instance: Instance,
    schedule: Schedule,
    tables: Sequence[ConfigurationCut] = (),
    *,
    time_limit: float | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> WindowTree:
    """Search for a tree that proves ``schedule`` optimal.

    Parameters
    ----------
    instance : Instance
        The problem.
    schedule : Schedule
        A feasible schedule; the tree proves that none is better, if that is true.
    tables : Sequence[ConfigurationCut], optional
        Exactly valid tables, used besides the memory and core tables.
    time_limit : float or None, default None
        Seconds; open nodes become leaves with their present bounds.
    should_stop : Callable[[], bool] or None, default None
        Polled at every node; returning True has the same effect.

    Raises
    ------
    InvalidValueError
        The schedule is infeasible or belongs to another instance, some weight is not 1, or the
        instance is too large (`suits_tree`).
    """
    instance.refuse_weights("is not 1: a window tree counts every request alike")
    if schedule.instance.digest != instance.digest or schedule.violations():
        raise InvalidValueError(None, "schedule", schedule, "is not feasible for this instance")
    if not suits_tree(instance, schedule):
        raise InvalidValueError(None, "instance", instance, "is too large for a window tree")
    return _TreeSearch(instance, schedule, tables, Clock(time_limit, should_stop)).run()


class _PricedProgram:
    """The linear program of a node, warm-started from the one before."""

    def __init__(self, instance: Instance, copies: IntArray, T: int, penalty: int) -> None:
        s, o, a, _ = instance.columns
        self.T = T
        self.n = n = len(instance)
        self.copies = copies
        # Request i has one column for each start a_i .. T; its columns begin at first[i].
        self.first = np.concatenate([[0], np.cumsum(T + 1 - a)])
        self.owner = np.repeat(np.arange(n), T + 1 - a)
        self.start = np.concatenate([np.arange(arrival, T + 1) for arrival in a.tolist()])
        self.latency = self.start + (o - a)[self.owner]
        self.tables: list[ConfigurationCut] = []
        self._matrices: list[Any] = []  # for each table, int64 (T, columns)
        self._rows: list[tuple[int, int]] = []  # the table and epoch of each row
        self.solved = 0
        self.x: FloatArray = np.zeros(len(self.start))
        self.value = -math.inf
        # The state of each column at each epoch of its life.
        lives = np.minimum(o[self.owner], T - self.start)
        self._column = np.repeat(np.arange(len(self.start)), lives)
        age = np.arange(len(self._column)) - np.repeat(np.cumsum(lives) - lives, lives)
        self._epoch = self.start[self._column] + age
        self._m = s[self.owner[self._column]] + age
        self._r = o[self.owner[self._column]] - age
        # The last column absorbs the violation of all rows at a prohibitive price: the program is
        # always feasible, and an infeasible node gets a bound past the target.
        costs = np.append(self.latency.astype(np.float64), float(penalty))
        self._program = WarmProgram(costs, np.full(len(costs), np.inf), "simplex")
        for own in np.split(np.arange(len(self.start)), self.first[1:-1]):
            self._program.add_row(1.0, 1.0, own, np.ones(len(own)))

    def of(self, i: int) -> slice:
        """Return the columns of a request."""
        return slice(int(self.first[i]), int(self.first[i + 1]))

    def add_tables(self, tables: Sequence[ConfigurationCut]) -> None:
        """Add tables; their rows are generated when violated."""
        for table in tables:
            weight = table.coefficients[self._m, self._r]
            used = weight > 0
            entries = (weight[used], (self._epoch[used], self._column[used]))
            shape = (self.T, len(self.start))
            self._matrices.append(sp.csr_matrix(entries, shape=shape, dtype=np.int64))
            self.tables.append(table)

    def restrict(self, lo: IntArray, hi: IntArray) -> None:
        """Set the windows of starts; a ``hi`` of T is no upper limit."""
        inside = (self.start >= lo[self.owner]) & (self.start <= hi[self.owner])
        self._program.set_upper(np.append(np.where(inside, np.inf, 0.0), np.inf))

    def solve(self) -> bool:
        """Solve over the present rows; return False if infeasible or if HiGHS failed."""
        result = self._program.solve()
        self.solved += 1
        if result.bound is None or result.values is None or result.row_duals is None:
            return False
        self.x = result.values[: len(self.start)]
        self._dual = result.row_duals[self.n :]
        self.value = result.bound
        return True

    def generate(self, threshold: float = 1e-4) -> int:
        """Add the most violated rows; return how many."""
        found: list[tuple[float, int, int]] = []
        there = set(self._rows)
        for k, (matrix, table) in enumerate(zip(self._matrices, self.tables, strict=True)):
            excess = matrix @ self.x / table.capacity - 1.0
            violated = np.flatnonzero(excess > threshold).tolist()
            found += [(float(excess[t]), k, t) for t in violated if (k, t) not in there]
        found.sort(reverse=True)
        for _, k, tau in found[:ROWS_A_ROUND]:
            row = self._matrices[k][tau]
            self._rows.append((k, tau))
            columns = np.append(row.indices, len(self.start))
            weights = np.append(row.data / self.tables[k].capacity, -1.0)
            self._program.add_row(-np.inf, 1.0, columns, weights)
        return min(len(found), ROWS_A_ROUND)

    def integer_prices(self) -> dict[tuple[int, int], int]:
        """Return the duals of the last solution, rounded."""
        duals = zip(self._rows, self._dual.tolist(), strict=False)
        prices = {row: round(-y * SCALE / self.tables[row[0]].capacity) for row, y in duals}
        return {row: y for row, y in prices.items() if y > 0}

    def start_values(self, prices: dict[tuple[int, int], int]) -> IntArray:
        """Return P of every column, exact, in units of 1 / SCALE."""
        P: IntArray = self.latency.astype(np.int64) * SCALE
        by_table: dict[int, IntArray] = {}
        for (k, tau), y in prices.items():
            by_table.setdefault(k, np.zeros(self.T, dtype=np.int64))[tau] = y
        for k, column in by_table.items():
            P = P + self._matrices[k].T @ column
        return P

    def paid(self, prices: dict[tuple[int, int], int]) -> int:
        """Return the total capacity charge of the prices, in units of 1 / SCALE."""
        return sum(y * self.tables[k].capacity for (k, _), y in prices.items())

    def masses(self) -> FloatArray:
        """Return the mass in each state at each epoch, shape (T, M + 1, M + 1)."""
        mass = np.zeros((self.T, *self.copies.shape))
        np.add.at(mass, (self._epoch, self._m, self._r), self.x[self._column])
        return mass


@dataclass(eq=False)
class _Prices:
    """A set of integer prices and the values derived from it."""

    prices: dict[tuple[int, int], int]
    P: IntArray | None
    paid: int


class _TreeSearch:
    """Depth-first search for a window tree."""

    def __init__(
        self,
        instance: Instance,
        schedule: Schedule,
        tables: Sequence[ConfigurationCut],
        clock: Clock,
    ) -> None:
        self.instance = instance
        self.target = schedule.total_latency
        self.clock = clock
        limit = instance.memory_limit
        self.copies = state_copies(instance.prompt_lengths, instance.output_lengths, limit)
        self.T = max(schedule.makespan, int(instance.arrival_times.max())) + 1
        penalty = (limit + 1) * self.target
        self.program = _PricedProgram(instance, self.copies, self.T, penalty)
        self.program.add_tables(first_tables(instance, self.copies))
        own = {t.coefficients.tobytes() for t in self.program.tables}
        self.program.add_tables([t for t in tables if t.coefficients.tobytes() not in own])
        self.separator = TableSeparator(self.copies, limit)
        self.sets: list[_Prices] = []
        self.rng = np.random.default_rng(0)
        self.hopeless = False

    def run(self) -> WindowTree:
        lo = self.instance.arrival_times.copy()
        hi = np.full(len(lo), self.T)
        root = _Node(lo, hi, self._keep({}))
        pending = [root]
        first = True
        while pending:
            node = pending.pop()
            if self._stopped():
                node.prices = node.parent_prices
                continue
            children = self._process(node, is_root=first)
            first = False
            pending.extend(children)
        return self._finished(root)

    def _stopped(self) -> bool:
        return self.hopeless or self.clock.must_stop()

    def _process(self, node: _Node, *, is_root: bool) -> list[_Node]:
        """Close a node or split it; return the children still open, the next to process last."""
        node.prices = node.parent_prices
        # The prices of the parent may suffice.
        best = self._bound(node.prices, node.lo, node.hi)
        if self._closes(best):
            return []
        program = self.program
        program.restrict(node.lo, node.hi)
        # Price the node: add rows while any is violated, and at the root new tables too.
        rounds = 0
        while program.solve():
            if program.value > self.target - 1 + 1e-3:
                p = self._price()
                if self._closes(self._bound(p, node.lo, node.hi)):
                    node.prices = p
                    return []
                self.sets.pop()
            if self._stopped():
                break
            if program.generate() > 0:
                continue
            if not (is_root and rounds < ROOT_ROUNDS and self._separate()):
                break
            rounds += 1
        p = self._price()
        if self._bound(p, node.lo, node.hi) >= best:
            node.prices = p
        else:
            self.sets.pop()
        if (node.lo == node.hi).all():
            # One schedule is left: without prices its bound is its cost. If that is below the
            # target, and no prices help, the given schedule is not optimal.
            if self._bound(0, node.lo, node.hi) >= self._bound(node.prices, node.lo, node.hi):
                node.prices = 0
            self.hopeless = not self._closes(self._bound(node.prices, node.lo, node.hi))
            return []
        # Cut off what these prices exclude, and split the rest.
        node = self._tightened(node)
        if (node.lo == node.hi).all():
            return [node]
        i, t = self._branching(node)
        left, right = self._split(node, i, t)
        own = program.of(i)
        below = float(program.x[own][program.start[own] <= t].sum())
        return [right, left] if below >= 0.5 else [left, right]

    def _price(self) -> int:
        """Add integer prices from the last linear program; return their index."""
        return self._keep(self.program.integer_prices())

    def _keep(self, prices: dict[tuple[int, int], int]) -> int:
        program = self.program
        self.sets.append(_Prices(prices, program.start_values(prices), program.paid(prices)))
        if len(self.sets) > KEPT_VALUES:
            self.sets[-1 - KEPT_VALUES].P = None
        return len(self.sets) - 1

    def _values(self, p: int) -> IntArray:
        """Return P of every column under prices p; only recent ones are cached."""
        kept = self.sets[p].P
        return self.program.start_values(self.sets[p].prices) if kept is None else kept

    def _minima(self, p: int, lo: IntArray, hi: IntArray) -> IntArray:
        """Return the least P of each request over its window."""
        program, P = self.program, self._values(p)
        inside = (program.start >= lo[program.owner]) & (program.start <= hi[program.owner])
        masked = np.where(inside, P, np.iinfo(np.int64).max)
        minima: IntArray = np.minimum.reduceat(masked, program.first[:-1])
        return minima

    def _bound(self, p: int, lo: IntArray, hi: IntArray) -> int:
        """Return the bound of prices over windows, in units of 1 / SCALE."""
        least: list[int] = self._minima(p, lo, hi).tolist()
        return sum(least) - self.sets[p].paid

    def _closes(self, bound: int) -> bool:
        return bound > SCALE * (self.target - 1)

    def _split(self, node: _Node, i: int, t: int) -> tuple[_Node, _Node]:
        """Divide the window of request i after t."""
        hi, lo = node.hi.copy(), node.lo.copy()
        hi[i], lo[i] = t, t + 1
        left = _Node(node.lo, hi, node.prices, prices=node.prices)
        right = _Node(lo, node.hi, node.prices, prices=node.prices)
        node.split, node.children = (i, t), (left, right)
        return left, right

    def _tightened(self, node: _Node) -> _Node:
        """Cut off the ends of windows that the node's prices exclude; return the remaining node."""
        program, p = self.program, node.prices
        minima, P = self._minima(p, node.lo, node.hi), self._values(p)
        bound = sum(minima.tolist()) - self.sets[p].paid
        for i in range(program.n):
            own = program.of(i)
            excess = P[own] - minima[i]
            starts = program.start[own]
            good = starts[excess <= SCALE * (self.target - 1) - bound]
            good = good[(good >= node.lo[i]) & (good <= node.hi[i])]
            low, high = int(good.min()), int(good.max())
            if low > node.lo[i]:
                _, node = self._split(node, i, low - 1)
            if high < node.hi[i]:
                node, _ = self._split(node, i, high)
        return node

    def _branching(self, node: _Node) -> tuple[int, int]:
        """Return the request with the widest spread of starts, and where to divide its window."""
        program = self.program
        chosen, widest, cut = -1, -1.0, 0
        for i in range(program.n):
            if node.lo[i] == node.hi[i]:
                continue
            own = program.of(i)
            x, starts = program.x[own], program.start[own]
            mean = float(x @ starts)
            spread = float(x @ np.abs(starts - mean)) + 1e-9 * float(node.hi[i] - node.lo[i])
            if spread > widest:
                t = min(max(math.floor(mean), int(node.lo[i])), int(node.hi[i]) - 1)
                chosen, widest, cut = i, spread, t
        return chosen, cut

    def _separate(self) -> bool:
        """Separate tables for the current fractional point; return whether any was found."""
        program = self.program
        mass = program.masses()
        busy = np.flatnonzero(mass.sum(axis=(1, 2)) > 0.5)
        found: list[tuple[ConfigurationCut, float]] = []
        for epoch in self.rng.permutation(busy)[:EPOCHS_A_ROUND]:
            if self._stopped():
                return False
            cut = self.separator.separate(mass, int(epoch))
            if cut is not None:
                found.append(cut)
        found.sort(key=lambda cut: -cut[1])
        program.add_tables([table for table, _ in found[:TABLES_A_ROUND]])
        return bool(found)

    def _finished(self, root: _Node) -> WindowTree:
        """Return the tree in order, with the prices and tables that its leaves use."""
        nodes: list[tuple[int, int] | int] = []
        number: dict[int, int] = {}
        lowest: int | None = None
        pending = [root]
        while pending:
            node = pending.pop()
            if node.split is not None and node.children is not None:
                nodes.append(node.split)
                pending.extend((node.children[1], node.children[0]))
                continue
            nodes.append(number.setdefault(node.prices, len(number)))
            bound = self._bound(node.prices, node.lo, node.hi)
            lowest = bound if lowest is None else min(lowest, bound)
        assert lowest is not None
        kept = [self.sets[p].prices for p in number]
        tables = sorted({k for prices in kept for k, _ in prices})
        renumbered = {k: position for position, k in enumerate(tables)}
        lower = -(-lowest // SCALE)
        lo, hi = self.instance.arrival_times, np.full(self.program.n, self.T)
        own = [self._bound(p, lo, hi) for p in range(min(len(self.sets), 200))]
        return WindowTree(
            tuple(self.program.tables[k] for k in tables),
            tuple({(renumbered[k], t): y for (k, t), y in prices.items()} for prices in kept),
            tuple(nodes),
            lower,
            -(-max(own) // SCALE),
            lower >= self.target,
            self.program.solved,
        )
