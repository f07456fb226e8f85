"""Exact search for the least total latency in seconds of a few requests.

A state is what each request has at a time between two rounds: the tokens it emitted, and how many
it has to process before its next one. With tokens kept, who is not served leaves the cache and
keeps both. With "recompute" it is in the cache if some of these are processed, and may be held;
if it leaves, prompt and tokens are all to be processed again, or it begins anew without tokens.
The search is best-first (Hart, Nilsson and Raphael, 1968): it opens the state with the least sum of
completion times of what is complete and a lower bound for the rest. Everything is computed in
integers: arrival times and coefficients are the decimals they are written as, over one denominator.

**Batch times**: affine in tokens processed and tokens of the batch, as `RoundCosts`. Where a
token costs no time to process, recomputing and chunks are free of use: a schedule can keep tokens,
and process a prompt at once in the round that emits the first token, at the same lengths. There,
and only there, a batch time may leave out the tokens held (`IterationTime`), as none are held then.

**Rounds that are left out.** From each state some optimal continuation begins with a round that is
tried; in this sense nothing is lost. As rounds last d0 > 0 or more and the optimum is finite,
following such rounds ends at a schedule that is optimal. Let a be the last arrival, and take an
optimal continuation with the fewest rounds and, among those, with the fewest prompt tokens in
the first round of requests that do not emit a token in it.

1. *Starts*: a round starts when the one before it ends, or at the arrival of one that it serves.
   If not, start it earlier and leave the later ones where they are.
2. *Waiting*: no round starts at L or later, where L is the earliest time by which some request
   could make a step alone. *Tokens kept*: make that step first. Then imitate the continuation: a
   request that has something already is absent, or processes only what it lacks. Each round holds
   and processes no more, so nobody is later. *Recompute*: only requests without any tokens count
   for L, alone in a round that holds all that is in the cache, if they fit. Such a step can be
   taken back for nothing, by leaving the cache and beginning anew. (If it begins after a, where
   the search does not begin anew, it need not: see 4.)
3. *Chunks* end before a + d1. If not, move a token of the chunk to the next round that processes
   tokens of that request (without any: drop it). The first round ends earlier by d1, at a or later.
   So nobody is waited for afterwards, and the rounds between end earlier by d1; that next round,
   which is longer by d1, ends no later. So the chunk was not the least.
4. *Beginning anew* before a only: `hindsight.seconds.remaining_latency`. That proof moves tokens to
   later rounds and needs only that everyone has arrived when the first of them begins.
5. *After a* time does not matter. A state at t > a with N incomplete requests is one at a with
   N (t - a) more to pay.
6. *Equals*: of requests with the same lengths that have arrived, the first has the most. Exchange
   them: the sum of completion times is the same.

**Dominance.** Of states with the same tokens, one that is no later and whose complete requests have
no larger sum of completion times makes the others redundant: it can wait.

**Bound.** Divide the requests into groups, consecutive in order of arrival, and let each group have
the machine for itself from the first arrival (from now, if that is past), with all of its requests
there. Nobody is later than before, and the least latencies are those of the table in
`hindsight.seconds.remaining_latency`. The best division is found by dynamic programming. Tokens
of a prompt in chunks that are processed already are worth at most d1 each to every request of
its group: process them later, in the round that emits the next token, with the request absent
until then. After a, and without chunks, the bound is exact.

Proved for memory in tokens, where a prompt in chunks holds all of itself.
"""

from __future__ import annotations

import heapq
import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from instances import SecondsSchedule, Workload
from instances.batch_time import AffineTime, BatchTime, IterationTime, UnitTime
from instances.batch_time.seconds_schedule import ADVANCES
from instances.problem.memory_rule import TOKENS

from .machine_bounds import SecondsBound
from .minorants import affine_minorants, decimal
from .remaining_latency import MOST_REQUESTS, RemainingLatency, RoundCosts

NAME = "exact search"
"""Name of the bound."""

MOST_STATES = 200_000
"""Most states that are kept."""

PATIENCE = 1_000
"""Rounds between two polls of the clock."""

One = tuple[int, int]
"""Of a request: tokens emitted, and tokens to process before the next one."""

State = tuple[One, ...]


class _Deed(NamedTuple):
    """What a round may do with a request; ``tokens`` is 0 where it is absent or held."""

    after: One
    tokens: int
    memory: int


class _Node(NamedTuple):
    """A state, its time, the completion times of complete requests, and the node before it."""

    state: State
    now: int
    paid: int
    before: int


class ExactSearch:
    """A search for the optimum of one workload.

    Parameters
    ----------
    workload : Workload
        The requests.
    batch_time : BatchTime
        Seconds of a round.
    recomputes : bool
        Whether a request that leaves the cache processes prompt and tokens again.

    Attributes
    ----------
    seconds : float
        About what its table takes, at most; infinite if that is too large, or if the proofs do not
        cover the memory rule or the batch time.
    opened : int
        Number of states opened so far.
    """

    def __init__(self, workload: Workload, batch_time: BatchTime, recomputes: bool) -> None:
        self._workload = workload
        self._batch_time = batch_time
        self._prompts: list[int] = workload.prompt_lengths.tolist()
        self._outputs: list[int] = workload.output_lengths.tolist()
        self.opened = 0
        self.seconds = math.inf
        if (
            len(workload) > MOST_REQUESTS
            or type(batch_time) not in (AffineTime, IterationTime, UnitTime)
            or workload.memory_rule != TOKENS
            or min(self._prompts) == 0
        ):
            return
        (self._minorant,) = affine_minorants(batch_time, workload.memory_limit)
        arrivals = [decimal(one) for one in workload.arrival_times.tolist()]
        unit = math.lcm(*(one.denominator for one in self._minorant))
        self._unit = math.lcm(unit, *(one.denominator for one in arrivals))
        self._arrivals = [int(one * self._unit) for one in arrivals]
        self._last = self._arrivals[-1]
        self._factor = self._unit // unit
        costs = RoundCosts(workload.memory_limit, *(int(one * unit) for one in self._minorant))
        self._costs = RoundCosts(costs[0], *(one * self._factor for one in costs[1:]))
        self._keeps = not recomputes
        self._recomputes = recomputes and costs.token > 0
        self._table = RemainingLatency(self._prompts, self._outputs, costs, self._recomputes)
        self.seconds = self._table.seconds

    def run(
        self, upper_bound: Fraction, must_stop: Callable[[], bool]
    ) -> tuple[SecondsBound | None, SecondsSchedule | None]:
        """Return a lower bound, and a schedule that meets it if one is below ``upper_bound``.

        The bound is ``upper_bound`` if no schedule is below, less if the search was stopped, and
        None if there was no time for the table.
        """
        if not self._table.fill(must_stop):
            return None, None
        self._groups = self._suffix_bounds()
        shift = sum(self._arrivals)
        most = math.ceil(upper_bound * self._unit) + shift
        first = tuple((0, s) for s in self._prompts)
        nodes = [_Node(first, self._arrivals[0], 0, -1)]
        # Of equal bounds the latest state is opened first.
        queue = [(self._bound(first, self._arrivals[0]), 0)]
        known: dict[State, list[tuple[int, int]]] = {}
        least = rounds = 0
        while queue and queue[0][0] < most:
            total, position = heapq.heappop(queue)
            node = nodes[-position]
            least = max(least, total)
            if all(one[0] == o for one, o in zip(node.state, self._outputs, strict=True)):
                return self._proved(total - shift), self._schedule(nodes, -position)
            if (node.now, node.paid) not in known.get(node.state, [(node.now, node.paid)]):
                continue
            self.opened += 1
            for _, state, now, paid in self._rounds(node):
                rounds += 1
                if len(nodes) > MOST_STATES or (rounds % PATIENCE == 0 and must_stop()):
                    return self._proved(least - shift), None
                found = known.setdefault(state, [])
                if any(t <= now and cost <= paid for t, cost in found):
                    continue
                bound = paid + self._bound(state, now)
                if bound < most:
                    found[:] = [one for one in found if one[0] < now or one[1] < paid]
                    found.append((now, paid))
                    heapq.heappush(queue, (bound, -len(nodes)))
                    nodes.append(_Node(state, now, paid, -position))
        return self._proved(upper_bound * self._unit), None

    def _proved(self, total: Fraction | int) -> SecondsBound:
        count = len(self._workload)
        return SecondsBound(Fraction(total) / self._unit, NAME, self._minorant, count)

    def _value(self, state: State, begin: int, end: int) -> int:
        """Return the least sum of seconds until requests ``begin`` .. ``end`` - 1 complete."""
        row = inside = processed = incomplete = 0
        for i, ((k, left), o) in enumerate(zip(state, self._outputs, strict=True)):
            if not begin <= i < end or k == o:
                row += o * self._table.strides[i]
                continue
            row += k * self._table.strides[i]
            incomplete += 1
            if left:
                processed += self._prompts[i] + k - left
            elif self._recomputes:
                inside |= 1 << i
        worth = incomplete * self._costs.token * processed
        return max(0, self._factor * self._table.at(row, inside) - worth)

    def _suffix_bounds(self) -> list[int]:
        """Return, for each i, the best bound for the requests from i on, before any arrives."""
        n = len(self._arrivals)
        fresh = tuple((0, s) for s in self._prompts)
        best = [0] * (n + 1)
        for i in reversed(range(n)):
            best[i] = max(
                (end - i) * self._arrivals[i] + self._value(fresh, i, end) + best[end]
                for end in range(i + 1, n + 1)
            )
        return best

    def _bound(self, state: State, now: int) -> int:
        """Return a lower bound on the sum of completion times of incomplete requests."""
        arrived = bisect_right(self._arrivals, now)
        incomplete = [one[0] < o for one, o in zip(state, self._outputs, strict=True)]
        return max(
            sum(incomplete[:end]) * now + self._value(state, 0, end) + self._groups[end]
            for end in range(arrived, len(state) + 1)
        )

    def _limit(self, node: _Node) -> float:
        """Return the time L before which the next round starts (rule 2)."""
        M, d0, d1, d2 = self._costs
        held = 0
        for (k, left), s, o in zip(node.state, self._prompts, self._outputs, strict=True):
            if self._recomputes and k < o and left < s + k:
                held += s + k
        limit = math.inf
        for i, (k, left) in enumerate(node.state):
            s = self._prompts[i]
            if k == self._outputs[i] or (self._recomputes and (k, left) != (0, s)):
                continue
            memory = held + s + k + 1
            length = d0 + d1 * max(1, left) + d2 * memory
            if d1 and left > 1 and not self._recomputes:
                length = d0 + d1 + d2 * s
            if memory <= M:
                limit = min(limit, max(node.now, self._arrivals[i]) + length)
        return limit

    def _deeds(self, i: int, one: One, start: int) -> list[_Deed]:
        """Return all that a round may do with request i, first to let it be absent."""
        (k, left), s, o = one, self._prompts[i], self._outputs[i]
        if k == o or self._arrivals[i] > start:
            return [_Deed(one, 0, 0)]
        begun = [(k, left)]
        deeds = [_Deed((k, s + k) if self._recomputes else one, 0, 0)]
        if self._recomputes:
            if left < s + k:
                deeds.append(_Deed(one, 0, s + k))
            if k and start < self._last:
                begun.append((0, s))
        for had, rest in begun:
            deeds.append(_Deed((had + 1, 0), rest or 1, s + had + 1))
            if self._costs.token:
                spare = self._last + self._costs.token - start - self._costs.overhead
                most = (spare - 1) // self._costs.token
                deeds += [
                    _Deed((had, rest - chunk), chunk, s + had)
                    for chunk in range(1, min(rest - 1, most) + 1)
                ]
        return deeds

    def _choices(self, deeds: list[list[_Deed]], memory: int) -> Iterator[list[_Deed]]:
        """Yield all combinations that memory allows."""
        if not deeds:
            yield []
            return
        for one in deeds[-1]:
            if one.memory <= memory:
                for others in self._choices(deeds[:-1], memory - one.memory):
                    others.append(one)
                    yield others

    def _rounds(self, node: _Node) -> Iterator[tuple[list[_Deed], State, int, int]]:
        """Yield next rounds: the deeds, and the state, time and cost after it."""
        M, d0, d1, d2 = self._costs
        limit = self._limit(node)
        for start in sorted({node.now, *(one for one in self._arrivals if node.now < one < limit)}):
            deeds = [self._deeds(i, one, start) for i, one in enumerate(node.state)]
            for choice in self._choices(deeds, M):
                tokens = sum(one.tokens for one in choice)
                waits = start > node.now and not any(
                    one.tokens and a == start for one, a in zip(choice, self._arrivals, strict=True)
                )
                if not tokens or waits:
                    continue
                end = start + d0 + d1 * tokens + d2 * sum(one.memory for one in choice)
                chunk = any(one.tokens and one.after[1] for one in choice)
                if chunk and end >= self._last + d1:
                    continue
                state = tuple(one.after for one in choice)
                paid, left = node.paid, 0
                for (k, _), (had, _), o in zip(state, node.state, self._outputs, strict=True):
                    paid += end if had < k == o else 0
                    left += k < o
                late = max(0, end - self._last)
                ranked = tuple(state[i] for i in self._ranks(state))
                yield choice, ranked, end - late, paid + left * late

    def _ranks(self, state: State) -> list[int]:
        """Return an order in which equal requests have less and less (rule 6)."""
        places: dict[One, list[int]] = {}
        for i, lengths in enumerate(zip(self._prompts, self._outputs, strict=True)):
            places.setdefault(lengths, []).append(i)
        order = list(range(len(state)))
        for members in places.values():
            # Those that have not arrived have least, and stay where they are.
            ranked = sorted(members, key=lambda i: (-state[i][0], state[i][1]))
            for place, i in zip(members, ranked, strict=True):
                order[place] = i
        return order

    def _schedule(self, nodes: list[_Node], position: int) -> SecondsSchedule:
        """Return the schedule that ends in a node."""
        path = [nodes[position]]
        while path[-1].before >= 0:
            path.append(nodes[path[-1].before])
        path.reverse()
        who = list(range(len(self._prompts)))
        rows: list[list[int]] = []
        latest: dict[int, list[int]] = {}
        for r, (node, following) in enumerate(itertools.pairwise(path), 1):
            choice = next(
                choice for choice, *after in self._rounds(node) if after == list(following[:3])
            )
            for i, deed in enumerate(choice):
                if not deed.memory:
                    continue
                row = self._row(i, node.state[i], deed)
                before = latest.get(who[i])
                stays = before is not None and before[1] + before[2] == r
                if not row[2] and row[1]:
                    if stays and before is not None and before[3] == row[0] == ADVANCES:
                        before[2] += 1
                        continue
                    if not stays:
                        row[2] = 1 if self._keeps else self._prompts[i] + row[1]
                rows.append([who[i], r, 1, *row])
                latest[who[i]] = rows[-1]
            order = self._ranks(tuple(one.after for one in choice))
            who = [who[i] for i in order]
        table = np.array(rows, dtype=np.int64)
        return SecondsSchedule(self._workload, self._batch_time, table)

    def _row(self, i: int, one: One, deed: _Deed) -> list[int]:
        """Return chunk, tokens before and tokens to process of a deed in a state."""
        advances = deed.tokens > 0 and deed.after[1] == 0
        had = deed.after[0] - advances
        left = one[1] if had == one[0] else self._prompts[i]
        return [ADVANCES if advances else deed.tokens, had, left]
