"""Turn what a simulation has noted into a `Run`."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from instances import Instance, Request, Workload
from instances.arrays import FloatArray, IntArray
from instances.batch_time.seconds_schedule import ADVANCES
from instances.problem.arrival_source import Arrival, ArrivalSource, memory_rule_of
from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH
from instances.problem.request import RequestId

from .columns import Stretches
from .machine import BEGINS, LEAVES, Machine, TimedStretch
from .run import Run


class Recorder:
    """What a simulation notes, beside the rows of its machine.

    Attributes
    ----------
    arrivals : list[Arrival]
        Requests in order of appearance, labelled.
    stretches : list[TimedStretch]
        The rounds that ran.
    started : dict[int, float]
        Clock at the last start of each request, by index.
    evicted : dict[int, int]
        Rounds run at the last eviction of each request that lost its tokens.
    sent_back : list[int]
        Index of each request that was evicted or preempted.
    completed : dict[int, int]
        Rounds run at the completion of each request.
    """

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.stretches: list[TimedStretch] = []
        self.started: dict[int, float] = {}
        self.evicted: dict[int, int] = {}
        self.sent_back: list[int] = []
        self.completed: dict[int, int] = {}

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
        arrivals = self.arrivals
        count = len(arrivals) if problem is None else len(problem)
        # Position in the result of each request, by order of appearance.
        place = np.arange(count) if problem is None else problem.order_of_arrival
        actions, begins = _actions(machine)
        request, first, rounds, chunk, tokens, _ = actions.T
        ends = first + rounds - 1
        lost = ends <= _column(self.evicted, count, -1)[request]
        spoken = np.flatnonzero((chunk == ADVANCES) & ~lost & (tokens == 0) & (rounds > 0))
        first_tokens, starts = np.full((2, count), -1, dtype=np.int64)
        first_tokens[place[request[spoken]]] = first[spoken]
        starts[place[request[begins]]] = first[begins] - 1
        completions, times, arrived = np.full(count, -1), *np.full((2, count), np.nan)
        completions[place] = _column(self.completed, count, -1)
        times[place] = _column(self.started, count, np.nan)
        arrived[place[: len(arrivals)]] = [one.time for one in arrivals]
        actions[:, 0] = place[request]
        if problem is None:
            lengths = np.array([one[1:3] for one in arrivals], dtype=np.int64).reshape(-1, 2).T
            prompts, outputs, ids = *lengths, tuple(_id(one) for one in arrivals)
        else:
            prompts, outputs, ids = problem.prompt_lengths, problem.output_lengths, problem.ids
        ran = np.array([one[:4] for one in self.stretches], dtype=np.int64).reshape(-1, 4).T
        first_round, ran_rounds, memory, batch_size = np.ascontiguousarray(ran)
        begun = np.array([one.start_time for one in self.stretches], dtype=np.float64)
        clock: FloatArray | None = None
        if machine.batch_time is not None:
            clock = np.concatenate([np.zeros(0), *[one.round_ends for one in self.stretches]])
        return Run(
            memory_limit=source.memory_limit,
            problem=self._realised(source, machine) if problem is None else problem,
            start_rounds=starts,
            completion_rounds=completions,
            ids=ids,
            prompt_lengths=prompts,
            output_lengths=outputs,
            arrival_times=arrived,
            start_times=times,
            first_token_times=_at(clock, first_tokens),
            completion_times=_at(clock, completions),
            eviction_counts=np.bincount(place[self.sent_back], minlength=count),
            actions=actions,
            begins=begins,
            lost=lost,
            stretches=Stretches(first_round, ran_rounds, memory, batch_size, begun),
            round_end_times=clock,
            prefill_rounds=machine.prefill_rounds,
            adaptive=source.adaptive,
            batch_time=machine.batch_time,
            memory_rule=machine.rule,
            replica=np.zeros(count, dtype=np.int64),
            **known,
        )

    def _realised(self, source: ArrivalSource, machine: Machine) -> Instance | Workload | None:
        arrivals = self.arrivals
        if not arrivals:
            return None
        zero = any(arrival.prompt_length == 0 for arrival in arrivals)
        common: dict[str, Any] = {
            "memory_limit": source.memory_limit,
            "name": source.name,
            "metadata": {ALLOW_ZERO_PROMPT_LENGTH: True} if zero else {},
            "memory_rule": memory_rule_of(source),
        }
        if machine.batch_time is not None:
            columns = zip(*(arrival[:3] for arrival in arrivals), strict=True)
            ids = [_id(arrival) for arrival in arrivals]
            return Workload(*columns, ids=ids, batch_time=machine.batch_time, **common)
        if any(float(arrival.time) != int(arrival.time) for arrival in arrivals):
            return None
        return Instance([Request(int(one.time), *one[1:]) for one in arrivals], **common)


def _actions(machine: Machine) -> tuple[IntArray, Any]:
    """Return what requests did as columns, in order of beginning, and which begin an attempt."""
    sizes = [len(requests) for _, _, requests in machine.record]
    request = np.fromiter(chain.from_iterable(one[2] for one in machine.record), np.int64)
    noted = np.array([one[:2] for one in machine.record], dtype=np.int64).reshape(-1, 2)
    first, action = np.repeat(noted, sizes, axis=0).T
    attempt = np.cumsum(action == BEGINS) - 1
    # The entries of each request, one after the other, and the one that begins its attempt.
    place = np.argsort(request, kind="stable")
    request, first, action, attempt = request[place], first[place], action[place], attempt[place]
    begins = action == BEGINS
    begun = np.maximum.accumulate(np.where(begins, np.arange(len(place)), 0))
    kept, left = np.array(machine.begun, dtype=np.int64).reshape(-1, 2)[attempt[begun]].T
    is_last = np.append(request[1:] != request[:-1], True)[: len(place)]
    rounds = np.where(is_last, machine.round_index + 1, np.roll(first, -1)) - first
    rounds[action == LEAVES] = 0
    action[begins] = ADVANCES

    def before(values: Any) -> Any:
        """Sum what an attempt did before."""
        sums = np.cumsum(values) - values
        return sums - sums[begun]

    advanced = before(np.where(action == ADVANCES, rounds, 0))
    left = np.where(advanced > 0, 0, left - before(np.where(action > 0, action * rounds, 0)))
    tokens = kept + advanced - machine.prefill_rounds * (advanced > 0)
    # What a request does at once takes the place of its beginning, unless it leaves at once.
    empty = np.flatnonzero(begins & (rounds == 0) & ~is_last & (np.roll(action, -1) != LEAVES))
    place[empty + 1], begins[empty + 1], begins[empty] = place[empty], True, False
    table = np.stack([request, first, rounds, action, tokens, left, begins], axis=1)
    shown = np.flatnonzero((rounds > 0) | begins)
    table = table[shown[np.argsort(place[shown])]]
    if machine.prefill_rounds:
        # The first round of an advance processes the prompt and emits nothing.
        silent = (table[:, 3] == ADVANCES) & (table[:, 2] > 0) & (table[:, 5] > 0)
        prompts = table[silent]
        prompts[:, 2], prompts[:, 3] = 1, prompts[:, 5]
        table[silent] += np.array([0, 1, -1, 0, 0, 0, 0])
        table[silent, 5:] = 0
        both = np.concatenate([prompts, table])
        order = np.argsort(np.append(np.flatnonzero(silent), np.arange(len(table))), kind="stable")
        table = both[order]
        table = table[(table[:, 2] > 0) | (table[:, 6] > 0)]
    return table[:, :6].copy(), table[:, 6].astype(np.bool_)


def _id(arrival: Arrival) -> RequestId:
    assert arrival.id is not None
    return arrival.id


def _column(known: dict[int, Any], count: int, missing: Any) -> Any:
    """Return values by index as a column."""
    column = np.full(count, missing)
    column[list(known)] = list(known.values())
    return column


def _at(clock: FloatArray | None, rounds: IntArray) -> FloatArray:
    """Return the clock at the end of the given rounds; NaN for -1, 0 for round 0."""
    if clock is None:
        return np.where(rounds >= 0, rounds, np.nan).astype(np.float64)
    return np.concatenate([[np.nan, 0.0], clock])[rounds + 1]
