"""Base classes of policies that imitate serving engines: queue, parameters, eviction."""

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
    """Base class of policies that imitate a serving engine, with a sorted queue and preemption.

    A preempted request may keep the output tokens that it has generated.

    Parameters
    ----------
    order : str, default "fcfs"
        Order of the waiting queue, a name of `ORDERS`.
    ageing : float, default 0.0
        Amount by which a request's sort key falls per unit of waiting time; see `WaitingQueue`.

    Attributes
    ----------
    may_prefill_alone : bool
        Whether the policy can run with ``prefill_rounds=1`` ([A25]), where the first round of a
        request processes its prompt and emits no token.
    """

    preempts = True
    may_prefill_alone: ClassVar[bool] = False

    order: str = chosen(*ORDERS)
    ageing: float = ranged(0.0, minimum=0)

    def __post_init__(self) -> None:
        check_ranges(self, "policy")
        self.reads_deadlines = self.order == "deadline"

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue of waiting requests for a new run.

        Raises
        ------
        InvalidValueError
            The run has prefill rounds, which emit no token; the engine has no such rounds.
        """
        if setup.prefill_rounds and not self.may_prefill_alone:
            reason = "is not 0: the engine emits a token in the round of the last chunk of a prompt"
            raise InvalidValueError("simulation", "prefill_rounds", setup.prefill_rounds, reason)
        self._is_timed = setup.batch_time is not None
        self._requests: dict[int, VisibleRequest] = {}
        self._kept: dict[int, int] = {}
        self._queue = WaitingQueue(self.order, self.ageing)

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Put new and sent-back requests into the waiting queue."""
        for request in requests:
            self._requests[request.index] = request
            self._queue.push(request, self._place(request.index))

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Forget finished requests and their kept output tokens."""
        for request in requests:
            del self._requests[request.index]
            self._kept.pop(request.index, None)

    def _place(self, index: int) -> int | None:
        """Return the rank of a request among those with equal sort keys in the waiting queue.

        None means that such requests are in order of arrival.
        """
        return None

    def _prompt(self, index: int) -> int:
        """Return the number of tokens to process before a request emits its next token.

        These are its prompt tokens and the output tokens that it kept when it was preempted.
        """
        return self._requests[index].prompt_length + self._kept.get(index, 0)


@dataclass(eq=False, repr=False, kw_only=True)
class ReservingPolicy(EnginePolicy):
    """Base class of engine policies that reserve memory for the longest output of a request.

    Memory is counted by the memory rule of the instance.

    Parameters
    ----------
    max_new_tokens : int or None, default None
        Longest output of every request, in tokens, as a client of the engine announces it. None
        takes the upper end of the request's prediction. An output that is longer is not cut.
    """

    max_new_tokens: int | None = ranged(None, minimum=1)

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue, and take the run's memory rule and limit.

        Raises
        ------
        InvalidValueError
            The run has prefill rounds, which emit no token; the engine has no such rounds.
        """
        super().reset(setup)
        self._rule, self._limit = setup.memory_rule, setup.memory_rule.limit(setup.memory_limit)

    def _longest_output(self, request: VisibleRequest, room: int) -> int:
        """Return the longest output, in tokens, for which memory is reserved for a request.

        It is reduced so that prompt and output together are at most ``room`` tokens.
        """
        most = self.max_new_tokens or request.prediction.upper
        return max(0, min(most, room - request.prompt_length))

    def _memory(self, running: RunningRequest, round_index: int) -> int:
        """Return the memory, in tokens, that a running request holds after round ``round_index``.

        The request is assumed to advance in every round until that round.
        """
        tokens = running.request.prompt_length + running.rounds_run(round_index)
        return self._rule.held(tokens - self._rule.unstored)


@dataclass(eq=False, repr=False, kw_only=True)
class ServingPolicy(EnginePolicy):
    """Base class of engine policies that admit requests by free memory, without output lengths.

    A waiting request is admitted if two conditions hold. Its whole prompt and one output token fit
    into memory while a share ``watermark`` of the memory M stays free. And fewer than
    ``max_num_seqs`` requests are in the batch. If the next round would exceed M, the running
    request that arrived last is sent back to its place in the queue, and so on until the round
    fits. The queue is first come, first served, unless ``order`` is another order.

    Memory is counted in tokens, as in the engines with blocks of one token. On an empty machine the
    first request of the queue is admitted even if it leaves less than the watermark free. The
    engines would refuse such a request.

    Parameters
    ----------
    max_num_seqs : int, default 128
        Largest number of requests in the batch.
    watermark : float, default 0.01
        Share of M that admission leaves free, in [0, 1).
    preemption : str, default "restart"
        ``"restart"``: an evicted request loses all its tokens ([A25]). ``"recompute"``: it keeps
        its output tokens and processes them again as part of its prompt, as the engines do.
    """

    may_prefill_alone: ClassVar[bool] = True

    max_num_seqs: int = ranged(128, minimum=1)
    watermark: float = ranged(0.01, minimum=0, below=1)
    preemption: str = chosen("restart", "recompute")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.preempts = self.preemption == "recompute"

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue, and compute the tokens of memory that admission may use."""
        super().reset(setup)
        self.count = self._tokens = TokenCount(setup, holds=True)
        # Tokens that admission leaves free. The share is an exact fraction: a watermark of 0.01 is
        # 1/100, not the nearest float.
        left_free = int(as_fraction(self.watermark, "policy", "watermark") * self._tokens.limit)
        self._ceiling = self._tokens.limit - left_free

    def _admits(self, memory: int, batch: int) -> bool:
        """Return whether the first waiting request can be added to the batch of the next round.

        Without it, the batch has ``batch`` requests, which hold ``memory`` tokens.
        """
        if not self._queue or batch >= self.max_num_seqs:
            return False
        return not batch or memory + self._first_memory(self._queue.head) <= self._ceiling

    def _first_memory(self, index: int) -> int:
        """Return the memory, in tokens, of a waiting request in the round of its next token.

        It holds its prompt, the output tokens that it kept, and this token.
        """
        base = self._tokens.base(self._requests[index].prompt_length)
        return base + self._kept.get(index, 0) + 1

    def _sent_back(self, state: State, indices: Iterable[int], **others: Any) -> Decision:
        """Return a decision that sends the running requests ``indices`` back to the queue.

        They lose their output tokens, or keep them if ``preemption`` is ``"recompute"``. ``others``
        are further fields of the `Decision`.
        """
        if self.preemption == "restart":
            return Decision(evict=list(indices), **others)
        self._kept |= {index: state.running[index].output_tokens for index in indices}
        return Decision(preempt=list(indices), **others)
