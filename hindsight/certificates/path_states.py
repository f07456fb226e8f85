"""Largest total price of requests in unknown states that run with requests in known states.

In state (m, r) a request holds m tokens and has r rounds to go. M is the memory limit. An epoch is
the time between two rounds. A graph of paths records the runs of some requests, the *followed*
ones: which of them are active at an epoch, and in which states. Each other active request may be in
any state that it can have reached by then. Sort all active requests by decreasing r. They fit in
memory only if each of them passes the test S + k r <= M, where k is the number of requests up to
and including it in that order, and S is the sum of their m (`hindsight.certificates.state_proofs`).
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
"""Total price of sets that do not fit in memory. Costs are below 2^60, so no maximum takes it."""

CELLS = 1 << 21
"""Most entries of the tables of largest total prices that are computed in one batch."""


def numbered(columns: Sequence[Numbers], sizes: Sequence[int]) -> tuple[Ints, Ints]:
    """Number the distinct rows of a table that is given by its columns.

    Parameters
    ----------
    columns : Sequence of int arrays, shape (N,)
        Columns of the table, with integers >= 0.
    sizes : Sequence[int]
        For each column, a number that exceeds all integers in it.

    Returns
    -------
    tuple of int64 arrays
        The first array has, for each distinct row, the index of its first occurrence. The second
        has, for each of the N rows, the number of the distinct row that it equals.
    """
    key, largest = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column, size in zip(columns, sizes, strict=True):
        if largest * size >= LIMIT:
            # The key of a row is one integer that encodes its entries in the columns so far.
            # Replace the distinct keys by 0, 1, ..., so that the next product fits into int64.
            key = np.unique(key, return_inverse=True)[1]
            largest = len(key)
        key = key * size + column
        largest *= size
    _, chosen, place = np.unique(key, return_index=True, return_inverse=True)
    return chosen, place


class OtherRequests:
    """Upper bounds on the total price of the active requests of an epoch, for a graph of paths.

    An epoch is the time between two rounds. A request in state (m, r) holds m tokens at an epoch
    and still runs for r rounds. Each state has a price. The graph records the states of some
    requests, the *followed* ones. Every other request may be in any state that it can have reached
    by that epoch.

    Parameters
    ----------
    proof : StateProof
        The proof. It has the requests and the memory limit M, and counts array entries visited.
    others : list[int]
        Indices of the requests whose states the graph does not record.
    followed : list[int]
        Indices of the followed requests.
    size : int
        Number of integers in the proof and its instance. The larger it is, the more memory and time
        the check of the proof may use (`limits.part_of`).
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
        # ``stored`` has the tokens that each followed request (one whose runs the graph records)
        # stores in its last round. In the k-th round before the last one, a request stores k tokens
        # less. The number of memory blocks that it holds in a round follows from these tokens.
        self.stored = np.array([stored[i] + rows[i][2] for i in followed], dtype=np.int32)
        most = M // (1 + min(s for _, s, _ in rows))
        # ``cells`` has k and S of each entry of a table V. V(k, S) is the largest total price that
        # further requests can add to k requests that hold S tokens together.
        cells = np.divmod(np.arange((most + 1) * (M + 1)), M + 1)
        self.cells = np.array(cells, dtype=np.int32)

    def set_epoch(self, tau: int, prices: Ints, left: Shorts) -> None:
        """Set the prices of an epoch, and the followed requests that run on to the next epoch.

        Epoch tau is the time between rounds tau and tau + 1. Followed requests are those whose runs
        the graph of paths records.

        Parameters
        ----------
        tau : int
            The epoch.
        prices : int64 array, shape (M + 1, M + 1)
            Price Q(tau, m, r) of a request that holds m tokens and still runs for r rounds. M is
            the memory limit.
        left : int16 array, shape (followed, bases)
            Rounds that each followed request still runs from epoch tau + 1 on, or 0 if it is not
            active then. Each column is one base of the graph of paths: a record of the followed
            requests that run at the start of epoch tau + 1, with their remaining rounds.
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
        # In state (m, r) a request holds m tokens and has r rounds to go. Followed requests are
        # those whose runs the graph of paths records. A base is a column of ``left``: the followed
        # requests that are active at epoch tau + 1, with their rounds to go. `longest` is the
        # largest r of a state with a price in which a request not followed may be. For each base, k
        # is the number of its requests with more than `longest` rounds to go at epoch tau, and S is
        # the sum of the tokens that they hold. `later` has k (M + 1) + S for each base, with M the
        # memory limit. This is the position of V(k, S) in a table V: the largest total price of
        # requests not followed that fit in memory together with these k requests.
        is_later = rounds > self.longest
        self.later = ((held + size) * is_later).sum(axis=0, dtype=np.int64)
        # A base (column of ``left``) is a set of followed requests, those whose runs the graph of
        # paths records, with their remaining rounds. Two bases are of one kind if their requests
        # with at most `longest` remaining rounds are in the same states: equal tokens m and equal
        # remaining rounds r.
        code[is_later] = 0
        code.sort(axis=0)
        code = code[code.any(axis=1)]
        nothing = np.zeros(code.shape[1], dtype=np.int64)
        sizes = [1, *[int(size) ** 2] * len(code)]
        chosen, self.kind = numbered([nothing, *code], sizes)
        self.held, self.rounds = np.divmod(code[:, chosen].T, size)

    def _count_states(self, tau: int) -> None:
        """List the priced states (m, r) in which a request not followed may be at epoch tau.

        Epoch tau is the time between rounds tau and tau + 1. In state (m, r), a request holds m
        tokens and still runs for r rounds. The graph of paths records the starts of the followed
        requests. Each other request may have had any start from its arrival on.
        """
        M, prices = self.M, self.prices
        copies: Counter[tuple[int, int]] = Counter()
        for a, s, o in self.others:
            for age in range(min(o - 1, tau - a) + 1):
                if prices[s + age, o - age]:
                    copies[o - age, s + age] += 1
        self.spend(CALL + 10 * sum(copies.values()) + (M + 1) ** 2)
        # ``states`` has a list for each number r of remaining rounds, with a triple for each priced
        # state (m, r): the tokens m, the largest number of requests not followed (whose runs the
        # graph does not record) that can be in this state together, and the price of the state.
        self.states: dict[int, list[tuple[int, int, int]]] = {}
        for (r, m), number in sorted(copies.items()):
            one = (m, min(number, M // (m + r)), int(prices[m, r]))
            self.states.setdefault(r, []).append(one)
        self.longest = max(self.states, default=0)

    def heaviest(self, base: Ints, ended: Ints, ends: Flags) -> Ints:
        """Return the largest total price of all active requests in each of N cases, shape (N,).

        An epoch is the time between two rounds. Followed requests are those whose runs the graph of
        paths records. A case is a set of followed requests that are active at the epoch of
        `set_epoch`, each with its tokens and its remaining rounds. The result is their price, plus
        the largest total price that requests not followed can add. If the followed requests alone
        do not fit into memory, `NOTHING` (minus infinity) is added instead.

        Parameters
        ----------
        base : int64 array, shape (N,)
            Column of ``left`` in `set_epoch` that has the followed requests of each case that still
            run at the next epoch.
        ended : int64 array, shape (N,)
            Row of ``ends`` that has the followed requests of each case that run their last round.
        ends : bool array, shape (sets, n)
            Sets of requests: one row per set, which is True for its requests.
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
            # A case c is a set of active followed requests (those whose states the graph records),
            # each with r remaining rounds and m tokens. `number[r, c]` counts its requests with r
            # remaining rounds, and `held[r, c]` is the sum of their tokens m.
            number, held = np.zeros((2, self.longest + 1, len(kind)), dtype=np.int64)
            where = self.rounds[kind].T, np.arange(len(kind))
            np.add.at(number, where, 1)
            np.add.at(held, where, self.held[kind].T)
            number[1] += mine.sum(axis=1)[ending]
            held[1] += (mine @ last.astype(np.int64))[ending]
            values, group = self._values(number, held)
            some = np.flatnonzero((place >= begin) & (place < begin + cases))
            most[some] = values[group.take(place[some] - begin), later[some]]
        # ``most`` is negative if the followed requests of a case (those whose runs the graph
        # records) do not fit into memory together. No schedule has such a case: its price becomes
        # `NOTHING` (minus infinity). A path pays an upper bound on all prices minus this price, so
        # paths with such a case are dropped.
        paid += np.where(most < 0, NOTHING, most)
        return paid

    def _values(self, number: Ints, held: Ints) -> tuple[Numbers, Ints]:
        """Return tables of largest prices, one row per group of cases, and the group of each case.

        Followed requests are those whose runs the graph of paths records. A case is a set of active
        followed requests that run for at most R = `longest` more rounds. Suppose that k further
        followed requests run for longer than R and hold S tokens together. V(k, S) is the largest
        total price of other requests that fit into memory with these. The cases of one group have
        equal tables V.

        Parameters
        ----------
        number : int64 array, shape (rounds, cases)
            Entry (r, c): number of requests with r >= 1 remaining rounds in case c.
        held : int64 array, shape (rounds, cases)
            Entry (r, c): tokens that these requests hold together.
        """
        is_large = self.M * int(self.prices.max()) >= 2**28
        # Begin with one table V for all cases. A case is a set of active followed requests, those
        # whose runs the graph records. V(k, S) is the largest total price that requests not
        # followed can add to k requests that hold S tokens together. Each call of `take_state`
        # allows the requests not followed to be in one more state. No state is allowed yet, so all
        # entries are 0.
        values: Numbers = np.zeros_like(self.cells[:1], np.int64 if is_large else np.int32)
        group = np.zeros(number.shape[1], dtype=np.int64)
        for r in range(1, self.longest + 1):
            tables = values.reshape(len(values), -1, self.M + 1)
            for m, copies, price in self.states.get(r, ()):
                self.proof.take_state(tables, (m, r), copies, price)
            if number[r].any():
                # A case is a set of active followed requests (those whose runs the graph records).
                # Cases form one group if they agree in two numbers for each x = 1 .. r: how many of
                # these requests have x remaining rounds, and how many tokens these hold together.
                columns = [group, number[r], held[r]]
                sizes = [int(column.max()) + 1 for column in columns]
                chosen, group = numbered(columns, sizes)
                before, *members = (column[chosen] for column in columns)
                values = self._behind(values, before, r, *members)
        return values, group

    def _behind(self, values: Numbers, before: Ints, r: int, number: Ints, held: Ints) -> Numbers:
        """Return the tables V(k, S) after the followed requests with r remaining rounds are added.

        Followed requests are those whose states the graph of paths records. A case is a set of
        active followed requests. The tables given here take into account only the requests of a
        case that have fewer than r remaining rounds. Cases with equal tables form an *old group*.
        The cases of an old group that also agree in their requests with r remaining rounds (how
        many there are, and how many tokens they hold together) form a *new group*.

        Let k requests that hold S tokens together be in memory, and also the requests of the case
        that are taken into account. V(k, S) is the largest total price that requests not followed
        can add. It is minus infinity if the requests of the case do not fit with the k requests.

        Parameters
        ----------
        values : int array, shape (old groups, entries)
            Tables V before the call, one row for each old group, with V(k, S) in column
            k (M + 1) + S.
        before : int64 array, shape (new groups,)
            Index of the old group that contains each new group.
        r : int
            Remaining rounds of the requests that are taken into account from now on.
        number, held : int64 array, shape (new groups,)
            Number of these requests in a case of each new group, and tokens that they hold
            together.
        """
        M, (k, S) = self.M, self.cells
        reason = "proof: the price tables of a graph have too many entries"
        refuse_above(self.most_cells, len(before) * len(k), reason)
        values = values[before]
        some = np.flatnonzero(number)
        number, held = number[some], held[some]
        room = M - held - number * r
        size = min((max(0, int(room.max())) // r + 1) * (M + 1), len(k))
        self.spend(CALL + values.size + 3 * size * len(some))
        fits = k[:size] * np.int32(r) + S[:size] <= room.astype(np.int32)[:, None]
        # Each case of a new group has ``number`` requests of r remaining rounds, which hold
        # ``held`` tokens together. Entry (k, S) of the group's table is entry (k + number, S +
        # held) of the table of the old group that contains it. If these requests do not fit into
        # memory with k requests that hold S tokens, the entry read here is wrong. It is replaced by
        # minus infinity below.
        begin = some * len(k) + number * (M + 1) + held
        read = values.ravel().take(begin[:, None] + np.arange(size), mode="clip")
        # ``nothing`` is used as minus infinity: it stays negative if any sum of prices is added to
        # it, and twice this value does not overflow.
        nothing = np.iinfo(values.dtype).min // 4
        values[some] = nothing
        values[some, :size] = np.where(fits, read, nothing)
        return values
