"""Arrivals of closed loops: recognised in a log, and played where a log has no start times.

In a closed loop a client sends a request when another one ends, and never more than so many at
once. When a request is sent then depends on the scheduler, so a benchmark that records no start
times says nothing of them. Playing the loop gives them back for a scheduler that is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any

import numpy as np

from instances import InvalidValueError, RequestLog, Workload
from instances.arrays import FloatArray
from instances.problem.arrival_source import Arrival, ProblemSource
from instances.validation import as_integer
from online.policy_interface.policy import State, VisibleRequest
from online.simulation.simulator import simulate

from .question import Question

AT_ONCE = 0.05
"""Share of the mean latency within which a request counts as sent when another one ended."""

LEAST_SENT = 0.5
"""Share of the requests sent when another one ended, from which on a log is of a closed loop."""


class ClosedLoop(ProblemSource):
    """Requests in order, each sent at its time or when there are fewer than so many, if later."""

    def __init__(self, workload: Workload, concurrency: int) -> None:
        super().__init__(workload)
        self.free: list[float] = [0.0] * concurrency

    def next_arrival(self) -> float | None:
        """Return when the next request is sent, if that is known."""
        planned = super().next_arrival()
        return None if planned is None or not self.free else max(planned, self.free[0])

    def release(self, now: float) -> list[Arrival]:
        """Send the requests that are due."""
        sent = []
        while (time := self.next_arrival()) is not None and time <= now:
            heappop(self.free)
            sent.append(self._arrivals[self._position]._replace(time=time))
            self._position += 1
        return sent


def play_closed_loop(question: Question, should_stop: Callable[[], bool]) -> Question:
    """Give the requests the arrivals of their closed loop under the policy of today.

    Raises
    ------
    InvalidValueError
        There are several replicas, or there was no time for all requests.
    """
    workload, label = question.workload, question.baseline
    if workload.replicas > 1 or question.concurrency is None:
        reason = "is not 1: a log without start times can only be used for one machine"
        raise InvalidValueError(None, "replicas", workload.replicas, reason)
    loop, policy = ClosedLoop(workload, question.concurrency), question.specs[label].make()
    complete = policy.complete

    def complete_and_send(requests: Sequence[VisibleRequest], state: State) -> None:
        complete(requests, state)
        for _ in requests:
            heappush(loop.free, state.time)

    policy.complete = complete_and_send  # type: ignore[method-assign]
    options: dict[str, Any] = {"level": question.level, "should_stop": should_stop}
    run = simulate(loop, policy, **options)
    if run.status != "completed":
        reason = f"is too many for the time limit: the closed loop under {label} did not end"
        raise InvalidValueError(None, "requests", len(workload), reason)
    assert isinstance(run.problem, Workload)
    return replace(question, workload=run.problem.renamed(workload.name, workload.metadata))


def arrivals_of_log(log: RequestLog, max_concurrency: int | None = None) -> tuple[int | None, bool]:
    """Return the most requests at once of a closed loop, and whether arrivals are made up.

    Parameters
    ----------
    log : RequestLog
        The log.
    max_concurrency : int or None, default None
        Most requests at once, for a log without start times; None takes the number that it states.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A number below 1, or one for a log that has start times.
    """
    made_up = not log.has_arrival_times or log.format == "sglang-bench"
    if max_concurrency is not None and not made_up:
        reason = "is for logs without start times, and this one has them"
        raise InvalidValueError(None, "max_concurrency", max_concurrency, reason)
    stated = log.settings.get("max_concurrency") if max_concurrency is None else max_concurrency
    if stated is not None:
        stated = as_integer(stated, None, "max_concurrency", minimum=1)
    if not made_up and np.isfinite(log.latencies).all():
        return _concurrency(log.arrival_times, log.latencies), False
    return stated, made_up


def with_own_times(log: RequestLog, concurrency: int | None) -> RequestLog:
    """Give a log without start times those of its closed loop, by the latencies that it measured.

    Raises
    ------
    InvalidValueError
        It is not of a closed loop, or lacks latencies.
    """
    latencies = log.latencies
    if concurrency is None or not np.isfinite(latencies).all():
        reason = "needs start times, and the log has none: max_concurrency=N says that N requests "
        reason += "were sent at once, and affine:d0,d1,d2 or a preset need no fit"
        raise InvalidValueError(None, "--batch-time", "fit", reason)
    free, starts = [0.0] * concurrency, []
    for planned, latency in zip(log.arrival_times.tolist(), latencies.tolist(), strict=True):
        starts.append(max(planned, heappop(free)))
        heappush(free, starts[-1] + latency)
    return replace(log, arrival_times=np.array(starts), has_arrival_times=True)


def _concurrency(arrivals: FloatArray, latencies: FloatArray) -> int | None:
    """Return the most requests at once, if most are sent when another one ends."""
    near = AT_ONCE * float(latencies.mean())
    ends = np.sort(arrivals + latencies)
    count = len(arrivals)
    most = int((np.arange(1, count + 1) - np.searchsorted(ends, arrivals + near, "right")).max())
    if most < 1 or count <= 2 * most:
        return None
    # The k-th request that has to wait for another one waits for the k-th end.
    is_sent = arrivals[most:] - ends[: count - most] <= near
    return most if is_sent.mean() >= LEAST_SENT else None
