"""Proofs by graphs of paths: no schedule has a total latency within a limit.

The proof has state prices as in `hindsight.certificates.state_proofs`, a limit, and stages after
which no path with a total latency of at most the limit is left: the lower bound is the limit + 1.
A stage gives start prices, and requests that nodes record from then on. If start prices, requests
or the limit are wrong, paths are left and the check fails. No false bound is accepted.

This module is part of the checker (`hindsight.certificates.checking`). It shares no code with the
graphs of the solver and uses fewer rules, each of which is proved here in a few lines.

**Paths.** Let Q, W, P_i be the prices, capacities and priced costs of starts of the certificate
(`hindsight.certificates.state_proofs`). For any numbers u_i, call P_i(t_i) - u_i the *regret* of
request i, and W_tau less the price of all requests active at tau the *slack* of epoch tau. With
L = sum u_i - sum W_tau, every schedule has

    scale * TEL = L + regrets of all requests + slacks of all epochs,                         (1)

so in a schedule within the limit, regrets and slacks sum to at most B = scale * limit - L.

A *graph* has *nodes* and *bases* at each epoch. A base stands for a point in time: the start of its
epoch, before any request starts. A node leads from a base of its epoch to a base of the next epoch,
at a *cost*. The graph *holds* a schedule if some path from its first base to its last one follows
the schedule, such that each node costs at most the slack of its epoch plus the regrets of the
*followed* requests that complete in its round. This must be true for any start prices of the
followed requests, with u_i = min P_i for all others. (Those have regrets >= 0, and no slack is
negative.) The first graph follows no request: a chain that costs nothing. It holds all schedules.

**Dropping.** For the u of a stage, let F be the least cost of a path to a node, and G that of a
path from it to the end, its own cost included. Nodes with F + G > B are left out: by (1), no
schedule within the limit that the graph holds passes them.

**Telling apart.** A new graph records more about requests than the old one. Each node and base of
the old graph is split by the new records:

* *followed*: whether the request is active, and since when. The node of the round in which it
  completes costs its regret. The slack of a node is then W_tau, less the price of the active
  followed requests, less the most that others can add to it (`hindsight.certificates.path_states`);
* *tracked*: whether the followed request has been started. A schedule starts each request once: a
  path must not start it again, and must have started it by the end. (An active request has been
  started.)

The new graph is built from its end to its start. A new node is left out at once if F of its old
node plus its own G exceeds B for the u of the stage: a schedule that passes the new node paid at
least F before, because the newly followed requests have regrets >= 0, and at least G from there on.

New nodes that no schedule within the limit needs are left out:

* *fixed starts*: with u_i = min P_i for all i, no term in (1) is negative, so no schedule within
  the limit starts i at a t with P_i(t) - min P_i > B. After the last price P_i grows by scale per
  round. So there is a last start, and a last epoch;
* *memory*: the requests active at tau fit into round tau + 1. If memory is counted in blocks,
  prices are those of a relaxed instance in tokens (`hindsight.certificates.problem`), but here each
  request holds whole blocks. If all requests are followed, paths are schedules in blocks. Requests
  that are equal in the relaxed instance hold equal blocks (see `Rows` there);
* *twins*: of requests with equal (a, s, o), none starts while one of larger index that started
  earlier is active. Sorting the starts of equal requests changes neither memory nor latency.

**Claim.** If there are schedules within the limit, one of them has its twins in order, and each
stage keeps it as a path. So if no path is left, there is no such schedule.

Work is counted before it is done, and the memory in use is limited.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import limits
from .format import LIMIT, demand, keys_of, list_of, refuse_above, shown, whole, wholes
from .path_layers import FAR, Building, Layer, Stage
from .problem import Row
from .proofs import Flags, Ints, SearchFailedError
from .state_proofs import StateProof

TOO_LARGE = "proof: the prices or the scale are too large"


class PathProof(StateProof):
    """Proof that no schedule has a total latency within a limit, by graphs of paths.

    A path goes through all epochs, the times between rounds. Every schedule within the limit is a
    path, and the cost of this path is at most a number B. Each stage of the proof drops the nodes
    of the graph through which every path costs more than B, until no path is left.
    """

    sees_replicas = False
    keys = ("states", "prices", "limit", "stages")

    def bound(self) -> int:
        """Check that the graphs leave no path within the limit of the proof. Return the limit + 1.

        The limit is the largest total latency, in rounds, that the proof excludes. Each stage of
        the proof has start prices, the multipliers of "request i starts once".

        Raises
        ------
        SearchFailedError
            Paths are left after the last stage, or the schedule of the certificate has a total
            latency within the limit.
        CertificateTooLargeError
            The prices, the start prices or a graph exceed a limit of the checker.
        """
        limit = whole(self.part["limit"], "limit")
        stages = self._stages()
        self.read_prices(of_each_start=True)
        # `size` is the number of integers in the proof and its instance: arrival, prompt and output
        # of each request, prices, and the entries of all stages. The limits of the checker grow
        # with `size` (`limits.part_of`).
        named = sum(len(one) for stage in self.part["stages"] for one in stage.values())
        self.size = 3 * len(self.rows) + self.prices.size + named
        self.most_work = limits.part_of(limits.LARGEST_WORK, self.size)
        reason = f"stages: paths with a total latency within {limit} are left"
        self._refuse_schedule_within(limit, reason)
        self._begin(limit)
        if self.budget >= 0 and not any(self._closes(stage) for stage in stages):
            raise SearchFailedError(reason)
        return limit + 1

    def _stages(self) -> list[Stage]:
        """Read the stages of the proof, in order.

        A stage has a start price, which may be any number, for each request that earlier stages
        list as *followed*. It also lists the requests that are followed from this stage on (the
        graph records them while they run), and those that are *tracked* from this stage on (the
        graph records whether they have been started).
        """
        listed = list_of(self.part["stages"], "stages")
        refuse_above(limits.MOST_STAGES, len(listed), "stages: too many")
        followed: set[int] = set()
        tracked: set[int] = set()
        stages = []
        for position, part in enumerate(listed):
            where = f"stage {position}"
            keys_of(part, ("start_prices", "followed", "tracked"), where)
            above = np.zeros(len(self.rows), dtype=np.int64)
            prices = wholes(part["start_prices"], where, minimum=-LIMIT)
            counts = f"{len(prices)} start prices for {len(followed)} followed requests"
            demand(len(prices) == len(followed), f"{where}: {counts}")
            above[sorted(followed)] = prices
            new = self._requests(part["followed"], followed, where)
            more = self._requests(part["tracked"], tracked, where)
            demand(tracked <= followed, f"{where}: tracks a request that is not followed")
            stages.append(Stage(above, new, more))
        return stages

    def _requests(self, part: Any, before: set[int], where: str) -> list[int]:
        """Read one list of requests of a stage: those newly followed, or those newly tracked.

        A proof refines a graph of paths in stages (`_stages`). From the stage that lists a request
        on, the graph records which rounds it runs in, if it is followed, and also whether it has
        been started before, if it is tracked. ``part`` is the list in the certificate. ``before``
        has the requests that earlier stages list as followed, or as tracked. No request may be
        listed a second time. The new requests are added to ``before`` and returned as sorted
        indices. ``where`` is the name of the stage in error messages.
        """
        new = wholes(part, where)
        for i in new:
            demand(i < len(self.rows), f"{where}: there is no request {shown(i)}")
        is_new = len({*new}) == len(new) and not before & {*new}
        demand(is_new, f"{where}: names a request twice")
        before |= {*new}
        return sorted(new)

    def _begin(self, limit: int) -> None:
        """Compute the cost of each start and the budget B, and make the first graph of paths.

        An epoch is the time between two rounds. The cost of a start is latency plus prices. The
        regret of a request is the cost of its start minus the least cost of any of its starts. The
        slack of an epoch is its capacity, an upper bound on the price of all active requests, minus
        this price. B is an upper bound on the sum of all regrets and slacks of every schedule with
        a total latency of at most ``limit`` rounds. The first graph records nothing about requests:
        it is a chain with one node per epoch.
        """
        rows, scale = self.rows, self.scale
        self.capacity = self.capacities()
        n, T = len(rows), len(self.capacity)
        arrivals, _, outputs = zip(*rows, strict=True)
        last = max(T, *arrivals)
        # ``largest`` is an upper bound on the cost P_i(t), latency plus prices, of each request i
        # and each start t <= last. At epoch ``last`` (the time after round ``last``), all requests
        # have arrived, and from then on all prices are 0.
        largest = sum(self.capacity) + scale * (last + max(outputs))
        refuse_above(FAR // (8 * n) - 1, largest, TOO_LARGE)
        self.a, _, self.o = np.array(rows, dtype=np.int64).T
        stored = np.array(self.instance.stored, dtype=np.int64)
        self.peaks = self.instance.given.memory_rule.held(stored + self.o)
        self.costs = self.start_costs()
        early = np.arange(T + 1) < self.a[:, None]
        self.least = np.where(early, FAR, self.costs).min(axis=1)
        self.least[self.a > T] = scale * self.o[self.a > T]
        self.budget = scale * limit + sum(self.capacity) - sum(self.least.tolist())
        # Rule *fixed starts* of the proof at the head of this module: at epoch ``last``, all
        # requests have arrived and no price applies any more. So each round by which a request
        # starts later raises its cost by ``scale``. A start at last + x has a regret (its cost
        # minus the least cost of any start) of at least scale * x. In a schedule within the limit
        # on total latency, no regret exceeds the budget B. So x <= B / scale, and no request is
        # active after the first ``epochs`` epochs.
        epochs = last + max(0, self.budget) // scale + max(outputs) + 1
        refuse_above(limits.LONGEST_PATH, epochs, "proof: its paths have too many epochs")
        self.spend(3 * limits.CALL * epochs)
        self.largest = n * (scale * (epochs + max(outputs)) + sum(self.capacity))
        twins: dict[Row, list[int]] = {}
        self.twins_before = []
        for i, row in enumerate(rows):
            self.twins_before.append(list(twins.get(row, [])))
            twins.setdefault(row, []).append(i)
        self.followed: list[int] = []
        nobody, one = np.zeros((1, n), dtype=np.bool_), np.zeros(1, dtype=np.int32)
        chain = Layer(one, one, one, np.zeros(1, dtype=np.int64), nobody)
        self.layers, self.bases = [chain] * epochs, [1] * (epochs + 1)

    def _closes(self, stage: Stage) -> bool:
        """Apply a stage of the proof to the graph, and return whether no path is left.

        Under the start prices of the stage (multipliers of "request i starts once"), every schedule
        within the limit on total latency is a path that costs at most B. Drop the nodes through
        which every path costs more than B. If the stage has requests to follow (record while they
        run) or track (record whether they have been started), replace the graph by one that also
        records these.
        """
        paid = sum(map(abs, stage.above.tolist()))
        refuse_above(FAR // 4 - 1, self.largest + paid + abs(self.budget), TOO_LARGE)
        budget = self.budget - sum(stage.above.tolist())
        forth = self._drop(stage.above, budget)
        if forth is None:
            return True
        if not stage.followed and not stage.tracked:
            return False
        building = Building(self, stage, budget, forth)
        if not building.run():
            return True
        self.layers, self.bases = building.layers[::-1], building.bases[::-1]
        self.followed = building.followed
        return False

    def _drop(self, above: Ints, budget: int) -> list[Ints] | None:
        """Drop the nodes through which every path costs more than the budget B: F + G > B.

        An epoch is the time between two rounds. F is the least cost of a path from the start of the
        graph to a node. G is that of a path from the node to the end, the cost of the node
        included. The budget B bounds the cost of every schedule within the limit on total latency.
        A node costs the slack of its epoch (its capacity, an upper bound on the price of all active
        requests, minus this price) plus, for each followed request (one whose runs the graph
        records) that completes in it, the cost P_i(t) of its start minus its start price u_i, a
        number that the proof gives.

        Return F of the nodes that are left, one array per epoch, or None if no path is left.
        ``above`` has, for each request i, u_i minus the least P_i(t). All costs are in units of 1 /
        `Proof.scale` rounds.
        """
        layers, bases = self.layers, self.bases
        self.spend(3 * limits.CALL * len(layers) + 10 * sum(len(layer.before) for layer in layers))
        arcs: list[Ints] = []
        back: list[Ints] = []
        on = np.zeros(bases[-1], dtype=np.int64)
        # Compute G, the least cost of a path from each node to the end of the graph. The regret of
        # a request is here the cost of its start minus its start price (a number that the stage
        # gives).
        for tau in range(len(layers) - 1, -1, -1):
            layer = layers[tau]
            regrets = self.regrets(tau)[0] - above
            arcs.append(layer.slacks + (layer.ends.astype(np.int64) @ regrets)[layer.ended])
            back.append(arcs[-1] + on[layer.after])
            on = np.full(bases[tau], FAR)
            np.minimum.at(on, layer.before, back[-1])
        forth: list[Ints] = []
        on = np.zeros(1, dtype=np.int64)
        # Compute F, the least cost of a path from the start of the graph to each node.
        for tau, layer in enumerate(layers):
            paid = on[layer.before]
            arc, kept = arcs.pop(), np.flatnonzero(paid + back.pop() <= budget)
            if not len(kept):
                return None
            on = np.full(bases[tau + 1], FAR)
            np.minimum.at(on, layer.after[kept], (paid + arc)[kept])
            # Replace the layer (the nodes of epoch tau) only if some of its nodes are dropped. In
            # the first graph, all epochs share one layer object, which saves memory.
            layers[tau] = layer if len(kept) == len(paid) else layer.at(kept)
            forth.append(paid[kept])
        return forth

    def regrets(self, tau: int) -> tuple[Ints, Flags]:
        """Return the regret of each request that completes in round tau + 1.

        Request i completes in round tau + 1 if it starts at t = tau + 1 - o. Its regret is the cost
        P_i(t) of this start (latency plus prices) minus the least cost of any of its starts, in
        units of 1 / `Proof.scale` rounds. Also return, for each request, whether a schedule within
        the limit on total latency may have this start.
        """
        T, starts = len(self.capacity), tau + 1 - self.o
        costs = self.costs[np.arange(len(starts)), np.clip(starts, 0, T)]
        regrets: Ints = costs + self.scale * np.maximum(starts - T, 0) - self.least
        # Rule *fixed starts* of the proof at the head of this module: no schedule within the limit
        # on total latency has a start with a regret above the budget B, because B bounds the sum of
        # all regrets and slacks of such a schedule, and none of them is negative. A regret is the
        # cost of a start minus the least cost of any start of the request, and a slack the capacity
        # of an epoch minus the price of the requests active then.
        return regrets, (starts >= self.a) & (regrets <= self.budget)
