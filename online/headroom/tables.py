"""The answer as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .answer import Headroom
from .measured import Served
from .question import Place
from .tasks import Enclose, Serve
from .words import answer_lines, conditions, percent, seconds, span_of

if TYPE_CHECKING:
    from pandas import DataFrame


def tables(found: Headroom) -> dict[str, DataFrame]:
    """Make every table that has rows, by title."""
    import pandas

    made = {
        f"On time within {found.question.limits}, by replicas": _replicas(found),
        "Policies": _policies(found),
        f"Routers, with {found.question.baseline}": _routers(found),
        "Other memories, loads and replicas": _places(found),
        "Without a result": [
            {"what": one.name, "why not": it.reason} for one, it in found.failures.items()
        ],
    }
    return {title: pandas.DataFrame(rows) for title, rows in made.items() if rows}


def _replicas(found: Headroom) -> list[dict[str, str]]:
    if found.question.level is None:
        return []
    name, rows = found.question.baseline, []
    for place in found.tried():
        router = found.question.router_at(place)
        row = {"replicas": str(place.replicas), "router": router.label if router else "none"}
        row[f"{name}, %"] = _on_time(found.served(name, place=place))
        rows.append({**row, "attainable, %": span_of(found.attainable(place), 100, 1)})
    return rows


def _on_time(served: Served | None) -> str:
    return "" if served is None or served.on_time is None else percent(served.on_time)


def _policies(found: Headroom) -> list[dict[str, str]]:
    """Show every policy, the fastest first: latencies, share of the saving, predicted lengths."""
    exact = {one.policy: it for one, it in found.here.items() if not one.error}
    other = {one.policy: it for one, it in found.here.items() if one.error}
    rows = []
    for name, it in sorted(exact.items(), key=lambda pair: pair[1].mean_latency):
        row = {"policy": name, "mean, s": seconds(it.mean_latency)}
        if found.divisible:
            row["saving, %"] = span_of(found.share(it), 100, 1)
        if other:
            row["predicted, s"] = seconds(other[name].mean_latency) if name in other else ""
        if found.question.level is not None:
            row["on time, %"] = _on_time(it)
        for figure, (_, p99) in reversed(it.figures.items()):
            row[f"p99 {figure}, s"] = f"{p99:.3f}"
        rows.append(row)
    return rows


def _routers(found: Headroom) -> list[dict[str, str]]:
    rows = []
    for place, name in enumerate(found.question.ways):
        served = found.served(found.question.baseline, router=name if place else None)
        losses = found.losses(name)
        if served is not None:
            lost = ["", ""] if losses is None else [span_of(one) for one in losses]
            row = {"router": name, "mean latency, s": seconds(served.mean_latency)}
            rows.append({**row, "router loses, s": lost[0], "schedulers lose, s": lost[1]})
    return rows


def _place_list(found: Headroom) -> list[Place]:
    wanted = {one.place for one in found.results if isinstance(one, Enclose)}
    return sorted(wanted, key=lambda one: (one.replicas, one.memory_limit, one.faster))


def _places(found: Headroom) -> list[dict[str, str]]:
    """Show how the answer changes with memory, load and replicas."""
    question, rows = found.question, []
    for place in _place_list(found):
        best, saving = found.best(place), found.saving(place)
        row = {"M, tokens": str(place.memory_limit), "arrivals x": f"{place.faster:g}"}
        if question.ways:
            row["replicas"] = str(place.replicas)
        row["best possible, s"] = "" if best is None else span_of(best[0].interval)
        for name in (question.baseline, *question.proposed[:1]):
            served = found.served(name, place=place)
            row[f"{name}, s"] = "" if served is None else seconds(served.mean_latency)
        row["could be saved, s"] = "" if saving is None else span_of(saving)
        rows.append(row)
    return rows if len(rows) > 1 else []


def record(found: Headroom) -> dict[str, Any]:
    """Write the answer for JSON, in seconds and shares; intervals and fractions as they are."""
    question, saving, today = found.question, found.saving(), found.today
    log, off, shared = question.measured, found.difference, question.shared_tokens
    savings = {}
    if saving is not None and today is not None:
        savings = {
            "today": question.baseline,
            "mean_latency": today.mean_latency,
            "could_be_saved": saving,
            "could_be_saved_share": saving.times(1 / today.mean_latency),
        }
    lost = {name: found.losses(name) for name in question.ways}
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
        "savings": [savings] if savings else [],
        "measured_mean_latency": None if log is None else log.mean_latency,
        "simulated_over_measured": None if off is None else 1 + off,
        "shared_prompt_tokens": None if shared is None else int(shared.sum()),
        "max_concurrency": question.concurrency,
        "arrivals_made_up": question.made_up,
        "requests_left_out": found.left_out,
        "policies": _simulated(found),
        "routers": [
            {"router": name, "lost_by_router": pair[0], "lost_by_schedulers": pair[1]}
            for name, pair in lost.items()
            if pair is not None
        ],
        "places": [
            {
                "memory_limit": place.memory_limit,
                "faster": place.faster,
                "replicas": place.replicas,
                "best_possible": _best(found, place),
                "policies": {
                    one.policy: it.mean_latency
                    for one, it in found.completed.items()
                    if one.place == place and one.router is None and not one.error
                },
            }
            for place in _place_list(found)
        ],
        "service_level": _service_level(found),
        "unfinished": list(found.unfinished),
        "errors": [f"{one.name}: {it.reason}" for one, it in found.failures.items() if it.is_error],
        "interrupted": found.interrupted,
        "seconds": found.seconds,
    }


def _simulated(found: Headroom) -> list[dict[str, Any]]:
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
