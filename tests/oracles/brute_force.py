"""Oracles for tiny instances, written from the definition; they share no code with the package.

An instance is only read: ``memory_limit`` and, of each request, ``arrival_time``,
``prompt_length`` and ``output_length``. A request started at t with lengths (s, o) runs in rounds
t+1 .. t+o and holds s + (r - t) tokens in round r.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from operator import add
from typing import Any

Rows = list[tuple[int, int, int]]
State = tuple[int, int]
"""(m, r) holds m + 1 tokens in the next round, and runs in the next r rounds."""


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
    held = [0] * (makespan_by_definition(instance, start_times) + 1)
    for (_, prompt, output), start in zip(rows_of(instance), start_times, strict=True):
        start = int(start)
        for r in range(max(start + 1, 0), start + output + 1):
            held[r] += prompt + (r - start)
    return held


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


def feasible_total(instance: Any, start_times: Sequence[int]) -> int:
    """The total latency of start times that have to be feasible."""
    assert is_feasible_by_definition(instance, start_times)
    return total_latency_by_definition(instance, start_times)


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


def fit(states: Sequence[State], limit: int) -> bool:
    """Whether all that are left in each later round hold at most M in it."""
    return all(sum(m + r for m, later in states if later >= r) <= limit for _, r in states)


def heaviest(
    copies: Mapping[State, int], weights: Mapping[State, Any], limit: int, beside: Sequence[State]
) -> Any:
    """The most that up to so many copies of states weigh beside others, by trying them all."""
    states = [state for state in copies if weights.get(state)]

    def best(position: int, chosen: list[State]) -> Any:
        if position == len(states):
            return 0
        found, state = best(position + 1, chosen), states[position]
        for count in range(1, copies[state] + 1):
            more = chosen + [state] * count
            if not fit(more, limit):
                break
            found = max(found, count * weights[state] + best(position + 1, more))
        return found

    return best(0, list(beside))


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
    """The least total latency of a feasible schedule, and one schedule that has it.

    Depth first over rounds: at each round t, start any set of arrived requests, or none.

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
    # What each holds in the rounds from its start; its twins of lower index, as bits.
    holds = [tuple(s + k + 1 if k < o else 0 for k in range(longest)) for _, s, o in rows]
    twins = [sum(1 << j for j in range(i) if rows[j] == rows[i]) for i in range(count)]

    # One after the other in order of arrival: a first schedule.
    starts = [0] * count
    clock = 0
    for i in sorted(range(count), key=lambda i: (rows[i][0], i)):
        starts[i] = max(clock, rows[i][0])
        clock = starts[i] + rows[i][2]
    best = sum(starts[i] + rows[i][2] for i in range(count))
    best_starts = tuple(starts)
    seen: dict[tuple[int, int, tuple[int, ...]], int] = {}

    @cache
    def members(left: int) -> tuple[list[tuple[int, int]], list[int], int]:
        """Of the requests left: (a, o), sums of the k smallest volumes, the last arrival."""
        some = [rows[i] for i in range(count) if left >> i & 1]
        volumes = sorted(s * o + o * (o + 1) // 2 for _, s, o in some)
        return [(a, o) for a, _, o in some], [*accumulate(volumes)], max(a for a, _, _ in some)

    def completions_ahead(now: int, left: int, held: tuple[int, ...]) -> list[int]:
        """Lower bounds, in order, on the completion times of the requests left.

        The k-th completion is no sooner than (i) the k-th smallest of max(now, a) + o, and (ii) the
        first round by which the memory still free since ``now`` adds up to the k smallest
        volumes, since k requests have then held all of theirs.
        """
        some, volumes, _ = members(left)
        alone = sorted([max(now, a) + o for a, o in some])
        free = steps = 0
        bounds = []
        for least, needed in zip(alone, volumes, strict=True):
            while free < needed:
                free += limit - (held[steps] if steps < longest else 0)
                steps += 1
            bounds.append(max(least, now + steps))
        return bounds

    def explore(now: int, position: int, left: int, held: tuple[int, ...], decided: int) -> None:
        """Decide on ``order[position:]`` at time ``now``, then on the rounds that follow."""
        nonlocal best, best_starts
        if not left:
            if decided < best:
                best, best_starts = decided, tuple(starts)
            return
        if decided + sum(completions_ahead(now, left, held)) >= best:
            return
        for place in range(position, count):
            i = order[place]
            if not left >> i & 1 or rows[i][0] > now or left & twins[i]:
                continue
            more = tuple(map(add, held, holds[i]))
            if max(more) > limit:
                continue
            starts[i] = now
            explore(now, place + 1, left & ~(1 << i), more, decided + now + rows[i][2])
        if members(left)[2] <= now and held[0] == 0:
            return
        later = (*held[1:], 0)
        state = (now + 1, left, later)
        if state in seen and seen[state] <= decided:
            return
        seen[state] = decided
        explore(now + 1, 0, left, later, decided)

    explore(0, 0, (1 << count) - 1, (0,) * longest, 0)
    return best - sum(a for a, _, _ in rows), best_starts
