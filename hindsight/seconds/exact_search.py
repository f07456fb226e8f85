"""Exact search for the least total latency in seconds of a few requests.

A state is what each request has at a time between two rounds: the tokens it emitted, and how many
it has to process before its next one. With tokens kept, who is not served leaves the cache and
keeps both. With "recompute" it is in the cache if some of these are processed, and may be held;
if it leaves, prompt and tokens are all to be processed again, or it begins anew without tokens.
The search is best-first (Hart, Nilsson and Raphael, 1968): it opens the state with the least sum of
completion times of what is complete and a lower bound for the rest. Everything is computed in
integers: arrival times and coefficients are the decimals they are written as, over one denominator.

**Batch times**: affine in tokens processed and tokens of the batch, as `RoundCosts`. If a token
costs no time to process (d1 = 0), a schedule can keep tokens instead of recomputing them, and
process a prompt whole in the round that emits the first token; no round is longer. So tokens are
kept and no chunks are tried. There, and only there, a batch time may leave out what is held
(`IterationTime`), as nothing is held then.

**Schedules that are left out.** Let a be the last arrival, and call a round *tight* if it starts
less than d1 after the latest arrival of those it serves. A *chunk* is tokens processed in a
round that does not emit a token of that request. Consider all optimal schedules whose rounds start
as early as their order allows; of these the ones with the fewest rounds; of these those in
which requests begin anew least often; of these those with the fewest tokens processed; and of
these, which are finitely many, one with the largest sum of round indices over all tokens that are
processed. This one is tried, as it has these properties:

1. *Starts*: a round starts when the one before it ends, or at the arrival of one that it serves.
2. *Chunks wait for arrivals*: after a chunk some round is tight, up to and including the round
   that processes the next tokens of that request. Else move a token of the chunk to that round.
   The round of the chunk ends earlier by d1 or more, the rounds between start earlier by d1 as
   they wait for nobody, and the last, which is longer by d1, ends no later. Its memory is the same.
   With "recompute", a request that leaves the cache has emitted a token since it came: otherwise
   leave out its chunks and let it be absent. As every tight round starts before a + d1, every
   chunk ends before that.
3. *Chunks are late*: let the round after a chunk not process tokens of that request. If tokens are
   kept and memory has room for it there, move the whole chunk there. The first round ends earlier
   by its tokens and memory, d1 c + d2 (s + k), and the second is longer by that. So it starts less
   than that after the latest arrival of those it serves. With "recompute", where the request is
   held there, the same holds with d1 c.
4. *Beginning anew* in rounds that start before a only: `hindsight.seconds.remaining_latency`. That
   proof moves tokens to later rounds, and needs only that everyone has arrived by the first.
5. *Equals*: of requests with the same lengths that have arrived, the first has the most. They may
   exchange what they have, and the sum of completion times is the same. As nothing tells which of
   them arrived when, the latest of their arrivals counts for what is tight, by which more is
   tried.

For 2 and 3 a state has marks: which requests had a chunk and no tight round since, and the tokens
of the chunk if it was in the last round. *After a*, time does not matter: a state at t > a with N
incomplete requests is tried as one at a with N (t - a) more to pay. There a round may count as
tight that is not, by which more is tried, and nothing else changes.

**Dominance.** Of states with the same tokens and marks, one that is no later and whose complete
requests have no larger sum of completion times makes the others redundant. What they do next it
can do too, with each round no later. So the rounds that were tight still are.

**Bound.** Divide the requests into groups, consecutive in order of arrival, and let each group have
the machine for itself from the first arrival (from now, if that is past), with all of its requests
there. Nobody is later than before, and the least latencies are those of the table in
`hindsight.seconds.remaining_latency`. The best division is found by dynamic programming. Tokens
of chunks that are processed already are worth at most d1 each to every request of the group:
process them later, in the round that emits the next token, with the request absent until then.
Requests with a mark are served after the next tight round at the earliest. If that cannot be
before the next arrival, they may join its group instead. After a, and without chunks, the
bound is exact.

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

from hindsight.runtime.clock import StoppedEarlyError
from instances import SecondsSchedule, Workload
from instances.batch_time import AffineTime, BatchTime, IterationTime, UnitTime
from instances.batch_time.seconds_schedule import ADVANCES
from instances.problem.memory_rule import TOKENS
from instances.validation import decimal

from .machine_bounds import SecondsBound
from .minorants import affine_minorants
from .remaining_latency import MOST_REQUESTS, RemainingLatency, RoundCosts

NAME = "exact search"
"""Name of the bound."""

MOST_STATES = 100_000
"""Most states that are kept."""

PATIENCE = 1_000
"""Rounds between two polls of the clock."""

One = tuple[int, int, int]
"""Of a request: tokens emitted, tokens to process before the next one, and its mark.

The mark is the tokens of a chunk in the last round, `PENDING`, or 0: see rules 2 and 3."""

PENDING = -1
"""Mark of a request with a chunk before the last round, and no tight round since."""

State = tuple[One, ...]


class _Deed(NamedTuple):
    """What a round may do with a request; ``tokens`` is 0 where it is absent or held."""

    after: One
    tokens: int
    memory: int


class _Node(NamedTuple):
    """A state, its time, the completion times of complete requests, and where it comes from."""

    state: State
    now: int
    paid: int
    before: int
    choice: list[_Deed]


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
        self.opened = self._tried = 0
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
        lengths = list(zip(self._prompts, self._outputs, strict=True))
        self._peers = [
            [a for a, other in zip(self._arrivals, lengths, strict=True) if other == own]
            for own in lengths
        ]
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
        self._most = most = math.ceil(upper_bound * self._unit) + shift
        first = tuple((0, s, 0) for s in self._prompts)
        nodes = [_Node(first, self._arrivals[0], 0, -1, [])]
        # Of equal bounds the latest state is opened first.
        queue = [(self._bound(first, self._arrivals[0]), 0)]
        known: dict[State, list[tuple[int, int]]] = {}
        least = 0
        while queue and queue[0][0] < most:
            total, position = heapq.heappop(queue)
            node = nodes[-position]
            least = max(least, total)
            if all(one[0] == o for one, o in zip(node.state, self._outputs, strict=True)):
                return self._proved(total - shift), self._schedule(nodes, -position)
            if (node.now, node.paid) not in known.get(node.state, [(node.now, node.paid)]):
                continue
            self.opened += 1
            try:
                for choice, state, now, paid in self._rounds(
                    node, lambda: len(nodes) > MOST_STATES or must_stop()
                ):
                    found = known.get(state, [])
                    if any(t <= now and cost <= paid for t, cost in found):
                        continue
                    bound = paid + self._bound(state, now)
                    if bound < most:
                        found = [one for one in found if one[0] < now or one[1] < paid]
                        known[state] = [*found, (now, paid)]
                        heapq.heappush(queue, (bound, -len(nodes)))
                        nodes.append(_Node(state, now, paid, -position, choice))
            except StoppedEarlyError:
                return self._proved(least - shift), None
        return self._proved(upper_bound * self._unit), None

    def _proved(self, total: Fraction | int) -> SecondsBound:
        count = len(self._workload)
        return SecondsBound(Fraction(total) / self._unit, NAME, self._minorant, count)

    def _value(self, state: State, members: int, begin: int) -> int:
        """Return a lower bound on the completion times of ``members``, served from ``begin`` on.

        It is the least sum if no prompt is processed in part.
        """
        row = inside = processed = incomplete = 0
        for i, ((k, left, _), o) in enumerate(zip(state, self._outputs, strict=True)):
            if k == o or not members >> i & 1:
                row += o * self._table.strides[i]
                continue
            row += k * self._table.strides[i]
            incomplete += 1
            if left:
                processed += self._prompts[i] + k - left
            elif self._recomputes:
                inside |= 1 << i
        worth = incomplete * self._costs.token * processed
        return incomplete * begin + max(0, self._factor * self._table.at(row, inside) - worth)

    def _suffix_bounds(self) -> list[int]:
        """Return, for each i, the best bound for the requests from i on, before any arrives."""
        n = len(self._arrivals)
        fresh = tuple((0, s, 0) for s in self._prompts)
        best = [0] * (n + 1)
        for i in reversed(range(n)):
            best[i] = max(
                self._value(fresh, (1 << end) - (1 << i), self._arrivals[i]) + best[end]
                for end in range(i + 1, n + 1)
            )
        return best

    def _bound(self, state: State, now: int) -> int:
        """Return a lower bound on the sum of completion times of incomplete requests."""
        n, arrived = len(state), bisect_right(self._arrivals, now)
        best = max(
            self._value(state, (1 << end) - 1, now) + self._groups[end]
            for end in range(arrived, n + 1)
        )
        marked = sum(1 << i for i, one in enumerate(state) if one[2])
        since = now - self._arrivals[arrived - 1]
        if not marked or arrived == n or since < self._costs.token:
            return best
        # By rule 2 those with a mark wait for an arrival.
        here, there = (1 << arrived) - 1, self._arrivals[arrived]
        return max(
            best,
            self._value(state, here & ~marked, now)
            + max(
                self._value(state, marked | ((1 << end) - 1 & ~here), there) + self._groups[end]
                for end in range(arrived, n + 1)
            ),
        )

    def _deeds(self, i: int, one: One, start: int) -> list[_Deed]:
        """Return all that a round may do with request i."""
        (k, left, _), s, o = one, self._prompts[i], self._outputs[i]
        if k == o or self._arrivals[i] > start:
            return [_Deed(one, 0, 0)]
        begun = [(k, left)]
        deeds = []
        if self._recomputes and left < s + k:
            deeds.append(_Deed(one, 0, s + k))
        if not self._recomputes or left in (0, s + k):
            deeds.append(_Deed((k, s + k, 0) if self._recomputes else one, 0, 0))
            if self._recomputes and k and start < self._last:
                begun.append((0, s))
        for had, rest in begun:
            deeds.append(_Deed((had + 1, 0, 0), rest or 1, s + had + 1))
            if self._costs.token:
                spare = self._last + self._costs.token - start - self._costs.overhead
                most = (spare - 1) // self._costs.token
                deeds += [
                    _Deed((had, rest - chunk, chunk), chunk, s + had)
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

    def _rounds(
        self, node: _Node, must_stop: Callable[[], bool]
    ) -> Iterator[tuple[list[_Deed], State, int, int]]:
        """Yield next rounds: the deeds, and the state, time and cost after it.

        Raises
        ------
        StoppedEarlyError
            ``must_stop`` says so.
        """
        M, d0, d1, d2 = self._costs
        for start in sorted({node.now, *(one for one in self._arrivals if one > node.now)}):
            if start > node.now and node.paid + self._bound(node.state, start) >= self._most:
                return
            deeds = [self._deeds(i, one, start) for i, one in enumerate(node.state)]
            for choice in self._choices(deeds, M):
                self._tried += 1
                if self._tried % PATIENCE == 0 and must_stop():
                    raise StoppedEarlyError
                served = [
                    max(a for a in peers if a <= start)
                    for one, peers in zip(choice, self._peers, strict=True)
                    if one.tokens
                ]
                if not served or (start > node.now and start not in served):
                    continue
                state = self._marked(node.state, choice, start - max(served))
                tokens = sum(one.tokens for one in choice)
                end = start + d0 + d1 * tokens + d2 * sum(one.memory for one in choice)
                if state is None or (end >= self._last + d1 and any(one[2] for one in state)):
                    continue
                if any(one[2] > 0 for one in state) and not self._can_go_on(state, end, node.paid):
                    continue
                paid, left = node.paid, 0
                for one, before, o in zip(state, node.state, self._outputs, strict=True):
                    paid += end if before[0] < one[0] == o else 0
                    left += one[0] < o
                late = max(0, end - self._last)
                ranked = tuple(state[i] for i in self._ranks(state))
                yield choice, ranked, end - late, paid + left * late

    def _marked(self, before: State, choice: list[_Deed], since: int) -> State | None:
        """Return the state after a round, or None if rules 2 or 3 leave it out.

        The round starts ``since`` after the latest arrival of those it serves.
        """
        M, _, d1, d2 = self._costs
        state = []
        free = M - sum(one.memory for one in choice)
        for i, ((had, _, mark), deed) in enumerate(zip(before, choice, strict=True)):
            after = deed.after
            if mark and deed.tokens and since >= d1:
                return None
            if mark and not deed.tokens:
                held = self._prompts[i] + had
                moved = d1 * mark + (0 if self._recomputes else d2 * held)
                if mark != PENDING and since >= moved and (self._recomputes or held <= free):
                    return None
                after = (*after[:2], PENDING if since >= d1 else 0)
            state.append(after)
        return tuple(state)

    def _can_go_on(self, state: State, now: int, paid: int) -> bool:
        """Return False if the round after a chunk surely breaks rules 2 or 3."""
        M, _, d1, d2 = self._costs
        arrived = bisect_right(self._arrivals, now)
        since = now - self._arrivals[arrived - 1]
        most = sum(
            s + one[0] + 1
            for one, s, o in zip(state[:arrived], self._prompts, self._outputs, strict=False)
            if one[0] < o
        )
        if not any(
            one[2] > 0
            and since >= d1 * one[2] + (0 if self._recomputes else d2 * (s + one[0]))
            and (self._recomputes or most <= M)
            for one, s in zip(state, self._prompts, strict=True)
        ):
            return True
        waits = arrived < len(state)
        return waits and paid + self._bound(state, self._arrivals[arrived]) < self._most

    def _ranks(self, state: State) -> list[int]:
        """Return an order in which equal requests have less and less (rule 5)."""
        places: dict[tuple[int, int], list[int]] = {}
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
            for i, deed in enumerate(following.choice):
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
            order = self._ranks(tuple(one.after for one in following.choice))
            who = [who[i] for i in order]
        table = np.array(rows, dtype=np.int64)
        return SecondsSchedule(self._workload, self._batch_time, table)

    def _row(self, i: int, one: One, deed: _Deed) -> list[int]:
        """Return chunk, tokens before and tokens to process of a deed in a state."""
        advances = deed.tokens > 0 and deed.after[1] == 0
        had = deed.after[0] - advances
        left = one[1] if had == one[0] else self._prompts[i]
        return [ADVANCES if advances else deed.tokens, had, left]
