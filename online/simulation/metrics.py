"""Latency and throughput of a run, under the names that serving benchmarks use.

Per request, all on the run's clock (seconds, or rounds in the round model):

- ``ttft`` (time to first token): first token - arrival.
- ``e2el`` (end-to-end latency): completion - arrival.
- ``tpot`` (time per output token): (e2el - ttft) / (o - 1); undefined (NaN) for o = 1.
- ``itl`` (inter-token latency): every gap between two consecutive tokens of a request.

Here o is the output length. The first token is the first one that was not lost to an eviction.
Requests that did not complete are left out of latencies and of throughput. Throughput counts tokens
when their request completes, as in [A25], so tokens of evicted attempts do not count. It is the
number per unit of time from the first arrival to the last completion. If requests were left
unserved, the time ends with the last round.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from instances.service_level import AnyLevel

from .run import Run


def summarize(run: Run, level: AnyLevel | None = None) -> dict[str, Any]:
    """Summarise a run as a dictionary of figures.

    ``ttft`` is the time of a request from arrival to first token, ``tpot`` its mean time per output
    token after the first, ``itl`` the time from one of its tokens to the next, and ``e2el`` its
    latency from arrival to completion.

    Keys: ``policy``, ``seed``, ``status``, ``requests``, ``completed``, ``duration``; ``mean_``,
    ``median_``, ``p90_`` and ``p99_`` of ``ttft``, ``tpot``, ``itl`` and ``e2el`` (NaN where there
    is nothing to average); ``request_throughput`` and ``output_throughput`` (completed requests,
    and their output tokens, per unit of time); ``request_goodput`` (completed requests on time per
    unit of time) if ``level`` is given; ``evictions``, ``restarts``, ``decisions``, ``rounds``;
    ``mean_memory``, ``peak_memory``, ``mean_batch_size`` and ``peak_batch_size``, over time.

    ``duration`` goes from the first arrival to the last completion. If requests are left unserved,
    it goes to the end of the last round. Times are rounds or seconds, as in the run.

    Parameters
    ----------
    run : Run
        A run of a policy.
    level : ServiceLevel or Sequence[ServiceLevel] or None, default None
        Service level that requests on time must meet: one for all requests, or one for each request
        in the order of the problem.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        ``level`` is not a service level or a sequence with one for each request.
    """
    columns, rounds = run.per_request(), run.rounds
    done = columns["completed"]
    begin = float(run.problem.arrival_times.min())
    end = float(np.nanmax(columns["completion_time"])) if done.any() else begin
    last = max(end, float(rounds.ends[-1]) if len(rounds.ends) else begin)
    # If requests were left unserved, the duration includes the rounds after the last completion.
    duration = (end if run.status == "completed" else last) - begin
    record: dict[str, Any] = {
        "policy": run.policy_name,
        "seed": run.seed,
        "status": run.status,
        "requests": len(done),
        "completed": int(done.sum()),
        "duration": duration,
    }
    for name in ("ttft", "tpot", "itl", "e2el"):
        values = run.inter_token_latencies[1] if name == "itl" else columns[name][done]
        values = values[~np.isnan(values)]
        found = (
            [values.mean(), *np.percentile(values, [50, 90, 99])] if len(values) else [np.nan] * 4
        )
        for statistic, value in zip(("mean", "median", "p90", "p99"), found, strict=True):
            record[f"{statistic}_{name}"] = float(value)

    def rate(count: int) -> float:
        return int(count) / duration if duration > 0 else float("nan")

    record["request_throughput"] = rate(done.sum())
    record["output_throughput"] = rate(columns["output_length"][done].sum())
    if level is not None:
        record["request_goodput"] = rate(run.on_time(level).sum())
    record |= {
        "evictions": run.evictions,
        "restarts": int(columns["restarts"].sum()),
        "decisions": run.decisions,
        "rounds": len(rounds.number),
    }
    seconds = rounds.ends - rounds.starts
    for name, values in (("memory", rounds.memory), ("batch_size", rounds.batch_size)):
        mean = (values * seconds).sum() / (last - begin) if last > begin else 0.0
        record[f"mean_{name}"], record[f"peak_{name}"] = float(mean), int(values.max(initial=0))
    return record
