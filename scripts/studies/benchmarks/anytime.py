"""How far the interval of a solve is from closed as time passes, for versions of this package."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeAlias

import numpy as np

from instances import Instance, Library, LibraryEntry, generate
from instances.generators.length_laws import draw_lengths, lognormal_law
from instances.problem.memory_rule import TOKENS
from online.pictures import style
from online.runtime.table import Table

CHILD = Path(__file__).with_name("listening_solve.py")
SAMPLED = 45
OPTIONS: dict[str, dict[str, Any]] = {
    "makespan": {"objective": "makespan"},
    "preemptive_total_latency": {"preemptive": True},
}
Steps: TypeAlias = Sequence[tuple[float, float]]
Key: TypeAlias = tuple[str, str, int]
"""Set, instance and repeat."""
Solved: TypeAlias = dict[str, dict[Key, Steps]]


@dataclass(frozen=True)
class Draw:
    """An instance that is none of the library's, with the attributes of a `LibraryEntry`."""

    set: str
    name: str
    instance: Instance
    goal: str = "total_latency"
    batch_time: str | None = None


def sample(library: Library) -> list[LibraryEntry]:
    """Choose `SAMPLED` instances: as many of every set, evenly over its sizes."""
    sets = {one.name: [entry for entry in library if entry.set == one.name] for one in library.sets}
    share, rest = divmod(SAMPLED, len(sets))
    largest = sorted(sets, key=lambda name: -len(sets[name]))[:rest]
    chosen = []
    for name, entries in sets.items():
        count, by_size = share + (name in largest), sorted(entries, key=lambda one: one.n)
        chosen += [by_size[(2 * k + 1) * len(by_size) // (2 * count)] for k in range(count)]
    return chosen


@cache
def draws() -> list[Draw]:
    """Draw eight instances with arrivals, and four of chats that are all there at once."""
    sizes = [(n, seed) for n in (30, 40, 50, 60) for seed in (101, 102)]
    laws = lognormal_law(1600, 2388, 8_000), lognormal_law(320, 455, 2_000)
    chats = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        prompts, outputs = (draw_lengths(rng, law, 500) for law in laws)
        chats.append(Instance.from_arrays(prompts, outputs, memory_limit=40_000))
    return [
        *(
            Draw("arrivals", f"arrivals-n{n}-{s}", generate("arrival-model-2", s, n=n))
            for n, s in sizes
        ),
        *(Draw("chats", f"chats-n500-{seed}", chat) for seed, chat in enumerate(chats)),
    ]


def problems(
    library: Library, patterns: Sequence[str], largest: float = math.inf
) -> list[LibraryEntry | Draw]:
    """Take the sample and the draws, or what patterns name of the whole library and the draws."""
    pool = [*(library if patterns else sample(library)), *draws()]
    named = [one for one in pool if any(fnmatchcase(one.name, p) for p in patterns or "*")]
    return [one for one in named if len(one.instance) <= largest]


def task_of(problem: LibraryEntry | Draw, threads: int | None) -> dict[str, Any]:
    """Say a problem in JSON, as `listening_solve` reads it."""
    one = problem.instance
    options = {**OPTIONS.get(problem.goal, {})}
    if threads is not None:
        options["threads"] = threads
    if problem.batch_time:
        options["batch_time"] = problem.batch_time
    columns = (one.prompt_lengths, one.output_lengths, one.arrival_times)
    return {
        "columns": [column.tolist() for column in columns],
        "memory_limit": one.memory_limit,
        "memory_rule": None if one.memory_rule == TOKENS else asdict(one.memory_rule),
        "options": options,
    }


def solve_with(folder: Path, task: dict[str, Any]) -> dict[str, Any]:
    """Solve in a fresh process of the version in a folder; tell why where that fails."""
    own = folder / ".venv" / "bin" / "python"
    # -P: the program's own folder is none of that version's.
    command = [str(own if own.exists() else sys.executable), "-P", str(CHILD)]
    environment = {**os.environ, "PYTHONPATH": str(folder.resolve())}
    settings: Any = {"env": environment, "timeout": 2 * sum(task["seconds"]) + 300}
    try:
        ended = subprocess.run(
            command, input=json.dumps(task), capture_output=True, text=True, check=False, **settings
        )
    except subprocess.TimeoutExpired:
        return {"failed": "well over the limit"}
    if ended.returncode:
        return {"failed": (ended.stderr.strip().splitlines() or [f"status {ended.returncode}"])[-1]}
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def gap_steps(intervals: Iterable[Sequence[float]]) -> Steps:
    """Follow the gap of intervals (seconds, lower, upper): (from when, gap), 1 in the beginning."""
    lower, upper, steps = 0.0, math.inf, [(0.0, 1.0)]
    for seconds, low, high in sorted(map(tuple, intervals)):
        lower, upper = max(lower, low), min(upper, high)
        steps.append((seconds, max(0.0, 1 - lower / upper)))
    return steps


def gap_at(steps: Steps, seconds: float) -> float:
    """Return the gap at a time."""
    return next(gap for since, gap in reversed(steps) if since <= seconds)


def mean_over_log_time(steps: Steps, first: float, last: float) -> float:
    """Integrate the gap over the logarithm of time, and divide by the length of that axis."""
    if first >= last:
        return gap_at(steps, last)
    times = [first, *(since for since, _ in steps if first < since < last), last]
    area = sum(gap_at(steps, a) * math.log(b / a) for a, b in pairwise(times))
    return area / math.log(last / first)


def compared(solved: Solved, set_name: str = "all") -> tuple[list[str], list[Key]]:
    """Name the versions that solved any of a set, and what all of these solved of it."""
    keys = {
        version: {key for key in steps if set_name in ("all", key[0])}
        for version, steps in solved.items()
    }
    able = [version for version, found in keys.items() if found]
    return able, sorted(set.intersection(*(keys[one] for one in able))) if able else []


def gaps_table(solved: Solved, seconds: Sequence[float]) -> Table:
    """Mean and median gap of each set and time: two columns for each version."""
    rows = []
    for name in [*dict.fromkeys(key[0] for steps in solved.values() for key in steps), "all"]:
        able, keys = compared(solved, name)
        for time in seconds if keys else ():
            cells = [name, str(len({key[1] for key in keys})), f"{time:g}"]
            for version, steps in solved.items():
                gaps = [100 * gap_at(steps[key], time) for key in keys if version in able]
                cells += [f"{fmean(gaps):.2f}", f"{median(gaps):.2f}"] if gaps else ["-", "-"]
            rows.append(tuple(cells))
    heads = [f"{version} {name} %" for version in solved for name in ("mean", "median")]
    title = "gap of the interval around the optimum: (upper - lower) / upper"
    return Table(title, ("set", "instances", "seconds", *heads), tuple(rows), frozenset({"set"}))


def scores(solved: Solved, seconds: Sequence[float]) -> dict[str, float]:
    """Average the gap of each version over the logarithm of time, on what all have solved."""
    able, keys = compared(solved)
    ends = (min(seconds), max(seconds))
    return {
        version: fmean(mean_over_log_time(solved[version][key], *ends) for key in keys)
        for version in (able if keys else ())
    }


def picture(solved: Solved, seconds: Sequence[float]) -> Any:
    """Draw the median gap of each version over time, in a band between the quartiles."""
    able, keys = compared(solved)
    style.check_few("versions", len(able) if keys else 0)
    times, axes = np.geomspace(min(seconds) / 10, max(seconds), 200), style.new_axes(6.4, 3.6)
    for number, version in enumerate(able):
        gaps = [[100 * gap_at(solved[version][key], time) for time in times] for key in keys]
        low, middle, high = np.percentile(gaps, (25, 50, 75), axis=0)
        look = {"color": style.LINE_COLOURS[number], "linestyle": style.LINE_STYLES[number % 4]}
        axes.fill_between(times, low, high, color=look["color"], alpha=0.15, linewidth=0)
        axes.plot(times, middle, label=version, **look)
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=0.1, linscale=0.5)
    axes.set(ylim=(0, 100), yticks=[0, 0.1, 1, 10, 100])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    count = len({key[1] for key in keys})
    style.dress(axes, f"median and quartiles of {count} instances", "seconds", "gap, %")
    style.legend(axes)
    return axes
