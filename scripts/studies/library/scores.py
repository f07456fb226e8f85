"""Scores of policies on instances of the library, such as their total latency, stored as CSV."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import online
from instances import FileFormatError, Library, LibraryEntry
from instances.files import csv_text, read_bytes
from instances.version import __version__
from online import Trial
from online.policy_interface.policy import POLICIES, named_parameters
from online.policy_interface.specs import AnyPolicy, PolicySpec, policy_specs
from online.trials.intervals import Latency

EXACT, INTERVAL = "exact lengths", "interval"
"""Predictions that policies get: true lengths, or the instance's least to its largest length."""

SEED = 0
"""Seed of every random choice."""

RELAXING = ("lp-swap", "sorted-lp")
"""Policies that solve a linear relaxation for every plan."""

MOST_RELAXED = 30
"""`RELAXING` run on instances of up to this many requests: with more, a plan may take minutes."""

IN_BLOCKS = ("vllm",)
"""Policies that keep an entry for each block of memory."""

MOST_BLOCKS = 1_000_000
"""`IN_BLOCKS` run on instances whose memory has up to this many blocks of tokens."""

ORDER = "order"
SHORTEST_FIRST = {ORDER: "shortest-output"}
"""Order of an engine's queue in its second run. In its first run it is first come first served."""

TOLD_INTERVALS = ("c25", "worst")
"""Sets on which policies run a second time, with an interval as prediction of all lengths."""

HEAD = ("instance", "told", "version", "digest")
_FIGURE = re.compile(r"[0-9]{1,4000}(/[0-9]{1,4000})?")


@dataclass(frozen=True)
class Score:
    """Score of a policy on an instance of the library.

    Attributes
    ----------
    instance, digest : str
        Name of the instance in the library, and its content hash.
    policy : str
        Label of the policy.
    told : str
        Predictions of output lengths that the policy got: `EXACT` or `INTERVAL`.
    version : str
        Version of this package with which the policy ran.
    figure : int or Fraction or None
        Cost of the run by the goal of the instance: total latency or makespan, in rounds or
        seconds, or the number of late requests.
    reason : str or None
        Why there is no cost that can be compared with the optimum, in one line.
    """

    instance: str
    digest: str
    policy: str
    told: str
    version: str
    figure: Latency | None
    reason: str | None = None


def scores_csv(scores: Sequence[Score]) -> str:
    """Return scores as CSV, with a line per instance and prediction, and a column per policy."""
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
    return (
        str(score.figure)
        if isinstance(score.figure, int)
        else f"{score.figure.numerator}/{score.figure.denominator}"
    )


def read_scores(path: str | os.PathLike[str], library: Library) -> list[Score]:
    """Read a file that `scores_csv` wrote, for instances that are in ``library``.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        The file has another form, or the digest of an instance differs from that in the library.
    """
    try:
        head, *rows = [*csv.reader(io.StringIO(read_bytes(path).decode("utf-8")))] or [[]]
    except UnicodeDecodeError:
        raise FileFormatError(path, "is not text") from None
    except csv.Error as error:
        raise FileFormatError(path, f"is not a table: {error}") from None
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
                figure = Fraction(cell) if "/" in cell else int(cell)
            if cell:
                reason = cell if figure is None else None
                found.append(Score(name, digest, policy, told, version, figure, reason))
    return found


def registered(*, deadlines: bool = False) -> list[PolicySpec]:
    """Return all registered policies. Those with a parameter ``order`` are in the list twice.

    The second time they have the order `SHORTEST_FIRST`. Policies that need a service level are
    included only if ``deadlines`` is True.
    """
    specs = policy_specs(None, deadlines=deadlines)
    ordered = [
        PolicySpec(spec.name, SHORTEST_FIRST)
        for spec in specs
        if ORDER in named_parameters(POLICIES[spec.name])
    ]
    return sorted([*specs, *ordered], key=lambda spec: spec.label)


def play(
    entries: Iterable[LibraryEntry],
    store: str | os.PathLike[str] | None = None,
    *,
    policies: Sequence[AnyPolicy] | None = None,
    jobs: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> list[Score]:
    """Return the scores of policies on instances. Runs that the store lacks are made.

    Policies that need a service level run only on instances that have one.

    Parameters
    ----------
    entries : Iterable[LibraryEntry]
        Instances of the library.
    store : str or os.PathLike or None, default None
        File of trials, as `online.sweep` takes it.
    policies : Sequence[AnyPolicy] or None, default None
        The policies. None takes those of `registered`.
    jobs : int, default 1
        Number of processes.
    progress : Callable[[int, int], object] or None, default None
        Called with the numbers of finished and of all tasks, separately for each prediction.

    Returns
    -------
    list[Score]
        Scores in the order of instances, then predictions, then policies. A policy that was not run
        has a score with the reason.
    """
    chosen = list(entries)
    deadlines = any(entry.level is not None for entry in chosen)
    specs = registered(deadlines=deadlines)
    if policies is not None:
        specs = policy_specs(list(policies), deadlines=deadlines)
    parts: dict[tuple[str, tuple[str, ...]], list[LibraryEntry]] = {}
    for entry in chosen:
        run = tuple(spec.label for spec in _asked(specs, entry) if not _not_run(spec, entry))
        for predictions in _predictions(entry):
            parts.setdefault((predictions, run), []).append(entry)
    played: dict[tuple[str, str, str], Trial] = {}
    for (predictions, labels), members in parts.items():
        own = [spec for spec in specs if spec.label in labels]
        options: Any = {"seeds": [SEED], "optimum": "records", "jobs": jobs, "progress": progress}
        problems = [entry.instance for entry in members]
        named = "interval" if predictions == INTERVAL else "exact"
        for trial in (
            online.sweep(problems, own, store, predictions=named, **options) if own else ()
        ):
            played[trial.instance, predictions, trial.policy] = trial
    return [
        _score(entry, spec, predictions, played.get((entry.name, predictions, spec.label)))
        for entry in chosen
        for predictions in _predictions(entry)
        for spec in _asked(specs, entry)
    ]


def _asked(specs: Sequence[PolicySpec], entry: LibraryEntry) -> list[PolicySpec]:
    return [spec for spec in specs if entry.level or not spec.make().reads_deadlines]


def _score(entry: LibraryEntry, spec: PolicySpec, predictions: str, trial: Trial | None) -> Score:
    figure: Latency | None = None
    reason = _not_run(spec, entry)
    if trial is not None:
        reason = trial.reason or None
        figure = trial.cost if reason is None else None
        if entry.level is not None and figure is not None:
            figure = entry.n - figure
    version = __version__
    return Score(entry.name, entry.digest, spec.label, predictions, version, figure, reason)


def _predictions(entry: LibraryEntry) -> tuple[str, ...]:
    return (EXACT, INTERVAL) if entry.set in TOLD_INTERVALS else (EXACT,)


def _not_run(spec: PolicySpec, entry: LibraryEntry) -> str | None:
    """Return the reason why a policy is not run on an instance, or None if it is run."""
    if spec.name in RELAXING and entry.n > MOST_RELAXED:
        why = "it solves a relaxation for every plan"
        return f"not run with more than {MOST_RELAXED} requests: {why}"
    blocks = entry.instance.memory_limit // entry.instance.memory_rule.block_size
    if spec.name in IN_BLOCKS and blocks > MOST_BLOCKS:
        return f"not run with more than {MOST_BLOCKS} blocks: it keeps them one by one"
    return None
