"""Largest total price of requests in unknown states that run with requests in known states.

A graph of paths knows of some requests, the *followed* ones, which of them are active at an epoch
and in which states (m, r). Each other active request may be in any state that it can have reached
by then. Sort all active requests by decreasing r. Each must pass the test S + k r <= M, with k the
requests up to it in that order and S the sum of their m (`hindsight.certificates.state_proofs`).
Let V_r(k, S) be the largest total price that other requests in states of r or fewer rounds can add
after k requests whose sum of m is S. It is negative if followed requests of r or fewer rounds do
not fit. V_0 = 0. V_r follows from V_(r - 1): first each state of r rounds is taken at most as often
as there are other requests that pass through it, then each followed request of r rounds is taken.
Requests of equal r may come in any order: the last of them has the strictest test. The result is
V_r for the largest r of any other request, at the (k, S) of the followed requests of more rounds.

V_r depends only on the number of followed requests and the sum of their m for each r. Cases that
agree in these numbers up to some r share the tables V computed so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from . import limits
from .format import LIMIT, refuse_above
from .limits import CALL
from .proofs import Flags, Ints, Numbers
from .state_proofs import StateProof

Shorts = npt.NDArray[np.int16]

NOTHING = -(2**60)
"""Minus infinity: the price of requests that do not fit in memory. Costs are below 2^60."""

CELLS = 1 << 21
"""Largest number of entries of all tables V(k, S) of largest prices computed in one batch."""


def numbered(columns: Sequence[Numbers], sizes: Sequence[int]) -> tuple[Ints, Ints]:
    """Number the distinct rows of a table that is given by its columns.

    Parameters
    ----------
    columns : Sequence of int arrays, shape (N,)
        Columns of the table, with integers >= 0.
    sizes : Sequence[int]
        Exclusive upper limit of the integers in each column.

    Returns
    -------
    tuple of int64 arrays
        For each distinct row, the index of its first occurrence; for each of the N rows, the number
        of the distinct row that it equals.
    """
    key, largest = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column, size in zip(columns, sizes, strict=True):
        if largest * size >= LIMIT:
            # Replace the keys by numbers 0, 1, ..., so that the next product fits into int64.
            key = np.unique(key, return_inverse=True)[1]
            largest = len(key)
        key = key * size + column
        largest *= size
    _, chosen, place = np.unique(key, return_index=True, return_inverse=True)
    return chosen, place


class OtherRequests:
    """Largest total price of the active requests, of which a graph of paths follows only some.

    A state is the tokens m and the remaining rounds r of a request. The states of the *followed*
    requests at an epoch are known. Every other request may be in any state that it can have reached
    by that epoch.

    Parameters
    ----------
    proof : StateProof
        The proof. It has the requests and the memory limit M, and counts the work.
    others : list[int]
        Indices of the requests that the graph does not follow.
    followed : list[int]
        Indices of the requests that the graph follows.
    size : int
        Count of numbers in the proof and its instance, which sets its share of the limits
        (`limits.part_of`).
    """

    def __init__(
        self, proof: StateProof, others: list[int], followed: list[int], size: int
    ) -> None:
        rows, M, stored = proof.rows, proof.limit, proof.instance.stored
        self.proof, self.M, self.spend = proof, M, proof.spend
        self.block_size = proof.instance.given.memory_rule.block_size
        self.most_cells = limits.part_of(limits.LARGEST_TABLES, size)
        self.others, self.followed = [rows[i] for i in others], followed
        self.sums = np.array([rows[i][1] + rows[i][2] for i in followed], dtype=np.int32)
        # Tokens that each followed request stores in its last round. From them follows the number
        # of memory blocks that it holds.
        self.stored = np.array([stored[i] + rows[i][2] for i in followed], dtype=np.int32)
        most = M // (1 + min(s for _, s, _ in rows))
        # (k, S) of each entry of a table V of largest prices: the number of requests that are
        # already chosen, and the sum of their tokens m.
        cells = np.divmod(np.arange((most + 1) * (M + 1)), M + 1)
        self.cells = np.array(cells, dtype=np.int32)

    def set_epoch(self, tau: int, prices: Ints, left: Shorts) -> None:
        """Set the prices of an epoch, and the followed requests that run on to the next epoch.

        Parameters
        ----------
        tau : int
            The epoch.
        prices : int64 array, shape (M + 1, M + 1)
            Price Q(tau, m, r) of each state (m, r).
        left : int16 array, shape (followed, bases)
            Rounds that each followed request still runs from epoch tau + 1 on, or 0 if it is not
            active then. Each column is one base of the graph of paths: the start of epoch tau + 1
            with one combination of active followed requests and their remaining rounds.
        """
        self.prices, size = prices, np.int32(self.M + 1)
        self._count_states(tau)
        self.spend(CALL + 20 * (left.size + left.shape[1]))
        some = np.flatnonzero(left.any(axis=1))
        rounds = left[some].astype(np.int32)
        active = rounds > 0
        blocks = -(-(self.stored[some, None] - rounds) // self.block_size)
        self.tokens = (blocks * self.block_size * active).sum(axis=0, dtype=np.int32)
        rounds += active
        held = (self.sums[some, None] - rounds) * active
        code = held * size + rounds
        self.paid = prices.ravel().take(code).sum(axis=0)
        if not self.states:
            return
        # For each base (column of ``left``), `later` describes the followed requests that have more
        # remaining rounds than any priced state of a request not followed. With k the number of
        # these followed requests and S the sum of their m, it is the position k (M + 1) + S of the
        # entry (k, S) in a table V of largest prices.
        is_later = rounds > self.longest
        self.later = ((held + size) * is_later).sum(axis=0, dtype=np.int64)
        # Two bases (columns of ``left``) are of one kind if the other followed requests, those not
        # counted in `later`, are in the same states.
        code[is_later] = 0
        code.sort(axis=0)
        code = code[code.any(axis=1)]
        nothing = np.zeros(code.shape[1], dtype=np.int64)
        sizes = [1, *[int(size) ** 2] * len(code)]
        chosen, self.kind = numbered([nothing, *code], sizes)
        self.held, self.rounds = np.divmod(code[:, chosen].T, size)

    def _count_states(self, tau: int) -> None:
        """List the priced states (m, r) in which a request not followed may be at epoch tau.

        The starts of followed requests are known. Each other request may have had any start that
        its arrival allows.
        """
        M, prices = self.M, self.prices
        copies: Counter[tuple[int, int]] = Counter()
        for a, s, o in self.others:
            for age in range(min(o - 1, tau - a) + 1):
                if prices[s + age, o - age]:
                    copies[o - age, s + age] += 1
        self.spend(CALL + 10 * sum(copies.values()) + (M + 1) ** 2)
        # For each r, a list of triples: m, the largest number of requests not followed that can be
        # in state (m, r), and the price of this state.
        self.states: dict[int, list[tuple[int, int, int]]] = {}
        for (r, m), number in sorted(copies.items()):
            one = (m, min(number, M // (m + r)), int(prices[m, r]))
            self.states.setdefault(r, []).append(one)
        self.longest = max(self.states, default=0)

    def heaviest(self, base: Ints, ended: Ints, ends: Flags) -> Ints:
        """Return the largest total price of all active requests in each of N cases, shape (N,).

        A case is a combination of followed requests that are active at the epoch, with their
        states. The result is their price, plus the largest total price that requests not followed
        can add. `NOTHING` is added instead if the followed requests do not fit into memory.

        Parameters
        ----------
        base : int64 array, shape (N,)
            Column of ``left`` in `set_epoch` with the followed requests of each case that still run
            at the next epoch.
        ended : int64 array, shape (N,)
            Row of ``ends`` with the followed requests of each case that run their last round.
        ends : bool array, shape (sets, n)
            Sets of requests: whether each request is in each set.
        """
        self.spend(CALL + 20 * len(base))
        mine = ends[:, self.followed]
        last = self.sums - 1
        paid: Ints = self.paid.take(base)
        paid += (mine @ self.prices[last, 1]).take(ended)
        if not self.states or not len(base):
            return paid
        pairs = [self.kind.take(base), ended]
        chosen, place = numbered(pairs, [len(self.rounds), len(ends)])
        kinds, sets = (column[chosen] for column in pairs)
        later = self.later.take(base)
        most = np.empty(len(base), dtype=np.int64)
        cases = max(1, CELLS // self.cells.shape[1])
        for begin in range(0, len(chosen), cases):
            self.spend(CALL + 10 * len(base))
            kind, ending = kinds[begin : begin + cases], sets[begin : begin + cases]
            # `number[r, c]` counts the followed requests with r remaining rounds in case c, and
            # `held[r, c]` is the sum of their tokens m.
            number, held = np.zeros((2, self.longest + 1, len(kind)), dtype=np.int64)
            where = self.rounds[kind].T, np.arange(len(kind))
            np.add.at(number, where, 1)
            np.add.at(held, where, self.held[kind].T)
            number[1] += mine.sum(axis=1)[ending]
            held[1] += (mine @ last.astype(np.int64))[ending]
            values, group = self._values(number, held)
            some = np.flatnonzero((place >= begin) & (place < begin + cases))
            most[some] = values[group.take(place[some] - begin), later[some]]
        # If the followed requests do not fit into memory, no schedule is in this case. The price
        # `NOTHING` then makes the slack too large for any path.
        paid += np.where(most < 0, NOTHING, most)
        return paid

    def _values(self, number: Ints, held: Ints) -> tuple[Numbers, Ints]:
        """Return tables of largest prices, one row for each group of cases, and each case's group.

        A case is a combination of active followed requests with their states (m, r). V(k, S) is the
        largest total price that requests not followed can add after k requests whose sum of m is S.
        The cases of one group have equal tables V.

        Parameters
        ----------
        number : int64 array, shape (rounds, cases)
            In row r, the number of followed requests with r remaining rounds in each case.
        held : int64 array, shape (rounds, cases)
            In row r, the sum of the m of these requests in each case.
        """
        is_large = self.M * int(self.prices.max()) >= 2**28
        # The table V_0 of largest prices before any state is taken: zeros, the same for all cases,
        # which are the combinations of active followed requests.
        values: Numbers = np.zeros_like(self.cells[:1], np.int64 if is_large else np.int32)
        group = np.zeros(number.shape[1], dtype=np.int64)
        for r in range(1, self.longest + 1):
            tables = values.reshape(len(values), -1, self.M + 1)
            for m, copies, price in self.states.get(r, ()):
                self.proof.take_state(tables, (m, r), copies, price)
            if number[r].any():
                # Cases form one group if, for each number of remaining rounds up to r, they agree
                # in the number of followed requests with it and in the sum of their tokens m.
                columns = [group, number[r], held[r]]
                sizes = [int(column.max()) + 1 for column in columns]
                chosen, group = numbered(columns, sizes)
                before, *members = (column[chosen] for column in columns)
                values = self._behind(values, before, r, *members)
        return values, group

    def _behind(self, values: Numbers, before: Ints, r: int, number: Ints, held: Ints) -> Numbers:
        """Return the tables V(k, S) of largest prices after adding followed requests.

        The followed requests with r remaining rounds are added. An entry (k, S) becomes minus
        infinity if they do not fit after k requests whose sum of m is S.

        Parameters
        ----------
        values : int array, shape (old groups, entries)
            Tables for the followed requests with fewer remaining rounds, one for each group of
            cases.
        before : int64 array, shape (groups,)
            Old group that each new group is a part of.
        r : int
            Remaining rounds of the requests that are added.
        number, held : int64 array, shape (groups,)
            Number of these requests in each new group, and sum of their m.
        """
        M, (k, S) = self.M, self.cells
        reason = "proof: too many requests may run with followed ones"
        refuse_above(self.most_cells, len(before) * len(k), reason)
        values = values[before]
        some = np.flatnonzero(number)
        number, held = number[some], held[some]
        room = M - held - number * r
        size = min((max(0, int(room.max())) // r + 1) * (M + 1), len(k))
        self.spend(CALL + values.size + 3 * size * len(some))
        fits = k[:size] * np.int32(r) + S[:size] <= room.astype(np.int32)[:, None]
        # Entry (k, S) of the new table is entry (k + number, S + held) of the old group's table. If
        # the added requests do not fit in memory after k requests with S tokens, a wrong entry is
        # read here, and replaced by minus infinity below.
        begin = some * len(k) + number * (M + 1) + held
        read = values.ravel().take(begin[:, None] + np.arange(size), mode="clip")
        # Minus infinity: it stays negative if any sum of prices is added, and twice this value does
        # not overflow.
        nothing = np.iinfo(values.dtype).min // 4
        values[some] = nothing
        values[some, :size] = np.where(fits, read, nothing)
        return values
