"""The answer as JSON, every figure exactly as it is known."""

from __future__ import annotations

from typing import Any

from online.trials.intervals import Interval

from .answer import BestPossible, Headroom, PolicyRun
from .fleet_tables import fleet_record
from .on_time_tables import on_time_record
from .tables import sentence


def headroom_record(found: Headroom) -> dict[str, Any]:
    """Write what was found, in seconds and shares; an interval is a pair, None an unknown end."""
    saving, shared = found.saving, found.shared_tokens
    savings = [
        {
            "today": found.baseline,
            "mean_latency": float(one.mean_latency),
            "could_be_saved": list(one.seconds.ends),
            "could_be_saved_share": list(one.share.ends),
        }
        for one in [saving]
        if one is not None
    ]
    policies = [
        {
            "policy": run.policy,
            "error": run.error,
            "mean_latency": _mean(run),
            "reason": run.reason,
            "headroom_share": {}
            if run.mean_latency is None or saving is None
            else {found.baseline: list(saving.part(run.mean_latency).ends)},
        }
        for run in found.runs
    ]
    points = [
        {
            "memory_limit": one.memory_limit,
            **({"replicas": one.replicas} if found.routers else {}),
            "faster": one.faster,
            "load": one.load,
            "best_possible": _best(one.best),
            "policies": [{"policy": run.policy, "mean_latency": _mean(run)} for run in one.runs],
        }
        for one in found.points
    ]
    return {
        "answer": sentence(found),
        "log": found.workload.name,
        "baseline": found.baseline,
        "challenger": found.challenger,
        "error": found.error,
        "requests": len(found.workload),
        "memory_limit": found.workload.memory_limit,
        "batch_time": repr(found.workload.batch_time),
        "load": found.load,
        "best_possible": _best(found.best),
        "savings": savings,
        "measured_mean_latency": None
        if found.measured is None
        else float(found.measured.mean_latency),
        "simulated_over_measured": None
        if found.difference is None
        else float(1 + found.difference),
        "shared_prompt_tokens": None if shared is None else int(shared.sum()),
        "max_concurrency": found.concurrency,
        "arrivals_made_up": found.made_up,
        "requests_left_out": found.left_out,
        "policies": policies,
        "points": points,
        "unfinished": list(found.unfinished),
        "errors": list(found.errors),
        "interrupted": found.interrupted,
        "seconds": found.seconds,
        **fleet_record(found),
        **on_time_record(found),
    }


def _mean(run: PolicyRun) -> float | None:
    return None if run.mean_latency is None else float(run.mean_latency)


def _best(best: BestPossible | None) -> dict[str, Any] | None:
    if best is None:
        return None
    return {
        "mean_latency": list(best.mean_latency.ends),
        "bound": best.bound,
        "certified": best.certified,
        "schedule": best.schedule,
        "lower_bound_without_reuse": Interval(best.without_reuse, None).ends[0],
    }
