"""Requests on time in words, in tables cell by cell, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from instances import ServiceLevel
from instances.service_level import BoolArray
from online.tables import Table, table_of
from online.trials.intervals import NOTHING as NOTHING_KNOWN
from online.trials.intervals import rounded_down, rounded_up

from .answer import Headroom
from .cells import DECIMALS, NOTHING, per_cent, seconds
from .on_time import MEASURED, OnTimePoint, share

LEVELS = "Requests on time with shorter or longer limits"
LOADS = "Requests on time with arrivals slower or faster"
FEWEST = "Requests on time with another number of replicas"
CURVES = {"levels": LEVELS, "loads": LOADS, "fewest": FEWEST}
"""Titles by the name of the section."""

ATTAINABLE = (
    "On time: a request that keeps every limit. Attainable: the largest share of requests on time "
    "of every scheduler of these requests in seconds, clairvoyant or not, that may pause, chunk, "
    "preempt and continue with the tokens kept, idle, or drop late requests (serving them after "
    "all others changes nothing); an interval, rounded outwards. It holds for the batch time "
    "stated, not for the machine."
)
CARRIED = (
    "On time at other limits and loads: who is on time stays on time if limits are longer, or if "
    "arrivals are c times as slow and limits c times as long; every interval uses both. At the "
    "same limits, no load proves anything of another. Pictures join the intervals by straight "
    "lines, which prove nothing between the points."
)


def too_slow(found: Headroom) -> str:
    """Return why a log may be faster than the limit."""
    causes = ["the batch time is too slow for the machine of the log", "the memory limit too small"]
    # Where the log shows which prompts are alike, the limit allows for reuse.
    causes += ["prompts were reused"] if found.shared_tokens is None else []
    return f"{', '.join(causes[:-1])}, or {causes[-1]}"


def within(level: ServiceLevel) -> str:
    """Write the limits of a level."""
    limits = asdict(level).items()
    return ", ".join(f"{name.replace('_', ' ')} <= {one:g} s" for name, one in limits if one)


def anybody(found: Headroom) -> str:
    """Name whom a limit holds for."""
    return "scheduler behind any router" if found.routers else "scheduler"


def on_time_curves(found: Headroom) -> dict[str, list[OnTimePoint]]:
    """Return the points at other levels, at other loads, and on other numbers of replicas."""
    here = [one for one in found.on_time if one.replicas == found.replicas]
    curves = {
        "levels": [one for one in here if one.faster == 1],
        "loads": [one for one in here if one.scale == 1],
        "fewest": [one for one in found.on_time if one.scale == one.faster == 1],
    }
    return {name: points for name, points in curves.items() if name == "levels" or len(points) > 1}


def compared(found: Headroom, point: OnTimePoint) -> dict[str, BoolArray]:
    """Tell who is on time at a point under the policies compared, and in the log."""
    names = dict.fromkeys((found.baseline, found.challenger, MEASURED))
    return {name: point.kept[name, 0.0] for name in names if (name, 0.0) in point.kept}


def on_time_sentences(found: Headroom) -> list[str]:
    """Tell how many are on time today, how many can be, and how many are under the best policy."""
    own = found.on_time_here
    if own is None:
        return []
    asked = f"On time within {within(own.level)}, of {len(found.workload)} requests"
    best, proved = _share(own.best[1]), own.attainable.is_exact
    most = best if proved else f"{rounded_up(100 * (own.attainable.upper or 0), 1)} %"
    limit = f"no {anybody(found)} can have more than {most}"
    today, logged = own.kept.get((found.baseline, 0.0)), own.kept.get((MEASURED, 0.0))
    if own.contradicts and logged is not None:
        has = [f"the log has {_share(logged)}, but with this batch time {limit}"]
        return [f"{asked}: {has[0]}: {too_slow(found)}."]
    has = [] if today is None else [f"{found.baseline} (simulated) has {_share(today)}"]
    known = "which a known schedule has" if proved else f"and a schedule that has {best} is known"
    said = [f"{asked}: {', '.join([*has, limit, known])}."]
    said += [] if logged is None else [f"The log has {_share(logged)} on time."]
    for error in dict.fromkeys((0.0, found.error)):
        runs = [run.policy for run in found.runs if run.policy != found.baseline]
        told = [(own.kept[name, error], name) for name in runs if (name, error) in own.kept]
        for kept, name in sorted(told, key=lambda one: -int(one[0].sum()))[:1]:
            part = own.part(kept)
            of = f", which is {per_cent(part)} % of the attainable" if part else ""
            lengths = "predicted" if error else "exact"
            said.append(f"With {lengths} output lengths, {name} has {_share(kept)}{of}.")
    return said + _tails(found)


def _tails(found: Headroom) -> list[str]:
    """Tell what p99 latency is possible, and that of the baseline."""
    today = found.run(found.baseline)
    if found.p99 is None:
        return []
    least, known = rounded_down(found.p99.lower or 0, DECIMALS), seconds(found.p99.upper)
    said = (
        f"p99 latency: no {anybody(found)} is below {least} s, a schedule with {known} s is known"
    )
    has = "" if today is None else f", {found.baseline} (simulated) has {seconds(today.p99)} s"
    return [f"{said}{has}."]


def on_time_fields(found: Headroom) -> dict[str, str]:
    """Describe the level and what is attainable by name."""
    own = found.on_time_here
    if own is None:
        return {}
    (name, kept), kind = own.best, "certified" if own.certified else "not certified"
    no_more, reached = f"no more than {own.upper} ({own.bound}, {kind})", int(kept.sum())
    return {
        "service level": within(own.level),
        "requests on time": f"{no_more}; a schedule has {reached} ({name})",
    }


def on_time_notes(found: Headroom) -> list[str]:
    """Say what a reader has to know about requests on time."""
    return [ATTAINABLE, CARRIED] if found.on_time else []


def on_time_tables(found: Headroom) -> dict[str, Table]:
    """Make the tables of policies, and of the curves."""
    own = found.on_time_here
    if own is None:
        return {}
    curves = on_time_curves(found).items()
    return {
        "on-time": _policies(found, own),
        **{name: _curve(found, points, CURVES[name]) for name, points in curves},
    }


def _share(kept: BoolArray) -> str:
    return f"{per_cent(share(kept))} %"


def _policies(found: Headroom, own: OnTimePoint) -> Table:
    """Show who is on time in the log and under every policy."""
    kept_by = {name: int(kept.sum()) for (name, error), kept in own.kept.items() if not error}
    policies = dict.fromkeys(run.policy for run in found.completed)
    rows = []
    for name in [MEASURED, *sorted(policies, key=lambda name: -kept_by.get(name, -1))]:
        row = {"policy": name}
        for error, head in {0.0: "", found.error: "predicted: " if found.error else ""}.items():
            kept = own.kept.get((name, error))
            row[f"{head}on time, %"] = NOTHING if kept is None else per_cent(share(kept))
            part = None if kept is None or name == MEASURED else own.part(kept)
            row[f"{head}of the attainable, %"] = per_cent(part)
        rows.append(row)
    title = f"Requests on time: {per_cent(own.attainable)} % are attainable"
    return table_of(title, [row for row in rows if any(list(row.values())[1:])], ["policy"])


def _curve(found: Headroom, points: Sequence[OnTimePoint], title: str) -> Table:
    """Show what is attainable and who is on time at each point."""
    names = dict.fromkeys(name for one in points for name in compared(found, one))
    rows = []
    for one in points:
        row = {"limits x": f"{one.scale:g}"}
        if title == LOADS:
            row = {"arrivals x": f"{one.faster:g}", "load": f"{one.faster * (found.load or 0):.3f}"}
        elif title == FEWEST:
            row = {"replicas": str(one.replicas)}
        there = compared(found, one)
        row["attainable, %"] = per_cent(one.attainable)
        shares = {name: share(kept) for name, kept in there.items()}
        rows.append(row | {f"{name}, %": per_cent(shares.get(name)) for name in names})
    return table_of(title, rows)


def on_time_record(found: Headroom) -> dict[str, Any]:
    """Write the same as JSON, in shares of the requests; nothing without a level."""
    own = found.on_time_here
    if own is None:
        return {}
    points = [
        {
            "limits_times": one.scale,
            "faster": one.faster,
            **({"replicas": one.replicas} if found.routers else {}),
            "attainable": list(one.attainable.ends),
            "bound": one.bound,
            "certified": one.certified,
            "schedule": one.best[0],
            "on_time": [
                {
                    "name": name,
                    "error": error,
                    "share": float(share(kept)),
                    "of_attainable": (one.part(kept) or NOTHING_KNOWN).ends,
                }
                for (name, error), kept in one.kept.items()
            ],
        }
        for one in found.on_time
    ]
    record = {"limits": asdict(own.level), "points": points}
    p99 = None if found.p99 is None else list(found.p99.ends)
    return {"service_level": {**record, "best_possible_p99_latency": p99}}
