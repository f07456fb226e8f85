"""A lower bound from volumes as a minimum-cost flow, solved in integers by network simplex.

Every request i supplies its volume v_i, every round takes M units, and a unit of request i served
in round r >= a_i + 1 costs r w_i / v_i. A request holds at most s_i + o_i tokens in a round, so no
arc takes more. In a schedule that starts i at t_i the units of i have the mean round
t_i + sum_j j (s_i + j) / v_i, and the memory held is a flow: so

    TEL >= (cheapest flow) + sum_i w_i [ o_i - a_i - sum_j j (s_i + j) / v_i ].

`hindsight.prices.volume` drops the capacities of the arcs, which gives a closed form and a weaker
bound.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from hindsight.prices.idle_gaps import compress
from instances import Instance, InvalidValueError
from instances.problem.memory_rule import TOKENS

LARGEST_NETWORK = 6_000
"""Largest number of arcs for which the flow is computed; that takes about 0.3 s."""


def transportation_bound(instance: Instance) -> int:
    """Return the lower bound on total latency that the cheapest flow of volumes proves, exactly.

    Raises
    ------
    InvalidValueError
        The network would have more than `LARGEST_NETWORK` arcs.
    """
    instance.require_tokens()
    moved = compress(instance).instance
    arcs = _arcs(moved)
    if arcs > LARGEST_NETWORK:
        reason = (
            f"exceed the {LARGEST_NETWORK} of network simplex: use mean_busy_time_bound instead"
        )
        raise InvalidValueError(None, "arcs", arcs, reason)
    total = cheapest_flow(moved)
    for request in moved:
        s, o = request.prompt_length, request.output_length
        moment = s * o * (o + 1) // 2 + o * (o + 1) * (2 * o + 1) // 6
        mean = Fraction(moment, request.volume)
        total += request.weight * (o - request.arrival_time - mean)
    return math.ceil(total)


def small_transportation_bound(instance: Instance) -> int | None:
    """Return `transportation_bound`, or None if the network is too large or memory is in blocks."""
    if instance.memory_rule != TOKENS or _arcs(compress(instance).instance) > LARGEST_NETWORK:
        return None
    return transportation_bound(instance)


def cheapest_flow(instance: Instance) -> Fraction:
    """Return the least weighted sum of the mean rounds in which requests' volumes are served."""
    import networkx as nx

    volumes = instance.volumes.tolist()
    # Network simplex is exact for integers only: scale by a common multiple of the volumes.
    common = math.lcm(*volumes)
    rounds = _rounds(instance)
    graph: Any = nx.DiGraph()
    graph.add_node("sink", demand=sum(volumes))
    for index, (request, volume) in enumerate(zip(instance, volumes, strict=True)):
        most = request.prompt_length + request.output_length
        cost = request.weight * (common // volume)
        graph.add_node(index, demand=-volume)
        for r in range(request.arrival_time + 1, rounds + 1):
            graph.add_edge(index, ("round", r), weight=r * cost, capacity=most)
    for r in range(1, rounds + 1):
        graph.add_edge(("round", r), "sink", capacity=instance.memory_limit, weight=0)
    cost, _ = nx.network_simplex(graph)
    return Fraction(int(cost), common)


def _rounds(instance: Instance) -> int:
    """Return a number of rounds that suffices for the cheapest flow.

    Let a request be served in round r. In each round from the last arrival to r, either it is
    served up to its limit, in at most o rounds, or the round is full: else it could move there.
    """
    served: int = -(-sum(instance.volumes.tolist()) // instance.memory_limit)
    return int(instance.arrival_times.max()) + served + int(instance.output_lengths.max())


def _arcs(instance: Instance) -> int:
    rounds = _rounds(instance)
    idle: int = sum(instance.arrival_times.tolist())
    return len(instance) * rounds - idle + rounds
