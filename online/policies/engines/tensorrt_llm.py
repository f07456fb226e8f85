"""TensorRT-LLM's scheduler: admission by memory capacity, batches by a budget of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from instances.validation import chosen, ranged
from online.policy_interface import Decision, Setup, State, VisibleRequest, register_policy

from .base import ReservingPolicy


@register_policy("tensorrt-llm")
@dataclass(eq=False, repr=False, kw_only=True)
class TensorRTLLM(ReservingPolicy):
    """Decodes and prompts in one batch, admitted by one of three capacity policies.

    In each round every request that runs decodes, then the queue is admitted in its order until a
    request does not fit, or ``max_batch_size`` requests run, or the round would process more than
    ``max_num_tokens`` tokens, decodes included. Whether a request fits says the capacity policy:

    - ``"GUARANTEED_NO_EVICT"``: it and all that run could have their longest outputs at once;
    - ``"STATIC_BATCH"``: likewise, and nobody decodes: a batch is served to its end;
    - ``"MAX_UTILIZATION"``: its prompt fits next to the memory of all others in this round. If the
      next round would hold more than M, the request admitted last is paused, and so on until it
      fits. A paused request keeps its tokens and waits at the head of the queue. Nobody is admitted
      in that round.

    No guarantee.

    Read in TensorRT-LLM (repository at 1.2): ``cpp/tensorrt_llm/batch_manager/``
    ``capacityScheduler.cpp``, ``microBatchScheduler.cpp``, ``scheduledBlocksManager.h`` and
    ``kvCacheManager.cpp``; defaults in ``tensorrt_llm/llmapi/llm_args.py``. Left out: reuse of
    blocks, and waiting for it; the overlap of scheduling with the device; prompts cut into chunks
    (``enable_chunked_prefill``, off by default). The engine moves requests to a list of
    ``max_batch_size`` before it looks at memory: an order applies here to all that do not run. It
    refuses a prompt longer than ``max_num_tokens`` and cuts an output longer than announced: here
    the one is processed in a round without another prompt, and where the other overflows memory
    the request admitted last is paused whatever the capacity policy. An empty machine admits the
    head of the queue.

    Parameters
    ----------
    capacity_scheduler_policy : str, default "GUARANTEED_NO_EVICT"
        One of the three.
    max_batch_size : int, default 2048
        Requests in the batch at most.
    max_num_tokens : int, default 8192
        Tokens a round processes at most.
    max_new_tokens : int or None, default None
        Longest output; see `ReservingPolicy`.
    order : str, default "fcfs"
        Of the queue, a name of `ORDERS`.
    ageing : float, default 0.0
        See `WaitingQueue`.
    """

    capacity_scheduler_policy: str = chosen(
        "GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"
    )
    max_batch_size: int = ranged(2048, minimum=1)
    max_num_tokens: int = ranged(8192, minimum=1)

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue.

        Raises
        ------
        InvalidValueError
            Prefill rounds.
        """
        super().reset(setup)
        self._reserved: dict[int, int] = {}
        self._returned = 0

    def _place(self, index: int) -> int | None:
        """Under ``"fcfs"`` a request that was paused waits in front."""
        if index not in self._kept or self.order != "fcfs":
            return None
        self._returned += 1
        return -self._returned

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Give back what was reserved for them."""
        for request in requests:
            del self._reserved[request.index]
        super().complete(requests, state)

    def decide(self, state: State) -> Decision:
        """Run the decodes and the requests that are admitted."""
        now = state.round_index
        paused: list[int] = []
        memory = sum(self._memory(one, now + 1) for one in state.running.values())
        for last in reversed(state.running):
            if memory <= self._limit:
                break
            self._kept[last] = state.running[last].output_tokens
            del self._reserved[last]
            paused.append(last)
            memory -= self._memory(state.running[last], now + 1)
        decoding = [index for index in state.running if index not in paused]
        held = decoding[self.max_num_tokens :]
        started = [] if paused else self._admitted(state, memory)
        # Memory only grows, and the budget stays, until a request is done or arrives. Capacity
        # counts on the growth of all that decode, those that the budget holds back included.
        again = paused or started or held
        # A round in which nothing runs takes no time.
        takes_time = bool(started or decoding) or not self._is_timed
        wake = now + takes_time if again else math.inf
        return Decision(start=started, hold=held, preempt=paused, wake=wake)

    def _admitted(self, state: State, memory: int) -> list[int]:
        """Requests admitted next to requests that hold ``memory``."""
        if state.running and self.capacity_scheduler_policy == "STATIC_BATCH":
            return []
        budget, reserved = self.max_num_tokens - len(state.running), sum(self._reserved.values())
        started: list[int] = []
        while self._queue and len(state.running) + len(started) < self.max_batch_size:
            index = self._queue.head
            if self._reserved and not self._fits(index, memory, reserved):
                break
            prompt = self._prompt(index)
            if prompt > budget and (started or prompt <= self.max_num_tokens):
                break
            self._queue.pop()
            self._reserved[index] = self._reservation(index)
            started.append(index)
            reserved += self._reserved[index]
            memory += self._first_memory(index)
            budget -= prompt
        return started

    def _fits(self, index: int, memory: int, reserved: int) -> bool:
        if memory + self._first_memory(index) > self._limit:
            return False
        if self.capacity_scheduler_policy == "MAX_UTILIZATION":
            return True
        return reserved + self._reservation(index) <= self._limit

    def _first_memory(self, index: int) -> int:
        """Return the memory of a waiting request in the first round in which it advances."""
        return self._rule.held(self._prompt(index) + 1 - self._rule.unstored)

    def _reservation(self, index: int) -> int:
        """Return the memory that a request holds once it has its longest output."""
        request = self._requests[index]
        output = self._longest_output(request, self._limit)
        output = max(output, self._kept.get(index, 0) + 1)
        return self._rule.held(request.prompt_length + output)
