"""Start times of requests in a closed loop: a client that keeps at most N requests in flight.

While N requests are in flight, the client sends the next one when one of them ends. Some benchmarks
record latencies and no start times. By this rule, the start times of the run follow from the
latencies.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush

import numpy as np

from instances import InvalidValueError, RequestLog
from instances.validation import as_integer


def with_arrivals(
    log: RequestLog, max_concurrency: int | None = None
) -> tuple[RequestLog, int | None, bool]:
    """Return a log with start times, its concurrency limit, and whether start times are made up.

    The concurrency limit is the largest number of requests that the client has in flight, or None
    if the log states none. If the log lacks start times, they are computed from its latencies and
    this limit. Start times are made up if neither the log nor its latencies determine them.

    Parameters
    ----------
    log : RequestLog
        The log.
    max_concurrency : int or None, default None
        Concurrency limit of a log without start times; None takes the limit that the log states.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        The limit is below 1, or it is given for a log that has start times or lacks latencies.
    """
    is_timed = log.has_arrival_times and log.format != "sglang-bench"
    is_measured = bool(np.isfinite(log.latencies).all())
    if max_concurrency is not None and (is_timed or not is_measured):
        reason = "is for logs with latencies and without start times, and this log has "
        reason += "start times" if is_timed else "no latencies"
        raise InvalidValueError(None, "max_concurrency", max_concurrency, reason)
    stated = log.settings.get("max_concurrency") if max_concurrency is None else max_concurrency
    if is_timed:
        return log, stated, False
    if stated is None or not is_measured:
        return log, None, True
    stated = as_integer(stated, None, "max_concurrency", minimum=1)
    free, starts = [0.0] * stated, []
    for planned, latency in zip(log.arrival_times.tolist(), log.latencies.tolist(), strict=True):
        starts.append(max(planned, heappop(free)))
        heappush(free, starts[-1] + latency)
    return replace(log, arrival_times=np.array(starts), has_arrival_times=True), stated, False
