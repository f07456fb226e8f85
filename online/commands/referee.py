"""Score a policy that nobody has read: run apart, against certified bounds, on instances unseen."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

import typer

import instances
from online.comparison.ratios import Interval
from online.referee.judging import (
    FRESH,
    IMPOSSIBLE,
    NAMED,
    SCORED,
    Case,
    Ruling,
    fresh_cases,
    judge,
    library_cases,
)
from online.referee.sandbox import SEED_VARIABLE, Limits, check_limits, hide_memory
from online.runtime.table import Table

from .console import FAILED_STATUS, Wide, fail, progress_bar
from .json_output import JsonFile, answer, check_json
from .options import POLICY_METAVAR, OwnRecords, record_store


def referee(  # noqa: PLR0913
    policy: Annotated[str, typer.Argument(metavar=POLICY_METAVAR, help="The policy to score.")],
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="SET or NAME", help="Sets, instances or patterns; repeatable."
        ),
    ] = None,
    largest: Annotated[
        int, typer.Option(min=1, help="Leave out named instances of more requests than this.")
    ] = 60,
    fresh: Annotated[
        int, typer.Option(min=0, help="How many instances of the same families to draw.")
    ] = 5,
    seed: Annotated[
        str | None,
        typer.Option(
            envvar=SEED_VARIABLE,
            help="Secret of the fresh draws; better as the variable, as a process may read command "
            "lines. Default: drawn at random, and told at the end.",
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Wall time of each run.")] = 20.0,
    megabytes: Annotated[int, typer.Option(min=1, help="Memory of each run.")] = 1024,
    proof_seconds: Annotated[
        float, typer.Option(min=0.1, help="Time to prove the bounds of each fresh draw.")
    ] = 10.0,
    intervals: Annotated[
        bool,
        typer.Option("--intervals", help="Tell only the least and the largest output length."),
    ] = False,
    records: OwnRecords = None,
    wide: Wide = False,
    json_file: JsonFile = None,
) -> int:
    """Score a policy by its certified ratio, on named instances and on fresh draws of their kinds.

    Each run has a process of its own, which gets what a policy may see as it happens, and neither
    the instance nor what is still to come. It is ended when its time or memory is over. A ratio
    below 1, which cannot be, is reported with the instance. Exit status 0 if every run was scored,
    1 if not.
    """
    check_json(json_file)
    limits = Limits(seconds, megabytes)
    check_limits(limits)
    hide_memory()
    if not sets:
        fail("--set is missing: name sets of the library, such as j25-m1")
    entries = [one for one in instances.library().matching(*sets) if one.n <= largest]
    cases = library_cases(entries, record_store(records))
    if not cases:
        fail(f"none of {', '.join(sets)} is in rounds, tokens and total latency, with --largest")
    secret = secrets.token_hex(16) if seed is None else seed
    rulings: list[Ruling] = []
    with progress_bar(len(cases) + 2 * fresh) as update:
        drawn = fresh_cases(entries, fresh, secret, proof_seconds)
        for done, case in enumerate(drawn, 1):
            cases.append(case)
            update(done, f"proved {case.name}")
        for done, ruling in enumerate(judge(policy, cases, limits, intervals=intervals), 1):
            rulings.append(ruling)
            update(fresh + done, f"{ruling.case.name}: {ruling.status}")
    scores = {origin: _score(rulings, origin) for origin in (NAMED, FRESH)}
    document = {
        "policy": policy,
        "seed": secret if seed is None else None,
        "told": "intervals" if intervals else "exact lengths",
        "seconds": seconds,
        "megabytes": megabytes,
        "mean_ratio": scores,
        "scored": sum(one.status == SCORED for one in rulings),
        "runs": [_record(one) for one in rulings],
    }
    lines = _lines(rulings)
    if seed is None and fresh:
        lines.append(f"seed of the fresh draws: {secret}")
    answer(json_file, "referee", document, _table(rulings), *lines, wide=wide)
    return 0 if all(one.status == SCORED for one in rulings) else FAILED_STATUS


def _score(rulings: list[Ruling], origin: str) -> Interval | None:
    """Return the mean ratio; None unless all runs of this origin were scored."""
    chosen = [one for one in rulings if one.case.origin == origin]
    if not chosen or any(one.status != SCORED for one in chosen):
        return None
    return Interval.mean_of([one.ratio for one in chosen])


def _record(ruling: Ruling) -> dict[str, Any]:
    case = ruling.case
    found: dict[str, Any] = {
        "instance": case.name,
        "origin": case.origin,
        "status": ruling.status,
        "total_latency_rounds": ruling.total_latency,
        "optimum_rounds": [case.lower, case.upper],
        "ratio": None if ruling.status != SCORED else ruling.ratio,
        "reason": ruling.reason,
    }
    if ruling.status == IMPOSSIBLE:
        found["requests"] = _rows(case)
        found["memory_limit"] = case.instance.memory_limit
    return found


def _rows(case: Case) -> list[list[float]]:
    """Return arrival, prompt and output of each request."""
    one = case.instance
    columns = (one.arrival_times, one.prompt_lengths, one.output_lengths)
    return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _table(rulings: list[Ruling]) -> Table:
    columns = ("instance", "status", "total latency", "optimum, rounds", "ratio")
    rows = []
    for one in rulings:
        case = one.case
        optimum = f"{case.lower}" if case.lower == case.upper else f"[{case.lower}, {case.upper}]"
        total = "" if one.total_latency is None else str(one.total_latency)
        rows.append(
            (case.name, one.status, total, optimum, str(one.ratio) if one.status == SCORED else "")
        )
    return Table("", columns, tuple(rows), frozenset(("instance", "status")))


def _lines(rulings: list[Ruling]) -> list[str]:
    lines = [f"{one.case.name}: {one.status}: {one.reason}" for one in rulings if one.reason]
    for origin, told in ((NAMED, "named instances"), (FRESH, "fresh draws")):
        score = _score(rulings, origin)
        if score is not None:
            lines.append(f"mean ratio on {told}: {score}")
        elif any(one.case.origin == origin for one in rulings):
            lines.append(f"mean ratio on {told}: none, as not every run was scored")
    return lines
