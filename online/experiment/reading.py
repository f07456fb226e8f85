"""Results read back: every trial beside its optimum, in the order of the experiment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np

from instances import (
    Instance,
    InvalidTypeError,
    InvalidValueError,
    Schedule,
    SecondsSchedule,
    Workload,
)
from instances.arrays import IntArray
from instances.batch_time.documents import StorableTime, batch_time_of
from online.comparison.ratios import Latency, seconds_of
from online.comparison.records import Record
from online.comparison.trial import (
    COMPLETED,
    FAILED,
    UNSERVED,
    AnyProblem,
    TrialSchedule,
    digest_of,
)
from online.comparison.trial_records import Rounds, TrialRecord, stays_of_run

from .documents import problem_of, schedule_of_document, seconds_of_text
from .store import (
    OptimumRow,
    TrialRow,
    json_cell,
    open_for_reading,
)


@dataclass(frozen=True)
class Result:
    """A trial at its place in an experiment.

    Attributes
    ----------
    experiment, version : str
        The experiment's name and the version that ran it.
    position : int
        In the experiment, from 0.
    family, draw, name : str, int, str or None
        Label of the family, seed of the instance in it, the instance's name.
    policy, predictions : str
        Labels.
    trial : TrialRow or None
        None while it has not been run.
    optimum : OptimumRow or None
        None while it has not been looked for, and where the experiment leaves it out.
    document : str or None
        The instance as JSON text; None where there is none.
    batch_time : str or None
        Coefficients of the experiment's batch time as JSON text; None in rounds.
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
    document: str | None
    batch_time: str | None = None

    @property
    def in_seconds(self) -> bool:
        """Whether latencies are in seconds; otherwise they are in rounds."""
        return self.batch_time is not None

    @cached_property
    def problem(self) -> AnyProblem | None:
        """The realised instance, in seconds the workload, named as in the experiment."""
        if self.document is None:
            return None
        found = _problem(self.document)
        if isinstance(found, Workload):
            return found.renamed(self.name, found.metadata)
        return found.renamed(self.name)

    def __repr__(self) -> str:
        status = "not run" if self.trial is None else self.trial.status
        return f"Result({self.policy!r} on {self.name!r}, {status})"

    @property
    def instance(self) -> Instance | None:
        """The problem in rounds."""
        return self.problem if isinstance(self.problem, Instance) else None

    @cached_property
    def shown(self) -> TrialRecord | None:
        """The trial with its schedules, held against the instance; None while it has not been run.

        Raises
        ------
        FileFormatError, InvalidValueError, InvalidTypeError
            What was stored cannot be.
        """
        trial, optimum = self.trial, self.optimum
        if trial is None:
            return None
        if self.in_seconds:
            return TrialRecord(
                None, self.policy, trial.seed, trial.status, figures=self._record_in_seconds()
            )
        lost, served = stays_of_run(trial.status, self.attempts)
        ran = trial.status == COMPLETED
        return TrialRecord(
            instance=self.instance,
            policy=self.policy,
            seed=trial.seed,
            status=trial.status,
            start_times=_starts("trial", "start_rounds", trial.start_rounds) if ran else None,
            lost_attempts=lost,
            served=served,
            evictions=trial.evictions,
            optimum_start_times=None
            if optimum is None
            else _starts("optimum", "start_times", optimum.start_times),
            optimum_lower=None if optimum is None else cast("int | None", self._bounds[1]),
            note=self.reason or "",
        )

    @property
    def schedule(self) -> TrialSchedule | None:
        """The policy's, from its last starts; None unless it served every request."""
        if self.in_seconds:
            return self._in_seconds[0]
        return None if self.shown is None else self.shown.schedule

    @property
    def optimum_schedule(self) -> TrialSchedule | None:
        """The best schedule known in hindsight; proved where ``optimum.status`` says so."""
        if self.in_seconds:
            return self._in_seconds[1]
        return None if self.shown is None else self.shown.optimum

    @property
    def attempts(self) -> list[tuple[int, int, int, bool]]:
        """(request, start round, end round, completed) of each stay in the batch.

        It ran in rounds start round + 1 .. end round; cancelled stays are among them.
        """
        return [(i, start, end, bool(done)) for i, start, end, done in self._stored_attempts]

    def memory_profile(self) -> IntArray:
        """Tokens the policy held in rounds 0, 1, .., work later cancelled included.

        Raises
        ------
        ValueError
            The run held requests midway or kept tokens of preempted ones.
        """
        trial = self.trial
        if isinstance(self.schedule, SecondsSchedule):
            return self.schedule.memory_profile()
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
        """As `online.comparison.comparing` has it; None while the trial has not been run.

        ``solve_seconds`` is left out: it is the one figure that no two runs share.
        """
        trial, optimum, shown = self.trial, self.optimum, self.shown
        if trial is None or shown is None:
            return None
        if self.in_seconds:
            return shown.compared
        return replace(
            shown.compared,
            instance=self.name,
            digest=trial.instance,
            requests=trial.requests or 0,
            memory_limit=trial.memory_limit or 0,
            policy=trial.policy,
            params=json_cell("trial", "params", trial.params, dict),
            evictions=trial.evictions or 0,
            optimum_certified=self._bounds[2],
            stop_reason=None if optimum is None else optimum.stop_reason,
            reason=self.reason,
        )

    @property
    def error(self) -> str | None:
        """What went wrong in the trial or, failing that, in the search for its optimum."""
        for row in (self.trial, self.optimum):
            if row is not None and row.status == FAILED:
                return row.error
        return None

    @property
    def reason(self) -> str | None:
        """Why there is no ratio, in one line; None where there is one, or none yet."""
        if self.trial is None:
            return None
        if self.error is not None:
            missing = "" if self.trial.status == FAILED else "no optimum: "
            return missing + " ".join(self.error.split())
        return UNSERVED.get(self.trial.status)

    @property
    def versions(self) -> Mapping[str, Any]:
        """What the trial was computed with, see `online.runtime.versions`."""
        return (
            {} if self.trial is None else json_cell("trial", "versions", self.trial.versions, dict)
        )

    @cached_property
    def _stored_attempts(self) -> list[list[int]]:
        if self.trial is None or self.trial.attempts is None:
            return []
        stored = json_cell("trial", "attempts", self.trial.attempts, list)
        for stay in stored:
            if not isinstance(stay, list) or [type(one) for one in stay] != [int, int, int, bool]:
                raise InvalidValueError("trial", "attempts", stay, "is no stay of a request")
        return stored

    @cached_property
    def _in_seconds(self) -> tuple[SecondsSchedule | None, SecondsSchedule | None]:
        """The policy's schedule and the optimum's."""
        trial, optimum = self.trial, self.optimum
        ran = trial is not None and trial.status == COMPLETED
        return (
            self._seconds_schedule("trial", "start_rounds", trial.start_rounds)
            if ran and trial is not None
            else None,
            None
            if optimum is None
            else self._seconds_schedule("optimum", "start_times", optimum.start_times),
        )

    def _seconds_schedule(
        self, table: str, column: str, stored: str | None
    ) -> SecondsSchedule | None:
        if stored is None or not isinstance(self.problem, Workload):
            return None
        found = json_cell(table, column, stored, dict)
        return schedule_of_document(self.problem, self._batch_time, found)

    @property
    def _batch_time(self) -> StorableTime:
        stored = ("experiment", "batch_time", self.batch_time or "")
        if stored[-1].startswith("{"):
            return batch_time_of(json_cell(*stored, dict))
        return batch_time_of(json_cell(*stored, list))

    def _stored_latency(self, name: str, stored: int | str | None) -> Latency | None:
        """Rounds as they are, seconds from text."""
        if stored is None:
            return None
        if self.in_seconds:
            return seconds_of_text(name, stored)
        if isinstance(stored, str):
            raise InvalidTypeError("trial", name, stored, "is not of type int")
        return stored

    @cached_property
    def _bounds(self) -> tuple[Latency | None, Latency | None, Latency | None]:
        """Upper, lower and certified lower bound of the optimum."""
        row = self.optimum
        if row is None:
            return None, None, None
        return (
            self._stored_latency("upper_bound", row.upper_bound),
            self._stored_latency("lower_bound", row.lower_bound),
            self._stored_latency("certified_lower_bound", row.certified_lower_bound),
        )

    def _record_in_seconds(self) -> Record:
        trial, optimum = self.trial, self.optimum
        assert trial is not None
        total = self._stored_latency("total_latency", trial.total_latency)
        upper, lower, certified = self._bounds
        # The run is a schedule too: the least of every scheduler is at most its total.
        if upper is not None and total is not None:
            upper = min(upper, total)
        name = None
        if optimum is not None and optimum.start_times is not None:
            found = json_cell("optimum", "start_times", optimum.start_times, dict)
            name = found.get("lower_bound")
        return Record(
            instance=self.name,
            digest=trial.instance,
            requests=trial.requests or 0,
            memory_limit=trial.memory_limit or 0,
            policy=trial.policy,
            params=json_cell("trial", "params", trial.params, dict),
            seed=trial.seed,
            status=trial.status,
            total_latency=total,
            evictions=trial.evictions or 0,
            optimum_upper=upper,
            optimum_lower=lower,
            optimum_certified=certified,
            stop_reason=None if optimum is None else optimum.stop_reason,
            reason=self.reason,
            in_seconds=True,
            lower_bound=name,
            schedule_digest=None if self.schedule is None else digest_of(self.schedule),
        )

    def check(self) -> None:
        """Hold everything stored against the instance: no figure is believed that follows from it.

        Raises
        ------
        FileFormatError, InvalidValueError, InvalidTypeError
            What was stored cannot be, or is not what the start times give.
        """
        trial, optimum, instance = self.trial, self.optimum, self.problem
        if trial is None:
            return
        owner = f"trial of {self.policy!r}"
        if trial.instance is not None and instance is None:
            raise InvalidValueError(owner, "instance", trial.instance, "is not in the file")
        total = self._stored_latency("total_latency", trial.total_latency)
        pairs: list[tuple[str, Any, Any]] = [("total_latency", total, _total(self.schedule))]
        if instance is not None:
            pairs += [
                ("instance", trial.instance, instance.digest),
                ("requests", trial.requests, len(instance)),
                ("memory_limit", trial.memory_limit, instance.memory_limit),
            ]
        if isinstance(self.schedule, Schedule) and trial.attempts is not None:
            starts, ends = self.schedule.start_times, self.schedule.completion_times
            served = [
                (i, *stay, True)
                for i, stay in enumerate(zip(starts.tolist(), ends.tolist(), strict=True))
            ]
            pairs += [
                ("evictions", trial.evictions, len(self.attempts) - len(served)),
                ("completed attempts", sorted(stay for stay in self.attempts if stay[3]), served),
            ]
        if optimum is not None:
            upper, lower, certified = self._bounds
            if self.in_seconds and lower is not None and upper is not None and lower > upper:
                reason = f"exceeds the total latency {upper} of its schedule"
                raise InvalidValueError(owner, "lower_bound", lower, reason)
            pairs += [
                ("upper_bound", upper, _total(self.optimum_schedule)),
                ("optimal", optimum.status == "optimal", upper is not None and upper == lower),
            ]
            if certified is not None and (lower is None or certified > lower):
                reason = f"exceeds the lower bound {lower}"
                raise InvalidValueError(owner, "certified_lower_bound", certified, reason)
        for name, stored, follows in pairs:
            if stored != follows:
                reason = f"is stored, and from what else is stored follows {follows!r}"
                raise InvalidValueError(owner, name, stored, reason)
        # Parsed for nothing but to see that they can be.
        _ = self.record, self.versions


def experiment_names(path: str | os.PathLike[str]) -> list[str]:
    """Names of the experiments in a results file, in the order in which they were entered.

    Raises
    ------
    OSError, FileFormatError
        The file is not there, or is not a results file.
    """
    with open_for_reading(path) as database:
        rows = database.execute("SELECT name FROM experiments ORDER BY id").fetchall()
    return list(dict.fromkeys(str(name) for (name,) in rows))


@lru_cache(maxsize=64)
def _problem(document: str) -> AnyProblem:
    """Policies on one instance stand one after the other."""
    return problem_of(json_cell("instance", "document", document, dict))


def _starts(table: str, column: str, stored: str | None) -> Rounds | None:
    return None if stored is None else _tuples(json_cell(table, column, stored, list))


def _tuples(value: Any) -> Any:
    """Lists in lists as a record has them."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _total(schedule: TrialSchedule | None) -> Latency | None:
    if schedule is None:
        return None
    return seconds_of(schedule) if isinstance(schedule, SecondsSchedule) else schedule.total_latency
