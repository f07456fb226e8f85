"""The record of one simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from instances import (
    Instance,
    InvalidValueError,
    Workload,
)
from instances.arrays import FloatArray, IntArray
from instances.batch_time.seconds_schedule import ADVANCES
from instances.problem.batches import BatchTime
from instances.problem.fleet_schedule import by_replica
from instances.problem.memory_rule import MemoryRule
from instances.problem.request import RequestId
from instances.problem.schedule import LONGEST_PROFILE
from instances.service_level import AnyLevel, BoolArray, limits_of
from instances.show import LONGEST_PICTURE, draw_memory, html_of

from .columns import Attempts, Load, RunStatus, Stretches
from .schedules import InternalError, preemptive_schedule_of, schedule_of

PER_REQUEST = (
    "start_rounds",
    "completion_rounds",
    "prompt_lengths",
    "output_lengths",
    "arrival_times",
    "start_times",
    "first_token_times",
    "completion_times",
    "eviction_counts",
)
"""Columns of a run with an entry for each request."""


class IncompleteRunError(RuntimeError):
    """A figure was asked of a run in which some request was never served."""


@dataclass(frozen=True, repr=False)
class Run:
    """Record of a policy on the requests of a problem, on one machine or on a fleet.

    Attributes
    ----------
    policy_name : str
        Registered name.
    seed : int
        Seed of every random choice of the run.
    status : RunStatus
        ``"completed"``; ``"livelock"`` (requests are sent back again and again, and none gets
        further than before); ``"stalled"`` (nothing runs, the policy starts nothing and nothing
        more will arrive); ``"round-limit"``; ``"time-limit"`` (the caller's ``should_stop``).
    memory_limit : int
        M.
    problem : Instance or Workload or None
        The one given, or what an arrival source realised, in order of appearance. None in rounds
        where arrival times are not whole ones, and where nothing arrived.
    start_rounds, completion_rounds : int64 array
        Round indices of the last attempt, shape (n,), in the problem's order; -1 where there is
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
    actions : int64 array, shape (k, 6)
        What requests did in consecutive rounds, in order of beginning, with the columns of
        `instances.batch_time.Stretch`: request, first round, rounds, chunk, tokens before, prompt
        left. An attempt that ended before its first round has a line without rounds.
    begins, lost : bool array, shape (k,)
        Whether an attempt begins there, and whether its tokens were lost later.
    stretches : Stretches
        The rounds that ran.
    round_end_times : float64 array or None
        Clock at the end of rounds 1, 2, ...; None in the round model, where it is the round's
        index.
    prefill_rounds : int
        Rounds of each request that process its prompt and emit no token.
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
    router_name : str or None
        Registered name of the router; None without one.
    replica : int64 array
        Replica of each request, shape (n,).
    parts : tuple[Run or None, ...]
        Of a fleet, the run of each replica on the requests sent there, None where nothing was sent.
        Rounds are counted per replica, and only these runs have memory over time.
    """

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
    actions: IntArray
    begins: BoolArray
    lost: BoolArray
    stretches: Stretches
    round_end_times: FloatArray | None
    prefill_rounds: int
    adaptive: bool
    decisions: int
    drain_round: int | None
    batch_time: BatchTime | None
    memory_rule: MemoryRule
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
        """Return the run of a fleet, given the run of each replica on what was sent there."""
        own = by_replica(replica, len(parts))
        served = [(place, run) for place, run in zip(own, parts, strict=True) if run is not None]
        places, runs = zip(*served, strict=True)
        back = np.argsort(np.concatenate(places))
        actions = [run.actions.copy() for run in runs]
        for place, table in zip(places, actions, strict=True):
            table[:, 0] = place[table[:, 0]]
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(run, name) for run in runs])[back] for name in PER_REQUEST
        }
        failed = [run.status for run in runs if run.status != "completed"]
        first: Run = runs[0]
        return replace(
            first,
            seed=seed,
            status=failed[0] if failed else "completed",
            problem=problem,
            ids=problem.ids,
            actions=np.concatenate(actions),
            begins=np.concatenate([run.begins for run in runs]),
            lost=np.concatenate([run.lost for run in runs]),
            decisions=sum(run.decisions for run in runs),
            drain_round=None,
            router_name=router_name,
            replica=replica,
            parts=tuple(parts),
            **columns,
        )

    def __repr__(self) -> str:
        served = int((self.completion_rounds >= 0).sum())
        ended = (
            f"mean latency {self.latencies.mean():.6g} {self._unit}"
            if self.status == "completed"
            else f"{served} served"
        )
        name = repr(self.policy_name)
        if self.parts:
            name += f" under {self.router_name!r}, {len(self.parts)} replicas"
        requests = f"{len(self.ids)} requests, memory_limit={self.memory_limit}"
        return f"Run({name}, {requests}, {self.status}, {ended})"

    @property
    def runs(self) -> tuple[Run | None, ...]:
        """Return the run of each replica: ``parts``, or this run alone."""
        return self.parts or (self,)

    @property
    def instance(self) -> Instance | None:
        """Return the problem of a run in rounds; None in seconds."""
        return self.problem if isinstance(self.problem, Instance) else None

    @property
    def rounds_run(self) -> int:
        """Return the index of the last round that ran."""
        last = self.stretches.first_round + self.stretches.rounds - 1
        return int(last[-1]) if len(last) else 0

    @property
    def evictions(self) -> int:
        """Return the total number of evictions."""
        return int(self.eviction_counts.sum())

    @cached_property
    def latencies(self) -> FloatArray:
        """Return completion minus arrival of each request, on the clock, shape (n,)."""
        latencies: FloatArray = self.completion_times - self.arrival_times
        return latencies

    def on_time(self, level: AnyLevel) -> BoolArray:
        """Tell which requests are on time, shape (n,); those left unserved are late.

        Parameters
        ----------
        level : ServiceLevel or Sequence[ServiceLevel]
            One for all requests, or one for each in the order of the requests; in rounds, or in
            seconds for a run of a workload.

        Raises
        ------
        InvalidTypeError, InvalidValueError
            Neither a level nor one for each request.
        """
        columns = self.per_request()
        limits = limits_of(level, len(self.ids))
        return limits.on_time(columns["e2el"], columns["ttft"], self.output_lengths)

    def attainment(self, level: AnyLevel) -> float:
        """Return the share of requests on time, see `on_time`; NaN without requests."""
        return float(self.on_time(level).mean()) if self.ids else float("nan")

    def frame(self) -> Any:
        """Return `per_request` as a pandas DataFrame, one line per request."""
        import pandas

        return pandas.DataFrame(self.per_request())

    # --- what requests did -------------------------------------------------------------------

    @property
    def keeps_tokens(self) -> bool:
        """Return whether some request was preempted and later continued with its tokens."""
        return bool(self.actions[self.begins, 4].any())

    @cached_property
    def pauses(self) -> bool:
        """Return whether some request was held, or processed part of its prompt in a round."""
        chunk, rounds, left = self.actions[:, 3], self.actions[:, 2], self.actions[:, 5]
        silent = (chunk == left) & (rounds == 1) if self.prefill_rounds else False
        return bool(((chunk != ADVANCES) & (rounds > 0) & ~np.asarray(silent)).any())

    @property
    def unit_rounds(self) -> bool:
        """Return whether every round lasted one unit, emitted a token per request and held none."""
        no_seconds = self.batch_time is None and not self.prefill_rounds
        return no_seconds and not (self.parts or self.keeps_tokens or self.pauses)

    @cached_property
    def attempts(self) -> Attempts:
        """Return every stay of a request in the batch, in order of start."""
        request, first, rounds, _, tokens, left = self.actions.T
        order = np.argsort(request, kind="stable")
        begins = np.flatnonzero(self.begins[order])
        # The last action of an attempt stands before the first of the next.
        last = order[np.append(begins[1:], len(order))[: len(begins)] - 1]
        begins = order[begins]
        end = first[last] + rounds[last] - 1
        is_last = np.append(request[begins][1:] != request[begins][:-1], True)[: len(begins)]
        completed = is_last & (end == self.completion_rounds[request[begins]])
        reused = self.prompt_lengths[request] + tokens - left
        found = np.argsort(begins)
        columns = [request[begins], first[begins] - 1, end, completed, tokens[begins]]
        return Attempts(*[column[found] for column in (*columns, reused[begins])])

    @cached_property
    def token_rounds(self) -> tuple[IntArray, IntArray]:
        """Return request and round of each output token of all completed requests.

        No token that was lost is among them. Shape (k,) each, k the sum of completed outputs, in
        order of request, then of round.

        Raises
        ------
        InternalError
            The record gives a request another number of tokens than it has.
        """
        chosen = (self.actions[:, 3] == ADVANCES) & ~self.lost
        chosen &= self.completion_rounds[self.actions[:, 0]] >= 0
        request, first, rounds, _, _, _ = self.actions[chosen].T
        order = np.lexsort((first, request))
        request, first, rounds = request[order], first[order], rounds[order]
        owners = np.repeat(request, rounds)
        age = np.arange(len(owners)) - np.repeat(np.cumsum(rounds) - rounds, rounds)
        counts = np.bincount(owners, minlength=len(self.ids))
        expected = np.where(self.completion_rounds >= 0, self.output_lengths, 0)
        if not np.array_equal(counts, expected):
            wrong = int(np.flatnonzero(counts != expected)[0])
            raise InternalError(
                f"{self.policy_name}: request {self.ids[wrong]!r} emitted {counts[wrong]} tokens "
                f"instead of {expected[wrong]}"
            )
        return owners, np.repeat(first, rounds) + age

    @property
    def inter_token_latencies(self) -> tuple[IntArray, FloatArray]:
        """Return request and length of each gap between two output tokens, of completed requests.

        Shape (k,) each, in order of request, then of time.
        """
        owners, rounds = self.token_rounds
        times = rounds.astype(np.float64)
        if self.round_end_times is not None:
            times = self.round_end_times[rounds - 1]
        same = owners[1:] == owners[:-1]
        return owners[1:][same], np.diff(times)[same]

    def per_request(self) -> dict[str, Any]:
        """Return columns of shape (n,): labels, lengths, times, ``ttft``, ``tpot``, ``e2el`` etc.

        `online.simulation.metrics` defines them. ``evictions`` counts how often a request was sent
        back, with or without its tokens, ``restarts`` how often it started again.
        """
        done = self.completion_rounds >= 0
        completion = np.where(done, self.completion_times, np.nan)
        ttft = np.where(done, self.first_token_times - self.arrival_times, np.nan)
        e2el = completion - self.arrival_times
        gaps = np.where(self.output_lengths > 1, self.output_lengths - 1.0, np.nan)
        starts = np.bincount(self.actions[self.begins, 0], minlength=len(done))
        return {
            "id": list(self.ids),
            "replica": self.replica,
            "prompt_length": self.prompt_lengths,
            "output_length": self.output_lengths,
            "arrival_time": self.arrival_times,
            "start_time": self.start_times,
            "first_token_time": self.first_token_times,
            "completion_time": completion,
            "ttft": ttft,
            "tpot": (e2el - ttft) / gaps,
            "e2el": e2el,
            "evictions": self.eviction_counts,
            "restarts": np.maximum(0, starts - 1),
            "completed": done,
        }

    # --- schedules and costs -----------------------------------------------------------------

    @cached_property
    def schedule(self) -> Any:
        """Return the schedule with the run's completions, checked.

        Of an instance it is a `Schedule` without pauses and evictions. Request i starts at
        C_i - o_i, its completion less its output. With prefill rounds it is a schedule of
        `with_tokens_every_round`, which takes as many rounds and holds as much in each.

        It exists whatever was held, cut into chunks or evicted without its tokens. *Proof.* In
        round C_i - o_i + k it holds s_i + k. The last attempt of i could not emit more than one
        token in each of the o_i - k rounds after that, so by its end it had emitted at least k and
        held at least s_i + k: a token emitted stays in memory, held or not, and an eviction would
        have begun another attempt. That attempt had therefore begun by C_i - o_i as well, hence
        C_i - o_i >= a_i. So no round holds more than in the run. This fails for attempts that
        bring tokens along: between two of them a request holds nothing.

        Of a workload it is a `SecondsSchedule`: what every round did with every request, and when
        it began. Durations and completions recomputed from it are those of the run. Of a fleet it
        is a `FleetSchedule` of these, all preemptive if any replica kept tokens.

        Raises
        ------
        IncompleteRunError
            Some request was never served.
        NoScheduleError
            In rounds, the run preempted requests and kept their tokens, or arrivals lay between
            rounds. In seconds, a request with prefill rounds came back with tokens. The message
            says which.
        """
        return schedule_of(self)

    @cached_property
    def preemptive_schedule(self) -> Any:
        """Return the rounds in which the tokens of each request came out, checked.

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
        return preemptive_schedule_of(self)

    @cached_property
    def total_latency(self) -> int | float:
        """Return the sum of latencies: an integer in the round model, seconds otherwise.

        In the round model each latency counts by the weight of its request.

        Raises
        ------
        IncompleteRunError
            Some request was never served.
        """
        if self.parts:
            parts: list[int | float] = [one.total_latency for one in self.parts if one is not None]
            return sum(parts)
        self.require_completed()
        if self.instance is None:
            return float(self.latencies.sum())
        if not self.keeps_tokens:
            return int(self.schedule.total_latency)
        if not self.prefill_rounds:
            return int(self.preemptive_schedule.total_latency)
        latencies = (self.completion_rounds - self.instance.arrival_times).tolist()
        pairs = zip(self.instance.weights.tolist(), latencies, strict=True)
        total: int = sum(w * latency for w, latency in pairs)
        return total

    @property
    def total_waiting(self) -> int:
        """Return the total latency beyond the rounds that requests run by themselves, in rounds.

        What is held, evicted or preempted waits too, and so does work that is lost.

        Raises
        ------
        IncompleteRunError
            Some request was never served.
        NoScheduleError
            Rounds were not those of the round model (in seconds a request takes as long by itself
            as its batches do), or it has no schedule for another reason; the message says which.
        """
        return int(self.preemptive_schedule.total_waiting)

    @property
    def mean_latency(self) -> float:
        """Return the mean latency per request, or over the sum of weights."""
        instance = self.instance
        return self.total_latency / (len(self.ids) if instance is None else instance.total_weight)

    # --- memory over time --------------------------------------------------------------------

    def memory_profile(self) -> IntArray:
        """Return tokens stored in rounds 0 .. rounds_run, lost attempts included; entry 0 is 0.

        Raises
        ------
        InvalidValueError
            A run so long that no array could hold it, or one of a fleet.
        """
        self._require_one_machine()
        if self.rounds_run > LONGEST_PROFILE:
            raise InvalidValueError(
                "run", "rounds_run", self.rounds_run, f"is above {LONGEST_PROFILE} rounds"
            )
        profile = np.zeros(self.rounds_run + 1, dtype=np.int64)
        rounds = np.repeat(self.stretches.first_round, self.stretches.rounds) + self._age
        profile[rounds] = self.memory_of_rounds
        return profile

    @property
    def memory_of_rounds(self) -> IntArray:
        """Return the tokens stored in each round that ran, shape (rounds,); not of a fleet."""
        s = self.stretches
        stored: IntArray = np.repeat(s.memory, s.rounds)
        return stored + np.repeat(s.batch_size, s.rounds) * self._age

    def round_times(self) -> tuple[FloatArray, FloatArray]:
        """Return the clock at the beginning and end of each round that ran, each (rounds,).

        Raises
        ------
        InvalidValueError
            The run is of a fleet: each replica has rounds of its own.
        """
        self._require_one_machine()
        stretches, age = self.stretches, self._age
        if self.round_end_times is None:
            ends = (np.repeat(stretches.first_round, stretches.rounds) + age).astype(np.float64)
            return ends - 1, ends
        ends = self.round_end_times
        starts = np.concatenate([[0.0], ends])[:-1]
        starts[age == 0] = stretches.start_time
        return starts, ends

    def load(self, points: int = 200) -> Load:
        """Return the load of each replica at equally spaced times, from 0 to the last round's end.

        A round that begins at a time is under way then, and one that ends is not.
        """
        runs = [(place, run) for place, run in enumerate(self.runs) if run is not None]
        last = max(run.round_times()[1].max(initial=0.0) for _, run in runs)
        times = np.linspace(0.0, last, points)
        load = Load(times, *np.zeros((3, len(self.runs), points), dtype=np.int64))
        for place, run in runs:
            load.tokens[place], load.waiting[place], load.running[place] = run._loads(times)
        return load

    def _loads(self, times: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return tokens stored, requests waiting and requests running at each time."""
        begins, ends = self.round_times()
        at = np.searchsorted(begins, times, "right") - 1
        under_way = (at >= 0) & (times < np.append(ends, np.inf)[at])
        tokens = np.where(under_way, np.append(self.memory_of_rounds, 0)[at], 0)
        # What left before its first round was never in a batch.
        stays = self.attempts.start_round < self.attempts.end_round
        first: Any = self.attempts.start_round[stays]
        last: Any = self.attempts.end_round[stays]
        if self.round_end_times is not None:
            first, last = begins[first], ends[last - 1]

        def count(events: Any) -> IntArray:
            # NaN is never.
            return np.searchsorted(np.sort(events), times, "right")

        running = count(first) - count(last)
        return tokens, count(self.arrival_times) - count(self.completion_times) - running, running

    @property
    def _age(self) -> IntArray:
        """Rounds since the beginning of its stretch, for each round that ran."""
        rounds = self.stretches.rounds
        return np.arange(int(rounds.sum())) - np.repeat(np.cumsum(rounds) - rounds, rounds)

    # --- notebooks ---------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        done = self.completion_rounds >= 0
        latencies = self.latencies[done]
        facts: dict[str, object] = {
            "requests": len(done),
            "status": self.status if done.all() else f"{self.status}, {done.sum()} served",
        }
        if len(latencies):
            facts |= {
                "mean latency": f"{latencies.mean():.6g} {self._unit}",
                "median latency": f"{np.median(latencies):.6g} {self._unit}",
                "largest latency": f"{latencies.max():.6g} {self._unit}",
            }
        facts |= {"evictions": self.evictions, "rounds": int(self.stretches.rounds.sum())}
        shown = not self.parts and self.rounds_run <= LONGEST_PICTURE
        drawings = [self._draw] if shown else []
        return html_of("Run", f"of {self.policy_name}", facts, *drawings)

    def _draw(self, ax: Any) -> None:
        if self.round_end_times is not None:
            begin, end = self.round_times()
            memory = self.memory_of_rounds
        else:
            memory = self.memory_profile()[1:]
            begin = np.arange(len(memory), dtype=np.float64)
            end = begin + 1
        draw_memory(ax, begin, end, memory, self.memory_limit, self._unit)

    @property
    def _unit(self) -> str:
        return "rounds" if self.batch_time is None else "s"

    # --- checks ------------------------------------------------------------------------------

    def require_completed(self) -> None:
        """Raise an `IncompleteRunError` if some request was never served."""
        if self.status != "completed":
            unserved = int((self.completion_rounds < 0).sum())
            raise IncompleteRunError(
                f"policy {self.policy_name!r} ended as {self.status!r} "
                f"with {unserved} of {len(self.completion_rounds)} requests unserved"
            )

    def _require_one_machine(self) -> None:
        if self.parts:
            reason = "have rounds of their own: look at each of `Run.parts`"
            raise InvalidValueError("run", "replicas", len(self.parts), reason)
