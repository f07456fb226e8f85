"""Lower bounds from volumes, without prices, for instances of any size.

Request i occupies v_i = s_i o_i + o_i (o_i + 1) / 2 token-rounds, and a round offers M. Where
weights w_i differ, v_i / w_i takes the place of v_i in every order and price.

*Mean rounds.* In a schedule that starts request i at t_i, the volume of i has the mean round
t_i + sum_j j (s_i + j) / v_i, and the memory held serves every volume within M per round and after
its arrival. So, with the least sum over such services of w_i times the mean round of v_i,

    TEL >= (least sum) + sum_i w_i [ o_i - a_i - sum_j j (s_i + j) / v_i ].

`mean_busy_time_bound` takes the least sum in closed form (`fill_by_volume`).

*Minimum-cost flow.* `transportation_bound` takes it as a flow, solved in integers by network
simplex. Every request i supplies its volume v_i, every round takes M units, and a unit of request i
served in round r >= a_i + 1 costs r w_i / v_i. A request holds at most s_i + o_i tokens in a round,
so no arc takes more. The closed form drops these capacities of the arcs, so its bound is weaker.
"""

from __future__ import annotations

import heapq
import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from instances import Instance, InvalidValueError
from instances.arrays import FloatArray
from instances.problem.request import Request

from .idle_gaps import compress

LONGEST_PRICES = 10_000_000
"""Largest number of prices, one per round, that `filling_prices` returns or a certificate holds."""

LARGEST_NETWORK = 6_000
"""Largest number of arcs in the network of `transportation_bound`, whose flow then takes 0.3 s."""


class VolumeFilling(NamedTuple):
    """Assignment of requests' volumes to rounds, up to M units each, least volume / weight first.

    The volume v_i of a request is the sum over its rounds of the tokens that it holds, and w_i is
    its weight. A round serves up to M units (the memory limit in tokens) of the requests that have
    arrived. It may serve more units of a request than the request could hold tokens in one round.

    Attributes
    ----------
    weighted_rounds : list[int]
        For each request i, the sum over rounds r of r * (units of v_i served in round r).
    marginal_volumes : list[tuple[float, int]]
        Pairs (largest v_i / w_i of the requests served in a round, number of consecutive rounds
        with this value), from round 1 on. The value is infinite for rounds that serve fewer than M
        units, because these could serve one more at no cost.
    """

    weighted_rounds: list[int]
    marginal_volumes: list[tuple[float, int]]

    @property
    def rounds(self) -> int:
        """Return the number of the last round that serves some units; the first is round 1."""
        return sum(count for _, count in self.marginal_volumes)


def fill_by_volume(instance: Instance) -> VolumeFilling:
    """Assign the volumes v_i of requests to rounds greedily, up to M units per round.

    The volume of a request is the sum over its rounds of the tokens that it holds. Serving a unit
    of the volume of request i, of weight w_i, in round r costs r w_i / v_i. The total cost is least
    if each unit of memory serves, of the requests that have arrived, the one of smallest v_i / w_i.
    The time is O(n log n). Proof by exchange: let a unit of i be served in round r, and a unit of j
    in a later round r', although j has arrived by r and w_j / v_j > w_i / v_i. Swapping them saves
    (r' - r) (w_j / v_j - w_i / v_i) > 0.
    """
    instance.require_tokens()
    left, limit = instance.volumes.tolist(), instance.memory_limit
    sizes: list[Any] = list(left)
    if instance.is_weighted:
        sizes = [Fraction(request.volume, request.weight) for request in instance]
    arrivals = instance.arrival_times.tolist()
    order = sorted(range(len(left)), key=arrivals.__getitem__)
    weighted = [0] * len(left)
    served: list[tuple[float, int]] = []
    # Entries of the queue are (v_i / w_i as a float, v_i / w_i exactly, i), with v_i the volume and
    # w_i the weight of request i. Floats are compared first, because comparing fractions takes
    # longer. Rounding to floats never reverses an order, and the fractions decide between equal
    # floats.
    queue: list[tuple[float, Any, int]] = []
    # ``now`` is the number of units of memory, M per round from round 1 on, that have been used or
    # skipped. The next unit belongs to round now // M + 1. Requests arrive only between rounds.
    # Within a round, those of smallest (volume v_i) / (weight w_i) are served first. So the last
    # unit served in a full round has the largest v_i / w_i of the round.
    now = position = 0
    while position < len(order) or queue:
        if not queue:
            # The volumes of all requests that have arrived are served completely. Skip the rest of
            # this round, and all rounds up to the next arrival.
            first = max(-(-now // limit), arrivals[order[position]])
            served.append((math.inf, first - now // limit))
            now = first * limit
        while position < len(order) and arrivals[order[position]] * limit <= now:
            index = order[position]
            heapq.heappush(queue, (float(sizes[index]), sizes[index], index))
            position += 1
        size, _, index = queue[0]
        units = left[index]
        if position < len(order):
            units = min(units, arrivals[order[position]] * limit - now)
        full, then = now // limit, (now + units) // limit
        # Serve ``units`` of the volume (tokens held, summed over rounds) of request ``index``. Add
        # the round number of each unit, full + 1 + j with j = 0 .. begun, to ``weighted[index]``.
        # Rounds with j = 1 .. begun - 1 serve ``limit`` units each. If begun > 0, the round with
        # j = begun serves now - then * limit units.
        begun = then - full
        weighted[index] += units * (full + 1) + limit * (begun * (begun - 1) // 2)
        now += units
        weighted[index] += (now - then * limit) * begun
        served.append((size, begun))
        left[index] -= units
        if left[index] == 0:
            heapq.heappop(queue)
    served.append((math.inf, int(now % limit > 0)))
    return VolumeFilling(weighted, [run for run in served if run[1]])


def _moment(request: Request) -> int:
    """Return the sum over j = 1 .. o of j (s + j), for prompt length s and output length o.

    A request that starts at 0 holds s + j tokens in round j. Its volume v is the sum of these
    numbers over its rounds. The result divided by v is the mean of the round numbers j, weighted by
    the tokens that the request holds in each round.
    """
    o = request.output_length
    return request.prompt_length * o * (o + 1) // 2 + o * (o + 1) * (2 * o + 1) // 6


def mean_busy_time_bound(instance: Instance, filling: VolumeFilling | None = None) -> int:
    """Return a lower bound on total latency from the mean rounds in which requests hold memory.

    The volume of a request is the sum over its rounds of the tokens that it holds. A request that
    runs without a break has a latency of (mean round of its volume) plus a constant. The bound uses
    the least weighted sum of these mean rounds if the volumes may be served in any rounds after the
    arrivals, at most M units per round, where M is the memory limit. It is computed in integers:
    each term is rounded down to a small fraction of a round, and the sum is rounded up.

    Parameters
    ----------
    instance : Instance
        The problem, with memory counted in tokens.
    filling : VolumeFilling or None, default None
        The result of `fill_by_volume` for the instance, if computed already.
    """
    filling = filling or fill_by_volume(instance)
    # The bound is a sum with one term per request. Each term is rounded down to a multiple of 2^-40
    # rounds before the terms are added.
    scale, total = 1 << 40, 0
    for request, weighted in zip(instance, filling.weighted_rounds, strict=True):
        unit = scale * request.weight
        total += unit * (request.output_length - request.arrival_time)
        total += unit * (weighted - _moment(request)) // request.volume
    return -(-total // scale)


def filling_prices(filling: VolumeFilling) -> FloatArray:
    """Return a price per token of memory in each round: good initial prices for an ascent.

    They are optimal dual prices of the transport of units of volume to rounds in ``filling``, where
    each round serves up to M units, with M the memory limit. The price of round r is the sum of 1 /
    (largest marginal volume of rounds r, ..., u) over the rounds u from r to the next round that
    serves fewer than M units, whose price is 0. If round r served one unit less, a unit of the
    request served last would move to the next round, in place of one with the same or a larger
    (volume / weight), which would move too, and so on until a round that serves fewer than M units.
    The result has one price for each round from round 1 on, or none if there are more than
    `LONGEST_PRICES` rounds.
    """
    end = filling.rounds
    if end > LONGEST_PRICES:
        return np.zeros(0)
    # ``later`` has pairs (marginal volume, first round of it) of later rounds. The last pair is of
    # the next round, and every other one of the next round of no smaller marginal volume.
    prices, later = np.zeros(end + 1), [(math.inf, end)]
    for size, count in reversed(filling.marginal_volumes):
        while later[-1][0] < size:
            later.pop()
        to_larger = later[-1][1] - np.arange(end - count, end)
        prices[end - count : end] = prices[later[-1][1]] + to_larger / size
        end -= count
        later.append((size, end))
    return prices[:-1]


def makespan_lower_bound(instance: Instance) -> int:
    """Return a lower bound on the makespan, the round of the last completion.

    It is the largest of the following numbers. A request of arrival a and output length o completes
    at a + o or later. For every arrival time a, the requests that arrive at a or later hold all
    their tokens in rounds after a, at most M tokens per round, with M the memory limit. Over all
    its rounds, a request of prompt length s holds s o + o (o + 1) / 2 tokens, its volume. So the
    makespan is at least a + ceil(sum of these volumes / M).
    """
    instance.require_tokens()
    bound = volume = 0
    for request in sorted(instance, key=lambda request: -request.arrival_time):
        volume += request.volume
        filled = request.arrival_time - (-volume // instance.memory_limit)
        bound = max(bound, request.arrival_time + request.output_length, filled)
    return bound


def transportation_bound(instance: Instance) -> int:
    """Return the lower bound on total latency that the cheapest flow of volumes to rounds proves.

    The volume of a request is the sum over its rounds of the tokens that it holds. The network has
    an arc from each request to each round after its arrival, and from each round to the sink. A
    round serves up to M units, with M the memory limit. A unit of volume served in round r costs r
    * (weight of the request) / (volume of the request). The flow is computed exactly, by network
    simplex.

    Raises
    ------
    InvalidValueError
        The network would have more than `LARGEST_NETWORK` arcs.
    """
    instance.require_tokens()
    moved = compress(instance).instance
    rounds = _rounds(moved)
    arcs = len(moved) * rounds - sum(moved.arrival_times.tolist()) + rounds
    if arcs > LARGEST_NETWORK:
        reason = f"must be at most {LARGEST_NETWORK}: use mean_busy_time_bound"
        raise InvalidValueError(None, "arcs", arcs, reason)
    total = cheapest_flow(moved)
    for request in moved:
        mean = Fraction(_moment(request), request.volume)
        total += request.weight * (request.output_length - request.arrival_time - mean)
    return math.ceil(total)


def small_transportation_bound(instance: Instance) -> int | None:
    """Return `transportation_bound`, or None if its network is too large or memory is in blocks.

    The network, with arcs from requests to rounds, may have at most `LARGEST_NETWORK` arcs.
    """
    try:
        return transportation_bound(instance)
    except InvalidValueError:
        return None


def cheapest_flow(instance: Instance) -> Fraction:
    """Return the least sum of (weight of a request) * (mean round in which its volume is served).

    The sum is over all requests. The volume of a request is the sum over its rounds of the tokens
    that it holds. It may be served in any rounds after the arrival. A round serves up to M units of
    volume (the memory limit), and at most s + o units (prompt plus output length) of one request.
    """
    # networkx is imported only here: it takes 0.2 s to load, and most solves do not need it.
    import networkx as nx

    volumes = instance.volumes.tolist()
    # Network simplex is exact only for integers. A unit of the volume of a request costs round *
    # weight / volume, so multiply all costs by the least common multiple of all volumes.
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
    """Return the number of a round after which the cheapest flow of volumes serves nothing.

    The volume of a request is the sum over its rounds of the tokens that it holds. A round serves
    at most M units of volume (the memory limit), and at most s + o units (prompt plus output
    length) of one request. Let a request be served in round r. Each round after the last arrival
    and before r is full, or serves s + o units of this request: otherwise a unit could move from r
    to that round, which costs less. Round r serves a unit too. So the rounds before r serve less
    than the sum of all volumes, and fewer than ceil(sum / M) of them are full. They also serve less
    than the volume of the request, which is at most o (s + o), so fewer than o of them serve s + o
    units of it. Together, r is at most the last arrival + ceil(sum / M) + o.
    """
    served: int = -(-sum(instance.volumes.tolist()) // instance.memory_limit)
    return int(instance.arrival_times.max()) + served + int(instance.output_lengths.max())
