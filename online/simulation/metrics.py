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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from instances import InvalidValueError
from instances.arrays import FloatArray, IntArray
from instances.validation import as_number

from .run import Run

STATISTICS = ("mean", "median", "p90", "p99")
OBJECTIVES = ("ttft", "tpot", "e2el")


@dataclass(frozen=True, slots=True)
class Steps:
    """A quantity that is constant in each round and 0 while the machine is idle.

    Attributes
    ----------
    starts, ends : float64 array
        Clock at the beginning and the end of each round, float64, shape (k,).
    values : int64 array, shape (k,)
    """

    starts: FloatArray
    ends: FloatArray
    values: IntArray

    def mean(self, begin: float, end: float) -> float:
        """Return the mean over ``begin`` .. ``end``, a time that must contain every round."""
        return float((self.values * (self.ends - self.starts)).sum() / (end - begin))


def memory_over_time(run: Run) -> Steps:
    """Return the KV tokens held in each round."""
    return Steps(*run.round_times(), run.memory_of_rounds)


def batch_size_over_time(run: Run) -> Steps:
    """Return requests that advance in each round, without held ones and prompts in progress."""
    return Steps(*run.round_times(), np.repeat(run.stretches.batch_size, run.stretches.rounds))


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
    columns = run.per_request()
    done = columns["completed"]
    arrived = run.arrival_times[~np.isnan(run.arrival_times)]
    begin = float(arrived.min()) if len(arrived) else 0.0
    end = float(np.nanmax(columns["completion_time"])) if done.any() else begin
    latencies = {name: columns[name][done] for name in ("ttft", "tpot", "e2el")}
    latencies["itl"] = run.inter_token_latencies[1]
    memory, batch = memory_over_time(run), batch_size_over_time(run)
    last = max(end, float(memory.ends[-1]) if len(memory.ends) else begin)
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
    for name in ("ttft", "tpot", "itl", "e2el"):
        values = latencies[name][~np.isnan(latencies[name])]
        for statistic, value in zip(STATISTICS, _statistics(values), strict=True):
            record[f"{statistic}_{name}"] = value
    record["request_throughput"] = _per_time(int(done.sum()), duration)
    record["output_throughput"] = _per_time(int(run.output_lengths[done].sum()), duration)
    if slos is not None:
        good = done.copy()
        for name, limit in limits.items():
            good &= ~(columns[name] > limit)
        record["request_goodput"] = _per_time(int(good.sum()), duration)
    record |= {
        "evictions": run.evictions,
        "restarts": int(columns["restarts"].sum()),
        "decisions": run.decisions,
        "rounds": int(run.stretches.rounds.sum()),
    }
    for name, steps in (("memory", memory), ("batch_size", batch)):
        record[f"mean_{name}"] = steps.mean(begin, last) if last > begin else 0.0
        record[f"peak_{name}"] = int(steps.values.max(initial=0))
    return record


def runs_frame(runs: Iterable[Run], slos: Mapping[str, float] | None = None) -> Any:
    """Return `summarize` of several runs as a pandas DataFrame, one line per run."""
    import pandas

    return pandas.DataFrame([summarize(run, slos) for run in runs])


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


def _per_time(count: int, duration: float) -> float:
    return count / duration if duration > 0 else float("nan")
