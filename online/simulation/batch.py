"""The batch and the queue of a machine, and the memory that requests hold.

Memory is counted by the memory rule. While the prompt of a request is processed, the request holds
memory for the processed part, or for the whole prompt if the rule allocates it at once. Then it
stores one more token in each round: by the rule, the newest output token or the one before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping

from instances.problem.memory_rule import MemoryRule
from online.policy_interface.policy import RunningRequest, VisibleRequest


class Batch:
    """The running requests (batch) and the waiting requests (queue) of a machine, and its clock.

    It has only information that policies may use, so it has no true output lengths.

    Attributes
    ----------
    rule : MemoryRule
        Rule by which requests use memory: size of the blocks, and when tokens are stored.
    prefill_rounds : int
        Rounds that a request spends on its prompt without emitting a token.
    running : dict[int, RunningRequest]
        Requests in the batch by index, in order of admission.
    fresh : dict[int, RunningRequest]
        Requests in the batch that have not advanced since their start: their prompts are not
        finished.
    waiting : OrderedDict[int, VisibleRequest]
        Requests in the queue by index, in the order in which they joined it.
    round_index, time : int, float
        Number of rounds run, and the clock in rounds or seconds.
    tokens : int
        Prompt and output tokens of all running requests (`RunningRequest.tokens`). Fewer may be
        stored: by the memory rule, the newest output token or the unprocessed part of a prompt may
        be stored later.
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
        """Return the KV tokens that the batch stores now.

        A request that has not advanced yet counts with its whole prompt. If the memory rule
        allocates prompts in chunks, only the processed part of the prompt counts.
        """
        return self.next_stored(self.running, {})

    def next_stored(self, held: Collection[int], chunks: Mapping[int, int]) -> int:
        """Return the KV tokens that the batch stores in the next round.

        ``held`` has the running requests that do not advance in this round. All others do, so each
        has one token more. ``chunks`` has the prompt tokens that some of the held requests process,
        by index.
        """
        staying = [one for index, one in self.fresh.items() if index in held] if held else []
        advancing = len(self.running) - len(held)
        stored = self.tokens + advancing - self.unstored * (len(self.running) - len(staying))
        if self.in_chunks and staying:
            stored += sum(chunks.values()) - sum(one.prompt_left for one in staying)
        return stored

    def next_memory(self, held: Collection[int] = ()) -> int:
        """Return the memory of the batch in the next round: (blocks allocated) x (block size).

        The unit is tokens. All running requests except ``held`` advance in this round.
        """
        if self.rule.block_size == 1:
            return self.next_stored(held, {})
        return self.blocks(1, held, {}) * self.rule.block_size

    def stored_by(self, running: RunningRequest) -> int:
        """Return the number of KV tokens that a running request stores now."""
        if running.request.index not in self.fresh:
            return running.tokens - self.unstored
        return running.tokens - (running.prompt_left if self.in_chunks else 0)

    def blocks(self, rounds: int, held: Collection[int], chunks: Mapping[int, int]) -> int:
        """Return the number of memory blocks that the batch holds after ``rounds`` more rounds.

        All running requests except ``held`` advance in each of these rounds. ``chunks`` has
        the prompt tokens that some of the held requests process in the first round, by index.
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
        """Return the KV tokens stored by the running requests that only pause in the next round.

        A request only pauses if it emits no token and processes no prompt tokens. It is then in
        ``held`` and not in ``chunks``.
        """
        if len(held) == len(chunks):
            return 0
        busy = [one for i, one in self.running.items() if i not in held or i in chunks]
        return self.stored() - sum(map(self.stored_by, busy))
