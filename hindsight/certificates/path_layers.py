"""Construction of a new graph of paths, from the last epoch to the first: *telling apart*.

The rules and their proofs are those of `hindsight.certificates.path_proof`. A word in italics in a
comment names the rule that the step follows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from . import limits
from .format import CertificateTooLargeError
from .path_states import HeaviestBeside, Shorts, joined, numbered
from .proofs import Flags, Ints, Numbers

FAR = 2**61
"""Cost of an unreachable node; all other costs are below half of this."""

AT_ONCE = 1 << 15
"""Most nodes built in one batch."""

TOO_MANY = "proof: a graph has more nodes than this checker keeps"


class Stage(NamedTuple):
    """Start prices less min P_i (0 if not followed), and the requests that a stage adds."""

    above: Ints
    followed: list[int]
    tracked: list[int]


class Layer(NamedTuple):
    """Nodes of one epoch, each with its bases before and after, its slack and its completing set.

    ``ended`` numbers the rows of ``ends``, the sets of requests that complete in a round.
    """

    before: Numbers
    after: Numbers
    ended: Numbers
    slacks: Ints
    ends: Flags

    def at(self, places: Ints) -> Layer:
        """Select the nodes at these places."""
        before, after, ended, slacks = (column.take(places) for column in self[:4])
        return Layer(before, after, ended, slacks, self.ends)


class Graph(NamedTuple):
    """A graph: one layer per epoch, and the number of bases of each epoch and of the end."""

    layers: list[Layer]
    bases: list[int]


class _Bases(NamedTuple):
    """New bases of the next epoch during construction, in the order of their old bases.

    Attributes
    ----------
    old : int64 array, shape (bases,)
        Base of the old graph that each new base refines.
    left : int16 array, shape (known, bases)
        Remaining rounds of each request whose rounds are known, 0 if it is not active.
    started : bool array, shape (tracked, bases)
        Whether each tracked request has been started.
    cost : int64 array, shape (bases,)
        Least cost from the base to the end: G.
    """

    old: Ints
    left: Shorts
    started: Flags
    cost: Ints


class _Nodes(NamedTuple):
    """Nodes under construction: next base, old node, completing set, cost to the end, and slack."""

    base: Ints
    node: Ints
    ended: Ints
    cost: Ints
    slack: Ints

    def of(self, kept: Flags) -> _Nodes:
        """Select the nodes whose flag is set."""
        return self.at(np.flatnonzero(kept))

    def at(self, places: Ints) -> _Nodes:
        """Select the nodes at these places."""
        return _Nodes(*(column.take(places) for column in self))


class _Sets:
    """Sets of requests that complete in one round, one row per set, as they were found."""

    def __init__(self, rows: Flags) -> None:
        self.rows = rows
        self._numbers = {row.tobytes(): number for number, row in enumerate(rows)}

    def with_one_more(self, numbers: Ints, i: int) -> Ints:
        """Return, for each set in ``numbers``, the number of that set with request i added."""
        after = np.zeros(len(self.rows), dtype=np.int64)
        new: list[Flags] = []
        for k in np.flatnonzero(np.bincount(numbers)).tolist():
            row = self.rows[k].copy()
            row[i] = True
            after[k] = self._numbers.setdefault(row.tobytes(), len(self._numbers))
            if after[k] == len(self.rows) + len(new):
                new.append(row)
        if new:
            self.rows = np.concatenate([self.rows, new])
        if self.rows.size > limits.LARGEST_AXIS:
            raise CertificateTooLargeError(TOO_MANY)
        more: Ints = after[numbers]
        return more


class _Epoch(NamedTuple):
    """An epoch of the old graph, with the data for building its new nodes.

    Attributes
    ----------
    tau : int
        The epoch.
    later : _Bases
        New bases of the next epoch.
    layer : Layer
        Old nodes, sorted by their base of the next epoch and then by the memory of their completing
        requests.
    arcs, reach : int64 arrays
        Cost of each old node under the start prices of the stage, and the largest allowed cost of a
        path from this node on: B - F.
    room : int64 array
        Memory that the known requests leave free at each new base, tokens.
    sets : _Sets
        Sets of requests that complete.
    starts : dict[int, int]
        Regrets of the newly followed requests that may complete in round tau + 1.
    """

    tau: int
    later: _Bases
    layer: Layer
    arcs: Ints
    reach: Ints
    room: Ints
    sets: _Sets
    starts: dict[int, int]


class Building:
    """Construction, from the last epoch to the first, of a graph that distinguishes more requests.

    Parameters
    ----------
    proof : PathProof
        The proof, with the old graph; it counts the work.
    stage : Stage
        Start prices, and the requests that the new graph distinguishes in addition.
    budget : int
        B under the start prices.
    forth : list of int64 arrays
        F of the old nodes, one array per epoch.
    """

    def __init__(self, proof: Any, stage: Stage, budget: int, forth: list[Ints]) -> None:
        self.proof, self.above, self.budget, self.forth = proof, stage.above, budget, forth
        self.old, self.added, self.tracked = proof.graph, stage.followed, stage.tracked
        self.followed = sorted([*proof.followed, *self.added])
        # Remaining rounds are stored for requests whose starts or prices must be known.
        self.known = self.followed if self.added else self.tracked
        self.row = {i: k for k, i in enumerate(self.known)}
        others = [i for i in range(len(proof.rows)) if i not in {*self.followed}]
        self.beside = HeaviestBeside(proof, others, self.known, proof.size)
        self.graph = Graph([], [1])
        self.nodes_left = limits.part_of(limits.LARGEST_GRAPH, proof.size)
        self.most_at_once = limits.part_of(limits.LARGEST_AXIS, proof.size)

    def run(self) -> bool:
        """Build the graph; return False if no path is left."""
        nothing = np.zeros(1, dtype=np.int64)
        left = np.zeros((len(self.known), 1), dtype=np.int16)
        started = np.ones((len(self.tracked), 1), dtype=np.bool_)
        later = _Bases(nothing, left, started, nothing)
        for tau in range(len(self.old.layers) - 1, -1, -1):
            found = self._build(tau, later)
            if found is None:
                return False
            later = found
        self.graph = Graph(self.graph.layers[::-1], self.graph.bases[::-1])
        return True

    def _build(self, tau: int, later: _Bases) -> _Bases | None:
        """Build the nodes of an epoch; return the bases before them, or None without any node."""
        proof = self.proof
        room = np.full(len(later.old), proof.limit)
        if self.added:
            self.beside.set_epoch(tau, proof.prices_at(tau), later.left)
            room -= self.beside.tokens
        # If no request is newly followed, all nodes that fit before still fit.
        now, peaks = self._epoch(tau, later, room)
        # *Memory*: take the old nodes that lead to a base and whose peaks are at most its room. No
        # peak exceeds the limit, as the old nodes fit.
        key = now.layer.after * np.int64(proof.limit + 1) + peaks
        lowest = later.old * (proof.limit + 1)
        first = np.searchsorted(key, lowest)
        counts = np.searchsorted(key, lowest + np.maximum(room, -1), side="right") - first
        ends = np.cumsum(counts)
        proof.spend(20 * (limits.CALL + len(key) + len(counts) + int(ends[-1])))
        parts: list[_Nodes] = []
        cuts = np.searchsorted(ends, np.arange(AT_ONCE, int(ends[-1]), AT_ONCE))
        for begin, end in pairwise([0, *np.unique(cuts).tolist(), len(counts)]):
            some = counts[begin:end]
            base = np.repeat(np.arange(begin, end), some)
            node = np.arange(len(base))
            node += np.repeat(first[begin:end] - (np.cumsum(some) - some), some)
            parts.append(self._nodes(now, base, node))
            self.nodes_left -= len(parts[-1].base)
            if self.nodes_left < 0:
                raise CertificateTooLargeError(TOO_MANY)
        nodes = _Nodes(*map(np.concatenate, zip(*parts, strict=True)))
        proof.leaves += len(nodes.base)
        return self._join(now, nodes) if len(nodes.base) else None

    def _epoch(self, tau: int, later: _Bases, room: Ints) -> tuple[_Epoch, Ints]:
        """Sort the old nodes of an epoch; return them, and the memory of completing requests."""
        proof, layer = self.proof, self.old.layers[tau]
        used = np.bincount(layer.ended, minlength=len(layer.ends)) > 0
        ends, ended = layer.ends[used], (np.cumsum(used) - 1).take(layer.ended)
        regrets, may_start = proof.regrets(tau)
        peaks = (ends @ proof.peaks).take(ended)
        order = np.argsort(layer.after * np.int64(proof.limit + 1) + peaks)
        layer = layer._replace(ended=ended, ends=ends).at(order)
        arcs = layer.slacks + (ends @ (regrets - self.above)).take(layer.ended)
        reach = self.budget - self.forth[tau].take(order)
        starts = {i: int(regrets[i]) for i in self.added if may_start[i]}
        now = _Epoch(tau, later, layer, arcs, reach, room, _Sets(ends), starts)
        return now, peaks.take(order)

    def _nodes(self, now: _Epoch, base: Ints, node: Ints) -> _Nodes:
        """Build new nodes from pairs of a new base and an old node that leads to it."""
        proof, later, sets = self.proof, now.later, now.sets
        cost = later.cost.take(base) + now.arcs.take(node)
        places = np.flatnonzero(cost <= now.reach.take(node))
        node = node.take(places)
        ended, slack = now.layer.ended.take(node), now.layer.slacks.take(node)
        nodes = _Nodes(base.take(places), node, ended, cost.take(places), slack)
        for i, regret in now.starts.items():
            # A request that is still active at the next base does not complete now.
            idle = (later.left[self.row[i]] == 0).take(nodes.base)
            idle &= nodes.cost <= now.reach.take(nodes.node) - regret
            more = nodes.of(idle)
            more = more._replace(cost=more.cost + regret, ended=sets.with_one_more(more.ended, i))
            # *Memory*: the completing requests fit together with those that continue.
            more = more.of((sets.rows @ proof.peaks).take(more.ended) <= now.room.take(more.base))
            nodes = _Nodes(*map(np.concatenate, zip(nodes, more, strict=True)))
            proof.spend(limits.CALL + 20 * len(nodes.base))
            if len(nodes.base) > self.most_at_once:
                raise CertificateTooLargeError(TOO_MANY)
        for k, i in enumerate(self.tracked):
            # *Tracked*: an active request has been started, but not before it arrives.
            active = (later.left[self.row[i]] > 0).take(nodes.base)
            active |= sets.rows[:, i].take(nodes.ended)
            started = later.started[k].take(nodes.base)
            nodes = nodes.of(started & bool(now.tau >= proof.a[i]) | ~active & ~started)
        if not self.added:
            return nodes
        nodes = nodes.of(self._in_order(now, nodes))
        # *Followed*: the slack of a node.
        capacity = proof.capacity[now.tau] if now.tau < len(proof.capacity) else 0
        slack = capacity - self.beside.heaviest(nodes.base, nodes.ended, sets.rows)
        cost = nodes.cost + slack - nodes.slack
        kept = cost <= now.reach.take(nodes.node)
        return nodes._replace(slack=slack, cost=cost).of(kept)

    def _in_order(self, now: _Epoch, nodes: _Nodes) -> Flags:
        """Return a flag per node: *twins*, no request completes before a twin of smaller index."""
        kept = np.ones(len(nodes.base), dtype=np.bool_)
        for i in self.followed:
            before = [self.row[j] for j in self.proof.twins_before[i] if j in self.row]
            ends = now.sets.rows[:, i]
            if before and ends.any():
                active = (now.later.left[before] > 0).any(axis=0)
                kept &= ~(ends.take(nodes.ended) & active.take(nodes.base))
        return kept

    def _join(self, now: _Epoch, nodes: _Nodes) -> _Bases | None:
        """Add the nodes of an epoch to the graph; return the bases before them."""
        proof, later, ends = self.proof, now.later, now.sets.rows
        proof.spend(limits.CALL + 60 * len(nodes.base))
        started = later.started.take(nodes.base, axis=1)
        for k, i in enumerate(self.tracked):
            started[k] &= self._rounds(now, nodes, i) < proof.o[i]
        if now.tau == 0 and started.any():
            # No request has been started before the first epoch.
            first = np.flatnonzero(~started.any(axis=0))
            nodes, started = nodes.at(first), started[:, first]
            if not len(first):
                return None
        # Nodes share the new base before them if their old bases and all that is known of the
        # distinguished requests are equal.
        old = now.layer.before.take(nodes.node)
        rounds = [self._rounds(now, nodes, i) % int(proof.o[i]) for i in self.added]
        sizes = [self.old.bases[now.tau], *proof.o[self.added].tolist(), *[2] * len(self.tracked)]
        chosen, place = numbered(*joined([old, *rounds, *started], sizes))
        if len(chosen) * len(self.known) > limits.LARGEST_EPOCH:
            raise CertificateTooLargeError(TOO_MANY)
        cost = np.full(len(chosen), FAR)
        np.minimum.at(cost, place, nodes.cost)
        columns = (place, nodes.base, nodes.ended)
        before, after, ended = (column.astype(np.int32) for column in columns)
        self.graph.layers.append(Layer(before, after, ended, nodes.slack, ends))
        self.graph.bases.append(len(chosen))
        left = later.left.take(nodes.base.take(chosen), axis=1)
        left += left > 0
        left += ends[:, self.known].take(nodes.ended.take(chosen), axis=0).T
        left[left == proof.o[self.known, None]] = 0
        return _Bases(old.take(chosen).astype(np.int64), left, started.take(chosen, axis=1), cost)

    def _rounds(self, now: _Epoch, nodes: _Nodes, i: int) -> Shorts:
        """Return the remaining rounds of a request at each node, 0 if it is not active."""
        left = now.later.left[self.row[i]]
        rounds: Shorts = (left + (left > 0)).take(nodes.base)
        rounds += now.sets.rows[:, i].take(nodes.ended)
        return rounds
