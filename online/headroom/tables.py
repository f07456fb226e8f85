"""The answer for JSON, and as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from online.trials.intervals import Interval, rounded_up

from .answer import Headroom
from .tasks import Bounds, Serve, Served
from .words import answer_lines, conditions, seconds, share_on_time, span_of

if TYPE_CHECKING:
    from pandas import DataFrame


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
        "best_possible": None if found.best is None else _best(*found.best),
        "savings": savings,
        "measured_mean_latency": None if log is None else log.mean_latency,
        "simulated_over_measured": None if off is None else 1 + off,
        "shared_prompt_tokens": None if shared is None else int(shared.sum()),
        "max_concurrency": question.concurrency,
        "arrivals_made_up": question.made_up,
        "requests_left_out": found.left_out,
        "policies": [*_policies(found)],
        "service_level": _service_level(found),
        "unfinished": list(found.unfinished),
        "errors": [f"{name}: {reason}" for name, reason in errors],
        "interrupted": found.interrupted,
        "seconds": found.seconds,
    }


def _best(bounds: Bounds, schedule: str) -> Mapping[str, Any]:
    return {
        "mean_latency": bounds.interval,
        "bound": bounds.bound,
        "certified": bounds.certified,
        "schedule": schedule,
        "lower_bound_without_reuse": bounds.without_reuse,
    }


def _policies(found: Headroom) -> Iterator[dict[str, Any]]:
    """List the policies simulated on today's replicas; exact output lengths come first."""
    tasks = [one for one in found.results if isinstance(one, Serve)]
    for task in sorted(tasks, key=lambda one: one.error):
        it = found.results[task]
        row: dict[str, Any] = {"policy": task.policy, "error": task.error}
        row |= {"mean_latency": None, "reason": getattr(it, "reason", None)}
        if isinstance(it, Served):
            row |= {"mean_latency": it.mean_latency, "p50_p99": it.figures}
            row |= {"share_of_saving": found.share(it), "on_time": it.on_time}
        if task.replicas == found.question.replicas:
            yield row


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
    """Make every table that has rows, by title."""
    import pandas

    question, count = found.question, len(found.question.workload)
    limits = ", ".join(f"{name} <= {one:g} s" for name, one in question.limits.items())
    by_replicas = [
        {
            "replicas": str(replicas),
            question.baseline: _on_time(Interval(it.on_time, it.on_time), count),
            "attainable": _on_time(found.attainable(replicas), count),
            **{f"p99 {name}, s": seconds(it.figures[name][1]) for name in question.limits},
        }
        for replicas, it in (found.by_replicas.items() if question.level else ())
    ]
    made = {
        f"On time within {limits}, of {count:,} requests, by replicas": by_replicas,
        "Policies": [*_policy_rows(found)],
    }
    return {title: pandas.DataFrame(some) for title, some in made.items() if some}


def _policy_rows(found: Headroom) -> Iterator[dict[str, str]]:
    """Write every policy, the fastest first: latencies, share of the saving, predicted lengths."""
    here = {k: it for k, it in found.simulations.items() if k.replicas == found.question.replicas}
    predicted = {k.policy: seconds(it.mean_latency) for k, it in here.items() if k.error}
    for task, it in sorted(here.items(), key=lambda pair: pair[1].mean_latency):
        if task.error:
            continue
        row = {"policy": task.policy, "mean, s": seconds(it.mean_latency)}
        if found.divisible:
            row["saving, %"] = span_of(found.share(it), 100, 1)
        if predicted:
            row["predicted, s"] = predicted.get(task.policy, "")
        if it.on_time is not None:
            row["on time, %"] = share_on_time(it.on_time)
        yield row | {
            f"p99 {name}, s": seconds(p99) for name, (_, p99) in reversed(it.figures.items())
        }


def _on_time(shares: Interval, count: int) -> str:
    """Write how many of so many requests are on time, which is a whole number, and per cent."""
    low, high = math.ceil((shares.lower or 0) * count), math.floor((shares.upper or 0) * count)
    least = share_on_time(Fraction(low, count))
    if low == high:
        return f"{low:,} ({least} %)"
    return f"{low:,} to {high:,} ({least} to {rounded_up(Fraction(100 * high, count), 1)} %)"
