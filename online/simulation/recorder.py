"""Build a `Run` from the records of a machine."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from instances import Instance, InvalidValueError, Request, Workload
from instances.arrays import FloatArray, IntArray
from instances.batch_time.seconds_schedule import ADVANCES
from instances.problem.arrival_source import ArrivalSource, memory_rule_of
from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH
from online.policy_interface.policy import VisibleRequest

from .machine import BEGINS, COMPLETED, EVICTED, LEAVES, RUNS, Machine
from .run import Attempts, Run, Stretches


def record(
    source: ArrivalSource,
    problem: Instance | Workload | None,
    machine: Machine,
    views: Sequence[VisibleRequest],
    **known: Any,
) -> Run:
    """Build the `Run` from the records of a machine, with requests in the order of ``problem``.

    If ``problem`` is None, it is built from the requests that the arrival source released (seen by
    policies as ``views``). ``known`` has the fields of `Run` that the machine does not record.
    """
    if problem is None:
        problem = _realised(source, machine, views)
    count, in_rounds = len(problem), machine.batch_time is None
    rows = np.array(machine.attempts, dtype=np.int64).reshape(-1, 6)
    # The machine numbers requests in order of arrival. ``request`` has their positions in the
    # problem, one for each attempt.
    request = problem.order_of_arrival[rows[:, 0]]
    start_rounds, end_rounds, how, kept, reused = rows.T[1:]
    end_rounds = np.where(how == RUNS, machine.batch.round_index, end_rounds)
    done, evicted = how == COMPLETED, how == EVICTED
    actions = _actions(machine, problem.order_of_arrival)
    ends = actions[:, 1] + actions[:, 2] - 1
    lost = ends <= _column(count, -1, request[evicted], end_rounds[evicted])[actions[:, 0]]
    first = actions[(actions[:, 3] == ADVANCES) & (actions[:, 4] == 0) & ~lost]
    first_tokens = _column(count, -1, first[:, 0], first[:, 1])
    completions = _column(count, -1, request[done], end_rounds[done])
    ran = [(*planned[:3], count) for planned, count in machine.ran]
    columns = np.array(ran, dtype=np.int64).reshape(-1, 4).T
    begun = np.array([planned.start_time for planned, _ in machine.ran])
    times = [np.zeros(0), *(planned.ends[:count] for planned, count in machine.ran)]
    clock = None if in_rounds else np.concatenate(times)
    return Run(
        problem=problem,
        start_rounds=_column(count, -1, request, start_rounds),
        completion_rounds=completions,
        start_times=_column(count, np.nan, request, machine.start_times),
        first_token_times=_at(clock, first_tokens),
        completion_times=_at(clock, completions),
        eviction_counts=np.bincount(request[~done & (how != RUNS)], minlength=count),
        attempts=Attempts(request, start_rounds, end_rounds, done, kept, reused),
        actions=actions,
        lost=lost,
        stretches=Stretches(begun, *columns),
        round_end_times=clock,
        prefill_rounds=machine.batch.prefill_rounds,
        replica=np.zeros(count, dtype=np.int64),
        **known,
    )


def _actions(machine: Machine, order: IntArray) -> IntArray:
    """Return `Machine.actions` as the array `Run.actions`, sorted by request, then by round.

    ``order`` has the position in the problem of each request by order of arrival.
    """
    groups = [one[4] for one in machine.actions]
    columns = np.array([one[:4] for one in machine.actions], dtype=np.int64).reshape(-1, 4).T
    request = order[np.fromiter(chain.from_iterable(groups), np.int64)]
    place = np.argsort(request, kind="stable")
    sizes = np.fromiter(map(len, groups), np.int64)
    noted = np.repeat(columns, sizes, axis=1)[:, place]
    request, (first, action, kept, left) = request[place], noted
    begins = action == BEGINS
    action[begins] = ADVANCES
    # ``begun`` has, for each action, the position of the action that begins the same attempt.
    begun = np.maximum.accumulate(np.where(begins, np.arange(len(place)), 0))
    rounds = np.append(first[1:], 0)[: len(first)] - first
    is_last = np.append(request[1:] != request[:-1], True)[: len(place)]
    rounds[is_last] = machine.batch.round_index + 1 - first[is_last]

    def before(values: IntArray) -> IntArray:
        """Return, for each action, the sum of ``values`` over earlier actions of its attempt."""
        sums: IntArray = np.cumsum(values) - values
        return sums - sums[begun]

    advanced = before(np.where(action == ADVANCES, rounds, 0))
    processed = before(np.where(action > 0, action * rounds, 0))
    left = np.where(advanced > 0, 0, left[begun] - processed)
    shown = (rounds > 0) & (action != LEAVES)
    table: IntArray = np.stack([request, first, rounds, action, kept[begun] + advanced, left])
    return np.ascontiguousarray(table.T[shown])


def _realised(
    source: ArrivalSource, machine: Machine, views: Sequence[VisibleRequest]
) -> Instance | Workload:
    """Build a problem from the requests that an arrival source has released, in order of arrival.

    It is an `Instance` in the round model, a `Workload` in continuous time.

    Raises
    ------
    InvalidValueError
        The source released no request.
    """
    if not views:
        raise InvalidValueError(source.name, "requests", [], "is empty: the source released none")
    rows = [
        (one.arrival_time, one.prompt_length, output, one.id, one.weight)
        for one, output in zip(views, machine.output_lengths, strict=True)
    ]
    times, prompts, outputs, ids, _ = zip(*rows, strict=True)
    common: dict[str, Any] = {
        "memory_limit": source.memory_limit,
        "name": source.name,
        "metadata": {} if all(prompts) else {ALLOW_ZERO_PROMPT_LENGTH: True},
        "memory_rule": memory_rule_of(source),
    }
    if machine.batch_time is None:
        return Instance([Request(int(row[0]), *row[1:]) for row in rows], **common)
    return Workload(times, prompts, outputs, ids=ids, batch_time=machine.batch_time, **common)


def _column(count: int, missing: Any, request: IntArray, values: Any) -> Any:
    """Return an array with one entry for each of ``count`` requests.

    The entry is the last of ``values`` for this request, or ``missing`` if there is none.
    ``request`` has the request of each value.
    """
    column = np.full(count, missing)
    column[request] = values
    return column


def _at(clock: FloatArray | None, rounds: IntArray) -> FloatArray:
    """Return the clock time at the end of each of ``rounds``: 0 for round 0, NaN for -1.

    ``clock`` has the end of rounds 1, 2, .. in seconds. None stands for the round model, in which
    round r ends at time r.
    """
    if clock is None:
        return np.where(rounds >= 0, rounds, np.nan).astype(np.float64)
    return np.concatenate([[np.nan, 0.0], clock])[rounds + 1]
