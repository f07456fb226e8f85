"""The optimum of a small fleet by enumeration: every assignment, and on each replica every start.

Written from the definition alone; it shares no code with the packages. Replicas are alike, so an
assignment is a partition of the requests into at most K sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from optimum_by_rule import held

Cost = Callable[[list[tuple[Any, int]]], int]


def total_latency(runs: list[tuple[Any, int]]) -> int:
    return sum(one.weight * (t + one.output_length - one.arrival_time) for one, t in runs)


def makespan(runs: list[tuple[Any, int]]) -> int:
    return max(t + one.output_length for one, t in runs)


def partitions(items: list[Any], most: int) -> Iterator[list[list[Any]]]:
    """Yield every partition of the items into at most so many sets."""
    if not items:
        yield []
        return
    *others, last = items
    for sets in partitions(others, most):
        for k in range(len(sets)):
            yield [[*own, last] if j == k else own for j, own in enumerate(sets)]
        if len(sets) < most:
            yield [*sets, [last]]


def machine_optimum(requests: list[Any], limit: int, rule: tuple[int, str], cost: Cost) -> int:
    """Return the least cost on one machine, over every start of every request."""
    usable = limit // rule[0]
    end = max(one.arrival_time for one in requests) + sum(one.output_length for one in requests)
    best = [10**9]

    def place(rest: list[Any], memory: dict[int, int], runs: list[tuple[Any, int]]) -> None:
        if not rest:
            best[0] = min(best[0], cost(runs))
            return
        one = rest[0]
        for start in range(one.arrival_time, end - one.output_length + 1):
            with_it = dict(memory)
            for age in range(1, one.output_length + 1):
                blocks = held(rule, one.prompt_length, age)
                with_it[start + age] = with_it.get(start + age, 0) + blocks
            if max(with_it.values()) <= usable:
                place(rest[1:], with_it, [*runs, (one, start)])

    place(requests, {}, [])
    return best[0]


def fleet_optimum(instance: Any, cost: Cost = total_latency) -> int:
    """Return the least total latency of a fleet, or its least makespan."""
    rule = (instance.memory_rule.block_size, instance.memory_rule.emitted_token)
    known: dict[tuple[int, ...], int] = {}

    def of(own: list[int]) -> int:
        key = tuple(own)
        if key not in known:
            requests = [instance[i] for i in own]
            known[key] = machine_optimum(requests, instance.memory_limit, rule, cost)
        return known[key]

    together = max if cost is makespan else sum
    return min(
        together([of(own) for own in sets])
        for sets in partitions(list(range(len(instance))), instance.replicas)
    )
