"""The scheduler of vLLM before its V1 engine: prompts first, in batches of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass

from instances.validation import ranged
from online.policy_interface import Decision, State, register_policy

from .base import ServingPolicy


@register_policy("vllm-v0")
@dataclass(eq=False, repr=False, kw_only=True)
class VLLMV0(ServingPolicy):
    """Prefill first: whenever a waiting request can be admitted, a round of prompts alone runs.

    The rule of vLLM V0 (0.6.3), since retired, in each round: admit waiting requests in the order
    of the queue as long as memory stays below the watermark, the batch has fewer than
    ``max_num_seqs`` requests and the round's prompts together at most ``max_num_batched_tokens``
    tokens. If any was admitted, the round processes their prompts, and everything else is held:
    memory kept, no token. Otherwise all requests decode, and as long as they would need more
    than M the latest arrival is evicted.

    No guarantee; under overload admission fills memory that running requests then need.

    What the engine leaves open here: prompts are not padded in the token cap, as in versions that
    process them without padding; a prompt longer than the cap is processed in a round of its
    own, where the engine refuses it; an evicted request can be admitted from the next round on.

    Parameters
    ----------
    max_num_batched_tokens : int, default 4096
        Prompt tokens a round processes at most.
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
        # Memory only grows until a request completes or arrives: nobody else fits before.
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
