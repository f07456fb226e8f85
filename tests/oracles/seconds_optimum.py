"""Exhaustive optimum in seconds of tiny workloads, in fractions; shares no code with the bounds."""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

One = tuple[int, bool, int]
"""Of a request: tokens emitted, whether it is in the cache, prompt tokens left to process. If it is
not in the cache, 0 are all of them."""
State = tuple[One, ...]
Work = tuple[int, int, int, bool]
"""Of a request that is served: tokens processed, tokens processed of its prompt before, tokens
stored, whether they are of its prompt."""
Choice = tuple[int, int, int, tuple[Work, ...], State, int, int]
"""Of what is done with some requests: tokens processed, tokens resident, blocks, the work, what
follows, how many are complete, the sum of their arrivals."""
Time = int | Fraction


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
    most = sum(prompts) + sum(outputs)
    rounds = {
        (tokens, resident): duration(tokens, resident)
        for tokens in range(1, most + 1)
        for resident in range(most + 1)
    }
    # Times are whole numbers of this unit, unless ``length`` has others.
    unit = math.lcm(*(one.denominator for one in (*arrivals, *rounds.values())))
    arrivals = [int(one * unit) for one in arrivals]
    rounds = {work: int(seconds * unit) for work, seconds in rounds.items()}
    # Time still needed at least, by tokens emitted; chunks may have done most of a prompt.
    tables = []
    for s, o in zip(prompts, outputs, strict=True):
        need = [0] * (o + 1)
        for k in range(o - 1, -1, -1):
            need[k] = need[k + 1] + rounds[1, s + k + 1 - unread]
        tables.append(need)

    def guess(now: Time, state: State) -> Time:
        return sum(
            max(now, arrivals[i]) + tables[i][one[0]] - arrivals[i]
            for i, one in enumerate(state)
            if one[0] < outputs[i]
        )

    @functools.cache
    def choices(i: int, one: One) -> list[Choice]:
        """What may be done with a request that has arrived."""
        s, o, (k, inside, left) = prompts[i], outputs[i], one
        # Tokens processed, tokens resident, what follows.
        mine: list[tuple[int, int, One]] = []
        if k == o:
            mine.append((0, 0, (k, False, 0)))
        elif not inside and not left:
            mine.append((0, 0, (k, False, 0)))
            for kept in {k, 0}:
                total = s + kept
                mine.append((total, total + 1 - unread, (kept + 1, True, 0)))
                mine += [
                    (c, total - missing * (total - c), (kept, True, total - c))
                    for c in range(1, total)
                ]
            if keeps and k:
                mine.append((1, s + k + 1 - unread, (k + 1, True, 0)))
        else:
            held = s + k
            mine += [(0, 0, (kept, False, 0)) for kept in {k, 0}]
            if keeps and left:
                mine.append((0, 0, (k, False, left)))
            if k and not keeps:
                mine.append((s, s + 1 - unread, (1, True, 0)))
            # After a token nothing of the prompt is left, and the token is still to be read.
            rests = held - missing * left if left else held - unread
            mine.append((0, rests, (k, True, left)))
            mine.append((left or 1, held + 1 - unread, (k + 1, True, 0)))
            mine += [(c, held - missing * (left - c), (k, True, left - c)) for c in range(1, left)]
        before = s + k - left if left else 0
        found = []
        for tokens, resident, (k, stays, rest) in mine:
            ends = k == o > one[0]
            work = ((tokens, before, resident, not inside or left > 0),) if tokens else ()
            blocks = resident // size + (resident % size > 0)
            after = ((k, stays and not ends, rest),)
            found.append((tokens, resident, blocks, work, after, int(ends), ends * arrivals[i]))
        return found

    start: State = tuple((0, False, 0) for _ in range(n))
    queue: list[tuple[Time, int, Time, Time, State]] = [(guess(0, start), 0, 0, 0, start)]
    reached: dict[tuple[Time, State], Time] = {(0, start): 0}
    opened = 0
    tick = itertools.count(1)

    def reach(cost: Time, end: Time, state: State) -> None:
        if (end, state) not in reached or reached[end, state] > cost:
            reached[end, state] = cost
            heapq.heappush(queue, (cost + guess(end, state), next(tick), cost, end, state))

    while queue:
        _, _, paid, now, state = heapq.heappop(queue)
        if all(one[0] == outputs[i] for i, one in enumerate(state)):
            return Fraction(paid) / unit
        if reached[now, state] < paid:
            continue
        opened += 1
        if opened > states:
            return None
        # The sums over what is done with the first requests, then with one more.
        batches: list[Choice] = [(0, 0, 0, (), (), 0, 0)]
        for i, one in enumerate(state):
            mine = choices(i, one) if arrivals[i] <= now else [(0, 0, 0, (), (one,), 0, 0)]
            batches = [
                tuple(x + y for x, y in zip(batch, choice, strict=True))
                for batch in batches
                for choice in mine
                if batch[2] + choice[2] <= limit // size
            ]
        for tokens, resident, _, work, after, ends, arrived in batches:
            if tokens:
                if length is None:
                    end = now + rounds[tokens, resident]
                else:
                    end = now + length(list(work)) * unit
                reach(paid + ends * end - arrived, end, after)
        later = [t for t in arrivals if t > now]
        if later:
            reach(paid, min(later), state)
    raise AssertionError("nothing serves this")
