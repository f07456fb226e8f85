"""The batch and the queue of a machine, and the memory that requests hold.

Memory is what the rule counts. A request stores what is processed of its prompt, or all of it where
the rule gives prompts memory as a whole; then a token more in each round, the newest or the one
before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping

from instances.problem.memory_rule import MemoryRule
from online.policy_interface.policy import RunningRequest, VisibleRequest


class Batch:
    """The batch and the queue of a machine, with what policies may know of them.

    Attributes
    ----------
    rule : MemoryRule
        How memory is counted.
    prefill_rounds : int
        Rounds that a request spends on its prompt without emitting a token.
    running : dict[int, RunningRequest]
        Requests in the batch by index, in order of admission.
    fresh : dict[int, RunningRequest]
        Requests in the batch that have not advanced yet.
    waiting : OrderedDict[int, VisibleRequest]
        Requests in the queue by index, in the order in which they joined it.
    round_index, time : int, float
        Number of rounds run, and the clock.
    tokens : int
        Sum of `RunningRequest.tokens` over the batch. Fewer may be stored: the newest token or the
        rest of a prompt may follow later.
    """

    def __init__(self, rule: MemoryRule, prefill_rounds: int) -> None:
        self.rule, self.prefill_rounds = rule, prefill_rounds
        self.unstored, self.in_chunks = rule.unstored, rule.prompt_allocation == "chunks"
        self.running: dict[int, RunningRequest] = {}
        self.fresh: dict[int, RunningRequest] = {}
        self.waiting: OrderedDict[int, VisibleRequest] = OrderedDict()
        self.round_index, self.tokens = 0, 0
        self.time: float = 0

    def stored(self) -> int:
        """Return the tokens stored now.

        A request that has not advanced yet counts with its whole prompt. If prompts get memory in
        chunks, only the processed part counts.
        """
        return self.next_stored(self.running, {})

    def next_stored(self, held: Collection[int], chunks: Mapping[int, int]) -> int:
        """Return the tokens stored in the next round if all requests but ``held`` advance.

        ``chunks`` are the prompt tokens that held requests process in this round, by index.
        """
        staying = [one for index, one in self.fresh.items() if index in held] if held else []
        advancing = len(self.running) - len(held)
        stored = self.tokens + advancing - self.unstored * (len(self.running) - len(staying))
        if self.in_chunks and staying:
            stored += sum(chunks.values()) - sum(one.prompt_left for one in staying)
        return stored

    def next_memory(self, held: Collection[int] = ()) -> int:
        """Return the tokens of the blocks held in the next round if all but ``held`` advance."""
        if self.rule.block_size == 1:
            return self.next_stored(held, {})
        return self.blocks(1, held, {}) * self.rule.block_size

    def stored_by(self, running: RunningRequest) -> int:
        """Return the tokens that a request has stored."""
        if running.request.index not in self.fresh:
            return running.tokens - self.unstored
        return running.tokens - (running.prompt_left if self.in_chunks else 0)

    def blocks(self, rounds: int, held: Collection[int], chunks: Mapping[int, int]) -> int:
        """Return the blocks that the batch holds in the last of the next ``rounds`` rounds.

        All requests but ``held`` advance in each. ``chunks`` are prompt tokens of held requests.
        """
        size, total = self.rule.block_size, 0
        for index, running in self.running.items():
            if index in held:
                stored = self.stored_by(running) + (chunks.get(index, 0) if self.in_chunks else 0)
            else:
                stored = running.tokens + rounds - self.unstored
            total += -(-stored // size)
        return total

    def resting(self, held: Collection[int], chunks: Mapping[int, int]) -> int:
        """Return the stored tokens of requests that neither advance nor process prompt tokens."""
        if len(held) == len(chunks):
            return 0
        busy = [one for i, one in self.running.items() if i not in held or i in chunks]
        return self.stored() - sum(map(self.stored_by, busy))
