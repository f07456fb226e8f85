"""The scheduler of vLLM before its V1 engine: prompts first, in rounds without decodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from instances.validation import ranged
from online.policy_interface import Decision, State, register_policy

from .base import ServingPolicy


@register_policy("vllm-v0")
@dataclass(eq=False, repr=False, kw_only=True)
class VLLMV0(ServingPolicy):
    """Prompts first: if a waiting request can be admitted, the round processes prompts only.

    This is the rule of vLLM V0 (0.6.3), which newer versions no longer have. In each round, waiting
    requests are admitted in the order of the queue under three conditions. The share ``watermark``
    of memory stays free, the batch has fewer than ``max_num_seqs`` requests, and the admitted
    prompts have together at most ``max_num_batched_tokens`` tokens. If any request is admitted, the
    round processes the new prompts, and all other requests are held: they keep their memory and
    emit no token. Otherwise all requests decode. If they would then exceed the memory M, the
    request that arrived last is evicted, and so on until the others fit.

    No guarantee is known. Under overload, admission fills memory that running requests need later.

    Three rules are choices of this package. When the tokens of prompts are counted, padding of
    prompts to equal lengths is not counted. A prompt longer than ``max_num_batched_tokens`` is
    processed in a round without other prompts, while the engine refuses it. An evicted request can
    be admitted again from the next round on.

    Parameters
    ----------
    max_num_batched_tokens : int, default 4096
        Largest number of prompt tokens that a round processes.
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

    max_num_batched_tokens: int = ranged(4096, minimum=1)

    def decide(self, state: State) -> Decision:
        """Run a round of prompts if any can be admitted, else a round of decodes."""
        now, running = state.round_index, state.running
        if admitted := self._prompts(state):
            return Decision(start=admitted, hold=list(running), wake=now + 1)
        evicted: list[int] = []
        excess = self._tokens.excess(state)
        for latest in sorted(running, reverse=True):
            if excess <= 0:
                break
            evicted.append(latest)
            excess -= self._tokens.held(running[latest]) + 1
        # Until a request completes, memory use only grows. So no waiting request fits before that,
        # and no decision is needed.
        wake = now + 1 if 0 < len(evicted) < len(running) else math.inf
        return self._sent_back(state, evicted, wake=wake)

    def _prompts(self, state: State) -> list[int]:
        admitted: list[int] = []
        memory, tokens = self._tokens.memory(state), 0
        while self._admits(memory, len(state.running) + len(admitted)):
            index = self._queue.head
            prompt = self._prompt(index)
            if admitted and tokens + prompt > self.max_num_batched_tokens:
                break
            admitted.append(self._queue.pop())
            memory += self._first_memory(index)
            tokens += prompt
        return admitted
