"""The hindsight optimum of an instance, or a certified interval around it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

import instances
from instances import Instance, InvalidValueError, Schedule
from online.comparison.ratios import Interval

from .console import (
    INTERRUPTED_STATUS,
    VERIFIED_LOWER_BOUND,
    check_output,
    percent,
    print_fields,
    progress_bar,
    writing,
)

if TYPE_CHECKING:
    from hindsight import Progress, SolveResult
    from hindsight.integer_program.models import Formulation


CERTIFICATE_SHARE = 0.25
"""Of the time limit, kept for the certificate."""


def solve(
    instance_file: Annotated[
        Path, typer.Argument(metavar="INSTANCE.json", help="Instance written by instances.save.")
    ],
    time_limit: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds to solve and certify; default: no limit."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the solver.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of the solver; default: its choice.")
    ] = None,
    crosscheck: Annotated[
        bool, typer.Option("--crosscheck", help="Solve again with PuLP and CBC, and compare.")
    ] = False,
    export: Annotated[
        Path | None, typer.Option(help="Write the integer program: model.lp or model.mps.")
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
            help="Write a proof that verify.py checks, as JSON. A quarter of the time limit is "
            "kept for it; where a proof would take longer, one that proves less is written."
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
) -> int:
    """The hindsight optimum of an instance without preemption, or a certified interval around it.

    With --preemptive the preemptive optimum, or a certified interval around that. The waiting is
    what the optimum's total latency is beyond the output lengths, which no schedule avoids.
    Ctrl-C ends the search with the interval found so far (exit status 130).
    """
    if preemptive:
        of_programs = {"--crosscheck": crosscheck, "--export": export, "--out": out}
        of_programs |= {"--formulation": formulation_name != "dense"}
        for option, value in of_programs.items():
            if value:
                reason = "is about the optimum without preemption: leave out --preemptive"
                raise InvalidValueError(None, option, str(value), reason)
    check_output(export, (".lp", ".mps"), "--export")
    check_output(out, (".json",), source=instance_file)
    check_output(certificate, (".json",), "--certificate", source=instance_file)
    formulation = cast("Formulation", formulation_name)  # checked by hindsight
    instance = instances.load(instance_file)
    known = instances.known_bounds(instance)
    import hindsight
    from hindsight.outcomes.results import relative_waiting_gap
    from hindsight.runtime.interruption import interruption

    if crosscheck:
        from hindsight.integer_program.cbc import refuse_too_large

        refuse_too_large(instance)
    if export is not None:
        hindsight.export_model(hindsight.build_model(instance, formulation), export)
    limit = time_limit
    if limit is not None and certificate is not None:
        limit *= 1 - CERTIFICATE_SHARE
    start = None
    if known is not None and known.start_times is not None:
        start = Schedule(instance, known.start_times)
    # However often it is pressed: a search that Ctrl-C has ended is saved.
    with interruption(math.inf), progress_bar(1) as update:

        def show(news: Progress) -> None:
            low, high = news.lower_bound, news.upper_bound
            waiting = percent(relative_waiting_gap(instance, low, high))
            update(0, f"{news.phase}: [{low}, {high}] {percent(news.gap)}, waiting {waiting}")

        result = hindsight.solve(
            instance,
            limit,
            threads,
            seed,
            formulation=formulation,
            start=start,
            preemptive=preemptive,
            progress=show,
        )
        if out is not None:
            bounds = result.known_bounds(f"scripts/solve.py, {result.status}")
            with writing():
                instances.save(bounds.attached_to(instance), out)
    fields = _fields(instance, result)
    interrupted = result.stop_reason == "interrupted"
    try:
        if certificate is not None:
            with writing():
                proved = result.status == "optimal"
                left = None if time_limit is None else max(0.0, time_limit - result.runtime)
                verdict = hindsight.write_certificate(
                    result, certificate, search=proved, tree=proved, time_limit=left
                )
                shown = "optimal" if verdict.is_optimal else "valid interval"
                fields["certificate"] = f"{shown}, by {verdict.kind}"
                fields[_of(result) + VERIFIED_LOWER_BOUND] = str(verdict.lower_bound)
        if crosscheck and not interrupted:
            opinion = hindsight.crosscheck(instance, result, time_limit)
            found = "none" if opinion.schedule is None else str(opinion.schedule.total_latency)
            fields["CBC"] = f"{found}, {'optimal' if opinion.is_optimal else 'not proved'}; agrees"
    finally:
        print_fields(fields)
    return INTERRUPTED_STATUS if interrupted else 0


def _fields(instance: Instance, result: SolveResult) -> dict[str, str]:
    proved = result.status == "optimal"
    note = instances.rounding_note(instance.metadata)
    of = _of(result)
    return {
        "instance": instance.name or "",
        "digest": instance.digest,
        "requests": str(len(instance)),
        "memory limit": str(instance.memory_limit),
        "status": result.status if proved else f"{result.status} ({result.stop_reason})",
        f"{of}upper bound": str(result.upper_bound),
        f"{of}lower bound": str(result.lower_bound),
        f"{of}certified lower bound": str(result.certified_lower_bound),
        "gap": percent(result.gap),
        "certified gap": percent(result.certified_gap),
        f"{of}waiting": Interval.between(*result.waiting_interval).text(0),
        "certified waiting gap": percent(result.waiting_gap),
        "runtime": f"{result.runtime:.1f} s",
        **({"note": note} if note else {}),
    }


def _of(result: SolveResult) -> str:
    return "preemptive optimum, " if result.preemptive else ""
