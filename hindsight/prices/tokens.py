"""Lower bounds from a price per token of memory in each round, and their dual function.

For any prices lambda_r >= 0 of a token of memory in round r, relaxing the memory rows gives

    L = sum_i min_{t >= a_i} [ w_i (t + o_i - a_i) + sum_{r=t+1}^{t+o_i} lambda_r (s_i + r - t) ]
        - M sum_r lambda_r  <=  optimum,

over *every* start, so no horizon enters. Prices are integers over a common denominator, hence L is
an exact rational and, the optimum being an integer, it may be rounded up.

`TokenDual` computes L in floats. With a soft minimum, L becomes differentiable and changes by at
most heat x log(number of starts) per request. Its derivative by lambda_r is the memory that the
Gibbs weights of starts (`hindsight.prices.starts`) use in round r, minus M. If every derivative is
0, or negative at a price of 0, the weights are a fractional solution within the memory limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hindsight.outcomes.proofs import NO_PRICES, MemoryPrices
from hindsight.runtime.clock import never, timed_slices
from hindsight.runtime.compilation import plain
from instances import Instance, InvalidValueError
from instances.arrays import FloatArray, IntArray

from .ascent import Evaluation
from .starts import (
    RequestClasses,
    cheapest_starts,
    priced_rounds,
    request_classes,
    soft_starts,
    start_cost,
)

PRICE_BITS = 10
"""Number of binary digits that rounding keeps of a price of 1 / (memory limit) per token."""

INT64_HEADROOM = 2**61
"""Upper limit of (cost of a start) * (denominator of prices), so that int64 holds sums of them."""

MOST_PRICES = 300_000
"""Largest number of variables of `TokenDual`: L-BFGS-B stores about fifty numbers for each."""


def round_prices(
    prices: FloatArray, instance: Instance, largest_denominator: int = 2**24
) -> MemoryPrices:
    """Round memory prices from floats to fractions whose common denominator is a power of two.

    The denominator is at most the larger of two numbers: ``largest_denominator``, and the one with
    which a price of 1 / M keeps `PRICE_BITS` binary digits (M is the memory limit in tokens). It is
    reduced until `price_bound` is exact in int64. If even the denominator 1 is too large, all
    prices become 0. Negative and non-finite prices become 0: any prices >= 0 give a valid bound.
    """
    cleaned = np.where(np.isfinite(prices), np.maximum(prices, 0.0), 0.0)
    last = int(np.max(np.flatnonzero(cleaned), initial=-1)) + 1
    cleaned = cleaned[:last]
    latest = max(last, int(instance.arrival_times.max())) + int(instance.output_lengths.max())
    largest_prompt, heaviest = int(instance.prompt_lengths.max()), int(instance.weights.max())
    # ``weight`` is an upper bound on the cost of every start. It also bounds each of the three
    # terms from which `start_cost` computes a cost: the latency, (s - start) * (sum of the prices
    # of the request's rounds), and the sum of r * (price of round r) over these rounds.
    weight = float(cleaned.sum()) * (2 * latest + largest_prompt) + heaviest * (2 * latest + 1)
    denominator = max(largest_denominator, 1 << (instance.memory_limit.bit_length() + PRICE_BITS))
    while denominator > 1 and weight * denominator >= INT64_HEADROOM:
        denominator //= 2
    if weight * denominator >= INT64_HEADROOM:
        return NO_PRICES
    numerators = np.rint(cleaned * denominator).astype(np.int64)
    return MemoryPrices(numerators, denominator)


class PriceBound(NamedTuple):
    """The lower bound on the optimum that memory prices prove, in exact integers.

    Attributes
    ----------
    prices : MemoryPrices
        The prices that prove the bound.
    scaled_value : int
        The bound (on weighted total latency in rounds) times ``prices.denominator``, an exact
        integer.
    cheapest : int64 array
        Least cost of a start of each request (latency plus prices of the memory that it holds),
        times ``prices.denominator``, shape (n,).
    """

    prices: MemoryPrices
    scaled_value: int
    cheapest: IntArray

    @property
    def bound(self) -> int:
        """Return the lower bound, rounded up because total latencies are integers."""
        return -(-self.scaled_value // self.prices.denominator)


def bound_without_prices(instance: Instance) -> PriceBound:
    """Return the bound that prices of 0 prove: weighted total latency if no request waits."""
    cheapest = instance.weights * instance.output_lengths
    return PriceBound(NO_PRICES, sum(cheapest.tolist()), cheapest)


class PricedCosts:
    """Exact costs, at given prices, of every start of every request.

    A cost is the weighted latency of the request, plus the prices of the memory that it holds. It
    is multiplied by the denominator of the prices, so that it is an integer. In rounds after the
    last one with a price, waiting and running cost only latency.

    Parameters
    ----------
    instance : Instance
        The problem.
    prices : MemoryPrices
        Prices of memory in each round.
    classes : RequestClasses or None, default None
        Classes of the instance's requests, if computed already.
    """

    def __init__(
        self, instance: Instance, prices: MemoryPrices, classes: RequestClasses | None = None
    ) -> None:
        self.classes = request_classes(instance) if classes is None else classes
        self.prices = prices
        horizon, outputs = prices.horizon, self.classes.output_lengths
        self._arrivals = np.minimum(self.classes.arrival_times, horizon)
        self._lengths = np.minimum(outputs, max(horizon, 1))
        self._units = prices.denominator * self.classes.weights
        self._beyond = self._units * (outputs - self._lengths)
        padded = np.zeros(horizon + int(self._lengths.max()) + 1, dtype=np.int64)
        padded[1 : horizon + 1] = prices.numerators
        self._rounds = priced_rounds(padded)

    def of(self, index: int) -> tuple[int, IntArray]:
        """Compute the costs of the starts of a request, times the denominator of the prices.

        Returns the arrival, which is the first start, and the costs of all starts from the arrival
        to the last round with a price. Each later start costs one round of latency more than the
        one before it.
        """
        k = int(self.classes.class_of[index])
        first = int(self._arrivals[k])
        lengths = int(self.classes.prompt_lengths[k]), int(self._lengths[k])
        starts = np.arange(first, self.prices.horizon + 1)
        costs = plain(start_cost)(self._rounds, self._units[k], first, *lengths, starts)
        return int(self.classes.arrival_times[k]), costs + self._beyond[k]

    def cheapest(
        self, final: IntArray | None = None, should_stop: Callable[[], bool] = never
    ) -> IntArray:
        """Return the least cost of a start of each class, times the denominator of the prices.

        A class is a set of requests with equal arrival, lengths and weight. ``final[k]`` is the
        last start that is considered for class k. If ``final`` is None, all starts are considered.
        """
        horizon = self.prices.horizon
        last = np.clip(horizon if final is None else final, self._arrivals, horizon)
        costs = np.zeros(len(last), dtype=np.int64)
        requests = self._arrivals, self.classes.prompt_lengths, self._lengths
        columns = *requests, self._units, last, costs
        for part in timed_slices(len(last), should_stop):
            *own, cheapest = (column[part] for column in columns)
            cheapest_starts(self._rounds, tuple(own), cheapest)
        costs += self._beyond
        return costs


def price_bound(
    instance: Instance,
    prices: MemoryPrices,
    *,
    classes: RequestClasses | None = None,
    should_stop: Callable[[], bool] = never,
) -> PriceBound:
    """Return the lower bound on the optimum that memory prices prove, in exact arithmetic.

    The bound is the sum of the least costs of all requests, minus the memory limit M times the sum
    of the prices of all rounds. The cost of a start is the weighted latency plus the prices of the
    memory held. The least cost over the starts is computed once for all requests with equal
    arrival, lengths and weight. A block is a run of consecutive starts. Blocks that cannot contain
    the cheapest start are skipped (`hindsight.prices.starts`).

    Parameters
    ----------
    instance : Instance
        The problem.
    prices : MemoryPrices
        Prices of memory in each round.
    classes : RequestClasses or None, default None
        Classes of the instance's requests, if computed already.
    should_stop : Callable[[], bool], default never
        Called a few times a second; returning True stops the computation.

    Raises
    ------
    StoppedEarlyError
        ``should_stop`` returned True.
    """
    instance.require_tokens()
    costs = PricedCosts(instance, prices, classes)
    cheapest: IntArray = costs.cheapest(should_stop=should_stop)[costs.classes.class_of]
    paid = instance.memory_limit * sum(prices.numerators.tolist())
    return PriceBound(prices, sum(cheapest.tolist()) - paid, cheapest)


def useful_starts(
    instance: Instance, bound: PriceBound, upper_bound: int, latest_completion: int | None = None
) -> list[IntArray]:
    """Return, per request, the starts that a schedule of total latency <= ``upper_bound`` can use.

    The cost of a start is the latency plus the prices of the memory held. Suppose that it exceeds
    the least cost of the request by more than ``upper_bound`` minus the lower bound ``bound``. Then
    every schedule with this start has a larger total latency than ``upper_bound``, and the start is
    left out (reduced-cost fixing). The lists cover all rounds, including those without a price. So
    the last completion with a start of the lists is a *proved* horizon: every schedule of total
    latency <= ``upper_bound`` ends by then. Starts with which the request completes after
    ``latest_completion`` are left out too. The caller must have proved that some optimal schedule
    does not use them.

    Raises
    ------
    InvalidValueError
        ``upper_bound`` is below the lower bound, hence no feasible schedule has this total latency.
    """
    denominator = bound.prices.denominator
    slack = denominator * upper_bound - bound.scaled_value
    if slack < 0:
        reason = f"is below the proved lower bound {bound.bound}"
        raise InvalidValueError(None, "upper_bound", upper_bound, reason)
    costs = PricedCosts(instance, bound.prices)
    allowed: list[IntArray] = []
    for index in range(len(instance)):
        first, priced = costs.of(index)
        excess = priced - int(bound.cheapest[index])
        starts = first + np.flatnonzero(excess <= slack)
        beyond = (slack - int(excess[-1])) // (denominator * instance[index].weight)
        last = first + len(priced) - 1
        final = last + max(0, beyond)
        if latest_completion is not None:
            final = min(final, latest_completion - instance[index].output_length)
        further = np.arange(last + 1, final + 1)
        allowed.append(np.concatenate([starts[starts <= final], further]).astype(np.int64))
    return allowed


class FractionalStarts(NamedTuple):
    """Fractional solution in which a share of each request starts at each round.

    The shares are the Gibbs weights of the starts. They are proportional to exp(-cost / heat), with
    a temperature ``heat``, and sum to 1 for each request. Together the shares may use more memory
    than the limit.

    Attributes
    ----------
    mean_starts : float64 array
        Mean start of each class of requests of equal arrival, lengths and weight, in rounds, shape
        (classes,).
    cost : float
        Weighted total latency of the fractional solution, in rounds.
    usage : float64 array
        Entry r is the number of tokens held in memory in round r, shape (rounds,).
    """

    mean_starts: FloatArray
    cost: float
    usage: FloatArray


class TokenDual:
    """Dual function of prices per token of memory in the rounds 1 .. T.

    The dual function is the lower bound on the optimum that these prices prove, in floats. Its
    variables are scaled prices (`variables`), so that they are of order one. If there are more than
    `MOST_PRICES` rounds, groups of consecutive rounds share a price.

    Parameters
    ----------
    classes : RequestClasses
        Classes of requests with equal arrival time, lengths and weight.
    capacity : int
        Memory limit of all machines together, in tokens.
    rounds : int
        T, the last round with a price.
    final : int64 array or None, default None
        Last start that is considered for each class of requests. None means max(T, arrival). Starts
        after T cost more than this one, because they pay no prices either and have a larger
        latency.
    penalty : float, default inf
        Cost of not starting a request. The dual function counts the smaller of this penalty and the
        cost of the cheapest start.
    must_stop : Callable[[], bool], default never
        Called a few times a second; returning True stops an evaluation.
    """

    def __init__(
        self,
        classes: RequestClasses,
        capacity: int,
        rounds: int,
        *,
        final: IntArray | None = None,
        penalty: float = np.inf,
        must_stop: Callable[[], bool] = never,
    ) -> None:
        self.classes, self.capacity, self.rounds = classes, capacity, rounds
        self._must_stop, self._penalty = must_stop, penalty
        self._final = np.maximum(classes.arrival_times, rounds) if final is None else final
        longest = int(classes.output_lengths.max())
        self._length = max(int(self._final.max()), rounds) + longest + 2
        # ``_width`` is the number of consecutive rounds that share a price, ``_firsts`` has the
        # index of the first round of each such group, ``_sizes`` the number of its rounds.
        self._width = -(-rounds // MOST_PRICES)
        self._firsts = np.arange(0, rounds, self._width)
        self._sizes = np.diff(self._firsts, append=rounds).astype(np.float64)
        # At the price w / (s + o / 2) per token, the mean memory that a request of weight w holds
        # in a round costs as much as a round of its latency. Variables are prices divided by the
        # mean of w / (s + o / 2) over all requests, so that variables are of order one.
        volumes = classes.prompt_lengths + classes.output_lengths / 2
        prices_of_waiting = np.maximum(classes.weights, 1) / volumes
        mean = float(np.average(prices_of_waiting, weights=classes.counts))
        self._unit = mean / np.sqrt(self._sizes)
        self._hints = classes.arrival_times.copy()

    def variables(self, prices: FloatArray) -> FloatArray:
        """Return the variables of the dual function for given prices of rounds 1 .. T.

        There is one variable for each group of consecutive rounds that share a price: (mean price
        of these rounds) * sqrt(number of these rounds) / (typical price of a token).
        """
        means: FloatArray = np.add.reduceat(prices, self._firsts) / self._sizes
        return means / self._unit

    def prices(self, x: FloatArray) -> FloatArray:
        """Return the prices of rounds 1 .. T, shape (T,), for the variables ``x``.

        This inverts `variables`.
        """
        return np.repeat(x * self._unit, self._width)[: self.rounds]

    def evaluate(self, x: FloatArray, heat: float) -> Evaluation:
        """Evaluate the dual function at its variables ``x``, which are scaled prices.

        The result has the value of the dual function, a smooth lower bound on it at temperature
        ``heat``, the gradient of this smooth lower bound, and a fractional solution (see
        `hindsight.prices.ascent.Evaluation` and `FractionalStarts`).
        """
        classes = self.classes
        prices = np.zeros(self._length)
        prices[1 : self.rounds + 1] = self.prices(x)
        rounds = priced_rounds(prices)
        entering, running = np.zeros((2, self._length + 1))
        cheapest, mass, means = found = np.zeros((3, len(classes.counts)))
        given = self._final, heat, self._penalty, (entering, running)
        for part in timed_slices(len(classes.counts), self._must_stop):
            soft_starts(rounds, classes, (part.start, part.stop), *given, (self._hints, *found))
        own = classes.output_lengths - classes.arrival_times
        paid = self.capacity * float(rounds.sums[-1])
        usage = np.cumsum(entering + np.cumsum(running))[: self._length]
        used = np.add.reduceat(usage[1 : self.rounds + 1], self._firsts)
        cost = float((classes.counts * classes.weights) @ (means + own))
        return Evaluation(
            value=float(classes.counts @ cheapest) - paid,
            smooth=float(classes.counts @ (cheapest - heat * np.log(mass))) - paid,
            gradient=(used - self.capacity * self._sizes) * self._unit,
            solution=FractionalStarts(means, cost, usage),
        )
