"""The hindsight optimum of an instance, a certified interval around it, or a bound at any size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Option

import hindsight
import instances
from hindsight.outcomes.result import percent
from instances import Instance, Schedule
from instances.ctrl_c import Interruption
from instances.problem.memory_translation import pooled

from .console import INTERRUPTED_STATUS, check_output, fail, progress_bar, writing
from .json_output import JsonFile, answer, check_json, instance_fields
from .options import Seed, TimeLimit, limit_of
from .sources import OneSource, parse_source, read_instance

CERTIFICATE_SHARE = 0.25
"""Share of the time limit that is kept for the certificate."""

RELAXATION = "relaxation"
RELAXATION_GAP = 0.01


SEARCHING = ("--bound", "--crosscheck", "--out", "--certificate")
CONTRADICTIONS: dict[str, tuple[str, ...]] = {
    "--export": SEARCHING,
    "--goal makespan": ("--crosscheck", "--out", "--certificate"),
    "--preemption keep": ("--goal makespan", "--crosscheck", "--out", "--export"),
    "--method relaxation": ("--goal makespan", "--preemption keep", "--export", *SEARCHING),
}
"""Options that an option cannot be combined with."""


Goal = Annotated[str, Option(metavar="latency|makespan", help="Minimised objective.")]
Preemption = Annotated[
    str,
    Option(
        metavar="never|keep",
        help="keep: a request may be stopped between rounds, holds no memory then and keeps its "
        "tokens. Rarely proved above 8 requests: larger instances get an interval.",
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
    goal: Goal = "latency",
    preemption: Preemption = "never",
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

    The search starts from the best schedule that the file carries, as one that --out wrote does.
    Values of custom bounds are shown by name; claimed ones count for nothing else
    (docs/own-bounds.md).
    """
    _refuse(
        {
            "--goal makespan": goal == "makespan",
            "--preemption keep": preemption == "keep",
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
    limit, found = limit_of(time_limit), instance_fields(instance)
    if export is not None:
        found["export"] = _exported(instance, goal, export)
    elif method.startswith(RELAXATION):
        kind = method.removeprefix(RELAXATION).removeprefix("-") or "auto"
        found |= _relaxed(instance, kind, limit, RELAXATION_GAP if gap is None else gap)
    else:
        known = instances.known_bounds(instance)
        times = None if known is None else known.start_times
        start = None if times is None else Schedule(instance, times)
        options: dict[str, Any] = {"goal": goal, "preemption": preemption, "method": method}
        options |= {"gap": gap or 0, "seed": seed, "start": start, "bounds": own_bounds or ()}
        given = limit if certificate is not None and time_limit is not None else None
        kept = 0.0 if given is None else CERTIFICATE_SHARE * given
        result = _search(instance, options, limit and limit - kept, out, crosscheck)
        found |= _described(result)
        if certificate is not None:
            with writing():
                left = given and max(0.0, given - result.runtime)
                found["certificate"] = _certified(result, certificate, left)
        if crosscheck and result.stop_reason != "interrupted":
            found["cbc"] = _crosschecked(result, limit)
    found["notes"] = notes
    answer(json_file, "solve", found)
    return INTERRUPTED_STATUS if found.get("stop_reason") == "interrupted" else 0


def _refuse(given: Mapping[str, object]) -> None:
    for option, others in CONTRADICTIONS.items():
        for other in others:
            if given[option] and given[other]:
                fail(f"{other} contradicts {option}: leave out one of them")


def _search(
    instance: Instance, options: Any, limit: float | None, out: Path | None, crosscheck: bool
) -> hindsight.Result:
    """Search for the optimum, and write the instance with the bounds found."""
    if crosscheck:
        from hindsight.exact.pyomo_model import model_size

        # A program that is too large for the second solver is refused before the first one runs.
        last = int(instance.arrival_times.max() + instance.output_lengths.sum())
        model_size(instance, "dense", last).refuse_too_large()
    # A search that Ctrl-C has ended is saved, however often it is pressed.
    with Interruption(math.inf), progress_bar() as update:

        def show(news: hindsight.Progress) -> None:
            interval = f"[{news.lower_bound}, {news.upper_bound}] {percent(news.gap)}"
            update(0, f"{news.phase}: {interval}")

        result = hindsight.solve(instance, limit, progress=show, **options)
        if out is not None:
            bounds = result.known_bounds(f"llm-hindsight solve, {result.status}")
            with writing():
                instances.save(bounds.attached_to(instance), out)
    return result


def _described(result: hindsight.Result) -> dict[str, Any]:
    own = [(name[7:-1], one) for name, one in result.bounds.items() if name.startswith("bound '")]
    found = {
        "objective": "makespan" if result.goal == "makespan" else "total_latency",
        "preemptive": result.preemption != "never",
        "status": result.status,
        "stop_reason": result.stop_reason,
        "optimum_rounds": (result.lower_bound, result.upper_bound),
        "certified_lower_bound_rounds": result.certified_lower_bound,
        "gap": result.gap,
        "certified_gap": result.certified_gap,
        "own_bounds": [
            {"name": name, "lower_bound_rounds": one.value, "proved": one.certified}
            for name, one in own
        ],
    }
    if result.goal == "latency":
        found["waiting_rounds"] = result.waiting_interval
        found["certified_waiting_gap"] = result.waiting_gap
    found["runtime_seconds"] = result.runtime
    if isinstance(result.schedule, Schedule):
        found["start_rounds"] = result.schedule.start_times.tolist()
    return found


def _certified(result: hindsight.Result, path: Path, left: float | None) -> dict[str, Any]:
    """Write a certificate in the seconds that are left, and check it."""
    verdict = hindsight.write_certificate(result, path, time_limit=left)
    return {
        "file": path,
        "verdict": "optimal" if verdict.is_optimal else "valid interval",
        "proof": verdict.kind,
        "lower_bound_rounds": verdict.lower_bound,
    }


def _crosschecked(result: Any, limit: float | None) -> dict[str, Any]:
    """Solve again with another solver, which raises an error if the results contradict."""
    interval = (result.lower_bound, result.upper_bound)
    opinion = hindsight.second_opinion(result.schedule.instance, interval, limit)
    total = None if opinion.schedule is None else opinion.schedule.total_latency
    return {"total_latency_rounds": total, "is_optimal": opinion.is_optimal, "agrees": True}


def _exported(instance: Instance, goal: Any, path: Path) -> dict[str, Any]:
    """Write the integer program, and name its size."""
    model: Any = hindsight.build_model(instance, "dense", goal=goal, path=path)
    return {"file": path, "variables": model.nvariables(), "constraints": model.nconstraints()}


def _relaxed(instance: Instance, method: Any, limit: float | None, gap: float) -> dict[str, Any]:
    """Describe the linear relaxation and its certified bound."""
    from hindsight.prices.volume import small_transportation_bound

    with progress_bar() as update:
        relaxation = hindsight.relax(
            instance,
            limit,
            method=method,
            tolerance=None if method == "states" else gap,
            progress=lambda news: update(0, f"{news.phase} {news.nodes}: {news.text}"),
        )
    return {
        "method": relaxation.method,
        "stop_reason": relaxation.stop_reason,
        "certified_lower_bound_rounds": relaxation.certified_bound,
        "transportation_lower_bound_rounds": small_transportation_bound(pooled(instance)),
        "value_rounds": relaxation.objective,
        "certified_waiting_rounds": relaxation.certified_waiting,
        "iterations": relaxation.iterations,
        "runtime_seconds": relaxation.runtime,
    }
