"""Parts common to the schedulers of serving engines: queue, memory count, eviction."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from instances import InvalidValueError
from instances.validation import as_flag, as_fraction, check_ranges
from online.policy_interface.policy import (
    Decision,
    Policy,
    RunningRequest,
    Setup,
    State,
    VisibleRequest,
)
from online.policy_interface.token_count import TokenCount

from .orders import ORDERS, Returned, WaitingQueue


def setting(default: Any, *choices: str, **bounds: float) -> Any:
    """A parameter of an engine: its default, and the texts that it may be or its bounds.

    Parameters
    ----------
    default : Any
        The engine's default.
    *choices : str
        Texts that it may be; none for numbers.
    **bounds : float
        Of `as_integer` or `as_number`.
    """
    metadata: dict[str, Any] = {"choices": choices} if choices else {"bounds": bounds}
    return field(default=default, metadata=metadata)


def refuse_prefill_rounds(setup: Setup) -> None:
    """Refuse rounds that an engine does not have."""
    if setup.prefill_rounds:
        reason = "is not 0: the engine emits a token in the round of the last chunk of a prompt"
        raise InvalidValueError("simulation", "prefill_rounds", setup.prefill_rounds, reason)


@dataclass(eq=False, repr=False, kw_only=True)
class EnginePolicy(Policy):
    """A queue in an order, and requests that may keep their tokens when they are preempted.

    Parameters
    ----------
    order : str, default "fcfs"
        Of the queue, a name of `ORDERS`.
    ageing : float, default 0.0
        See `WaitingQueue`.
    """

    preempts = True
    returned: ClassVar[Returned] = "arrival"

    order: str = setting("fcfs", *ORDERS)
    ageing: float = setting(0.0, minimum=0)

    def __post_init__(self) -> None:
        for one in fields(self):
            value, choices = getattr(self, one.name), one.metadata.get("choices", ())
            if choices and value not in choices:
                reason = f"is not one of {', '.join(choices)}"
                raise InvalidValueError("policy", one.name, value, reason)
            if one.type == "bool":
                setattr(self, one.name, as_flag(value, "policy", one.name))
        check_ranges(self, "policy")
        self.reads_deadlines = self.order == "deadline"

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue."""
        self._is_timed = setup.batch_time is not None
        self._requests: dict[int, VisibleRequest] = {}
        self._kept: dict[int, int] = {}
        self._queue = WaitingQueue(self.order, self.ageing, self.returned)

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Let them wait."""
        for request in requests:
            self._requests[request.index] = request
            self._queue.push(request)

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Forget them."""
        for request in requests:
            del self._requests[request.index]
            self._kept.pop(request.index, None)

    def _prompt(self, index: int) -> int:
        """Tokens to process before it advances."""
        return self._requests[index].prompt_length + self._kept.get(index, 0)

    def _keep(self, state: State, index: int) -> None:
        """Note the tokens that a running request keeps when it is preempted now."""
        self._kept[index] = state.running[index].output_tokens

    def _next(self, state: State, *, runs: bool = True) -> int:
        """Return when to be asked again: in the next round, or at once if it takes no time."""
        return state.round_index + (runs or not self._is_timed)


@dataclass(eq=False, repr=False, kw_only=True)
class ReservingPolicy(EnginePolicy):
    """An engine that reserves memory for the longest output that a request may have.

    Clients state that length, and with benchmarks that fix every length it is the length itself. A
    policy does not see it: here it is the upper end of what is predicted, or one limit for all.
    Memory is counted by the rule of the instance, in whole blocks.

    Parameters
    ----------
    max_new_tokens : int or None, default None
        Output tokens that every request may have; None for the upper end of its prediction. What
        runs longer is not cut short.
    """

    max_new_tokens: int | None = setting(None, minimum=1)

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue.

        Raises
        ------
        InvalidValueError
            Prefill rounds.
        """
        super().reset(setup)
        refuse_prefill_rounds(setup)
        self._rule = setup.memory_rule
        self._limit = self._rule.limit(setup.memory_limit)

    def _check_cut(self, field: str, tokens: int) -> None:
        """Refuse to cut prompts, in whole blocks, where a cut would leave nothing."""
        if tokens < self._rule.block_size:
            reason = f"is below a block of {self._rule.block_size} tokens: no prompt can be cut"
            raise InvalidValueError("policy", field, tokens, reason)

    def _longest_output(self, request: VisibleRequest, room: int) -> int:
        """Output tokens it may have where prompt and output together have ``room`` tokens."""
        most = self.max_new_tokens or request.prediction.upper
        return max(0, min(most, room - request.prompt_length))

    def _paged(self, tokens: int) -> int:
        """``tokens`` rounded up to whole blocks."""
        return self._rule.held(tokens)

    def _first_memory(self, index: int) -> int:
        """Memory in the round in which a waiting request advances first."""
        return self._paged(self._prompt(index) + 1 - self._rule.unstored)

    def _memory(self, running: RunningRequest, round_index: int) -> int:
        """Memory after a round up to which it advances in every round from now on."""
        tokens = running.request.prompt_length + running.rounds_run(round_index)
        return self._paged(tokens - self._rule.unstored)


@dataclass(eq=False, repr=False, kw_only=True)
class ServingPolicy(EnginePolicy):
    """A queue in an order, first come, first served by default, which needs no output lengths.

    A waiting request is admitted when the memory of its whole prompt and of one token is free
    above a watermark, and fewer than ``max_num_seqs`` requests are in the batch. On overflow the
    request that arrived last is sent back to its place in the queue, until the next round fits.

    Memory is counted in tokens, which is the engines' count with blocks of one token. An empty
    machine admits the head of the queue whatever the watermark says: the engines would refuse
    such a request for good.

    Parameters
    ----------
    max_num_seqs : int, default 128
        Requests in the batch at most.
    watermark : float, default 0.01
        Share of M that admission leaves free, in [0, 1).
    preemption : str, default "restart"
        ``"restart"``, an evicted request loses all its tokens ([A25]); or ``"recompute"``, it keeps
        them and processes them again as part of its prompt, which is what the engines do.
    """

    max_num_seqs: int = setting(128, minimum=1)
    watermark: float = setting(0.01, minimum=0, below=1)
    preemption: str = setting("restart", "restart", "recompute")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.preempts = self.preemption == "recompute"

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue."""
        super().reset(setup)
        self.count = self._tokens = TokenCount(setup, holds=True)
        self._limit = self._tokens.limit
        # 0.01 is a hundredth.
        left_free = int(as_fraction(self.watermark, "policy", "watermark") * self._limit)
        self._ceiling = self._limit - left_free
        # Indices count in order of arrival: the smallest is the first come.
        self._batch: list[int] = []

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Forget them."""
        for request in requests:
            del self._batch[bisect_left(self._batch, request.index)]
        super().complete(requests, state)

    def _head(self, memory: int) -> int | None:
        """The head of the queue if it may join a batch that holds ``memory`` tokens, or None."""
        if not self._queue or len(self._batch) >= self.max_num_seqs:
            return None
        index = self._queue.head
        if self._batch and memory + self._first_memory(index) > self._ceiling:
            return None
        return index

    def _admit(self, index: int) -> None:
        self._queue.pop()
        insort(self._batch, index)

    def _first_memory(self, index: int) -> int:
        """Tokens held in the round in which it advances first."""
        base = self._tokens.base(self._requests[index].prompt_length)
        return base + self._kept.get(index, 0) + 1

    def _evict_latest(self, state: State) -> tuple[int, int]:
        """Take the latest arrival out of the batch: its index, and the tokens it holds."""
        index = self._batch.pop()
        held = self._tokens.held(state.running[index])
        if self.preemption == "recompute":
            self._keep(state, index)
        return index, held

    def _sent_back(self, evicted: list[int], **others: Any) -> Decision:
        """Return a decision that evicts or preempts."""
        if self.preemption == "recompute":
            return Decision(preempt=evicted, **others)
        return Decision(evict=evicted, **others)
