"""Machines in seconds: columns of the requests, and an assignment of requests to several machines.

The charge of a request is the machine time that it needs, in seconds (`hindsight.prices.machines`).
In order of arrival, each request goes to the machine on which it adds the least cost. In the model
of the cost, a machine serves one request at a time, for a time equal to its charge, the least
charge first. So a new request waits for all smaller charges that are left, and delays each larger
one by its own charge (Megow, Uetz and Vredeveld, 2006).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances import InvalidValueError, Workload
from instances.arrays import FloatArray, IntArray
from instances.batch_time import AffineTime, BatchStretch, BatchTime, TiledTime
from instances.problem.memory_translation import relaxed, restricted
from instances.service_level import Limits

LONGEST_ROUND = 1e100
"""Rounds of this many seconds or more raise an error: their sum might be infinite."""

Attention = tuple[float, float, float]
"""Seconds by which a round with both prompts and decodes is longer, and seconds of attention per
x^2 and per x y, if a request processes x tokens of its prompt after y tokens before."""


class Machine(NamedTuple):
    """Requests that a machine may serve, its memory, and the durations of its rounds.

    Attributes
    ----------
    arrival : float64 array, shape (n,)
        Arrival times in seconds, ascending.
    prompt, output : int64 array, shape (n,)
        Prompt tokens that the first round of each request processes, and number of its rounds.
    held, stored : int64 array, shape (n,)
        In its k-th round, a request takes ``held + k`` tokens of the memory limit. It adds
        ``stored + k`` tokens to the stored tokens on which the duration of the round depends.
    end, first_token, decode : float64 array, shape (n,)
        Deadline of the last token, deadline of the first token, and longest allowed time from the
        first token to the last one, of each request in seconds. Infinite if there is no such limit.
    memory_limit : int
        M, tokens.
    seconds : float64 array, shape (most + 1,)
        Entry k: seconds of a round that processes k tokens, without the seconds for stored tokens.
    d2 : float
        Seconds that each stored token adds to the duration of a round.
    attention : Attention
        Seconds of attention, without those of stored tokens.
    least : float
        Seconds of the shortest round.
    charges : tuple of two floats
        Factors that estimate the machine seconds that a request needs: seconds per token that it
        processes, and seconds per token that it holds in a round.
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
    attention: Attention
    least: float
    charges: tuple[float, float]
    counts_late: bool


def machine_of(workload: Workload, limits: Limits | None, *, recomputes: bool) -> Machine:
    """Return a machine of a workload, with all requests of the workload.

    If the workload does not count memory in tokens, it is replaced by a stricter one that does
    (`instances.problem.memory_translation`). Every schedule of the stricter workload is feasible
    for the given one, and `Machine.held` is that of the stricter one. The durations of rounds
    depend on the tokens that requests really store.

    Raises
    ------
    InvalidValueError
        A round takes no time, or `LONGEST_ROUND` seconds or more.
    """
    inner, batch_time = restricted(workload), workload.require_batch_time()
    prompt, output = np.maximum(workload.prompt_lengths, 1), np.array(workload.output_lengths)
    # ``most`` is the largest number of tokens that a round can process: all prompts, and also all
    # output tokens if preempted requests recompute them. The memory limit may be much larger.
    most = int(prompt.sum()) + recomputes * int(output.sum())
    seconds, d2, attention = round_seconds(batch_time, min(inner.memory_limit, most))
    token = max(0.0, float(seconds[-1] - seconds[1])) / max(1, len(seconds) - 2)
    held = d2 + float(seconds[1]) / inner.memory_limit
    arrival = np.array(workload.arrival_times)
    goals = [*np.full((3, len(workload)), np.inf)]
    if limits is not None:
        goals = [arrival + limits.latency, arrival + limits.first_token, limits.decode(output)]
    stored = np.array(relaxed(workload).prompt_lengths)
    lengths = arrival, prompt, output, np.array(inner.prompt_lengths), stored
    rounds = inner.memory_limit, seconds, d2, attention, float(seconds[1:].min()), (token, held)
    return Machine._make([*lengths, *goals, *rounds, limits is not None])


def round_seconds(batch_time: BatchTime, most: int) -> tuple[FloatArray, float, Attention]:
    """Return the seconds of a round by tokens processed, those per stored token, and attention.

    Entry k of the first result, shape (most + 1,), is the duration of a round that processes k
    tokens, without the seconds of the other results. A batch time of an unknown class is
    approximated. This is allowed: when a schedule is found, the durations of its rounds are
    computed again, exactly.

    Raises
    ------
    InvalidValueError
        A round takes no time, or `LONGEST_ROUND` seconds or more.
    """
    tokens, d2, attention = np.arange(most + 1), 0.0, (0.0, 0.0, 0.0)
    if isinstance(batch_time, AffineTime):
        seconds, d2 = batch_time.d0 + batch_time.d1 * tokens.astype(np.float64), batch_time.d2
    elif isinstance(batch_time, TiledTime):
        table = np.array([batch_time.at(one) for one in tokens.tolist()])
        seconds, d2 = table + batch_time.kernel, batch_time.kv_token
        attention = batch_time.kernel, batch_time.prompt_square, batch_time.prompt_past
    else:
        # Compute the durations of rounds that process a single prompt, for up to 200 prompt
        # lengths. Interpolate between them for other numbers of processed tokens.
        places = np.unique(np.linspace(1, most, 200).astype(np.int64))

        def lasts(processed: int, stored: int) -> float:
            return float(batch_time.durations(BatchStretch(1, 1, processed, 1, stored, 1))[0])

        empty, middle = np.array([lasts(one, one) for one in places.tolist()]), most // 2
        if most > 1 and np.isfinite(empty).all():
            d2 = max(0.0, (lasts(middle, most) - lasts(middle, middle)) / (most - middle))
        seconds = np.interp(tokens, places, empty - d2 * places)
    if not (seconds.min() > 0 and seconds.max() < LONGEST_ROUND and d2 < LONGEST_ROUND):
        reason = f"must all be above 0 and below {LONGEST_ROUND:g}"
        raise InvalidValueError("batch time", "durations", seconds, reason)
    return seconds, d2, attention


def assigned(arrival: FloatArray, charges: FloatArray, machines: int) -> IntArray:
    """Assign the requests to ``machines`` machines; return the machine of each, shape (n,).

    In order of arrival, each request goes to the machine with the least work left. ``charges`` are
    the machine seconds that each request needs, shape (n,).
    """
    assignment = np.zeros(len(arrival), dtype=np.int64)
    work, now = np.zeros(machines), 0.0
    for i in np.lexsort((charges, arrival)).tolist():
        # Seconds of work that each machine has left.
        work, now = np.maximum(work - (arrival[i] - now), 0.0), arrival[i]
        assignment[i] = work.argmin()
        work[assignment[i]] += charges[i]
    return assignment
