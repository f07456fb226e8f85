"""The answer for JSON, and as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from online.trials.intervals import Interval, rounded_up

from .answer import Headroom
from .tasks import Serve, Served
from .words import answer_lines, conditions, seconds, share_on_time, span_of

if TYPE_CHECKING:
    from pandas import DataFrame

Rows = list[dict[str, Any]]


def record(found: Headroom) -> dict[str, Any]:
    """Write the answer for JSON, in seconds and shares; intervals and fractions as they are."""
    question, saving, today = found.question, found.saving, found.today
    log, off, shared = question.measured, found.difference, question.shared_tokens
    savings = []
    if saving is not None and today is not None:
        share = saving.times(1 / today.mean_latency)
        known = {"today": question.baseline, "mean_latency": today.mean_latency}
        savings = [{**known, "could_be_saved": saving, "could_be_saved_share": share}]
    errors = [(one.name, it.reason) for one, it in found.failures.items() if it.is_error]
    return {
        "answer": answer_lines(found),
        "holds_for": conditions(found),
        "log": question.workload.name,
        "facts": dict(question.facts),
        "baseline": question.baseline,
        "proposals": question.proposed,
        "error": question.error,
        "requests": len(question.workload),
        "memory_limit": question.workload.memory_limit,
        "replicas": question.replicas,
        "batch_time": repr(question.workload.batch_time),
        "load": question.load,
        "best_possible": _best(found),
        "savings": savings,
        "measured_mean_latency": None if log is None else log.mean_latency,
        "simulated_over_measured": None if off is None else 1 + off,
        "shared_prompt_tokens": None if shared is None else int(shared.sum()),
        "max_concurrency": question.concurrency,
        "arrivals_made_up": question.made_up,
        "requests_left_out": found.left_out,
        "policies": [*_policies(found)],
        "routers": _routers(found),
        "service_level": _service_level(found),
        "unfinished": list(found.unfinished),
        "errors": [f"{name}: {reason}" for name, reason in errors],
        "interrupted": found.interrupted,
        "seconds": found.seconds,
    }


def _best(found: Headroom) -> Mapping[str, Any] | None:
    if found.best is None:
        return None
    bounds, schedule = found.best
    return {
        "mean_latency": bounds.interval,
        "bound": bounds.bound,
        "certified": bounds.certified,
        "schedule": schedule,
        "lower_bound_without_reuse": bounds.without_reuse,
    }


def _policies(found: Headroom) -> Iterator[dict[str, Any]]:
    """List the policies simulated with today's router, exact output lengths first."""
    tasks = [one for one in found.results if isinstance(one, Serve) and one.router is None]
    for task in sorted(tasks, key=lambda one: one.error):
        if task.replicas != found.question.replicas:
            continue
        it = found.results[task]
        row: dict[str, Any] = {"policy": task.policy, "error": task.error}
        row |= {"mean_latency": None, "reason": getattr(it, "reason", None)}
        if isinstance(it, Served):
            row |= {"mean_latency": it.mean_latency, "p50_p99": it.figures}
            row |= {"share_of_saving": found.share(it), "on_time": it.on_time}
        yield row


def _routers(found: Headroom) -> Rows:
    name, labels = found.question.baseline, [*found.question.router_specs]
    runs = {one: found.served(name, router=one if k else None) for k, one in enumerate(labels)}
    return [{"router": one, "mean_latency": it.mean_latency} for one, it in runs.items() if it]


def _service_level(found: Headroom) -> Mapping[str, Any] | None:
    """Write the share of requests on time by number of replicas."""
    question = found.question
    if question.level is None:
        return None
    rows = [
        {
            "replicas": count,
            "today": it.on_time,
            "attainable": found.attainable(count),
            "p50_p99": it.figures,
        }
        for count, it in found.by_replicas.items()
    ]
    measured = question.measured_on_time
    return {"limits": asdict(question.level), "measured": measured, "by_replicas": rows}


def tables(found: Headroom) -> dict[str, DataFrame]:
    """Make every table that has rows, by title: the rows of `record` as text."""
    import pandas

    question, count = found.question, len(found.question.workload)
    limits = ", ".join(f"{name} <= {one:g} s" for name, one in question.limits.items())
    level = _service_level(found) or {"by_replicas": []}
    made: dict[str, Rows] = {
        f"On time within {limits}, of {count:,} requests, by replicas": [
            {
                "replicas": str(one["replicas"]),
                question.baseline: _on_time(Interval(one["today"], one["today"]), count),
                "attainable": _on_time(one["attainable"], count),
                **{f"p99 {name}, s": seconds(one["p50_p99"][name][1]) for name in question.limits},
            }
            for one in level["by_replicas"]
        ],
        "Policies": [*_policy_rows(found)],
        f"Routers, with {question.baseline}": [
            {"router": one["router"], "mean latency, s": seconds(one["mean_latency"])}
            for one in _routers(found)
        ],
    }
    return {title: pandas.DataFrame(some) for title, some in made.items() if some}


def _policy_rows(found: Headroom) -> Iterator[dict[str, str]]:
    """Write every policy, the fastest first: latencies, share of the saving, predicted lengths."""
    known = [one for one in _policies(found) if one["mean_latency"] is not None]
    other = {one["policy"]: seconds(one["mean_latency"]) for one in known if one["error"]}
    exact = [one for one in known if not one["error"]]
    for one in sorted(exact, key=lambda row: row["mean_latency"]):
        row = {"policy": one["policy"], "mean, s": seconds(one["mean_latency"])}
        if found.divisible:
            row["saving, %"] = span_of(one["share_of_saving"], 100, 1)
        if other:
            row["predicted, s"] = other.get(one["policy"], "")
        if found.question.level is not None:
            row["on time, %"] = share_on_time(one["on_time"])
        for name, (_, p99) in reversed(one["p50_p99"].items()):
            row[f"p99 {name}, s"] = seconds(p99)
        yield row


def _on_time(shares: Interval, count: int) -> str:
    """Write how many of so many requests are on time, which is a whole number, and per cent."""
    low, high = math.ceil((shares.lower or 0) * count), math.floor((shares.upper or 0) * count)
    least = share_on_time(Fraction(low, count))
    if low == high:
        return f"{low:,} ({least} %)"
    return f"{low:,} to {high:,} ({least} to {rounded_up(Fraction(100 * high, count), 1)} %)"
