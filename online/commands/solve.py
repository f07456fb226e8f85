"""The hindsight optimum of an instance, a certified interval around it, or a bound at any size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

import instances
from hindsight.outcomes.result import percent
from instances import Instance, InvalidValueError, Schedule, UnknownNameError
from online.trials.intervals import Interval, rounded_down
from online.trials.library import entry_of

from .console import INTERRUPTED_STATUS, check_output, progress_bar, writing
from .json_output import Answer, JsonFile, answer, check_json
from .options import Seed, TimeLimit, limit_of
from .sources import OneSource, parse_source, read_instance

if TYPE_CHECKING:
    from hindsight import Progress, Result

CERTIFICATE_SHARE = 0.25
"""Share of the time limit that is kept for the certificate."""

RELAXATION = "relaxation"
RELAXATION_GAP = 0.01
GOALS: dict[str, tuple[str, ...]] = {
    "latency": (),
    "makespan": ("--crosscheck", "--out", "--certificate"),
}
PREEMPTIONS: dict[str, tuple[str, ...]] = {
    "never": (),
    "keep": ("--goal", "--crosscheck", "--out", "--export"),
}
WITHOUT_RELAXATION: tuple[str, ...] = (
    *("--goal", "--preemption", "--crosscheck", "--out", "--export", "--certificate", "--bound"),
)
"""Options that a choice of another option refuses."""
WITHOUT_EXPORT = ("--bound", "--crosscheck", "--out", "--certificate")
"""Options of a search, which `--export` does not begin."""


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
            help="auto, paths, mip or beams (docs/bounds.md); or relaxation: only a lower bound, "
            "at any size, also relaxation-lp, -lagrangian or -states (docs/bounds.md)."
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
    own_bounds: Annotated[
        list[str] | None,
        typer.Option("--bound", metavar="FILE.py:NAME", help="Custom lower bound; repeatable."),
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
        typer.Option(help="Write the integer program, model.lp or model.mps, and end."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the instance with the bounds found, as JSON.")
    ] = None,
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
    asked = SimpleNamespace(**locals())
    _refuse(asked)
    parsed = parse_source(source)
    check_output(export, (".lp", ".mps"), "--export")
    check_output(out, (".json",), source=parsed.file)
    check_output(certificate, (".json",), "--certificate", source=parsed.file)
    check_json(json_file, source=parsed.file)
    instance, notes = read_instance(parsed)
    found = Answer()
    found.add_instance(instance)
    if export is not None:
        _export(found, instance, goal, export)
        answer(json_file, "solve", found.found, found.shown)
        return 0
    if method.startswith(RELAXATION):
        stop_reason = _relax(found, instance, asked)
    else:
        start = _start(instance, asked, notes, is_named=parsed.kind == "library")
        stop_reason = _search(found, instance, asked, start)
    found.add("notes", notes, "note", "; ".join(notes))
    answer(json_file, "solve", found.found, found.shown)
    return INTERRUPTED_STATUS if stop_reason == "interrupted" else 0


def _refuse(asked: Any) -> None:
    """Refuse options that are unknown, or that contradict each other."""
    is_relaxed = asked.method.startswith(RELAXATION)
    refusing = [("--method relaxation", WITHOUT_RELAXATION)] if is_relaxed else []
    refusing += [("--export", WITHOUT_EXPORT)] if asked.export else []
    for option, name, known in (
        ("goal", asked.goal, GOALS),
        ("preemption", asked.preemption, PREEMPTIONS),
    ):
        if name not in known:
            raise UnknownNameError(option, name, [*known])
        refusing.append((f"--{option} {name}", known[name]))
    given = {
        "--goal": asked.goal if asked.goal != "latency" else None,
        "--preemption": asked.preemption if asked.preemption != "never" else None,
        "--bound": asked.own_bounds,
        "--crosscheck": asked.crosscheck,
        **{f"--{name}": getattr(asked, name) for name in ("out", "export", "certificate")},
    }
    for option, others in refusing:
        for other in others:
            if given[other]:
                reason = f"contradicts {option}: leave out one of them"
                raise InvalidValueError(None, other, str(given[other]), reason)


def _search(found: Answer, instance: Instance, asked: Any, start: Any) -> str:
    """Search for the optimum, write and describe what is found, and return the stop reason."""
    import hindsight
    from hindsight.exact.pyomo_model import model_size
    from instances.ctrl_c import Interruption

    if asked.crosscheck:
        # What the second solver could not hold is refused before the first one runs.
        last = int(instance.arrival_times.max() + instance.output_lengths.sum())
        model_size(instance, "dense", last).refuse_too_large()
    limit = limit_of(asked.time_limit)
    is_shared = asked.certificate and asked.time_limit is not None and limit is not None
    # A search that Ctrl-C has ended is saved, however often it is pressed.
    with Interruption(math.inf), _shown_progress() as show:
        result = hindsight.solve(
            instance,
            limit * (1 - CERTIFICATE_SHARE) if is_shared and limit else limit,
            seed=asked.seed,
            goal=asked.goal,
            method=asked.method,
            start=start,
            preemption=asked.preemption,
            gap=asked.gap or 0,
            bounds=asked.own_bounds or (),
            progress=show,
        )
        if asked.out is not None:
            bounds = result.known_bounds(f"llm-hindsight solve, {result.status}")
            with writing():
                instances.save(bounds.attached_to(instance), asked.out)
    _describe(found, result)
    if asked.certificate is not None:
        left = max(0.0, limit - result.runtime) if is_shared and limit is not None else None
        with writing():
            _certify(found, result, asked.certificate, left)
    if asked.crosscheck and result.stop_reason != "interrupted":
        opinion = hindsight.second_opinion(
            instance, (result.lower_bound, result.upper_bound), limit
        )
        total = None if opinion.schedule is None else opinion.schedule.total_latency
        proof = "optimal" if opinion.is_optimal else "not proved"
        record = {"total_latency_rounds": total, "is_optimal": opinion.is_optimal}
        found.add("cbc", record, "CBC", f"{'none' if total is None else total}, {proof}; agrees")
    return result.stop_reason


def _start(instance: Instance, asked: Any, notes: list[str], *, is_named: bool) -> Any:
    """The best schedule that the file carries, or that the library has of a name."""
    known = instances.known_bounds(instance)
    if known is not None and known.start_times is not None:
        return Schedule(instance, known.start_times)
    goal = "total_latency" if asked.goal == "latency" else asked.goal
    entry = entry_of(instance) if is_named else None
    if entry is None or entry.goal != {"keep": f"preemptive_{goal}"}.get(asked.preemption, goal):
        return None
    if entry.record is None:
        return None
    notes.append(f"starts from the library's schedule of {entry.record.upper_bound}")
    return entry.record.schedule


@contextmanager
def _shown_progress() -> Iterator[Callable[[Progress], None]]:
    with progress_bar(1) as update:

        def show(news: Progress) -> None:
            interval = f"[{news.lower_bound}, {news.upper_bound}] {percent(news.gap)}"
            update(0, f"{news.phase}: {interval}")

        yield show


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
    rows = [
        {"name": name, "lower_bound_rounds": one.value, "proved": one.certified}
        for name, one in own.items()
    ]
    if own:
        found.add("own_bounds", rows)
    for name, one in own.items():
        kind = "proved by its prices" if one.certified else "claimed"
        found.show(of + name, f"{one.value}, {kind}")
    found.add("gap", result.gap, "gap", percent(result.gap))
    found.add("certified_gap", result.certified_gap, "certified gap", percent(result.certified_gap))
    if result.goal == "latency":
        waiting = result.waiting_interval
        text = Interval.between(*waiting).text(0)
        found.add("waiting_rounds", waiting, f"{of}waiting", text)
        gap = result.waiting_gap
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


def _export(found: Answer, instance: Instance, goal: str, path: Path) -> None:
    """Write the integer program, and name its size."""
    import hindsight
    from hindsight.exact.pyomo_model import last_round, model_size

    horizon: int | None = None
    record: dict[str, Any] = {"file": path}
    if goal == "latency":
        horizon = last_round(instance, "dense", None, "latency")
        size = model_size(instance, "dense", horizon)
        record |= {
            "horizon_rounds": horizon,
            "variables": size.columns,
            "constraints": size.rows,
            "non_zeros": size.non_zeros,
            "memory_bytes": size.bytes,
        }
        counts = f"{size.columns:,} variables, {size.rows:,} constraints"
        found.show("model", f"{counts}, {size.non_zeros:,} non-zeros, rounds 1 .. {horizon:,}")
    options: Any = {"horizon": horizon, "goal": goal, "path": path}
    hindsight.build_model(instance, "dense", **options)
    found.add("export", record, "written to", path)


def _relax(found: Answer, instance: Instance, asked: Any) -> str:
    """Describe the linear relaxation and its certified bound; return the stop reason."""
    import hindsight
    from hindsight.prices.volume import small_transportation_bound
    from hindsight.runtime.resources import resident_bytes
    from instances.problem.memory_translation import pooled

    method: Any = asked.method.removeprefix(RELAXATION).removeprefix("-") or "auto"
    gap = RELAXATION_GAP if asked.gap is None else asked.gap
    with progress_bar(1) as update:
        relaxation = hindsight.relax(
            instance,
            limit_of(asked.time_limit),
            method=method,
            tolerance=None if method == "states" else gap,
            progress=lambda news: update(0, f"{news.phase} {news.nodes}: {news.text}"),
        )
    transportation = small_transportation_bound(pooled(instance))
    used, stop = relaxation.method, relaxation.stop_reason
    memory, value = resident_bytes(), relaxation.objective
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
    found.add("memory_bytes", memory, "memory", f"{memory / 1e6:.0f} MB")
    return stop
