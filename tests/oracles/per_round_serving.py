"""vLLM's and Sarathi's rules one round at a time, on token counts: an oracle for both policies.

Shares no code with the package: each request is a record of what it has processed and emitted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Row = tuple[float, int, int]


@dataclass
class One:
    """A request in the batch or the queue."""

    arrival: float
    prompt: int
    output: int
    inside: bool = False
    left: int = 0
    silent: int = 0
    kept: int = 0
    tokens: list[float] = field(default_factory=list)
    start: float = -1.0
    end: float = -1.0
    evictions: int = 0

    def held(self, prefill: int) -> int:
        """Tokens in memory: the prompt from the first chunk on, and what it emitted."""
        if not self.inside:
            return 0
        return self.prompt + len(self.tokens) - (prefill - self.silent)


def serve(
    rows: list[Row],
    limit: int,
    rule: str,
    *,
    budget: int,
    seqs: int,
    watermark: int,
    keep: bool,
    prefill: int,
    d0: float,
    d1: float,
) -> tuple[list[One], list[int], list[float]]:
    """Requests in order of arrival, the memory of every round, and the end of every round."""
    requests = [One(*row) for row in rows]
    clock, memory, ends = 0.0, [], []
    while any(one.end < 0 for one in requests):
        batch = [one for one in requests if one.inside]
        queue = [one for one in requests if not one.inside and one.end < 0 and one.arrival <= clock]
        if not batch and not queue:
            clock = min(one.arrival for one in requests if one.end < 0)
            continue
        advancing: list[One] = []
        processed = 0

        def room(one: One, planned: int, inside: list[One]) -> bool:
            if len(inside) >= seqs:
                return False
            need = one.prompt + len(one.tokens) + (0 if prefill else 1)
            return not inside or planned + need <= limit - watermark

        def enter(one: One) -> None:
            one.inside, one.start = True, clock  # noqa: B023
            one.left, one.silent = one.prompt + len(one.tokens), 0

        def throw_out(one: One) -> None:
            one.inside = False
            one.evictions += 1
            if not keep:
                one.tokens.clear()

        total = sum(one.held(prefill) for one in batch)
        if rule == "vllm-v0":
            planned, tokens, inside = total, 0, list(batch)
            for one in queue:
                size = one.prompt + len(one.tokens)
                if not room(one, planned, inside) or (advancing and tokens + size > budget):
                    break
                enter(one)
                inside.append(one)
                advancing.append(one)
                tokens += size
                planned += one.prompt + len(one.tokens) + (0 if prefill else 1)
            if advancing:
                processed = tokens
                for one in advancing:
                    one.left = 0
            else:
                while sum(one.held(prefill) + 1 for one in batch) > limit:
                    throw_out(batch.pop())
                advancing = batch
                processed = len(batch)
        else:
            thrown = False
            while True:
                decoding = [one for one in batch if one.left == 0]
                free = max(0, budget - len(decoding))
                allotted = []
                for one in batch:
                    if one.left:
                        share = min(free, one.left)
                        free -= share
                        allotted.append((one, share))
                last = [one for one, share in allotted if share == one.left]
                planned = sum(one.held(prefill) for one in batch) + len(decoding) + len(last)
                if planned <= limit:
                    break
                throw_out(batch.pop())
                thrown = True
            inside = list(batch)
            for one in [] if thrown else queue:
                if not free or not room(one, planned, inside):
                    break
                enter(one)
                inside.append(one)
                planned += one.prompt + len(one.tokens) + (0 if prefill else 1)
                share = min(free, one.left)
                free -= share
                allotted.append((one, share))
            advancing = decoding
            processed = len(decoding)
            for one, share in allotted:
                processed += share
                one.left -= share
                if not one.left:
                    advancing = [*advancing, one]
        clock += d0 + d1 * processed
        for one in advancing:
            if one.silent < prefill:
                one.silent += 1
            else:
                one.tokens.append(clock)
        memory.append(sum(one.held(prefill) for one in requests))
        ends.append(clock)
        for one in requests:
            if one.inside and len(one.tokens) == one.output:
                one.inside, one.end = False, clock
    return requests, memory, ends
