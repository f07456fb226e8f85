"""Exhaustive optimum in seconds of tiny workloads, in fractions; shares no code with the bounds."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

One = tuple[int, bool, int]
"""Of a request: tokens emitted, whether it is in the cache, prompt tokens left to process. If it is
not in the cache, 0 are all of them."""
State = tuple[One, ...]
Work = tuple[int, int, int, bool]
"""Of a request that is served: tokens processed, tokens processed of its prompt before, tokens
stored, whether they are of its prompt."""


def optimum(
    arrivals: Sequence[Fraction],
    prompts: Sequence[int],
    outputs: Sequence[int],
    limit: int,
    duration: Callable[[int, int], Fraction],
    *,
    states: int = 60_000,
    rule: tuple[int, str, str] = (1, "now", "whole"),
    length: Callable[[list[Work]], Fraction] | None = None,
    keeps: bool = False,
) -> Fraction | None:
    """Least total latency over all ways to serve, best-first.

    ``duration(tokens, resident)`` are the seconds of a round, not falling in either; or at most
    those that ``length`` says.

    Before each round every request that has arrived is put out of the batch (tokens kept), sent
    back (tokens lost), held, given a chunk of its prompt or advanced; or, the batch being what it
    is, the machine idles until the next arrival. None when more than ``states`` states were opened.

    Who was put out processes prompt and tokens again; with ``keeps`` it need not, and what was
    processed of its prompt is kept too. Who is in the batch may begin anew at once.

    ``rule`` is the block size, when an emitted token is stored ("now" or "next"), and whether a
    prompt in chunks holds all of itself ("whole") or what is processed of it ("chunks").
    """
    n = len(arrivals)
    size, emitted, allocation = rule
    unread = int(emitted == "next")
    missing = int(allocation == "chunks")
    # Seconds still needed at least, by tokens emitted; chunks may have done most of a prompt.
    tables = []
    for s, o in zip(prompts, outputs, strict=True):
        need = [Fraction(0)] * (o + 1)
        for k in range(o - 1, -1, -1):
            need[k] = need[k + 1] + duration(1, s + k + 1 - unread)
        tables.append(need)

    def guess(now: Fraction, state: State) -> Fraction:
        return sum(
            (
                max(now, arrivals[i]) + tables[i][one[0]] - arrivals[i]
                for i, one in enumerate(state)
                if one[0] < outputs[i]
            ),
            Fraction(0),
        )

    start: State = tuple((0, False, 0) for _ in range(n))
    queue = [(guess(Fraction(0), start), 0, Fraction(0), Fraction(0), start)]
    best: dict[tuple[Fraction, State], Fraction] = {}
    tick = itertools.count(1)
    while queue:
        _, _, paid, now, state = heapq.heappop(queue)
        if all(one[0] == outputs[i] for i, one in enumerate(state)):
            return paid
        if (now, state) in best and best[now, state] <= paid:
            continue
        best[now, state] = paid
        if len(best) > states:
            return None
        options = []
        for i, (k, inside, left) in enumerate(state):
            s = prompts[i]
            # Tokens processed, tokens resident, what follows, whether it does something.
            mine: list[tuple[int, int, One, bool]] = []
            if k == outputs[i] or arrivals[i] > now:
                mine.append((0, 0, (k, False, 0), False))
            elif not inside and not left:
                mine.append((0, 0, (k, False, 0), False))
                for kept in {k, 0}:
                    total = s + kept
                    mine.append((total, total + 1 - unread, (kept + 1, True, 0), True))
                    mine += [
                        (c, total - missing * (total - c), (kept, True, total - c), True)
                        for c in range(1, total)
                    ]
                if keeps and k:
                    mine.append((1, s + k + 1 - unread, (k + 1, True, 0), True))
            else:
                held = s + k
                mine += [(0, 0, (kept, False, 0), False) for kept in {k, 0}]
                if keeps and left:
                    mine.append((0, 0, (k, False, left), False))
                if k and not keeps:
                    mine.append((s, s + 1 - unread, (1, True, 0), True))
                # After a token nothing of the prompt is left, and the token is still to be read.
                rests = held - missing * left if left else held - unread
                mine.append((0, rests, (k, True, left), False))
                mine.append((left or 1, held + 1 - unread, (k + 1, True, 0), True))
                mine += [
                    (c, held - missing * (left - c), (k, True, left - c), True)
                    for c in range(1, left)
                ]
            options.append(mine)
        for choice in itertools.product(*options):
            if not any(one[3] for one in choice):
                continue
            resident = sum(one[1] for one in choice)
            if sum(one[1] // size + (one[1] % size > 0) for one in choice) > limit // size:
                continue
            if length is None:
                end = now + duration(sum(one[0] for one in choice), resident)
            else:
                work = []
                for i, one in enumerate(choice):
                    k, inside, left = state[i]
                    if one[3]:
                        before = prompts[i] + k - left if inside and left else 0
                        work.append((one[0], before, one[1], not inside or left > 0))
                end = now + length(work)
            cost = paid
            after: list[One] = []
            for i, one in enumerate(choice):
                k, inside, left = one[2]
                if k == outputs[i] and state[i][0] < outputs[i]:
                    cost += end - arrivals[i]
                    inside = False
                after.append((k, inside, left))
            following = tuple(after)
            if best.get((end, following), cost + 1) > cost:
                entry = (cost + guess(end, following), next(tick), cost, end, following)
                heapq.heappush(queue, entry)
        later = [t for t in arrivals if t > now]
        if later:
            t = min(later)
            heapq.heappush(queue, (paid + guess(t, state), next(tick), paid, t, state))
    raise AssertionError("nothing serves this")
