"""Convert a headroom report to a document for JSON, to tables, and to a self-contained page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from online.pictures.page import bars, page

from . import words
from .answer import Headroom

if TYPE_CHECKING:
    from pandas import DataFrame

MACHINE = ("a round lasts", "memory limit M", "load")
"""Names of the facts about the machine at the top of the page of a headroom report."""


def record(found: Headroom) -> dict[str, Any]:
    """Return a headroom report as a dictionary for JSON: times in seconds, shares in 0 to 1.

    Intervals and fractions are kept as objects, which the writer of JSON converts.
    """
    question, today, best = found.question, found.today, found.best
    off, errors, here = found.difference, found.failures.items(), found.here.items()
    saving = None
    if best is not None and today is not None and not found.contradicts:
        saving = best[0].interval.below(today.mean_latency)
    return {
        "answer": words.answer_lines(found, whole=True),
        "holds_for": words.conditions(found),
        "facts": words.facts(found),
        "requests": len(question.workload),
        "requests_left_out": found.left_out,
        "memory_limit": question.workload.memory_limit,
        "batch_time": repr(question.workload.batch_time),
        "load": question.load,
        "best_possible": None if best is None else {**vars(best[0]), "schedule": best[1]},
        "today": None if today is None else {"policy": question.baseline, **vars(today)},
        "saving": saving,
        "measured_mean_latency": question.measured_mean,
        "simulated_over_measured": None if off is None else 1 + off,
        "max_concurrency": question.concurrency,
        "arrivals_made_up": question.made_up,
        "policies": [{"policy": k.policy, "error": k.error, **vars(it)} for k, it in here],
        "service_level": _service_level(found) if question.level else None,
        "unfinished": list(found.unfinished),
        "errors": [f"{one.name}: {it.reason}" for one, it in errors if it.is_error],
        "refused": [f"{one.name}: {it.reason}" for one, it in errors if not it.is_error],
        "interrupted": found.interrupted,
        "seconds": found.seconds,
    }


def _service_level(found: Headroom) -> Mapping[str, Any]:
    """Return the limits of the service level and, by number of replicas, the shares on time."""
    question = found.question
    runs = found.by_replicas.items()
    rows = [{"replicas": k, **vars(it), "attainable": found.attainable(k)} for k, it in runs]
    wanted, measured = question.wanted, question.measured_on_time
    limits = asdict(question.level) if question.level else {}
    return {"limits": limits, "wanted": wanted, "measured": measured, "by_replicas": rows}


def tables(found: Headroom) -> dict[str, DataFrame]:
    """Return the tables of a report by title: requests on time by replicas, and policies.

    A table without rows is left out.
    """
    import pandas

    question, count = found.question, len(found.question.workload)
    limits = ", ".join(f"{name} <= {one:g} s" for name, one in question.limits.items())
    by_replicas = [
        {
            "replicas": str(replicas),
            f"{words.short(question, question.baseline)}, %": words.floored(it.on_time or 0),
            "attainable, %": found.attainable(replicas).times(100).text(1),
            **{f"p99 {name}, s": words.seconds(it.figures[name][1]) for name in question.limits},
        }
        for replicas, it in (found.by_replicas.items() if question.level else ())
    ]
    made = {
        f"On time within {limits}, of {count:,} requests, by replicas": by_replicas,
        "Policies": [*_policy_rows(found)],
    }
    return {title: pandas.DataFrame(some) for title, some in made.items() if some}


def _policy_rows(found: Headroom) -> Iterator[dict[str, str]]:
    """Yield a row of the table of policies for each policy, the least mean latency first.

    A row has the mean latency, the saving, the mean latency with predicted output lengths, the
    share on time, and p99 of each latency.
    """
    here = {(k.policy, k.error): it for k, it in found.here.items()}
    exact = [(policy, it) for (policy, error), it in here.items() if not error]
    for policy, it in sorted(exact, key=lambda pair: pair[1].mean_latency):
        row = {"policy": words.short(found.question, policy)}
        row["mean, s"] = words.seconds(it.mean_latency)
        if found.today is not None:
            row["saving, %"] = words.percent(1 - it.mean_latency / found.today.mean_latency)
        if len(exact) < len(here):
            predicted = here.get((policy, found.question.error))
            row["predicted, s"] = words.seconds(predicted.mean_latency) if predicted else ""
        if it.on_time is not None:
            row["on time, %"] = words.floored(it.on_time)
        yield row | {
            f"p99 {name}, s": words.seconds(p99) for name, (_, p99) in reversed(it.figures.items())
        }


def headroom_page(found: Headroom, title: str) -> str:
    """Return an HTML page: main results, a picture and the machine, then tables and remarks.

    Parameters
    ----------
    found : Headroom
        The headroom report: the results of `measure_headroom`.
    title : str
        Title of the page, and its heading.
    """
    said = [f"{name}: {text}" for name, text in words.answers(found)]
    known = [f"{name}: {text}" for name, text in words.facts(found).items()]
    machine = [one for one in known if one.startswith(MACHINE)]
    sections: dict[str, Any] = {name: [table] for name, table in tables(found).items()}
    content: list[Any] = [[*said, f"Holds for: {words.conditions(found)}"], _picture(found)]
    if found.question.level and sections:
        heading = next(iter(sections))
        content += [heading, *sections.pop(heading)]
    content.append(machine)
    sections |= {"The requests and the machine": [known], "Remarks": [[*words.remarks(found)]]}
    return page(title, title, content, sections)


def _picture(found: Headroom) -> Any:
    """Draw the requests on time by replicas if there is a service level, else mean latencies."""
    question = found.question
    today = words.short(question, question.baseline)
    rows: list[tuple[str, float, float]] = []
    for count, it in found.by_replicas.items() if question.level else ():
        share, ends = 100 * float(it.on_time or 0), found.attainable(count).times(100).ends
        rows.append((f"replicas {count}: {today}, simulated", share, share))
        rows.append((f"replicas {count}: attainable, proved", ends[0] or 0.0, ends[1] or 0.0))
    if rows:
        return bars(rows, "requests on time, %")
    for one, it in found.here.items():
        if one.policy in (question.baseline, *question.proposed):
            mean, name = float(it.mean_latency), words.short(question, one.policy)
            rows.append((f"{one.name.replace(one.policy, name)}, simulated", mean, mean))
    if found.best is not None:
        low, high = found.best[0].interval.ends
        rows.append(("best possible, proved", low or 0.0, high or 0.0))
    return bars(rows, "mean latency, s")
