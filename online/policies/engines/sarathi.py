"""Sarathi-Serve's scheduler: decodes first, prompts in chunks beside them."""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass

from online.policy_interface.policy import Decision, Setup, State, register_policy

from .base import ServingPolicy, setting


@register_policy("sarathi")
@dataclass(eq=False, repr=False, kw_only=True)
class Sarathi(ServingPolicy):
    """Decodes first, then chunks of prompts under a budget of tokens a round.

    The rule of Sarathi-Serve, in each round: every request past its prompt decodes, which costs
    one token of the budget ``chunk_size`` each; what is left of the budget goes to prompts in
    progress, in order of arrival, and then to waiting requests, admitted in the order of the queue
    as long as memory stays below the watermark and the batch has fewer than ``max_num_seqs``
    requests. A prompt that gets less than it needs is continued in later rounds; its request
    holds the memory of the whole prompt from its first chunk on, emits its first token in the
    round of its last chunk, and never delays a decode. When the next round would hold more than
    M the latest arrival is evicted.

    No guarantee.

    What the engine leaves open here: no request is admitted in a round that evicts; decodes are
    never cut, even where there are more than ``chunk_size``.

    Parameters
    ----------
    chunk_size : int, default 512
        Tokens a round processes at most, decodes included.
    max_num_seqs : int, default 128
        Requests in the batch at most.
    watermark : float, default 0.01
        Share of M that admission leaves free, in [0, 1).
    preemption : str, default "restart"
        ``"restart"`` ([A25]) or ``"recompute"`` (the engine); see `ServingPolicy`.
    order : str, default "fcfs"
        Of the queue, a name of `ORDERS`.
    ageing : float, default 0.0
        See `WaitingQueue`.
    """

    chunk_size: int = setting(512, minimum=1)

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue."""
        super().reset(setup)
        # Requests in the batch whose prompt is in progress, in order of arrival.
        self._in_progress: list[int] = []

    def decide(self, state: State) -> Decision:
        """Allot the budget."""
        evicted: list[int] = []
        memory = self._tokens.memory(state)
        while True:
            decodes = len(self._batch) - len(self._in_progress)
            budget = max(0, self.chunk_size - decodes)
            prefill = self._continued(state, budget)
            finished = [i for i in self._in_progress if prefill[i] == state.running[i].prompt_left]
            needed = memory + decodes + len(finished)
            if needed <= self._limit:
                break
            index, held = self._evict_latest(state)
            if self._in_progress and self._in_progress[-1] == index:
                self._in_progress.pop()
            evicted.append(index)
            memory -= held
        self._in_progress = [i for i in self._in_progress if i not in finished]
        budget -= sum(prefill.values())
        started = [] if evicted else self._begun(needed, budget, prefill)
        # The budget left for each prompt stays the same until a prompt or a request is done.
        changes = evicted or finished or any(i not in self._in_progress for i in started)
        emptied = len(evicted) == len(state.running) and not started
        wake = state.round_index + 1 if changes and not emptied else math.inf
        return self._sent_back(evicted, start=started, prefill=prefill, wake=wake)

    def _continued(self, state: State, budget: int) -> dict[int, int]:
        """Allotments of prompts in progress."""
        prefill: dict[int, int] = {}
        for index in self._in_progress:
            prefill[index] = min(budget, state.running[index].prompt_left)
            budget -= prefill[index]
        return prefill

    def _begun(self, memory: int, budget: int, prefill: dict[int, int]) -> list[int]:
        """Requests admitted into what is left of the budget; adds their allotments."""
        started: list[int] = []
        while budget and (index := self._head(memory)) is not None:
            self._admit(index)
            started.append(index)
            # The token of its last chunk is reserved from the first chunk on.
            memory += self._first_memory(index)
            prefill[index] = min(budget, self._prompt(index))
            budget -= prefill[index]
            if prefill[index] < self._prompt(index):
                insort(self._in_progress, index)
        return started
