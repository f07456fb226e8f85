"""Optima of tiny instances by plain enumeration, without any of the solver's parts.

A request started at t holds s + 1, ..., s + o tokens in rounds t + 1, ..., t + o.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count, product

from hindsight.goals import PREEMPTIVE, Optimum
from instances import Instance

Starts = tuple[int, ...]


def fits(instance: Instance, starts: Starts) -> bool:
    """Tell whether nothing starts before it arrives and no round holds more than M tokens."""
    held: dict[int, int] = {}
    for request, start in zip(instance, starts, strict=True):
        if start < request.arrival_time:
            return False
        for k in range(1, request.output_length + 1):
            held[start + k] = held.get(start + k, 0) + request.prompt_length + k
    return all(tokens <= instance.memory_limit for tokens in held.values())


def optimum(instance: Instance, goal: Optimum) -> int:
    """Return the least cost of a feasible schedule."""
    if goal == PREEMPTIVE:
        return _preemptive_optimum(instance)
    if goal == "makespan":
        # Try every start that completes by round K, for larger and larger K.
        ends = [(request.arrival_time, request.output_length) for request in instance]
        for last in count(max(a + o for a, o in ends)):
            if any(fits(instance, s) for s in product(*(range(a, last - o + 1) for a, o in ends))):
                return last
    return _least_total_latency(instance)


def _least_total_latency(instance: Instance) -> int:
    """Try every way to wait K rounds in all, counted by the requests' weights, for growing K."""
    weights, arrivals = instance.weights.tolist(), instance.arrival_times.tolist()
    for waiting in count():
        for waits in _shares(waiting, weights):
            if fits(instance, tuple(map(sum, zip(arrivals, waits, strict=True)))):
                return waiting + int(instance.weights @ instance.output_lengths)
    raise AssertionError


def _shares(total: int, weights: list[int]) -> Iterator[Starts]:
    """Yield every tuple of numbers >= 0 whose sum, by weight, is ``total``."""
    weight, *others = weights
    if not others:
        if total % weight == 0:
            yield (total // weight,)
        return
    for first in range(total // weight + 1):
        for rest in _shares(total - weight * first, others):
            yield (first, *rest)


def _preemptive_optimum(instance: Instance) -> int:
    """Try every choice of requests in a round; stopped ones keep tokens and hold nothing."""
    requests = [(r.arrival_time, r.prompt_length, r.output_length) for r in instance]
    indices = range(len(requests))

    @cache
    def least(now: int, done: Starts) -> int:
        """Return the least weighted sum over requests of the rounds that each is still present."""
        present = [i for i in indices if requests[i][0] <= now and done[i] < requests[i][2]]
        if not present:
            later = [a for a, _, _ in requests if a > now]
            return least(min(later), done) if later else 0
        best = None
        for choice in product((False, True), repeat=len(present)):
            running = [i for i, runs in zip(present, choice, strict=True) if runs]
            held = sum(requests[i][1] + done[i] + 1 for i in running)
            # Each present request fits alone, so an idle round gains nothing.
            if running and held <= instance.memory_limit:
                after = tuple(done[i] + (i in running) for i in indices)
                cost = sum(instance[i].weight for i in present) + least(now + 1, after)
                best = cost if best is None else min(best, cost)
        assert best is not None
        return best

    return least(0, (0,) * len(requests))
