"""The scheduler of TensorRT-LLM: admission by memory, batches by a budget of tokens."""

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

    In each round every running request decodes. Then waiting requests are admitted in the order of
    the queue, until one does not fit, or ``max_batch_size`` requests run, or the round would
    process more than ``max_num_tokens`` tokens, decodes included. The capacity policy defines
    whether a request fits:

    - ``"GUARANTEED_NO_EVICT"``: memory suffices for the longest outputs of this request and of all
      running requests at once.
    - ``"STATIC_BATCH"``: the same, but requests are admitted only when no request runs. So every
      batch is served to its end.
    - ``"MAX_UTILIZATION"``: memory suffices for its prompt in this round. If the next round would
      hold more than the memory M, the running request admitted last is paused, and so on until the
      round fits. A paused request loses its memory, keeps its output tokens and waits at the head
      of the queue. No request is admitted in a round that pauses one.

    No guarantee is known.

    The rules are those of TensorRT-LLM (repository at 1.2), read in
    ``cpp/tensorrt_llm/batch_manager/``: ``capacityScheduler.cpp``, ``microBatchScheduler.cpp``,
    ``scheduledBlocksManager.h`` and ``kvCacheManager.cpp``. The defaults are those of
    ``tensorrt_llm/llmapi/llm_args.py``. Three parts of the engine are left out: the reuse of blocks
    by several requests, the overlap of scheduling with the device, and prompts cut into chunks
    (``enable_chunked_prefill``, off by default).

    Three rules differ. The engine moves up to ``max_batch_size`` requests from the queue into a
    list before it tests memory. Here ``order`` applies to all waiting requests. The engine refuses
    a prompt longer than ``max_num_tokens``. Here such a prompt is processed in a round with no
    other prompt. The engine cuts an output at the announced length. Here outputs may be longer. If
    memory overflows because of one, the running request admitted last is paused under every
    capacity policy. On an empty machine the first request of the queue is always admitted.

    Parameters
    ----------
    capacity_scheduler_policy : str, default "GUARANTEED_NO_EVICT"
        The capacity policy, one of the three names above.
    max_batch_size : int, default 2048
        Largest number of requests in the batch.
    max_num_tokens : int, default 8192
        Largest number of tokens that a round processes.
    max_new_tokens : int or None, default None
        Longest output of every request; see `ReservingPolicy`.
    order : str, default "fcfs"
        Order of the waiting queue, a name of `ORDERS`.
    ageing : float, default 0.0
        Amount by which a request's sort key falls per unit of waiting time; see `WaitingQueue`.
    """

    capacity_scheduler_policy: str = chosen(
        "GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"
    )
    max_batch_size: int = ranged(2048, minimum=1)
    max_num_tokens: int = ranged(8192, minimum=1)

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue, with no memory reserved.

        Raises
        ------
        InvalidValueError
            The run has prefill rounds, which emit no token; the engine has no such rounds.
        """
        super().reset(setup)
        self._reserved: dict[int, int] = {}
        self._returned = 0

    def _place(self, index: int) -> int | None:
        """Return the rank of a request among those with equal sort keys in the waiting queue.

        Under ``"fcfs"`` a paused request is before all others. None stands for order of arrival.
        """
        if index not in self._kept or self.order != "fcfs":
            return None
        self._returned += 1
        return -self._returned

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Free the memory reserved for finished requests."""
        for request in requests:
            del self._reserved[request.index]
        super().complete(requests, state)

    def decide(self, state: State) -> Decision:
        """Pause running requests if memory overflows, let the others decode, then admit more."""
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
        # If no request was paused, started or held, the next decision is at the next arrival or
        # completion. No request can start before: memory use only grows, and the token budget is
        # constant. Held requests are those above the token budget. Each round chooses them again.
        again = paused or started or held
        # In continuous time a round without running requests takes no time.
        takes_time = bool(started or decoding) or not self._is_timed
        wake = now + takes_time if again else math.inf
        return Decision(start=started, hold=held, preempt=paused, wake=wake)

    def _admitted(self, state: State, memory: int) -> list[int]:
        """Return the waiting requests to start in the next round.

        ``memory`` is the number of tokens that the running requests hold in that round.
        """
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
        """Return the memory, in tokens, that a waiting request holds in its first round."""
        return self._rule.held(self._prompt(index) + 1 - self._rule.unstored)

    def _reservation(self, index: int) -> int:
        """Return the memory, in tokens, that a request holds when it reaches its longest output."""
        request = self._requests[index]
        output = self._longest_output(request, self._limit)
        output = max(output, self._kept.get(index, 0) + 1)
        return self._rule.held(request.prompt_length + output)
