"""Largest total price of unknown requests that can run together with known ones at one epoch.

Let some requests be *followed*: it is known which of them are active, and in which states (m, r).
The other active requests may be in any state that a request not followed passes through by then.
Read all active requests in order of decreasing r: each keeps S + k r <= M, with k requests read so
far that hold S in all (`hindsight.certificates.state_proofs`). Let V_r(k, S) be the most that
states of r or fewer rounds can add after k requests that hold S, or less than 0 if followed ones
among them do not fit: V_0 = 0. V_r follows from V_(r - 1): each state of r is taken at most as
often as there are requests that pass through it, then each followed request of r is taken. Requests
of equal r may be read in any order: the test of the last of them implies those of the others. The
result is V_r for the largest r of any other state, at the (k, S) of the followed requests of more
rounds.

V_r depends only on the number of followed requests and their sum of m for each r. Cases that agree
in these numbers up to some r share the tables computed so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from . import limits
from .format import CertificateTooLargeError
from .limits import CALL
from .proofs import Flags, Ints, Numbers, Proof

Shorts = npt.NDArray[np.int16]

NOTHING = -(2**61)
"""Minus infinity: less than any sum of prices, and twice this does not overflow."""

CELLS = 1 << 21
"""Most entries of the tables V over all cases that are computed at once."""


def joined(columns: Sequence[Numbers], sizes: Sequence[int]) -> tuple[Ints, int]:
    """Combine columns into one key column: keys are equal where all columns are equal.

    The numbers of each column are below its entry of ``sizes``.

    Returns
    -------
    tuple of int64 array and int
        The key column, and an exclusive upper limit of its numbers.
    """
    key, largest = columns[0].astype(np.int64), sizes[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        if largest * size >= 2**62:
            chosen, key = numbered(key, largest)
            largest = len(chosen)
        key *= size
        key += column
        largest *= size
    return key, largest


def numbered(keys: Ints, largest: int) -> tuple[Ints, Ints]:
    """Number the distinct keys, all below ``largest``, in increasing order.

    Returns
    -------
    tuple of int64 arrays
        One place in ``keys`` for each number, and the number of each entry of ``keys``.
    """
    bits = len(keys).bit_length()
    if largest < 2 ** (62 - bits):
        # Sorting keys with their places in the low bits is faster than argsort.
        ordered = keys << bits
        ordered |= np.arange(len(keys))
        ordered.sort()
        order = ordered & (1 << bits) - 1
        ordered >>= bits
    else:
        order = np.argsort(keys)
        ordered = keys.take(order)
    is_first = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    place = np.empty(len(keys), dtype=np.int64)
    place[order] = np.cumsum(is_first) - 1
    return order[is_first], place


def _alike(rows: Numbers, size: int) -> tuple[Ints, Ints]:
    """Number the distinct columns of ``rows``, whose entries are below ``size``: `numbered`."""
    nothing = np.zeros(rows.shape[1], dtype=np.int64)
    return numbered(*joined([nothing, *rows], [1, *[size] * len(rows)]))


class HeaviestBeside:
    """Largest total price of all other requests that can run together with the followed ones.

    Parameters
    ----------
    proof : Proof
        The proof, with the requests and M; it counts the work.
    others : list[int]
        Requests not followed.
    followed : list[int]
        Requests followed.
    size : int
        Count of numbers in the proof, which sets its share of the limits (`limits.part_of`).
    """

    def __init__(self, proof: Proof, others: list[int], followed: list[int], size: int) -> None:
        rows, M, stored = proof.rows, proof.limit, proof.instance.stored
        self.M, self.spend, self.block_size = M, proof.spend, proof.instance.block_size
        self.most_cells = limits.part_of(limits.LARGEST_TABLES, size)
        self.others, self.followed = [rows[i] for i in others], followed
        self.sums = np.array([rows[i][1] + rows[i][2] for i in followed], dtype=np.int32)
        # Tokens that each followed request stores in its last round, by the memory rule.
        self.stored = np.array([stored[i] + rows[i][2] for i in followed], dtype=np.int32)
        most = M // (1 + min(s for _, s, _ in rows))
        # (k, S) of each entry of a table.
        cells = np.divmod(np.arange((most + 1) * (M + 1)), M + 1)
        self.cells = np.array(cells, dtype=np.int32)

    def set_epoch(self, tau: int, prices: Ints, left: Shorts) -> None:
        """Set the prices of an epoch, and the states of followed requests at the next epoch.

        Parameters
        ----------
        tau : int
            The epoch.
        prices : int64 array, shape (M + 1, M + 1)
            Q(tau, m, r).
        left : int16 array, shape (followed, bases)
            Remaining rounds of each followed request at each base, 0 if it is not active.
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
        # Cell k (M + 1) + S of V for the followed requests with more rounds than any other request:
        # k is their number, S the sum of their m.
        is_later = rounds > self.longest
        self.later = ((held + size) * is_later).sum(axis=0, dtype=np.int64)
        # Bases are of one kind if their remaining followed requests are in the same states.
        code[is_later] = 0
        code.sort(axis=0)
        code = code[code.any(axis=1)]
        chosen, self.kind = _alike(code, int(size) ** 2)
        self.held, self.rounds = np.divmod(code[:, chosen].T, size)

    def _count_states(self, tau: int) -> None:
        """List the priced states of requests not followed: r, m, most requests in it, and price."""
        M, prices = self.M, self.prices
        copies: Counter[tuple[int, int]] = Counter()
        for a, s, o in self.others:
            for age in range(min(o - 1, tau - a) + 1):
                if prices[s + age, o - age]:
                    copies[o - age, s + age] += 1
        self.spend(CALL + 10 * sum(copies.values()) + (M + 1) ** 2)
        self.states = [
            (r, m, min(number, M // (m + r)), int(prices[m, r]))
            for (r, m), number in sorted(copies.items())
        ]
        self.longest = self.states[-1][0] if self.states else 0

    def heaviest(self, base: Ints, ended: Ints, ends: Flags) -> Ints:
        """Sum the prices of active followed requests and the most that other requests can add.

        Parameters
        ----------
        base : int64 array, shape (N,)
            Columns of ``left``: the followed requests that continue to run.
        ended : int64 array, shape (N,)
            Rows of ``ends``: the requests that run their last round.
        ends : bool array, shape (sets, n)
            Sets of requests.
        """
        self.spend(CALL + 20 * len(base))
        mine = ends[:, self.followed]
        last = self.sums - 1
        paid: Ints = self.paid.take(base)
        paid += (mine @ self.prices[last, 1]).take(ended)
        if not self.states or not len(base):
            return paid
        pairs = self.kind.take(base) * len(ends) + ended
        chosen, place = numbered(pairs, len(self.rounds) * len(ends))
        kinds, sets = np.divmod(pairs[chosen], len(ends))
        later = self.later.take(base)
        most = np.empty(len(base), dtype=np.int64)
        cases = max(1, CELLS // self.cells.shape[1])
        for begin in range(0, len(chosen), cases):
            self.spend(CALL + 10 * len(base))
            number, held = self._counted(kinds[begin : begin + cases])
            ending = sets[begin : begin + cases]
            number[1] += mine.sum(axis=1)[ending]
            held[1] += (mine @ last.astype(np.int64))[ending]
            values, group = self._values(number, held)
            some = np.flatnonzero((place >= begin) & (place < begin + cases))
            most[some] = values[group.take(place[some] - begin), later[some]]
        # If the followed requests do not fit, no schedule passes here, at any cost.
        paid += np.where(most < 0, NOTHING // 2, most)
        return paid

    def _counted(self, kinds: Ints) -> tuple[Ints, Ints]:
        """Return the number of followed requests of each kind by rounds r, and their sums of m."""
        shape, size = (self.longest + 1, len(kinds)), (self.longest + 1) * len(kinds)
        at = (self.rounds[kinds] * len(kinds) + np.arange(len(kinds))[:, None]).ravel()
        number = np.bincount(at, minlength=size).reshape(shape)
        held = np.zeros(size, dtype=np.int64)
        np.add.at(held, at, self.held[kinds].ravel())
        return number, held.reshape(shape)

    def _values(self, number: Ints, held: Ints) -> tuple[Numbers, Ints]:
        """Return the tables V over (k, S), one row for each group of cases, and the groups.

        Parameters
        ----------
        number, held : int64 arrays, shape (rounds, cases)
            Number of followed requests with r rounds in row r, and the sum of their m.
        """
        is_large = self.M * max(price for *_, price in self.states) >= 2**28
        values: Numbers = np.zeros_like(self.cells[:1], np.int64 if is_large else np.int32)  # V_0
        group = np.zeros(number.shape[1], dtype=np.int64)
        position = 0
        for r in range(1, self.longest + 1):
            while position < len(self.states) and self.states[position][0] == r:
                self._append(values, *self.states[position])
                position += 1
            if number[r].any():
                # Cases with equal followed requests of r or fewer rounds form one group.
                columns = [group, number[r], held[r]]
                sizes = [int(column.max()) + 1 for column in columns]
                chosen, group = numbered(*joined(columns, sizes))
                before, *members = (column[chosen] for column in columns)
                values = self._behind(values, before, r, *members)
        return values, group

    def _behind(self, values: Numbers, before: Ints, r: int, number: Ints, held: Ints) -> Numbers:
        """Add the followed requests of r rounds to the tables V, where all of them fit.

        Group g of the new tables refines group ``before[g]`` of the old ones.
        """
        M, (k, S) = self.M, self.cells
        if len(before) * len(k) > self.most_cells:
            raise CertificateTooLargeError("proof: too many requests may run with followed ones")
        values = values[before]
        some = np.flatnonzero(number)
        number, held = number[some], held[some]
        room = M - held - number * r
        size = min((max(0, int(room.max())) // r + 1) * (M + 1), len(k))
        self.spend(CALL + values.size + 3 * size * len(some))
        fits = k[:size] * np.int32(r) + S[:size] <= room.astype(np.int32)[:, None]
        # Entries that do not fit are read from a wrong place, and replaced by ``where`` below.
        begin = some * len(k) + number * (M + 1) + held
        read = values.ravel().take(begin[:, None] + np.arange(size), mode="clip")
        values[some] = _nothing(values)
        values[some, :size] = np.where(fits, read, _nothing(values))
        return values

    def _append(self, values: Numbers, r: int, m: int, copies: int, price: int) -> None:
        """Add up to ``copies`` requests in state (m, r), in steps of 1, 2, 4, ... and the rest."""
        M, together = self.M, 1
        while copies:
            j = min(together, copies)
            room, away = M - j * (m + r), j * (M + 1 + m)
            # With j requests of r rounds, all entries that fit are before this place.
            end = min((room // r + 1) * (M + 1), values.shape[1] - away)
            if end <= 0:
                return
            self.spend(CALL + end * len(values))
            k, S = self.cells[:, :end]
            gain = np.where(k * np.int32(r) + S <= room, j * price, _nothing(values))
            before = values[:, :end]
            added = values[:, away : away + end] + gain.astype(values.dtype)
            np.maximum(before, added, out=before)
            copies -= j
            together *= 2


def _nothing(values: Numbers) -> int:
    """Return minus infinity for a table: below any sum of prices; twice this cannot overflow."""
    return NOTHING if values.dtype == np.int64 else -(2**29)
