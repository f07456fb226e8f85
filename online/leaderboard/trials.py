"""Policies run on instances of the library: as experiments, stored as they go."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import instances
from instances import LibraryEntry
from instances.version import package_version
from online.comparison.ratios import Latency
from online.comparison.trial import Trial
from online.experiment import (
    Experiment,
    ExperimentProgress,
    LibraryInstances,
    Predictions,
    read_results,
    run_experiment,
)
from online.policy_interface.policy import policy_parameters
from online.policy_interface.specs import AnyPolicy, PolicySpec, policy_specs

from .scores import EXACT, INTERVAL, Score

SEED = 0
"""Of every random choice."""

RELAXING = ("lp-swap", "sorted-lp")
"""Policies that solve a linear relaxation for every plan."""

MOST_RELAXED = 30
"""Requests beyond which these are not run: a plan would take from seconds to minutes."""

IN_BLOCKS = ("vllm",)
"""Policies that keep their cache block by block."""

MOST_BLOCKS = 1_000_000
"""Blocks beyond which these are not run."""

ORDER = "order"
SHORTEST_FIRST = {ORDER: "shortest-output"}
"""How a serving engine's queue is ordered beside first come, first served."""

TOLD_INTERVALS = ("c25", "worst")
"""Sets that are played a second time, lengths told as the interval they lie in."""

KEEPS_TOKENS = (
    "preempted requests and kept their tokens: the optimum without that is no bound on it"
)

Listener: TypeAlias = Callable[[ExperimentProgress], None]


@dataclass
class _Part:
    """What one experiment runs: instances with a unit, predictions and policies in common."""

    name: str
    told: str
    predictions: Predictions
    policies: list[PolicySpec]
    batch_time: str | None
    entries: list[LibraryEntry] = field(default_factory=list)

    def experiment(self) -> Experiment:
        return Experiment(
            name=self.name,
            families=[LibraryInstances([entry.name for entry in self.entries], label=self.name)],
            policies=self.policies,
            predictions=[self.predictions],
            policy_seeds=[SEED],
            solver=None,
            batch_time=self.batch_time,
        )


def registered() -> list[PolicySpec]:
    """All registered policies as they come; those that take an order shortest output first too."""
    specs = policy_specs(None)
    ordered = [
        PolicySpec(spec.name, SHORTEST_FIRST)
        for spec in specs
        if ORDER in policy_parameters(spec.name)
    ]
    return sorted([*specs, *ordered], key=lambda spec: spec.label)


def play(
    entries: Iterable[LibraryEntry],
    results: str | os.PathLike[str],
    *,
    policies: Sequence[AnyPolicy] | None = None,
    jobs: int = 1,
    progress: Listener | None = None,
) -> list[Score]:
    """Run what ``results`` lacks of every policy on every instance, and read it back.

    Nothing stale is read: a trial is stored by instance, policy, what it is told, version and the
    digest of the code. Records enter no trial, so a better one needs no policy run again.

    Parameters
    ----------
    entries : Iterable[LibraryEntry]
        Instances of the library.
    results : str or os.PathLike
        Results file of `online.experiment`, made if it is not there.
    policies : Sequence[AnyPolicy] or None, default None
        As `online.compare` takes them; None takes `registered`.
    jobs : int, default 1
        Processes.
    progress : Listener or None, default None
        Told of every trial.

    Returns
    -------
    list[Score]
        By instance, then by what was told, then by policy; those not run too, with the reason.

    Raises
    ------
    What `online.experiment.run_experiment` raises.
    """
    chosen = list(entries)
    specs = registered() if policies is None else policy_specs(list(policies))
    parts = _parts(chosen, specs)
    total = sum(len(part.entries) * len(part.policies) for part in parts)
    done = failed = computed = 0
    for part in parts:

        def tell(
            news: ExperimentProgress, before: tuple[int, int, int] = (done, failed, computed)
        ) -> None:
            if progress is not None:
                counts = (before[0] + news.done, total, before[1] + news.failed)
                progress(ExperimentProgress(*counts, before[2] + news.computed, news.stage))

        did = run_experiment(part.experiment(), results, jobs=jobs, progress=tell)
        done, failed, computed = done + did.trials, failed + did.failed, computed + did.computed
    played = _played(parts, results)
    version = package_version()
    return [
        Score(entry.name, entry.digest, spec.label, told, version, figure, reason)
        for entry in chosen
        for told in _told(entry)
        for spec in specs
        for left_out in [(None, _not_run(spec, entry))]
        for figure, reason in [played.get((entry.name, told, spec.label), left_out)]
    ]


_Place: TypeAlias = tuple[str, str, str]
"""Name of an instance, what was told, label of a policy."""

_Figure: TypeAlias = tuple[Latency | None, str | None]
"""What the goal of an instance asks for, or why there is none."""


def _told(entry: LibraryEntry) -> tuple[str, ...]:
    return (EXACT, INTERVAL) if entry.set in TOLD_INTERVALS else (EXACT,)


def _not_run(spec: PolicySpec, entry: LibraryEntry) -> str | None:
    """Why a policy is not run on an instance; None where it is."""
    if spec.name in RELAXING and entry.n > MOST_RELAXED:
        why = "it solves a relaxation for every plan"
        return f"not run with more than {MOST_RELAXED} requests: {why}"
    blocks = entry.instance.memory_limit // entry.instance.memory_rule.block_size
    if spec.name in IN_BLOCKS and blocks > MOST_BLOCKS:
        return f"not run with more than {MOST_BLOCKS} blocks: it keeps them one by one"
    return None


def _parts(entries: Sequence[LibraryEntry], specs: Sequence[PolicySpec]) -> list[_Part]:
    parts: dict[str, _Part] = {}
    for entry in entries:
        run = [spec for spec in specs if _not_run(spec, entry) is None]
        if not run:
            continue
        for told in _told(entry):
            predictions = Predictions()
            if told == INTERVAL:
                outputs = entry.instance.output_lengths
                ends = {"lower": int(outputs.min()), "upper": int(outputs.max())}
                predictions = Predictions("interval", ends)
            name = ", ".join(
                [
                    *("leaderboard", entry.set, entry.batch_time or "rounds", predictions.label),
                    *(f"without {spec.label}" for spec in specs if spec not in run),
                ]
            )
            part = _Part(name, told, predictions, run, entry.batch_time)
            parts.setdefault(name, part).entries.append(entry)
    return list(parts.values())


def _played(parts: Sequence[_Part], results: str | os.PathLike[str]) -> dict[_Place, _Figure]:
    # Draws number instances in the library's order.
    order = {
        part.name: (part.told, instances.library().matching(*(one.name for one in part.entries)))
        for part in parts
    }
    found: dict[_Place, _Figure] = {}
    for trial in read_results(results) if parts else ():
        if trial.experiment in order and trial.version == package_version():
            told, entries = order[trial.experiment]
            entry = entries[trial.draw or 0]
            found[entry.name, told, trial.policy_label] = _figure(entry, trial)
    return found


def _figure(entry: LibraryEntry, trial: Trial) -> _Figure:
    if trial.total_latency is None or trial.reason is not None:
        return None, trial.reason
    if entry.goal in ("total_latency", "makespan") and trial.preemptive:
        return None, KEEPS_TOKENS
    if entry.goal != "makespan":
        return trial.total_latency, None
    assert trial.schedule is not None
    return int(trial.schedule.makespan), None
