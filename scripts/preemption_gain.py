"""Gain from preemption that keeps tokens: the preemptive optimum over the optimum."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import _checkout  # noqa: F401
import typer

import instances
from instances.files import write_atomically
from instances.settings import parse_settings
from online.commands.console import (
    Wide,
    check_output,
    fail,
    print_table,
    progress_bar,
    run,
    writing,
)
from online.runtime.processes import WorkerPool
from online.worst_cases import archive
from studies.preemption import PreemptionGain, gain_table, preemption_gain

Task = tuple[str, instances.Instance, float]

FAMILIES = (
    "arrival-model-1:n=6",
    "arrival-model-2:n=6",
    *(f"{name}:n=6" for name in ("uniform", "normal", "binomial", "exponential", "mixed")),
)


def preemption_gains(
    family: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="Registered generator; repeatable. Default: those of [J25] and [W25], n = 6.",
        ),
    ] = None,
    archives: Annotated[
        Path | None,
        typer.Option("--archive", help="Folder of worst cases, as search_worst_case.py makes it."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Draws of each family, seeds 0, 1, ...")] = 20,
    time_limit: Annotated[float, typer.Option(min=0, help="Seconds for each optimum.")] = 20.0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    out: Annotated[Path | None, typer.Option(help="Write the table as .csv or .md.")] = None,
    wide: Wide = False,
) -> None:
    """Compute how far the preemptive optimum lies below the optimum, as proved intervals."""
    check_output(out, (".csv", ".md"))
    tasks = _drawn(family or ([] if archives else FAMILIES), count, time_limit)
    if archives is not None:
        tasks += _archived(archives, time_limit)
        if not tasks:
            fail(f"{archives}: holds no worst cases")
    gains = []
    with progress_bar(len(tasks)) as update, WorkerPool[Task, PreemptionGain](jobs) as pool:
        for number, gain in enumerate(pool.map(_gain, tasks), 1):
            gains.append(gain)
            update(number, f"{gain.family}: {gain.ratio}")
    table = gain_table(gains)
    if out is not None:
        with writing():
            text = table.to_csv() if out.suffix.lower() == ".csv" else table.to_markdown()
            write_atomically(out, text)
    print_table(table, wide=wide)


def _gain(task: Task) -> PreemptionGain:
    return preemption_gain(*task)


def _drawn(families: list[str] | tuple[str, ...], count: int, time_limit: float) -> list[Task]:
    tasks = []
    for text in families:
        name, _, settings = text.partition(":")
        chosen = parse_settings(filter(None, settings.split(",")), "--family")
        for seed in range(count):
            tasks.append((text, instances.generate(name, seed, **chosen), time_limit))
    return tasks


def _archived(folder: Path, time_limit: float) -> list[Task]:
    """The worst case of each search of each policy, each instance once."""
    tasks, seen = [], set()
    for path in sorted(folder.glob("*.json")):
        for search in archive.load(path):
            for case in search.cases[:1]:
                instance = case.draft.instance()
                if instance.digest not in seen:
                    seen.add(instance.digest)
                    tasks.append((f"worst cases of {path.stem}", instance, time_limit))
    return tasks


if __name__ == "__main__":
    run(preemption_gains)
