"""SGLang's and TensorRT-LLM's rules one round at a time: an oracle for both policies.

Shares no code with the package: each request is a record of what it has processed and emitted, and
the lists, flags and ratios are those that the engines keep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Row = tuple[float, int, int]


@dataclass
class Memory:
    """What is held: blocks, whether the newest token is stored, whether prompts grow by chunks."""

    limit: int
    block: int = 1
    newest_stored: bool = True
    by_chunks: bool = False

    def __post_init__(self) -> None:
        self.room = self.limit // self.block * self.block

    def whole(self, tokens: int) -> int:
        """Rounded up to blocks."""
        blocks = tokens // self.block
        return (blocks if blocks * self.block == tokens else blocks + 1) * self.block


@dataclass(eq=False)
class One:
    """A request; ``todo`` is what is left of its prompt, the tokens it kept included."""

    number: int
    arrival: float
    prompt: int
    output: int
    longest: int
    inside: bool = False
    todo: int = 0
    kept: int = 0
    reserved: int = 0
    tokens: list[float] = field(default_factory=list)
    start: float = -1.0
    end: float = -1.0
    evictions: int = 0

    def size(self) -> int:
        """Tokens to process when it enters."""
        return self.prompt + len(self.tokens)

    def enter(self, clock: float) -> None:
        """Join the batch."""
        self.inside, self.start = True, clock
        self.todo, self.kept = self.size(), len(self.tokens)

    def thrown_out(self) -> None:
        """Leave the batch with its tokens."""
        self.inside = False
        self.evictions += 1

    def held(self, memory: Memory) -> int:
        """Tokens in memory, in whole blocks."""
        return memory.whole(self.stored(memory))

    def stored(self, memory: Memory) -> int:
        """Tokens in memory."""
        if not self.inside:
            return 0
        if self.todo or len(self.tokens) == self.kept:
            stored = self.prompt + self.kept
            if memory.by_chunks:
                stored -= self.todo
        else:
            stored = self.prompt + len(self.tokens) - (not memory.newest_stored)
        return stored

    def held_next(self, memory: Memory) -> int:
        """Tokens in memory, in whole blocks, after it has advanced."""
        return memory.whole(self.prompt + len(self.tokens) + 1 - (not memory.newest_stored))


Key = Callable[[One], tuple[object, ...]]
Served = tuple[list[One], list[int], list[float]]


class Record:
    """Clock, memory and round ends; what every engine's round does to its requests."""

    def __init__(self, requests: list[One], memory: Memory, d0: float, d1: float) -> None:
        self.requests, self.memory = requests, memory
        self.d0, self.d1 = d0, d1
        self.clock = 0.0
        self.profile: list[int] = []
        self.ends: list[float] = []

    def run(self, advancing: list[One], processed: int) -> None:
        """A round in which ``advancing`` emit a token each."""
        self.clock += self.d0 + self.d1 * processed
        for one in advancing:
            one.tokens.append(self.clock)
        self.profile.append(sum(one.stored(self.memory) for one in self.requests))
        assert sum(one.held(self.memory) for one in self.requests) <= self.memory.room
        self.ends.append(self.clock)
        for one in self.requests:
            if one.inside and len(one.tokens) == one.output:
                one.inside, one.end = False, self.clock

    def arrived(self, known: list[One]) -> list[One]:
        """Requests that have arrived and are not in ``known``."""
        return [one for one in self.requests if one.arrival <= self.clock and one not in known]

    def next_arrival(self) -> float:
        """The first that lies ahead."""
        return min(one.arrival for one in self.requests if one.arrival > self.clock)


def serve_sglang(
    rows: list[Row],
    memory: Memory,
    *,
    announced: list[int],
    chunk: int | None,
    most: int,
    slots: int,
    d0: float,
    d1: float,
    key: Key | None = None,
) -> Served:
    """Requests in order of arrival, tokens stored in every round, the end of every round."""
    room = memory.room - memory.block - 1
    requests = [
        One(i, *row, max(0, min(announced[i], room - memory.whole(row[1]))))
        for i, row in enumerate(rows)
    ]
    record = Record(requests, memory, d0, d1)
    first = 0.7
    least = first * 0.14
    decay = (first - least) / 600
    ratio, full = first, False
    seen: list[One] = []
    waiting: list[One] = []
    running: list[One] = []
    last: list[One] = []
    chunked: One | None = None
    while any(one.end < 0 for one in requests):
        new = record.arrived(seen)
        seen += new
        waiting += new
        # The prompts of the round before join those that decode.
        joined = [one for one in last if one is not chunked and one.end < 0]
        staying = [one for one in running if one.end < 0]
        if len(joined) < len(last) or len(staying) < len(running) or not running:
            full = False
        running, last = staying + joined, []

        batch: list[tuple[One, int]] = []
        if chunked is not None or (waiting and not full and len(running) < slots):
            held = sum(one.held(memory) for one in requests if one is not chunked)
            reserved = 0.0
            for one in running:
                still = one.longest - len(one.tokens)
                reserved += ratio * (0 if still < 0 else 4096 if still > 4096 else still)
            free = memory.room - held
            if chunked is not None:
                free -= memory.whole(chunked.size() - chunked.todo)
            free -= reserved
            left, rest = most, chunk
            if chunked is not None:
                assert rest is not None
                share = int(free) if 0 < int(free) < rest else rest
                share = min(share, chunked.todo)
                batch.append((chunked, share))
                free -= memory.whole(share) + memory.block
                left -= memory.whole(share)
                rest -= memory.whole(share)
                if share == chunked.todo:
                    free -= min(chunked.longest, 4096)
                    chunked = None
            if key is not None:
                waiting.sort(key=key)
            for one in list(waiting):
                spent = left <= 0 or (rest is not None and rest <= 0)
                if free > 0 and spent:
                    break
                if len(batch) >= slots - len(running):
                    full = True
                    break
                still = min(max(one.longest - len(one.tokens), 0), 4096)
                wanted = one.size() + still + memory.block
                if wanted >= free and (batch or running):
                    full = True
                    break
                paged = memory.whole(one.size())
                if rest is None:
                    if batch and paged >= left:
                        break
                    share = one.size()
                elif paged <= rest:
                    share = one.size()
                else:
                    share = rest - rest % memory.block
                    if share == 0:
                        break
                waiting.remove(one)
                one.enter(record.clock)
                batch.append((one, share))
                left -= memory.whole(share)
                if rest is not None:
                    rest -= memory.whole(share)
                free -= memory.whole(share) + memory.block
                if share < one.todo:
                    chunked = one
                else:
                    free -= min(one.longest, 4096)
                if free <= 0:
                    full = True
                    break
        elif waiting and not full:
            full = True
        if batch:
            for one, share in batch:
                one.todo -= share
            last = [one for one, _ in batch]
            record.run([one for one in last if not one.todo], sum(share for _, share in batch))
            continue

        if not running:
            if not waiting:
                if all(one.end >= 0 for one in requests):
                    break
                ratio = first
                record.clock = record.next_arrival()
            continue
        if sum(one.held_next(memory) for one in running) > memory.room:
            order = sorted(running, key=lambda one: (len(one.tokens), -one.prompt), reverse=True)
            while len(order) > 1 and sum(one.held_next(memory) for one in order) > memory.room:
                gone = order.pop()
                gone.thrown_out()
                waiting.append(gone)
            running = order
            emitted = sum(len(one.tokens) for one in running)
            longest = sum(one.longest for one in running)
            ratio = min(1.0, (emitted + 20 * len(running)) / (longest + 1))
            full = False
        else:
            ratio = max(ratio - decay, least)
        record.run(running, len(running))
    return requests, record.profile, record.ends


def serve_tensorrt_llm(
    rows: list[Row],
    memory: Memory,
    *,
    announced: list[int],
    capacity: str,
    seqs: int,
    budget: int,
    d0: float,
    d1: float,
    key: Key | None = None,
) -> Served:
    """Requests in order of arrival, tokens stored in every round, the end of every round."""
    requests = [
        One(i, *row, max(0, min(announced[i], memory.room - row[1]))) for i, row in enumerate(rows)
    ]
    record = Record(requests, memory, d0, d1)
    place: Key = key or (lambda one: (one.number,))
    started: list[One] = []
    while any(one.end < 0 for one in requests):
        started = [one for one in started if one.end < 0]
        pending = [one for one in record.arrived(started) if one.end < 0]
        pending.sort(key=lambda one: (place(one), one.number))
        if not started and not pending:
            record.clock = record.next_arrival()
            continue
        closed = capacity == "STATIC_BATCH" and bool(started)
        while sum(one.held_next(memory) for one in started) > memory.room:
            started.pop().thrown_out()
            closed = True
        decoding = started[:budget]
        planned = sum(one.held_next(memory) for one in started)
        left = budget - len(started)
        reserved = sum(one.reserved for one in started)
        newcomers: list[One] = []
        for one in pending:
            if closed or len(started) >= seqs:
                break
            peak = memory.whole(one.prompt + max(one.longest, len(one.tokens) + 1))
            entering = memory.whole(one.size() + memory.newest_stored)
            if started:
                if planned + entering > memory.room:
                    break
                if capacity != "MAX_UTILIZATION" and reserved + peak > memory.room:
                    break
            if one.size() > left and (newcomers or one.size() <= budget):
                break
            one.enter(record.clock)
            one.reserved = peak
            started.append(one)
            newcomers.append(one)
            reserved += peak
            planned += entering
            left -= one.size()
        prompts = sum(one.todo for one in newcomers)
        for one in newcomers:
            one.todo = 0
        record.run(decoding + newcomers, len(decoding) + prompts)
    return requests, record.profile, record.ends
