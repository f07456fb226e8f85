"""Path graphs from their definition in `hindsight.paths.graph`, without its kernels.

A node is (epoch, members), with members the active followed requests as pairs (request, start).
Twin of `hindsight.paths.layer_kernels` and `hindsight.paths.anonymous_states`.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations
from typing import Any, NamedTuple

from brute_force import State, heaviest

FAR = 1 << 60

Node = tuple[int, frozenset[tuple[int, int]]]


class Graph(NamedTuple):
    """Arcs to the next epoch with their costs, arcs to one more start, and costs to the end."""

    later: dict[Node, tuple[Node, int]]
    parents: dict[Node, Node]
    costs: dict[Node, int]


def priced_states(
    columns: Any, followed: Any, tau: int, prices: Any
) -> tuple[Counter[State], dict[State, int]]:
    """States of requests that are not followed, with how many there may be and their prices."""
    s, o, a, _ = columns
    copies = Counter[State]()
    for i in [i for i in range(len(s)) if not followed[i]]:
        for age in range(min(int(o[i]) - 1, tau - int(a[i])) + 1):
            copies[int(s[i]) + age, int(o[i]) - age] += 1
    return copies, {state: int(prices[state]) for state in copies}


def slack(priced: Any, followed: Any, node: Node) -> int:
    """W_tau, less the price of the members, less that of the heaviest anonymous states."""
    (tau, members), (s, o, _, limit) = node, priced.columns
    if tau >= len(priced.capacities):
        return 0
    states = [(int(s[i]) + tau - t, int(o[i]) - tau + t) for i, t in members]
    prices = priced.prices[tau]
    total = sum(int(prices[state]) for state in states)
    anonymous = priced_states(priced.columns, followed, tau, prices)
    return int(priced.capacities[tau]) - total - int(heaviest(*anonymous, limit, states))


def paid(graph: Graph) -> dict[Node, int]:
    """The least cost of a path from the beginning to each node."""
    costs = dict.fromkeys(graph.costs, FAR) | {(0, frozenset[tuple[int, int]]()): 0}
    # Within an epoch, nodes with fewer starts come first.
    for node in sorted(costs, key=lambda one: (one[0], sum(t == one[0] for _, t in one[1]))):
        if node in graph.parents:
            costs[node] = costs[graph.parents[node]]
        if node in graph.later and costs[node] < FAR:
            target, cost = graph.later[node]
            costs[target] = min(costs[target], costs[node] + cost)
    return costs


def finer(priced: Any, coarse: Graph | None, old: Any, followed: Any, u: Any) -> Graph:
    """The graph of the followed requests; ``coarse`` follows ``old``, None follows nobody."""
    s, o, a, limit = priced.columns
    budget, end = priced.budget(u), (priced.epochs, frozenset[tuple[int, int]]())
    before = {} if coarse is None else paid(coarse)
    graph, above = Graph({}, {}, {end: 0}), [end]
    for tau in range(priced.epochs - 1, -1, -1):
        ending = [(i, tau + 1 - int(o[i])) for i in range(len(s)) if followed[i]]
        ready = [(i, t) for i, t in ending if t >= a[i]]
        for later in above:
            active = {i for i, _ in later[1]}
            for ended in chain(*(combinations(ready, size) for size in range(len(ready) + 1))):
                node = tau, later[1] | frozenset(ended)
                image = tau, frozenset(one for one in node[1] if old[one[0]])
                # A request is active once; of identical ones the smaller index starts first.
                pairs = [(i, j) for i, _ in ended for j in active if j <= i]
                memory = sum(int(s[i]) + tau + 1 - t for i, t in node[1])
                if memory > limit or any(priced.kinds[i] == priced.kinds[j] for i, j in pairs):
                    continue
                cost = slack(priced, followed, node)
                cost += sum(int(priced.starts[i, t]) - int(u[i]) for i, t in ended)
                total, known = graph.costs[later] + cost, 0
                if coarse is not None:
                    known = before[image] if image in coarse.later else FAR
                if total + known <= budget:
                    graph.later[node] = later, cost
                    graph.costs[node] = min(total, graph.costs.get(node, FAR))
        for count in range(len(s), 0, -1):
            for node in {one for one in graph.costs if one[0] == tau}:
                fresh = [i for i, t in node[1] if t == tau]
                if len(fresh) == count:
                    parent = tau, node[1] - {(max(fresh), tau)}
                    graph.parents[node] = parent
                    least = graph.costs.get(parent, FAR)
                    graph.costs[parent] = min(least, graph.costs[node])
        above = [n for n in graph.costs if n[0] == tau and all(t < tau for _, t in n[1])]
    return graph
