"""Subcommand `solve`: compute the hindsight optimum of an instance, or an interval around it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import hindsight
import instances
from instances import Instance, Schedule
from instances.ctrl_c import Interruption
from instances.problem.conditions import conditions
from instances.problem.memory_translation import pooled
from instances.progress import progress_bar

from .console import INTERRUPTED_STATUS, check_output, fail, writing
from .json_output import answer, check_json, instance_fields
from .options import DEFAULT_SECONDS, limit_of
from .sources import parse_source, read_instances
from .verify import record_fields

CERTIFICATE_SHARE, LEAST_PROOF_SECONDS = 0.25, 2.0
"""Time reserved for a certificate: a share of --time-limit, and at least so many seconds."""

RELAXATION = "relaxation"
RELAXATION_GAP = 0.01

SEARCHING = ("--bound", "--crosscheck", "--out", "--certificate")
CONTRADICTIONS: dict[str, tuple[str, ...]] = {
    "--export": SEARCHING,
    "--goal makespan": ("--crosscheck", "--out", "--certificate"),
    "--preemption keep": ("--goal makespan", "--crosscheck", "--out", "--export"),
    "--method relaxation": ("--goal makespan", "--preemption keep", "--export", *SEARCHING),
}
"""Options that contradict some options, by name of the latter. Together they are an error."""


def solve(  # noqa: PLR0913
    source: str,
    *,
    goal: str = "latency",
    preemption: str = "never",
    method: str = "auto",
    time_limit: float = DEFAULT_SECONDS,
    gap: float = 0.0,
    seed: int = 0,
    bound: list[str] | None = None,
    certificate: Path | None = None,
    crosscheck: bool = False,
    export: Path | None = None,
    out: Path | None = None,
    json: Path | None = None,
) -> int:
    """Compute the hindsight optimum of an instance, or a certified interval around it.

    The waiting is the total latency minus the sum of output lengths, which no schedule avoids.
    After Ctrl-C the interval found so far is shown (exit status 130). A first schedule and bound
    are computed whatever the time limit: for a million requests they take seconds.

    The search starts from the schedule in the file of the instance, if --out has stored one.
    Values of custom bounds are shown by name. Values that a bound only claims, without a proof, are
    not used otherwise (docs/own-bounds.md).

    Parameters
    ----------
    source : SOURCE
        INSTANCE.json, a name or library:PATTERN of the library, 'generator:NAME(n=10, seed=0,
        count=1)', 'worst:POLICY(n=12)' or 'trace:FILE(memory_limit=M)'; docs/commands.md has their
        settings.
    goal : latency or makespan
        Quantity that is minimised: total latency, or the last completion.
    preemption : never or keep
        keep: a request may be stopped between rounds, holds no memory then and keeps its tokens.
        Rarely proved above 8 requests: larger instances get an interval.
    method : NAME
        auto, paths, mip or beams; or relaxation for only a lower bound, at any size, also
        relaxation-lp or relaxation-lagrangian (docs/bounds.md).
    time_limit : SECONDS
        Time limit of the search for each optimum or bound. inf: no limit.
    gap : SHARE
        Relative gap at which to stop; relaxations stop at 0.01 unless it is set.
    seed : NUMBER
        Seed of all random choices.
    bound : FILE.py:NAME
        Custom lower bound; repeatable.
    certificate : FILE.json
        Write a proof that verify checks. It gets a quarter of the time limit, but at least two
        seconds. If a proof takes longer, a proof of a weaker bound is written.
    crosscheck : FLAG
        Solve again with PuLP and CBC.
    export : FILE
        Only write the integer program in its dense form, as .lp or .mps.
    out : FILE.json
        Write the instance with the bounds and the schedule found.
    json : FILE
        Write the answer as JSON; - is standard output, which then has nothing else.
    """
    outputs = {"--export": export, "--out": out, "--certificate": certificate}
    given = {
        **outputs,
        "--goal makespan": goal == "makespan",
        "--preemption keep": preemption == "keep",
        "--method relaxation": method.startswith(RELAXATION),
        "--bound": bound,
        "--crosscheck": crosscheck,
    }
    for option, others in CONTRADICTIONS.items():
        for other in others:
            if given[option] and given[other]:
                fail(f"{other} contradicts {option}: leave out one of them")
    parsed = parse_source(source)
    for option, path in outputs.items():
        kinds = (".lp", ".mps") if option == "--export" else (".json",)
        check_output(path, kinds, option, source=parsed.file)
    check_json(json, source=parsed.file)
    found, notes = read_instances([parsed])
    if len(found) != 1:
        reason = f"stands for {len(found)} instances, and one is needed"
        fail(f"source {source} {reason}: docs/optimiser.md has a loop over a set")
    (instance,), limit = found, limit_of(time_limit)
    answered: dict[str, Any] = {}
    if export is not None:
        model: Any = hindsight.build_model(instance, "dense", goal=cast(Any, goal), path=export)
        size = {"variables": model.nvariables(), "constraints": model.nconstraints()}
        answered = {"export": {"file": export, **size}}
    elif method.startswith(RELAXATION):
        answered = _relaxed(instance, method, limit, gap)
    else:
        options = {"goal": goal, "preemption": preemption, "method": method, "gap": gap}
        options |= {"seed": seed, "bounds": bound or ()}
        kept = CERTIFICATE_SHARE * (limit or 0) if certificate else 0.0
        result = _search(instance, options, limit and limit - kept, out, crosscheck)
        answered = _described(result)
        if certificate is not None:
            left = limit if limit is None else max(LEAST_PROOF_SECONDS, limit - result.runtime)
            answered["certificate"] = _certified(result, certificate, left, notes)
        if crosscheck and result.stop_reason != "interrupted":
            answered["cbc"] = _crosschecked(result, limit)
    document = {**instance_fields(instance), **answered, "notes": notes}
    answer(json, "solve", document, document, *([answered["bounds"]] if bound else []))
    return INTERRUPTED_STATUS if answered.get("stop_reason") == "interrupted" else 0


def _search(
    instance: Instance, options: Any, limit: float | None, out: Path | None, crosscheck: bool
) -> hindsight.Result:
    """Search for the optimum of an instance and return the result.

    The search begins with the schedule in the file of the instance, if there is one. If ``out`` is
    given, the instance is written to this file together with the bounds found.
    """
    if crosscheck:
        from hindsight.exact.pyomo_model import model_size

        # Raise an error before the search if the integer program of the second solver is too large.
        last = int(instance.arrival_times.max() + instance.output_lengths.sum())
        model_size(instance, "dense", last).refuse_too_large()
    known = instances.known_bounds(instance)
    options["start"] = known and known.start_times and Schedule(instance, known.start_times)
    # Ctrl-C ends the search. Its result so far is then saved, even if Ctrl-C is pressed again.
    with Interruption(math.inf), progress_bar() as update:
        options["progress"] = lambda news: update(0, str(news))
        result = hindsight.solve(instance, limit, **options)
        if out is not None:
            bounds = result.known_bounds(f"llm-hindsight solve, {result.status}")
            with writing():
                instances.save(bounds.attached_to(instance), out)
    return result


def _described(result: hindsight.Result) -> dict[str, Any]:
    named = ("goal", "preemption", "status", "stop_reason")
    found = {
        **{name: getattr(result, name) for name in named},
        "optimum_rounds": (result.lower_bound, result.upper_bound),
        "certified_lower_bound_rounds": result.certified_lower_bound,
        "gap": result.gap,
        "certified_gap": result.certified_gap,
        "bounds": [{"bound": name, **one._asdict()} for name, one in result.bounds.items()],
    }
    preempts = result.preemption == "keep"
    found |= record_fields(result.schedule.problem.digest, str(result.goal), preempts=preempts)
    if result.goal == "latency":
        found["waiting_rounds"] = result.waiting_interval
        found["certified_waiting_gap"] = result.waiting_gap
    found["holds_for"] = conditions(False, preempts=preempts)
    found["runtime_seconds"] = result.runtime
    if isinstance(result.schedule, Schedule):
        found["start_rounds"] = result.schedule.start_times.tolist()
    return found


def _certified(
    result: hindsight.Result, path: Path, left: float | None, notes: list[str]
) -> dict[str, Any]:
    """Write a certificate of the result to a file, and return the fields to print about it.

    The proof may take ``left`` seconds. If the certificate proves a weaker bound than the certified
    bound of the result, this is added to ``notes``.
    """
    found: dict[str, Any] = {"file": path}
    with writing():
        verdict = hindsight.write_certificate(result, path, time_limit=left)
        found["verdict"] = "optimal" if verdict.is_optimal else "valid interval"
        found |= {"proof": verdict.kind, "lower_bound_rounds": verdict.lower_bound}
        if verdict.lower_bound < result.certified_lower_bound:
            notes.append(
                f"the certificate proves {verdict.lower_bound}, less than the certified lower "
                f"bound {result.certified_lower_bound}: a proof of that was not ready in the time "
                "kept for it, or cannot be written; a longer --time-limit may help"
            )
    return found


def _crosschecked(result: Any, limit: float | None) -> dict[str, Any]:
    """Solve the instance again with PuLP and CBC, and return the fields to print about it.

    An optimum outside the interval of the first solver raises an error.
    """
    interval = (result.lower_bound, result.upper_bound)
    opinion = hindsight.second_opinion(result.schedule.problem, interval, limit)
    total = None if opinion.schedule is None else opinion.schedule.total_latency
    return {"total_latency_rounds": total, "is_optimal": opinion.is_optimal}


def _relaxed(instance: Instance, method: str, limit: float | None, gap: float) -> dict[str, Any]:
    """Solve a relaxation of an instance. Return the fields to print, with the lower bounds."""
    from hindsight.prices.volume import small_transportation_bound

    kind: Any = method.removeprefix(RELAXATION).removeprefix("-") or "auto"
    with progress_bar() as update:
        found = hindsight.relax(
            instance,
            limit,
            method=kind,
            tolerance=gap or RELAXATION_GAP,
            progress=lambda news: update(0, str(news)),
        )
    return {
        "method": found.method,
        "stop_reason": found.stop_reason,
        "certified_lower_bound_rounds": found.certified_bound,
        "transportation_lower_bound_rounds": small_transportation_bound(pooled(instance)),
        "value_rounds": found.objective,
        "certified_waiting_rounds": max(0, found.certified_bound - instance.total_output_length),
        "runtime_seconds": found.runtime,
    }
