"""The most requests on time of tiny workloads in seconds, by enumeration in fractions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

One = tuple[int, int, Fraction]
"""Of a request: tokens emitted (-1 once it is late), prompt tokens left, end of its first token."""
Limit = tuple[Fraction | None, Fraction | None, Fraction | None]
"""Latency, first token, mean time of a token after it; None where there is no limit."""


def most_on_time(
    arrivals: Sequence[Fraction],
    prompts: Sequence[int],
    outputs: Sequence[int],
    limit: int,
    duration: Callable[[int, int], Fraction],
    levels: Sequence[Limit],
) -> int:
    """Return how many can be on time; who pauses keeps its tokens, prompts may run in chunks.

    A round lasts ``duration(tokens processed, tokens of the batch)``. Who is late is not served.
    """
    n = len(arrivals)

    def after(i: int, one: One, tokens: int, now: Fraction) -> One:
        """What request i is after a round that ends now and processed so many of its tokens."""
        k, left, first = one
        latency, first_token, per_token = levels[i]
        if tokens < left:
            return k, left - tokens, first
        if k == 0:
            first = now
            if first_token is not None and now - arrivals[i] > first_token:
                return -1, 0, now
        if latency is not None and now - arrivals[i] > latency:
            return -1, 0, now
        k += 1
        slow = per_token is not None and k == outputs[i] > 1 and now - first > per_token * (k - 1)
        return (-1, 0, now) if slow else (k, 0, first)

    @functools.cache
    def most(now: Fraction, state: tuple[One, ...]) -> int:
        """How many of those not complete can still be on time."""
        active = []
        for i, (k, _, _) in enumerate(state):
            latency = levels[i][0]
            over = latency is not None and now - arrivals[i] >= latency
            if 0 <= k < outputs[i] and arrivals[i] <= now and not over:
                active.append(i)
        later = [t for t in arrivals if t > now]
        best = most(min(later), state) if later else 0
        choices = [range(max(state[i][1], 1) + 1) for i in active]
        for taken in itertools.product(*choices):
            work = [(i, tokens) for i, tokens in zip(active, taken, strict=True) if tokens]
            # A request holds all of its prompt, and the token that it emits.
            held = sum(prompts[i] + state[i][0] + (tokens >= state[i][1]) for i, tokens in work)
            if not work or held > limit:
                continue
            end = now + duration(sum(tokens for _, tokens in work), held)
            new = list(state)
            for i, tokens in work:
                new[i] = after(i, state[i], tokens, end)
            done = sum(new[i][0] == outputs[i] for i, _ in work)
            best = max(best, done + most(end, tuple(new)))
        return best

    start = tuple((0, max(s, 1), Fraction(0)) for s in prompts)
    assert n == len(prompts)
    return most(min(arrivals), start)
