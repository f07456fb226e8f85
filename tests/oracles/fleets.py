"""Optima of tiny fleets in rounds, by trying every assignment and every start.

Plain loops, written from the definition: no code is shared with the package. Rows are
(arrival, prompt, output, weight); a rule is (block size, "now" or "next"); a level is (latency,
first token, time per token), None where there is no limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

Row = tuple[int, int, int, int]
Rule = tuple[int, str]
Level = tuple[float | None, float | None, float | None]

TOKENS: Rule = (1, "now")


def rows_of(instance: Any) -> list[Row]:
    """The columns of an instance, as plain Python integers."""
    columns = (
        instance.arrival_times,
        instance.prompt_lengths,
        instance.output_lengths,
        instance.weights,
    )
    return [tuple(map(int, row)) for row in zip(*columns, strict=True)]


def rule_of(instance: Any) -> Rule:
    """The memory rule of an instance."""
    return instance.memory_rule.block_size, instance.memory_rule.emitted_token


def blocks_held(rule: Rule, prompt: int, token: int) -> int:
    """Blocks that a request holds in the round of a token, counted from 1."""
    stored = prompt + token - (1 if rule[1] == "next" else 0)
    return math.ceil(stored / rule[0])


def schedules(
    rows: Sequence[Row],
    limit: int,
    rule: Rule,
    windows: Sequence[Sequence[int]],
    is_worse: Callable[[list[int]], bool] = lambda starts: False,
) -> Iterator[list[int]]:
    """Every way to start requests on one machine within their windows.

    Those that begin with starts for which ``is_worse`` holds are left out.
    """

    def extended(starts: list[int], held: dict[int, int]) -> Iterator[list[int]]:
        if is_worse(starts):
            return
        if len(starts) == len(rows):
            yield starts
            return
        _, prompt, output, _ = rows[len(starts)]
        for start in windows[len(starts)]:
            then = dict(held)
            for token in range(1, output + 1):
                more = blocks_held(rule, prompt, token)
                then[start + token] = then.get(start + token, 0) + more
            if max(then.values()) <= limit // rule[0]:
                yield from extended([*starts, start], then)

    return extended([], {})


def is_feasible(
    rows: Sequence[Row], limit: int, rule: Rule, assignment: Sequence[int], starts: Sequence[int]
) -> bool:
    """Whether nothing starts before it arrives, and no replica holds too much in a round."""
    held: dict[tuple[int, int], int] = {}
    for (arrival, prompt, output, _), replica, start in zip(rows, assignment, starts, strict=True):
        if start < arrival:
            return False
        for token in range(1, output + 1):
            place = replica, start + token
            held[place] = held.get(place, 0) + blocks_held(rule, prompt, token)
    return max(held.values()) <= limit // rule[0]


def last_round(rows: Sequence[Row]) -> int:
    """A round by which every schedule worth considering ends, on any number of machines."""
    return max(a for a, _, _, _ in rows) + sum(o for _, _, o, _ in rows)


def least_alone(rows: Sequence[Row], limit: int, rule: Rule) -> int:
    """The least sum of weight times latency on one machine."""
    end = last_round(rows)
    windows = [range(a, end - o + 1) for a, _, o, _ in rows]
    best = sum(w for _, _, _, w in rows) * (end + 1)

    def is_worse(starts: Sequence[int]) -> bool:
        return cost(starts) >= best

    def cost(starts: Sequence[int]) -> int:
        begun = sum(w * (t + o - a) for t, (a, _, o, w) in zip(starts, rows, strict=False))
        return begun + sum(w * o for _, _, o, w in rows[len(starts) :])

    for starts in schedules(rows, limit, rule, windows, is_worse):
        best = cost(starts)
    return best


def subsets(members: int) -> Iterator[int]:
    """Every subset of a set of bits, itself first and the empty one last."""
    some = members
    while True:
        yield some
        if not some:
            return
        some = (some - 1) & members


def chosen(items: Sequence[Any], members: int) -> list[Any]:
    """The items at a set of bits."""
    return [item for i, item in enumerate(items) if members >> i & 1]


def least_total_latency(
    rows: Sequence[Row],
    limit: int,
    replicas: int,
    rule: Rule = TOKENS,
    alone: Callable[[Sequence[Row], int, Rule], int] = least_alone,
) -> int:
    """The least sum of weight times latency of a fleet; ``alone`` is that of one machine."""
    costs: dict[int, int] = {0: 0}

    @cache
    def least(members: int, machines: int) -> float:
        if not members:
            return 0
        if not machines:
            return math.inf
        best = math.inf
        for some in subsets(members):
            rest = least(members & ~some, machines - 1)
            if rest < best:
                if some not in costs:
                    costs[some] = alone(chosen(rows, some), limit, rule)
                best = min(best, costs[some] + rest)
        return best

    return int(least((1 << len(rows)) - 1, replicas))


def starts_on_time(row: Row, level: Level, end: int) -> list[int]:
    """The starts with which a request keeps its level, by the definition of each limit."""
    arrival, _, output, _ = row
    found = []
    for start in range(arrival, end - output + 1):
        latency, first = start + output - arrival, start + 1 - arrival
        per_token = (latency - first) / max(1, output - 1)
        times = zip((latency, first, per_token), level, strict=True)
        if all(most is None or time <= most for time, most in times):
            found.append(start)
    return found


def most_on_time(
    rows: Sequence[Row],
    limit: int,
    replicas: int,
    levels: Sequence[Level],
    rule: Rule = TOKENS,
) -> int:
    """The largest number of requests that a fleet can serve on time together."""
    end = last_round(rows)
    windows = [starts_on_time(*pair, end) for pair in zip(rows, levels, strict=True)]

    @cache
    def fits(members: int) -> bool:
        some = schedules(chosen(rows, members), limit, rule, chosen(windows, members))
        return members == 0 or next(some, None) is not None

    @cache
    def most(members: int, machines: int) -> int:
        if not machines:
            return 0
        return max(
            some.bit_count() + most(members & ~some, machines - 1)
            for some in subsets(members)
            if fits(some)
        )

    return most((1 << len(rows)) - 1, replicas)


def least_quantile(
    rows: Sequence[Row],
    limit: int,
    replicas: int,
    place: int,
    of_first_token: bool,
    rule: Rule = TOKENS,
) -> int:
    """The smallest value of the ``place``-th smallest time of all requests.

    It is x or less if so many can be on time with limit x: all others are served after them.
    """
    for most in range(1, last_round(rows) + 2):
        level = (None, most, None) if of_first_token else (most, None, None)
        if most_on_time(rows, limit, replicas, [level] * len(rows), rule) >= place:
            return most
    raise AssertionError("one after another, all are on time")
