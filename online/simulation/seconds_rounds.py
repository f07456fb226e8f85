"""Actions of each round of a run in continuous time, from the run's record."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from instances import SecondsSchedule, Workload
from instances.arrays import FloatArray
from instances.batch_time import Stretch
from instances.batch_time.seconds_schedule import ADVANCES
from online.batch_time.service_model import ServiceModel

from .run_columns import RunRecord


def seconds_schedule(run: RunRecord, workload: Workload) -> SecondsSchedule:
    """Return the schedule of a completed run of a workload.

    A prefill round, which emits nothing, processes the prompt as one chunk.
    """
    attempts = run.attempts
    held = _held(run)
    rows: list[Stretch] = []
    for position, (request, begin, end, kept, reused) in enumerate(
        zip(
            attempts.request.tolist(),
            attempts.start_round.tolist(),
            attempts.end_round.tolist(),
            attempts.tokens_kept.tolist(),
            attempts.tokens_reused.tolist(),
            strict=True,
        )
    ):
        rows += _stay(
            request,
            begin + 1,
            end,
            kept,
            int(run.prompt_lengths[request]) + kept - reused,
            held.get(position, []),
            run.service_model,
        )
    table = np.array(rows, dtype=np.int64)
    schedule = SecondsSchedule(workload, table, _round_starts(run))
    if not run.service_model.prefill_rounds:
        return schedule
    # A prompt that counts as a chunk is added up in another order.
    starts, now = schedule.round_starts.copy(), 0.0
    for position, seconds in enumerate(schedule.durations.tolist()):
        starts[position] = max(starts[position], now)
        now = starts[position] + seconds
    return SecondsSchedule(workload, table, starts)


def _stay(
    request: int,
    now: int,
    end: int,
    tokens: int,
    left: int,
    held: list[tuple[int, int, int]],
    service_model: ServiceModel,
) -> list[Stretch]:
    """Yield the stretches of one stay in the batch, rounds ``now`` .. ``end``."""
    silent = service_model.prefill_rounds
    rows = []
    for first, rounds, chunk in [*held, (end + 1, 0, 0)]:
        if first > now and silent:
            rows.append(Stretch(request, now, 1, left, tokens, left))
            now, left, silent = now + 1, 0, 0
        if first > now:
            rows.append(Stretch(request, now, first - now, ADVANCES, tokens, left))
            tokens, left = tokens + first - now, 0
        if rounds:
            rows.append(Stretch(request, first, rounds, chunk, tokens, left))
            left -= chunk * rounds
        now = first + rounds
    return rows


def _held(run: RunRecord) -> dict[int, list[tuple[int, int, int]]]:
    """Return rounds without advance per attempt, by time: first round, rounds and chunk."""
    attempts, pauses = run.attempts, run.pauses
    starts_of: dict[int, list[int]] = {}
    attempts_of: dict[int, list[int]] = {}
    for position, (request, start) in enumerate(
        zip(attempts.request.tolist(), attempts.start_round.tolist(), strict=True)
    ):
        starts_of.setdefault(request, []).append(start)
        attempts_of.setdefault(request, []).append(position)
    chunks: dict[tuple[int, int], int] = {
        (pause, request): tokens for pause, request, tokens in pauses.chunks.tolist()
    }
    held: dict[int, list[tuple[int, int, int]]] = {}
    for pause, (first, rounds, frozen) in enumerate(
        zip(
            pauses.first_round.tolist(), pauses.rounds.tolist(), pauses.frozen.tolist(), strict=True
        )
    ):
        named = pauses.request[pauses.offsets[pause] : pauses.offsets[pause + 1]].tolist()
        if frozen:
            present = (attempts.start_round < first) & (attempts.end_round >= first)
            named = np.setdiff1d(attempts.request[present], named).tolist()
        for request in named:
            # The last attempt that began before the pause.
            last = bisect_left(starts_of[request], first) - 1
            held.setdefault(attempts_of[request][last], []).append(
                (first, rounds, chunks.get((pause, request), 0))
            )
    return held


def _round_starts(run: RunRecord) -> FloatArray:
    assert run.round_end_times is not None
    starts = np.concatenate([np.zeros(1), run.round_end_times[:-1]])
    stretches = run.stretches
    starts[stretches.first_round - 1] = stretches.start_time
    return starts
