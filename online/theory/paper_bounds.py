"""A bound on total latency from memory volumes ([J25]).

An output of length o with prompt s takes the volume s o + o (o + 1) / 2 of memory over time.
"""

from __future__ import annotations

from instances import Instance
from instances.problem.memory_translation import pooled


def volume_bound(instance: Instance) -> int:
    """Return a lower bound: the k-th completion needs the k smallest volumes ([J25] Equation (9)).

    No schedule completes k requests before round t if the k smallest volumes exceed t M. Sorting
    by volume, the k-th completion is no sooner than ceil(their sum / M), nor than the k-th
    smallest output: the larger of the two is summed. Time counts from the first arrival, and the
    bound is never less than the sum of outputs. Prompts may be of any length. Under another memory
    rule, and for several replicas, it is the bound of one machine in tokens that has every schedule
    too (`instances.problem.memory_translation.pooled`).

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
