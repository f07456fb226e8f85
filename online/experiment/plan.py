"""An experiment written out: every trial, what defines it, and where it stands in the table."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import product
from typing import Any

from instances import Instance, Workload
from instances.batch_time.presets import Stored
from instances.generators.registry import generator_sources
from instances.sources import PACKAGES, UNSTORED, package_sources
from instances.version import package_version
from online.policy_interface.specs import PolicySpec

from .declaration import LEVEL, Experiment, prediction_sources
from .documents import canonical, problem_document
from .families import Family, check_trials


@dataclass(frozen=True)
class _Keyed:
    """Task that is computed once and looked up by ``key``, SHA-256 (hex) of every field.

    So no field that is added is forgotten. Without a service level the key is that of releases
    that knew none. The instance enters by its digest, the policy by name,
    parameters and the digest of its code.
    """

    key: str = field(init=False)

    def __post_init__(self) -> None:
        left_out = ("key", "document", "spec")
        names = (each.name for each in fields(self) if each.name not in left_out)
        defining = {name: getattr(self, name) for name in names}
        if defining.get(LEVEL) is None:
            defining.pop(LEVEL, None)
        object.__setattr__(self, "key", content_key(defining))


@dataclass(frozen=True)
class TrialTask(_Keyed):
    """A trial to run: all a worker needs, JSON values but for the policy.

    Attributes
    ----------
    problem, seed, version : str, int, str
        As in `store.TrialRow`.
    document : Mapping[str, Any] or None
        The instance; None where an arrival source is drawn.
    source : Mapping[str, Any] or None
        Generator, parameters and seed of the arrival source; None for an instance.
    policy, params : str, Mapping[str, Any]
        Registered name and parameters.
    predictions, prediction_params : str, Mapping[str, Any]
        Model and parameters.
    sources : Mapping[str, str]
        Digests of the code, see `trial_sources`.
    spec : PolicySpec
        The policy, which brings the user's own code along.
    batch_time : Stored or None
        As `batch_time_document` writes it; None in rounds.
    time_limit : float or None
        Seconds for the run.
    level : Mapping[str, float] or None
        As `Experiment.limits` has it.
    """

    problem: str
    document: Mapping[str, Any] | None
    source: Mapping[str, Any] | None
    policy: str
    params: Mapping[str, Any]
    predictions: str
    prediction_params: Mapping[str, Any]
    seed: int
    version: str
    sources: Mapping[str, str]
    spec: PolicySpec
    batch_time: Stored | None = None
    time_limit: float | None = None
    level: Mapping[str, float] | None = None


PREEMPTIVE = "preemptive"
"""Key of the solver's options where the preemptive optimum is sought."""

SEARCH = "search"
"""Key of the solver's options beside `LEVEL` where the most requests on time are sought."""


@dataclass(frozen=True)
class OptimumTask(_Keyed):
    """An optimum to look for, or the most requests on time.

    Attributes
    ----------
    instance, version : str
        As in `store.OptimumRow`.
    document : Mapping[str, Any]
        The instance.
    solver : Mapping[str, Any]
        As `Experiment.search_options` has them; those of a search for a preemptive optimum lie
        under `PREEMPTIVE`, those of a search for the most requests on time under `SEARCH`.
    sources : Mapping[str, str]
        Digests of the code, see `optimum_sources`.
    """

    instance: str
    document: Mapping[str, Any]
    solver: Mapping[str, Any]
    version: str
    sources: Mapping[str, str]


@dataclass(frozen=True)
class Member:
    """A trial's place in its experiment.

    Attributes
    ----------
    family, draw : str, int
        Label of the family and seed of the instance in it.
    name : str or None
        Of the instance.
    policy, predictions : str
        Labels.
    trial : str
        Key; two members share a trial where two seeds draw the same instance.
    """

    family: str
    draw: int
    name: str | None
    policy: str
    predictions: str
    trial: str


@dataclass
class Plan:
    """Everything that an experiment asks for.

    Attributes
    ----------
    experiment : Experiment
        As declared.
    version : str
        Of this package.
    sources : str
        Digest of the code that optima are sought with.
    members : list[Member]
        In the order of the table.
    trials : dict[str, TrialTask]
        By key.
    documents : dict[str, dict[str, Any]]
        The instances given (not those an adaptive source will realise), by digest.
    """

    experiment: Experiment
    version: str
    sources: str
    members: list[Member] = field(default_factory=list)
    trials: dict[str, TrialTask] = field(default_factory=dict)
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)


def make_plan(experiment: Experiment) -> Plan:
    """Draw or read the instances, and list the trials.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A generator refuses its parameters, or an instance is in the other unit.
    OSError, FileFormatError
        A trace or file that cannot be read, or not as what it should be.
    """
    plan = Plan(experiment, package_version(), optimum_sources()["packages"])
    sources = cache(trial_sources)
    policy_seeds = tuple(experiment.policy_seeds)
    specs = [spec.pinned() for spec in experiment.specs]
    randomized = {spec.label: spec.make().randomized for spec in specs}
    draws = (
        (family, *drawn)
        for family in experiment.families
        for drawn in family.problems(experiment.seconds)
    )
    for family, draw, given in draws:
        document, source = None, None
        if isinstance(given, Instance | Workload):
            digest, document = given.digest, problem_document(given)
            plan.documents.setdefault(digest, document)
        else:
            assert isinstance(family, Family)
            source = family.source(draw)
            digest = content_key(source)
        generator = None if source is None else source["generator"]
        for predictions, spec in product(experiment.predictions, specs):
            may_differ = randomized[spec.label] or predictions.draws or source is not None
            seeds = policy_seeds if may_differ else policy_seeds[:1]
            check_trials(f"experiment {experiment.name!r}", len(plan.members) + len(seeds))
            for seed in seeds:
                task = TrialTask(
                    problem=digest,
                    document=document,
                    source=source,
                    policy=spec.name,
                    params=dict(spec.params),
                    predictions=predictions.name,
                    prediction_params=dict(predictions.parameters),
                    seed=seed,
                    version=plan.version,
                    sources=sources(spec.digest, predictions.name, generator),
                    spec=spec,
                    batch_time=experiment.coefficients,
                    time_limit=experiment.policy_time_limit,
                    level=experiment.limits,
                )
                plan.trials.setdefault(task.key, task)
                place = (family.title, draw, given.name, spec.label, predictions.label)
                plan.members.append(Member(*place, task.key))
    _warn_of_unstored(plan)
    return plan


def _warn_of_unstored(plan: Plan) -> None:
    """Warn of what stands in no file: no later run takes its trials from the results file."""
    names = {
        f"{kind} {name!r}"
        for task in plan.trials.values()
        for kind, name in (
            ("policy", task.policy),
            ("predictions", task.predictions),
            ("generator", (task.source or {}).get("generator")),
        )
        if task.sources.get(kind, "").startswith(UNSTORED)
    }
    if names:
        told = f"{', '.join(sorted(names))}: defined in no file, so every run computes it anew"
        # Above this: `make_plan`, `run_experiment`, and the line that calls it.
        warnings.warn(told, stacklevel=4)


def trial_sources(policy: str | None, predictions: str, generator: str | None) -> dict[str, str]:
    """Return digests of the code that a trial runs, as this process has it.

    All three packages, for policies may look at what `hindsight` computes, and the user's own code
    behind the policy, the predictions and an arrival source. Instances that are given need none:
    whatever drew them, they are what they are. The digest of the policy's is given:
    `PolicySpec.sources`.

    Raises
    ------
    UnknownNameError
        A name that is not registered in this process.
    InvalidValueError
        Code that cannot be told.
    """
    found = {
        "packages": package_sources(*PACKAGES),
        "policy": policy,
        "predictions": prediction_sources(predictions),
        "generator": None if generator is None else generator_sources(generator),
    }
    return {name: digest for name, digest in found.items() if digest is not None}


def optimum_sources() -> dict[str, str]:
    """Return digests of the code that an optimum is sought with: nothing of `online` enters."""
    return {"packages": package_sources("instances", "hindsight")}


def optimum_task(
    instance: str,
    document: Mapping[str, Any],
    options: Mapping[str, Any],
    version: str,
    *,
    preemptive: bool = False,
    level: Mapping[str, float] | None = None,
) -> OptimumTask:
    """Return the search for an instance's optimum: the same task whoever asks for it.

    With a level it is the search for the most requests on time.
    """
    solver = {PREEMPTIVE: options} if preemptive else options
    if level is not None:
        solver = {LEVEL: level, SEARCH: options}
    return OptimumTask(instance, document, solver, version, optimum_sources())


def content_key(defining: Mapping[str, Any]) -> str:
    """Return SHA-256 (hex) of canonical JSON."""
    return hashlib.sha256(canonical(defining).encode()).hexdigest()
