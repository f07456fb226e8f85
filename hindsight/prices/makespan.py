"""Lower bounds on the makespan, by volumes; no compiled code, so it can check the closed forms."""

from __future__ import annotations

from instances import Instance


def makespan_lower_bound(instance: Instance) -> int:
    """Return the larger of two exact lower bounds on the last completion round.

    A request completes no sooner than a + o. And for every arrival time a, the requests that
    arrive at a or later hold their volumes s o + o (o + 1) / 2 in rounds after a, M a round: so
    the makespan is at least a + ceil(volume / M).
    """
    instance.require_tokens()
    bound = 0
    volume = 0
    for request in sorted(instance, key=lambda request: -request.arrival_time):
        volume += request.volume
        filled = request.arrival_time - (-volume // instance.memory_limit)
        bound = max(bound, request.arrival_time + request.output_length, filled)
    return bound
