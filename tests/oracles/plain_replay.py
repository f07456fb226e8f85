"""What the checker of certificates computes in numpy and packed integers, in plain loops.

Sums are Python's integers, tables dictionaries, profiles tuples: no code of the checker is shared.
A state is (m, r): it holds m + 1 tokens in the next round, and runs in the next r rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

State = tuple[int, int]
Row = tuple[int, int, int]


def heaviest_beside(
    known: Sequence[State], copies: Mapping[State, int], weights: Mapping[State, int], limit: int
) -> int | None:
    """The most that up to so many copies of states weigh beside the known members.

    Known members have to fit and weigh nothing; None where they do not. Read from the one that runs
    longest on, each member must leave S + k r <= limit, with k read so far that hold S in all.
    """
    best = {(0, 0): 0}
    for r in sorted({r for _, r in (*known, *copies)}, reverse=True):
        forced = [m for m, rounds in known if rounds == r]
        number, held = len(forced), sum(forced)
        moved = {(k + number, S + held): weight for (k, S), weight in best.items()}
        best = {(k, S): w for (k, S), w in moved.items() if not forced or S + k * r <= limit}
        for (m, rounds), most in copies.items():
            for _ in range(min(most, limit) if rounds == r else 0):
                one_more = dict(best)
                for (k, S), weight in best.items():
                    place = k + 1, S + m
                    if place[1] + place[0] * r <= limit:
                        more = weight + weights.get((m, r), 0)
                        one_more[place] = max(one_more.get(place, more), more)
                if one_more == best:
                    break
                best = one_more
    return max(best.values(), default=None)


class _Partial(NamedTuple):
    started: frozenset[int]
    profile: tuple[int, ...]
    latency: int
    bound: int
    running: tuple[tuple[int, int], ...]


class PlainSearch:
    """The search of a "state-search" proof, as hindsight/certificates/replay.py describes it."""

    def __init__(self, rows: Sequence[Row], limit: int, proof: Mapping[str, Any]) -> None:
        self.rows, self.limit, self.scale = rows, limit, proof["scale"]
        self.most_kept, self.budget = proof["kept"], proof["budget"]
        states = [(m, r) for m, r in proof["states"]]
        self.prices = [dict(zip(states, row, strict=True)) for row in proof["prices"]]
        passing = [(s + age, o - age) for _, s, o in rows for age in range(o)]
        self.capacities = []
        for prices in self.prices:
            copies = {state: passing.count(state) for state in prices if prices[state]}
            self.capacities.append(heaviest_beside((), copies, prices, limit) or 0)

    def paid(self, i: int, start: int, epoch: int) -> int:
        """What a request started at ``start`` pays at an epoch."""
        _, s, o = self.rows[i]
        prices = self.prices[epoch] if epoch < len(self.prices) else {}
        return prices.get((s + epoch - start, o - epoch + start), 0)

    def cost(self, i: int, t: int) -> int:
        """Latency of a start and what it pays, in units of 1 / scale."""
        a, _, o = self.rows[i]
        return self.scale * (t + o - a) + sum(self.paid(i, t, t + age) for age in range(o))

    def from_on(self, i: int, epoch: int) -> int:
        """Least cost of a start from an epoch on: past all prices none is cheaper."""
        first = max(epoch, self.rows[i][0])
        return min(self.cost(i, t) for t in range(first, max(first, len(self.prices)) + 1))

    def kept(self) -> int | None:
        """Partial schedules kept; None where a schedule is within the budget, or more are kept."""
        bound = sum(self.from_on(i, 0) for i in range(len(self.rows))) - sum(self.capacities)
        states = [_Partial(frozenset(), (), 0, bound, ())]
        epoch = total = 0
        while states:
            total += len(states)
            if total > self.most_kept:
                return None
            epoch, states = self.without_idling(epoch, states)
            layer: dict[tuple[frozenset[int], tuple[int, ...]], _Partial] = {}
            for state in states:
                for child in self.children(epoch, state):
                    if len(child.started) == len(self.rows):
                        if child.latency <= self.budget:
                            return None
                        continue
                    after = self.after(epoch, child)
                    if after is not None:
                        known = layer.setdefault((after.started, after.profile), after)
                        if after.latency < known.latency:
                            layer[after.started, after.profile] = after
            states, epoch = undominated(list(layer.values())), epoch + 1
        return total

    def without_idling(self, epoch: int, states: list[_Partial]) -> tuple[int, list[_Partial]]:
        """Pass to the next arrival where nothing runs and nobody waits."""
        unstarted = [i for i in range(len(self.rows)) for one in states if i not in one.started]
        following = min(self.rows[i][0] for i in unstarted)
        if following <= epoch or any(one.profile for one in states):
            return epoch, states
        passed = sum(self.capacities[epoch:following])
        later = [one._replace(bound=one.bound + passed) for one in states]
        return following, [one for one in later if one.bound <= self.scale * self.budget]

    def children(self, epoch: int, state: _Partial) -> Iterator[_Partial]:
        """Every way to start some that have arrived."""
        waiting = [
            i for i, (a, _, _) in enumerate(self.rows) if a <= epoch and i not in state.started
        ]
        pending = [(0, state)]
        while pending:
            position, part = pending.pop()
            if position == len(waiting) or len(part.started) == len(self.rows):
                yield part
                continue
            i = waiting[position]
            pending.append((position + 1, part))
            a, s, o = self.rows[i]
            bound = part.bound + self.cost(i, epoch) - self.from_on(i, epoch)
            twins = [j for j in range(i) if self.rows[j] == self.rows[i]]
            if bound > self.scale * self.budget or not part.started.issuperset(twins):
                continue
            profile = list(part.profile) + [0] * (o - len(part.profile))
            for k in range(o):
                profile[k] += s + k + 1
            if max(profile) <= self.limit:
                started, latency = part.started | {i}, part.latency + epoch + o - a
                running = (*part.running, (i, epoch))
                pending.append(
                    (position + 1, _Partial(started, tuple(profile), latency, bound, running))
                )

    def after(self, epoch: int, state: _Partial) -> _Partial | None:
        """A partial schedule at the next epoch; None where its bound exceeds the budget."""
        unstarted = [i for i in range(len(self.rows)) if i not in state.started]
        bound = state.bound
        bound += sum(self.from_on(i, epoch + 1) - self.from_on(i, epoch) for i in unstarted)
        if epoch < len(self.prices):
            paid = sum(self.paid(i, t, epoch) for i, t in state.running)
            if bound > self.scale * self.budget:
                return None
            bound += self.capacities[epoch] - paid
        running = tuple((i, t) for i, t in state.running if t + self.rows[i][2] > epoch + 1)
        after = state._replace(profile=state.profile[1:], bound=bound, running=running)
        return after if bound <= self.scale * self.budget else None


def undominated(states: Sequence[_Partial]) -> list[_Partial]:
    """Those that no other one with the same requests started is as good as, in every round."""
    kept: dict[frozenset[int], list[_Partial]] = {one.started: [] for one in states}
    for state in sorted(states, key=lambda one: (one.latency, sum(one.profile))):
        if not any(
            len(one.profile) <= len(state.profile)
            and all(x <= y for x, y in zip(one.profile, state.profile, strict=False))
            for one in kept[state.started]
        ):
            kept[state.started].append(state)
    return [state for group in kept.values() for state in group]
