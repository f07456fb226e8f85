"""The answer as JSON, every figure exactly as it is known, and several such records as a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from instances import FileFormatError
from instances.files import parse_json
from online.comparison.ratios import Interval
from online.runtime.table import Table, table_of

from .answer import BestPossible, Headroom, PolicyRun
from .cells import NOTHING, per_cent, seconds
from .fleet_tables import fleet_record
from .on_time_tables import on_time_record
from .tables import sentence


def headroom_record(found: Headroom) -> dict[str, Any]:
    """Write what was found, in seconds and shares; an interval is a pair, None an unknown end."""
    savings = [
        {
            "today": one.today,
            "mean_latency": float(one.mean_latency),
            "could_be_saved": list(one.seconds.ends),
            "could_be_saved_share": list(one.share.ends),
        }
        for one in found.savings
    ]
    policies = [
        {
            "policy": run.policy,
            "error": run.error,
            "mean_latency": _mean(run),
            "reason": run.reason,
            "headroom_share": {}
            if run.mean_latency is None
            else {one.today: list(one.part(run.mean_latency).ends) for one in found.savings},
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
        "batch_time": repr(found.batch_time),
        "load": found.load,
        "best_possible": _best(found.best),
        "savings": savings,
        "policies": policies,
        "points": points,
        "refits": len(found.refits),
        "mean_latency_over_refits": {
            policy: list(spread.ends)
            for policy in dict.fromkeys((found.baseline, found.challenger))
            if (spread := found.over_refits(policy)) is not None
        },
        "unfinished": list(found.unfinished),
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
    }


def summary_table(paths: Sequence[str | os.PathLike[str]]) -> Table:
    """Show the records that `headroom_record` wrote of several logs, a row each.

    Raises
    ------
    OSError
        A file cannot be read.
    FileFormatError
        It holds no such record.
    """
    rows = []
    for path in paths:
        record = parse_json(Path(path).read_bytes(), path)
        try:
            rows.append({"log": Path(path).stem, **_row(record)})
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise FileFormatError(path, f"is no record of a headroom: {error!r}") from None
    return table_of("", rows, ["log"])


def _row(record: dict[str, Any]) -> dict[str, str]:
    # The simulated baseline comes last: it compares like with like.
    saving = record["savings"][-1]
    baseline, challenger = record["baseline"], record["challenger"]
    if saving["today"] != baseline:
        raise ValueError("the baseline did not end")
    exact, predicted = (
        next(
            (
                per_cent(_interval(one["headroom_share"].get(baseline)))
                for one in record["policies"]
                if (one["policy"], one["error"]) == (challenger, error)
            ),
            NOTHING,
        )
        for error in (0.0, record["error"])
    )
    load = record["load"]
    return {
        "requests": str(record["requests"]),
        "load": NOTHING if load is None else f"{load:.2f}",
        "today, s": seconds(Fraction(saving["mean_latency"])),
        "best possible, s": seconds(_interval(record["best_possible"]["mean_latency"])),
        "could be saved, %": per_cent(_interval(saving["could_be_saved_share"])),
        f"{challenger}: headroom, %": exact,
        "with predicted lengths, %": predicted,
    }


def _interval(ends: Sequence[float | None] | None) -> Interval | None:
    return None if ends is None else Interval(*(None if x is None else Fraction(x) for x in ends))
