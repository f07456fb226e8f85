"""Latency and throughput of a run, under the names that serving benchmarks use.

Per request, all on the run's clock (seconds, or rounds in the round model):

- ``ttft`` (time to first token): first token - arrival.
- ``e2el`` (end-to-end latency): completion - arrival.
- ``tpot`` (time per output token): (e2el - ttft) / (o - 1); undefined (NaN) for o = 1.
- ``itl`` (inter-token latency): every gap between two consecutive tokens of a request.

The first token is the first that was not lost to an eviction. Requests that did not complete
enter no latency and no throughput. Throughput counts at completion, as in [A25]: tokens of evicted
attempts and of unfinished requests do not count. It is per unit of time from the first arrival
to the last completion, or to the last round where requests were left unserved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from instances import InvalidValueError
from instances.arrays import FloatArray
from instances.validation import as_number

from .run import Run

STATISTICS = ("mean", "median", "p90", "p99")
OBJECTIVES = ("ttft", "tpot", "e2el")


def summarize(run: Run, slos: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Summarise a run as one flat record.

    Keys: ``policy``, ``seed``, ``status``, ``requests``, ``completed``, ``duration``;
    ``mean_``, ``median_``, ``p90_`` and ``p99_`` of ``ttft``, ``tpot``, ``itl`` and ``e2el`` (NaN
    where there is nothing to average); ``request_throughput`` and ``output_throughput`` (requests
    and output tokens of completed requests per unit of time, from the first arrival to the last
    completion, or to the last round of a run that left requests unserved); ``request_goodput``
    where ``slos`` are given; ``evictions``, ``restarts``, ``decisions``, ``rounds``;
    ``mean_memory``, ``peak_memory``, ``mean_batch_size`` and ``peak_batch_size``, over time.

    Parameters
    ----------
    run : Run
        A run of a policy.
    slos : Mapping[str, float] or None, default None
        Service-level objectives: the largest ``ttft``, ``tpot`` or ``e2el`` at which a request
        counts for goodput; all of them must hold. A single token has no ``tpot`` to miss.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        An objective of another name, or not a number >= 0.
    """
    limits = _objectives(slos)
    columns, rounds = run.per_request(), run.rounds
    done = columns["completed"]
    begin = float(run.problem.arrival_times.min())
    end = float(np.nanmax(columns["completion_time"])) if done.any() else begin
    last = max(end, float(rounds.ends[-1]) if len(rounds.ends) else begin)
    # A run that was cut off did not earn its throughput by its last completion.
    duration = (end if run.status == "completed" else last) - begin
    record: dict[str, Any] = {
        "policy": run.policy_name,
        "seed": run.seed,
        "status": run.status,
        "requests": len(done),
        "completed": int(done.sum()),
        "duration": duration,
    }
    latencies = {name: columns[name][done] for name in ("ttft", "tpot", "e2el")}
    latencies["itl"] = run.inter_token_latencies[1]
    for name in ("ttft", "tpot", "itl", "e2el"):
        values = latencies[name][~np.isnan(latencies[name])]
        for statistic, value in zip(STATISTICS, _statistics(values), strict=True):
            record[f"{statistic}_{name}"] = value

    def rate(count: int) -> float:
        return int(count) / duration if duration > 0 else float("nan")

    record["request_throughput"] = rate(done.sum())
    record["output_throughput"] = rate(columns["output_length"][done].sum())
    if slos is not None:
        late = [columns[name] > limit for name, limit in limits.items()]
        record["request_goodput"] = rate((done & ~np.any(late, axis=0)).sum())
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


def _objectives(slos: Mapping[str, float] | None) -> dict[str, float]:
    limits: dict[str, float] = {}
    for name, limit in (slos or {}).items():
        if name not in OBJECTIVES:
            raise InvalidValueError(None, "slos", name, f"is not one of {', '.join(OBJECTIVES)}")
        limits[name] = as_number(limit, "slos", name, minimum=0)
    return limits


def _statistics(values: FloatArray) -> tuple[float, ...]:
    if not len(values):
        return (float("nan"),) * len(STATISTICS)
    percentiles = np.percentile(values, [50, 90, 99])
    return float(values.mean()), *(float(value) for value in percentiles)
