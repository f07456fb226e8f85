"""The proof of a certificate, as read, and the lower bound that it gives.

**Notation.** Request i = (a, s, o) started at t is, at epoch tau = t + age for age = 0 .. o - 1, in
*state* (m, r) = (s + age, o - age): it holds m + 1 tokens in round tau + 1 and still runs in the r
rounds tau + 1 .. tau + r. A *configuration* is a multiset of states that can occur together.

**What can occur together.** Read the states of one epoch in order of decreasing r. When the k-th is
read, the first k all run in round tau + r, where together they hold (sum of their m) + k r <= M.
So a multiset of states is admitted only if, read in that order, each member keeps
S + k r <= M, with k the members read and S the sum of their m. The heaviest total weight over
admitted multisets follows from a dynamic program over (k, S), in which a state is read at most as
often as there are requests that pass through it: `_heaviest`. Schedules realise admitted multisets
only, so the maximum is an upper bound on what any schedule can have together, which is all that is
used.

**Price bound.** Let Q(tau, m, r) >= 0 be prices in units of 1 / scale, and W_tau at least the
heaviest configuration under Q(tau, .). For any feasible schedule

    scale * TEL = sum_i P_i(t_i) - sum_tau (total price of what is active at tau)
               >= sum_i P_i(t_i) - sum_tau W_tau,

    P_i(t) = scale (t + o_i - a_i) + sum_age Q(t + age, s_i + age, o_i - age).

If the starts are known to lie in windows, lo_i <= t_i <= hi_i, each P_i(t_i) is at least its
minimum over the window: the bound on schedules within the windows. Past the last price P_i only
grows, by scale a round, so windows without an end need no horizon. TEL is an integer: bounds are
rounded up. *State prices* give Q itself, and W_tau by the dynamic program. *Tables* are weights
rho_k(m, r) >= 0 with prices y[k, tau] >= 0: Q(tau, .) = sum_k y[k, tau] rho_k and
W_tau = sum_k y[k, tau] D_k, where D_k, the heaviest configuration of table k, is computed here and
never read.

**Memory prices.** The same with one table, rho = m + 1, and M for its D: no more than M tokens are
held in round tau + 1. The sums are taken over prefixes, so large instances are no trouble.

**Window tree.** The root has the windows [a_i, infinity). A split (i, t) divides a node's window
[lo_i, hi_i], lo_i <= t < hi_i, into [lo_i, t] and [t + 1, hi_i]. Every schedule lies in exactly one
leaf, whichever the splits are; so the smallest of the leaves' bounds is a lower bound on the
optimum.

**State search.** State prices, and a budget that `hindsight.certificates.replay` exhausts under
them: the lower bound is one more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any

import numpy as np

from . import limits
from .charges import PriceSet, StateCharges, Table, TableCharges, Window
from .format import (
    LIMIT,
    CertificateError,
    CertificateTooLargeError,
    MalformedCertificateError,
    keys_of,
    list_of,
    shown,
    whole,
    wholes,
)
from .limits import CALL
from .problem import Row, Rows
from .replay import Prices, SearchTooLargeError, TooManyStatesError, count_states

BLOCK = 1024
"""Starts tried at once; further blocks double."""


class SearchFailedError(CertificateError):
    """A search does not end as claimed."""


class Proof:
    """A proof as read, and the bound it gives."""

    def __init__(self, instance: Rows, part: Any) -> None:
        self.rows = instance.rows
        self.limit = instance.memory_limit
        self.part = part
        self.tables: list[Table] = []
        self.price_sets = 0
        self.leaves = 0
        self.weakest = "the proof"
        self.should_stop: Callable[[], bool] | None = None
        self._work = 0
        kind = part.get("kind") if isinstance(part, Mapping) else None
        names: tuple[str, ...] = ("kind", "scale")
        if kind == "memory-prices":
            keys_of(part, (*names, "prices"), "proof")
        elif kind == "state-prices":
            keys_of(part, (*names, "states", "prices"), "proof")
        elif kind == "state-search":
            keys_of(part, (*names, "states", "prices", "budget", "kept"), "proof")
        elif kind == "window-tree":
            keys_of(part, (*names, "tables", "prices", "tree"), "proof")
        else:
            raise MalformedCertificateError(f"proof: kind {shown(kind)} is unknown")
        self.kind: str = kind
        self.scale = whole(part["scale"], "scale", 1)

    def bound(self) -> int:
        """The lower bound that this proof gives."""
        if self.kind == "memory-prices":
            return self._memory_bound()
        if self.limit > limits.LARGEST_TABLE_MEMORY:
            raise CertificateTooLargeError(f"states are not priced for memory_limit {self.limit}")
        self._count_requests()
        if self.kind == "state-prices":
            return self._state_bound()
        if self.kind == "state-search":
            return self._search_bound()
        listed = list_of(self.part["tables"], "tables")
        self.tables = [self._table(table, f"table {k}") for k, table in enumerate(listed)]
        listed = list_of(self.part["prices"], "prices")
        sets = [self._price_set(prices, f"prices {p}") for p, prices in enumerate(listed)]
        self.price_sets = len(sets)
        return self._tree_bound(sets)

    def _spend(self, numbers: int) -> None:
        """Count numbers that are about to be visited."""
        self._work += numbers
        stopped = self.should_stop is not None and self.should_stop()
        if stopped or self._work > limits.LARGEST_WORK:
            raise CertificateTooLargeError("proof: to check it takes more than this checker does")

    def _rounded_up(self, scaled: int) -> int:
        """A bound in units of 1 / scale, as one on a total latency."""
        return -(-scaled // self.scale)

    def _refuse_overflow(self, charged: int, T: int, where: str) -> None:
        """Refuse prices of epochs below T that charge too much for int64."""
        latest = T + max(a + o for a, _, o in self.rows)
        if charged + self.scale * latest >= LIMIT:
            raise CertificateTooLargeError(f"{where}: the prices or the scale are too large")

    def _count_requests(self) -> None:
        """``self._passing[e, m]``: of the requests with s + o = e, how many have s <= m."""
        counts = np.zeros((self.limit + 1, self.limit + 1), dtype=np.int64)
        for _, s, o in self.rows:
            counts[s + o, s] += 1
        self._passing = np.cumsum(counts, axis=1)
        # Every member of a configuration holds at least m + 1 tokens.
        self._most = self.limit // (1 + min(s for _, s, _ in self.rows))

    def _heaviest(self, weights: Iterable[Row]) -> int:
        """Total weight of the heaviest configuration, of rows (m, r, weight); see the docstring."""
        limit, most = self.limit, self._most
        ordered = sorted((row for row in weights if row[2]), key=lambda row: -row[1])
        self._spend(CALL + (most + 1) * (limit + 1))
        if limit * max((weight for _, _, weight in ordered), default=0) >= LIMIT:
            raise CertificateTooLargeError("proof: a weight is too large")
        value = np.full((most + 1, limit + 1), -1, dtype=np.int64)
        value[0, 0] = 0
        members = np.arange(most + 1)[:, None]
        sums = np.arange(limit + 1)[None, :]
        for m, r, weight in ordered:
            top = min(most, limit // r)
            copies = min(int(self._passing[m + r, m]), limit // (m + r))
            together = 1
            while copies:
                # Members in one state fit if they do when the last of them is read; 1, 2, 4, ...
                # and what is left of them at once give any number.
                k = min(together, copies)
                self._spend(CALL + (top + 1) * (limit + 1))
                before = value[: top + 1 - k, : limit + 1 - k * m]
                after = value[k : top + 1, k * m :]
                fits = sums[:, k * m :] + members[k : top + 1] * r <= limit
                reached = np.where((before >= 0) & fits, before + k * weight, -1)
                np.maximum(after, reached, out=after)
                copies -= k
                together *= 2
        return int(value.max())

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

    def _price_set(self, part: Any, where: str) -> PriceSet:
        entries = [wholes(entry, 3, where) for entry in list_of(part, where)]
        seen: set[tuple[int, int]] = set()
        for k, tau, _ in entries:
            if k >= len(self.tables):
                raise MalformedCertificateError(f"{where}: table {k} does not exist")
            if tau >= limits.LARGEST_EPOCH:
                raise CertificateTooLargeError(f"{where}: epoch {tau} is too late")
            if (k, tau) in seen:
                raise MalformedCertificateError(f"{where}: table {k} has two prices at epoch {tau}")
            seen.add((k, tau))
        # No weight exceeds its table's heaviest configuration, if its state occurs.
        paid = sum(y * self.tables[k].heaviest for k, _, y in entries)
        self._refuse_overflow(paid, 1 + max((tau for _, tau in seen), default=-1), where)
        return PriceSet(np.array(entries, dtype=np.int64).reshape(-1, 3), paid)

    def _tree_bound(self, sets: list[PriceSet]) -> int:
        """Walk the tree, whose nodes are listed parents first, left before right."""
        windows: list[Window] = [(a, None) for a, _, _ in self.rows]
        replaced: list[tuple[int, Window]] = []
        # The parts to come: how many replacements hold there, and the next one.
        pending = [(0, 0, windows[0])]
        charges = TableCharges(self.rows, self.tables, sets, self._spend)
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

    def _state_prices(self) -> StateCharges:
        """Prices of every state at every epoch."""
        where = "prices"
        states: dict[tuple[int, int], int] = {}
        for state in list_of(self.part["states"], "states"):
            m, r = wholes(state, 2, "states")
            occurs = r >= 1 and m + r <= self.limit and self._passing[m + r, m] > 0
            if not occurs or (m, r) in states:
                raise MalformedCertificateError(
                    f"states: ({m}, {r}) does not occur or is given twice"
                )
            states[m, r] = len(states)
        rows = [wholes(row, len(states), where) for row in list_of(self.part["prices"], where)]
        if len(rows) * (len(states) + 1) > limits.LARGEST_EPOCH:
            raise CertificateTooLargeError(f"{where}: too many")
        self._refuse_overflow(sum(max(row, default=0) for row in rows), len(rows), where)
        self.price_sets = 1
        return StateCharges(states, rows, self._spend)

    def _capacities(self, charges: StateCharges) -> list[int]:
        """The heaviest configuration of every epoch."""
        return [
            self._heaviest((m, r, row[p]) for (m, r), p in charges.states.items())
            if any(row)
            else 0
            for row in charges.rows
        ]

    def _state_bound(self) -> int:
        charges = self._state_prices()
        total = -sum(self._capacities(charges))
        for (s, o), alike in groupby(sorted(self.rows, key=_lengths), key=_lengths):
            paid = charges.of(s, o)
            for a, _, _ in alike:
                self._spend(CALL + len(paid))
                total += charges.axis.least(paid, self.scale, o - a, (a, None))
        return self._rounded_up(total)

    def _search_bound(self) -> int:
        """One more than the budget that the search exhausts."""
        budget = whole(self.part["budget"], "budget")
        kept = whole(self.part["kept"], "kept")
        charges = self._state_prices()
        T = len(charges.rows)
        if len(self.rows) * T > limits.LARGEST_EPOCH:
            raise CertificateTooLargeError("prices: too many for a search")
        starts = np.arange(T + 1, dtype=np.int64)
        costs = [
            np.append(charges.of(s, o), 0) + self.scale * (starts + (o - a))
            for a, s, o in self.rows
        ]
        prices = Prices(self.scale, self._capacities(charges), costs, charges.paid)
        try:
            found = count_states(self.rows, self.limit, prices, budget, kept, self.should_stop)
        except TooManyStatesError as error:
            raise SearchFailedError(
                f"kept: the search for budget {budget} needs more than {kept} states"
            ) from error
        except SearchTooLargeError as error:
            raise CertificateTooLargeError(
                "proof: the search takes more than this checker does"
            ) from error
        if found is None:
            raise SearchFailedError(f"budget: there is a schedule within {budget}")
        self.leaves = found
        return budget + 1

    def _memory_bound(self) -> int:
        """Prices of a token in rounds 1, 2, ...: the one table rho = m + 1."""
        where = "prices"
        numerators = [whole(y, where) for y in list_of(self.part["prices"], where)]
        T = len(numerators)
        if T > limits.LARGEST_EPOCH:
            raise CertificateTooLargeError(f"{where}: more than {limits.LARGEST_EPOCH} rounds")
        largest = max(s for _, s, _ in self.rows)
        # Prefix sums of y times |s + 1 - t|, and of y tau; t and tau are at most T.
        self._refuse_overflow(sum(numerators) * (largest + 1 + 2 * T), T, where)
        self.price_sets = 1
        y = np.array(numerators, dtype=np.int64)
        plain = np.concatenate([[0], np.cumsum(y)])
        tilted = np.concatenate([[0], np.cumsum(y * np.arange(T, dtype=np.int64))])
        total = -self.limit * sum(numerators)
        for a, s, o in self.rows:
            # A start costs its latency or more: once that is the least cost, none is left to try.
            first, length = a, BLOCK
            least = self.scale * (max(a, T) + o - a)  # the first start past the prices
            while first < T and self.scale * (first + o - a) < least:
                self._spend(CALL + length)
                t = np.arange(first, min(first + length, T), dtype=np.int64)
                end = np.minimum(t + o, T)
                # sum over tau = t .. t + o - 1 of y[tau] (s + 1 + tau - t)
                paid = (s + 1 - t) * (plain[end] - plain[t]) + tilted[end] - tilted[t]
                least = min(least, int((self.scale * (t + (o - a)) + paid).min()))
                first, length = first + length, 2 * length
            total += least
        return self._rounded_up(total)


def _lengths(row: Row) -> tuple[int, int]:
    return row[1:]
