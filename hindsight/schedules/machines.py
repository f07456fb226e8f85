"""Machines in seconds: columns of the requests, and assignments of requests to several machines.

The charge of a request is the machine time that it needs, in seconds (`hindsight.prices.machines`).
First schedules use assignments by rules that differ as much as possible.

*By cost.* In order of arrival, each request goes to the machine on which it adds the least cost. In
the model of the cost, a machine serves one request at a time, for a time equal to its charge, the
least charge first. So a new request waits for all smaller charges that are left, and delays each
larger one by its own charge (Megow, Uetz and Vredeveld, 2006). In a real batch, a long prompt also
delays all other requests. So each machine gets its own range of prompt lengths, with equal work,
and a request costs more the farther its prompt is from the range of the machine.

*Other rules.* Requests are dealt out in turn, or assigned by the ranges of prompt lengths alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from instances import InvalidValueError, Workload
from instances.arrays import FloatArray, IntArray
from instances.batch_time import (
    AffineTime,
    BatchStretch,
    BatchTime,
    IterationTime,
    TiledTime,
)
from instances.problem.memory_translation import relaxed, restricted
from instances.service_level import Limits

LONGEST_ROUND = 1e100
"""Seconds from which on a round is refused, because sums of such rounds might be infinite."""


CLASSES = 24
"""Number of classes of charges in an assignment by cost."""

AFFINITIES = (0.2, 0.0)
"""Penalties per range of prompt lengths between prompt and machine, tried one after another. Unit:
the charge of the request times (1 + mean number of requests on a machine)."""

RANGE_POWER = 0.7
"""Ranges of prompt lengths have equal sums of charges to this power."""


class Machine(NamedTuple):
    """Requests of a machine, its memory, and the seconds of its rounds.

    Attributes
    ----------
    arrival : float64 array, shape (n,)
        Arrival times in seconds, ascending.
    prompt, output : int64 array, shape (n,)
        Tokens that the first round of the request processes, and number of rounds.
    held, stored : int64 array, shape (n,)
        In its k-th round, the request holds ``held + k`` tokens of memory. ``stored + k`` tokens
        count for the duration of the round.
    end, first_token, decode : float64 array, shape (n,)
        Deadlines of the last and of the first token, and most seconds between these two. Infinite
        if there is no such limit.
    memory_limit : int
        M, tokens.
    seconds : float64 array, shape (most + 1,)
        Seconds of a round, by the number of tokens that it processes.
    d2 : float
        Seconds that each stored token adds to a round.
    least : float
        Seconds of the shortest round.
    charges : tuple of two floats
        Machine seconds per processed token, and per token held in a round.
    counts_late : bool
        Whether the cost of a schedule is the number of late requests instead of total latency.
    """

    arrival: FloatArray
    prompt: IntArray
    output: IntArray
    held: IntArray
    stored: IntArray
    end: FloatArray
    first_token: FloatArray
    decode: FloatArray
    memory_limit: int
    seconds: FloatArray
    d2: float
    least: float
    charges: tuple[float, float]
    counts_late: bool


def machine_of(workload: Workload, limits: Limits | None, *, recomputes: bool) -> Machine:
    """Return one machine of a workload, with all its requests.

    Under a memory rule other than tokens, requests hold the memory of the stricter workload in
    tokens (`instances.problem.memory_translation`). Durations depend on the tokens really stored.

    Raises
    ------
    InvalidValueError
        See `round_seconds`.
    """
    inner, batch_time = restricted(workload), workload.require_batch_time()
    prompt, output = np.maximum(workload.prompt_lengths, 1), np.array(workload.output_lengths)
    # No round processes more tokens than this, and M may be much larger.
    most = int(prompt.sum()) + recomputes * int(output.sum())
    seconds, d2 = round_seconds(batch_time, min(inner.memory_limit, most))
    token = max(0.0, float(seconds[-1] - seconds[1])) / max(1, len(seconds) - 2)
    held = d2 + float(seconds[1]) / inner.memory_limit
    arrival = np.array(workload.arrival_times)
    end, first_token, decode = np.full((3, len(workload)), np.inf)
    if limits is not None:
        end, first_token = arrival + limits.latency, arrival + limits.first_token
        decode = limits.decode(output)
    stored = np.array(relaxed(workload).prompt_lengths)
    lengths = arrival, prompt, output, np.array(inner.prompt_lengths), stored
    lasts = seconds, d2, float(seconds[1:].min()), (token, held)
    is_late = limits is not None
    return Machine(*lengths, end, first_token, decode, inner.memory_limit, *lasts, is_late)


def round_seconds(batch_time: BatchTime, most: int) -> tuple[FloatArray, float]:
    """Return the seconds of a round by tokens processed, and the seconds per stored token.

    The first has shape (most + 1,), for 0 .. ``most`` tokens. Batch times that depend on more are
    approximated. The exact durations of the schedules found are computed afterwards.

    Raises
    ------
    InvalidValueError
        A round takes no time, or `LONGEST_ROUND` seconds or more.
    """
    tokens, d2 = np.arange(most + 1), 0.0
    if isinstance(batch_time, AffineTime):
        seconds, d2 = batch_time.d0 + batch_time.d1 * tokens.astype(np.float64), batch_time.d2
    elif isinstance(batch_time, IterationTime):
        seconds, d2 = np.full(most + 1, batch_time.d0), batch_time.d1
    elif isinstance(batch_time, TiledTime):
        table = np.array([batch_time.at(one) for one in tokens.tolist()])
        seconds, d2 = table + batch_time.kernel, batch_time.kv_token
    else:
        # Interpolate between a few rounds of one request that stores what it processes.
        places = np.unique(np.linspace(1, most, 200).astype(np.int64))

        def lasts(processed: int, stored: int) -> float:
            return float(batch_time.durations(BatchStretch(1, 1, processed, 1, stored, 1))[0])

        empty, middle = np.array([lasts(one, one) for one in places.tolist()]), most // 2
        if most > 1 and np.isfinite(empty).all():
            d2 = max(0.0, (lasts(middle, most) - lasts(middle, middle)) / (most - middle))
        seconds = np.interp(tokens, places, empty - d2 * places)
    if not (seconds.min() > 0 and seconds.max() < LONGEST_ROUND and d2 < LONGEST_ROUND):
        reason = f"are not all above 0 and below {LONGEST_ROUND:g}"
        raise InvalidValueError("batch time", "durations", seconds, reason)
    return seconds, d2


def assignments(
    arrival: FloatArray, prompt: IntArray, charges: FloatArray, machines: int
) -> Iterator[IntArray]:
    """Yield assignments of requests to ``machines`` machines, each an array of shape (n,).

    ``charges`` are the machine seconds of each request, shape (n,).
    """
    n = len(arrival)
    if machines == 1:
        yield np.zeros(n, dtype=np.int64)
        return
    order, ranges = np.lexsort((charges, arrival)), _ranges(prompt, charges) * machines
    # Assign by cost. Requests are in classes of similar charges, each with a typical charge.
    logs = np.log(charges)
    place = ((logs - logs.min()) / (np.ptp(logs) + 1e-9) * CLASSES).astype(np.int64)
    counts = np.bincount(place, minlength=CLASSES)
    typical = np.bincount(place, charges, CLASSES) / np.maximum(1, counts)
    typical[typical == 0] = 1.0
    for affinity in AFFINITIES:
        work, dealt, now = np.zeros((machines, CLASSES)), np.zeros(machines, dtype=np.int64), 0.0
        assignment = np.zeros(n, dtype=np.int64)
        for i in order.tolist():
            # Each machine has served the smallest charges since the last arrival.
            left = np.maximum(np.cumsum(work, axis=1) - (arrival[i] - now), 0.0)
            work, now, c = np.diff(left, axis=1, prepend=0.0), arrival[i], place[i]
            there = work / typical
            cost = left[:, c] + charges[i] * there[:, c + 1 :].sum(axis=1)
            far = np.abs(ranges[i] - (np.arange(machines) + 0.5))
            cost += affinity * far * charges[i] * (1 + there.sum() / machines)
            best = np.lexsort((dealt, cost))[0]
            assignment[i] = best
            work[best, c] += charges[i]
            dealt[best] += 1
        yield assignment
    # Deal requests out in turn: by arrival, and by charge among requests that arrive together.
    in_turn = np.empty(n, dtype=np.int64)
    in_turn[order] = np.arange(n) % machines
    yield in_turn
    # Assign by the ranges of prompt lengths alone.
    yield np.minimum(ranges.astype(np.int64), machines - 1)


def _ranges(prompt: IntArray, charges: FloatArray) -> FloatArray:
    """Return the share of the work that has shorter prompts, for each request: a value in [0, 1].

    The work of a request is its charge to the power `RANGE_POWER`.
    """
    order = np.argsort(prompt, kind="stable")
    work = charges[order] ** RANGE_POWER
    place = np.empty(len(order))
    place[order] = (np.cumsum(work) - 0.5 * work) / work.sum()
    return place
