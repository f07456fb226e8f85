"""Optima by any memory rule, round by round from the definition, for tiny instances.

No code is shared with the package. Rows are (a, s, o); a rule is (block size, "now" or "next").
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

Rows = Sequence[tuple[int, int, int]]
Rule = tuple[int, str]


def held(rule: Rule, prompt: int, token: int) -> int:
    """Blocks that a request holds at a token, counted one by one."""
    stored = prompt + token - (1 if rule[1] == "next" else 0)
    blocks = 0
    while blocks * rule[0] < stored:
        blocks += 1
    return blocks


def optimum(rows: Rows, limit: int, rule: Rule, *, preemptive: bool = False) -> int:
    """The least total latency over everything that may run in each round.

    Without preemption whatever has begun and is not complete runs.
    """
    usable = limit // rule[0]
    done = tuple(o for _, _, o in rows)
    layer = {tuple(0 for _ in rows): 0}
    best: int | None = None
    now = 0
    while layer:
        now += 1
        ahead: dict[tuple[int, ...], int] = {}
        for state, spent in layer.items():
            waiting = [a < now and p < o for p, (a, _, o) in zip(state, rows, strict=True)]
            choices = [
                ((1,) if p and not preemptive else (0, 1)) if may else (0,)
                for may, p in zip(waiting, state, strict=True)
            ]
            for runs in product(*choices):
                blocks = sum(
                    held(rule, s, p + 1)
                    for go, p, (_, s, _) in zip(runs, state, rows, strict=True)
                    if go
                )
                if blocks <= usable:
                    after = tuple(p + go for p, go in zip(state, runs, strict=True))
                    cost = spent + sum(waiting)
                    ahead[after] = min(ahead.get(after, cost), cost)
        if done in ahead:
            reached = ahead.pop(done)
            best = reached if best is None else min(best, reached)
        layer = {s: c for s, c in ahead.items() if best is None or c < best}
    assert best is not None
    return best
