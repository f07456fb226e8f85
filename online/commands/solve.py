"""The hindsight optimum of an instance, a certified interval around it, or a bound at any size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import instances
from hindsight.outcomes.result import percent
from instances import Instance, Schedule
from online.trials.intervals import Interval, rounded_down
from online.trials.library import entry_of

from .console import INTERRUPTED_STATUS, check_output, fail, progress_bar, writing
from .json_output import Answer, JsonFile, answer, check_json
from .options import Seed, TimeLimit, limit_of
from .sources import OneSource, parse_source, read_instance

if TYPE_CHECKING:
    from hindsight import Progress, Result

CERTIFICATE_SHARE = 0.25
"""Share of the time limit that is kept for the certificate."""

RELAXATION = "relaxation"
RELAXATION_GAP = 0.01


class Goal(StrEnum):
    """Objectives that are minimised."""

    latency = "latency"
    makespan = "makespan"


class Preemption(StrEnum):
    """Schedules that the optimum is taken over."""

    never = "never"
    keep = "keep"


SEARCHING = ("--bound", "--crosscheck", "--out", "--certificate")
CONTRADICTIONS: dict[str, tuple[str, ...]] = {
    "--export": SEARCHING,
    "--goal makespan": ("--crosscheck", "--out", "--certificate"),
    "--preemption keep": ("--goal makespan", "--crosscheck", "--out", "--export"),
    "--method relaxation": ("--goal makespan", "--preemption keep", "--export", *SEARCHING),
}
"""Options that an option cannot be combined with."""


GoalName = Annotated[Goal, Option(help="Minimised objective.")]
PreemptionName = Annotated[
    Preemption,
    Option(
        help="keep: a request may be stopped between rounds, holds no memory then and keeps its "
        "tokens. Rarely proved above 8 requests: larger instances get an interval."
    ),
]
Method = Annotated[
    str,
    Option(
        help="auto, paths, mip or beams; or relaxation: only a lower bound, at any size, also "
        "relaxation-lp, -lagrangian or -states (docs/bounds.md)."
    ),
]
Gap = Annotated[
    float | None,
    Option(min=0, max=1, help="Relative gap at which to stop; default: 0, of relaxation 0.01."),
]
OwnBounds = Annotated[
    list[str] | None,
    Option("--bound", metavar="FILE.py:NAME", help="Custom lower bound; repeatable."),
]
CertificateFile = Annotated[
    Path | None,
    Option(
        "--certificate",
        help="Write a proof that verify checks, as JSON. A quarter of a given time limit is kept "
        "for it; if a proof takes longer, a weaker one is written.",
    ),
]
Crosscheck = Annotated[bool, Option("--crosscheck", help="Solve again with PuLP and CBC.")]
Export = Annotated[Path | None, Option(help="Only write the integer program, .lp or .mps.")]
Out = Annotated[Path | None, Option(help="Write the instance with the bounds found, as JSON.")]


def solve(  # noqa: PLR0913
    source: OneSource,
    goal: GoalName = Goal.latency,
    preemption: PreemptionName = Preemption.never,
    method: Method = "auto",
    time_limit: TimeLimit = None,
    gap: Gap = None,
    seed: Seed = 0,
    own_bounds: OwnBounds = None,
    certificate: CertificateFile = None,
    crosscheck: Crosscheck = False,
    export: Export = None,
    out: Out = None,
    json_file: JsonFile = None,
) -> int:
    """The hindsight optimum of an instance, or a certified interval around it.

    The waiting is the total latency beyond the output lengths, which no schedule avoids. Ctrl-C
    ends the search with the interval found so far (exit status 130). A first schedule and bound are
    found even without time: for a million requests they take seconds.

    The search starts from the best schedule that the file carries, as one that --out wrote does, or
    that the library has of a name, for the same goal. Values of custom bounds are shown by name;
    claimed ones count for nothing else (docs/own-bounds.md).
    """
    _refuse(
        {
            "--goal makespan": goal is Goal.makespan,
            "--preemption keep": preemption is Preemption.keep,
            "--method relaxation": method.startswith(RELAXATION),
            "--bound": own_bounds,
            "--crosscheck": crosscheck,
            "--export": export,
            "--out": out,
            "--certificate": certificate,
        }
    )
    parsed = parse_source(source)
    check_output(export, (".lp", ".mps"), "--export")
    check_output(out, (".json",), source=parsed.file)
    check_output(certificate, (".json",), "--certificate", source=parsed.file)
    check_json(json_file, source=parsed.file)
    instance, notes = read_instance(parsed)
    found, status, limit = Answer(), 0, limit_of(time_limit)
    found.add_instance(instance)
    if export is not None:
        _export(found, instance, goal, export)
    elif method.startswith(RELAXATION):
        kind = method.removeprefix(RELAXATION).removeprefix("-") or "auto"
        status = _relax(found, instance, kind, limit, RELAXATION_GAP if gap is None else gap)
    else:
        start = _start(instance, goal, preemption, notes, is_named=parsed.kind == "library")
        options: dict[str, Any] = {"goal": goal, "preemption": preemption, "method": method}
        options |= {"gap": gap or 0, "seed": seed, "start": start, "bounds": own_bounds or ()}
        given = limit if certificate is not None and time_limit is not None else None
        kept = 0.0 if given is None else CERTIFICATE_SHARE * given
        result = _search(instance, options, limit and limit - kept, out, crosscheck)
        _describe(found, result)
        if certificate is not None:
            with writing():
                _certify(found, result, certificate, given and max(0.0, given - result.runtime))
        if crosscheck and result.stop_reason != "interrupted":
            _crosscheck(found, result, limit)
        status = _status(result.stop_reason)
    found.add("notes", notes, "note", "; ".join(notes))
    answer(json_file, "solve", found.found, found.shown)
    return status


def _refuse(given: Mapping[str, object]) -> None:
    for option, others in CONTRADICTIONS.items():
        for other in others:
            if given[option] and given[other]:
                fail(f"{other} contradicts {option}: leave out one of them")


def _status(stop_reason: str) -> int:
    return INTERRUPTED_STATUS if stop_reason == "interrupted" else 0


def _start(
    instance: Instance, goal: Goal, preemption: Preemption, notes: list[str], *, is_named: bool
) -> Any:
    """Return the best schedule that the file carries, or that the library has of a name."""
    known = instances.known_bounds(instance)
    if known is not None and known.start_times is not None:
        return Schedule(instance, known.start_times)
    entry = entry_of(instance) if is_named else None
    asked = goal.replace("latency", "total_latency")
    asked = f"preemptive_{asked}" if preemption is Preemption.keep else asked
    if entry is None or entry.record is None or entry.goal != asked:
        return None
    notes.append(f"starts from the library's schedule of {entry.record.upper_bound}")
    return entry.record.schedule


def _search(
    instance: Instance, options: Any, limit: float | None, out: Path | None, crosscheck: bool
) -> Result:
    """Search for the optimum, and write the instance with the bounds found."""
    import hindsight
    from hindsight.exact.pyomo_model import model_size
    from instances.ctrl_c import Interruption

    if crosscheck:
        # A program that is too large for the second solver is refused before the first one runs.
        last = int(instance.arrival_times.max() + instance.output_lengths.sum())
        model_size(instance, "dense", last).refuse_too_large()
    # A search that Ctrl-C has ended is saved, however often it is pressed.
    with Interruption(math.inf), progress_bar(1) as update:

        def show(news: Progress) -> None:
            interval = f"[{news.lower_bound}, {news.upper_bound}] {percent(news.gap)}"
            update(0, f"{news.phase}: {interval}")

        result = hindsight.solve(instance, limit, progress=show, **options)
        if out is not None:
            bounds = result.known_bounds(f"llm-hindsight solve, {result.status}")
            with writing():
                instances.save(bounds.attached_to(instance), out)
    return result


def _describe(found: Answer, result: Result) -> None:
    of = "preemptive optimum, " if result.preemption != "never" else ""
    of = "makespan, " if result.goal == "makespan" else of
    found.add("objective", "makespan" if result.goal == "makespan" else "total_latency")
    found.add("preemptive", result.preemption != "never")
    how = result.status if result.status == "optimal" else f"{result.status} ({result.stop_reason})"
    found.add("status", result.status, "status", how)
    found.add("stop_reason", result.stop_reason)
    found.add("optimum_rounds", [result.lower_bound, result.upper_bound])
    found.show(f"{of}upper bound", result.upper_bound)
    found.show(f"{of}lower bound", result.lower_bound)
    certified = result.certified_lower_bound
    found.add("certified_lower_bound_rounds", certified, f"{of}certified lower bound")
    own = {name: one for name, one in result.bounds.items() if name.startswith("bound ")}
    if own:
        found.found["own_bounds"] = [
            {"name": name, "lower_bound_rounds": one.value, "proved": one.certified}
            for name, one in own.items()
        ]
    for name, one in own.items():
        kind = "proved by its prices" if one.certified else "claimed"
        found.show(of + name, f"{one.value}, {kind}")
    found.add("gap", result.gap, "gap", percent(result.gap))
    found.add("certified_gap", result.certified_gap, "certified gap", percent(result.certified_gap))
    if result.goal == "latency":
        waiting, gap = result.waiting_interval, result.waiting_gap
        found.add("waiting_rounds", waiting, f"{of}waiting", Interval.between(*waiting).text(0))
        found.add("certified_waiting_gap", gap, "certified waiting gap", percent(gap))
    found.add("runtime_seconds", result.runtime, "runtime", f"{result.runtime:.1f} s")
    if isinstance(result.schedule, Schedule):
        found.add("start_rounds", result.schedule.start_times.tolist())


def _certify(found: Answer, result: Result, path: Path, left: float | None) -> None:
    """Write a certificate in the seconds that are left, and check it."""
    import hindsight

    verdict = hindsight.write_certificate(result, path, time_limit=left)
    record = {
        "file": path,
        "is_optimal": verdict.is_optimal,
        "kind": verdict.kind,
        "verified_lower_bound_rounds": verdict.lower_bound,
    }
    shown = "optimal" if verdict.is_optimal else "valid interval"
    found.add("certificate", record, "certificate", f"{shown}, by {verdict.kind}")
    of = "preemptive optimum, " if verdict.preemptive else ""
    found.show(f"{of}verified lower bound", verdict.lower_bound)


def _crosscheck(found: Answer, result: Any, limit: float | None) -> None:
    """Solve again with another solver, which raises an error if the results contradict."""
    import hindsight

    interval = (result.lower_bound, result.upper_bound)
    opinion = hindsight.second_opinion(result.schedule.instance, interval, limit)
    total = None if opinion.schedule is None else opinion.schedule.total_latency
    proof = "optimal" if opinion.is_optimal else "not proved"
    record = {"total_latency_rounds": total, "is_optimal": opinion.is_optimal}
    found.add("cbc", record, "CBC", f"{'none' if total is None else total}, {proof}; agrees")


def _export(found: Answer, instance: Instance, goal: Any, path: Path) -> None:
    """Write the integer program, and name its size."""
    import hindsight

    model: Any = hindsight.build_model(instance, "dense", goal=goal, path=path)
    size = {"variables": model.nvariables(), "constraints": model.nconstraints()}
    found.show("model", ", ".join(f"{count:,} {name}" for name, count in size.items()))
    found.add("export", {"file": path, **size}, "written to", path)


def _relax(found: Answer, instance: Instance, method: Any, limit: float | None, gap: float) -> int:
    """Describe the linear relaxation and its certified bound; return the exit status."""
    import hindsight
    from hindsight.prices.volume import small_transportation_bound
    from instances.problem.memory_translation import pooled

    with progress_bar(1) as update:
        relaxation = hindsight.relax(
            instance,
            limit,
            method=method,
            tolerance=None if method == "states" else gap,
            progress=lambda news: update(0, f"{news.phase} {news.nodes}: {news.text}"),
        )
    transportation = small_transportation_bound(pooled(instance))
    used, stop, value = relaxation.method, relaxation.stop_reason, relaxation.objective
    found.add("method", used, "method", f"{used} ({stop})")
    found.add("stop_reason", stop)
    certified = relaxation.certified_bound
    found.add("certified_lower_bound_rounds", certified, "certified lower bound")
    found.add("transportation_lower_bound_rounds", transportation, "transportation lower bound")
    label = "value" if used == "lp" else "value at least"
    found.add("value_rounds", value, label, rounded_down(value))
    found.add("certified_waiting_rounds", relaxation.certified_waiting, "certified waiting")
    found.add("iterations", relaxation.iterations, "iterations")
    found.add("runtime_seconds", relaxation.runtime, "runtime", f"{relaxation.runtime:.1f} s")
    return _status(stop)
