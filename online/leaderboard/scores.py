"""Scores of each policy on each instance of the library, run as experiments and stored as CSV."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import instances
from instances import FileFormatError, Library, LibraryEntry
from instances.files import read_bytes
from instances.version import package_version
from online.comparison.running import run_policy
from online.comparison.trial import Trial, is_preemptive
from online.experiment import (
    Experiment,
    ExperimentProgress,
    LibraryInstances,
    Predictions,
    read_results,
    run_experiment,
)
from online.experiment.documents import seconds_of_text, seconds_text
from online.policy_interface.policy import policy_parameters
from online.policy_interface.specs import AnyPolicy, PolicySpec, policy_specs
from online.runtime.table import csv_text
from online.trials.intervals import Latency

EXACT, INTERVAL = "exact lengths", "interval"
"""What policies are told of output lengths: each, or the least and the largest of the instance."""

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

HELD = "held requests after their first tokens: without pauses fewer are on time"

HEAD = ("instance", "told", "version", "digest")
_FIGURE = re.compile(r"[0-9]{1,4000}(/[0-9]{1,4000})?")


@dataclass(frozen=True)
class Score:
    """Score of a policy on an instance of the library.

    Attributes
    ----------
    instance, digest : str
        Name in the library, and content hash.
    policy : str
        Label.
    told : str
        What it was told of output lengths: `EXACT` or `INTERVAL`.
    version : str
        Of this package, when it ran.
    figure : int or Fraction or None
        What the instance's goal asks for: total latency or makespan, in rounds or seconds, or late
        requests.
    reason : str or None
        Why there is none to be compared, in one line.
    """

    instance: str
    digest: str
    policy: str
    told: str
    version: str
    figure: Latency | None
    reason: str | None = None


def scores_csv(scores: Sequence[Score]) -> str:
    """Write a line for each instance and what was told, a column for each policy."""
    policies = sorted({score.policy for score in scores})
    lines: dict[tuple[str, str, str, str], dict[str, str]] = {}
    for score in scores:
        key = (score.instance, score.told, score.version, score.digest)
        lines.setdefault(key, {})[score.policy] = _cell(score)
    rows = [(*key, *(found.get(policy, "") for policy in policies)) for key, found in lines.items()]
    return csv_text([(*HEAD, *policies), *rows])


def _cell(score: Score) -> str:
    if score.figure is None:
        return score.reason or "no figure"
    return str(score.figure) if isinstance(score.figure, int) else seconds_text(score.figure)


def read_scores(path: str | os.PathLike[str], library: Library) -> list[Score]:
    """Read what `scores_csv` wrote, of the instances that ``library`` has now.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        It is no such file, or of another instance than the library has by that name.
    """
    try:
        head, *rows = [*csv.reader(io.StringIO(read_bytes(path).decode("utf-8")))] or [[]]
    except UnicodeDecodeError:
        raise FileFormatError(path, "is no text") from None
    except csv.Error as error:
        raise FileFormatError(path, f"is no table: {error}") from None
    if tuple(head[: len(HEAD)]) != HEAD:
        raise FileFormatError(path, f"does not begin with the columns {', '.join(HEAD)}")
    found: list[Score] = []
    for row in rows:
        if len(row) != len(head):
            raise FileFormatError(path, f"has a line of {len(row)} cells, not {len(head)}")
        name, told, version, digest = row[: len(HEAD)]
        if name not in library:
            raise FileFormatError(path, f"{name} is not in the library")
        if library[name].digest != digest:
            stale = f"is of another instance {name} than the library has: run it again"
            raise FileFormatError(path, stale)
        for policy, cell in zip(head[len(HEAD) :], row[len(HEAD) :], strict=True):
            figure: Latency | None = None
            if _FIGURE.fullmatch(cell):
                figure = seconds_of_text(policy, cell) if "/" in cell else int(cell)
            if cell:
                reason = cell if figure is None else None
                found.append(Score(name, digest, policy, told, version, figure, reason))
    return found


@dataclass
class _Part:
    """Part of the runs for one experiment: instances with a unit, predictions and policies."""

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


def registered(*, deadlines: bool = False) -> list[PolicySpec]:
    """Return all registered policies; those that take an order shortest output first too.

    Those that read deadlines are among them with ``deadlines``.
    """
    specs = policy_specs(None, deadlines=deadlines)
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
    progress: Callable[[ExperimentProgress], None] | None = None,
) -> list[Score]:
    """Run what ``results`` lacks of every policy on every instance, and read it back.

    Nothing stale is read: a trial is stored by instance, policy, what it is told, version and the
    digest of the code. Records enter no trial, so a better one needs no policy run again. Instances
    with a service level are small, and run each time. Policies that read deadlines run on these
    only.

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
    progress : Callable[[ExperimentProgress], None] or None, default None
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
    deadlines = any(entry.level is not None for entry in chosen)
    if policies is None:
        specs = registered(deadlines=deadlines)
    else:
        specs = policy_specs(list(policies), deadlines=deadlines)
    without = [spec for spec in specs if not spec.make().reads_deadlines]
    parts = _parts([entry for entry in chosen if entry.level is None], without)
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
    played = {(one.instance, one.told, one.policy): one for one in _played(parts, results)}
    scores = []
    for entry in chosen:
        if entry.level is not None:
            scores += [_score(entry, spec.label, EXACT, *_late(entry, spec)) for spec in specs]
            continue
        for told in _told(entry):
            for spec in without:
                left_out = _score(entry, spec.label, told, None, _not_run(spec, entry))
                scores.append(played.get((entry.name, told, spec.label), left_out))
    return scores


def _score(
    entry: LibraryEntry, policy: str, told: str, figure: Latency | None, reason: str | None
) -> Score:
    return Score(entry.name, entry.digest, policy, told, package_version(), figure, reason)


def _told(entry: LibraryEntry) -> tuple[str, ...]:
    return (EXACT, INTERVAL) if entry.set in TOLD_INTERVALS else (EXACT,)


def _not_run(spec: PolicySpec, entry: LibraryEntry) -> str | None:
    """Say why a policy is not run on an instance; None where it is."""
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
            common = ["leaderboard", entry.set, entry.batch_time or "rounds", predictions.label]
            without = [f"without {spec.label}" for spec in specs if spec not in run]
            name = ", ".join(common + without)
            part = _Part(name, told, predictions, run, entry.batch_time)
            parts.setdefault(name, part).entries.append(entry)
    return list(parts.values())


def _played(parts: Sequence[_Part], results: str | os.PathLike[str]) -> Iterator[Score]:
    """Scores of the trials of this version."""
    # Draws number instances in the library's order.
    order = {
        part.name: (part.told, instances.library().matching(*(one.name for one in part.entries)))
        for part in parts
    }
    for trial in read_results(results) if parts else ():
        if trial.experiment in order and trial.version == package_version():
            told, entries = order[trial.experiment]
            entry = entries[trial.draw or 0]
            yield _score(entry, trial.policy_label, told, *_figure(entry, trial))


def _late(entry: LibraryEntry, spec: PolicySpec) -> tuple[Latency | None, str | None]:
    """Run a policy that is told the service level; count late requests, or tell why not."""
    if (reason := _not_run(spec, entry)) is not None:
        return None, reason
    assert entry.level is not None
    trial = run_policy(entry.instance, spec, SEED, level=entry.level)
    if trial.run is None or trial.reason is not None:
        return None, trial.reason
    if trial.schedule is not None and is_preemptive(trial.schedule):
        return None, KEEPS_TOKENS
    run = trial.run
    late = int((~run.schedule.on_time(entry.level)).sum())
    return (late, None) if late <= int((~run.on_time(entry.level)).sum()) else (None, HELD)


def _figure(entry: LibraryEntry, trial: Trial) -> tuple[Latency | None, str | None]:
    """Return what the goal of an instance asks for, or why there is none."""
    if trial.total_latency is None or trial.reason is not None:
        return None, trial.reason
    assert trial.schedule is not None
    if entry.goal in ("total_latency", "makespan") and is_preemptive(trial.schedule):
        return None, KEEPS_TOKENS
    if entry.goal != "makespan":
        return trial.total_latency, None
    return int(trial.schedule.makespan), None
