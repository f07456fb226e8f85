"""Replay of a proof by paths, in numpy: no schedule has a total latency within a limit.

Part of the checker (`hindsight.certificates.checking`): it shares no code with the solver's graphs
and uses fewer rules, each of which is proved here in a few lines.

**Paths.** Let Q, W, P_i be the prices, capacities and priced costs of starts of the certificate
(`hindsight.certificates.state_proofs`), u_i numbers, *regrets* P_i(t_i) - u_i, *slacks* W_tau less
the price of all that is active at tau, and L = sum u_i - sum W_tau. Every schedule has

    scale * TEL = L + regrets of all + slacks of all epochs,                                  (1)

so a schedule within the limit has regrets and slacks of at most B = scale * limit - L in all.

A *graph* has, for each epoch, *nodes* and *bases*: a node leads from a base of its epoch (before
anything starts there) to one of the next (after what completes has gone), at its *cost*. It *holds*
a schedule if that follows a path from the first base to the last on which, for any start prices of
the requests *followed* and u_i = min P_i of all others, each node costs no more than the slack of
its epoch and the regrets of the followed ones that complete in its round. (Those not followed have
regrets >= 0, and no slack is negative.) The first graph, a chain that costs nothing, holds all.

**Dropping.** Under u, with F and G the least costs to a node and from it on (its own in G), nodes
with F + G > B are left out: by (1) no schedule within the limit that the graph holds passes them.

**Telling apart.** Nodes and bases of a new graph are those of the old one, each with what is known
of some requests more:

* *followed*: whether one is active, and since when. In the round in which it completes its regret
  is paid. The slack of a node is then W_tau, less the price of the followed ones active, less the
  most that others can add to it (`hindsight.certificates.path_states`);
* *tracked*: whether one has been started. A schedule starts each once: a path must not start it
  again, and ends only when it was. (What is active has been started.)

The new graph is built from its end to its start, and a new node is left out at once where F of the
old one and G of the new one exceed B under the u of the stage: a schedule that passes it paid F or
more before, where those followed only now pay regrets >= 0, and G or more from there.

Besides, what no schedule within the limit does is left out of new nodes:

* *fixed starts*: with u_i = min P_i for all, (1) has no negative terms, so none starts i at a t
  with P_i(t) - min P_i > B. Past all prices P_i grows by scale a round: starts end, and with them
  the epochs;
* *memory*: what is active at tau fits into round tau + 1. Where memory is handed out in blocks,
  prices are those of a relaxed instance in tokens (`hindsight.certificates.problem`), but here each
  request holds its whole blocks. With everybody followed, paths are schedules in blocks. Requests
  that are equal in the relaxed instance hold equal blocks (`hindsight.certificates.problem`);
* *twins*: of requests with equal (a, s, o) none starts while one of larger index is active and
  started earlier: sorting the starts of equal ones changes neither memory nor latency.

**Claim.** If there are schedules within the limit, there is one whose twins are in order, and each
stage keeps it as a path. So where no path is left, there are none.

Work is counted before it is done, and what is held at once has a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from . import limits
from .format import CertificateTooLargeError
from .limits import CALL
from .path_states import HeaviestBeside, joined, numbered
from .problem import Row
from .proofs import Ints
from .state_proofs import StateProof

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int32]
Shorts = npt.NDArray[np.int16]

FAR = 2**61
"""Cost of a node that is not reached; all other costs are below half of it."""

AT_ONCE = 1 << 16
"""Most nodes built in one batch."""


TOO_MANY = "proof: a graph has more nodes than this checker keeps"


class Stage(NamedTuple):
    """Start prices less min P_i (0 if not followed), and the requests told apart from now on."""

    above: Ints
    followed: list[int]
    tracked: list[int]


class _Layer(NamedTuple):
    """Nodes of an epoch: bases before and after, slack, and the set of requests that completes."""

    before: Numbers
    after: Numbers
    ended: Numbers
    slacks: Ints
    ends: Flags

    def of(self, kept: Flags) -> _Layer:
        """Select nodes."""
        before, after, ended, slacks, ends = self
        return _Layer(before[kept], after[kept], ended[kept], slacks[kept], ends)


class _Graph(NamedTuple):
    """A graph: its layers, and the number of bases of each epoch, one epoch more than layers."""

    layers: list[_Layer]
    bases: list[int]

    def __len__(self) -> int:
        return sum(len(layer.before) for layer in self.layers)


class _Bases(NamedTuple):
    """Bases of the next epoch while building: old base, rounds left, tracked, cost to the end."""

    old: Ints
    left: Shorts
    started: Flags
    cost: Ints


class _Nodes(NamedTuple):
    """Nodes being built: base of the next epoch, old node, completing set, cost to the end."""

    base: Ints
    node: Ints
    ended: Ints
    cost: Ints
    slack: Ints

    def of(self, kept: Flags) -> _Nodes:
        """Select those kept."""
        return self if kept.all() else self.at(np.flatnonzero(kept))

    def at(self, places: Ints) -> _Nodes:
        """Select those at some places."""
        return _Nodes(*(column.take(places) for column in self))


class _Sets:
    """Sets of requests that complete in one round, numbered in order of first use."""

    def __init__(self, old: _Layer) -> None:
        self.place = np.zeros(len(old.ends), dtype=np.int64)
        self._numbers: dict[bytes, int] = {}
        self._listed: list[Flags] = []
        self._rows = old.ends[:0]
        for k in np.unique(old.ended).tolist():
            self.place[k] = self._number(old.ends[k])

    def _number(self, row: Flags) -> int:
        number = self._numbers.setdefault(row.tobytes(), len(self._listed))
        if number == len(self._listed):
            self._listed.append(row)
            if number * len(row) > limits.LARGEST_AXIS:
                raise CertificateTooLargeError(TOO_MANY)
        return number

    def rows(self) -> Flags:
        """Return all sets, one row each."""
        if len(self._rows) < len(self._listed):
            self._rows = np.array(self._listed)
        return self._rows

    def with_one_more(self, numbers: Ints, i: int) -> Ints:
        """Return the numbers of the sets that have i besides."""
        after = np.zeros(len(self._listed), dtype=np.int64)
        for k in np.flatnonzero(np.bincount(numbers)).tolist():
            row = self._listed[k].copy()
            row[i] = True
            after[k] = self._number(row)
        more: Ints = after[numbers]
        return more


class PathReplay:
    """Graphs of one proof.

    Parameters
    ----------
    proof : StateProof
        Requests, M and prices as read; it counts the work done.
    within : int
        Largest total latency for which the proof claims that no path is left.
    size : int
        Numbers in the proof, which sets its share of the limits (`limits.part_of`).

    Raises
    ------
    CertificateTooLargeError
        There are too many epochs, or prices are too large.
    """

    def __init__(self, proof: StateProof, within: int, size: int) -> None:
        self.proof, self.spend, self.size = proof, proof.spend, size
        rows, scale, capacities = proof.rows, proof.scale, proof.capacities()
        n, T = len(rows), len(capacities)
        arrivals, _, outputs = zip(*rows, strict=True)
        last = max(T, *arrivals)
        # Starting at the last epoch costs no request more than this.
        largest = sum(capacities) + scale * (last + max(outputs))
        if largest >= FAR // (8 * n):
            raise CertificateTooLargeError("proof: the prices or the scale are too large")
        self.a, _, self.o = np.array(rows, dtype=np.int64).T
        self.peaks = proof.in_blocks(np.array(proof.stored, dtype=np.int64) + self.o)
        self.costs = np.array([proof.payments(s, o) for _, s, o in rows]).reshape(n, T)
        self.costs += scale * (np.arange(T) + (self.o - self.a)[:, None])
        free = scale * (np.maximum(self.a, T) + self.o - self.a)
        late = np.arange(T) < self.a[:, None]
        self.least = np.minimum(free, np.where(late, FAR, self.costs).min(axis=1, initial=FAR))
        self.capacities = capacities
        self.budget = scale * within + sum(capacities) - sum(self.least.tolist())
        self.epochs = last + max(0, self.budget) // scale + max(outputs) + 1
        if self.epochs > limits.LONGEST_PATH:
            raise CertificateTooLargeError("proof: its paths have too many epochs")
        self.spend(3 * CALL * self.epochs)
        self.largest = n * (scale * (self.epochs + max(outputs)) + sum(capacities))
        twins: dict[Row, list[int]] = {}
        self.twins_before = []
        for i, row in enumerate(rows):
            self.twins_before.append(list(twins.get(row, [])))
            twins.setdefault(row, []).append(i)
        self.followed: list[int] = []
        nobody = np.zeros((1, n), dtype=np.bool_)
        one = np.zeros(1, dtype=np.int32)
        chain = _Layer(one, one, one, np.zeros(1, dtype=np.int64), nobody)
        self.nodes = 0
        self.graph = _Graph([chain] * self.epochs, [1] * (self.epochs + 1))

    def closed_by(self, stages: Sequence[Stage]) -> int | None:
        """Return the first stage after which no path is left, or None.

        Raises
        ------
        CertificateTooLargeError
            Numbers or graphs are too large.
        """
        if self.budget < 0:
            return 0
        for position, stage in enumerate(stages):
            paid = sum(map(abs, stage.above.tolist()))
            if self.largest + paid + abs(self.budget) >= FAR // 4:
                raise CertificateTooLargeError("proof: the prices or the scale are too large")
            budget = self.budget - sum(stage.above.tolist())
            forth = self._drop(stage.above, budget)
            if forth is None:
                return position
            is_told_apart = bool(stage.followed or stage.tracked)
            if is_told_apart and not _Building(self, stage, budget, forth).run():
                return position
        return None

    def _drop(self, above: Ints, budget: int) -> list[Ints] | None:
        """Drop nodes whose costs exceed the budget; return F, or None if no node is left."""
        layers, bases = self.graph
        self.spend(3 * CALL * len(layers) + 10 * len(self.graph))
        arcs: list[Ints] = []
        back: list[Ints] = []
        on = np.zeros(bases[-1], dtype=np.int64)
        for tau in range(len(layers) - 1, -1, -1):
            layer = layers[tau]
            arcs.append(layer.slacks + self.paid_by(layer.ends, tau, above)[layer.ended])
            back.append(arcs[-1] + on[layer.after])
            on = np.full(bases[tau], FAR)
            np.minimum.at(on, layer.before, back[-1])
        forth: list[Ints] = []
        on = np.zeros(1, dtype=np.int64)
        kept_layers: list[_Layer] = []
        for tau, layer in enumerate(layers):
            cost, arc = back.pop(), arcs.pop()
            paid = on[layer.before]
            kept = paid + cost <= budget
            if not kept.any():
                return None
            on = np.full(bases[tau + 1], FAR)
            np.minimum.at(on, layer.after[kept], (paid + arc)[kept])
            kept_layers.append(layer.of(kept))
            forth.append(paid[kept])
        self.graph = _Graph(kept_layers, bases)
        return forth

    def prices_at(self, tau: int) -> Ints:
        """Return Q(tau, m, r), shape (M + 1, M + 1)."""
        M = self.proof.limit
        prices = np.zeros((M + 1, M + 1), dtype=np.int64)
        if tau < len(self.proof.prices):
            m, r = np.array([*self.proof.states], dtype=np.int64).reshape(-1, 2).T
            prices[m, r] = self.proof.prices[tau]
        return prices

    def regrets(self, tau: int) -> tuple[Ints, Flags]:
        """Return regrets of what completes in round tau + 1, and whether its start is allowed."""
        T, starts = len(self.capacities), tau + 1 - self.o
        free = self.proof.scale * (starts + self.o - self.a)
        if T:
            priced = self.costs[np.arange(len(self.o)), np.clip(starts, 0, T - 1)]
            free = np.where(starts < T, priced, free)
        regrets: Ints = free - self.least
        return regrets, (starts >= self.a) & (regrets <= self.budget)

    def paid_by(self, ends: Flags, tau: int, above: Ints) -> Ints:
        """Sum, for each set, the regrets of what completes in round tau + 1."""
        paid: Ints = ends.astype(np.int64) @ (self.regrets(tau)[0] - above)
        return paid


def _beside(after: Numbers, room: Ints, later: _Bases) -> tuple[Ints, Ints, Ints]:
    """Find the old nodes beside each base of the next epoch that have room for its cost.

    Returns
    -------
    tuple of int64 arrays
        Old nodes, sorted by their base and then from the largest room on; and of each new base
        where the first of its nodes is, and how many there are.
    """
    by_room = np.argsort(-room)
    rank = np.empty(len(room), dtype=np.int64)
    rank[by_room] = np.arange(len(room))
    size = len(room) + 1
    places = after.astype(np.int64) * size + rank
    order = np.argsort(places)
    places = places[order]
    many = np.searchsorted(-room[by_room], -later.cost, side="right")
    olds = np.arange(int(later.old.max()) + 1) * size
    first = np.searchsorted(places, olds)[later.old]
    return order, first, np.searchsorted(places, olds[later.old] + many) - first


class _Building:
    """Construction, from the last epoch to the first, of a graph that tells more requests apart."""

    def __init__(self, replay: PathReplay, stage: Stage, budget: int, forth: list[Ints]) -> None:
        self.replay, self.above, self.budget, self.forth = replay, stage.above, budget, forth
        self.added, self.tracked = sorted(stage.followed), sorted(stage.tracked)
        self.followed = sorted([*replay.followed, *self.added])
        # Rounds left are stored for requests whose starts, or whose prices, must be known.
        self.kept = self.followed if self.added else self.tracked
        self.column = {i: k for k, i in enumerate(self.kept)}
        others = [i for i in range(len(replay.a)) if i not in set(self.followed)]
        self.beside = HeaviestBeside(replay.proof, others, self.kept, replay.size)
        self.held = np.zeros(1, dtype=np.int64)
        self.layers: list[_Layer] = []
        self.bases = [1]
        self.size = 0
        self.most_nodes = limits.part_of(limits.LARGEST_GRAPH, replay.size)
        self.most_at_once = limits.part_of(limits.LARGEST_AXIS, replay.size)

    def run(self) -> bool:
        """Replace the old graph by the new one; return False if no path is left."""
        replay = self.replay
        later = _Bases(
            np.zeros(1, dtype=np.int64),
            np.zeros((1, len(self.kept)), dtype=np.int16),
            np.ones((1, len(self.tracked)), dtype=np.bool_),
            np.zeros(1, dtype=np.int64),
        )
        for tau in range(replay.epochs - 1, -1, -1):
            found = self._epoch(tau, later)
            if found is None:
                return False
            later = found
        replay.graph = _Graph(self.layers[::-1], self.bases[::-1])
        replay.followed = self.followed
        return True

    def _epoch(self, tau: int, later: _Bases) -> _Bases | None:
        """Find the nodes of an epoch; return the bases before them, or None if there are none."""
        replay = self.replay
        old = replay.graph.layers[tau]
        arcs = old.slacks + replay.paid_by(old.ends, tau, self.above)[old.ended]
        sets = _Sets(old)
        if self.added:
            self.beside.set_epoch(tau, replay.prices_at(tau), later.left)
            self.held = self.beside.tokens
        room = self.budget - self.forth[tau] - arcs
        order, first, counts = _beside(old.after, room, later)
        ends = np.cumsum(counts)
        replay.spend(20 * (CALL + len(room) + len(counts) + int(ends[-1])))
        parts, begin, left = [], 0, self.most_nodes - self.size
        while begin < len(counts):
            done = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, done + AT_ONCE, side="right")))
            some = counts[begin:end]
            base = np.repeat(np.arange(begin, end), some)
            place = np.arange(len(base)) - np.repeat(np.cumsum(some) - some, some)
            node = order[first[base] + place]
            parts.append(self._nodes(tau, later, old, arcs, base, node, sets))
            left -= len(parts[-1].base)
            if left < 0:
                raise CertificateTooLargeError(TOO_MANY)
            begin = end
        nodes = _Nodes(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        self.size += len(nodes.base)
        replay.nodes += len(nodes.base)
        if not len(nodes.base):
            return None
        return self._join(tau, later, old, nodes, sets.rows())

    def _nodes(
        self,
        tau: int,
        later: _Bases,
        old: _Layer,
        arcs: Ints,
        base: Ints,
        node: Ints,
        sets: _Sets,
    ) -> _Nodes:
        """Find the nodes that lead to some bases, each with its node of the old graph."""
        replay = self.replay
        reach = self.budget - self.forth[tau]
        cost = later.cost[base] + arcs[node]
        nodes = _Nodes(base, node, sets.place[old.ended[node]], cost, old.slacks[node])
        if self.added:
            nodes = nodes.of(self._fits(nodes, sets))
        regrets, may_start = replay.regrets(tau)
        for i in self.added:
            if not may_start[i]:
                continue
            cost = nodes.cost + regrets[i]
            # Once at a time.
            ends = (later.left[nodes.base, self.column[i]] == 0) & (cost <= reach[nodes.node])
            more = nodes._replace(cost=cost).of(ends)
            more = more._replace(ended=sets.with_one_more(more.ended, i))
            more = more.of(self._fits(more, sets))
            nodes = _Nodes(*(np.concatenate(pair) for pair in zip(nodes, more, strict=True)))
            replay.spend(CALL + 20 * len(nodes.base))
            if len(nodes.base) > self.most_at_once:
                raise CertificateTooLargeError(TOO_MANY)
        for k, i in enumerate(self.tracked):
            active = later.left[nodes.base, self.column[i]] > 0
            active |= sets.rows()[nodes.ended, i]
            started = later.started[nodes.base, k]
            nodes = nodes.of(started & bool(tau >= replay.a[i]) | ~active & ~started)
        if not self.added:
            return nodes
        nodes = nodes.of(self._in_order(later, nodes, sets))
        capacity = replay.capacities[tau] if tau < len(replay.capacities) else 0
        slack = capacity - self.beside.heaviest(nodes.base, nodes.ended, sets.rows())
        cost = nodes.cost + slack - nodes.slack
        kept = cost <= reach[nodes.node]
        return nodes._replace(slack=slack, cost=cost).of(kept)

    def _fits(self, nodes: _Nodes, sets: _Sets) -> Flags:
        """Tell for each node whether its active requests fit into round tau + 1."""
        fits: Flags = (
            self.held[nodes.base] + (sets.rows() @ self.replay.peaks)[nodes.ended]
            <= self.replay.proof.limit
        )
        return fits

    def _in_order(self, later: _Bases, nodes: _Nodes, sets: _Sets) -> Flags:
        """Tell for each node whether no request ends before an active twin of smaller index."""
        kept = np.ones(len(nodes.base), dtype=np.bool_)
        for i in self.followed:
            before = [self.column[j] for j in self.replay.twins_before[i] if j in self.column]
            if before and sets.rows()[:, i].any():
                active: Flags = np.any(later.left[:, before] > 0, axis=1)
                kept &= ~(sets.rows()[nodes.ended, i] & active[nodes.base])
        return kept

    def _join(
        self, tau: int, later: _Bases, old: _Layer, nodes: _Nodes, ends: Flags
    ) -> _Bases | None:
        """Keep the nodes of an epoch; return the bases before what starts in them."""
        replay = self.replay
        before = old.before[nodes.node].astype(np.int64)
        columns, sizes = [before], [replay.graph.bases[tau]]
        started = later.started[nodes.base]
        for i in sorted({*self.added, *self.tracked}):
            rounds, o = later.left[:, self.column[i]].astype(np.int64), int(replay.o[i])
            rounds = (rounds + (rounds > 0))[nodes.base] + ends[:, i][nodes.ended]
            if i in self.tracked:
                started[:, self.tracked.index(i)] &= rounds < o
            if i in self.added:
                columns.append(rounds * (rounds < o))
                sizes.append(o)
        columns += [*started.T]
        sizes += [2] * len(self.tracked)
        replay.spend(CALL + 60 * len(before))
        if tau == 0 and started.any():
            # No request has been started before the first epoch.
            first = np.flatnonzero(~started.any(axis=1))
            nodes, before, started = nodes.at(first), before[first], started[first]
            columns = [column[first] for column in columns]
            if not len(before):
                return None
        chosen, place = numbered(joined(columns, sizes))
        cost = np.full(len(chosen), FAR)
        np.minimum.at(cost, place, nodes.cost)
        base = nodes.base[chosen]
        left = later.left[base]
        left = left + (left > 0) + ends[nodes.ended[chosen]][:, self.kept]
        left[left == replay.o[self.kept].astype(np.int16)] = 0
        if left.size > limits.LARGEST_EPOCH:
            raise CertificateTooLargeError(TOO_MANY)
        self.bases.append(len(chosen))
        self.layers.append(
            _Layer(
                place.astype(np.int32),
                nodes.base.astype(np.int32),
                nodes.ended.astype(np.int32),
                nodes.slack,
                ends,
            )
        )
        return _Bases(before[chosen], left, started[chosen], cost)
