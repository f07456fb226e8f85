"""The most requests on time, and the least quantiles, by trying every schedule in rounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any


def times(request: Any, start: int) -> tuple[int, int]:
    """Time from arrival to the last token and to the first."""
    return start + request.output_length - request.arrival_time, start + 1 - request.arrival_time


def is_on_time(request: Any, start: int, level: Any) -> bool:
    """By the definition of each limit."""
    latency, first = times(request, start)
    gaps = max(1, request.output_length - 1)
    return all(
        limit is None or value <= limit
        for value, limit in (
            (latency, level.latency),
            (first, level.first_token),
            ((latency - first) / gaps, level.time_per_token),
        )
    )


def schedules(instance: Any, last: int, levels: Any = None) -> Iterator[list[int | None]]:
    """Every way to start requests that all end by round ``last``.

    With levels a request starts in time or, as None, not at all.
    """

    def extended(starts: list[int | None], held: dict[int, int]) -> Iterator[list[int | None]]:
        i = len(starts)
        if i == len(instance):
            yield starts
            return
        request = instance[i]
        if levels is not None:
            yield from extended([*starts, None], held)
        for start in range(request.arrival_time, last - request.output_length + 1):
            if levels is not None and not is_on_time(request, start, levels[i]):
                continue
            then = dict(held)
            for age in range(1, request.output_length + 1):
                then[start + age] = then.get(start + age, 0) + request.prompt_length + age
            if max(then.values()) <= instance.memory_limit:
                yield from extended([*starts, start], then)

    return extended([], {})


def last_round(instance: Any) -> int:
    """A round by which every schedule worth considering ends."""
    return max(one.arrival_time for one in instance) + sum(one.output_length for one in instance)


def most_on_time(instance: Any, levels: Any) -> int:
    """The largest number of requests that start in time together."""
    found = schedules(instance, last_round(instance), levels)
    return max(sum(start is not None for start in starts) for starts in found)


def least_quantile(instance: Any, quantile: Any, of_first_token: bool) -> int:
    """The smallest k-th smallest time of all schedules, k = n times a fraction, rounded up."""
    place = math.ceil(quantile * len(instance)) - 1
    return min(
        sorted(
            times(request, start)[of_first_token]
            for request, start in zip(instance, starts, strict=True)
        )[place]
        for starts in schedules(instance, last_round(instance))
    )
