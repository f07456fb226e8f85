"""Optima of tiny instances by plain enumeration, without any of the solver's parts.

A request with k tokens holds s + k + 1 in a round in which it runs.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product

from hindsight.outcomes.goals import PREEMPTIVE, Optimum
from instances import Instance

Tokens = tuple[int, ...]


def optimum(instance: Instance, goal: Optimum) -> int:
    """Return the least cost of a feasible schedule, by every choice of requests in every round.

    Who has begun runs to the end, unless the goal is preemptive: then it keeps its tokens and holds
    nothing.
    """
    rows = [(r.arrival_time, r.prompt_length, r.output_length, r.weight) for r in instance]

    @cache
    def least(now: int, done: Tokens) -> float:
        """Return the last round, or the weighted sum of rounds that each is still present."""
        left = [i for i, row in enumerate(rows) if done[i] < row[2]]
        present = [i for i in left if rows[i][0] <= now]
        later = [rows[i][0] for i in left if rows[i][0] > now]
        if not left:
            return now if goal == "makespan" else 0
        if not present:
            return least(min(later), done)
        begun = set() if goal == PREEMPTIVE else {i for i in present if done[i] > 0}
        best = math.inf
        for choice in product((False, True), repeat=len(present)):
            running = {i for i, runs in zip(present, choice, strict=True) if runs}
            held = sum(rows[i][1] + done[i] + 1 for i in running)
            # Each fits alone, so that only waiting for an arrival gains by an idle round.
            if held <= instance.memory_limit and begun <= running and (running or later):
                best = min(
                    best, least(now + 1, tuple(k + (i in running) for i, k in enumerate(done)))
                )
        return best + (0 if goal == "makespan" else sum(rows[i][3] for i in present))

    return int(least(0, (0,) * len(rows)))
