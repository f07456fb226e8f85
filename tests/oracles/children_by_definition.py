"""Children of a state of the forward search, from the definitions and without its kernels.

A state at epoch tau is written as the starts of its requests, -1 where not started; everything
else follows from them. Twin of `hindsight.exact.state_kernels.expand`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations
from typing import Any, NamedTuple

Starts = tuple[int, ...]


class Search(NamedTuple):
    """A search: requests as (s, o, a), M, prices Q[tau][m][r], capacities W, the unit of prices."""

    requests: list[tuple[int, int, int]]
    limit: int
    Q: Any
    W: Any
    scale: int


class Found(NamedTuple):
    """What a child is compared by: starts, memory of later rounds, cost (f, w), bound."""

    starts: Starts
    profile: tuple[int, ...]
    cost: tuple[int, int]
    bound: int


def held(search: Search, starts: Starts, r: int) -> int:
    """Memory in round r."""
    rows = zip(search.requests, starts, strict=True)
    return sum(s + r - t for (s, o, _), t in rows if t >= 0 and t < r <= t + o)


def priced(search: Search, i: int, t: int) -> int:
    """P_i(t): latency and payments of request i started at t, in units."""
    s, o, a = search.requests[i]
    paid = sum(int(search.Q[t + k][s + k][o - k]) for k in range(o) if t + k < len(search.W))
    return search.scale * (t + o - a) + paid


def cheapest(search: Search, i: int, tau: int) -> int:
    """u_i(tau): the least P_i over starts from tau and the arrival on."""
    first = max(tau, search.requests[i][2])
    return min(priced(search, i, t) for t in range(first, max(first, len(search.W)) + 1))


def bound(search: Search, starts: Starts, tau: int) -> int:
    """The bound at tau: started, unstarted, less all W, and the slacks of past epochs."""
    total = -sum(map(int, search.W))
    for i, t in enumerate(starts):
        total += priced(search, i, t) if t >= 0 else cheapest(search, i, tau)
    for epoch in range(min(tau, len(search.W))):
        total += int(search.W[epoch])
        for (s, o, _), t in zip(search.requests, starts, strict=True):
            if 0 <= t <= epoch < t + o:
                total -= int(search.Q[epoch][s + epoch - t][t + o - epoch])
    return total


def fits(search: Search, starts: Starts, first: int, last: int) -> bool:
    """Whether rounds first .. last hold M at most."""
    return all(held(search, starts, r) <= search.limit for r in range(first, last + 1))


def with_start(starts: Starts, i: int, t: int) -> Starts:
    return (*starts[:i], t, *starts[i + 1 :])


def is_improvable(search: Search, starts: Starts, tau: int) -> bool:
    """Rules 1 to 3: some request could have run before tau in a strictly cheaper schedule."""
    for i, (s, o, a) in enumerate(search.requests):
        if starts[i] >= 0:
            earlier = range(a, starts[i]) if starts[i] + o == tau else ()
            if any(fits(search, with_start(starts, i, t), t + 1, t + o) for t in earlier):
                return True
            continue
        t = tau - o
        if t < a:
            continue
        moved = with_start(starts, i, t)
        if fits(search, moved, t + 1, tau):
            return True
        for j, (sj, oj, _) in enumerate(search.requests):
            is_smaller = sj <= s and oj <= o and starts[j] >= t
            is_cheaper = starts[j] > t or s + o > sj + oj
            if is_smaller and is_cheaper and fits(search, with_start(moved, j, -1), t + 1, tau):
                return True
    return False


def twins(search: Search) -> list[int]:
    """For each request the last to arrive of those of its lengths before it, or -1."""
    found = []
    for i, (s, o, a) in enumerate(search.requests):
        alike = [
            (other[2], j)
            for j, other in enumerate(search.requests[:i])
            if other[:2] == (s, o) and other[2] <= a
        ]
        found.append(max(alike, default=(0, -1))[1])
    return found


def sets(search: Search, starts: Starts, tau: int, budget: int) -> Iterator[Starts]:
    """Yield the states that start a set of requests at tau, within twins, memory and fixing."""
    left = [i for i, t in enumerate(starts) if t < 0 and search.requests[i][2] <= tau]
    longest = max(o for _, o, _ in search.requests)
    regret = {i: priced(search, i, tau) - cheapest(search, i, tau) for i in left}
    known = bound(search, starts, tau)
    subsets = (combinations(left, size) for size in range(len(left) + 1))
    # In the order of a depth-first enumeration, so that ties are the same.
    for chosen in sorted(chain.from_iterable(subsets)):
        child = starts
        for i in chosen:
            child = with_start(child, i, tau)
        # Fixing: the slack of tau and what is left unstarted add nothing negative.
        if chosen and known + sum(regret[i] for i in chosen) > budget:
            continue
        pairs = ((i, j) for i, j in enumerate(twins(search)) if i in chosen and j >= 0)
        if all(child[j] >= 0 for _, j in pairs) and fits(search, child, tau + 1, tau + longest):
            yield child


def children(search: Search, states: list[Starts], tau: int, budget: int) -> list[Found]:
    """Children at tau + 1 of states at tau, merged: the first of the cheapest stays."""
    longest = max(o for _, o, _ in search.requests)
    merged: dict[Any, Found] = {}
    for state in states:
        for child in sets(search, state, tau, budget):
            value = bound(search, child, tau + 1)
            if value > budget or is_improvable(search, child, tau + 1):
                continue
            rows = [(t, *one) for t, one in zip(child, search.requests, strict=True) if t >= 0]
            cost = sum(t + o - a for t, _, o, a in rows), sum((s + o) * t for t, s, o, _ in rows)
            profile = tuple(held(search, child, tau + 2 + j) for j in range(longest))
            key = tuple(t >= 0 for t in child), profile
            if key not in merged or cost < merged[key].cost:
                merged[key] = Found(child, profile, cost, value)
    return sorted(merged.values())
