"""Oracles for tiny instances, written from the definition; they share no code with the package.

An instance is only read: ``memory_limit`` and, of each request, ``arrival_time``,
``prompt_length`` and ``output_length``. A request started at t with lengths (s, o) runs in rounds
t+1 .. t+o and holds s + (r - t) tokens in round r.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

Rows = list[tuple[int, int, int]]


def rows_of(instance: Any) -> Rows:
    """The (arrival, prompt, output) of each request, as plain Python integers."""
    return [
        (int(q.arrival_time), int(q.prompt_length), int(q.output_length)) for q in instance.requests
    ]


def memory_in_round(instance: Any, start_times: Sequence[int], round_index: int) -> int:
    """Tokens held in one round; any round, negative ones included."""
    held = 0
    for (_, prompt, output), start in zip(rows_of(instance), start_times, strict=True):
        start = int(start)
        if start < round_index <= start + output:
            held += prompt + (round_index - start)
    return held


def memory_by_definition(instance: Any, start_times: Sequence[int]) -> list[int]:
    """Tokens held in rounds 0 .. makespan (entry r is round r; entry 0 is 0 for starts >= 0)."""
    last = makespan_by_definition(instance, start_times)
    return [memory_in_round(instance, start_times, r) for r in range(last + 1)]


def total_latency_by_definition(instance: Any, start_times: Sequence[int]) -> int:
    """Sum over requests of completion minus arrival."""
    total = 0
    for (arrival, _, output), start in zip(rows_of(instance), start_times, strict=True):
        total += int(start) + output - arrival
    return total


def makespan_by_definition(instance: Any, start_times: Sequence[int]) -> int:
    """The last completion."""
    last = None
    for (_, _, output), start in zip(rows_of(instance), start_times, strict=True):
        end = int(start) + output
        last = end if last is None or end > last else last
    assert last is not None
    return last


def is_feasible_by_definition(instance: Any, start_times: Sequence[int]) -> bool:
    """Whether nothing starts before it arrives and no round holds more than M."""
    for (arrival, _, _), start in zip(rows_of(instance), start_times, strict=True):
        if int(start) < arrival:
            return False
    held = memory_by_definition(instance, start_times)
    return all(tokens <= instance.memory_limit for tokens in held)


def all_feasible_schedules(instance: Any, horizon: int) -> Iterator[tuple[int, ...]]:
    """Every feasible vector of start times that completes everything by round ``horizon``.

    Plain enumeration, nothing pruned but by the memory already placed, which can only grow.
    """
    rows = rows_of(instance)
    limit = int(instance.memory_limit)
    held = [0] * (horizon + 1)
    starts = [0] * len(rows)

    def place(index: int) -> Iterator[tuple[int, ...]]:
        if index == len(rows):
            yield tuple(starts)
            return
        arrival, prompt, output = rows[index]
        for start in range(arrival, horizon - output + 1):
            for age in range(1, output + 1):
                held[start + age] += prompt + age
            if all(held[start + age] <= limit for age in range(1, output + 1)):
                starts[index] = start
                yield from place(index + 1)
            for age in range(1, output + 1):
                held[start + age] -= prompt + age

    return place(0)


def sound_horizon(instance: Any) -> int:
    """A last round that every optimal schedule respects, for total latency and for makespan.

    Let some round after the last arrival be idle while work is left: everything that starts later
    may start one round sooner (nothing runs across an idle round, so memory merely shifts, and
    all have arrived), which lowers both costs. So in an optimal schedule every round from the last
    arrival to the makespan runs at least one request: makespan <= max a + sum o.
    """
    rows = rows_of(instance)
    return max(a for a, _, _ in rows) + sum(o for _, _, o in rows)


def optimal_total_latency(instance: Any) -> tuple[int, tuple[int, ...]]:
    """The least total latency of a feasible schedule, and one schedule that has it."""
    arrivals = sum(a for a, _, _ in rows_of(instance))
    cost, starts = _search(instance, _sum_of_completions)
    return cost - arrivals, starts


def optimal_makespan(instance: Any) -> tuple[int, tuple[int, ...]]:
    """The least makespan of a feasible schedule, and one schedule that has it."""
    return _search(instance, _last_completion)


# A cost takes the cost of the completions decided so far and lower bounds on those that are left.
Cost = Callable[[int, list[int]], int]


def _sum_of_completions(decided: int, ahead: list[int]) -> int:
    return decided + sum(ahead)


def _last_completion(decided: int, ahead: list[int]) -> int:
    return max([decided, *ahead])


def _search(instance: Any, cost: Cost) -> tuple[int, tuple[int, ...]]:
    """Depth first over rounds: at each round t, start any set of arrived requests, or none.

    Delays are explored, since starting sooner is not free here. What is cut off, and why:

    * a round where nothing runs and every request left has arrived: idling there is never
      optimal (`sound_horizon`);
    * a request whose twin of equal (a, s, o) and lower index has not started: they may swap;
    * a state (round, requests left, memory committed to later rounds) reached before at no larger
      cost: what can follow depends on nothing else;
    * a bound no better than the best schedule known, see ``completions_ahead``.
    """
    rows = rows_of(instance)
    limit = int(instance.memory_limit)
    count = len(rows)
    longest = max(o for _, _, o in rows)
    # Shortest first: the first dive is then a decent schedule. A twin keeps its index order.
    order = sorted(range(count), key=lambda i: (rows[i][2], rows[i][1], rows[i][0], i))
    volume = [s * o + o * (o + 1) // 2 for _, s, o in rows]
    by_volume = sorted(range(count), key=lambda i: volume[i])

    # One after the other in order of arrival: a first schedule.
    starts = [0] * count
    clock = 0
    for i in sorted(range(count), key=lambda i: (rows[i][0], i)):
        starts[i] = max(clock, rows[i][0])
        clock = starts[i] + rows[i][2]
    best = cost(0, [starts[i] + rows[i][2] for i in range(count)])
    best_starts = tuple(starts)
    seen: dict[tuple[int, int, tuple[int, ...]], int] = {}

    def completions_ahead(now: int, left: int, held: tuple[int, ...]) -> list[int]:
        """Lower bounds, in order, on the completion times of the requests left.

        The k-th completion is no sooner than (i) the k-th smallest of max(now, a) + o, and (ii) the
        first round by which the memory still free since ``now`` adds up to the k smallest
        volumes, since k requests have then held all of theirs.
        """
        alone = sorted(max(now, rows[i][0]) + rows[i][2] for i in range(count) if left >> i & 1)
        free = needed = steps = 0
        bounds = []
        for k, i in enumerate(j for j in by_volume if left >> j & 1):
            needed += volume[i]
            while free < needed:
                free += limit - (held[steps] if steps < len(held) else 0)
                steps += 1
            bounds.append(max(alone[k], now + steps))
        return bounds

    def explore(now: int, position: int, left: int, held: tuple[int, ...], decided: int) -> None:
        """Decide on ``order[position:]`` at time ``now``, then on the rounds that follow."""
        nonlocal best, best_starts
        if not left:
            if decided < best:
                best, best_starts = decided, tuple(starts)
            return
        if cost(decided, completions_ahead(now, left, held)) >= best:
            return
        for place in range(position, count):
            i = order[place]
            arrival, prompt, output = rows[i]
            if not left >> i & 1 or arrival > now:
                continue
            if any(left >> j & 1 and rows[j] == rows[i] for j in range(i)):
                continue
            if any(held[k] + prompt + k + 1 > limit for k in range(output)):
                continue
            more = tuple(
                tokens + (prompt + k + 1 if k < output else 0) for k, tokens in enumerate(held)
            )
            starts[i] = now
            explore(now, place + 1, left & ~(1 << i), more, cost(decided, [now + output]))
        arrived = all(rows[i][0] <= now for i in range(count) if left >> i & 1)
        if arrived and held[0] == 0:
            return
        later = (*held[1:], 0)
        state = (now + 1, left, later)
        if state in seen and seen[state] <= decided:
            return
        seen[state] = decided
        explore(now + 1, 0, left, later, decided)

    explore(0, 0, (1 << count) - 1, (0,) * longest, 0)
    return best, best_starts
