"""Bounds on total latency from memory volumes, and a dual certificate ([J25]), as exact fractions.

An output of length o with prompt s takes the volume s o + o (o + 1) / 2 of memory over time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from instances import Instance, InvalidValueError
from instances.problem.memory_translation import pooled
from instances.validation import as_integer


def volume_bound(instance: Instance) -> int:
    """Return a lower bound: the k-th completion needs the k smallest volumes ([J25] Equation (9)).

    No schedule completes k requests before round t if the k smallest volumes exceed t M. Sorting
    by volume, the k-th completion is no sooner than ceil(their sum / M), nor than the k-th
    smallest output: the larger of the two is summed. Time counts from the first arrival, and the
    bound is never less than the sum of outputs. Prompts may be of any length. Weights enter by
    `by_layers`. Under another memory rule, and for a fleet, it is that of the instance in tokens
    that every schedule solves too (`instances.problem.memory_translation.pooled`).
    """
    instance = pooled(instance)
    if instance.is_weighted:
        return by_layers(instance, volume_bound)
    limit = instance.memory_limit
    first = int(instance.arrival_times.min())
    volumes = sorted(request.volume for request in instance)
    outputs = sorted(request.output_length for request in instance)
    total = needed = 0
    for volume, output in zip(volumes, outputs, strict=True):
        needed += volume
        total += first + max(-(-needed // limit), output)
    return max(total - int(instance.arrival_times.sum()), sum(outputs))


def by_layers(instance: Instance, bound: Callable[[Instance], int]) -> int:
    """Return the bound on weighted total latency that an unweighted bound gives.

    Let v_1 < v_2 < ... be the distinct weights, and v_0 = 0. Weighted total latency is the sum over
    k of v_k - v_{k-1} times the total latency of the requests of weight v_k or more, and a schedule
    remains one without the others.
    """
    total = below = 0
    for weight in sorted(set(instance.weights.tolist())):
        layer = [replace(one, weight=1) for one in instance if one.weight >= weight]
        alike = Instance(**instance.__getstate__() | {"requests": layer})
        total += (weight - below) * bound(alike)
        below = weight
    return total


def mc_sf_upper_bound(instance: Instance) -> Fraction:
    """Return 1536/M sum_o n_o sum_{o'<=o} n_o' vol_o' + 24 sum_o n_o o ([J25] Lemma 4.4).

    MC-SF is never worse if all prompts are equal, all requests arrive at once and M is at least
    twice every s + o.

    Raises
    ------
    InvalidValueError
        The lemma does not apply to the instance.
    """
    nested, outputs = _nested_volumes(instance, twice=True)
    return Fraction(1536 * nested, instance.memory_limit) + 24 * outputs


def optimum_lower_bound(instance: Instance) -> Fraction:
    """Return 1/(6M) sum_o n_o sum_{o'<=o} n_o' vol_o' + 1/6 sum_o n_o o ([J25] Lemma 4.7).

    No schedule is better if all prompts are equal and all requests arrive at once.

    Raises
    ------
    InvalidValueError
        The lemma does not apply to the instance.
    """
    nested, outputs = _nested_volumes(instance, twice=False)
    return Fraction(nested, 6 * instance.memory_limit) + Fraction(outputs, 6)


def _nested_volumes(instance: Instance, *, twice: bool) -> tuple[int, int]:
    instance.require_tokens()
    instance.refuse_weights("is not 1: the lemma counts every request alike")
    if len(set(instance.prompt_lengths.tolist())) > 1:
        raise InvalidValueError("instance", "prompt_lengths", "", "are not all equal")
    if instance.arrival_times.any():
        raise InvalidValueError("instance", "arrival_times", "", "are not all 0")
    if twice and 2 * int(instance.peak_memories.max()) > instance.memory_limit:
        raise InvalidValueError(
            "instance", "memory_limit", instance.memory_limit, "is below twice the largest s + o"
        )
    volumes = {request.output_length: request.volume for request in instance}
    nested = below = 0
    for output, count in sorted(Counter(instance.output_lengths.tolist()).items()):
        below += count * volumes[output]
        nested += count * below
    return nested, int(instance.output_lengths.sum())


@dataclass(frozen=True)
class EqualRequestsDual:
    """The dual pair of [J25] Equations (25)-(27) for n equal requests (s, o) at once, as fractions.

    Attributes
    ----------
    prompt_length, output_length, count, memory_limit : int
        s, o, n, M.
    request_price : Fraction
        y, the same for every request (25).
    memory_prices : tuple[Fraction, ...]
        lambda_1, lambda_2, .. as long as they are positive (26), (27).
    """

    prompt_length: int
    output_length: int
    count: int
    memory_limit: int
    request_price: Fraction
    memory_prices: tuple[Fraction, ...]

    @property
    def objective(self) -> Fraction:
        """Return n o + n y - M sum of lambda (22): a lower bound on total latency if feasible."""
        fixed = self.count * (self.output_length + self.request_price)
        return fixed - self.memory_limit * sum(self.memory_prices, Fraction(0))

    def slack(self, start: int) -> Fraction:
        """Return t - y + sum_{r=t+1}^{t+o} (s + r - t) lambda_r, which must be >= 0 by (23)."""
        paid = Fraction(0)
        for age in range(1, self.output_length + 1):
            if start + age <= len(self.memory_prices):
                paid += (self.prompt_length + age) * self.memory_prices[start + age - 1]
        return start - self.request_price + paid

    @property
    def is_feasible(self) -> bool:
        """Tell whether (23) and (24) hold for every start; past the prices the slack only grows."""
        starts = range(len(self.memory_prices) + 1)
        return all(price >= 0 for price in self.memory_prices) and all(
            self.slack(start) >= 0 for start in starts
        )


def equal_requests_dual(
    prompt_length: int, output_length: int, count: int, memory_limit: int
) -> EqualRequestsDual:
    """Construct the dual pair of [J25] Equations (25)-(27) and Appendix B.3.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A number is out of range, or s + o > M.
    """
    s = as_integer(prompt_length, None, "prompt_length", minimum=0)
    o = as_integer(output_length, None, "output_length", minimum=1)
    n = as_integer(count, None, "count", minimum=1)
    limit = as_integer(memory_limit, None, "memory_limit", minimum=s + o)
    beta = 2 * s + o + 1
    shift = Fraction((o - 1) * (3 * s + 2 * o + 2), 3 * beta)
    price = max(Fraction(0), Fraction(beta * o * n, 2 * limit) - shift)
    first = (2 * price + 2 * shift) / (beta * o)
    step = Fraction(2, beta * o)
    prices: list[Fraction] = []
    current = first
    while current > 0:
        prices.append(current)
        current -= step
    return EqualRequestsDual(s, o, n, limit, price, tuple(prices))
