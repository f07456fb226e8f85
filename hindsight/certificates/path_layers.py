"""Construction of a graph of paths that records more about requests than an old graph.

The graph records the runs of some requests, the *followed* ones. Epoch tau is the time between
rounds tau and tau + 1. A *base* records which followed requests run at the start of an epoch,
before new starts, and for how many rounds still. A *node* goes from a base of epoch tau to a base
of epoch tau + 1: it stands for the starts at tau and the completions in round tau + 1. The new
graph is built from the old one. Each base or node of the old graph is split into those of the new
graph that agree with it in everything that the old graph records.

The rules and their proofs are those of `hindsight.certificates.path_proof` (*telling apart*). A
word in italics in a comment names the rule that the step applies.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from . import limits
from .format import refuse_above
from .path_states import OtherRequests, Shorts, numbered
from .proofs import Flags, Ints, Numbers

FAR = 2**61
"""Cost of a vertex on no path, above twice the cost of any path. Unit: 1 / `Proof.scale` rounds."""

AT_ONCE = 1 << 15
"""Largest number of pairs examined in one batch when a new graph is built from an old one. A pair
is a base of the new graph (see `_Bases`) and a node of the old graph (see `Layer`)."""

TOO_MANY = "proof: a graph has more nodes than this checker keeps"


class Stage(NamedTuple):
    """A stage of a proof: start prices, and requests that the graph of paths records from then on.

    A path pays, for each start of a followed request, the cost of the start minus the start price
    u_i of the request.

    Attributes
    ----------
    above : int64 array, shape (n,)
        u_i - min P_i of each request i, in units of 1 / `Proof.scale` rounds. The start price u_i
        is any number that the proof gives. min P_i is the least cost of a start of the request,
        where the cost is latency plus prices.
    followed : list[int]
        Indices of the requests that are *followed* from this stage on: the nodes of the graph
        record in which rounds these requests run.
    tracked : list[int]
        Indices of the requests that are *tracked* from this stage on: the graph also records
        whether these requests have been started.
    """

    above: Ints
    followed: list[int]
    tracked: list[int]


class Layer(NamedTuple):
    """The nodes of a graph of paths at one epoch tau.

    The graph records the runs of some requests, the *followed* ones. Epoch tau is the time between
    rounds tau and tau + 1. A *base* records which followed requests run at the start of an epoch,
    before new starts, and for how many rounds still. A node goes from a base of epoch tau to a base
    of epoch tau + 1. It stands for the starts at epoch tau and the completions in round tau + 1.

    Attributes
    ----------
    before : int array, shape (nodes,)
        Index of the base of epoch tau from which each node goes.
    after : int array, shape (nodes,)
        Index of the base of epoch tau + 1 to which each node goes.
    ended : int array, shape (nodes,)
        Row of ``ends`` with the requests that complete in round tau + 1.
    slacks : int64 array, shape (nodes,)
        Lower bound on the slack of the epoch for a schedule that passes the node, in units of
        1 / `Proof.scale` rounds. The slack is the capacity of the epoch (an upper bound on the
        price of all active requests) minus the price of all active requests.
    ends : bool array, shape (sets, n)
        Sets of requests that complete together: one row per set, which is True for its requests.
    """

    before: Numbers
    after: Numbers
    ended: Numbers
    slacks: Ints
    ends: Flags

    def at(self, places: Ints) -> Layer:
        """Return the layer with only the nodes that have the indices ``places``."""
        before, after, ended, slacks = (column.take(places) for column in self[:4])
        return Layer(before, after, ended, slacks, self.ends)


class _Bases(NamedTuple):
    """Bases (states of requests at the start of an epoch) in a new graph of paths.

    An epoch is the time between two rounds. A *base* describes its start, before new requests
    start. It records which of the *followed* requests run, and for how many rounds still. It also
    records which of the *tracked* requests have been started. The new graph is built from an old
    one, which records less. Each old base is split into new bases, which agree with it in what the
    old graph records. The new bases are sorted by their old base.

    Attributes
    ----------
    old : int64 array, shape (bases,)
        Index of the base of the old graph that was split into this new base and perhaps others.
    left : int16 array, shape (known, bases)
        Entry (k, b): rounds that the k-th request of `Building.known` still runs from this epoch on
        in base b, or 0 if it does not run.
    started : bool array, shape (tracked, bases)
        Entry (k, b): whether base b records that the k-th request of `Building.tracked` has been
        started before this epoch.
    cost : int64 array, shape (bases,)
        G, the least cost of a path from the base to the end of the graph, in units of 1 /
        `Proof.scale` rounds. The cost of a path is the sum of the costs of its nodes. A node costs
        its slack (see `Layer`), plus the cost of the start of each followed request that completes
        in it, minus the start price of this request (see `Stage`).
    """

    old: Ints
    left: Shorts
    started: Flags
    cost: Ints


class _Nodes(NamedTuple):
    """Nodes of one epoch tau in a graph of paths under construction.

    A node stands for the starts at epoch tau, the time between rounds tau and tau + 1, and the
    completions in round tau + 1. It goes from a *base* of epoch tau to one of epoch tau + 1. A base
    records which of some requests, the *followed* ones, run just before the starts of its epoch,
    and how many rounds each has left. The graph is built from an old graph, which records less.
    Each old node is split into new nodes, which agree with it in what the old graph records.

    Attributes
    ----------
    base : int64 array, shape (nodes,)
        Index of the base of epoch tau + 1, in the new graph, to which each node goes.
    node : int64 array, shape (nodes,)
        Index of the node of the old graph that was split into this new node and perhaps others.
    ended : int64 array, shape (nodes,)
        Row number, in the table of `_Sets`, of the set of requests that complete in round tau + 1.
    cost : int64 array, shape (nodes,)
        G, the least cost of a path from the node to the end of the graph, including the cost of the
        node, in units of 1 / `Proof.scale` rounds. The cost of a node is the slack of its epoch
        plus the regrets (cost of the start minus start price) of the followed requests that
        complete in it.
    slack : int64 array, shape (nodes,)
        Lower bound on the slack of the epoch for a schedule that passes the node, in units of
        1 / `Proof.scale` rounds. The slack is the capacity of the epoch (an upper bound on the
        price of all active requests) minus the price of all active requests.
    """

    base: Ints
    node: Ints
    ended: Ints
    cost: Ints
    slack: Ints

    def of(self, kept: Flags) -> _Nodes:
        """Return the nodes for which ``kept`` is True."""
        places = np.flatnonzero(kept)
        return _Nodes(*(column.take(places) for column in self))


class _Sets:
    """Table of distinct sets of requests that complete in one round.

    Each row is a set: it has a flag for each request of the instance.
    """

    def __init__(self, rows: Flags) -> None:
        self.rows = rows
        self._numbers = {row.tobytes(): number for number, row in enumerate(rows)}

    def with_one_more(self, numbers: Ints, i: int) -> Ints:
        """Return the row numbers of the sets that arise by adding request i to given sets.

        ``numbers`` has the row number of each given set. The result has the row number of each new
        set, in the same order. New sets that the table lacks are appended to it.
        """
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
        refuse_above(limits.LARGEST_AXIS, self.rows.size, TOO_MANY)
        return after.take(numbers)


class Building:
    """Builder of a graph, whose paths stand for schedules, with more details than an old graph.

    The graph records the runs of some requests, the *followed* ones. An epoch is the time between
    two rounds. A *base* records which followed requests run at the start of an epoch, before new
    starts, and for how many rounds still. A *node* goes from a base of its epoch to one of the next
    epoch. The builder splits the bases and nodes of the old graph, the last epoch first.

    Parameters
    ----------
    proof : PathProof
        The proof. It has the old graph and counts the array entries visited.
    stage : Stage
        Start prices, and requests of which the new graph records more than the old one.
    budget : int
        Upper bound B on the cost of a path that stands for a schedule within the proof's limit on
        total latency, in units of 1 / `Proof.scale` rounds. A path pays for each epoch a lower
        bound on its slack: its capacity (upper bound on the price of active requests) minus this
        price. It pays for each followed request its regret: the cost of its start (latency plus
        prices) minus its start price.
    forth : list of int64 arrays
        Least cost F of a path from the first base of the old graph up to each of its nodes, without
        the cost of the node. One array per epoch, in the unit of ``budget``.

    Attributes
    ----------
    layers : list[Layer]
        Nodes of the new graph by epoch, from the last epoch to the first.
    bases : list[int]
        Number of bases of each epoch, from the last epoch to the first.
    followed : list[int]
        All requests that the new graph follows.
    """

    def __init__(self, proof: Any, stage: Stage, budget: int, forth: list[Ints]) -> None:
        self.proof, self.above, self.budget, self.forth = proof, stage.above, budget, forth
        self.added, self.tracked = stage.followed, stage.tracked
        self.followed = sorted([*proof.followed, *self.added])
        # `known` has the requests whose remaining rounds are stored for each base (the state at the
        # start of an epoch). Followed requests are those whose runs the graph records. If this
        # stage adds followed requests, `known` has all followed requests, old and added. Otherwise
        # `known` has the requests of which the graph newly records whether they have been started.
        self.known = self.followed if self.added else self.tracked
        self.row = {i: k for k, i in enumerate(self.known)}
        others = [i for i in range(len(proof.rows)) if i not in {*self.followed}]
        self.others = OtherRequests(proof, others, self.known, proof.size)
        self.layers: list[Layer] = []
        self.bases = [1]
        self.built, self.most_nodes = 0, limits.part_of(limits.LARGEST_GRAPH, proof.size)
        self.most_at_once = limits.part_of(limits.LARGEST_AXIS, proof.size)

    def run(self) -> bool:
        """Build the new graph. Return False if no path leads from its first to its last epoch."""
        nothing = np.zeros(1, dtype=np.int64)
        left = np.zeros((len(self.known), 1), dtype=np.int16)
        started = np.ones((len(self.tracked), 1), dtype=np.bool_)
        later = _Bases(nothing, left, started, nothing)
        for tau in range(len(self.proof.layers) - 1, -1, -1):
            found = self._build(tau, later)
            if found is None:
                return False
            later = found
        return True

    def _build(self, tau: int, later: _Bases) -> _Bases | None:
        """Build the nodes of epoch tau, which go to the bases ``later`` of epoch tau + 1.

        The graph records the runs of the *followed* requests. Epoch tau is the time between rounds
        tau and tau + 1. A base records which followed requests run at the start of an epoch, before
        new starts, and for how many rounds still. A node goes from a base of epoch tau to a base of
        epoch tau + 1. Return the bases of epoch tau from which the nodes go, or None if no node is
        left.
        """
        proof, layer = self.proof, self.proof.layers[tau]
        self.tau, self.later = tau, later
        # `free` has, for each base of epoch tau + 1 in the new graph, the tokens that are free in
        # round tau + 1 for the requests that complete in this round. A base is a record of the
        # followed requests (those whose runs the graph records) that run at the start of its epoch.
        # If the new graph has more followed requests than the old one, the free tokens are M minus
        # the tokens of the followed requests that run on after round tau + 1. Otherwise they are
        # all M tokens, because the nodes of the old graph have passed the memory test already.
        self.free = np.full(len(later.old), proof.limit)
        if self.added:
            # Entry (m, r) of ``prices``: price of a request that holds m tokens and still runs for
            # r rounds at epoch tau, the time between rounds tau and tau + 1. After the last priced
            # epoch all prices are 0.
            prices = proof.table(proof.prices[tau : tau + 1]).sum(axis=0)
            self.others.set_epoch(tau, prices, later.left)
            self.free -= self.others.tokens
        used = np.bincount(layer.ended, minlength=len(layer.ends)) > 0
        ends, ended = layer.ends[used], (np.cumsum(used) - 1).take(layer.ended)
        self.sets = _Sets(ends)
        # Sort the nodes of the old graph by the base of epoch tau + 1 to which they go. A base is a
        # record of the followed requests that run at the start of its epoch. Each node has a set of
        # requests that complete in round tau + 1. Sort nodes that go to the same base by the tokens
        # that their sets hold in this round.
        key = layer.after * np.int64(proof.limit + 1) + (ends @ proof.peaks).take(ended)
        order = np.argsort(key)
        key, self.layer = key.take(order), layer._replace(ended=ended, ends=ends).at(order)
        regrets, may_start = proof.regrets(tau)
        # `starts` has the regret of each request i whose runs only the new graph records, and that
        # may complete in round tau + 1. To do so, it starts at t = tau + 1 - o. The regret is the
        # cost P_i(t) of this start, latency plus prices, minus the least cost of any start of i.
        self.starts = {i: int(regrets[i]) for i in self.added if may_start[i]}
        paid = (ends @ (regrets - self.above)).take(self.layer.ended)
        self.arcs = self.layer.slacks + paid
        self.reach = self.budget - self.forth[tau].take(order)
        # Rule *memory* (of `path_proof`): each base b of epoch tau + 1 of the new graph, a record
        # of the requests that run at the start of that epoch, belongs to one base of the old graph.
        # Find the nodes of the old graph that go to this old base and whose completing requests fit
        # into the tokens ``free[b]``. There are ``counts[b]`` such nodes for base b. In the sorted
        # order, they are neighbours, from place ``first[b]`` on.
        lowest = later.old * (proof.limit + 1)
        first = np.searchsorted(key, lowest)
        counts = np.searchsorted(key, lowest + np.maximum(self.free, -1), side="right") - first
        pairs = np.cumsum(counts)
        proof.spend(20 * (limits.CALL + len(key) + len(counts) + int(pairs[-1])))
        parts: list[_Nodes] = []
        cuts = np.searchsorted(pairs, np.arange(AT_ONCE, int(pairs[-1]), AT_ONCE))
        for begin, end in pairwise([0, *np.unique(cuts).tolist(), len(counts)]):
            some = counts[begin:end]
            base = np.repeat(np.arange(begin, end), some)
            node = np.arange(len(base))
            node += np.repeat(first[begin:end] - (np.cumsum(some) - some), some)
            parts.append(self._nodes(base, node))
            self.built += len(parts[-1].base)
            refuse_above(self.most_nodes, self.built, TOO_MANY)
        nodes = _Nodes(*map(np.concatenate, zip(*parts, strict=True)))
        proof.leaves += len(nodes.base)
        return self._join(nodes) if len(nodes.base) else None

    def _nodes(self, base: Ints, node: Ints) -> _Nodes:
        """Build new nodes of epoch tau from pairs (base of the new graph, node of the old graph).

        The graph records the runs of the *followed* requests. Epoch tau is the time between rounds
        tau and tau + 1. A base records which followed requests run at the start of an epoch, before
        new starts, and for how many rounds still. A node goes from a base of epoch tau to a base of
        epoch tau + 1. The new graph follows further requests. So each base of the old graph has
        been split into new bases. A pair consists of a new base of epoch tau + 1, and an old node
        that goes to the old base of which the new base is a part. From each pair, one new node is
        built for each set of further requests that can complete in round tau + 1. It goes to the
        new base of the pair.

        Parameters
        ----------
        base : int64 array, shape (pairs,)
            Index of the base of epoch tau + 1 in the new graph.
        node : int64 array, shape (pairs,)
            Index of the node of epoch tau in the old graph.
        """
        proof, later, sets = self.proof, self.later, self.sets
        cost = later.cost.take(base) + self.arcs.take(node)
        places = np.flatnonzero(cost <= self.reach.take(node))
        node = node.take(places)
        ended, slack = self.layer.ended.take(node), self.layer.slacks.take(node)
        nodes = _Nodes(base.take(places), node, ended, cost.take(places), slack)
        for i, regret in self.starts.items():
            # Request i can complete in round tau + 1 only if it does not run on afterwards: `later`
            # must record 0 remaining rounds at epoch tau + 1, the time after this round. Keep only
            # nodes for which this is so.
            idle = (later.left[self.row[i]] == 0).take(nodes.base)
            idle &= nodes.cost <= self.reach.take(nodes.node) - regret
            more = nodes.of(idle)
            more = more._replace(cost=more.cost + regret, ended=sets.with_one_more(more.ended, i))
            # Rule *memory* (of `path_proof`): keep the nodes whose completing requests, now with i,
            # fit into memory in round tau + 1 together with the followed requests that run on after
            # this round. (Followed requests are those whose runs the graph records.)
            more = more.of((sets.rows @ proof.peaks).take(more.ended) <= self.free.take(more.base))
            nodes = _Nodes(*map(np.concatenate, zip(nodes, more, strict=True)))
            proof.spend(limits.CALL + 20 * len(nodes.base))
            refuse_above(self.most_at_once, len(nodes.base), TOO_MANY)
        for k, i in enumerate(self.tracked):
            # Rule *tracked* (of `path_proof`): each node goes to a base, the record of requests at
            # the start of epoch tau + 1. The base says whether request i, which is tracked, was
            # started at tau or earlier. If so, the request must have arrived by tau. If not, it
            # must not be active at tau. Drop the nodes for which this is false.
            active = (later.left[self.row[i]] > 0).take(nodes.base)
            active |= sets.rows[:, i].take(nodes.ended)
            started = later.started[k].take(nodes.base)
            nodes = nodes.of(started & bool(self.tau >= proof.a[i]) | ~active & ~started)
        if not self.added:
            return nodes
        nodes = nodes.of(self._in_order(nodes))
        # Rule *followed* (of `path_proof`): the slack of a node is the capacity of its epoch, minus
        # the largest total price of requests that can be active together at this epoch. The
        # followed requests (those whose runs the graph records) are in the states that the node
        # records. Other requests may be in any state. The capacity is an upper bound on this price
        # for all nodes.
        capacity = proof.capacity[self.tau] if self.tau < len(proof.capacity) else 0
        slack = capacity - self.others.heaviest(nodes.base, nodes.ended, sets.rows)
        cost = nodes.cost + slack - nodes.slack
        kept = cost <= self.reach.take(nodes.node)
        return nodes._replace(slack=slack, cost=cost).of(kept)

    def _in_order(self, nodes: _Nodes) -> Flags:
        """Return, for each node, whether requests that complete in it respect the order of twins.

        Twins are requests with equal arrival, prompt and output. They start, and so complete, in
        the order of their indices. Several may complete in the same round. So the result is False
        for a node in which a request completes while a twin of smaller index runs on. This is the
        rule *twins* of the proof at the head of `hindsight.certificates.path_proof`.
        """
        kept = np.ones(len(nodes.base), dtype=np.bool_)
        for i in self.followed:
            before = [self.row[j] for j in self.proof.twins_before[i] if j in self.row]
            ends = self.sets.rows[:, i]
            if before and ends.any():
                active = (self.later.left[before] > 0).any(axis=0)
                kept &= ~(ends.take(nodes.ended) & active.take(nodes.base))
        return kept

    def _join(self, nodes: _Nodes) -> _Bases | None:
        """Add the nodes of epoch tau to the new graph. Return the bases from which they go.

        Epoch tau is the time between rounds tau and tau + 1. A node goes from a base of epoch tau
        to a base of epoch tau + 1. A base records which *followed* requests run at the start of its
        epoch, before new starts, for how many rounds still, and which *tracked* requests have been
        started. The stages of the proof list the followed and the tracked requests. Return None if
        no node is left.
        """
        proof, later, ends = self.proof, self.later, self.sets.rows
        proof.spend(limits.CALL + 60 * len(nodes.base))
        started = later.started.take(nodes.base, axis=1)
        for k, i in enumerate(self.tracked):
            started[k] &= self._rounds(nodes, i) < proof.o[i]
        if self.tau == 0 and started.any():
            # For each tracked request, the graph records whether it has been started. No request
            # can have been started before epoch 0, the first. Drop the nodes of epoch 0 that
            # require a tracked request to have been started before.
            first = np.logical_not(started.any(axis=0))
            nodes, started = nodes.of(first), started[:, first]
            if not first.any():
                return None
        # Create the bases of epoch tau in the new graph, from which the new nodes go. A base is a
        # record of requests at the start of its epoch. Each new node is part of a node of the old
        # graph. Two new nodes go from the same base if three things are equal:
        # - the base of the old graph from which their old nodes go,
        # - the remaining rounds, at the start of epoch tau, of each request whose runs only the
        #   new graph records,
        # - the set of tracked requests (those of which the graph records only whether they have
        #   been started) that have been started before epoch tau.
        old = self.layer.before.take(nodes.node)
        rounds = [self._rounds(nodes, i) % int(proof.o[i]) for i in self.added]
        sizes = [proof.bases[self.tau], *proof.o[self.added].tolist(), *[2] * len(self.tracked)]
        chosen, place = numbered([old, *rounds, *started], sizes)
        refuse_above(limits.LARGEST_EPOCH, len(chosen) * len(self.known), TOO_MANY)
        cost = np.full(len(chosen), FAR)
        np.minimum.at(cost, place, nodes.cost)
        columns = (place, nodes.base, nodes.ended)
        before, after, ended = (column.astype(np.int32) for column in columns)
        self.layers.append(Layer(before, after, ended, nodes.slack, ends))
        self.bases.append(len(chosen))
        left = later.left.take(nodes.base.take(chosen), axis=1)
        left += left > 0
        left += ends[:, self.known].take(nodes.ended.take(chosen), axis=0).T
        left[left == proof.o[self.known, None]] = 0
        return _Bases(old.take(chosen).astype(np.int64), left, started.take(chosen, axis=1), cost)

    def _rounds(self, nodes: _Nodes, i: int) -> Shorts:
        """Return, for each node of epoch tau, for how many rounds request i still runs from tau on.

        Epoch tau is the time between rounds tau and tau + 1. The number is 0 if the request is not
        active at epoch tau.
        """
        left = self.later.left[self.row[i]]
        rounds: Shorts = (left + (left > 0)).take(nodes.base)
        rounds += self.sets.rows[:, i].take(nodes.ended)
        return rounds
