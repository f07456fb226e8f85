"""Least remaining latency of a few requests that have all arrived, in a table.

A round lasts d0 + d1 (tokens processed) + d2 (tokens held), in integers. Time does not matter once
all have arrived, only what each request has: k_i tokens emitted, and, where a request that leaves
the cache processes prompt and tokens again ("recompute"), whether it is in the cache. The table
has the least sum of (seconds until request i completes) of every such state. A round delays
everybody who is not complete, so with N of them

    V(state) = min over rounds of N * (length of the round) + V(state after it),

where V is 0 once all are complete. Each round advances a request, so states with more tokens are
filled first. Rounds are all of these: some requests advance, others in the cache are held, the rest
leaves it, and memory allows it. Only three things a scheduler may do are left out:

*Chunks.* Let a prompt (or what is recomputed) be processed in several rounds. Process all of it in
the last of these, and be absent in the others, or go on being held where it was before. The last
round holds as much as before, the others no more. The tokens moved make earlier rounds shorter by
what they make the last one longer, so no round ends later. As all have arrived, each round can
begin when the one before it ends.

*Tokens lost on purpose* ("recompute"). Let a request with k tokens begin anew, and emit token k + 1
again in round p. Until then it processes s tokens for the first and one or more for each of the k
others, s + k at least. Instead, be absent until p, keep the k tokens, and process s + k there: p
holds as much as before, and again no round ends later.

*Idle time, and rounds without progress*: leaving them out makes all that follows earlier.

With tokens kept, who is not served leaves the cache, because coming back costs nothing and being
held does. Where tokens cost nothing (d1 = 0), recomputing costs nothing either, and tokens are
kept here without changing the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from hindsight.runtime.clock import Slices
from hindsight.runtime.compilation import njit, step
from instances.arrays import IntArray

MOST_REQUESTS = 16
"""Most requests of a table."""

MOST_VALUES = 1 << 24
"""Most values of a table."""

ROUNDS_A_SECOND = 1 << 28
"""Rounds that are tried in a second, about."""


class RoundCosts(NamedTuple):
    """Memory, and the length of a round in units of time."""

    memory_limit: int
    overhead: int
    token: int
    held: int


@step
def _sum_sets(row: int, table: IntArray, sums: IntArray) -> tuple[int, int]:
    """Fill ``sums`` for each set of requests; return the sets that are incomplete, and begun.

    Rows of ``sums``: tokens they have, how many they are, by how much the row grows if each emits a
    token, and the set of those that are complete then.
    """
    incomplete = begun = 0
    for i in range(table.shape[1]):
        k = row // table[2, i] % (table[1, i] + 1)
        bit = 1 << i
        if k < table[1, i]:
            incomplete |= bit
        if 0 < k < table[1, i]:
            begun |= bit
        for rest in range(bit):
            one = bit + rest
            sums[0, one] = sums[0, rest] + table[0, i] + k
            sums[1, one] = sums[1, rest] + 1
            sums[2, one] = sums[2, rest] + table[2, i]
            sums[3, one] = sums[3, rest] + (bit if k + 1 == table[1, i] else 0)
    return incomplete, begun


@step
def _best_round(
    inside: int, incomplete: int, row: int, costs: RoundCosts, values: IntArray, sums: IntArray
) -> int:
    """Return the least latency from a state on, over all next rounds."""
    recomputes = values.shape[1] > 1
    held, size = sums[0], sums[1]
    waiting = size[incomplete]
    best = np.iinfo(np.int64).max
    for served in range(1, size.size):
        if served & ~incomplete or held[served] + size[served] > costs.memory_limit:
            continue
        tokens = size[served & inside] + held[served & ~inside]
        length = costs.overhead + costs.token * tokens
        after = values[row + sums[2, served]]
        advanced = served & ~sums[3, served]
        keeps = inside & ~served if recomputes else 0
        hold = keeps
        while hold >= 0:
            memory = held[served] + size[served] + held[hold]
            if memory <= costs.memory_limit:
                there = advanced | hold if recomputes else 0
                best = min(best, waiting * (length + costs.held * memory) + after[there])
            hold = (hold - 1) & keeps if hold else -1
    return best


@njit
def _fill(
    last: int, count: int, table: IntArray, costs: RoundCosts, values: IntArray, sums: IntArray
) -> None:
    """Fill ``count`` rows of ``values``, downwards from row ``last``.

    ``table`` has rows of prompts, outputs and strides; ``sums`` is room for sums over sets.
    """
    for row in range(last, last - count, -1):
        incomplete, begun = _sum_sets(row, table, sums)
        inside = begun
        while incomplete and inside >= 0:
            column = inside if values.shape[1] > 1 else 0
            values[row, column] = _best_round(inside, incomplete, row, costs, values, sums)
            inside = (inside - 1) & begun if inside and column else -1


class RemainingLatency:
    """The table of a few requests, see the module.

    Parameters
    ----------
    prompts, outputs : Sequence[int]
        Tokens of each request, >= 1, shape (n,).
    costs : RoundCosts
        In integers.
    recomputes : bool
        Whether a request that comes back processes prompt and tokens again.

    Attributes
    ----------
    strides : list[int]
        Of each request: what a token of it adds to the row of a state.
    seconds : float
        About what it takes to fill the table, at most; infinite if it is too large.
    """

    def __init__(
        self, prompts: Sequence[int], outputs: Sequence[int], costs: RoundCosts, recomputes: bool
    ) -> None:
        n = len(prompts)
        self.strides = [math.prod(o + 1 for o in outputs[:i]) for i in range(n)]
        self._rows = math.prod(o + 1 for o in outputs)
        self._columns = 1 << n if recomputes else 1
        self._costs = costs
        # One after the other, all wait for all.
        alone = sum(
            o * (costs.overhead + (costs.token + costs.held) * (s + o))
            for s, o in zip(prompts, outputs, strict=True)
        )
        is_small = self._rows * self._columns <= MOST_VALUES and n * alone < 1 << 61
        rounds = self._rows * (5 if recomputes else 2) ** n
        self.seconds = rounds / ROUNDS_A_SECOND if is_small else math.inf
        self._requests = (prompts, outputs)

    def fill(self, must_stop: Callable[[], bool]) -> bool:
        """Fill the table; return False if stopped."""
        table = np.array([*self._requests, self.strides])
        self._values = np.zeros((self._rows, self._columns), np.int64)
        sums = np.zeros((4, 1 << table.shape[1]), np.int64)
        left, slices = self._rows, Slices()
        while left and not must_stop():
            with slices.next(left) as count:
                _fill(left - 1, count, table, self._costs, self._values, sums)
            left -= count
        return left == 0

    def at(self, row: int, inside: int) -> int:
        """Return the least remaining latency, in units of time.

        Parameters
        ----------
        row : int
            The sum of strides times tokens emitted.
        inside : int
            Bits of incomplete requests that have tokens and are in the cache; 0 if they are kept.
        """
        return int(self._values[row, inside])
