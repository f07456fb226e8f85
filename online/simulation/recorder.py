"""Collects what happens during a simulation and turns it into a `Run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from instances import Instance, Request, Workload
from instances.arrays import FloatArray, IntArray
from instances.problem.arrival_source import (
    Arrival,
    ArrivalSource,
    Observation,
    batch_time_of,
    memory_rule_of,
)
from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH
from instances.problem.request import RequestId
from online.policy_interface.policy import State

from .machine import Machine, Pause, TimedStretch
from .run import Run
from .run_columns import Attempts, Pauses, Stretches


class Recorder:
    """Appends in the loop, computes at the end."""

    def __init__(self, *, timed: bool) -> None:
        self._timed = timed
        self._arrivals: list[Arrival] = []
        self._ids: list[RequestId] = []
        self._stretches: list[TimedStretch] = []
        self._pauses: list[Pause] = []
        # [request, start round, end round, completed, tokens kept, tokens reused]
        self._attempts: list[list[int]] = []
        self._open_attempt: dict[int, int] = {}
        # Clock at the last start of each request.
        self._start_clock: dict[int, float] = {}

    def arrival(self, arrival: Arrival, identifier: RequestId) -> None:
        """A request appeared."""
        self._arrivals.append(arrival)
        self._ids.append(identifier)

    def start_attempt(
        self, index: int, round_index: int, time: float, tokens_kept: int, tokens_reused: int = 0
    ) -> None:
        """A request entered the batch, with output tokens of earlier attempts."""
        self._start_clock[index] = time
        self._open_attempt[index] = len(self._attempts)
        self._attempts.append([index, round_index, -1, 0, tokens_kept, tokens_reused])

    def end_attempt(self, index: int, round_index: int, *, completed: bool) -> None:
        """A request left the batch."""
        attempt = self._attempts[self._open_attempt.pop(index)]
        attempt[2:4] = [round_index, int(completed)]

    def ran(self, stretches: Sequence[TimedStretch], pause: Pause | None) -> None:
        """Rounds ran with an unchanged batch, part of it perhaps held."""
        self._stretches += stretches
        if pause is not None:
            self._pauses.append(pause)

    @staticmethod
    def observation(
        state: State,
        started: list[RequestId],
        evicted: list[RequestId],
        completed: list[RequestId],
    ) -> Observation:
        """Return what an adaptive source observes at this epoch."""
        return Observation(
            state.round_index, state.time, tuple(started), tuple(evicted), tuple(completed)
        )

    def finish(
        self,
        source: ArrivalSource,
        problem: Instance | Workload | None,
        machine: Machine,
        **known: Any,
    ) -> Run:
        """Assemble the record, with requests in the problem's order; ``known`` enters as it is.

        Without a problem it is what the source realised.
        """
        opened = list(self._open_attempt.values())
        for position in opened:
            self._attempts[position][2] = machine.state.round_index
        count = len(self._arrivals) if problem is None else len(problem)
        # Position in the result of each request, by order of appearance.
        place = np.arange(count) if problem is None else problem.order_of_arrival
        table = np.array(self._attempts, dtype=np.int64).reshape(-1, 6)
        table[:, 0] = place[table[:, 0]]
        request, begin, end, completed, kept, reused = table.T
        attempts = Attempts(request, begin, end, completed.astype(bool), kept, reused)
        done, lost = attempts.completed, ~attempts.completed
        lost[opened] = False
        starts, ends = np.full((2, count), -1, dtype=np.int64)
        starts[attempts.request] = attempts.start_round
        ends[attempts.request[done]] = attempts.end_round[done]
        first_tokens = np.full(count, -1, dtype=np.int64)
        for index, round_index in machine.first_token_rounds.items():
            first_tokens[place[index]] = round_index
        arrival_times, start_times = np.full((2, count), np.nan)
        arrival_times[place[: len(self._arrivals)]] = [arrival.time for arrival in self._arrivals]
        for index, time in self._start_clock.items():
            start_times[place[index]] = time
        prompts, outputs, ids = self._requests(problem)
        clock = self._clock()
        return Run(
            memory_limit=source.memory_limit,
            problem=self._realised(source) if problem is None else problem,
            start_rounds=starts,
            completion_rounds=ends,
            ids=ids,
            prompt_lengths=prompts,
            output_lengths=outputs,
            arrival_times=arrival_times,
            start_times=start_times,
            first_token_times=_at(clock, first_tokens),
            completion_times=_at(clock, ends),
            eviction_counts=np.bincount(attempts.request[lost], minlength=count),
            attempts=attempts,
            stretches=self._stretch_columns(),
            pauses=self._pause_columns(place),
            round_end_times=clock,
            adaptive=source.adaptive,
            batch_time=machine.batch_time,
            memory_rule=machine.rule,
            replica=np.zeros(count, dtype=np.int64),
            **known,
        )

    def _requests(
        self, problem: Instance | Workload | None
    ) -> tuple[IntArray, IntArray, tuple[RequestId, ...]]:
        if problem is not None:
            return problem.prompt_lengths, problem.output_lengths, problem.ids
        lengths = [(arrival.prompt_length, arrival.output_length) for arrival in self._arrivals]
        prompts, outputs = np.array(lengths, dtype=np.int64).reshape(-1, 2).T
        return prompts, outputs, tuple(self._ids)

    def _clock(self) -> FloatArray | None:
        if not self._timed:
            return None
        ends = [stretch.round_ends for stretch in self._stretches]
        return np.concatenate([np.zeros(0), *[end for end in ends if end is not None]])

    def _stretch_columns(self) -> Stretches:
        whole = [stretch[:4] for stretch in self._stretches]
        table = np.array(whole, dtype=np.int64).reshape(-1, 4)
        begun = np.array([stretch.start_time for stretch in self._stretches], dtype=np.float64)
        first_round, rounds, memory, batch_size = np.ascontiguousarray(table.T)
        return Stretches(first_round, rounds, memory, batch_size, begun)

    def _pause_columns(self, place: IntArray) -> Pauses:
        counts = np.array([len(pause.requests) for pause in self._pauses], dtype=np.int64)
        members = [index for pause in self._pauses for index in pause.requests]
        chunks = [
            (position, index, tokens)
            for position, pause in enumerate(self._pauses)
            for index, tokens in pause.chunks
            if tokens
        ]
        table = np.array(chunks, dtype=np.int64).reshape(-1, 3)
        table[:, 1] = place[table[:, 1]]
        return Pauses(
            np.array([pause.first_round for pause in self._pauses], dtype=np.int64),
            np.array([pause.rounds for pause in self._pauses], dtype=np.int64),
            np.array([pause.frozen for pause in self._pauses], dtype=np.bool_),
            np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)]),
            place[np.array(members, dtype=np.int64)],
            table,
        )

    def _realised(self, source: ArrivalSource) -> Instance | Workload | None:
        arrivals, ids = self._arrivals, self._ids
        if not arrivals:
            return None
        zero = any(arrival.prompt_length == 0 for arrival in arrivals)
        machine: dict[str, Any] = {
            "memory_limit": source.memory_limit,
            "name": source.name,
            "metadata": {ALLOW_ZERO_PROMPT_LENGTH: True} if zero else {},
            "memory_rule": memory_rule_of(source),
        }
        if self._timed:
            columns = zip(*(arrival[:3] for arrival in arrivals), strict=True)
            return Workload(*columns, ids=ids, batch_time=batch_time_of(source), **machine)
        if any(float(arrival.time) != int(arrival.time) for arrival in arrivals):
            return None
        requests = [
            Request(int(arrival.time), *arrival[1:3], identifier, arrival.weight)
            for arrival, identifier in zip(arrivals, ids, strict=True)
        ]
        return Instance(requests, **machine)


def _at(clock: FloatArray | None, rounds: IntArray) -> FloatArray:
    """Clock at the end of the given rounds; NaN for -1, 0 for round 0."""
    if clock is None:
        return np.where(rounds >= 0, rounds, np.nan).astype(np.float64)
    padded = np.concatenate([[np.nan, 0.0], clock])
    return padded[rounds + 1]
