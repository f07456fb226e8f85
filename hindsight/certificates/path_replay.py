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
from typing import Any, NamedTuple

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

AT_ONCE = 1 << 15
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
        places = np.flatnonzero(kept)
        if len(places) == len(kept):
            return self
        before, after, ended, slacks, ends = self
        return _Layer(
            before.take(places), after.take(places), ended.take(places), slacks.take(places), ends
        )


class _Graph(NamedTuple):
    """A graph: its layers, and the number of bases of each epoch, one epoch more than layers."""

    layers: list[_Layer]
    bases: list[int]

    def __len__(self) -> int:
        return sum(len(layer.before) for layer in self.layers)


class _Bases(NamedTuple):
    """Bases of the next epoch while building, in the order of their old bases.

    Attributes
    ----------
    old, part : int64 arrays
        Old base of each, and its place among the old bases that there are.
    known : int16 array, shape (followed before, old bases)
        Rounds left, or 0, to requests that the old graph follows: an old base tells them.
    left : int16 array, shape (added, bases)
        Rounds left, or 0, to requests followed from now on.
    started : bool array, shape (tracked, bases)
        Whether a request has been started.
    cost : int64 array
        Cost to the end.
    """

    old: Ints
    part: Ints
    known: Shorts
    left: Shorts
    started: Flags
    cost: Ints


class _Old(NamedTuple):
    """Nodes of the old graph at an epoch: columns of its layer, with arcs and what may follow them.

    ``ended`` is numbered as the new sets are; ``reach`` is the most that a path may cost from a
    node on, and ``peaks`` what requests that complete hold.
    """

    before: Numbers
    ended: Ints
    slacks: Ints
    arcs: Ints
    reach: Ints
    peaks: Ints


class _Nodes(NamedTuple):
    """Nodes being built: base of the next epoch, old node, completing set, cost to the end."""

    base: Ints
    node: Ints
    ended: Ints
    cost: Ints
    slack: Ints

    def of(self, kept: Flags) -> _Nodes:
        """Select those kept."""
        places = np.flatnonzero(kept)
        return self if len(places) == len(kept) else self.at(places)

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


def _beside(
    after: Numbers, peaks: Ints, room: Ints, later: _Bases, limit: int
) -> tuple[Ints, Ints, Ints]:
    """Find the old nodes beside each base of the next epoch that may fit into its room.

    Those whose requests that complete hold more, ``peaks``, are left out, as far as classes of
    peaks tell them apart. No peak exceeds the limit: the old nodes fit.

    Returns
    -------
    tuple of int64 arrays
        Old nodes, sorted by their base and then by peaks; and of each new base where the first of
        its nodes is, and where they end.
    """
    bases = int(after.max()) + 1
    # Tables of the numbers in each class are no longer than what is looked up in them.
    classes = min(limit + 1, 1 + 4 * (len(after) + len(room)) // bases)
    key = after * np.int64(classes) + peaks * classes // (limit + 1)
    ends = np.zeros(bases * classes + 1, dtype=np.int64)
    np.cumsum(np.bincount(key, minlength=bases * classes), out=ends[1:])
    begin = np.minimum(later.old, bases) * classes
    end = begin + room * classes // (limit + 1) + 1
    return np.argsort(key), ends.take(begin, mode="clip"), ends.take(end, mode="clip")


class _Building:
    """Construction, from the last epoch to the first, of a graph that tells more requests apart."""

    def __init__(self, replay: PathReplay, stage: Stage, budget: int, forth: list[Ints]) -> None:
        self.replay, self.above, self.budget, self.forth = replay, stage.above, budget, forth
        self.added, self.tracked = sorted(stage.followed), sorted(stage.tracked)
        self.followed = sorted([*replay.followed, *self.added])
        # Rounds left are stored for requests whose starts, or whose prices, must be known.
        self.known = replay.followed if self.added else self.tracked
        self.row = {i: k for own in (self.known, self.added) for k, i in enumerate(own)}
        others = [i for i in range(len(replay.a)) if i not in set(self.followed)]
        self.beside = HeaviestBeside(replay.proof, others, [*self.known, *self.added], replay.size)
        self.layers: list[_Layer] = []
        self.bases = [1]
        self.size = 0
        self.most_nodes = limits.part_of(limits.LARGEST_GRAPH, replay.size)
        self.most_at_once = limits.part_of(limits.LARGEST_AXIS, replay.size)

    def run(self) -> bool:
        """Replace the old graph by the new one; return False if no path is left."""
        replay = self.replay
        nothing = np.zeros(1, dtype=np.int64)
        later = _Bases(
            nothing,
            nothing,
            np.zeros((len(self.known), 1), dtype=np.int16),
            np.zeros((len(self.added), 1), dtype=np.int16),
            np.ones((len(self.tracked), 1), dtype=np.bool_),
            nothing,
        )
        for tau in range(replay.epochs - 1, -1, -1):
            found = self._epoch(tau, later)
            if found is None:
                return False
            later = found
        replay.graph = _Graph(self.layers[::-1], self.bases[::-1])
        replay.followed = self.followed
        return True

    def _left(self, later: _Bases, i: int) -> Shorts:
        """Return the rounds left to a request at each base, 0 if it is not active."""
        row = self.row[i]
        left: Shorts = later.left[row] if i in self.added else later.known[row, later.part]
        return left

    def _epoch(self, tau: int, later: _Bases) -> _Bases | None:
        """Find the nodes of an epoch; return the bases before them, or None if there are none."""
        replay = self.replay
        layer = replay.graph.layers[tau]
        regrets, may_start = replay.regrets(tau)
        arcs = layer.slacks + (layer.ends @ (regrets - self.above)).take(layer.ended)
        peaks = (layer.ends @ replay.peaks).take(layer.ended)
        sets = _Sets(layer)
        if self.added:
            self.beside.set_epoch(tau, replay.prices_at(tau), later.known, later.part, later.left)
        # Where nobody is added, everything fits that did.
        stored = self.beside.tokens if self.added else np.zeros_like(later.old)
        self.room = replay.proof.limit - stored
        order, first, ends = _beside(layer.after, peaks, self.room, later, replay.proof.limit)
        counts = ends - first
        ends = np.cumsum(counts)
        replay.spend(20 * (CALL + len(arcs) + len(counts) + int(ends[-1])))
        old = _Old(
            layer.before.take(order),
            sets.place.take(layer.ended.take(order)),
            layer.slacks.take(order),
            arcs.take(order),
            self.budget - self.forth[tau].take(order),
            peaks.take(order),
        )
        starts = {i: int(regrets[i]) for i in self.added if may_start[i]}
        parts, begin, left = [], 0, self.most_nodes - self.size
        while begin < len(counts):
            done = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, done + AT_ONCE, side="right")))
            some = counts[begin:end]
            base = np.repeat(np.arange(begin, end), some)
            node = np.arange(len(base))
            node += np.repeat(first[begin:end] - (np.cumsum(some) - some), some)
            parts.append(self._nodes(tau, later, old, base, node, sets, starts))
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
        old: _Old,
        base: Ints,
        node: Ints,
        sets: _Sets,
        starts: dict[int, int],
    ) -> _Nodes:
        """Find the nodes that lead to some bases, each with its node of the old graph.

        ``starts`` has the regrets of requests that may complete besides.
        """
        replay = self.replay
        cost = later.cost.take(base) + old.arcs.take(node)
        kept = cost <= old.reach.take(node)
        kept &= old.peaks.take(node) <= self.room.take(base)
        places = np.flatnonzero(kept)
        node = node.take(places)
        ended, slack = old.ended.take(node), old.slacks.take(node)
        nodes = _Nodes(base.take(places), node, ended, cost.take(places), slack)
        for i, regret in starts.items():
            # Once at a time.
            idle = (self._left(later, i) == 0).take(nodes.base)
            idle &= nodes.cost <= old.reach.take(nodes.node) - regret
            more = nodes.of(idle)
            more = more._replace(cost=more.cost + regret, ended=sets.with_one_more(more.ended, i))
            more = more.of(self._fits(more, sets))
            nodes = _Nodes(*(np.concatenate(pair) for pair in zip(nodes, more, strict=True)))
            replay.spend(CALL + 20 * len(nodes.base))
            if len(nodes.base) > self.most_at_once:
                raise CertificateTooLargeError(TOO_MANY)
        for k, i in enumerate(self.tracked):
            active = (self._left(later, i) > 0).take(nodes.base)
            active |= sets.rows()[:, i].take(nodes.ended)
            started = later.started[k].take(nodes.base)
            nodes = nodes.of(started & bool(tau >= replay.a[i]) | ~active & ~started)
        if not self.added:
            return nodes
        nodes = nodes.of(self._in_order(later, nodes, sets))
        capacity = replay.capacities[tau] if tau < len(replay.capacities) else 0
        slack = capacity - self.beside.heaviest(nodes.base, nodes.ended, sets.rows())
        cost = nodes.cost + slack - nodes.slack
        kept = cost <= old.reach.take(nodes.node)
        return nodes._replace(slack=slack, cost=cost).of(kept)

    def _fits(self, nodes: _Nodes, sets: _Sets) -> Flags:
        """Tell for each node whether its active requests fit into round tau + 1."""
        peaks = sets.rows() @ self.replay.peaks
        fits: Flags = peaks.take(nodes.ended) <= self.room.take(nodes.base)
        return fits

    def _in_order(self, later: _Bases, nodes: _Nodes, sets: _Sets) -> Flags:
        """Tell for each node whether no request ends before an active twin of smaller index."""
        kept = np.ones(len(nodes.base), dtype=np.bool_)
        for i in self.followed:
            before = [j for j in self.replay.twins_before[i] if j in self.row]
            ends = sets.rows()[:, i]
            if before and ends.any():
                active = np.any([self._left(later, j) > 0 for j in before], axis=0)
                kept &= ~(ends.take(nodes.ended) & active.take(nodes.base))
        return kept

    def _join(
        self, tau: int, later: _Bases, old: _Old, nodes: _Nodes, ends: Flags
    ) -> _Bases | None:
        """Keep the nodes of an epoch; return the bases before what starts in them."""
        replay = self.replay
        replay.spend(CALL + 60 * len(nodes.base))
        started = later.started.take(nodes.base, axis=1)
        for k, i in enumerate(self.tracked):
            started[k] &= self._rounds(self._left(later, i), i, nodes, ends) < replay.o[i]
        if tau == 0 and started.any():
            # No request has been started before the first epoch.
            first = np.flatnonzero(~started.any(axis=0))
            nodes, started = nodes.at(first), started[:, first]
            if not len(first):
                return None
        columns: list[npt.NDArray[np.signedinteger[Any]]] = [old.before.take(nodes.node)]
        sizes = [replay.graph.bases[tau]]
        for row, i in zip(later.left, self.added, strict=True):
            rounds = self._rounds(row, i, nodes, ends)
            rounds[rounds == replay.o[i]] = 0
            columns.append(rounds)
            sizes.append(int(replay.o[i]))
        sizes += [2] * len(self.tracked)
        chosen, place = numbered(*joined([*columns, *started], sizes))
        cost = np.full(len(chosen), FAR)
        np.minimum.at(cost, place, nodes.cost)
        if len(chosen) * (len(self.known) + len(self.added)) > limits.LARGEST_EPOCH:
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
        before = columns[0].take(chosen).astype(np.int64)
        is_first = np.diff(before, prepend=-1) > 0
        some = nodes.at(chosen[is_first])
        known = later.known.take(later.part.take(some.base), axis=1)
        known += known > 0
        known += ends[:, self.known].take(some.ended, axis=0).T
        known[known == replay.o[self.known, None]] = 0
        left = np.array([column.take(chosen) for column in columns[1:]], dtype=np.int16)
        return _Bases(
            before,
            np.cumsum(is_first) - 1,
            known,
            left.reshape(len(self.added), len(chosen)),
            started.take(chosen, axis=1),
            cost,
        )

    def _rounds(self, left: Shorts, i: int, nodes: _Nodes, ends: Flags) -> Shorts:
        """Return the rounds that a request still runs at each node, 0 if it is not active."""
        rounds: Shorts = (left + (left > 0)).take(nodes.base)
        rounds += ends[:, i].take(nodes.ended)
        return rounds
