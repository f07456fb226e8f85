"""The record of one simulation."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from instances import Instance, InvalidValueError, Workload
from instances.arrays import FloatArray, IntArray
from instances.batch_time.seconds_schedule import ADVANCES
from instances.problem.fleet_schedule import by_replica
from instances.problem.schedule import LONGEST_PROFILE
from instances.service_level import AnyLevel, BoolArray, limits_of

from .schedules import preemptive_schedule_of, schedule_of

RunStatus = Literal["completed", "livelock", "round-limit", "stalled", "time-limit"]


class IncompleteRunError(RuntimeError):
    """Error: a run without total latency and schedule, since some request was never served."""


class Stretches(NamedTuple):
    """All k stretches of consecutive rounds in which the same requests advance, as columns.

    Attributes
    ----------
    start_time : float64 array
        Clock at the beginning of each stretch.
    first_round : int64 array
        First round of each stretch. Rounds are numbered from 1.
    memory : int64 array
        KV tokens stored in the first round of each stretch.
    batch_size : int64 array
        Number of requests that emit a token in each round of the stretch. Memory grows by as many
        tokens per round. Held requests and prompts processed in part are not counted.
    rounds : int64 array
        Number of rounds of each stretch.
    """

    start_time: FloatArray
    first_round: IntArray
    memory: IntArray
    batch_size: IntArray
    rounds: IntArray


class Rounds(NamedTuple):
    """The k rounds that ran on a machine, as columns of shape (k,).

    Attributes
    ----------
    number : int64 array
        Number of each round, from 1.
    starts, ends : float64 array
        Clock at the beginning and the end of each round. Between an end and the next start the
        machine is idle.
    memory : int64 array
        KV tokens stored in each round.
    batch_size : int64 array
        Number of requests that emit a token in each round. Held requests and prompts processed in
        part are not counted.
    """

    number: IntArray
    starts: FloatArray
    ends: FloatArray
    memory: IntArray
    batch_size: IntArray


class Attempts(NamedTuple):
    """All k stays of requests in the batch (attempts), as columns of shape (k,), in order of start.

    Attributes
    ----------
    request : int64 array
        Position of the request in the problem.
    start_round, end_round : int64 array
        The request was in the batch in rounds start_round + 1 .. end_round.
    completed : bool array
        Whether the attempt ended by completion.
    tokens_kept : int64 array
        Output tokens kept from the previous attempt, which was preempted. 0 for a first attempt, or
        after an attempt that lost its progress or had no output yet.
    tokens_reused : int64 array
        Prompt and output tokens of the previous attempt that were still stored at the start. They
        are not processed again.
    """

    request: IntArray
    start_round: IntArray
    end_round: IntArray
    completed: BoolArray
    tokens_kept: IntArray
    tokens_reused: IntArray


@dataclass(frozen=True, repr=False)
class Run:
    """Record of a policy on the requests of a problem, on one machine or on a fleet.

    Attributes
    ----------
    policy_name : str
        Name of the policy, with its parameters that do not have their default values.
    seed : int
        Seed of every random choice of the run.
    status : RunStatus
        ``"completed"``; ``"livelock"`` (requests are sent back again and again, and none advances
        further than before); ``"stalled"`` (nothing runs, the policy starts nothing and no request
        will arrive); ``"round-limit"``; ``"time-limit"`` (the caller's ``should_stop`` returned
        True).
    problem : Instance or Workload
        The problem of the run, or the requests that an arrival source released, in order of
        appearance.
    start_rounds, completion_rounds : int64 array
        For each request, the number of the last round before its last start, and the number of the
        round in which it completed. Shape (n,), in the order of the problem. -1 if the request
        never started or never completed.
    start_times, first_token_times, completion_times : float64 array
        Clock times of each request in rounds (round model) or seconds (continuous time), shape
        (n,). NaN if the request never got so far. The start is the last start. The first token is
        the first one that was not lost.
    eviction_counts : int64 array
        How often each request was evicted or preempted, shape (n,).
    attempts : Attempts
        Every stay of a request in the batch.
    actions : int64 array, shape (k, 6)
        What requests did in stretches of consecutive rounds, sorted by request, then by round. The
        columns are those of `instances.batch_time.Stretch`: request, first round, rounds, chunk,
        tokens before, prompt left. Empty for a fleet, whose ``parts`` have the actions.
    lost : bool array, shape (k,)
        Whether the tokens of each action were lost to a later eviction.
    stretches : Stretches
        The rounds that ran.
    round_end_times : float64 array or None
        Clock at the end of rounds 1, 2, .. . None in the round model, where the clock at the end of
        a round is the number of the round.
    prefill_rounds : int
        Rounds of each request that process its prompt and emit no token.
    decisions : int
        Number of calls of the policy's `decide`.
    drain_round : int or None
        Rounds run when the policy stopped waiting for more requests because none would arrive
        (`Policy.drain`); None if it never did.
    router_name : str or None
        Registered name of the router; None without one.
    replica : int64 array
        Index of the replica that served each request, shape (n,).
    parts : tuple[Run or None, ...]
        For a fleet, the run of each replica on the requests sent to it, None if none were sent.
        Each replica numbers its own rounds, so only these runs have memory over time.
    """

    policy_name: str
    seed: int
    status: RunStatus
    problem: Instance | Workload
    start_rounds: IntArray
    completion_rounds: IntArray
    start_times: FloatArray
    first_token_times: FloatArray
    completion_times: FloatArray
    eviction_counts: IntArray
    attempts: Attempts
    actions: IntArray
    lost: BoolArray
    stretches: Stretches
    round_end_times: FloatArray | None
    prefill_rounds: int
    decisions: int
    drain_round: int | None
    router_name: str | None
    replica: IntArray
    parts: tuple[Run | None, ...] = ()

    @classmethod
    def of_fleet(
        cls,
        problem: Instance | Workload,
        router_name: str,
        seed: int,
        replica: IntArray,
        parts: Sequence[Run | None],
    ) -> Run:
        """Build the run of a fleet from the runs of its replicas.

        ``replica`` has the replica of each request, shape (n,). ``parts`` has the run of each
        replica on the requests sent to it, None if there were none.
        """
        own = by_replica(replica, len(parts))
        served = [(place, run) for place, run in zip(own, parts, strict=True) if run is not None]
        places, runs = zip(*served, strict=True)
        back = np.argsort(np.concatenate(places))
        attempts = [run.attempts._replace(request=at[run.attempts.request]) for at, run in served]
        failed = [run.status for run in runs if run.status != "completed"]
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(run, name) for run in runs])[back] for name in PER_REQUEST
        }
        first: Run = runs[0]
        return replace(
            first,
            seed=seed,
            status=failed[0] if failed else "completed",
            problem=problem,
            attempts=Attempts(*map(np.concatenate, zip(*attempts, strict=True))),
            actions=first.actions[:0],
            lost=first.lost[:0],
            decisions=sum(run.decisions for run in runs),
            drain_round=None,
            router_name=router_name,
            replica=replica,
            parts=tuple(parts),
            **columns,
        )

    def __repr__(self) -> str:
        served = f"{(self.completion_rounds >= 0).sum()} served"
        if self.status == "completed":
            served = f"mean latency {self.latencies.mean():.6g} {self.problem.unit}"
        name = repr(self.policy_name)
        if self.parts:
            name += f" under {self.router_name!r}, {len(self.parts)} replicas"
        requests = f"{len(self.problem)} requests, memory_limit={self.problem.memory_limit}"
        return f"Run({name}, {requests}, {self.status}, {served})"

    @property
    def runs(self) -> tuple[Run | None, ...]:
        """Return the run of each replica: ``parts`` of a fleet, this run alone otherwise."""
        return self.parts or (self,)

    @property
    def instance(self) -> Instance | None:
        """Return the problem of a run in rounds; None for a run in seconds."""
        return self.problem if isinstance(self.problem, Instance) else None

    @property
    def rounds_run(self) -> int:
        """Return the number of the last round that ran, 0 if none did. Rounds count from 1."""
        last = self.stretches.first_round + self.stretches.rounds - 1
        return int(last[-1]) if len(last) else 0

    @property
    def evictions(self) -> int:
        """Return the number of evictions and preemptions, summed over all requests."""
        return int(self.eviction_counts.sum())

    @cached_property
    def latencies(self) -> FloatArray:
        """Return completion minus arrival of each request, rounds or seconds, shape (n,).

        NaN for requests that were never served.
        """
        latencies: FloatArray = self.completion_times - self.problem.arrival_times
        return latencies

    def on_time(self, level: AnyLevel) -> BoolArray:
        """Return which requests meet their service level, shape (n,). Unserved requests do not.

        Parameters
        ----------
        level : ServiceLevel or Sequence[ServiceLevel]
            One level for all requests, or one for each request in the order of the problem. Its
            limits are rounds, or seconds for a run of a workload.

        Raises
        ------
        InvalidTypeError, InvalidValueError
            ``level`` is not a service level or a sequence with one for each request.
        """
        columns = self.per_request()
        limits = limits_of(level, len(self.problem))
        return limits.on_time(columns["e2el"], columns["ttft"], columns["output_length"])

    def frame(self) -> Any:
        """Return `per_request` as a pandas DataFrame, one row per request."""
        import pandas

        return pandas.DataFrame(self.per_request())

    # --- tokens and latencies of requests ----------------------------------------------------

    @property
    def keeps_tokens(self) -> bool:
        """Return whether some request was preempted and later continued with its tokens."""
        return bool(self.attempts.tokens_kept.any())

    @property
    def pauses(self) -> bool:
        """Return whether some request, in some round in the batch, emitted no token.

        It was held, or processed only a part of its remaining prompt. Prefill rounds do not count.
        """
        chunk, left = self.actions[:, 3], self.actions[:, 5]
        # A chunk that is the whole remaining prompt is processed in a prefill round, not a pause.
        return bool(((chunk == 0) | ((chunk > 0) & (chunk < left))).any())

    @cached_property
    def token_rounds(self) -> tuple[IntArray, IntArray]:
        """Return, for each output token of the completed requests, its request and its round.

        Tokens lost to evictions are not included. Both arrays have shape (k,), where k is the sum
        of the completed output lengths. They are sorted by request, then by round.
        """
        chosen = (self.actions[:, 3] == ADVANCES) & ~self.lost
        chosen &= self.completion_rounds[self.actions[:, 0]] >= 0
        request, first, rounds = self.actions[chosen, :3].T
        return np.repeat(request, rounds), np.repeat(first, rounds) + _ages(rounds)

    @property
    def inter_token_latencies(self) -> tuple[IntArray, FloatArray]:
        """Return the times between successive output tokens of the completed requests.

        The first array has the request, the second the time from one of its tokens to the next, in
        rounds or seconds. Both have one entry for each pair of successive tokens, sorted by
        request, then by time.
        """
        owners, rounds = self.token_rounds
        times = rounds.astype(np.float64)
        if self.round_end_times is not None:
            times = self.round_end_times[rounds - 1]
        same = owners[1:] == owners[:-1]
        return owners[1:][same], np.diff(times)[same]

    def per_request(self) -> dict[str, Any]:
        """Return a table of the requests by column: ids, lengths, times, ``ttft``, ``tpot`` etc.

        All columns have shape (n,). ``ttft`` is the time from arrival to first token, ``tpot`` the
        mean time per output token after the first, and ``e2el`` the latency from arrival to
        completion. ``evictions`` counts how often a request was sent back, with or without its
        tokens, ``restarts`` how often it started again.
        """
        problem, done = self.problem, self.completion_rounds >= 0
        outputs, e2el = problem.output_lengths, self.latencies
        ttft = np.where(done, self.first_token_times - problem.arrival_times, np.nan)
        starts = np.bincount(self.attempts.request, minlength=len(done))
        return {
            "id": list(problem.ids),
            "replica": self.replica,
            "prompt_length": problem.prompt_lengths,
            "output_length": outputs,
            "arrival_time": problem.arrival_times.astype(np.float64),
            "start_time": self.start_times,
            "first_token_time": self.first_token_times,
            "completion_time": self.completion_times,
            "ttft": ttft,
            "tpot": (e2el - ttft) / np.where(outputs > 1, outputs - 1.0, np.nan),
            "e2el": e2el,
            "evictions": self.eviction_counts,
            "restarts": np.maximum(0, starts - 1),
            "completed": done,
        }

    # --- schedules and total latency ---------------------------------------------------------

    @cached_property
    def schedule(self) -> Any:
        """Return a schedule with the completion times of this run, after a check of its validity.

        For an instance it is a `Schedule` without pauses and evictions. Request i starts at C_i -
        o_i, its completion round less its output. With prefill rounds it is a schedule of
        `with_tokens_every_round`, an instance with the same rounds and memory.

        It exists even if the run held requests, cut prompts into chunks, or evicted requests
        without keeping their tokens. *Proof.* In round C_i - o_i + k the schedule holds s_i + k
        tokens of request i. The last attempt of i could not emit more than one token in each of the
        o_i - k rounds after that. So by the end of this round it had emitted at least k tokens and
        held at least s_i + k: an emitted token stays in memory, held or not, and an eviction would
        have begun another attempt. This attempt had therefore begun by C_i - o_i as well, hence
        C_i - o_i >= a_i. So no round of the schedule holds more than in the run. The proof fails
        for attempts with tokens kept from a preemption: between two attempts a request holds
        nothing.

        For a workload it is a `SecondsSchedule`: when each round began, and what each request did
        in it. Durations and completions recomputed from it are those of the run.

        For a fleet it is a `FleetSchedule` with a schedule for each replica.

        Raises
        ------
        IncompleteRunError
            Some request was never served.
        NoScheduleError
            In rounds, the run preempted requests and kept their tokens. In seconds, it had prefill
            rounds.
        """
        return schedule_of(self)

    @cached_property
    def preemptive_schedule(self) -> Any:
        """Return the schedule that emits each token in the same round as this run, after a check.

        In the round of its k-th token, request i with a prompt of s_i tokens holds s_i + k tokens
        in the schedule, and at least as many in the run. So no round of the schedule holds more
        than in the run. If no request was preempted and kept its tokens, the result is `schedule`.

        Raises
        ------
        IncompleteRunError
            Some request was never served.
        NoScheduleError
            The run was in seconds, or a request with prefill rounds was preempted and kept its
            tokens; the message says which.
        """
        return preemptive_schedule_of(self)

    @cached_property
    def total_latency(self) -> int | float:
        """Return the sum of latencies: a whole number in the round model, seconds otherwise.

        In the round model each latency is multiplied by the weight of its request.

        Raises
        ------
        IncompleteRunError
            Some request was never served.
        """
        self.require_completed()
        if self.parts:
            return sum(one.total_latency for one in self.parts if one is not None)
        if self.instance is None:
            return float(self.latencies.sum())
        latencies = (self.completion_rounds - self.instance.arrival_times).tolist()
        total: int = sum(map(operator.mul, self.instance.weights.tolist(), latencies))
        return total

    @property
    def mean_latency(self) -> float:
        """Return the mean latency of a request, in rounds or seconds.

        In the round model it is the weighted mean: `total_latency` / (sum of weights).
        """
        instance = self.instance
        return self.total_latency / (
            len(self.problem) if instance is None else instance.total_weight
        )

    # --- rounds and memory over time ---------------------------------------------------------

    @cached_property
    def rounds(self) -> Rounds:
        """Return one entry for each round that ran: number, clock times, memory and batch size.

        Raises
        ------
        InvalidValueError
            The run is of a fleet, where each replica has its own rounds.
        """
        if self.parts:
            reason = "have rounds of their own: read the rounds of each run in `Run.parts`"
            raise InvalidValueError("run", "replicas", len(self.parts), reason)
        begun, first, memory, batch_size, rounds = self.stretches
        age, size = _ages(rounds), np.repeat(batch_size, rounds)
        number = np.repeat(first, rounds) + age
        ends = number.astype(np.float64)
        starts = ends - 1
        if self.round_end_times is not None:
            ends = self.round_end_times
            starts = np.append(0.0, ends)[:-1]
            starts[age == 0] = begun
        return Rounds(number, starts, ends, np.repeat(memory, rounds) + size * age, size)

    def memory_profile(self) -> IntArray:
        """Return the KV tokens stored in each round, shape (rounds_run + 1,).

        Entry r is for round r, and entry 0 is 0. Requests that are evicted later are included.

        Raises
        ------
        InvalidValueError
            The run has more than `LONGEST_PROFILE` rounds, or is of a fleet.
        """
        if self.rounds_run > LONGEST_PROFILE:
            reason = f"is above {LONGEST_PROFILE} rounds"
            raise InvalidValueError("run", "rounds_run", self.rounds_run, reason)
        profile = np.zeros(self.rounds_run + 1, dtype=np.int64)
        profile[self.rounds.number] = self.rounds.memory
        return profile

    # --- display in notebooks ----------------------------------------------------------------

    def _repr_html_(self) -> Any:
        return self.frame()._repr_html_()

    def require_completed(self) -> None:
        """Raise an `IncompleteRunError` if some request was never served."""
        if self.status != "completed":
            unserved = int((self.completion_rounds < 0).sum())
            raise IncompleteRunError(
                f"policy {self.policy_name!r} ended as {self.status!r} "
                f"with {unserved} of {len(self.completion_rounds)} requests unserved"
            )


PER_REQUEST = (
    "start_rounds",
    "completion_rounds",
    "start_times",
    "first_token_times",
    "completion_times",
    "eviction_counts",
)
"""Names of the fields of `Run` that are arrays of shape (n,) with one entry for each request."""


def _ages(rounds: IntArray) -> IntArray:
    """Return, for all rounds of all stretches, the position 0, 1, .. of a round in its stretch.

    ``rounds`` has the number of rounds of each stretch.
    """
    return np.arange(int(rounds.sum())) - np.repeat(np.cumsum(rounds) - rounds, rounds)
