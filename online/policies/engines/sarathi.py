"""The scheduler of Sarathi-Serve: decodes first, then prompts in chunks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from instances.validation import ranged
from online.policy_interface import Decision, State, register_policy

from .base import ServingPolicy


@register_policy("sarathi")
@dataclass(eq=False, repr=False, kw_only=True)
class Sarathi(ServingPolicy):
    """Decodes first, then chunks of prompts, under a budget of tokens per round.

    The rule of Sarathi-Serve has three steps in each round. Every running request with a completed
    prompt decodes, which costs one token of the budget ``chunk_size``. The rest of the budget goes
    to prompts that are partly processed, in order of arrival. What then remains goes to waiting
    requests. They are admitted in the order of the queue while the watermark of memory stays free
    and the batch has fewer than ``max_num_seqs`` requests.

    A prompt that gets fewer tokens of the budget than it needs is continued in later rounds. Its
    request holds the memory of the whole prompt from its first chunk on, and emits its first token
    in the round of its last chunk. A prompt never delays a decode. If the next round would hold
    more than the memory M, the running request that arrived last is evicted.

    No guarantee is known.

    Two rules are choices of this package: no request is admitted in a round that evicts, and all
    decodes run even if they are more than ``chunk_size``.

    Parameters
    ----------
    chunk_size : int, default 512
        Largest number of tokens that a round processes, decodes included.
    max_num_seqs : int, default 128
        Largest number of requests in the batch.
    watermark : float, default 0.01
        Share of M that admission leaves free, in [0, 1).
    preemption : str, default "restart"
        ``"restart"`` ([A25]) or ``"recompute"`` (the engine); see `ServingPolicy`.
    order : str, default "fcfs"
        Order of the waiting queue, a name of `ORDERS`.
    ageing : float, default 0.0
        Amount by which a request's sort key falls per unit of waiting time; see `WaitingQueue`.
    """

    chunk_size: int = ranged(512, minimum=1)

    def decide(self, state: State) -> Decision:
        """Divide the tokens of a round (``chunk_size``) among decodes and prompts.

        Decodes come first, then prompts that are partly processed, then those of waiting requests.
        """
        running, batch = state.running, sorted(state.running)
        in_progress = [index for index in batch if running[index].prompt_left]
        memory, evicted = self._tokens.memory(state), list[int]()
        while True:
            decodes = len(batch) - len(in_progress)
            budget = max(0, self.chunk_size - decodes)
            prefill: dict[int, int] = {}
            for index in in_progress:
                prefill[index] = min(budget, running[index].prompt_left)
                budget -= prefill[index]
            finished = sum(prefill[index] == running[index].prompt_left for index in in_progress)
            needed = memory + decodes + finished
            if needed <= self._tokens.limit:
                break
            latest = batch.pop()
            if latest in in_progress[-1:]:
                in_progress.pop()
            evicted.append(latest)
            memory -= self._tokens.held(running[latest])
        started = [] if evicted else self._begun(len(batch), needed, budget, prefill)
        # Each prompt gets the same number of tokens in every round until a prompt is finished or a
        # request ends. No decision is needed before that.
        changes = evicted or finished or any(prefill[i] == self._prompt(i) for i in started)
        emptied = len(evicted) == len(running) and not started
        wake = state.round_index + 1 if changes and not emptied else math.inf
        return self._sent_back(state, evicted, start=started, prefill=prefill, wake=wake)

    def _begun(self, batch: int, memory: int, budget: int, prefill: dict[int, int]) -> list[int]:
        """Return the waiting requests to admit, and add their prompt tokens to ``prefill``.

        ``batch`` requests run already and hold ``memory`` tokens. ``budget`` is the number of
        tokens that the round may still process.
        """
        started: list[int] = []
        while budget and self._admits(memory, batch + len(started)):
            index = self._queue.pop()
            started.append(index)
            # Admission reserves the whole prompt and its first output token.
            memory += self._first_memory(index)
            prefill[index] = min(budget, self._prompt(index))
            budget -= prefill[index]
        return started
