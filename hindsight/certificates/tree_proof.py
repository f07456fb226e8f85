"""Proofs by a tree of start windows with prices in each leaf.

**Window tree.** The root has the windows [a_i, infinity). A split (i, t) divides a node's window
[lo_i, hi_i], lo_i <= t < hi_i, into [lo_i, t] and [t + 1, hi_i]. Every schedule lies in exactly one
leaf, whichever the splits are; so the smallest of the leaves' bounds is a lower bound on the
optimum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import limits
from .format import (
    CertificateError,
    CertificateTooLargeError,
    MalformedCertificateError,
    list_of,
    whole,
    wholes,
)
from .limits import CALL
from .proofs import Axis, Ints, Window
from .state_proofs import ConfigurationProof

NO_WEIGHTS = (np.zeros(0, dtype=np.int64),) * 2


class Table(NamedTuple):
    """Weights rho of states, and their heaviest configuration.

    Columns (m, rho) of increasing m, by m + r.
    """

    weights: dict[int, tuple[Ints, Ints]]
    heaviest: int


class PriceSet(NamedTuple):
    """Prices of tables as rows (table, epoch, y), and their total for the configurations."""

    entries: Ints
    paid: int


class TreeProof(ConfigurationProof):
    """Proof by tables of weights, sets of their prices, and the tree."""

    keys = ("tables", "prices", "tree")

    def bound(self) -> int:
        """See `Proof.bound`."""
        self._count_requests()
        self._longest = max(o for _, _, o in self.rows)
        listed = list_of(self.part["tables"], "tables")
        self._tables = [self._table(table, f"table {k}") for k, table in enumerate(listed)]
        self.tables = len(listed)
        listed = list_of(self.part["prices"], "prices")
        self._sets = [self._price_set(prices, f"prices {p}") for p, prices in enumerate(listed)]
        self.price_sets = len(listed)
        # Payments of requests under the price sets used last.
        self._axes: dict[int, Axis] = {}
        self._paid: dict[tuple[int, int, int], Ints] = {}
        self._kept = 0
        return self._tree_bound()

    def _table(self, part: Any, where: str) -> Table:
        rows: dict[tuple[int, int], int] = {}
        for entry in list_of(part, where):
            m, r, weight = wholes(entry, 3, where)
            if r < 1 or m + r >= len(self._passing):
                raise MalformedCertificateError(f"{where}: ({m}, {r}) is no state")
            if (m, r) in rows:
                raise MalformedCertificateError(f"{where}: state ({m}, {r}) is given twice")
            rows[m, r] = weight
        column = np.array([*rows.values()], dtype=np.int64)[:, None]
        (heaviest,) = self._heaviest([*rows], column)
        by_sum: dict[int, list[tuple[int, int]]] = {}
        for (m, r), weight in sorted(rows.items()):
            by_sum.setdefault(m + r, []).append((m, weight))
        weights = {e: np.array(column, dtype=np.int64).T for e, column in by_sum.items()}
        return Table({e: (m, rho) for e, (m, rho) in weights.items()}, heaviest)

    def _price_set(self, part: Any, where: str) -> PriceSet:
        entries = [wholes(entry, 3, where) for entry in list_of(part, where)]
        seen: set[tuple[int, int]] = set()
        for k, tau, _ in entries:
            if k >= len(self._tables):
                raise MalformedCertificateError(f"{where}: table {k} does not exist")
            if tau >= limits.LARGEST_EPOCH:
                raise CertificateTooLargeError(f"{where}: epoch {tau} is too late")
            if (k, tau) in seen:
                raise MalformedCertificateError(f"{where}: table {k} has two prices at epoch {tau}")
            seen.add((k, tau))
        # No weight exceeds its table's heaviest configuration, if its state occurs.
        paid = sum(y * self._tables[k].heaviest for k, _, y in entries)
        self._refuse_overflow(paid, 1 + max((tau for _, tau in seen), default=-1), where)
        return PriceSet(np.array(entries, dtype=np.int64).reshape(-1, 3), paid)

    def _tree_bound(self) -> int:
        """Walk the tree, whose nodes are listed parents first, left before right."""
        windows: list[Window] = [(a, None) for a, _, _ in self.rows]
        replaced: list[tuple[int, Window]] = []
        # For each pending part: how many replacements hold there, and the next replacement.
        pending = [(0, 0, windows[0])]
        lowest: int | None = None
        for position, node in enumerate(list_of(self.part["tree"], "tree")):
            if not pending:
                raise CertificateError(f"tree: node {position} is left over")
            depth, i, window = pending.pop()
            while len(replaced) > depth:
                j, before = replaced.pop()
                windows[j] = before
            replaced.append((i, windows[i]))
            windows[i] = window
            if isinstance(node, list):
                i, t = wholes(node, 2, f"tree: node {position}")
                if i >= len(windows):
                    raise MalformedCertificateError(f"tree: node {position} splits request {i}")
                lo, hi = windows[i]
                if t < lo or (hi is not None and t >= hi):
                    raise CertificateError(
                        f"tree: node {position} splits request {i} after {t}, "
                        f"outside its window [{lo}, {'infinity' if hi is None else hi}]"
                    )
                pending.append((len(replaced), i, (t + 1, hi)))
                pending.append((len(replaced), i, (lo, t)))
                continue
            p = whole(node, f"tree: node {position}")
            if p >= len(self._sets):
                raise MalformedCertificateError(
                    f"tree: node {position} refers to missing prices {p}"
                )
            total = -self._sets[p].paid
            for (a, s, o), window in zip(self.rows, windows, strict=True):
                axis, paid = self._payments(p, s, o)
                total += axis.least(paid, self.scale, o - a, window)
            bound = self._rounded_up(total)
            self.leaves += 1
            if lowest is None or bound < lowest:
                lowest, self.weakest = bound, f"leaf {self.leaves - 1} (node {position})"
        if pending or lowest is None:
            raise CertificateError(f"tree: {len(pending)} parts are not covered: nodes are missing")
        return lowest

    def _payments(self, p: int, s: int, o: int) -> tuple[Axis, Ints]:
        """Return the starts that may pay under price set p, and the payments of such a request."""
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
        self.spend(CALL + len(axis.starts))
        return axis, self._paid[p, s, o]

    def _axis(self, p: int) -> Axis:
        """Return starts that may pay: as many per priced epoch as the longest request runs."""
        epochs = np.array(sorted(set(self._sets[p].entries[:, 1].tolist())), dtype=np.int64)
        widths = np.minimum(np.diff(epochs, prepend=-1), self._longest)
        length = int(widths.sum())
        if length > limits.LARGEST_AXIS:
            raise CertificateTooLargeError(f"prices {p}: too many")
        behind = np.repeat(epochs - np.cumsum(widths) + 1, widths)
        return Axis(behind + np.arange(length, dtype=np.int64))

    def _charge(self, p: int, s: int, o: int, axis: Axis) -> Ints:
        """Sum the payments for each start.

        Two epochs at which one request can pay are as far apart on the axis as in time.
        """
        entries = self._sets[p].entries
        total = np.zeros(len(axis.starts), dtype=np.int64)
        for k in sorted(set(entries[:, 0].tolist())):
            m, rho = self._tables[k].weights.get(s + o, NO_WEIGHTS)
            ages = m - s
            if not len(ages) or ages[-1] < 0:
                continue
            self.spend(CALL + len(entries) + len(total) * (1 + o // 8))
            weights = np.zeros(o, dtype=np.int64)
            weights[ages[ages >= 0]] = rho[ages >= 0]
            priced = entries[entries[:, 0] == k]
            column = np.zeros(len(total) + o, dtype=np.int64)
            column[np.searchsorted(axis.starts, priced[:, 1])] = priced[:, 2]
            total += np.correlate(column, weights, "valid")[:-1]
        return total
