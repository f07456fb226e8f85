"""The volume bound as a transportation problem, solved in integers by network simplex.

Every request supplies its volume v_i, every round takes M units, and a unit of request i served in
round r >= a_i + 1 costs r / v_i. The optimum is the sum of mean rounds that no schedule can go
below ([J25] Equation (9) bounds latencies by volumes in the same way); `hindsight.bounds.volume`
has it in closed form, which needs the exchange argument this module does without.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import networkx as nx

from instances import Instance, InvalidValueError

from .idle_gaps import compress
from .volume import mean_busy_time_bound

LARGEST_NETWORK = 20_000
"""Arcs up to which the network is solved by default; some seconds."""


def transportation_bound(instance: Instance) -> int:
    """The mean-busy-time bound: by network simplex where it fits, by the greedy filling elsewhere.

    Both are exact, hence equal up to the rounding of the greedy filling to multiples of 2^-40.
    """
    instance.require_tokens()
    moved = compress(instance).instance
    if _arcs(moved) > LARGEST_NETWORK:
        return mean_busy_time_bound(instance)
    total = cheapest_transportation(moved)
    for request in moved:
        s, o = request.prompt_length, request.output_length
        moment = s * o * (o + 1) // 2 + o * (o + 1) * (2 * o + 1) // 6
        total += o - request.arrival_time - Fraction(moment, request.volume)
    return math.ceil(total)


def cheapest_transportation(instance: Instance) -> Fraction:
    """Smallest sum over requests of the mean round in which their volume is served.

    Raises
    ------
    InvalidValueError
        The network would have more than fifty times `LARGEST_NETWORK` arcs.
    """
    arcs = _arcs(instance)
    if arcs > 50 * LARGEST_NETWORK:
        raise InvalidValueError(None, "arcs", arcs, "are more than network simplex is tried on")
    volumes = instance.volumes.tolist()
    # Whole numbers, which network simplex needs to be exact.
    common = math.lcm(*volumes)
    graph: Any = nx.DiGraph()
    graph.add_node("sink", demand=sum(volumes))
    rounds = _rounds(instance)
    for index, (request, volume) in enumerate(zip(instance, volumes, strict=True)):
        graph.add_node(("request", index), demand=-volume)
        for r in range(request.arrival_time + 1, rounds + 1):
            graph.add_edge(("request", index), ("round", r), weight=r * (common // volume))
    for r in range(1, rounds + 1):
        graph.add_edge(("round", r), "sink", capacity=instance.memory_limit, weight=0)
    cost, _ = nx.network_simplex(graph)
    return Fraction(int(cost), common)


def _rounds(instance: Instance) -> int:
    """Enough to serve everything after the last arrival, so that none is missed."""
    served = -(-int(instance.volumes.sum()) // instance.memory_limit)
    return int(instance.arrival_times.max()) + served


def _arcs(instance: Instance) -> int:
    rounds = _rounds(instance)
    return int((rounds - instance.arrival_times).sum()) + rounds
