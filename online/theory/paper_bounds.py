"""A bound on total latency from memory volumes ([J25]).

A request with prompt s and output o has the volume s o + o (o + 1) / 2: tokens that it holds,
summed over its rounds.
"""

from __future__ import annotations

from instances import Instance
from instances.problem.memory_translation import pooled


def volume_bound(instance: Instance) -> int:
    """Return a lower bound on the total latency in rounds, from volumes ([J25] Equation (9)).

    The volume of a request is s o + o (o + 1) / 2, the tokens that it holds summed over its rounds.
    A schedule that completes k requests within t rounds has served their volumes, so the k smallest
    volumes have a sum of at most t M. So the k-th completion is at least ceil(this sum / M) rounds
    after the first arrival, and at least as many as the k-th smallest output length. The bound is
    the sum over k of the larger of the two, counted from the arrivals, and at least the sum of
    outputs. Prompts may have any lengths.

    For another memory rule, or several replicas, it is the bound of one machine that counts memory
    in tokens and has every schedule of the instance, see
    `instances.problem.memory_translation.pooled`.

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
