"""The hindsight optimum of an instance, or a certified interval around it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import instances
from hindsight.outcomes.conditions import claim
from hindsight.outcomes.results import percent
from instances import Instance, InvalidValueError, Schedule
from instances.problem.memory_rule import TOKENS
from instances.user_modules import import_sources
from online.comparison.ratios import Interval

from .console import (
    INTERRUPTED_STATUS,
    VERIFIED_LOWER_BOUND,
    check_output,
    print_fields,
    progress_bar,
    say,
    writing,
)
from .json_output import STANDARD_OUTPUT, JsonFile, check_json, write_json
from .library_names import goal_notes, record_of
from .policy_options import OWN_METAVAR, Cuts, Imports
from .time_limits import TimeLimit, limit_note, limit_of
from .trace_options import load_instance, rounding_notes

if TYPE_CHECKING:
    from hindsight import Progress, SolveResult
    from hindsight.integer_program.models import Formulation
    from hindsight.outcomes.results import Objective
    from instances.problem.preemptive_schedule import AnySchedule


CERTIFICATE_SHARE = 0.25
"""Of the time limit, kept for the certificate."""

GOAL_OPTIONS = {
    "makespan": "--objective makespan",
    "preemptive_total_latency": "--preemptive",
}

LARGE_MODEL = 100_000_000
"""Bytes from which the size of a model is told though it is solved as well: it takes seconds."""


def solve(
    instance_file: Annotated[
        Path,
        typer.Argument(
            metavar="INSTANCE.json or NAME",
            help="Instance written by instances.save, or of the library by name.",
        ),
    ],
    method: Annotated[
        str,
        typer.Option(
            help="auto, paths, configurations, counts, mip or beams (docs/solving.md), or a "
            "strategy of your own: its name, or FILE.py:NAME."
        ),
    ] = "auto",
    objective_name: Annotated[
        str,
        typer.Option("--objective", metavar="total-latency|makespan", help="What is minimised."),
    ] = "total-latency",
    time_limit: TimeLimit = None,
    gap: Annotated[
        float, typer.Option(min=0, max=1, help="Relative gap at which the search ends.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the solver.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of the solver; default: its choice.")
    ] = None,
    crosscheck: Annotated[
        bool, typer.Option("--crosscheck", help="Solve again with PuLP and CBC, and compare.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            help="Write the integer program, model.lp or model.mps, and end; with --out, "
            "--bound, --certificate, --crosscheck, --cut, --gap, --method or --time-limit it is "
            "solved as well."
        ),
    ] = None,
    formulation_name: Annotated[
        str,
        typer.Option("--formulation", help="Program solved and exported: dense or sparse."),
    ] = "dense",
    out: Annotated[
        Path | None, typer.Option(help="Write the instance with the bounds found, as JSON.")
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="Write a proof that llm-hindsight verify checks, as JSON. A quarter of a time "
            "limit given is kept for it; where a proof would take longer, one that proves less is "
            "written."
        ),
    ] = None,
    preemptive: Annotated[
        bool,
        typer.Option(
            "--preemptive",
            help="The preemptive optimum: requests may be stopped between rounds, hold no memory "
            "then and keep their tokens. Not with --crosscheck, --export, --formulation or --out.",
        ),
    ] = False,
    own_bounds: Annotated[
        list[str] | None,
        typer.Option("--bound", metavar=OWN_METAVAR, help="Lower bound of your own; repeatable."),
    ] = None,
    cuts: Cuts = None,
    imports: Imports = None,
    json_file: JsonFile = None,
) -> int:
    """The hindsight optimum of an instance without preemption, or a certified interval around it.

    With --preemptive the preemptive optimum, or a certified interval around that. The waiting is
    what the optimum's total latency is beyond the output lengths, which no schedule avoids.
    Ctrl-C ends the search with the interval found so far (exit status 130).

    The search starts from the best schedule that the file carries, as one that --out wrote does, or
    that the library has of a name, for the goal asked for.

    What bounds and cuts of your own claim is shown as a conditional lower bound, with what it rests
    on; the other bounds hold without it. docs/own-bounds.md has how to write them.
    """
    objective = cast("Objective", objective_name.replace("-", "_"))  # checked by hindsight
    given = {"--crosscheck": crosscheck, "--out": out}
    if preemptive:
        given |= {"--export": export, "--formulation": formulation_name != "dense"}
        _refuse(given, "is about the optimum without preemption: leave out --preemptive")
    if objective == "makespan":
        _refuse(given | {"--certificate": certificate}, "is about total latency")
    check_output(export, (".lp", ".mps"), "--export")
    check_output(out, (".json",), source=instance_file)
    check_output(certificate, (".json",), "--certificate", source=instance_file)
    check_json(json_file, source=instance_file)
    import_sources(imports or [])
    limit = limit_of(time_limit)
    formulation = cast("Formulation", formulation_name)  # checked by hindsight
    instance = load_instance(instance_file)
    known = instances.known_bounds(instance)
    import hindsight
    from hindsight.outcomes.results import relative_waiting_gap
    from hindsight.runtime.interruption import interruption

    if crosscheck:
        from hindsight.integer_program.cbc import refuse_too_large

        refuse_too_large(instance)
    goal = "preemptive_total_latency" if preemptive else objective
    notes = [*rounding_notes([instance]), *goal_notes([instance], goal, GOAL_OPTIONS)]
    record = _about(instance, notes)
    if export is not None:
        asked = (out, certificate, crosscheck or None, time_limit, gap or None, own_bounds, cuts)
        alone = asked == (None,) * len(asked) and method == "auto"
        quiet = json_file == STANDARD_OUTPUT
        record["export"] = _export(instance, formulation, objective, export, alone, quiet)
        if alone:
            if not write_json(json_file, "solve", record):
                say(f"written to  {export}")
            return 0
    if time_limit is not None and limit is not None and certificate is not None:
        limit *= 1 - CERTIFICATE_SHARE
    start: AnySchedule | None = None
    if known is not None and known.start_times is not None:
        start = Schedule(instance, known.start_times)
    elif not instance_file.exists() and (best := record_of(instance, goal)) is not None:
        start = cast("AnySchedule", best.schedule)
        notes.append(f"starts from the library's schedule of {best.upper_bound}")
    # However often it is pressed: a search that Ctrl-C has ended is saved.
    with interruption(math.inf), progress_bar(1) as update:

        def show(news: Progress) -> None:
            low, high = news.lower_bound, news.upper_bound
            text = f"{news.phase}: [{low}, {high}] {percent(news.gap)}"
            if objective == "total_latency":
                text += f", waiting {percent(relative_waiting_gap(instance, low, high))}"
            update(0, text)

        result = hindsight.solve(
            instance,
            limit,
            threads,
            seed,
            objective=objective,
            method=method,
            formulation=formulation,
            start=cast(Any, start),
            preemptive=preemptive,
            gap=gap,
            bounds=own_bounds or (),
            cuts=cuts or (),
            progress=show,
        )
        if out is not None:
            bounds = result.known_bounds(f"llm-hindsight solve, {result.status}")
            with writing():
                instances.save(bounds.attached_to(instance), out)
    fields = _fields(instance, result, notes)
    record |= _record(result)
    if ended := limit_note(time_limit, result.stop_reason):
        fields["time limit"] = ended
        record["notes"].append(ended)
    interrupted = result.stop_reason == "interrupted"
    try:
        if certificate is not None:
            with writing():
                proved = result.status == "optimal"
                left = None if time_limit is None else max(0.0, time_limit - result.runtime)
                verdict = hindsight.write_certificate(
                    *(result, certificate),
                    search=proved,
                    tree=proved,
                    time_limit=None if left == math.inf else left,
                )
                shown = "optimal" if verdict.is_optimal else "valid interval"
                fields["certificate"] = f"{shown}, by {verdict.kind}"
                fields[_of(result) + VERIFIED_LOWER_BOUND] = str(verdict.lower_bound)
                record["certificate"] = {
                    "file": certificate,
                    "is_optimal": verdict.is_optimal,
                    "kind": verdict.kind,
                    "verified_lower_bound_rounds": verdict.lower_bound,
                }
        if crosscheck and not interrupted:
            opinion = hindsight.crosscheck(instance, result, limit)
            total = None if opinion.schedule is None else opinion.schedule.total_latency
            proof = "optimal" if opinion.is_optimal else "not proved"
            fields["CBC"] = f"{'none' if total is None else total}, {proof}; agrees"
            record["cbc"] = {"total_latency_rounds": total, "is_optimal": opinion.is_optimal}
    finally:
        if not write_json(json_file, "solve", record):
            print_fields(fields)
    return INTERRUPTED_STATUS if interrupted else 0


def _refuse(given: Mapping[str, object], reason: str) -> None:
    for option, value in given.items():
        if value:
            raise InvalidValueError(None, option, str(value), reason)


def _export(
    instance: Instance,
    formulation: Formulation,
    objective: Objective,
    path: Path,
    alone: bool,
    quiet: bool,
) -> dict[str, Any]:
    """Write the model; its size is told before anything is built."""
    import hindsight
    from hindsight.bounds.volume import makespan_lower_bound
    from hindsight.integer_program.horizon import proved_horizon
    from hindsight.integer_program.models import BUILDERS, model_size

    horizon = None
    found: dict[str, Any] = {"file": path, "formulation": formulation}
    if formulation in BUILDERS and objective == "total_latency" and instance.memory_rule == TOKENS:
        model_size(instance, formulation, makespan_lower_bound(instance)).refuse_too_large()
        horizon = proved_horizon(instance).horizon
        size = model_size(instance, formulation, horizon)
        size.refuse_too_large()
        found |= {
            "horizon_rounds": horizon,
            "variables": size.columns,
            "constraints": size.rows,
            "non_zeros": size.non_zeros,
            "memory_bytes": size.bytes,
        }
        if not quiet and (alone or size.bytes >= LARGE_MODEL):
            say(
                f"model  {size.columns:,} variables, {size.rows:,} constraints, {size.non_zeros:,} "
                f"non-zeros, rounds 1 .. {horizon:,}; about {size.bytes / 1e6:,.0f} MB to build"
            )
    model = hindsight.build_model(instance, formulation, horizon=horizon, objective=objective)
    hindsight.export_model(model, path)
    return found


def _about(instance: Instance, notes: list[str]) -> dict[str, Any]:
    return {
        "instance": instance.name,
        "digest": instance.digest,
        "requests": len(instance),
        "memory_limit_tokens": instance.memory_limit,
        "notes": notes,
    }


def _record(result: SolveResult) -> dict[str, Any]:
    record: dict[str, Any] = {
        "objective": result.objective,
        "preemptive": result.preemptive,
        "status": result.status,
        "stop_reason": result.stop_reason,
        "optimum_rounds": [result.lower_bound, result.upper_bound],
        "certified_lower_bound_rounds": result.certified_lower_bound,
        "gap": result.gap,
        "certified_gap": result.certified_gap,
        "runtime_seconds": result.runtime,
    }
    if result.conditions:
        record["conditional_lower_bound_rounds"] = result.conditional_lower_bound
        record["conditions"] = list(result.conditions)
    if result.objective == "total_latency":
        record["waiting_rounds"] = result.waiting_interval
        record["certified_waiting_gap"] = result.waiting_gap
    if isinstance(result.schedule, Schedule):
        record["start_rounds"] = result.schedule.start_times.tolist()
    return record


def _fields(instance: Instance, result: SolveResult, notes: Sequence[str]) -> dict[str, str]:
    proved = result.status == "optimal"
    of = _of(result)
    claimed = claim(result.conditional_lower_bound, result.conditions)
    fields = {
        "instance": instance.name or "",
        "digest": instance.digest,
        "requests": str(len(instance)),
        "memory limit": str(instance.memory_limit),
        "status": result.status if proved else f"{result.status} ({result.stop_reason})",
        f"{of}upper bound": str(result.upper_bound),
        f"{of}lower bound": str(result.lower_bound),
        f"{of}certified lower bound": str(result.certified_lower_bound),
        **({f"{of}conditional lower bound": claimed} if claimed else {}),
        "gap": percent(result.gap),
        "certified gap": percent(result.certified_gap),
    }
    if result.objective == "total_latency":
        fields[f"{of}waiting"] = Interval.between(*result.waiting_interval).text(0)
        fields["certified waiting gap"] = percent(result.waiting_gap)
    return fields | {
        "runtime": f"{result.runtime:.1f} s",
        **({"note": "; ".join(notes)} if notes else {}),
    }


def _of(result: SolveResult) -> str:
    if result.objective == "makespan":
        return "makespan, "
    return "preemptive optimum, " if result.preemptive else ""
