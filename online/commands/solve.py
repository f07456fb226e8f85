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
from .options import OWN_METAVAR, Seed, Threads, TimeLimit, limit_note, limit_of
from .relaxation import RELAXATION, relaxed
from .sources import OneSource, goal_notes, parse_source, read_in_time, record_of, rounding_notes

if TYPE_CHECKING:
    from hindsight import Progress, Result
    from hindsight.exact.second_opinion import Opinion

CERTIFICATE_SHARE = 0.25
"""Share of the time limit that is kept for the certificate."""

GOALS = ("latency", "makespan")
PREEMPTIONS = ("never", "keep")
GOAL_OPTIONS = {"makespan": "--goal makespan", "preemptive_total_latency": "--preemption keep"}

REFUSED = {
    "--goal makespan": (("--crosscheck", "--out", "--certificate"), "is about total latency"),
    "--preemption keep": (
        ("--goal", "--crosscheck", "--out", "--export"),
        "is not about the optimum with preemption",
    ),
    "--method relaxation": (
        ("--goal", "--preemption", "--crosscheck", "--out", "--export", "--certificate", "--bound"),
        "is not about the relaxation",
    ),
}
"""Options refused together with another one, and why."""

LARGE_MODEL = 100_000_000
"""Bytes from which the size of a model is printed even if it is solved as well."""


def solve(  # noqa: PLR0913
    source: OneSource,
    goal: Annotated[
        str, typer.Option(metavar="latency|makespan", help="The minimised objective.")
    ] = "latency",
    preemption: Annotated[
        str,
        typer.Option(
            metavar="never|keep",
            help="keep: a request may be stopped between rounds, holds no memory then and keeps "
            "its tokens.",
        ),
    ] = "never",
    method: Annotated[
        str,
        typer.Option(
            help="auto, paths, mip or beams (docs/solving.md); or relaxation: only a lower bound, "
            "at any size, also relaxation-lp, -lagrangian or -states (docs/scale.md)."
        ),
    ] = "auto",
    time_limit: TimeLimit = None,
    gap: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Relative gap at which to stop; default: 0, of relaxation 0.01."
        ),
    ] = None,
    seed: Seed = 0,
    threads: Threads = None,
    own_bounds: Annotated[
        list[str] | None,
        typer.Option("--bound", metavar=OWN_METAVAR, help="Custom lower bound; repeatable."),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="Write a proof that verify checks, as JSON. A quarter of a given time limit is "
            "kept for it; if a proof takes longer, a weaker one is written."
        ),
    ] = None,
    crosscheck: Annotated[
        bool, typer.Option("--crosscheck", help="Solve again with PuLP and CBC, and compare.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            help="Write the integer program, model.lp or model.mps, and end; with an option that "
            "needs a solve it is solved as well."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the instance with the bounds found, as JSON.")
    ] = None,
    json_file: JsonFile = None,
) -> int:
    """The hindsight optimum of an instance, or a certified interval around it.

    The waiting is the total latency beyond the output lengths, which no schedule avoids. Ctrl-C
    ends the search with the interval found so far (exit status 130). The time limit counts from the
    reading of the file. A first schedule and bound are found even without time: for a million
    requests they take seconds.

    The search starts from the best schedule that the file carries, as one that --out wrote does, or
    that the library has of a name, for the same goal. Values of custom bounds are shown by name;
    claimed ones count for nothing else (docs/own-bounds.md).
    """
    given = {
        "--goal": goal != "latency",
        "--preemption": preemption != "never",
        "--crosscheck": crosscheck,
        "--out": out,
        "--export": export,
        "--certificate": certificate,
        "--bound": own_bounds,
    }
    objective = _objective(goal, preemption, method, given)
    parsed = parse_source(source)
    check_output(export, (".lp", ".mps"), "--export")
    check_output(out, (".json",), source=parsed.file)
    check_output(certificate, (".json",), "--certificate", source=parsed.file)
    check_json(json_file, source=parsed.file)
    if method.startswith(RELAXATION):
        return relaxed(parsed, method, 0.01 if gap is None else gap, time_limit, threads, json_file)
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
        shown_from = math.inf if json_file == STANDARD_OUTPUT else 0 if alone else LARGE_MODEL
        record["export"] = _export(instance, goal, export, shown_from)
        if alone:
            answer(json_file, "solve", record, f"written to  {export}")
            return 0
    if time_limit is not None and limit is not None and certificate is not None:
        limit *= 1 - CERTIFICATE_SHARE
    start = _start(instance, objective, notes, is_named=parsed.kind == "library")
    # A search that Ctrl-C has ended is saved, however often it is pressed.
    with Interruption(math.inf), _shown_progress(instance, goal) as show:
        result = hindsight.solve(
            instance,
            limit,
            threads=threads,
            seed=seed,
            goal=cast(Any, goal),
            method=cast(Any, method),
            start=start,
            preemption=cast(Any, preemption),
            gap=gap or 0,
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


def _objective(goal: str, preemption: str, method: str, given: Mapping[str, object]) -> str:
    """Return the objective by its name in the library; refuse options that contradict others."""
    for kind, name, known in (("goal", goal, GOALS), ("preemption", preemption, PREEMPTIONS)):
        if name not in known:
            raise UnknownNameError(kind, name, [*known])
    chosen = (f"--goal {goal}", f"--preemption {preemption}", f"--method {method.split('-')[0]}")
    for option in chosen:
        refused, reason = REFUSED.get(option, ((), ""))
        for other in refused:
            if given[other]:
                told = f"{reason}: leave out {option} or {other}"
                raise InvalidValueError(None, other, str(given[other]), told)
    if preemption == "keep":
        return "preemptive_total_latency"
    return "makespan" if goal == "makespan" else "total_latency"


def _refuse_large_crosscheck(instance: Instance) -> None:
    """Refuse a program that the second solver could not hold, before the first one runs."""
    from hindsight.exact.pyomo_model import model_size

    horizon = int(instance.arrival_times.max() + instance.output_lengths.sum())
    model_size(instance, "dense", horizon).refuse_too_large()


def _export(instance: Instance, goal: str, path: Path, shown_from: float) -> dict[str, Any]:
    """Write the model; print its size before it is built if that is at least ``shown_from``."""
    import hindsight
    from hindsight.exact.pyomo_model import last_round, model_size

    horizon = None
    found: dict[str, Any] = {"file": path}
    if goal == "latency":
        horizon = last_round(instance, "dense", None, "latency")
        size = model_size(instance, "dense", horizon)
        found |= {
            "horizon_rounds": horizon,
            "variables": size.columns,
            "constraints": size.rows,
            "non_zeros": size.non_zeros,
            "memory_bytes": size.bytes,
        }
        if size.bytes >= shown_from:
            say(
                f"model  {size.columns:,} variables, {size.rows:,} constraints, {size.non_zeros:,} "
                f"non-zeros, rounds 1 .. {horizon:,}; about {size.bytes / 1e6:,.0f} MB to build"
            )
    hindsight.build_model(instance, "dense", horizon=horizon, goal=cast(Any, goal), path=path)
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
def _shown_progress(instance: Instance, goal: str) -> Iterator[Callable[[Progress], None]]:
    from hindsight.outcomes.result import relative_waiting_gap

    with progress_bar(1, lines=True) as update:
        update(0, "heuristics")

        def show(news: Progress) -> None:
            low, high = news.lower_bound, news.upper_bound
            text = f"{news.phase}: [{low}, {high}] {percent(news.gap)}"
            if goal != "makespan":
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
