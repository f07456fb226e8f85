"""The full record of a simulation as columns: who was in the batch when, and in which rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from instances import Instance, Workload
from instances.arrays import FloatArray, IntArray
from instances.problem.batches import BatchTime
from instances.problem.memory_rule import TOKENS, MemoryRule
from instances.problem.request import RequestId
from online.batch_time.service_model import ServiceModel

RunStatus = Literal["completed", "livelock", "round-limit", "stalled", "time-limit"]


@dataclass(frozen=True, slots=True)
class Stretches:
    """Consecutive rounds with an unchanged batch, as columns of shape (k,).

    Attributes
    ----------
    first_round : int64 array
        Index of the first round of each stretch.
    rounds : int64 array
        Its number of rounds.
    memory : int64 array
        Tokens held in its first round.
    batch_size : int64 array
        Requests that advance in each of its rounds, and so the tokens added from each to the next;
        held requests and prompts in progress are not among them.
    start_time : float64 array
        Clock at the beginning of its first round, float64.
    """

    first_round: IntArray
    rounds: IntArray
    memory: IntArray
    batch_size: IntArray
    start_time: FloatArray

    @property
    def growth(self) -> IntArray:
        """Tokens added from each round of a stretch to the next."""
        return self.batch_size


@dataclass(frozen=True, slots=True)
class Attempts:
    """Every stay of a request in the batch, as columns of shape (k,), in order of start.

    Attributes
    ----------
    request : int64 array
        Index of the request, in order of appearance.
    start_round, end_round : int64 array
        It was in the batch in rounds start_round + 1 .. end_round.
    completed : bool array
        Whether it ended by completion; otherwise it was evicted or preempted.
    tokens_kept : int64 array
        Output tokens it brought along from the attempt before, which was preempted; where that is 0
        the attempt before, if there was one, lost its work.
    tokens_reused : int64 array
        Tokens, prompt and output, that it still found stored and did not process again.
    """

    request: IntArray
    start_round: IntArray
    end_round: IntArray
    completed: npt.NDArray[np.bool_]
    tokens_kept: IntArray
    tokens_reused: IntArray


@dataclass(frozen=True, slots=True)
class Pauses:
    """Rounds in which part of the batch was held, as columns of shape (k,).

    Attributes
    ----------
    first_round, rounds : int64 array
        Which rounds.
    frozen : bool array
        Whether the requests named are those that advanced and all others were held; otherwise they
        are those that were held.
    offsets : int64 array, shape (k + 1,)
        The requests of pause j are ``request[offsets[j]:offsets[j + 1]]``.
    request : int64 array
        Index of each request named.
    chunks : int64 array, shape (c, 3)
        Which pause, which of the requests held in it, and how many tokens of its prompt that
        processed in each of the rounds.
    """

    first_round: IntArray
    rounds: IntArray
    frozen: npt.NDArray[np.bool_]
    offsets: IntArray
    request: IntArray
    chunks: IntArray


@dataclass(frozen=True)
class RunRecord:
    """Fields of a `Run`, which says what they are."""

    policy_name: str
    seed: int
    status: RunStatus
    memory_limit: int
    problem: Instance | Workload | None
    start_rounds: IntArray
    completion_rounds: IntArray
    ids: tuple[RequestId, ...]
    prompt_lengths: IntArray
    output_lengths: IntArray
    arrival_times: FloatArray
    start_times: FloatArray
    first_token_times: FloatArray
    completion_times: FloatArray
    eviction_counts: IntArray
    attempts: Attempts
    stretches: Stretches
    pauses: Pauses
    round_end_times: FloatArray | None
    service_model: ServiceModel
    adaptive: bool
    decisions: int
    drain_round: int | None = None
    batch_time: BatchTime | None = None
    memory_rule: MemoryRule = TOKENS
    router_name: str | None = None
    replica: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    parts: tuple[Any, ...] = ()

    @property
    def rounds_run(self) -> int:
        """Return the index of the last round that ran."""
        if not len(self.stretches.rounds):
            return 0
        return int(self.stretches.first_round[-1] + self.stretches.rounds[-1] - 1)
