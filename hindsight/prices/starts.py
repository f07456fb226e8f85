"""Costs of starts under memory prices: the cheapest starts, and Gibbs weights of starts.

Under prices lambda_r >= 0 of a token in round r, request (a, s, o) pays for starting at t

    P(t) = w (t + o - a) + sum_{r = t+1}^{t+o} lambda_r (s + r - t)

with its weight w, which takes four look-ups in running sums of lambda_r and r lambda_r. Starts are
visited in blocks of consecutive rounds. Let v be the volume of the request (the sum over its rounds
of the tokens that it holds), and m the smallest price of all rounds in which the request runs with
a start of the block. For these starts, P >= w ((first start of the block) + o - a) + v m. So blocks
that cannot contain the minimum are skipped. The same code runs on exact integers and on floats.

The weights exp(-P(t) / heat), normalised over t, are the gradient of a smooth approximation of
min P. They are a fractional solution of the relaxation, except that they may exceed the memory
limit.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import njit, step
from instances import Instance
from instances.arrays import FloatArray, IntArray

BLOCK = 256
"""Number of rounds in a block. A search skips a block if every start in it costs too much."""

SPREAD = 18.0
"""Weights of starts count as 0 below exp(-SPREAD) times the largest weight of the same request."""

vectorised = partial(njit, fastmath=("reassoc", "contract", "nnan", "nsz"))
"""`njit` that allows compilers to reorder sums. It is used only for weights exp(-cost / heat) of
starts, whose rounding errors affect no proof."""


class PricedRounds(NamedTuple):
    """Running sums of memory prices, from which costs of starts are computed.

    lambda_r is the price of holding one token in round r.

    Attributes
    ----------
    sums, weighted_sums : array
        Running sums of lambda_r, and of r lambda_r: entry R is the sum over r = 0 .. R. The last
        entry is that of the last possible completion.
    minima : array
        Smallest price lambda_r in each block of `BLOCK` consecutive rounds.
    """

    sums: npt.NDArray[Any]
    weighted_sums: npt.NDArray[Any]
    minima: npt.NDArray[Any]


class RequestClasses(NamedTuple):
    """Classes of requests with equal arrival time, lengths and weight (a, s, o, w).

    Attributes
    ----------
    arrival_times, prompt_lengths, output_lengths, weights : int64 array, shape (classes,)
        a, s, o and w of each class. The classes are sorted by a.
    counts : float64 array, shape (classes,)
        Number of requests in each class.
    class_of : int64 array, shape (n,)
        Index of the class of each request.
    """

    arrival_times: IntArray
    prompt_lengths: IntArray
    output_lengths: IntArray
    weights: IntArray
    counts: FloatArray
    class_of: IntArray


def request_classes(instance: Instance) -> RequestClasses:
    """Group requests of equal arrival time, lengths and weight into classes, sorted by arrival."""
    a, s, o = instance.arrival_times, instance.prompt_lengths, instance.output_lengths
    rows = np.column_stack([a, s, o, instance.weights])
    distinct, class_of, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    columns = (column.copy() for column in distinct.T)
    class_of = class_of.astype(np.int64).ravel()
    return RequestClasses._make([*columns, counts.astype(np.float64), class_of])


def without_latency(instance: Instance) -> RequestClasses:
    """Return one class for each request, of weight 0, so that the latency of starts costs 0."""
    # Copy the columns of the instance, because these arrays are read-only. For read-only arrays
    # numba would compile its loops a second time.
    columns = instance.arrival_times, instance.prompt_lengths, instance.output_lengths
    n, alone = len(instance), (column.copy() for column in columns)
    return RequestClasses._make([*alone, np.zeros(n, np.int64), np.ones(n), np.arange(n)])


def priced_rounds(prices: npt.NDArray[Any]) -> PricedRounds:
    """Compute the running sums of prices, where ``prices[r]`` is the price of a token in round r.

    No request runs in round 0. So ``prices[0]`` does not count for the smallest price of the first
    block of `BLOCK` rounds.
    """
    weighted_sums = np.cumsum(prices * np.arange(len(prices), dtype=prices.dtype))
    without_zero = np.append(prices[1], prices[1:])
    minima = np.minimum.reduceat(without_zero, np.arange(0, len(prices), BLOCK))
    return PricedRounds(np.cumsum(prices), weighted_sums, minima)


@step
def block_floor(minima: npt.NDArray[Any], begin: int, end: int, o: int) -> Any:
    """Return a lower bound on the prices of all rounds begin + 1 .. end - 1 + o.

    These are all rounds in which a request of output length o can run if it starts at one of the
    rounds begin .. end - 1. ``minima`` has the smallest price of each block of `BLOCK` rounds.
    """
    first, last = begin // BLOCK, (end - 1 + o) // BLOCK
    least = minima[first]
    for b in range(first + 1, last + 1):
        least = min(least, minima[b])
    return least


@step
def start_cost(prices: PricedRounds, unit: Any, a: int, s: int, o: int, start: int) -> Any:
    """Return the cost of a start: the request's latency, plus the price of the memory it holds.

    The cost is unit (start + o - a) + sum over r = start + 1 .. start + o of lambda_r (s + r -
    start), where lambda_r is the price of a token in round r.

    Parameters
    ----------
    prices : PricedRounds
        Prices of all rounds up to start + o at least.
    unit : Any
        Cost of one round of latency: the weight of the request. If the prices are integers,
        multiples of 1 / denominator, it is the weight times the same denominator.
    a, s, o : int
        Arrival time, prompt length and output length of the request.
    start : int
        Round after which the request begins.
    """
    sums, weighted_sums, end = prices.sums, prices.weighted_sums, start + o
    held = (s - start) * (sums[end] - sums[start])
    return unit * (end - a) + held + (weighted_sums[end] - weighted_sums[start])


@njit
def cheapest_starts(
    prices: PricedRounds, requests: tuple[IntArray, ...], cheapest: npt.NDArray[Any]
) -> None:
    """Write to ``cheapest[i]`` the least `start_cost` over the starts a[i] .. final[i] of class i.

    A class is a set of requests with equal arrival time, lengths and weight. ``requests`` has five
    arrays with an entry for each class: arrival time a, prompt length s, output length o, the cost
    of a round of latency, and the last start that is considered, ``final``. Prices of memory must
    reach at least to round final[i] + o[i]. Integer prices give exact costs.
    """
    a, s, o, units, final = requests
    where = 0
    for i in range(len(o)):
        unit, volume = units[i], s[i] * o[i] + o[i] * (o[i] + 1) // 2
        # ``where`` is the cheapest start found so far. Its first value is a guess: the cheapest
        # start of the previous class of equal requests, moved into the range a[i] .. final[i] of
        # starts.
        where, begin = min(max(where, a[i]), final[i]), a[i]
        best = start_cost(prices, unit, a[i], s[i], o[i], where)
        # Blocks of starts (`BLOCK` consecutive rounds) are visited in the order of time. Stop at a
        # block if the latency of its first start alone, without memory, costs more than the best
        # start: later starts have even more latency.
        while begin <= final[i] and unit * (begin + o[i] - a[i]) <= best:
            end = min(final[i] + 1, (begin // BLOCK + 1) * BLOCK)
            least = block_floor(prices.minima, begin, end, o[i])
            if unit * (begin + o[i] - a[i]) + volume * least <= best:
                for t in range(begin, end):
                    cost = start_cost(prices, unit, a[i], s[i], o[i], t)
                    if cost < best:
                        best, where = cost, t
            begin = end
        cheapest[i] = best


@vectorised
def _price(
    prices: PricedRounds, request: tuple[int, int, int, float], begin: int, costs: FloatArray
) -> float:
    """Write the `start_cost` of starts begin, begin + 1, ... to ``costs``, and return the least.

    ``request`` has the arrival time a, the prompt length s, the output length o, and the cost of a
    round of the request's latency.
    """
    a, s, o, unit = request
    least = np.inf
    for k in range(len(costs)):
        costs[k] = start_cost(prices, unit, a, s, o, begin + k)
        least = min(least, costs[k])
    return least


@vectorised
def _weigh(costs: FloatArray, cheapest: float, heat: float) -> tuple[float, float]:
    """Replace each start's cost in ``costs`` by its Gibbs weight exp((cheapest - cost) / heat).

    ``cheapest`` is the least cost, and ``heat`` the temperature of the weights. Weights below
    exp(-SPREAD) become 0. Returns the sum of the weights, and the sum over the starts of weight
    times index in ``costs``.
    """
    # The weight of a start is exp(64 x), with x = (cheapest - cost) / (64 heat) near 0. Compute it
    # as the 64th power of the Taylor polynomial of exp(x). Compilers can vectorise this, but not
    # calls of exp.
    unit = -1 / (64 * heat)
    total, moment = 0.0, 0.0
    for k in range(len(costs)):
        x = max((costs[k] - cheapest) * unit, -SPREAD / 64 - 1)
        root = 1 + x * (
            1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6 * (1 + x / 7)))))
        )
        for _ in range(6):
            root *= root
        weight = root if x >= -SPREAD / 64 else 0.0
        costs[k] = weight
        total += weight
        moment += weight * k
    return total, moment


@vectorised
def _hold(
    weights: FloatArray, begin: int, s: int, o: int, entering: FloatArray, running: FloatArray
) -> None:
    """Add the memory of requests that start at begin, begin + 1, ... in the given fractions.

    ``weights[j]`` is the fractional number of requests, with prompt length s and output length o,
    that start at begin + j. A request that starts at t holds s + 1 tokens in round t + 1, and one
    more in each later round, up to s + o in round t + o. The memory is stored as differences: the
    tokens held in round r are entry r of cumsum(entering + cumsum(running)). So a request adds s to
    ``entering`` and 1 to ``running`` at entry t + 1. At entry t + o + 1 it subtracts s + o from
    ``entering`` and 1 from ``running``.
    """
    count = len(weights)
    enter, leave = entering[begin + 1 :], entering[begin + 1 + o :]
    start, end = running[begin + 1 :], running[begin + 1 + o :]
    for k in range(count):
        enter[k] += s * weights[k]
    for k in range(count):
        leave[k] -= (s + o) * weights[k]
    for k in range(count):
        start[k] += weights[k]
    for k in range(count):
        end[k] -= weights[k]


@partial(njit, makes_arrays=True)
def soft_starts(
    prices: PricedRounds,
    classes: RequestClasses,
    part: tuple[int, int],
    final: IntArray,
    heat: float,
    penalty: float,
    memory: tuple[FloatArray, FloatArray],
    found: tuple[IntArray, FloatArray, FloatArray, FloatArray],
) -> None:
    """Compute Gibbs weights of the starts of some classes of requests, and the memory they hold.

    A class is a set of requests with equal arrival time, lengths and weight. A start has a weight
    proportional to exp(-cost / heat), where the cost is the latency plus the price of the memory
    that the request holds (`start_cost`). A request may also never start: then it pays ``penalty``
    and holds no memory, and this choice has a weight too. The weights of all choices of a request
    sum to 1.

    Parameters
    ----------
    prices : PricedRounds
        Prices of memory in all rounds up to the last completion.
    classes : RequestClasses
        Classes of the requests.
    part : tuple[int, int]
        Index of the first class to compute, and 1 + the index of the last one.
    final : int64 array, shape (classes,)
        Last start that is considered for each class.
    heat : float
        Temperature of the weights, in the unit of costs: rounds of latency.
    penalty : float
        Cost of a request that never starts.
    memory : tuple[float64 array, float64 array]
        Two arrays, ``entering`` and ``running``, to which this function adds the memory of the
        starts. The tokens held in round r are entry r of cumsum(entering + cumsum(running)).
    found : tuple of arrays, shape (classes,) each
        Four results for each class: a cheapest start, the least cost of a start or of not starting,
        the sum of exp((least cost - cost) / heat) over all choices, and the mean start under the
        weights. The first array is also read: its entries are first guesses of cheapest starts.
    """
    a, s, o, w, counts, _ = classes
    hints, cheapest, mass, mean_starts = found
    minima, reach = prices.minima, SPREAD * heat
    # Work space for blocks (ranges) of starts of one class, some of which may have positive weight.
    # ``kept`` has `BLOCK` entries per block: the costs of its starts, which are then overwritten by
    # their weights. ``begins`` has the first start of each block, ``ends`` the one after its last.
    most = len(prices.sums) // BLOCK + 2
    kept, begins, ends = np.empty(most * BLOCK), np.empty(most, np.int64), np.empty(most, np.int64)
    for i in range(part[0], part[1]):
        unit, volume, end = float(w[i]), s[i] * o[i] + o[i] * (o[i] + 1) // 2, final[i] + 1
        where, at, count = min(max(hints[i], a[i]), end - 1), a[i], 0
        best = min(penalty, start_cost(prices, unit, a[i], s[i], o[i], where))
        while at < end and unit * (at + o[i] - a[i]) <= best + reach:
            stop = min(end, (at // BLOCK + 1) * BLOCK)
            floor = unit * (at + o[i] - a[i]) + volume * block_floor(minima, at, stop, o[i])
            if floor <= best + reach:
                costs = kept[count * BLOCK : count * BLOCK + stop - at]
                least = _price(prices, (a[i], s[i], o[i], unit), at, costs)
                if least <= best + reach:
                    begins[count], ends[count] = at, stop
                    count += 1
                    if least < best:
                        best, where = least, at + int(costs.argmin())
            at = stop
        # Compute the weights exp((best - cost) / heat), where ``best`` is the least cost over all
        # blocks (ranges) of starts. Some blocks were kept before ``best`` was found: all their
        # weights may be 0.
        total, moment = 0.0, 0.0
        for j in range(count):
            weights = kept[j * BLOCK : j * BLOCK + ends[j] - begins[j]]
            of_block, shift = _weigh(weights, best, heat)
            total += of_block
            moment += shift + of_block * begins[j]
        if penalty <= best + reach:
            total += np.exp((best - penalty) / heat)
        for j in range(count):
            weights = kept[j * BLOCK : j * BLOCK + ends[j] - begins[j]]
            weights *= counts[i] / total
            _hold(weights, begins[j], s[i], o[i], memory[0], memory[1])
        hints[i], cheapest[i], mass[i], mean_starts[i] = where, best, total, moment / total
