"""The answer for JSON, and as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .answer import Headroom
from .measured import Served
from .question import Place
from .tasks import Enclose, Serve
from .words import answer_lines, conditions, percent, seconds, span_of

if TYPE_CHECKING:
    from pandas import DataFrame

Rows = list[dict[str, Any]]


def record(found: Headroom) -> dict[str, Any]:
    """Write the answer for JSON, in seconds and shares; intervals and fractions as they are."""
    question, saving, today = found.question, found.saving(), found.today
    log, off, shared = question.measured, found.difference, question.shared_tokens
    savings = []
    if saving is not None and today is not None:
        share = saving.times(1 / today.mean_latency)
        known = {"today": question.baseline, "mean_latency": today.mean_latency}
        savings = [{**known, "could_be_saved": saving, "could_be_saved_share": share}]
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
        "replicas": question.workload.replicas,
        "batch_time": repr(question.workload.batch_time),
        "load": question.load,
        "best_possible": _best(found, question.here),
        "savings": savings,
        "measured_mean_latency": None if log is None else log.mean_latency,
        "simulated_over_measured": None if off is None else 1 + off,
        "shared_prompt_tokens": None if shared is None else int(shared.sum()),
        "max_concurrency": question.concurrency,
        "arrivals_made_up": question.made_up,
        "requests_left_out": found.left_out,
        "policies": _policies(found),
        "routers": _routers(found),
        "places": [*_places(found)],
        "service_level": _service_level(found),
        "unfinished": list(found.unfinished),
        "errors": [f"{one.name}: {it.reason}" for one, it in found.failures.items() if it.is_error],
        "interrupted": found.interrupted,
        "seconds": found.seconds,
    }


def _policies(found: Headroom) -> Rows:
    """List the policies simulated with today's router, exact output lengths first."""
    rows, here = [], found.question.here
    known = [(one, it) for one, it in found.results.items() if isinstance(one, Serve)]
    for task, it in sorted(known, key=lambda pair: pair[0].error):
        if task.place != here or task.router is not None:
            continue
        row: dict[str, Any] = {"policy": task.policy, "error": task.error}
        row |= {"mean_latency": None, "reason": getattr(it, "reason", None)}
        if isinstance(it, Served):
            row |= {"mean_latency": it.mean_latency, "p50_p99": it.figures}
            row |= {"share_of_saving": found.share(it), "on_time": it.on_time}
        rows.append(row)
    return rows


def _routers(found: Headroom) -> Rows:
    name, ways = found.question.baseline, [*found.question.ways]
    runs = {one: found.served(name, router=one if k else None) for k, one in enumerate(ways)}
    return [{"router": one, "mean_latency": it.mean_latency} for one, it in runs.items() if it]


def _places(found: Headroom) -> Iterator[dict[str, Any]]:
    """List how the answer changes with memory, load and replicas."""
    bounded = {one.place for one in found.results if one == Enclose(one.place)}
    for place in sorted(bounded, key=lambda one: (one.replicas, one.memory_limit, one.faster)):
        means = {
            one.policy: it.mean_latency
            for one, it in found.completed.items()
            if one.place == place and one.router is None and not one.error
        }
        yield {
            "memory_limit": place.memory_limit,
            "faster": place.faster,
            "replicas": place.replicas,
            "best_possible": _best(found, place),
            "policies": means,
        }


def _best(found: Headroom, place: Place) -> Mapping[str, Any] | None:
    best = found.best(place)
    if best is None:
        return None
    bounds, schedule = best
    return {
        "mean_latency": bounds.interval,
        "bound": bounds.bound,
        "certified": bounds.certified,
        "schedule": schedule,
        "lower_bound_without_reuse": bounds.without_reuse,
    }


def _service_level(found: Headroom) -> Mapping[str, Any] | None:
    """Write the share of requests on time by number of replicas."""
    question = found.question
    if question.level is None:
        return None
    rows = [
        {
            "replicas": place.replicas,
            "today": getattr(found.served(question.baseline, place=place), "on_time", None),
            "attainable": found.attainable(place),
        }
        for place in found.tried()
    ]
    measured = question.measured_on_time
    return {"limits": asdict(question.level), "measured": measured, "by_replicas": rows}


def tables(found: Headroom) -> dict[str, DataFrame]:
    """Make every table that has rows, by title: the rows of `record` as text."""
    import pandas

    question, rows = found.question, record(found)
    today, level, places = question.baseline, rows["service_level"], rows["places"]
    made: dict[str, Rows] = {
        f"On time within {question.limits}, by replicas": [
            {
                "replicas": str(one["replicas"]),
                f"{today}, %": _percent(one["today"]),
                "attainable, %": span_of(one["attainable"], 100, 1),
            }
            for one in (level["by_replicas"] if level else ())
        ],
        "Policies": [*_policy_rows(found, rows["policies"])],
        f"Routers, with {today}": [
            {"router": one["router"], "mean latency, s": seconds(one["mean_latency"])}
            for one in rows["routers"]
        ],
        "Other memories, loads and replicas": [
            {
                "M, tokens": str(one["memory_limit"]),
                "arrivals x": f"{one['faster']:g}",
                "replicas": str(one["replicas"]),
                "best possible, s": span_of(one["best_possible"]["mean_latency"])
                if one["best_possible"]
                else "",
                **{
                    f"{name}, s": seconds(one["policies"][name]) if name in one["policies"] else ""
                    for name in (today, *question.proposed[:1])
                },
            }
            for one in (places if len(places) > 1 else ())
        ],
        "Without a result": [
            {"what": one.name, "why not": it.reason} for one, it in found.failures.items()
        ],
    }
    return {title: pandas.DataFrame(some) for title, some in made.items() if some}


def _policy_rows(found: Headroom, policies: Rows) -> Iterator[dict[str, str]]:
    """Write every policy, the fastest first: latencies, share of the saving, predicted lengths."""
    known = [one for one in policies if one["mean_latency"] is not None]
    other = {one["policy"]: seconds(one["mean_latency"]) for one in known if one["error"]}
    exact = [one for one in known if not one["error"]]
    for one in sorted(exact, key=lambda row: row["mean_latency"]):
        row = {"policy": one["policy"], "mean, s": seconds(one["mean_latency"])}
        if found.divisible:
            row["saving, %"] = span_of(one["share_of_saving"], 100, 1)
        if other:
            row["predicted, s"] = other.get(one["policy"], "")
        if found.question.level is not None:
            row["on time, %"] = _percent(one["on_time"])
        for name, (_, p99) in reversed(one["p50_p99"].items()):
            row[f"p99 {name}, s"] = seconds(p99)
        yield row


def _percent(share: Any) -> str:
    return "" if share is None else percent(share)
