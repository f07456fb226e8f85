"""Run every policy on every instance, and compare each run with the hindsight optimum.

A trial is one such run with its comparison. A task is a problem with all trials on it that the
store lacks. First the policies run. Then, for each optimum to compare with, one search starts from
the best schedule of these runs. So all trials of a problem that are compared with the same optimum
have the same bounds on it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import closing
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Literal, TypeAlias

from instances import Instance, Workload
from instances.problem.arrival_source import AnySource
from instances.validation import as_integer, as_time_limit
from instances.version import __version__
from online import workers
from online.policy_interface.predictions import PredictionModel
from online.policy_interface.specs import AnyPolicy, AnyRouter, PolicySpec, RouterSpec, policy_specs

from .library import with_records
from .predictions import PredictionSpec, as_predictions
from .store import Store, opened
from .task import Asked, Search, Task, check_problem, code_of, router_specs, trial_of
from .trial import Trial, with_best_bounds

if TYPE_CHECKING:
    from hindsight import OnTime
    from hindsight.outcomes.goals import Preemption

AnyPredictions: TypeAlias = str | PredictionModel
Groups: TypeAlias = Mapping[str, Iterable[AnySource]] | Iterable[AnySource]


def sweep(  # noqa: PLR0913
    groups: Groups,
    policies: AnyPolicy | Iterable[AnyPolicy] | None = None,
    store: str | os.PathLike[str] | None = None,
    *,
    seeds: Iterable[int] = (0,),
    predictions: AnyPredictions | Iterable[AnyPredictions] = "exact",
    router: AnyRouter | Iterable[AnyRouter] | None = None,
    goal: Literal["latency", "makespan"] | OnTime = "latency",
    preemption: Preemption | None = None,
    executor: Executor | None = None,
    jobs: int = 1,
    time_limit: float | None = None,
    optimum: Literal["solve", "records"] | None = "solve",
    progress: Callable[[int, int], object] | None = None,
) -> list[Trial]:
    """Run policies on problems, and compare each run with bounds on the hindsight optimum.

    A trial is a run with its comparison. Trials in the store are not run again. If a policy or a
    search fails, the ``reason`` of its trials says so, and the other trials continue. After Ctrl-C
    the running searches end and their bounds are kept. Trials that have not begun get the status
    ``"not run"``.

    Parameters
    ----------
    groups : Mapping[str, Iterable[Instance, Workload or ArrivalSource]] or Iterable of these
        Problems by the label of their group, or an iterable of problems without labels.
    policies : AnyPolicy or Iterable[AnyPolicy] or None, default None
        Names, text such as ``"mine.py:Mine(alpha=0.2)"``, classes, functions that make a policy, or
        objects. None takes every registered policy that needs no parameters.
    store : str or os.PathLike or None, default None
        File of trials to read and to append to. After an edit of a module that the file of a policy
        imports, use another store.
    seeds : Iterable[int], default (0,)
        Seeds of the runs. A policy without random choices runs with the first seed only.
    predictions : str or PredictionModel, or iterable of these, default "exact"
        Predictions of output lengths that policies get: ``"exact"``, ``"noisy(delta=3)"``,
        ``"relative(error=0.3)"``, ``"interval(lower=1, upper=9)"``, ``"buckets"``,
        ``"proportional(spread=0.5)"`` or a prediction model. ``"interval"`` without parameters is
        the interval from the least to the largest output length of each instance.
    router : AnyRouter or iterable of these or None, default None
        Routers for problems with several replicas. Every policy runs with every router.
    goal : {"latency", "makespan"} or OnTime, default "latency"
        Cost of a run: total latency, makespan, or number of requests on time. It is compared with
        the best cost of any schedule. Policies see the service level of `hindsight.OnTime`.
    preemption : {"never", "keep", "recompute"} or None, default None
        Whether schedules may preempt requests, when the optimum is computed (see
        `hindsight.solve`). None means, in rounds, ``"keep"`` for policies that may preempt requests
        and keep their tokens, and ``"never"`` for other policies. In seconds it means ``"keep"``.
    executor : concurrent.futures.Executor or None, default None
        Performs the tasks, for example ``distributed.Client().get_executor()``.
    jobs : int, default 1
        Number of processes.
    time_limit : float or None, default None
        Seconds for each search for an optimum; None for no limit.
    optimum : {"solve", "records"} or None, default "solve"
        Source of the bounds on optima. ``"solve"`` searches for each optimum. ``"records"`` takes
        the records of library instances. ``goal`` and ``preemption`` are then those of the record,
        and others are refused. None leaves trials without bounds.
    progress : Callable[[int, int], object] or None, default None
        Called after each task with the number of finished tasks and of all tasks. A task is a
        problem with its missing trials.

    Returns
    -------
    list[Trial]
        Trials in the order of groups and of problems; those of a problem in the order of
        predictions, policies, routers and seeds.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        A parameter is invalid.
    FileFormatError, OSError
        ``store`` is not a store of trials, or cannot be written.

    Examples
    --------
    >>> import online
    >>> from instances import Instance
    >>> instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)
    >>> trials = online.sweep([instance], ["mc-sf", "fcfs"])
    >>> [str(one.ratio) for one in trials]
    ['1.0000', '1.2857']
    """
    given = tuple(as_integer(seed, None, "seeds", minimum=0) for seed in seeds)
    search = Search(goal, preemption, as_time_limit(time_limit), optimum)
    models, routers = as_predictions(predictions), router_specs(router)
    problems = [*_problems(groups)]
    for _, problem in problems:
        check_problem(problem, routers)
        search.check(problem)
    deadlines = any(search.level(problem) is not None for _, problem in problems)
    specs = policy_specs(policies, deadlines=deadlines)
    if jobs > 1 or executor is not None:
        for spec in (*specs, *models, *filter(None, routers)):
            spec.check_sendable()
    asked = [
        one
        for group, problem in problems
        for choice in product(models, specs, routers)
        for one in _asked(group, problem, search, given, *choice)
    ]
    with opened(store) as kept:
        tasks = _tasks(asked, search, kept)
        _perform(tasks, kept, min(jobs, max(1, len(tasks))), executor, progress)
        known = {one.key: one for one in with_best_bounds(kept.trials.values())}
    found = [
        replace(known.get(one.key, one), group=one.group, instance=one.instance)
        for one, *_ in asked
    ]
    if optimum != "records":
        return found
    return with_records(found, (one.problem for one in asked))


def _problems(groups: Groups) -> Iterator[tuple[str, AnySource]]:
    """Yield (label of the group, problem) for each problem. The label is empty without groups."""
    named = groups.items() if isinstance(groups, Mapping) else [("", groups)]
    return ((group, one) for group, members in named for one in members)


def _asked(
    group: str,
    problem: AnySource,
    search: Search,
    seeds: Sequence[int],
    model: PredictionSpec,
    spec: PolicySpec,
    router: RouterSpec | None,
) -> list[Asked]:
    """Return the trials of one policy on one problem, before their runs.

    If the policy, the predictions, the router or the arrivals are random, there is a trial for each
    seed. Otherwise there is one trial, with the first seed.
    """
    policy = spec.make()
    is_given = isinstance(problem, Instance | Workload)
    draws = policy.randomized or model.draws or not is_given
    draws |= router is not None and router.make().randomized
    trial = replace(
        trial_of(problem),
        group=group,
        policy=spec.label,
        router=router.label if router else "",
        predictions=model.label,
        code="-".join(filter(None, map(code_of, (spec, model, router)))),
        version=__version__,
        **search.asked(problem, policy),
    )
    used = seeds if draws else seeds[:1]
    return [Asked(replace(trial, seed=seed), problem, spec, model, router) for seed in used]


def _tasks(asked: Sequence[Asked], search: Search, kept: Store) -> list[Task]:
    """Return a task for each problem of which the store ``kept`` lacks some trials in ``asked``.

    A problem also gets a task if its optimum should be searched again, because the bounds in the
    store come from a search with a shorter time limit.
    """
    known = {one.key: one for one in with_best_bounds(kept.trials.values())}
    tasks: dict[str, Task] = {}
    first: dict[str, Asked] = {}
    for one in asked:
        first.setdefault(one.trial.key, one)
    for one in first.values():
        place = one.trial.problem + one.trial.batch_time
        task = tasks.setdefault(place, Task(one.problem, search))
        stored = known.get(one.trial.key)
        if stored is None:
            task.missing.append(one)
        elif search.optimum == "solve" and not search.is_enough(stored):
            task.stored.append(stored)
        else:
            task.known.append(stored)
    return [task for task in tasks.values() if task.missing or task.stored]


def _perform(
    tasks: Sequence[Task],
    kept: Store,
    jobs: int,
    executor: Executor | None,
    progress: Callable[[int, int], object] | None,
) -> None:
    run = workers.perform(Task.perform, tasks, jobs=jobs, executor=executor)
    with closing(run) as outcomes:
        for done, outcome in enumerate(outcomes, start=1):
            if isinstance(outcome.error, BrokenExecutor):
                # The worker process died. Its trials are not written to the file, so that the next
                # sweep runs them again.
                kept.trials.update((one.key, one) for one in outcome.task.lost())
            else:
                kept.add(outcome.value())
            if progress is not None:
                progress(done, len(tasks))
