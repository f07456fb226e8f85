"""Search for small instances that maximise policies' proved competitive ratios."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from online.comparison.ratios import rounded
from online.policy_interface.specs import PolicySpec
from online.worst_cases.archive import archive_path, describe, load, save
from online.worst_cases.drafts import Space
from online.worst_cases.scoring import Case, Target
from online.worst_cases.search import EVALUATIONS, SearchState, search

from .console import INTERRUPTED_STATUS, fail, progress_bar, say
from .options import Policies, Seed, chosen_policies, importing

SETTINGS = ("all-at-once", "arrivals", "equal-prompts", "equal-prompts-arrivals")


@importing
def worst_case(  # noqa: PLR0913
    policy: Policies = None,
    archive: Annotated[
        Path | None,
        typer.Option(help="Folder of the archives, one JSON a policy; found cases are built on."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(help=f"{', '.join(SETTINGS)}; repeatable. Default: the first two."),
    ] = None,
    max_requests: Annotated[int, typer.Option(min=1, help="Largest n.")] = 12,
    max_memory: Annotated[int, typer.Option(min=2, help="Largest M.")] = 64,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="No new round after this; default: one round.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds for each search.")] = None,
    evaluations: Annotated[
        int, typer.Option(min=1, help="Runs of the policy in each of a round's four populations.")
    ] = EVALUATIONS,
    seed: Seed = 0,
    no_shapes: Annotated[
        bool, typer.Option("--no-shapes", help="Never begin with the known traps' shape.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes; results do not depend on it.")] = 1,
) -> int:
    """Search for small instances that maximise policies' proved competitive ratios.

    Each policy's archive is written after every round; the same command again goes on from there.
    Ctrl-C keeps the finished rounds (exit status 130).
    """
    specs = chosen_policies(policy)
    spaces = [_space(name, max_requests, max_memory) for name in setting or SETTINGS[:2]]
    targets = [Target(spec, space) for spec in specs for space in spaces]
    if archive is None:
        fail("--archive FOLDER is missing")
    archive.mkdir(exist_ok=True)
    archives = {archive_path(archive, spec): _loaded(archive, spec) for spec in specs}
    todo = []
    for target in targets:
        known = archives[archive_path(archive, target.spec)]
        fresh = SearchState(target, seed, not no_shapes)
        todo.append(known.get(target.setting, fresh))
    with progress_bar(len(todo)) as update:

        def keep(standing: SearchState) -> None:
            path = archive_path(archive, standing.target.spec)
            archives[path][standing.target.setting] = standing
            save(path, archives[path].values())
            text = _line(standing)
            update(0, text)
            say(text)

        seconds = None if minutes is None else 60 * minutes
        try:
            search(
                todo,
                rounds=rounds,
                seconds=seconds,
                jobs=jobs,
                evaluations=evaluations,
                progress=keep,
            )
        except KeyboardInterrupt:
            fail("interrupted; the rounds that were finished are saved", INTERRUPTED_STATUS)
    return 0


def _space(setting: str, max_requests: int, max_memory: int) -> Space:
    if setting not in SETTINGS:
        fail(f"--setting {setting!r} is not one of {', '.join(SETTINGS)}")
    latest = max_memory if setting.endswith("arrivals") else 0
    return Space(max_requests, max_memory, latest, setting.startswith("equal-prompts"))


def _loaded(folder: Path, spec: PolicySpec) -> dict[str, SearchState]:
    path = archive_path(folder, spec)
    found = load(path, spec) if path.exists() else []
    for standing in found:
        if standing.target.spec.label != spec.label:
            fail(f"{path} is an archive of {standing.target.spec.label}, not of {spec.label}")
    # The archive knows the policy by its name, which may be that of a class in a file.
    return {
        one.target.setting: replace(one, target=replace(one.target, spec=spec)) for one in found
    }


def _line(standing: SearchState) -> str:
    name = f"{standing.target.spec.label}, {standing.target.setting}, round {standing.rounds}"
    if not standing.cases:
        return f"{name}: nothing proved yet"
    best = standing.cases[0]
    return f"{name}: {_ratio(best)} on {describe(best.draft)}"


def _ratio(case: Case) -> str:
    return rounded(case.ratio) + (f" to the {case.compared_with}" if case.preemptive else "")
