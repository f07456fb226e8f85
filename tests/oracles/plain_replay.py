"""What the checker of certificates computes in numpy and packed integers, in plain loops.

Sums are Python's integers, tables dictionaries, profiles tuples: no code of the checker is shared.
A state is (m, r): it holds m + 1 tokens in the next round, and runs in the next r rounds.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
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


_Node = namedtuple("_Node", "before after ended slack")


def _cheapest(bases: Iterable[Any], costs: Iterable[int]) -> dict[Any, int]:
    """The least cost of each base."""
    return dict(sorted(zip(bases, costs, strict=True), key=lambda pair: -pair[1]))


class PlainPaths(PlainSearch):
    """The graphs of a "path-search" proof in tokens, as path_proof.py describes them.

    Bases are nested tuples: the old base, rounds of newly followed and flags of tracked requests.
    """

    def __init__(self, rows: Sequence[Row], limit: int, proof: Mapping[str, Any]) -> None:
        super().__init__(rows, limit, {**proof, "budget": proof["limit"], "kept": 0})
        self.least = [self.from_on(i, 0) for i in range(len(rows))]
        self.B = self.scale * self.budget + sum(self.capacities) - sum(self.least)
        last = max(len(self.prices), *(a for a, _, _ in rows))
        epochs = last + max(0, self.B) // self.scale + max(o for _, _, o in rows) + 1
        self.layers = [[_Node(0, 0, frozenset(), 0)]] * epochs
        self.stages, self.leaves, self.followed = proof["stages"], 0, []

    def nodes(self) -> int | None:
        """Nodes of all graphs; None where paths are left."""
        return self.leaves if self.B < 0 or any(map(self.closes, self.stages)) else None

    def regret(self, i: int, tau: int) -> int:
        return self.cost(i, tau + 1 - self.rows[i][2]) - self.least[i]

    def closes(self, stage: Mapping[str, Any]) -> bool:
        above = dict(zip(sorted(self.followed), stage["start_prices"], strict=True))
        budget, to_end, reach = self.B - sum(above.values()), [], []

        def arc(tau: int, node: _Node) -> int:
            return node.slack + sum(self.regret(i, tau) - above[i] for i in node.ended)

        on = {node.after: 0 for node in self.layers[-1]}
        for tau, layer in reversed([*enumerate(self.layers)]):
            to_end.append([arc(tau, node) + on[node.after] for node in layer])
            on = _cheapest((node.before for node in layer), to_end[-1])
        on = {node.before: 0 for node in self.layers[0]}
        for tau, layer in enumerate(self.layers):
            most = [budget - on.get(node.before, 2**61) for node in layer]
            kept = [k for k, cost in enumerate(to_end.pop()) if cost <= most[k]]
            self.layers[tau] = layer = [layer[k] for k in kept]
            reach.append([most[k] for k in kept])
            paid = [on[node.before] + arc(tau, node) for node in layer]
            on = _cheapest((node.after for node in layer), paid)
        goes_on = all(self.layers) and not (stage["followed"] or stage["tracked"])
        return not goes_on and not (all(self.layers) and self.rebuilt(stage, arc, reach))

    def rebuilt(self, stage: Mapping[str, Any], arc: Any, reach: list[list[int]]) -> bool:
        """Build the graph that tells more requests apart; False where it has no path."""
        new, tracked = sorted(stage["followed"]), sorted(stage["tracked"])
        self.followed += new
        known, output = self.followed if new else tracked, [o for _, _, o in self.rows]
        end, idle = self.layers[-1][0].after, dict.fromkeys(known, 0)
        later = {(end, "end"): (end, idle, dict.fromkeys(tracked, True), 0)}
        for tau in range(len(self.layers) - 1, -1, -1):
            found, nodes = {}, []
            olds = [*zip(self.layers[tau], reach[tau], strict=True)]
            for base, (node, most) in product(later, olds):
                old, left, started, to_end = later[base]
                if node.after != old:
                    continue
                able = [i for i in new if not left[i] and tau + 1 >= sum(self.rows[i][::2])]
                able = [i for i in able if self.regret(i, tau) <= self.B]
                for bits in range(2 ** len(able)):
                    more = {i for k, i in enumerate(able) if bits >> k & 1}
                    ended = node.ended | more
                    cost = to_end + arc(tau, node) + sum(self.regret(i, tau) for i in more)
                    slack = self.slack(tau, ended, left) if new else node.slack
                    active = {i for i in tracked if left[i] or i in ended}
                    begun = {i for i in tracked if started[i]}
                    early = any(tau < self.rows[i][0] for i in begun)
                    total = cost + slack - node.slack
                    if early or active - begun or max(cost, total) > most:
                        continue
                    self.leaves += 1
                    rounds = {i: left[i] + (left[i] > 0) + (i in ended) for i in known}
                    flags = {i: started[i] and rounds[i] < output[i] for i in tracked}
                    rounds = {i: r % output[i] for i, r in rounds.items()}
                    before = node.before, tuple(rounds[i] for i in new), tuple(flags.values())
                    total = min(total, found.get(before, (0, 0, 0, total))[3])
                    if tau > 0 or not any(flags.values()):
                        found[before] = node.before, rounds, flags, total
                        nodes.append(_Node(before, base, ended, slack))
            if not nodes:
                return False
            self.layers[tau], later = nodes, found
        return True

    def slack(self, tau: int, ended: frozenset[int], left: Mapping[int, int]) -> int:
        """Slack of a node; 2^61 where requests do not fit or twins are out of order."""
        running, rows = [i for i in left if left[i]], self.rows
        members = [(sum(rows[i][1:]) - left[i] - 1, left[i] + 1) for i in running]
        members += [(sum(rows[i][1:]) - 1, 1) for i in ended]
        others = [row for i, row in enumerate(rows) if i not in self.followed]
        states = [(s + age, o - age) for a, s, o in others for age in range(min(o, tau - a + 1))]
        prices = self.prices[tau] if tau < len(self.prices) else {}
        copies = {state: states.count(state) for state in states if prices.get(state)}
        most = heaviest_beside(members, copies, prices, self.limit)
        swapped = any(rows[i] == rows[j] and j < i for i in ended for j in running)
        if most is None or swapped or sum(m + 1 for m, _ in members) > self.limit:
            return 2**61
        paid = sum(prices.get(state, 0) for state in members)
        return (self.capacities[tau] if tau < len(self.capacities) else 0) - paid - most
