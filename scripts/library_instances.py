"""Add instances to a set of the library.

The instance of a published name never changes, so a name that exists is refused. The file of a set
has the generator and the parameters of each instance, or its requests.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import _checkout  # noqa: F401
import typer

from instances import Instance, InvalidValueError, Workload, load
from instances.catalogue.library import FOLDER
from instances.files import write_atomically
from instances.problem.memory_rule import TOKENS
from online.commands.console import run, say, writing


def entry(name: str, problem: Instance | Workload, goal: str) -> dict[str, Any]:
    """Return the entry of an instance, with its requests, for the file of a set."""
    found: dict[str, Any] = {"name": name, "n": len(problem)}
    if goal != "total_latency":
        found["goal"] = goal
    if goal == "seconds":
        found["batch_time"] = "llama-2-70b-2xa100"
    found["digest"] = problem.digest
    if problem.memory_rule != TOKENS:
        found["memory_rule"] = asdict(problem.memory_rule)
    found["memory_limit"] = problem.memory_limit
    if metadata := {k: v for k, v in problem.metadata.items() if k not in ("origin", "library")}:
        found["metadata"] = metadata
    if problem.arrival_times.any():
        found["arrival_times"] = problem.arrival_times.tolist()
    found["prompt_lengths"] = problem.prompt_lengths.tolist()
    found["output_lengths"] = problem.output_lengths.tolist()
    return found


def add(
    set_name: Annotated[str, typer.Argument(metavar="SET", help="Name of the set.")],
    files: Annotated[list[Path], typer.Argument(help="Instances of `llm-hindsight generate`.")],
    goal: Annotated[str, typer.Option(help="What their records bound.")] = "total_latency",
    folder: Annotated[Path, typer.Option(help="Folder of sets.")] = FOLDER / "sets",
) -> None:
    """Add the instances of files to a set, under names of the form SET-FILE-nN."""
    path = folder / f"{set_name}.json"
    head = json.loads(path.read_text("utf-8"))
    entries = head.pop("entries")
    names = {one["name"] for one in entries}
    for file in files:
        problem = load(file)
        name = f"{set_name}-{file.stem}-n{len(problem)}"
        if name in names:
            raise InvalidValueError(set_name, "name", name, "is taken")
        entries.append(entry(name, problem, goal))
        names.add(name)
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in entries)
    begun = json.dumps(head, separators=(",", ":"))[:-1]
    with writing():
        write_atomically(path, f'{begun},"entries":[\n{lines}\n]}}\n')
        say(f"{set_name}: {len(entries)} instances")


if __name__ == "__main__":
    run(add)
