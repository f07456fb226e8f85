"""The hindsight optimum of an instance, or a certified interval around it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import instances
from hindsight.outcomes.result import percent
from instances import Instance, InvalidValueError, Schedule, UnknownNameError
from online.trials.intervals import Interval

from .console import INTERRUPTED_STATUS, check_output, progress_bar, say, writing
from .json_output import STANDARD_OUTPUT, JsonFile, about, about_fields, answer, check_json
from .options import OWN_METAVAR, Seed, Threads, TimeLimit, importing, limit_note, limit_of
from .sources import OneSource, goal_notes, parse_source, read_in_time, record_of, rounding_notes

if TYPE_CHECKING:
    from hindsight import Progress, Result
    from hindsight.exact.second_opinion import Opinion

CERTIFICATE_SHARE = 0.25
"""Of the time limit, kept for the certificate."""

GOAL_OPTIONS = {
    "makespan": "--objective makespan",
    "preemptive_total_latency": "--objective preemptive-total-latency",
}

PREEMPTIVE = "preemptive_"
"""What the goal with preemption adds to the objective."""

REFUSED = {
    "total_latency": ((), ""),
    "makespan": (("--crosscheck", "--out", "--certificate"), "is about total latency"),
    "preemptive_total_latency": (
        ("--crosscheck", "--out", "--export", "--formulation"),
        "is about the optimum without preemption: leave out --objective preemptive-...",
    ),
}
"""Options refused with an objective, and why."""

LARGE_MODEL = 100_000_000
"""Bytes from which the size of a model is told though it is solved as well: it takes seconds."""


@importing
def solve(  # noqa: PLR0913
    source: OneSource,
    method: Annotated[
        str,
        typer.Option(help="auto, paths, mip or beams (docs/solving.md)."),
    ] = "auto",
    objective_name: Annotated[
        str,
        typer.Option(
            "--objective",
            metavar="total-latency|makespan|preemptive-total-latency",
            help="What is minimised. With preemption requests may be stopped between rounds, hold "
            "no memory then and keep their tokens; not with --crosscheck, --export, --formulation "
            "or --out.",
        ),
    ] = "total-latency",
    time_limit: TimeLimit = None,
    gap: Annotated[
        float, typer.Option(min=0, max=1, help="Relative gap at which the search ends.")
    ] = 0.0,
    seed: Seed = 0,
    threads: Threads = None,
    crosscheck: Annotated[
        bool, typer.Option("--crosscheck", help="Solve again with PuLP and CBC, and compare.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            help="Write the integer program, model.lp or model.mps, and end; with --out, "
            "--bound, --certificate, --crosscheck, --gap, --method or --time-limit it is "
            "solved as well."
        ),
    ] = None,
    formulation: Annotated[str, typer.Option(help="Program exported: dense or sparse.")] = "dense",
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
    own_bounds: Annotated[
        list[str] | None,
        typer.Option("--bound", metavar=OWN_METAVAR, help="Lower bound of your own; repeatable."),
    ] = None,
    json_file: JsonFile = None,
) -> int:
    """The hindsight optimum of an instance without preemption, or a certified interval around it.

    With --objective preemptive-total-latency requests may be stopped and go on later. The waiting
    is what the optimum's total latency is beyond the output lengths, which no schedule avoids.
    Ctrl-C ends the search with the interval found so far (exit status 130). The time limit counts
    from the reading of the file. A first schedule and bound are found whatever it is: that of a
    million requests takes seconds.

    The search starts from the best schedule that the file carries, as one that --out wrote does, or
    that the library has of a name, for the goal asked for.

    Values of bounds of your own are shown by name; claimed ones count for nothing else.
    docs/own-bounds.md has how to write them.
    """
    given = {"--crosscheck": crosscheck, "--out": out, "--export": export}
    given |= {"--formulation": formulation != "dense", "--certificate": certificate}
    objective = _objective(objective_name, given)
    parsed = parse_source(source)
    check_output(export, (".lp", ".mps"), "--export")
    check_output(out, (".json",), source=parsed.file)
    check_output(certificate, (".json",), "--certificate", source=parsed.file)
    check_json(json_file, source=parsed.file)
    if export is None and formulation != "dense":
        reason = "is that of --export, which is not given"
        raise InvalidValueError(None, "--formulation", formulation, reason)
    instance, limit, reading = read_in_time(parsed, limit_of(time_limit))
    import hindsight
    from instances.ctrl_c import Interruption

    if crosscheck:
        _refuse_large_crosscheck(instance)
    notes = [*rounding_notes([instance]), *goal_notes([instance], objective, GOAL_OPTIONS)]
    record = {**about(instance), "notes": notes}
    if export is not None:
        others = (out, certificate, crosscheck, gap, own_bounds, method != "auto")
        alone = time_limit is None and not any(others)
        told_from = math.inf if json_file == STANDARD_OUTPUT else 0 if alone else LARGE_MODEL
        record["export"] = _export(instance, formulation, objective, export, told_from)
        if alone:
            answer(json_file, "solve", record, f"written to  {export}")
            return 0
    if time_limit is not None and limit is not None and certificate is not None:
        limit *= 1 - CERTIFICATE_SHARE
    start = _start(instance, objective, notes, is_named=parsed.kind == "library")
    # However often it is pressed: a search that Ctrl-C has ended is saved.
    with Interruption(math.inf), _shown_progress(instance, objective) as show:
        result = hindsight.solve(
            instance,
            limit,
            threads=threads,
            seed=seed,
            goal="makespan" if objective == "makespan" else "latency",
            method=method,
            start=start,
            preemption="keep" if objective.startswith(PREEMPTIVE) else "never",
            gap=gap,
            bounds=own_bounds or (),
            progress=show,
        )
        if out is not None:
            bounds = result.known_bounds(f"llm-hindsight solve, {result.status}")
            with writing():
                instances.save(bounds.attached_to(instance), out)
    ended = limit_note(time_limit, result.stop_reason)
    record |= {**_record(result), "notes": [*notes, *([ended] if ended else [])]}
    try:
        if certificate is not None:
            with writing():
                left = None if time_limit is None else time_limit - reading - result.runtime
                record["certificate"] = _certify(result, certificate, left)
        if crosscheck and result.stop_reason != "interrupted":
            interval = result.lower_bound, result.upper_bound
            record["cbc"] = _opinion(hindsight.second_opinion(instance, interval, limit))
    finally:
        answer(json_file, "solve", record, _fields(record, "; ".join(notes), ended))
    return INTERRUPTED_STATUS if result.stop_reason == "interrupted" else 0


def _objective(name: str, given: Mapping[str, object]) -> str:
    """The objective by its name in JSON; refuse options given that it has no use for."""
    names = [one.replace("_", "-") for one in REFUSED]
    if name not in names:
        raise UnknownNameError("objective", name, names)
    objective = name.replace("-", "_")
    refused, reason = REFUSED[objective]
    for option in refused:
        if given[option]:
            raise InvalidValueError(None, option, str(given[option]), reason)
    return objective


def _refuse_large_crosscheck(instance: Instance) -> None:
    """Refuse a program that the second solver could not hold, before the first one runs."""
    from hindsight.exact.pyomo_model import model_size

    horizon = int(instance.arrival_times.max() + instance.output_lengths.sum())
    model_size(instance, "dense", horizon).refuse_too_large()


def _export(
    instance: Instance, formulation: str, objective: str, path: Path, told_from: float
) -> dict[str, Any]:
    """Write the model; its size, from ``told_from`` bytes, is told before anything is built."""
    import hindsight
    from hindsight.exact.pyomo_model import FORMULATIONS, last_round, model_size

    kind, horizon = cast(Any, formulation), None
    found: dict[str, Any] = {"file": path, "formulation": formulation}
    if formulation in FORMULATIONS and objective == "total_latency":
        horizon = last_round(instance, formulation, None, "latency")
        size = model_size(instance, formulation, horizon)
        found |= {
            "horizon_rounds": horizon,
            "variables": size.columns,
            "constraints": size.rows,
            "non_zeros": size.non_zeros,
            "memory_bytes": size.bytes,
        }
        if size.bytes >= told_from:
            say(
                f"model  {size.columns:,} variables, {size.rows:,} constraints, {size.non_zeros:,} "
                f"non-zeros, rounds 1 .. {horizon:,}; about {size.bytes / 1e6:,.0f} MB to build"
            )
    goal: Any = "makespan" if objective == "makespan" else "latency"
    hindsight.build_model(instance, kind, horizon=horizon, goal=goal, path=path)
    return found


def _start(instance: Instance, objective: str, notes: list[str], *, is_named: bool) -> Any:
    """The best schedule that the file carries, or that the library has of a name."""
    known = instances.known_bounds(instance)
    if known is not None and known.start_times is not None:
        return Schedule(instance, known.start_times)
    best = record_of(instance, objective) if is_named else None
    if best is None:
        return None
    notes.append(f"starts from the library's schedule of {best.upper_bound}")
    return best.schedule


@contextmanager
def _shown_progress(instance: Instance, objective: str) -> Iterator[Callable[[Progress], None]]:
    from hindsight.outcomes.result import relative_waiting_gap

    with progress_bar(1, lines=True) as update:
        update(0, "heuristics")

        def show(news: Progress) -> None:
            low, high = news.lower_bound, news.upper_bound
            text = f"{news.phase}: [{low}, {high}] {percent(news.gap)}"
            if objective != "makespan":
                text += f", waiting {percent(relative_waiting_gap(instance, low, high))}"
            update(0, text)

        yield show


def _certify(result: Result, path: Path, left: float | None) -> dict[str, Any]:
    """Write a certificate in the seconds that are left, and check it."""
    import hindsight

    left = None if left in (None, math.inf) else max(0.0, left)
    verdict = hindsight.write_certificate(result, path, time_limit=left)
    return {
        "file": path,
        "is_optimal": verdict.is_optimal,
        "kind": verdict.kind,
        "verified_lower_bound_rounds": verdict.lower_bound,
    }


def _opinion(found: Opinion) -> dict[str, Any]:
    total = None if found.schedule is None else found.schedule.total_latency
    return {"total_latency_rounds": total, "is_optimal": found.is_optimal}


def _record(result: Result) -> dict[str, Any]:
    record: dict[str, Any] = {
        "objective": "makespan" if result.goal == "makespan" else "total_latency",
        "preemptive": result.preemption != "never",
        "status": result.status,
        "stop_reason": result.stop_reason,
        "optimum_rounds": [result.lower_bound, result.upper_bound],
        "certified_lower_bound_rounds": result.certified_lower_bound,
        "gap": result.gap,
        "certified_gap": result.certified_gap,
        "runtime_seconds": result.runtime,
    }
    own = {name: one for name, one in result.bounds.items() if name.startswith("bound ")}
    if own:
        record["own_bounds"] = [
            {"name": name, "lower_bound_rounds": one.value, "proved": one.certified}
            for name, one in own.items()
        ]
    if result.goal == "latency":
        record["waiting_rounds"] = result.waiting_interval
        record["certified_waiting_gap"] = result.waiting_gap
    if isinstance(result.schedule, Schedule):
        record["start_rounds"] = result.schedule.start_times.tolist()
    return record


def _fields(found: Mapping[str, Any], note: str, ended: str | None) -> dict[str, str]:
    """Lines of the screen, from what the JSON says."""
    of = "preemptive optimum, " if found["preemptive"] else ""
    if found["objective"] == "makespan":
        of = "makespan, "
    low, high = found["optimum_rounds"]
    proved = found["status"] == "optimal"
    fields = {
        "status": found["status"] if proved else f"{found['status']} ({found['stop_reason']})",
        f"{of}upper bound": str(high),
        f"{of}lower bound": str(low),
        f"{of}certified lower bound": str(found["certified_lower_bound_rounds"]),
    }
    for one in found.get("own_bounds", ()):
        kind = "proved by its prices" if one["proved"] else "claimed"
        fields[of + one["name"]] = f"{one['lower_bound_rounds']}, {kind}"
    fields["gap"] = percent(found["gap"])
    fields["certified gap"] = percent(found["certified_gap"])
    if "waiting_rounds" in found:
        fields[f"{of}waiting"] = Interval.between(*found["waiting_rounds"]).text(0)
        fields["certified waiting gap"] = percent(found["certified_waiting_gap"])
    fields["runtime"] = f"{found['runtime_seconds']:.1f} s"
    fields |= {"note": note} if note else {}
    fields |= {"time limit": ended} if ended else {}
    if certificate := found.get("certificate"):
        shown = "optimal" if certificate["is_optimal"] else "valid interval"
        fields["certificate"] = f"{shown}, by {certificate['kind']}"
        fields[of + "verified lower bound"] = str(certificate["verified_lower_bound_rounds"])
    if opinion := found.get("cbc"):
        total = opinion["total_latency_rounds"]
        proof = "optimal" if opinion["is_optimal"] else "not proved"
        fields["CBC"] = f"{'none' if total is None else total}, {proof}; agrees"
    return about_fields(found) | fields
