"""TensorRT-LLM's scheduler: what fits is decided by capacity, what runs by a budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Literal, get_args

from instances import InvalidValueError
from instances.validation import as_flag
from online.policy_interface.policy import Decision, Setup, State, VisibleRequest, register_policy

from .base import ReservingPolicy, positive

CapacityPolicy = Literal["GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"]


@register_policy("tensorrt-llm")
class TensorRTLLM(ReservingPolicy):
    """Decodes and prompts in one batch, admitted by one of three capacity policies.

    In each round every request past its prompt decodes, then the prompt in progress is continued,
    then the queue is admitted in its order until a request does not fit, or ``max_batch_size``
    requests run, or the round would process more than ``max_num_tokens`` tokens, decodes included.
    Whether a request fits says the capacity policy:

    - ``"GUARANTEED_NO_EVICT"``: it and all that run could have their longest outputs at once;
    - ``"STATIC_BATCH"``: likewise, and nobody decodes: a batch is served to its end;
    - ``"MAX_UTILIZATION"``: its prompt fits beside what all others hold in this round. Where the
      next round would hold more than M, the request admitted last is paused, and so on until it
      fits: it keeps its tokens, waits at the head of the queue, and nobody is admitted in that
      round.

    With ``enable_chunked_prefill`` a prompt that exceeds what is left of the tokens is cut there,
    in whole blocks, and continued in the next round; it holds the memory of the whole prompt.

    No guarantee.

    Read in TensorRT-LLM (repository at 1.2): ``cpp/tensorrt_llm/batch_manager/``
    ``capacityScheduler.cpp``, ``microBatchScheduler.cpp``, ``scheduledBlocksManager.h`` and
    ``kvCacheManager.cpp``; defaults in ``tensorrt_llm/llmapi/llm_args.py``. Left out: reuse of
    blocks, and waiting for it; the overlap of scheduling with the device; chunks of equal progress;
    a short prompt behind one that was cut. The engine moves requests to a list of
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
    enable_chunked_prefill : bool, default False
        Whether prompts are cut.
    max_new_tokens : int or None, default None
        Longest output; see `ReservingPolicy`.
    order : str, default "fcfs"
        Of the queue, a name of `ORDERS`.
    ageing : float, default 0.0
        See `QueueOrder`.
    """

    def __init__(
        self,
        capacity_scheduler_policy: CapacityPolicy = "GUARANTEED_NO_EVICT",
        max_batch_size: int = 2048,
        max_num_tokens: int = 8192,
        enable_chunked_prefill: bool = False,
        max_new_tokens: int | None = None,
        order: str = "fcfs",
        ageing: float = 0.0,
    ) -> None:
        super().__init__(max_new_tokens, order, ageing, "front")
        known = get_args(CapacityPolicy)
        if capacity_scheduler_policy not in known:
            reason = f"is none of {', '.join(known)}"
            field = "capacity_scheduler_policy"
            raise InvalidValueError("policy", field, capacity_scheduler_policy, reason)
        self.capacity_scheduler_policy = capacity_scheduler_policy
        self.max_batch_size = positive(max_batch_size=max_batch_size)
        self.max_num_tokens = positive(max_num_tokens=max_num_tokens)
        self.enable_chunked_prefill = as_flag(
            enable_chunked_prefill, "policy", "enable_chunked_prefill"
        )

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue.

        Raises
        ------
        InvalidValueError
            Prompts cut to less than a block, or a service model with prefill rounds.
        """
        super().reset(setup)
        if self.enable_chunked_prefill:
            self._check_cut("max_num_tokens", self.max_num_tokens)
        self._chunked: int | None = None
        self._reserved: dict[int, int] = {}
        self._reserved_tokens = 0

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Give back what was reserved for them."""
        for request in requests:
            self._release(request.index)
        super().complete(requests, state)

    def decide(self, state: State) -> Decision:
        """Decodes, the prompt in progress, and what is admitted beside them."""
        now = state.round_index
        paused: list[int] = []
        memory, chunk = self._continued(state, paused)
        while memory > self._limit:
            last = next(index for index in reversed(state.running) if index not in paused)
            self._keep(state, last)
            self._release(last)
            paused.append(last)
            memory, chunk = self._continued(state, paused)
        prefilling, wake = self._chunked, None
        held: list[int] = []
        crowded = len(state.running) > self.max_num_tokens
        if crowded:
            away = {*paused, prefilling}
            decoding = (index for index in state.running if index not in away)
            held = list(islice(decoding, self.max_num_tokens, None))
        prefill: dict[int, int] = {}
        if prefilling is not None:
            if chunk == state.running[prefilling].prompt_left:
                self._chunked = None
            elif chunk:
                prefill[prefilling] = chunk
                budget = self.max_num_tokens - (len(state.running) - len(paused) - 1)
                # Until what is left of the prompt is within the budget, blocks or not.
                left = state.running[prefilling].prompt_left
                wake = now - (budget - left) // chunk
            else:
                held.append(prefilling)
        started: list[int] = []
        if not paused and self._chunked is None:
            started = self._admitted(state, memory, chunk, prefill)
        # Memory only grows, and the budget stays, until a request is done or arrives. Capacity
        # counts on the growth of all that decode, those that the budget holds back included.
        if paused or started or self._chunked != prefilling or crowded:
            wake = now + 1
        return Decision(start=started, hold=held, prefill=prefill, preempt=paused, wake=wake)

    def _continued(self, state: State, paused: Sequence[int]) -> tuple[int, int]:
        """Memory of the next round without the paused, and tokens of the prompt in progress."""
        now = state.round_index
        away = {*paused, self._chunked}
        decoding = [one for index, one in state.running.items() if index not in away]
        memory = sum(self._memory(one, now + 1) for one in decoding)
        if self._chunked is None:
            return memory, 0
        one = state.running[self._chunked]
        chunk = self._cut(one.prompt_left, self.max_num_tokens - len(decoding))
        if decoding and self.capacity_scheduler_policy == "STATIC_BATCH":
            chunk = 0
        if chunk == one.prompt_left:
            return memory + self._memory(one, now + 1), chunk
        return memory + self._chunk_memory(one, chunk), chunk

    def _cut(self, prompt: int, budget: int) -> int:
        """Tokens of a prompt to process: all, or as many whole blocks as the budget has."""
        if prompt <= budget:
            return prompt
        return max(0, budget) // self._rule.block_size * self._rule.block_size

    def _admitted(
        self, state: State, memory: int, chunk: int, prefill: dict[int, int]
    ) -> list[int]:
        """Requests admitted beside what holds ``memory``; adds the chunk of one that is cut."""
        decodes = len(state.running) - (chunk > 0)
        if decodes and self.capacity_scheduler_policy == "STATIC_BATCH":
            return []
        budget = self.max_num_tokens - decodes - chunk
        started: list[int] = []
        while self._queue and len(state.running) + len(started) < self.max_batch_size:
            index = self._queue.head
            if (state.running or started) and not self._fits(index, memory):
                break
            prompt = tokens = self._prompt(index)
            if self.enable_chunked_prefill:
                tokens = self._cut(prompt, budget)
                if tokens < prompt and not tokens:
                    break
            elif prompt > budget and (started or prompt <= self.max_num_tokens):
                break
            self._queue.pop()
            self._reserved[index] = self._reservation(index)
            self._reserved_tokens += self._reserved[index]
            started.append(index)
            memory += self._first_memory(index)
            budget -= tokens
            if tokens < prompt:
                self._chunked = index
                prefill[index] = tokens
                break
        return started

    def _fits(self, index: int, memory: int) -> bool:
        if memory + self._first_memory(index) > self._limit:
            return False
        if self.capacity_scheduler_policy == "MAX_UTILIZATION":
            return True
        return self._reserved_tokens + self._reservation(index) <= self._limit

    def _reservation(self, index: int) -> int:
        """Tokens it holds, in whole blocks, once it has its longest output."""
        request = self._requests[index]
        output = self._longest_output(request, self._limit)
        output = max(output, self._kept.get(index, 0) + 1)
        return self._paged(request.prompt_length + output)

    def _release(self, index: int) -> None:
        """Forget what was reserved for it, and its prompt in progress."""
        self._reserved_tokens -= self._reserved.pop(index)
        if self._chunked == index:
            self._chunked = None
