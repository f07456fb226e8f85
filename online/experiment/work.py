"""Trials run and optima sought in a worker. Nothing here touches the results file."""

from __future__ import annotations

import json
import platform
import time
import traceback
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from importlib import metadata
from typing import Any, TypeAlias

import instances
from instances import Instance, ServiceLevel, UnknownNameError, Workload
from instances.batch_time.presets import batch_time_of
from instances.problem.arrival_source import in_seconds
from instances.sources import PACKAGES, package_sources
from instances.version import package_version
from online.comparison.running import find_optimum, run_policy
from online.comparison.trial import FAILED, Optimum, Trial, rounds_of, stays_of

from .declaration import BATCH_TIME, LEVEL, Predictions
from .documents import canonical, problem_document, problem_of, schedule_document, seconds_text
from .plan import PREEMPTIVE, SEARCH, OptimumTask, TrialTask, optimum_sources, trial_sources
from .store import Done, OptimumRow, TrialRow


class WorkerVersionError(RuntimeError):
    """A worker has other code than the run that sent it work."""


Task: TypeAlias = TrialTask | OptimumTask

LIBRARIES = ("highspy", "numba", "numpy", "pyomo", "scipy")
"""What decides a result besides this package: the solver, and what the searches compute with."""

# Now, while they are what is being imported: an editor may save others later.
package_sources(*PACKAGES)


@cache
def versions() -> dict[str, str | None]:
    """Return versions of what decides a result; None for a library that is not there."""
    found: dict[str, str | None] = {
        "package": package_version(),
        "sources": package_sources(*PACKAGES),
        "python": platform.python_version(),
    }
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            found[library] = None
    return found


def perform(task: Task) -> Done:
    """Do a task. What goes wrong inside becomes a row with status ``"failed"``.

    Raises
    ------
    WorkerVersionError
        This process has another version of the package.
    KeyboardInterrupt
        Ctrl-C; a search it cut short is no result.
    """
    if task.version != package_version():
        raise WorkerVersionError(
            f"the worker runs version {package_version()}, the experiment {task.version}"
        )
    if isinstance(task, OptimumTask):
        return _optimum(task)
    try:
        return _trial(task)
    except Exception as error:  # noqa: BLE001 (recorded: one trial must not stop the others)
        return failure(task, error)


def perform_elsewhere(task: Task) -> Done:
    """`perform` in another process than the one that made the task's key.

    Raises
    ------
    WorkerVersionError
        This process has other code than the key says.
    What `perform` raises.
    """
    if isinstance(task, OptimumTask):
        here = optimum_sources()
    else:
        generator = None if task.source is None else task.source["generator"]
        try:
            here = _sources_here(task.spec.sources, task.predictions, generator)
        except UnknownNameError as error:
            raise WorkerVersionError(
                f"the worker does not know {error.kind} {error.name!r}: "
                "what registers it must run when the worker starts"
            ) from None
    asked = task.sources
    differing = [name for name in {**asked, **here} if asked.get(name) != here.get(name)]
    if differing:
        raise WorkerVersionError(
            f"the worker has other sources than the run ({', '.join(differing)}): "
            "they changed since the run loaded them, or the worker lies elsewhere"
        )
    return perform(task)


_sources_here = cache(trial_sources)


def failure(task: Task, error: BaseException) -> Done:
    """Return the row of a task that ended with an error."""
    # Halves of characters are no text to SQLite.
    message, lines = (
        text.encode("utf-8", "backslashreplace").decode("utf-8")
        for text in (
            f"{type(error).__name__}: {error}",
            "".join(traceback.format_exception(error)),
        )
    )
    found = {"status": FAILED, "error": message, "traceback": lines}
    if isinstance(task, OptimumTask):
        return _optimum_row(task, found), None
    return _trial_row(task, found), None


def _trial_row(task: TrialTask, found: Mapping[str, Any]) -> TrialRow:
    """Return a trial's row: what its task says, and over it what was found."""
    document = task.document
    user = {name: digest for name, digest in task.sources.items() if name != "packages"}
    told = {name: getattr(task, name) for name in ("key", "problem", "policy", "seed", "version")}
    told |= {
        "instance": None if document is None else task.problem,
        "params": canonical(task.params),
        "predictions": canonical([task.predictions, task.prediction_params]),
        "requests": None if document is None else len(document["requests"]),
        "memory_limit": None if document is None else document["memory_limit"],
        "versions": canonical({**versions(), **({"user_sources": user} if user else {})}),
    }
    return TrialRow(**{**told, **found})


def _optimum_row(task: OptimumTask, found: Mapping[str, Any]) -> OptimumRow:
    return OptimumRow(
        key=task.key,
        instance=task.instance,
        solver=canonical(task.solver),
        version=task.version,
        versions=canonical(versions()),
        sources=task.sources["packages"],
        **found,
    )


def _trial(task: TrialTask) -> Done:
    began = time.perf_counter()
    problem: Any
    if task.document is not None:
        problem = problem_of(task.document)
    else:
        source = task.source or {}
        problem = instances.generate(source["generator"], source["seed"], **source["parameters"])
    problem = in_seconds(
        problem, None if task.batch_time is None else batch_time_of(task.batch_time)
    )
    level = None if task.level is None else ServiceLevel(**task.level)
    trial = run_policy(
        problem,
        task.spec,
        task.seed,
        predictions=Predictions(task.predictions, task.prediction_params).make(),
        time_limit=task.time_limit,
        level=level,
    )
    if trial.error is not None:
        raise trial.error
    if level is not None:
        trial = trial.within(level, None)
    row = _trial_row(task, {**_outcome(trial), "seconds": time.perf_counter() - began})
    realised = trial.problem
    if task.document is not None or realised is None:
        return row, None
    # Two sources may realise the same requests: what is stored must not tell which came first.
    return row, problem_document(realised.renamed(None))


def _outcome(trial: Trial) -> dict[str, Any]:
    run, total, schedule = trial.run, trial.total_latency, trial.schedule
    assert run is not None
    stays = None
    if trial.in_seconds:
        starts = _seconds_json(schedule)
    else:
        # Of the schedule where there is one: the starts of a run that paused tell no completions.
        rounds = rounds_of(schedule) or [
            None if start < 0 else start for start in run.start_rounds.tolist()
        ]
        starts = json.dumps(rounds)
        stays = json.dumps(stays_of(run)) if run.unit_rounds else None
    return {
        "instance": None if trial.problem is None else trial.problem.digest,
        "status": trial.status,
        "requests": len(run.start_rounds),
        "memory_limit": run.memory_limit,
        "total_latency": seconds_text(total) if isinstance(total, Fraction) else total,
        "evictions": run.evictions,
        "start_rounds": starts,
        "attempts": stays,
        "on_time": trial.on_time,
    }


def _seconds_json(schedule: Any, **told: Any) -> str | None:
    return None if schedule is None else json.dumps({**schedule_document(schedule), **told})


def _optimum(task: OptimumTask) -> Done:
    # No policy's schedule to start from: the result must not depend on who asks.
    options = task.solver
    if PREEMPTIVE in options:
        # The methods that can be named are those without preemption.
        options = {**options[PREEMPTIVE], "method": "auto"}
    if LEVEL in options:
        # Late requests are served too: the schedule that is stored is one of the instance.
        level = ServiceLevel(**options[LEVEL])
        options = {**options[SEARCH], "level": level, "serves_late": True}
        del options["method"]
    problem: Any = problem_of(task.document)
    if BATCH_TIME in options:
        options = dict(options)
        problem = in_seconds(problem, batch_time_of(options.pop(BATCH_TIME)))
    result: Any = find_optimum(problem, preemptive=PREEMPTIVE in task.solver, **options)
    if isinstance(result, Exception):
        return failure(task, result)
    if result.stop_reason == "interrupted":
        raise KeyboardInterrupt
    found = {
        "status": result.status,
        "stop_reason": result.stop_reason,
        "seconds": result.runtime,
        **_bounds(result),
    }
    return _optimum_row(task, found), None


def _bounds(result: Optimum) -> dict[str, Any]:
    names = ("upper_bound", "lower_bound", "certified_lower_bound")
    if result.goal != "latency":
        schedule: Any = result.schedule
        in_rounds = isinstance(result.problem, Instance)
        starts = json.dumps(rounds_of(schedule)) if in_rounds else None
        return {
            **{name: getattr(result, name) for name in names[:2]},
            "start_times": starts or _seconds_json(schedule, upper_bound=result.best_bound),
        }
    if isinstance(result.problem, Workload):
        return {
            **{name: seconds_text(getattr(result, name)) for name in names},
            "start_times": _seconds_json(result.schedule, lower_bound=result.best_bound),
        }
    return {
        **{name: getattr(result, name) for name in names},
        "nodes": result.nodes,
        "start_times": json.dumps(rounds_of(result.schedule)),
    }
