"""The record of one simulation."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from instances import (
    FleetSchedule,
    Instance,
    InvalidValueError,
    PreemptiveSchedule,
    Schedule,
    SecondsSchedule,
    Workload,
)
from instances.arrays import FloatArray, IntArray
from instances.problem.fleet_schedule import by_replica
from instances.problem.memory_rule import TOKENS
from instances.problem.schedule import LONGEST_PROFILE
from instances.service_level import AnyLevel, BoolArray, limits_of
from instances.show import LONGEST_PICTURE, draw_bands, draw_memory, html_of

from .errors import InternalError
from .run_columns import Attempts, RunRecord
from .seconds_rounds import seconds_schedule
from .token_times import token_rounds

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


class NoScheduleError(ValueError):
    """No schedule of the kind that was asked for has the completions of this run."""


class Load(NamedTuple):
    """Load of each replica at times on the clock.

    Attributes
    ----------
    times : float64 array, shape (t,)
        On the clock.
    tokens : int64 array, shape (K, t)
        KV tokens held in the round under way.
    waiting, running : int64 array, shape (K, t)
        Requests in the queue and in the batch.
    """

    times: FloatArray
    tokens: IntArray
    waiting: IntArray
    running: IntArray


class Run(RunRecord):
    """Record of a policy on an instance, on one machine or on a fleet.

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
    attempts, stretches, pauses : Attempts, Stretches, Pauses
        The full record; requests count in the problem's order.
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
    router_name : str or None
        Registered name of the router; None without one.
    replica : int64 array
        Replica of each request, shape (n,).
    parts : tuple[Run or None, ...]
        Of a fleet, the run of each replica on the requests sent there, None where nothing was sent.
        Rounds are counted per replica, and only these runs have memory over time.
    """

    @classmethod
    def of_fleet(
        cls,
        problem: Instance | Workload,
        router_name: str,
        seed: int,
        assignment: IntArray,
        parts: Sequence[Run | None],
    ) -> Run:
        """Return the run of a fleet, given the run of each replica on what was sent there."""
        own = by_replica(assignment, len(parts))
        served = [(place, run) for place, run in zip(own, parts, strict=True) if run is not None]
        places, runs = zip(*served, strict=True)
        first, back = runs[0], np.argsort(np.concatenate(places))

        def column(name: str) -> Any:
            return np.concatenate([getattr(run, name) for run in runs])[back]

        attempts = [
            replace(run.attempts, request=place[run.attempts.request]) for place, run in served
        ]
        joined = Attempts(
            *(np.concatenate([getattr(one, f.name) for one in attempts]) for f in fields(Attempts))
        )
        statuses = [run.status for run in runs if run.status != "completed"]
        known = {
            f.name: getattr(first, f.name) for f in fields(RunRecord) if f.name not in PER_REQUEST
        }
        known |= {name: column(name) for name in PER_REQUEST} | {
            "status": statuses[0] if statuses else "completed",
            "decisions": sum(run.decisions for run in runs),
            "attempts": joined,
            "drain_round": None,
        }
        known |= {"problem": problem, "seed": seed, "ids": problem.ids, "parts": tuple(parts)}
        return cls(**known | {"router_name": router_name, "replica": assignment})

    @property
    def runs(self) -> tuple[Run | None, ...]:
        """Return the run of each replica: ``parts``, or this run alone."""
        return self.parts or (self,)

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
    def instance(self) -> Instance | None:
        """Return the problem of a run in rounds; None in seconds."""
        return self.problem if isinstance(self.problem, Instance) else None

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

    @property
    def unit_rounds(self) -> bool:
        """Tell whether every round lasted one unit, emitted a token per request and held none."""
        return (
            self.round_end_times is None
            and not self.parts
            and not self.service_model.prefill_rounds
            and not self.keeps_tokens
            and not len(self.pauses.rounds)
        )

    @property
    def keeps_tokens(self) -> bool:
        """Tell whether some request was preempted and later continued with its tokens."""
        return bool(self.attempts.tokens_kept.any())

    @cached_property
    def schedule(self) -> Any:
        """Return the schedule with the run's completions, checked.

        Of an instance it is a `Schedule` without pauses and evictions. Request i starts at
        C_i - o_i, its completion less its output. With a service model that has prefill rounds it
        is a schedule of ``service_model.with_tokens_every_round(instance)``, which takes as many
        rounds and holds as much in each.

        It exists whatever was held, cut into chunks or evicted without its tokens. *Proof.* In
        round C_i - o_i + k it holds s_i + k. The last attempt of i could not emit more than one
        token in each of the o_i - k rounds after that, so by its end it had emitted at least k and
        held at least s_i + k: a token emitted stays in memory, held or not, and an eviction would
        have begun another attempt. That attempt had therefore begun by C_i - o_i as well, hence
        C_i - o_i >= a_i. So no round holds more than in the run. This fails for attempts that
        bring tokens along: between two of them a request holds nothing.

        Of a workload it is a `SecondsSchedule`: what every round did with every request, and when
        it began. Durations and completions recomputed from it are those of the run.

        Raises
        ------
        IncompleteRunError
            Some request was never served.
        NoScheduleError
            In rounds, the run preempted requests and kept their tokens, or arrivals lay between
            rounds. In seconds, a request with prefill rounds came back with tokens. The message
            says which.
        """
        if self.parts:
            in_rounds = self.batch_time is None
            kind = "preemptive_schedule" if in_rounds and self.keeps_tokens else "schedule"
            return self._fleet_schedule(kind)
        if self.round_end_times is not None:
            return self._schedule_in_seconds()
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
        if self.parts:
            return self._fleet_schedule("preemptive_schedule")
        instance = self._instance_in_rounds()
        if not self.keeps_tokens:
            return PreemptiveSchedule.from_schedule(self.schedule)
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
        self._require_completed()
        if self.instance is None:
            return float(self.latencies.sum())
        if not self.keeps_tokens:
            return int(self.schedule.total_latency)
        if not self.service_model.prefill_rounds:
            return int(self.preemptive_schedule.total_latency)
        latencies: list[int] = (self.completion_rounds - self.instance.arrival_times).tolist()
        total: int = sum(map(operator.mul, self.instance.weights.tolist(), latencies))
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
        return self.total_latency / (
            len(self.start_rounds) if instance is None else instance.total_weight
        )

    def memory_profile(self) -> IntArray:
        """Return tokens held in rounds 0 .. rounds_run, cancelled attempts included; entry 0 is 0.

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
        rounds = np.repeat(self.stretches.first_round, self.stretches.rounds) + self._age
        profile[rounds] = self.memory_of_rounds
        return profile

    @property
    def memory_of_rounds(self) -> IntArray:
        """Return the tokens held in each round that ran, shape (rounds,); not of a fleet."""
        s = self.stretches
        held: IntArray = np.repeat(s.memory, s.rounds) + np.repeat(s.growth, s.rounds) * self._age
        return held

    def round_times(self) -> tuple[FloatArray, FloatArray]:
        """Return the clock at the beginning and end of each round that ran, each (rounds,).

        Raises
        ------
        InvalidValueError
            The run is of a fleet: each replica has rounds of its own.
        """
        if self.parts:
            reason = "have rounds of their own: look at each of `Run.parts`"
            raise InvalidValueError("run", "replicas", len(self.parts), reason)
        stretches, age = self.stretches, self._age
        if self.round_end_times is None:
            ends = (np.repeat(stretches.first_round, stretches.rounds) + age).astype(np.float64)
            return ends - 1, ends
        ends = self.round_end_times
        starts = np.concatenate([[0.0], ends])[:-1]
        starts[age == 0] = stretches.start_time
        return starts, ends

    @property
    def _age(self) -> IntArray:
        """Rounds since the beginning of its stretch, for each round that ran."""
        rounds = self.stretches.rounds
        return np.arange(int(rounds.sum())) - np.repeat(np.cumsum(rounds) - rounds, rounds)

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
        starts = np.bincount(self.attempts.request, minlength=len(done))
        return {
            "id": list(self.ids),
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
        } | ({"replica": self.replica} if self.parts else {})

    def load(self, points: int = 200) -> Load:
        """Return the load of each replica at equally spaced times, from 0 to the last round's end.

        A round that begins at a time is under way then, and one that ends is not.
        """
        ends = [run.round_times()[1].max(initial=0.0) for run in self.runs if run is not None]
        times = np.linspace(0.0, max(ends), points)
        load = Load(times, *np.zeros((3, len(self.runs), points), dtype=np.int64))
        for replica, run in enumerate(self.runs):
            if run is not None:
                load.tokens[replica], load.waiting[replica], load.running[replica] = run._loads(
                    times
                )
        return load

    def _loads(self, times: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return tokens held, requests waiting and requests running at each time."""
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

    def _fleet_schedule(self, kind: str) -> FleetSchedule:
        parts = [None if run is None else getattr(run, kind) for run in self.parts]
        fleet: Any = self.problem
        if isinstance(fleet, Instance):
            fleet = self.service_model.with_tokens_every_round(fleet)
        return FleetSchedule(fleet, self.replica, parts)

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
        drawings = [self._draw] if self.rounds_run <= LONGEST_PICTURE else []
        return html_of("Run", f"of {self.policy_name}", facts, *drawings)

    def _draw(self, ax: Any) -> None:
        stays, limit = self.attempts, self.memory_limit
        # Bands grow by a token per round: not if requests are held midway or counted in blocks.
        if self.unit_rounds and self.memory_rule == TOKENS:
            held, rounds = self.prompt_lengths[stays.request], stays.end_round - stays.start_round
            if draw_bands(ax, stays.start_round, held, rounds, limit):
                return
        if self.round_end_times is not None:
            begin, end = self.round_times()
            memory = self.memory_of_rounds
        else:
            memory = self.memory_profile()[1:]
            begin = np.arange(len(memory), dtype=np.float64)
            end = begin + 1
        draw_memory(ax, begin, end, memory, limit, self._unit)

    @property
    def _unit(self) -> str:
        return "rounds" if self.batch_time is None else "s"

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

    def _schedule_in_seconds(self) -> SecondsSchedule:
        self._require_completed()
        if self.keeps_tokens and self.service_model.prefill_rounds:
            raise NoScheduleError(
                f"the run of {self.policy_name!r} preempted requests, kept their tokens and "
                f"followed the service model {self.service_model.name!r}: no schedule in seconds "
                "has rounds like those"
            )
        assert isinstance(self.problem, Workload)
        schedule = seconds_schedule(self, self.problem)
        violations = schedule.violations()
        # Exactly, but for prefill rounds: as chunks they are added up in another order.
        exact = 0.0 if not self.service_model.prefill_rounds else 1e-12
        own = self.completion_times
        if not np.allclose(schedule.completion_times, own, rtol=exact, atol=0.0):
            raise NoScheduleError(
                f"the run of {self.policy_name!r} took other times than its batch time gives when "
                "asked again"
            )
        if violations:
            raise InternalError(f"{self.policy_name}: {violations[0]}")
        return schedule

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
