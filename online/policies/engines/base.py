"""Parts common to the schedulers of serving engines: queue, parameters, eviction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from instances import InvalidValueError
from instances.validation import as_fraction, check_ranges, chosen, ranged
from online.policy_interface import Decision, Policy, RunningRequest, Setup, State, VisibleRequest
from online.policy_interface.token_count import TokenCount

from .orders import ORDERS, WaitingQueue


@dataclass(eq=False, repr=False, kw_only=True)
class EnginePolicy(Policy):
    """A queue in an order, and requests that may keep their tokens when they are preempted.

    Parameters
    ----------
    order : str, default "fcfs"
        Of the queue, a name of `ORDERS`.
    ageing : float, default 0.0
        See `WaitingQueue`.

    Attributes
    ----------
    may_prefill_alone : bool
        Whether rounds may process prompts without emitting a token, as in [A25].
    """

    preempts = True
    may_prefill_alone: ClassVar[bool] = False

    order: str = chosen(*ORDERS)
    ageing: float = ranged(0.0, minimum=0)

    def __post_init__(self) -> None:
        check_ranges(self, "policy")
        self.reads_deadlines = self.order == "deadline"

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue.

        Raises
        ------
        InvalidValueError
            Prefill rounds, which the engine does not have.
        """
        if setup.prefill_rounds and not self.may_prefill_alone:
            reason = "is not 0: the engine emits a token in the round of the last chunk of a prompt"
            raise InvalidValueError("simulation", "prefill_rounds", setup.prefill_rounds, reason)
        self._is_timed = setup.batch_time is not None
        self._requests: dict[int, VisibleRequest] = {}
        self._kept: dict[int, int] = {}
        self._queue = WaitingQueue(self.order, self.ageing)

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Let them wait."""
        for request in requests:
            self._requests[request.index] = request
            self._queue.push(request, self._place(request.index))

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Forget them."""
        for request in requests:
            del self._requests[request.index]
            self._kept.pop(request.index, None)

    def _place(self, index: int) -> int | None:
        """Place of a request that joins the queue among those of its key; None: its arrival."""
        return None

    def _prompt(self, index: int) -> int:
        """Tokens to process before it advances."""
        return self._requests[index].prompt_length + self._kept.get(index, 0)


@dataclass(eq=False, repr=False, kw_only=True)
class ReservingPolicy(EnginePolicy):
    """An engine that reserves memory for the longest output of a request, by the instance's rule.

    Parameters
    ----------
    max_new_tokens : int or None, default None
        Output tokens that every request may have. None is the upper end of its prediction, which
        stands for the length that clients announce. A longer output is not cut short.
    """

    max_new_tokens: int | None = ranged(None, minimum=1)

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue.

        Raises
        ------
        InvalidValueError
            Prefill rounds.
        """
        super().reset(setup)
        self._rule, self._limit = setup.memory_rule, setup.memory_rule.limit(setup.memory_limit)

    def _longest_output(self, request: VisibleRequest, room: int) -> int:
        """Output tokens it may have where prompt and output together have ``room`` tokens."""
        most = self.max_new_tokens or request.prediction.upper
        return max(0, min(most, room - request.prompt_length))

    def _memory(self, running: RunningRequest, round_index: int) -> int:
        """Memory after a round up to which a request advances in every round."""
        tokens = running.request.prompt_length + running.rounds_run(round_index)
        return self._rule.held(tokens - self._rule.unstored)


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

    may_prefill_alone: ClassVar[bool] = True

    max_num_seqs: int = ranged(128, minimum=1)
    watermark: float = ranged(0.01, minimum=0, below=1)
    preemption: str = chosen("restart", "recompute")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.preempts = self.preemption == "recompute"

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue."""
        super().reset(setup)
        self.count = self._tokens = TokenCount(setup, holds=True)
        # 0.01 is a hundredth.
        left_free = int(as_fraction(self.watermark, "policy", "watermark") * self._tokens.limit)
        self._ceiling = self._tokens.limit - left_free

    def _admits(self, memory: int, batch: int) -> bool:
        """Tell whether the head of the queue may join a batch that holds ``memory`` tokens."""
        if not self._queue or batch >= self.max_num_seqs:
            return False
        return not batch or memory + self._first_memory(self._queue.head) <= self._ceiling

    def _first_memory(self, index: int) -> int:
        """Tokens held in the round in which it advances first."""
        base = self._tokens.base(self._requests[index].prompt_length)
        return base + self._kept.get(index, 0) + 1

    def _sent_back(self, state: State, indices: Iterable[int], **others: Any) -> Decision:
        """Return a decision that evicts or preempts."""
        if self.preemption == "restart":
            return Decision(evict=list(indices), **others)
        self._kept |= {index: state.running[index].output_tokens for index in indices}
        return Decision(preempt=list(indices), **others)
