"""A tree of windows of starts, each of whose leaves has prices.

**Window tree.** The root has the windows [a_i, infinity). A split (i, t) divides a node's window
[lo_i, hi_i], lo_i <= t < hi_i, into [lo_i, t] and [t + 1, hi_i]. Every schedule lies in exactly one
leaf, whichever the splits are; so the smallest of the leaves' bounds is a lower bound on the
optimum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import limits
from .charges import PriceSet, Table, TableCharges, Window
from .format import (
    CertificateError,
    CertificateTooLargeError,
    MalformedCertificateError,
    list_of,
    whole,
    wholes,
)
from .state_proofs import ConfigurationProof


class TreeProof(ConfigurationProof):
    """Tables of weights, sets of their prices, and the tree."""

    keys = ("tables", "prices", "tree")

    def bound(self) -> int:
        """See `Proof.bound`."""
        self._count_requests()
        listed = list_of(self.part["tables"], "tables")
        tables = [self._table(table, f"table {k}") for k, table in enumerate(listed)]
        self.tables = len(tables)
        listed = list_of(self.part["prices"], "prices")
        sets = [self._price_set(prices, tables, f"prices {p}") for p, prices in enumerate(listed)]
        self.price_sets = len(sets)
        return self._tree_bound(tables, sets)

    def _table(self, part: Any, where: str) -> Table:
        rows: dict[tuple[int, int], int] = {}
        for entry in list_of(part, where):
            m, r, weight = wholes(entry, 3, where)
            if r < 1 or m + r > self.limit:
                raise MalformedCertificateError(f"{where}: ({m}, {r}) is no state")
            if (m, r) in rows:
                raise MalformedCertificateError(f"{where}: state ({m}, {r}) is given twice")
            rows[m, r] = weight
        heaviest = self._heaviest((m, r, weight) for (m, r), weight in rows.items())
        by_sum: dict[int, list[tuple[int, int]]] = {}
        for (m, r), weight in sorted(rows.items()):
            by_sum.setdefault(m + r, []).append((m, weight))
        weights = {e: np.array(column, dtype=np.int64).T for e, column in by_sum.items()}
        return Table({e: (m, rho) for e, (m, rho) in weights.items()}, heaviest)

    def _price_set(self, part: Any, tables: list[Table], where: str) -> PriceSet:
        entries = [wholes(entry, 3, where) for entry in list_of(part, where)]
        seen: set[tuple[int, int]] = set()
        for k, tau, _ in entries:
            if k >= len(tables):
                raise MalformedCertificateError(f"{where}: table {k} does not exist")
            if tau >= limits.LARGEST_EPOCH:
                raise CertificateTooLargeError(f"{where}: epoch {tau} is too late")
            if (k, tau) in seen:
                raise MalformedCertificateError(f"{where}: table {k} has two prices at epoch {tau}")
            seen.add((k, tau))
        # No weight exceeds its table's heaviest configuration, if its state occurs.
        paid = sum(y * tables[k].heaviest for k, _, y in entries)
        self._refuse_overflow(paid, 1 + max((tau for _, tau in seen), default=-1), where)
        return PriceSet(np.array(entries, dtype=np.int64).reshape(-1, 3), paid)

    def _tree_bound(self, tables: list[Table], sets: list[PriceSet]) -> int:
        """Walk the tree, whose nodes are listed parents first, left before right."""
        windows: list[Window] = [(a, None) for a, _, _ in self.rows]
        replaced: list[tuple[int, Window]] = []
        # The parts to come: how many replacements hold there, and the next one.
        pending = [(0, 0, windows[0])]
        charges = TableCharges(self.rows, tables, sets, self._spend)
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
            if p >= len(sets):
                raise MalformedCertificateError(
                    f"tree: node {position} refers to missing prices {p}"
                )
            total = -sets[p].paid
            for (a, s, o), window in zip(self.rows, windows, strict=True):
                axis, paid = charges.of(p, s, o)
                total += axis.least(paid, self.scale, o - a, window)
            bound = self._rounded_up(total)
            self.leaves += 1
            if lowest is None or bound < lowest:
                lowest, self.weakest = bound, f"leaf {self.leaves - 1} (node {position})"
        if pending or lowest is None:
            raise CertificateError(f"tree: {len(pending)} parts are not covered: nodes are missing")
        return lowest
