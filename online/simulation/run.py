"""The record of one simulation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from instances import (
    Instance,
    InvalidValueError,
    PreemptiveSchedule,
    Schedule,
    SecondsSchedule,
    Workload,
)
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_rule import TOKENS, MemoryRule
from instances.problem.request import RequestId
from instances.problem.round_schedule import LONGEST_PROFILE
from online.batch_time import BatchTime
from online.batch_time.service_model import ServiceModel

from .errors import InternalError
from .seconds_rounds import seconds_schedule
from .token_times import token_rounds

RunStatus = Literal["completed", "livelock", "round-limit", "stalled", "time-limit"]


class IncompleteRunError(RuntimeError):
    """A figure was asked of a run in which some request was never served."""


class NoScheduleError(ValueError):
    """No schedule of the kind asked for has the completions of a run."""


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
class Run:
    """What a policy did on an instance.

    Attributes
    ----------
    policy_name : str
        Registered name.
    seed : int
        Seed of every random choice of the run.
    status : RunStatus
        ``"completed"``; ``"livelock"`` (the same queue and batch came back without any completion
        between, so evictions would repeat for ever); ``"stalled"`` (nothing runs, the policy starts
        nothing and nothing more will arrive); ``"round-limit"``; ``"time-limit"`` (the caller's
        ``should_stop``).
    instance : Instance or None
        The realised instance, in order of appearance of an arrival source, or the instance given;
        None where arrival times are not whole rounds.
    start_rounds, completion_rounds : int64 array
        Round indices of the last attempt, shape (n,), in the instance's order; -1 where there is
        none.
    ids : tuple[RequestId, ...]
        The requests' labels.
    prompt_lengths, output_lengths : int64 array
        Tokens, int64, shape (n,).
    arrival_times, start_times, first_token_times, completion_times : float64 array
        On the clock (rounds in the round model, seconds in continuous time), float64, shape (n,);
        NaN where there is none. The start is that of the last attempt, and the first token the
        first that was not lost.
    eviction_counts : int64 array
        How often each request was evicted or preempted, shape (n,).
    attempts, stretches, pauses : Attempts, Stretches, Pauses
        The full record; requests count in the instance's order.
    round_end_times : float64 array or None
        Clock at the end of rounds 1, 2, ...; None in the round model, where it is the round's
        index.
    service_model : ServiceModel
        How many rounds a request takes and what it holds in each.
    adaptive : bool
        Whether the arrivals reacted to the policy.
    decisions : int
        How often the policy was asked.
    drain_round : int or None
        Rounds run when the policy was told that nothing more would arrive and dropped its rule of
        waiting for more; None where that never happened.
    batch_time : BatchTime or None
        Seconds of each round; None in the round model.
    memory_rule : MemoryRule
        How memory is counted.
    """

    policy_name: str
    seed: int
    status: RunStatus
    memory_limit: int
    instance: Instance | None
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

    @property
    def evictions(self) -> int:
        """Total number of evictions."""
        return int(self.eviction_counts.sum())

    @property
    def unit_rounds(self) -> bool:
        """Whether every round lasted one unit, emitted a token a request and none was held."""
        return (
            self.round_end_times is None
            and not self.service_model.prefill_rounds
            and not self.keeps_tokens
            and not len(self.pauses.rounds)
        )

    @property
    def keeps_tokens(self) -> bool:
        """Whether some request was preempted and later went on with the tokens it had."""
        return bool(self.attempts.tokens_kept.any())

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule without pauses and evictions that has the run's completions, checked.

        Request i starts at C_i - o_i, its completion less its output. With a service model that
        has prefill rounds it is a schedule of ``service_model.with_tokens_every_round(instance)``,
        which takes as many rounds and holds as much in each.

        It exists whatever was held, cut into chunks or evicted without its tokens. *Proof.* In
        round C_i - o_i + k it holds s_i + k. The last attempt of i could not emit more than one
        token in each of the o_i - k rounds after that, so by its end it had emitted at least k and
        held at least s_i + k: a token emitted stays in memory, held or not, and an eviction would
        have begun another attempt. That attempt had therefore begun by C_i - o_i as well, hence
        C_i - o_i >= a_i. So no round holds more than in the run. This fails for attempts that
        bring tokens along: between two of them a request holds nothing.

        Raises
        ------
        IncompleteRunError
            Some request was never served.
        NoScheduleError
            The run preempted requests and kept their tokens, or rounds were not those of the round
            model; the message says which.
        """
        instance = self._instance_in_rounds()
        if self.keeps_tokens:
            raise NoScheduleError(
                f"the run of {self.policy_name!r} preempted requests and kept their tokens: no "
                "schedule without preemption has its completions"
            )
        schedule = Schedule(instance, self.completion_rounds - instance.output_lengths)
        self._check(schedule)
        return schedule

    @cached_property
    def preemptive_schedule(self) -> PreemptiveSchedule:
        """The rounds in which the tokens of each request came out, checked.

        In the round of its k-th token a request holds s_i + k or more, so no round of it holds
        more than in the run. Where no request was preempted with its tokens it is `schedule`.

        Raises
        ------
        IncompleteRunError
            Some request was never served.
        NoScheduleError
            Rounds were not those of the round model, or a request with prefill rounds was
            preempted and kept its tokens; the message says which.
        """
        if not self.keeps_tokens:
            return PreemptiveSchedule.from_schedule(self.schedule)
        instance = self._instance_in_rounds()
        if self.service_model.prefill_rounds:
            raise NoScheduleError(
                f"the run of {self.policy_name!r} preempted requests, kept their tokens and "
                f"followed the service model {self.service_model.name!r}: each return took a round "
                "without a token, which no preemptive schedule has"
            )
        _, rounds = token_rounds(self)
        own = np.split(rounds, np.cumsum(instance.output_lengths)[:-1])
        schedule = PreemptiveSchedule.from_rounds(instance, own)
        self._check(schedule)
        return schedule

    @cached_property
    def workload(self) -> Workload:
        """The requests that arrived, at the times on the clock, in order of arrival.

        Raises
        ------
        IncompleteRunError
            Some request was never served, or did not arrive.
        """
        self._require_completed()
        order = self._order_of_arrival()
        return Workload(
            self.arrival_times[order],
            self.prompt_lengths[order],
            self.output_lengths[order],
            memory_limit=self.memory_limit,
            memory_rule=self.memory_rule,
            ids=[self.ids[position] for position in order.tolist()],
        )

    @cached_property
    def seconds_schedule(self) -> SecondsSchedule:
        """What every round did with every request, and when it began, checked.

        Its workload is that of the run in order of arrival. Durations and completions recomputed
        from it are those of the run.

        Raises
        ------
        IncompleteRunError
            Some request was never served.
        NoScheduleError
            A run of the round model, or one in which a request with prefill rounds came back with
            tokens.
        """
        self._require_completed()
        if self.batch_time is None:
            raise NoScheduleError(
                f"the run of {self.policy_name!r} counts rounds: it has no schedule in seconds"
            )
        if self.keeps_tokens and self.service_model.prefill_rounds:
            raise NoScheduleError(
                f"the run of {self.policy_name!r} preempted requests, kept their tokens and "
                f"followed the service model {self.service_model.name!r}: no schedule in seconds "
                "has rounds like those"
            )
        schedule = seconds_schedule(self, self.workload, self.batch_time)
        violations = schedule.violations()
        # Exactly, but for prefill rounds: as chunks they are added up in another order.
        exact = 0.0 if not self.service_model.prefill_rounds else 1e-12
        own = self.completion_times[self._order_of_arrival()]
        if not np.allclose(schedule.completion_times, own, rtol=exact, atol=0.0):
            raise NoScheduleError(
                f"the run of {self.policy_name!r} took other times than its batch time gives when "
                "asked again"
            )
        if violations:
            raise InternalError(f"{self.policy_name}: {violations[0]}")
        return schedule

    @cached_property
    def latencies(self) -> FloatArray:
        """Completion minus arrival of each request, on the clock, shape (n,)."""
        return self.completion_times - self.arrival_times

    @cached_property
    def total_latency(self) -> int | float:
        """Sum of latencies: an integer in the round model, seconds in continuous time.

        Raises
        ------
        IncompleteRunError
            Some request was never served.
        """
        self._require_completed()
        if self.instance is None or self.round_end_times is not None:
            return float(self.latencies.sum())
        if not self.keeps_tokens:
            return self.schedule.total_latency
        if not self.service_model.prefill_rounds:
            return self.preemptive_schedule.total_latency
        latencies: list[int] = (self.completion_rounds - self.instance.arrival_times).tolist()
        return sum(latencies)

    @property
    def total_waiting(self) -> int:
        """Total latency beyond the rounds that the requests run by themselves, in rounds.

        What is held, evicted or preempted waits too, and so does work that is lost.

        Raises
        ------
        IncompleteRunError
            Some request was never served.
        NoScheduleError
            Rounds were not those of the round model (in seconds a request takes as long by itself
            as its batches do), or it has no schedule for another reason; the message says which.
        """
        schedule = self.preemptive_schedule if self.keeps_tokens else self.schedule
        return schedule.total_waiting

    @property
    def mean_latency(self) -> float:
        """Total latency per request."""
        return self.total_latency / len(self.start_rounds)

    @property
    def rounds_run(self) -> int:
        """Index of the last round that ran."""
        if not len(self.stretches.rounds):
            return 0
        return int(self.stretches.first_round[-1] + self.stretches.rounds[-1] - 1)

    def memory_profile(self) -> IntArray:
        """Tokens held in rounds 0 .. rounds_run, cancelled attempts included; entry 0 is 0.

        Raises
        ------
        InvalidValueError
            A run so long that no array could hold it.
        """
        if self.rounds_run > LONGEST_PROFILE:
            raise InvalidValueError(
                "run", "rounds_run", self.rounds_run, f"is above {LONGEST_PROFILE} rounds"
            )
        profile = np.zeros(self.rounds_run + 1, dtype=np.int64)
        stretches = self.stretches
        total = int(stretches.rounds.sum())
        offsets = np.arange(total) - np.repeat(
            np.cumsum(stretches.rounds) - stretches.rounds, stretches.rounds
        )
        rounds = np.repeat(stretches.first_round, stretches.rounds) + offsets
        profile[rounds] = (
            np.repeat(stretches.memory, stretches.rounds)
            + np.repeat(stretches.growth, stretches.rounds) * offsets
        )
        return profile

    def _order_of_arrival(self) -> IntArray:
        return np.argsort(self.arrival_times, kind="stable")

    def _instance_in_rounds(self) -> Instance:
        """The instance whose schedules may have the run's completions."""
        self._require_completed()
        if self.round_end_times is not None:
            reason = "had rounds of unequal length"
        elif self.instance is None:
            reason = "had arrivals between rounds"
        else:
            return self.service_model.with_tokens_every_round(self.instance)
        raise NoScheduleError(
            f"the run of {self.policy_name!r} {reason}: no schedule of the round model describes it"
        )

    def _check(self, schedule: Schedule | PreemptiveSchedule) -> None:
        violations = schedule.violations()
        if violations:
            raise InternalError(f"{self.policy_name}: {violations[0]}")
        if not np.array_equal(schedule.completion_times, self.completion_rounds):
            raise InternalError(f"{self.policy_name}: its rounds do not give its completions")

    def _require_completed(self) -> None:
        if self.status != "completed":
            unserved = int((self.completion_rounds < 0).sum())
            raise IncompleteRunError(
                f"policy {self.policy_name!r} ended as {self.status!r} "
                f"with {unserved} of {len(self.completion_rounds)} requests unserved"
            )
