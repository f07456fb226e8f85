"""Heaviest set of requests beside known ones at one epoch: the most that its prices can add.

Let some requests be *followed*: it is known which of them are active, and in which states (m, r).
All others that are active are in any states that requests not followed pass through by then. Read
all members in order of decreasing r: each keeps S + k r <= M, with k members read so far that hold
S in all (`hindsight.certificates.state_proofs`). Let V_r(k, S) be the most that states of r or
fewer rounds can add behind k members that hold S, or less than 0 where followed ones among them do
not fit: V_0 = 0, and V_r follows from V_(r - 1) as each state of r is taken at most as often as
there are requests that pass it, then each followed member of r is taken. Members of equal r may be
read in any order: the test of the last of them implies those of the others. Behind the followed
members of more rounds than any other state has, V of that many rounds is what is asked for.

It depends on followed members by their number and sum of m for each r: cases that agree in these up
to some r share what is computed so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import limits
from .format import CertificateTooLargeError
from .limits import CALL
from .proofs import Ints, Proof

Numbers = npt.NDArray[np.signedinteger[Any]]

Shorts = npt.NDArray[np.int16]
Flags = npt.NDArray[np.bool_]

NOTHING = -(2**61)
"""Less than any sum of prices, with room to add as much again."""

CELLS = 1 << 21
"""Most entries of V, over the cases worked on at once."""


def joined(columns: Sequence[Ints], sizes: Sequence[int]) -> Ints:
    """Join columns of numbers below given sizes into one, equal where all of them are equal."""
    key, largest = columns[0].astype(np.int64), sizes[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        if largest * size >= 2**62:
            key = np.unique(key, return_inverse=True)[1]
            largest = len(key)
        key = key * size + column
        largest *= size
    return key


def numbered(keys: Ints) -> tuple[Ints, Ints]:
    """Number equal keys alike: a place of each number, and the number in each place."""
    numbers, place = np.unique(keys, return_inverse=True)
    chosen = np.empty(len(numbers), dtype=np.int64)
    chosen[place] = np.arange(len(keys))
    return chosen, place


class _Step(NamedTuple):
    """Groups from number ``first`` on, with the members of r rounds that their parents lack."""

    r: int
    first: int
    number: Ints
    held: Ints
    parents: Ints


class HeaviestBeside:
    """Largest total price that all other requests can have beside those that a graph tracks.

    Parameters
    ----------
    proof : Proof
        Requests and M; it counts the work done.
    others : list[int]
        Requests not followed.
    followed : list[int]
        Requests followed.
    size : int
        Numbers in the proof, which sets its share of the limits (`limits.part_of`).
    """

    def __init__(self, proof: Proof, others: list[int], followed: list[int], size: int) -> None:
        rows, memory_limit = proof.rows, proof.limit
        self.most_cells = limits.part_of(limits.LARGEST_TABLES, size)
        self.others, self.followed = [rows[i] for i in others], followed
        self.M, self.spend, self.in_blocks = memory_limit, proof.spend, proof.in_blocks
        self.sums = np.array([rows[i][1] + rows[i][2] for i in followed], dtype=np.int64)
        # What they store in their last round, in true tokens.
        self.stored = np.array([proof.stored[i] + rows[i][2] for i in followed], dtype=np.int64)
        self.most = memory_limit // (1 + min(s for _, s, _ in rows))

    def set_epoch(self, tau: int, prices: Ints, left: Shorts) -> None:
        """Set the prices of an epoch, and the rounds left to followed requests at the next or 0."""
        M, self.prices = self.M, prices
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
        self.spend(CALL + 20 * left.size)
        some = np.flatnonzero(left.any(axis=0))
        left = left[:, some].astype(np.int32)
        active = left > 0
        rounds = left + active
        held = (self.sums[some].astype(np.int32) - rounds) * active
        code = held * (M + 1) + rounds
        self.paid = prices.ravel().take(code).sum(axis=1)
        later = rounds > self.longest
        self.many, self.sum = later.sum(axis=1), (held * later).sum(axis=1)
        self.tokens = (self.in_blocks(self.stored[some] - left) * active).sum(axis=1)
        code[later] = 0
        code = np.sort(code, axis=1)[:, ::-1]
        code = code[:, : np.count_nonzero(code.any(axis=0))]
        if self.longest and code.shape[1]:
            sizes = [int(code.max()) + 1] * code.shape[1]
            first, self.kind = numbered(joined(list(code.T), sizes))
        else:
            first, self.kind = np.zeros(1, dtype=np.int64), np.zeros(len(code), dtype=np.int64)
        self.held, self.rounds = np.divmod(code[first], M + 1)

    def heaviest(self, base: Ints, ended: Ints, ends: Flags) -> Ints:
        """Sum prices of the followed members and the most that other requests can add.

        Parameters
        ----------
        base : int64 array, shape (N,)
            Rows of ``left``: the requests that go on running.
        ended : int64 array, shape (N,)
            Number of the set of requests that run their last round besides.
        ends : bool array, shape (sets, n)
            The sets.
        """
        self.spend(CALL + 20 * len(base))
        mine = ends[:, self.followed]
        last = self.sums - 1
        paid: Ints = self.paid[base] + (mine @ self.prices[last, 1])[ended]
        if not self.states or not len(base):
            return paid
        pairs, place = np.unique(self.kind[base] * len(ends) + ended, return_inverse=True)
        most = np.empty(len(base), dtype=np.int64)
        order = np.argsort(place)
        cases = max(1, CELLS // ((self.most + 1) * (self.M + 1)))
        for begin in range(0, len(pairs), cases):
            kinds, sets = np.divmod(pairs[begin : begin + cases], len(ends))
            number = np.zeros((len(kinds), self.longest + 1), dtype=np.int64)
            held = number.copy()
            at = np.arange(len(kinds))[:, None], self.rounds[kinds]
            np.add.at(number, at, 1)
            np.add.at(held, at, self.held[kinds])
            number[:, 1] += mine.sum(axis=1)[sets]
            held[:, 1] += (mine @ last)[sets]
            group, values = self._values(number, held)
            first, end = np.searchsorted(place[order], [begin, begin + cases])
            chunk = order[first:end]
            many, total = self.many[base[chunk]], self.sum[base[chunk]]
            most[chunk] = values[group[place[chunk] - begin], many, total]
        # Where followed members do not fit, no schedule passes, whatever its cost.
        paid += np.where(most < 0, NOTHING // 2, most)
        return paid

    def _values(self, number: Ints, held: Ints) -> tuple[Ints, Numbers]:
        """Return the group of each case, and V behind (k, S) for each group."""
        group = np.zeros(len(number), dtype=np.int64)
        groups = 1
        steps: list[_Step] = []
        for r in range(1, self.longest + 1):
            some = np.flatnonzero(number[:, r])
            if len(some):
                columns = [number[some, r], held[some, r], group[some]]
                sizes = [int(column.max()) + 1 for column in columns]
                chosen, after = numbered(joined(columns, sizes))
                steps.append(_Step(r, groups, *(column[chosen] for column in columns)))
                group[some] = groups + after
                groups += len(chosen)
        cells = (self.most + 1) * (self.M + 1) * groups
        self.spend(cells)
        if cells > self.most_cells:
            raise CertificateTooLargeError("proof: too much may run beside what is followed")
        heaviest = self.M * max(price for *_, price in self.states)
        dtype = np.int64 if heaviest >= 2**28 else np.int32
        nothing = NOTHING if dtype is np.int64 else -(2**29)
        values = np.full((groups, self.most + 1, self.M + 1), nothing, dtype=dtype)
        values[0] = 0
        position, there = 0, 1
        for step in steps:
            while position < len(self.states) and self.states[position][0] <= step.r:
                self._append(values[:there], *self.states[position])
                position += 1
            self._shift(values, step)
            there += len(step.parents)
        for state in self.states[position:]:
            self._append(values, *state)
        return group, values

    def _append(self, values: Numbers, r: int, m: int, copies: int, price: int) -> None:
        """Append up to that many members (m, r), each with a price."""
        together = 1
        while copies:
            j = min(together, copies)
            top = min(self.most, (self.M - j * m) // r) - j
            if top < 0:
                return
            self.spend(CALL + (top + 1) * (CALL // 4 + (self.M + 1) * len(values)))
            for k in range(top + 1):
                # With so many members that run r rounds, all others hold less than this.
                end = self.M + 1 - j * m - (k + j) * r
                before = values[:, k, :end]
                np.maximum(before, values[:, k + j, j * m :][:, :end] + j * price, out=before)
            copies -= j
            together *= 2

    def _shift(self, values: Numbers, step: _Step) -> None:
        """Fill in groups with one more multiset of followed members of r rounds."""
        pairs = step.number * (self.M * self.most + 1) + step.held
        bounds = [0, *(np.flatnonzero(np.diff(pairs)) + 1).tolist(), len(pairs)]
        for begin, end in pairwise(bounds):
            k, S = int(step.number[begin]), int(step.held[begin])
            top = min(self.most, (self.M - S) // step.r) - k
            if top < 0:
                continue
            self.spend(CALL + (top + 1) * (CALL // 4 + 3 * (self.M + 1) * (end - begin)))
            behind = values[step.parents[begin:end], k : k + top + 1]
            first = step.first + begin
            for j in range(top + 1):
                stop = self.M + 1 - (k + j) * step.r
                values[first : first + end - begin, j, : stop - S] = behind[:, j, S:stop]
