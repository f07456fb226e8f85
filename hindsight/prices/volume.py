"""Lower bounds from volumes alone, without a solver, for instances of any size.

Request i occupies v_i = s_i o_i + o_i (o_i + 1) / 2 token-rounds, and a round offers M. Where
weights w_i differ, v_i / w_i takes the place of v_i in every order and price.
"""

from __future__ import annotations

import heapq
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import plain, plain_at_first, step
from instances import Instance
from instances.arrays import FloatArray, IntArray, read_only

from .idle_gaps import compress

SCALE_BITS = 40
"""Fractions are rounded down to multiples of 2^-40 before they are added; the bound stays valid."""

LONGEST_PRICES = 10_000_000
"""Last round that may have a price: prices are arrays, and a certificate holds at most so many."""


class VolumeFilling(NamedTuple):
    """Greedy filling of rounds with up to M units of volume each, smallest v_i / w_i first.

    Attributes
    ----------
    weighted_rounds : list[int]
        Sum over rounds r of r times the units of request i served in r, per request.
    marginal_volumes : list[tuple[int or Fraction, int]]
        Largest v_i / w_i of a request served in each round from round 1 on, as pairs (v_i / w_i,
        number of consecutive rounds); 0 where the rounds are not full, so that one more unit could
        be served at no cost.
    """

    weighted_rounds: list[int]
    marginal_volumes: list[tuple[int | Fraction, int]]

    @property
    def rounds(self) -> int:
        """Return the last round in which any volume is served."""
        return sum(count for _, count in self.marginal_volumes)


def fill_by_volume(instance: Instance) -> VolumeFilling:
    """Serve the volumes of requests greedily, in O(n log n).

    Serving a unit of request i in round r costs r w_i / v_i. Serving always the arrived request of
    smallest v_i / w_i minimises the total (an exchange argument: of two units served in rounds
    r < r', the one with the larger w / v belongs in r).
    """
    instance.require_tokens()
    volumes, arrivals = instance.volumes, instance.arrival_times
    keys, sizes = volumes, None
    if instance.is_weighted:
        # Ranks from 1 on stand for v_i / w_i in the loop: 0 marks rounds that are not full.
        fractions = [Fraction(request.volume, request.weight) for request in instance]
        sizes = [Fraction(0), *sorted(set(fractions))]
        rank_of = {size: rank for rank, size in enumerate(sizes)}
        keys = read_only([rank_of[one] for one in fractions], np.int64)
    order = np.argsort(arrivals, kind="stable")
    limit, last = instance.memory_limit, int(arrivals.max())
    rounds = last + volumes.sum(dtype=object) // limit + len(order)
    fill = _fill
    if 4 * max(int(volumes.max()), limit) * (rounds + 1) >= 2**62:
        # int64 could overflow: compute with Python's integers.
        fill = plain(_fill)
        volumes, arrivals = volumes.astype(object), arrivals.astype(object)
        keys = keys.astype(object)
    weighted, marginal = fill((volumes, keys), arrivals, order, limit)
    if sizes is not None:
        marginal = [(sizes[rank], count) for rank, count in marginal]
    return VolumeFilling(weighted.tolist(), marginal)


@plain_at_first
def _fill(
    requests: tuple[IntArray, IntArray], arrivals: IntArray, order: IntArray, limit: int
) -> tuple[IntArray, list[tuple[Any, int]]]:
    """Compute `fill_by_volume` for volumes and sort keys of requests; the smallest key is first.

    ``now`` counts the units of capacity that have passed: unit ``now`` belongs to round
    ``now`` // M + 1. Requests arrive between rounds, so sort keys do not decrease within a round,
    and the largest key of a full round is that of its last unit.
    """
    volumes, keys = requests
    left, weighted = volumes.copy(), np.zeros_like(volumes)
    marginal = [(0, 0)]
    queue = [(keys[0], order[0])][:0]
    position = 0
    now = arrivals[order[0]] - arrivals[order[0]]
    while position < len(order) or queue:
        if not queue:
            # The queue is empty: skip the rest of this round, and rounds before the next arrival.
            first = max(-(-now // limit), arrivals[order[position]])
            _extend(marginal, 0, first - now // limit)
            now = first * limit
        while position < len(order) and arrivals[order[position]] * limit <= now:
            heapq.heappush(queue, (keys[order[position]], order[position]))
            position += 1
        key, index = queue[0]
        units = left[index]
        if position < len(order):
            units = min(units, arrivals[order[position]] * limit - now)
        full, then = now // limit, (now + units) // limit
        # Each unit counts its round: the round of the first unit, plus the rounds begun since.
        begun = then - full
        weighted[index] += units * (full + 1) + limit * (begun * (begun - 1) // 2)
        now += units
        weighted[index] += (now - then * limit) * begun
        _extend(marginal, key, begun)
        left[index] -= units
        if left[index] == 0:
            heapq.heappop(queue)
    if now % limit:
        _extend(marginal, 0, 1)
    return weighted, marginal[1:]


@step
def _extend(runs: list[tuple[int, int]], key: int, count: int) -> None:
    """Append ``count`` rounds with this sort key, if any; the first run is an empty stand-in."""
    if count == 0:
        return
    if len(runs) > 1 and runs[-1][0] == key:
        count += runs.pop()[1]
    runs.append((key, count))


def mean_busy_time_bound(instance: Instance, filling: VolumeFilling | None = None) -> int:
    """Return a lower bound on total latency from the mean rounds of the requests' memory.

    In a schedule the volume of request i is spread so that its mean round is
    t_i + sum_j j (s_i + j) / v_i. Any schedule serves the volumes within M per round and after
    arrival, so the weighted sum of mean rounds is at least that of `fill_by_volume`; replacing it,

        TEL >= filling + sum_i w_i [ o_i - a_i - sum_j j (s_i + j) / v_i ].

    Computed in integers: fractions are rounded down, and the total is rounded up.
    """
    if filling is None:
        # Idle rounds carry no volume; skip them.
        instance = compress(instance).instance
        filling = fill_by_volume(instance)
    scale, total = 1 << SCALE_BITS, 0
    for request, weighted in zip(instance, filling.weighted_rounds, strict=True):
        o, unit = request.output_length, scale * request.weight
        moment = request.prompt_length * o * (o + 1) // 2 + o * (o + 1) * (2 * o + 1) // 6
        total += unit * (o - request.arrival_time)
        total += unit * (weighted - moment) // request.volume
    return -(-total // scale)


def filling_prices(filling: VolumeFilling) -> npt.NDArray[np.float64]:
    """Return memory prices of the volume relaxation: good initial prices for an ascent.

    The price falls by w / v from one full round to the next, where v / w is that of the last unit
    served, and is 0 in a round that is not full. These are dual prices of the transportation of
    units to rounds. No round beyond `LONGEST_PRICES` has a price.
    """
    rounds = filling.rounds
    if rounds > LONGEST_PRICES:
        return np.zeros(0)
    marginal, counts = np.array(filling.marginal_volumes, dtype=object).T.reshape(2, -1)
    falling = np.array([1.0 / volume if volume else 0.0 for volume in marginal])
    return _ahead(falling, counts.astype(np.int64), rounds)


def _ahead(falling: FloatArray, counts: IntArray, rounds: int) -> FloatArray:
    """Sum the decreases of prices from each round on, up to a run of rounds without a decrease."""
    prices = np.zeros(rounds)
    ends = np.cumsum(counts)
    first = rounds - ends[-1] if len(ends) else rounds
    each = np.repeat(falling, counts)
    # Between two runs without a decrease sums begin anew, from the last round on.
    edges = np.flatnonzero(np.diff(each > 0, prepend=False, append=False)).tolist()
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        prices[first + begin : first + end] = np.cumsum(each[begin:end][::-1])[::-1]
    return prices
