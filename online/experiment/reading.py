"""Results read back: every trial beside its optimum, in the order of the experiment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from instances import Instance, InvalidValueError, Schedule
from instances.instance import IntArray
from instances.json_io import from_document
from online.comparison import Record

from .rows import FAILED, OptimumRow, TrialRow
from .store import OPTIMUM_COLUMNS, TRIAL_COLUMNS, open_for_reading


@dataclass(frozen=True)
class Result:
    """A trial at its place in an experiment.

    Attributes
    ----------
    experiment, version : the experiment's name and the version that ran it.
    position : in the experiment, from 0.
    family, draw, name : label of the family, seed of the instance in it, the instance's name.
    policy, predictions : labels.
    trial : None while it has not been run.
    optimum : None while it has not been looked for, and where the experiment leaves it out.
    document : the instance as JSON text; None where there is none.
    """

    experiment: str
    version: str
    position: int
    family: str
    draw: int
    name: str | None
    policy: str
    predictions: str
    trial: TrialRow | None
    optimum: OptimumRow | None
    document: str | None = field(repr=False)

    @cached_property
    def instance(self) -> Instance | None:
        """The realised instance, named as in the experiment."""
        if self.document is None:
            return None
        return from_document(json.loads(self.document)).renamed(self.name)

    @cached_property
    def schedule(self) -> Schedule | None:
        """The policy's, from its last starts; None unless it served every request."""
        if self.instance is None or self.trial is None or self.trial.status != "completed":
            return None
        return Schedule(self.instance, json.loads(self.trial.start_rounds or "[]"))

    @cached_property
    def optimum_schedule(self) -> Schedule | None:
        """The best schedule known in hindsight; proved where ``optimum.status`` says so."""
        if self.instance is None or self.optimum is None or self.optimum.start_times is None:
            return None
        return Schedule(self.instance, json.loads(self.optimum.start_times))

    @property
    def attempts(self) -> list[tuple[int, int, int, bool]]:
        """(request, start round, end round, completed) of each stay in the batch.

        It ran in rounds start round + 1 .. end round; cancelled stays are among them.
        """
        if self.trial is None or self.trial.attempts is None:
            return []
        return [(i, start, end, bool(done)) for i, start, end, done in self._stored_attempts]

    def memory_profile(self) -> IntArray:
        """Tokens the policy held in rounds 0, 1, .., work later cancelled included.

        Raises
        ------
        ValueError: the run held requests midway or kept tokens of preempted ones.
        """
        trial = self.trial
        if trial is not None and trial.status != FAILED and trial.attempts is None:
            raise ValueError(
                f"the run of {self.policy!r} held requests midway or kept tokens of preempted "
                "ones: its memory does not follow from its attempts"
            )
        stays = self.attempts
        profile = np.zeros(max((end for _, _, end, _ in stays), default=0) + 1, dtype=np.int64)
        if self.instance is None:
            return profile
        for request, start, end, _ in stays:
            prompt = self.instance[request].prompt_length
            profile[start + 1 : end + 1] += prompt + np.arange(1, end - start + 1)
        return profile

    @property
    def record(self) -> Record | None:
        """As `online.comparison` has it; None while the trial has not been run.

        ``solve_seconds`` is left out: it is the one figure that no two runs share.
        """
        trial, optimum = self.trial, self.optimum
        if trial is None:
            return None
        return Record(
            instance=self.name,
            digest=trial.instance,
            requests=trial.requests or 0,
            memory_limit=trial.memory_limit or 0,
            policy=trial.policy,
            params=json.loads(trial.params),
            seed=trial.seed,
            status=trial.status,
            total_latency=trial.total_latency,
            evictions=trial.evictions or 0,
            optimum_upper=None if optimum is None else optimum.upper_bound,
            optimum_lower=None if optimum is None else optimum.lower_bound,
            optimum_certified=None if optimum is None else optimum.certified_lower_bound,
            stop_reason=None if optimum is None else optimum.stop_reason,
            solve_seconds=None,
        )

    @property
    def error(self) -> str | None:
        """What went wrong in the trial or, failing that, in the search for its optimum."""
        for row in (self.trial, self.optimum):
            if row is not None and row.status == FAILED:
                return row.error
        return None

    @property
    def versions(self) -> Mapping[str, Any]:
        """What the trial was computed with, see `versions.versions`."""
        found: dict[str, Any] = {} if self.trial is None else json.loads(self.trial.versions)
        return found

    @cached_property
    def _stored_attempts(self) -> list[list[int]]:
        stored: list[list[int]] = json.loads((self.trial and self.trial.attempts) or "[]")
        return stored


def experiment_names(path: str | os.PathLike[str]) -> list[str]:
    """Names of the experiments in a results file, in the order in which they were entered.

    Raises
    ------
    OSError, FileFormatError: the file is not there, or is not a results file.
    """
    database = open_for_reading(path)
    try:
        rows = database.execute("SELECT name FROM experiments ORDER BY id")
        return list(dict.fromkeys(name for (name,) in rows))
    finally:
        database.close()


def read_results(path: str | os.PathLike[str], experiment: str | None = None) -> list[Result]:
    """Every trial asked for, in the order of the experiments: run or not.

    Parameters
    ----------
    experiment : name of one; None reads all that the file holds.

    Raises
    ------
    OSError, FileFormatError: the file is not there, or is not a results file.
    InvalidValueError: it holds no such experiment.
    """
    trial = ", ".join(f"t.{name}" for name in TRIAL_COLUMNS)
    optimum = ", ".join(f"o.{name}" for name in OPTIMUM_COLUMNS)
    database = open_for_reading(path)
    try:
        rows = database.execute(
            "SELECT e.name, e.version, m.position, m.family, m.draw, m.name, m.policy,"
            f" m.predictions, i.document, {trial}, {optimum}"
            " FROM members m JOIN experiments e ON e.id = m.experiment"
            " LEFT JOIN trials t ON t.key = m.trial"
            " LEFT JOIN optima o ON o.instance = t.instance AND o.solver = e.solver"
            " AND o.version = e.version"
            " LEFT JOIN instances i ON i.digest = t.instance"
            " ORDER BY e.id, m.position"
        ).fetchall()
    finally:
        database.close()
    results = [_result(row) for row in rows]
    if experiment is None:
        return results
    chosen = [result for result in results if result.experiment == experiment]
    if not chosen:
        known = ", ".join(dict.fromkeys(result.experiment for result in results)) or "none"
        reason = f"is not in {os.fspath(path)}, which holds: {known}"
        raise InvalidValueError(None, "experiment", experiment, reason)
    return chosen


def _result(row: tuple[Any, ...]) -> Result:
    head, document, rest = row[:8], row[8], row[9:]
    trial, optimum = rest[: len(TRIAL_COLUMNS)], rest[len(TRIAL_COLUMNS) :]
    rows = (
        None if trial[0] is None else TrialRow(*trial),
        None if optimum[0] is None else OptimumRow(*optimum),
    )
    return Result(*(*head, *rows, document))
