"""The papers' pseudocode, round by round and as plainly as it can be written: oracles for policies.

They share no code with the package and jump over nothing: every round asks every question again.
Everything works on (arrival, prompt, output) rows; the result is the last start of each request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Row = tuple[int, int, int]


def fits_ahead(running: list[tuple[int, int, int]], now: int, limit: int) -> bool:
    """Whether (start, prompt, expected output) rows stay within ``limit`` in every later round."""
    last = max(start + output for start, _, output in running)
    for r in range(now + 1, last + 1):
        held = sum(s + r - start for start, s, output in running if start < r <= start + output)
        if held > limit:
            return False
    return True


def lookahead_prefix(rows: Sequence[Row], limit: int, order: Callable[[int], object]) -> list[int]:
    """MC-SF and its kin ([J25] Algorithms 1, 2): at every round the longest prefix that fits."""
    starts: dict[int, int] = {}
    now = 0
    while len(starts) < len(rows):
        waiting = [i for i in range(len(rows)) if i not in starts and rows[i][0] <= now]
        for i in sorted(waiting, key=lambda i: (order(i), i)):
            alive = [j for j in starts if starts[j] + rows[j][2] > now]
            trial = [(starts[j], rows[j][1], rows[j][2]) for j in alive]
            if not fits_ahead([*trial, (now, rows[i][1], rows[i][2])], now, limit):
                break
            starts[i] = now
        now += 1
    return [starts[i] for i in range(len(rows))]


def fixed_order(rows: Sequence[Row], limit: int, order: Sequence[int]) -> list[int]:
    """Phase 2 of [W25] Algorithm 1 for everything at once and a given order."""
    return lookahead_prefix(rows, limit, lambda i: list(order).index(i))


def a_min(
    rows: Sequence[Row], limit: int, lower: Sequence[int]
) -> tuple[list[int], list[tuple[int, int]]]:
    """[C25] Algorithms 2 and 5 with ties by index; also every eviction as (round, request).

    A running request past its bound counts as finishing in the next round.
    """
    bound = list(lower)
    start: dict[int, int] = {}
    done: set[int] = set()
    final = [0] * len(rows)
    evictions: list[tuple[int, int]] = []
    now = 0
    while len(done) < len(rows):
        for i in [i for i in start if now - start[i] == rows[i][2]]:
            done.add(i)
            final[i] = start.pop(i)
        waiting = [
            i for i in range(len(rows)) if i not in start and i not in done and rows[i][0] <= now
        ]
        while sum(rows[i][1] + now - start[i] + 1 for i in start) > limit:
            i = min(start, key=lambda i: (bound[i], i))
            evictions.append((now, i))
            bound[i] = max(bound[i], now - start.pop(i))
        for i in sorted(waiting, key=lambda i: (bound[i], i)):
            ahead = [(start[j], rows[j][1], max(bound[j], now - start[j] + 1)) for j in start]
            if not fits_ahead([*ahead, (now, rows[i][1], bound[i])], now, limit):
                break
            start[i] = now
        now += 1
    return final, evictions


def a_ell(rows: Sequence[Row], limit: int, lower: int, upper: int) -> list[int]:
    """[C25] Algorithm 6 for everything at once; who is removed may restart in the next round,
    in the same one only when nothing else is left to run.
    """
    queue = list(range(len(rows)))
    long: set[int] = set()
    start: dict[int, int] = {}
    final = [0] * len(rows)
    left = len(rows)
    now = 0
    while left:
        for i in [i for i in start if now - start[i] == rows[i][2]]:
            final[i] = start.pop(i)
            left -= 1
        removed = [i for i in start if i not in long and now - start[i] >= lower]
        for i in removed:
            del start[i]
        long.update(removed)
        if not start and not queue:
            queue += removed
            removed = []
        while queue:
            expect = {i: upper if i in long else lower for i in [*start, queue[0]]}
            ahead = [(start[j], rows[j][1], expect[j]) for j in start]
            i = queue[0]
            if not fits_ahead([*ahead, (now, rows[i][1], expect[i])], now, limit):
                break
            start[queue.pop(0)] = now
        queue += removed
        now += 1
    return final


def alpha_protection(
    rows: Sequence[Row], limit: int, threshold: int, patience: int = 400
) -> list[int] | None:
    """[J25] Section 5.2; None when it runs for ``patience`` rounds without a completion."""
    start: dict[int, int] = {}
    done: dict[int, int] = {}
    now = last = 0
    while len(done) < len(rows):
        for i in [i for i in start if now - start[i] == rows[i][2]]:
            done[i] = start.pop(i)
            last = now
        if now - last > patience:
            return None
        memory = sum(rows[i][1] + now - start[i] + 1 for i in start)
        if memory > limit:
            start.clear()
            memory = 0
        waiting = [
            i for i in range(len(rows)) if i not in start and i not in done and rows[i][0] <= now
        ]
        for i in sorted(waiting, key=lambda i: (rows[i][0], i)):
            if memory + rows[i][1] + 1 > threshold and start:
                break
            memory += rows[i][1] + 1
            start[i] = now
        now += 1
    return [done[i] for i in range(len(rows))]
