"""Rules of a schedule in seconds, one round and one request at a time, in fractions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from enumeration import Work

Row = tuple[int, int, int, int, int, int]
"""Request, first round (from 1), rounds, chunk (-1 advances, 0 holds), tokens before, prompt."""


def replay(
    arrivals: Sequence[Fraction],
    prompts: Sequence[int],
    outputs: Sequence[int],
    limit: int,
    rows: Sequence[Row],
    starts: Sequence[Fraction],
    duration: Callable[[Sequence[Work]], Fraction],
    slack: Fraction = Fraction(0),
    rule: tuple[int, str, str] = (1, "now", "whole"),
    *,
    keeps: bool = True,
) -> tuple[set[str], list[Fraction | None]]:
    """Kinds of broken rules, and completion times.

    ``duration(works)`` are the seconds of a round. A round that begins within ``slack`` of the end
    of the one before it begins as soon as it may. ``rule`` is the block size, when an emitted token
    is stored, and what of a prompt is held. Unless it ``keeps`` them, a request that comes back
    processes prompt and tokens again.
    """
    n = len(arrivals)
    broken: set[str] = set()
    emitted, left = [0] * n, [0] * n
    inside = [False] * n
    unread = [False] * n
    processed = [0] * n
    size, emitted_token, allocation = rule
    completion: list[Fraction | None] = [None] * n
    before: Fraction | None = None
    for r, start in enumerate(starts, 1):
        if start < 0 or (before is not None and start < before - slack):
            broken.add("clock")
        if before is not None and abs(start - before) <= slack:
            served = [arrivals[row[0]] for row in rows if row[1] <= r < row[1] + row[2]]
            start = max([before, *(one for one in served if one <= start + slack)])
        works = []
        blocks = 0
        done_now = []
        for i in range(n):
            here = [row for row in rows if row[0] == i and row[1] <= r < row[1] + row[2]]
            if not here:
                inside[i] = False
                continue
            if len(here) > 1:
                broken.add("order")
            _, first, _, chunk, had, prompt = here[0]
            if start < arrivals[i]:
                broken.add("early-start")
            if r == first:
                stays = inside[i] and had == emitted[i] and prompt == left[i]
                # What it has processed it may find again, unless it begins anew.
                found = prompts[i] + had - prompt
                enters = found == 0 and had in {0, emitted[i]}
                enters |= keeps and had == emitted[i] and 0 < found <= processed[i]
                if not stays and not enters:
                    broken.add("order")
                emitted[i], left[i] = had, prompt
                if prompt:
                    unread[i] = False
            inside[i] = True
            is_prompt, past = left[i] > 0, prompts[i] + emitted[i] - left[i]
            if completion[i] is not None:
                broken.add("output")
            if chunk == -1:
                tokens = left[i] or 1
                left[i] = 0
                emitted[i] += 1
                unread[i] = True
                if emitted[i] == outputs[i]:
                    done_now.append(i)
                elif emitted[i] > outputs[i]:
                    broken.add("output")
            else:
                tokens = chunk
                left[i] -= chunk
                if left[i] < 0:
                    broken.add("prompt")
            processed[i] = prompts[i] + emitted[i] - max(left[i], 1)
            stored = prompts[i] + emitted[i]
            if allocation == "chunks":
                stored -= left[i]
            if emitted_token == "next" and unread[i]:
                stored -= 1
            works.append(Work(tokens, past, stored, is_prompt))
            blocks += stored // size + (stored % size > 0)
        if blocks > limit // size:
            broken.add("memory")
        before = start + duration(works)
        for i in done_now:
            completion[i] = before
    if any(one is None for one in completion):
        broken.add("output")
    return broken, completion
