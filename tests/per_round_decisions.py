"""A policy's decisions carried out one round at a time: an oracle for what a run records.

Shares no code with the package: each request counts the rounds in which it advanced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Served:
    """What became of a request; rounds are those of the run."""

    arrival: float
    prompt: int
    output: int
    inside: bool = False
    # Prompt tokens still to process, and rounds of this stay in which it advanced.
    left: int = 0
    advanced: int = 0
    # [start, end, completed, tokens kept]
    stays: list[list[int]] = field(default_factory=list)
    # Rounds of the tokens that were not lost.
    tokens: list[int] = field(default_factory=list)
    sent_back: int = 0
    end: int = -1

    def begin(self, now: int) -> None:
        """Join the batch."""
        assert not self.inside
        assert self.end < 0
        assert self.arrival <= now
        self.inside, self.left, self.advanced = True, self.prompt + len(self.tokens), 0
        self.stays.append([now, -1, 0, len(self.tokens)])

    def leave(self, now: int, *, completed: bool) -> None:
        """Leave the batch."""
        assert self.inside
        self.inside = False
        self.stays[-1][1:3] = [now, int(completed)]

    def held(self, silent: int) -> int:
        """Tokens in memory."""
        return self.prompt - silent + self.stays[-1][3] + self.advanced if self.inside else 0


@dataclass
class Rounds:
    """The requests in order of appearance, and each round 1, 2, .. by what it did."""

    requests: list[Served]
    memory: list[int] = field(default_factory=list)
    batch_size: list[int] = field(default_factory=list)
    processed: list[int] = field(default_factory=list)
    paused: bool = False


class Log:
    """Notes the decisions of a policy, as they were at the time."""

    def __init__(self, policy: Any) -> None:
        self.entries: list[tuple[int, dict[str, Any]]] = []
        decide = policy.decide

        def noting(state: Any) -> Any:
            decision = decide(state)
            names = ("evict", "preempt", "start", "hold")
            copies = {name: list(getattr(decision, name)) for name in names}
            self.entries.append((state.round_index, {**copies, "prefill": {**decision.prefill}}))
            return decision

        policy.decide = noting


def carry_out(
    rows: Sequence[tuple[float, int, int]],
    log: Log,
    last_round: int,
    limit: int,
    *,
    silent: int,
    timed: bool,
) -> Rounds:
    """Rounds 1 .. ``last_round``; ``silent`` rounds of a stay emit nothing.

    Only in the round model (``timed`` is False) is an arrival a round's index, to be checked.
    """
    requests = [Served(-1 if timed else arrival, s, o) for arrival, s, o in rows]
    found = Rounds(requests)
    entries = list(log.entries)
    hold: set[int] = set()
    prefill: dict[int, int] = {}

    def decide(now: int) -> None:
        nonlocal hold, prefill
        while entries and entries[0][0] <= now:
            at, decision = entries.pop(0)
            for name in ("evict", "preempt"):
                for index in decision[name]:
                    one = requests[index]
                    one.leave(at, completed=False)
                    one.sent_back += 1
                    if name == "evict":
                        one.tokens.clear()
            for index in decision["start"]:
                requests[index].begin(at)
            hold, prefill = set(decision["hold"]), decision["prefill"]

    for r in range(1, last_round + 1):
        decide(r - 1)
        advancing = processed = 0
        for index, one in enumerate(requests):
            if not one.inside or index in hold:
                found.paused |= one.inside
            elif index in prefill and prefill[index] < one.left:
                found.paused = True
                one.left -= prefill[index]
                processed += prefill[index]
            else:
                processed += one.left or 1
                advancing += 1
                one.left = 0
                one.advanced += 1
                if one.advanced > silent:
                    one.tokens.append(r)
        found.memory.append(sum(one.held(silent) for one in requests))
        found.batch_size.append(advancing)
        found.processed.append(processed)
        assert found.memory[-1] <= limit
        for one in requests:
            if one.inside and len(one.tokens) == one.output:
                one.leave(r, completed=True)
                one.end = r
    decide(entries[-1][0] if entries else last_round)
    for one in requests:
        if one.inside:
            one.stays[-1][1] = max(last_round, log.entries[-1][0])
    return found
