"""An experiment written out: every trial, what defines it, and where it stands in the table."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import instances
from instances import Instance
from instances.json_io import to_document
from online.comparison import PolicySpec

from .declaration import Experiment, Family, Predictions, Solver, canonical
from .versions import package_version


@dataclass(frozen=True)
class TrialTask:
    """A trial to run: all a worker needs, JSON values only.

    Attributes
    ----------
    key, problem, seed, version : as in `rows.TrialRow`.
    document : the instance; None where an arrival source is drawn.
    source : generator, parameters and seed of the arrival source; None for an instance.
    policy, params : registered name and parameters.
    predictions, prediction_params : model and parameters.
    """

    key: str
    problem: str
    document: Mapping[str, Any] | None
    source: Mapping[str, Any] | None
    policy: str
    params: Mapping[str, Any]
    predictions: str
    prediction_params: Mapping[str, Any]
    seed: int
    version: str


@dataclass(frozen=True)
class OptimumTask:
    """An optimum to look for; ``key`` and ``version`` as in `rows.OptimumRow`."""

    key: str
    instance: str
    document: Mapping[str, Any]
    solver: Mapping[str, Any]
    version: str


@dataclass(frozen=True)
class Member:
    """A trial's place in its experiment.

    Attributes
    ----------
    family, draw : label of the family and seed of the instance in it.
    name : of the instance.
    policy, predictions : labels.
    trial : key; two members share a trial where two seeds draw the same instance.
    """

    family: str
    draw: int
    name: str | None
    policy: str
    predictions: str
    trial: str


@dataclass
class Plan:
    """What an experiment asks for.

    Attributes
    ----------
    experiment : as declared.
    version : of this package.
    members : in the order of the table.
    trials : by key.
    documents : the instances given (not those an adaptive source will realise), by digest.
    """

    experiment: Experiment
    version: str
    members: list[Member] = field(default_factory=list)
    trials: dict[str, TrialTask] = field(default_factory=dict)
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Problem:
    """One draw of a family: an instance or an arrival source."""

    digest: str
    name: str | None
    document: dict[str, Any] | None
    source: dict[str, Any] | None


def make_plan(experiment: Experiment) -> Plan:
    """Draw the instances and list the trials.

    Raises
    ------
    InvalidValueError, InvalidTypeError: a generator refuses its parameters.
    """
    plan = Plan(experiment, package_version())
    policy_seeds = tuple(experiment.policy_seeds)
    randomized = {spec.label: spec.make().randomized for spec in experiment.specs}
    for family in experiment.families:
        for draw in family.seeds:
            problem = _draw(family, draw)
            if problem.document is not None:
                plan.documents.setdefault(problem.digest, problem.document)
            for predictions in experiment.predictions:
                for spec in experiment.specs:
                    may_differ = (
                        randomized[spec.label] or predictions.draws or problem.source is not None
                    )
                    for seed in policy_seeds if may_differ else policy_seeds[:1]:
                        _add(plan, family, draw, problem, spec, predictions, seed)
    return plan


def _add(
    plan: Plan,
    family: Family,
    draw: int,
    problem: _Problem,
    spec: PolicySpec,
    predictions: Predictions,
    seed: int,
) -> None:
    defining = {
        "problem": problem.digest,
        "policy": spec.name,
        "params": dict(spec.params),
        "predictions": [predictions.name, dict(predictions.parameters)],
        "seed": seed,
        "version": plan.version,
    }
    key = content_key(defining)
    plan.members.append(
        Member(family.title, draw, problem.name, spec.label, predictions.label, key)
    )
    plan.trials.setdefault(
        key,
        TrialTask(
            key=key,
            problem=problem.digest,
            document=problem.document,
            source=problem.source,
            policy=spec.name,
            params=dict(spec.params),
            predictions=predictions.name,
            prediction_params=dict(predictions.parameters),
            seed=seed,
            version=plan.version,
        ),
    )


def _draw(family: Family, seed: int) -> _Problem:
    drawn = instances.generate(family.generator, seed, **family.parameters)
    if isinstance(drawn, Instance):
        return _Problem(drawn.digest, drawn.name, to_document(drawn), None)
    source = {"generator": family.generator, "parameters": dict(family.parameters), "seed": seed}
    return _Problem(content_key(source), drawn.name, None, source)


def optimum_task(
    instance: str, document: Mapping[str, Any], solver: Solver, version: str
) -> OptimumTask:
    """The optimum of an instance, the same task whichever policy or experiment asks for it."""
    options = solver.options()
    key = content_key({"instance": instance, "solver": options, "version": version})
    return OptimumTask(key, instance, document, options, version)


def content_key(defining: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of canonical JSON."""
    return hashlib.sha256(canonical(defining).encode()).hexdigest()
