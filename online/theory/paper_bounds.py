"""Bounds on total latency from memory volumes, and dual prices for equal requests ([J25]).

A request with prompt length s and output length o has the volume s o + o (o + 1) / 2: the tokens
that it holds, summed over its rounds. Results are exact whole numbers or fractions.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

from instances import Instance, InvalidValueError
from instances.problem.memory_translation import pooled
from instances.validation import as_integer


def volume_bound(instance: Instance) -> int:
    """Return a lower bound on the total latency in rounds, from volumes ([J25] Equation (9)).

    The volume of a request with prompt length s and output length o is s o + o (o + 1) / 2, the
    tokens that it holds, summed over its rounds. If k requests complete within t rounds of memory
    M, the sum of the k smallest volumes is at most t M. So the k-th completion comes at least
    ceil(this sum / M) rounds after the first arrival. It also comes at least as many rounds after
    it as the k-th smallest output length. Adding the larger of these two numbers to the first
    arrival, summing over k and subtracting all arrival times bounds the total latency. The sum of
    the output lengths is another bound, and the larger of both is returned. Prompts may have any
    lengths.

    If memory is counted in blocks, or there are several replicas, the bound is computed for one
    machine that counts tokens and admits at least the same schedules
    (`instances.problem.memory_translation.pooled`).

    Raises
    ------
    InvalidValueError
        A weight is not 1.
    """
    instance.refuse_weights("is not 1: the bound counts every request alike")
    instance = pooled(instance)
    limit = instance.memory_limit
    first = int(instance.arrival_times.min())
    volumes = sorted(request.volume for request in instance)
    outputs = sorted(request.output_length for request in instance)
    total = needed = 0
    for volume, output in zip(volumes, outputs, strict=True):
        needed += volume
        total += first + max(-(-needed // limit), output)
    return max(total - int(instance.arrival_times.sum()), sum(outputs))


def mc_sf_upper_bound(instance: Instance) -> Fraction:
    """Return an upper bound on the total latency of MC-SF in rounds ([J25] Lemma 4.4).

    It is 1536/M sum_o n_o sum_{o'<=o} n_o' vol_o' + 24 sum_o n_o o, where n_o requests have output
    length o and vol_o = s o + o (o + 1) / 2. s is the prompt length and M the memory limit. The
    bound holds if all prompts are equal, all requests arrive at once and M is at least twice every
    s + o.

    Raises
    ------
    InvalidValueError
        The lemma does not apply to the instance.
    """
    nested, outputs = _nested_volumes(instance, twice=True)
    return Fraction(1536 * nested, instance.memory_limit) + 24 * outputs


def optimum_lower_bound(instance: Instance) -> Fraction:
    """Return a lower bound on the total latency of any schedule in rounds ([J25] Lemma 4.7).

    It is 1/(6M) sum_o n_o sum_{o'<=o} n_o' vol_o' + 1/6 sum_o n_o o, where n_o requests have output
    length o and vol_o = s o + o (o + 1) / 2. s is the prompt length and M the memory limit. The
    bound holds if all prompts are equal and all requests arrive at once.

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


def equal_requests_dual(
    prompt_length: int, output_length: int, count: int, memory_limit: int
) -> tuple[Fraction, tuple[Fraction, ...]]:
    """Return dual prices for n equal requests that arrive at once ([J25] Equations (25)-(27)).

    Each request has prompt length s and output length o, and M is the memory limit. The result is
    the price y of each request (25), and the prices lambda_1, lambda_2, .. per token of memory in
    rounds 1, 2, .. (26), (27), without the zeros at the end. They solve the dual of the
    time-indexed LP: for every start t, t - y + sum_{r=t+1}^{t+o} (s + r - t) lambda_r >= 0 (23). So
    the total latency in rounds is at least n o + n y - M sum_r lambda_r (22).

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
    # The price lambda_r of a token in round r falls by 2 / (beta o) per round, down to 0.
    rounds = range(math.ceil(price + shift))
    return price, tuple(2 * (price + shift - r) / (beta * o) for r in rounds)
