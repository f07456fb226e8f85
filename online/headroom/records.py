"""The answer as JSON: every figure exactly as it is known."""

from __future__ import annotations

from typing import Any

from online.comparison.ratios import Interval

from .answer import Headroom
from .runs import BestPossible, PolicyRun
from .tables import sentence


def headroom_record(found: Headroom) -> dict[str, Any]:
    """What was found, in seconds and shares; an interval is a pair, None an end not known."""
    savings = [
        {
            "today": one.today,
            "mean_latency": float(one.mean_latency),
            "could_be_saved": _ends(one.seconds),
            "could_be_saved_share": _ends(one.share),
        }
        for one in found.savings
    ]
    return {
        "answer": sentence(found),
        "log": found.workload.name,
        "baseline": found.baseline,
        "challenger": found.challenger,
        "error": found.error,
        "requests": len(found.workload),
        "memory_limit": found.workload.memory_limit,
        "batch_time": repr(found.batch_time),
        "load": found.load,
        "best_possible": _best(found.best),
        "savings": savings,
        "policies": [_run(found, run) for run in found.runs],
        "points": [
            {
                "memory_limit": one.memory_limit,
                "faster": one.faster,
                "load": one.load,
                "best_possible": _best(one.best),
                "policies": [
                    {
                        "policy": run.policy,
                        "mean_latency": None
                        if run.mean_latency is None
                        else float(run.mean_latency),
                    }
                    for run in one.runs
                ],
            }
            for one in found.points
        ],
        "unfinished": list(found.unfinished),
        "interrupted": found.interrupted,
        "seconds": found.seconds,
    }


def _best(best: BestPossible | None) -> dict[str, Any] | None:
    if best is None:
        return None
    return {
        "mean_latency": _ends(best.mean_latency),
        "bound": best.bound,
        "certified": best.certified,
        "schedule": best.schedule,
    }


def _run(found: Headroom, run: PolicyRun) -> dict[str, Any]:
    mean = run.mean_latency
    return {
        "policy": run.policy,
        "error": run.error,
        "mean_latency": None if mean is None else float(mean),
        "reason": run.reason,
        "headroom_share": {}
        if mean is None
        else {one.today: _ends(one.part(mean)) for one in found.savings},
    }


def _ends(interval: Interval) -> list[float | None]:
    return list(interval.ends)
