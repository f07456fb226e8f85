"""Lower bounds on the makespan, by volumes; no compiled code, so it can check the closed forms."""

from __future__ import annotations

from instances import Instance


def makespan_lower_bound(instance: Instance) -> int:
    """Return the larger of two exact lower bounds on the last completion round.

    A request completes at a + o or later. For every arrival time a, the requests that arrive at a
    or later occupy their volumes s o + o (o + 1) / 2 in rounds after a, at most M per round. So the
    makespan is at least a + ceil(total volume / M).
    """
    instance.require_tokens()
    bound = 0
    volume = 0
    for request in sorted(instance, key=lambda request: -request.arrival_time):
        volume += request.volume
        filled = request.arrival_time - (-volume // instance.memory_limit)
        bound = max(bound, request.arrival_time + request.output_length, filled)
    return bound
