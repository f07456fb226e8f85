"""Columns of a machine in seconds: requests, memory, and the seconds of a round by its tokens."""

from __future__ import annotations

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
"""Least seconds of a round that are refused, because sums of such rounds might be infinite."""


class Machine(NamedTuple):
    """Requests, and the memory and the seconds of a machine.

    Attributes
    ----------
    arrival : float64 array, shape (n,)
        Arrival times in seconds, ascending.
    prompt, output : int64 array, shape (n,)
        Tokens that the first round of the request processes, and number of rounds.
    held, stored : int64 array, shape (n,)
        Tokens that count for memory and for durations in the k-th round of the request, less k.
    end, first_token, decode : float64 array, shape (n,)
        Deadlines of the last and of the first token, and most seconds between these two; infinite
        where none is set.
    memory_limit : int
        M, tokens.
    seconds : float64 array, shape (most + 1,)
        Seconds of a round by tokens processed.
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

    The first has shape (most + 1,), for 0 .. ``most`` tokens. Other dependencies of the batch time
    are ignored: the exact durations of the schedules found are computed afterwards.

    Raises
    ------
    InvalidValueError
        A round takes no time, or `LONGEST_ROUND` seconds or more.
    """
    seconds, d2 = _round_seconds(batch_time, np.arange(most + 1))
    if not (seconds.min() > 0 and seconds.max() < LONGEST_ROUND and d2 < LONGEST_ROUND):
        reason = f"are not all above 0 and below {LONGEST_ROUND:g}"
        raise InvalidValueError("batch time", "durations", seconds, reason)
    return seconds, d2


def _round_seconds(batch_time: BatchTime, tokens: IntArray) -> tuple[FloatArray, float]:
    if isinstance(batch_time, AffineTime):
        return batch_time.d0 + batch_time.d1 * tokens.astype(np.float64), batch_time.d2
    if isinstance(batch_time, IterationTime):
        return np.full(len(tokens), batch_time.d0), batch_time.d1
    if isinstance(batch_time, TiledTime):
        table = np.array([batch_time.at(one) for one in tokens.tolist()])
        return table + batch_time.kernel, batch_time.kv_token
    most = int(tokens[-1])
    places = np.unique(np.linspace(1, most, 200).astype(np.int64))

    def seconds(tokens: int, memory: int) -> float:
        return float(batch_time.durations(BatchStretch(1, 1, tokens, 1, memory, 1))[0])

    empty = np.array([seconds(one, one) for one in places.tolist()])
    if most == 1 or not np.isfinite(empty).all():
        return np.interp(tokens, places, empty), 0.0
    middle = most // 2
    d2 = max(0.0, (seconds(middle, most) - seconds(middle, middle)) / (most - middle))
    return np.interp(tokens, places, empty - d2 * places), d2
