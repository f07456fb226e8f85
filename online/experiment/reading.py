"""Trials read back: what is stored of one, held against its instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

from instances import (
    InvalidTypeError,
    InvalidValueError,
    PreemptiveSchedule,
    Schedule,
    Workload,
)
from instances.batch_time.presets import StorableTime, batch_time_of
from online.comparison.ratios import Latency
from online.comparison.trial import (
    COMPLETED,
    FAILED,
    NOT_RUN,
    UNSERVED,
    AnyProblem,
    Stay,
    Trial,
    TrialSchedule,
    total_of,
)

from .documents import problem_of, schedule_of_document, seconds_of_text
from .store import OptimumRow, PlaceRow, TrialRow, json_cell


def trial_of_rows(place: PlaceRow, row: TrialRow | None, optimum: OptimumRow | None) -> Trial:
    """The trial at a place, with no figure believed that follows from what else is stored.

    Parameters
    ----------
    place : PlaceRow
        In its experiment.
    row : TrialRow or None
        None while it has not been run.
    optimum : OptimumRow or None
        None while it has not been looked for, and where the experiment leaves it out.

    Raises
    ------
    FileFormatError, InvalidValueError, InvalidTypeError
        What was stored cannot be, or is not what the start times give.
    """
    where: dict[str, Any] = {
        "experiment": place.experiment,
        "version": place.version,
        "position": place.position,
        "family": place.family,
        "draw": place.draw,
        "predictions": place.predictions,
        "instance": place.name,
        "in_seconds": place.batch_time is not None,
    }
    if row is None:
        return Trial(
            digest=None,
            requests=0,
            memory_limit=0,
            policy=place.policy,
            params={},
            seed=0,
            status=NOT_RUN,
            total_latency=None,
            evictions=0,
            reason="not yet run",
            **where,
        )
    stored = _Stored(place, row, optimum)
    trial = stored.trial(where)
    stored.check(trial)
    return trial


@dataclass(frozen=True)
class _Stored:
    """The rows of one trial."""

    place: PlaceRow
    row: TrialRow
    optimum: OptimumRow | None

    def trial(self, where: dict[str, Any]) -> Trial:
        row, optimum, problem = self.row, self.optimum, self.problem
        owner = f"trial of {row.policy!r}"
        if row.instance is not None and problem is None:
            raise InvalidValueError(owner, "instance", row.instance, "is not in the file")
        upper, lower, certified = self.bounds
        best = None if optimum is None else optimum.start_times
        found = self.schedule("optimum", "start_times", best)
        figures: dict[str, Any] = {}
        if self.place.batch_time is not None:
            # The run is a schedule too: the least of every scheduler is at most its total.
            total = self.latency("total_latency", row.total_latency)
            known = [end for end in (upper, total) if end is not None]
            figures["optimum_upper"] = None if upper is None else min(known)
            if best is not None:
                figures["lower_bound"] = json_cell("optimum", "start_times", best, dict).get(
                    "lower_bound"
                )
        starts = row.start_rounds if row.status == COMPLETED else None
        return Trial.of_schedules(
            problem,
            row.policy,
            self.schedule("trial", "start_rounds", starts),
            found,
            status=row.status,
            stays=self.stays,
            optimum_lower=lower,
            optimum_certified=certified,
            digest=row.instance,
            requests=row.requests or 0,
            memory_limit=row.memory_limit or 0,
            params=json_cell("trial", "params", row.params, dict),
            seed=row.seed,
            evictions=row.evictions or 0,
            stop_reason=None if optimum is None else optimum.stop_reason,
            reason=self.reason,
            traceback=row.traceback,
            versions=json_cell("trial", "versions", row.versions, dict),
            **figures,
            **where,
        )

    @cached_property
    def problem(self) -> AnyProblem | None:
        """The realised instance, in seconds the workload, named as in the experiment."""
        if self.place.document is None:
            return None
        found = _problem(self.place.document)
        if isinstance(found, Workload):
            return found.renamed(self.place.name, found.metadata)
        return found.renamed(self.place.name)

    @property
    def stays(self) -> list[Stay] | None:
        if self.row.attempts is None:
            # Of a failed run nothing is stored, and nothing was held.
            return [] if self.row.status == FAILED else None
        found = json_cell("trial", "attempts", self.row.attempts, list)
        for stay in found:
            if not isinstance(stay, list) or [type(one) for one in stay] != [int, int, int, bool]:
                raise InvalidValueError("trial", "attempts", stay, "is no stay of a request")
        return [tuple(stay) for stay in found]

    def schedule(self, table: str, column: str, stored: str | None) -> TrialSchedule | None:
        problem = self.problem
        if stored is None or problem is None:
            return None
        if isinstance(problem, Workload):
            document = json_cell(table, column, stored, dict)
            return schedule_of_document(problem, self.batch_time, document)
        rounds = json_cell(table, column, stored, list)
        lists = [isinstance(own, list) for own in rounds]
        if not any(lists):
            return Schedule(problem, cast("Sequence[int]", rounds))
        if not all(lists) or not all(isinstance(one, list) for own in rounds for one in own):
            reason = "are neither starts nor stretches"
            raise InvalidTypeError("schedule", "rounds", rounds, reason)
        return PreemptiveSchedule(problem, rounds)

    @property
    def batch_time(self) -> StorableTime:
        text = self.place.batch_time or ""
        kind: Any = dict if text.startswith("{") else list
        return batch_time_of(json_cell("experiment", "batch_time", text, kind))

    @property
    def reason(self) -> str | None:
        """Why there is no ratio, in one line; None where there is one, or none yet."""
        for row, missing in ((self.row, ""), (self.optimum, "no optimum: ")):
            if row is not None and row.status == FAILED and row.error is not None:
                return missing + " ".join(row.error.split())
        return UNSERVED.get(self.row.status)

    def latency(self, name: str, stored: int | str | None) -> Latency | None:
        """Rounds as they are, seconds from text."""
        if stored is None:
            return None
        if self.place.batch_time is not None:
            return seconds_of_text(name, stored)
        if isinstance(stored, str):
            raise InvalidTypeError("trial", name, stored, "is not of type int")
        return stored

    @property
    def bounds(self) -> tuple[Latency | None, Latency | None, Latency | None]:
        """Upper, lower and certified lower bound of the optimum."""
        row = self.optimum
        if row is None:
            return None, None, None
        return (
            self.latency("upper_bound", row.upper_bound),
            self.latency("lower_bound", row.lower_bound),
            self.latency("certified_lower_bound", row.certified_lower_bound),
        )

    def check(self, trial: Trial) -> None:
        """Hold what is stored against what follows from it."""
        row, optimum, problem = self.row, self.optimum, trial.problem
        owner = f"trial of {row.policy!r}"
        total = self.latency("total_latency", row.total_latency)
        pairs: list[tuple[str, Any, Any]] = [("total_latency", total, trial.total_latency)]
        if problem is not None:
            pairs += [
                ("instance", row.instance, problem.digest),
                ("requests", row.requests, len(problem)),
                ("memory_limit", row.memory_limit, problem.memory_limit),
            ]
        if isinstance(trial.schedule, Schedule) and trial.stays is not None:
            starts, ends = trial.schedule.start_times, trial.schedule.completion_times
            served = [
                (i, start, end, True)
                for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True))
            ]
            pairs += [
                ("evictions", row.evictions, len(trial.stays) - len(served)),
                ("completed attempts", sorted(stay for stay in trial.stays if stay[3]), served),
            ]
        if optimum is not None:
            upper, lower, certified = self.bounds
            best = trial.optimum_schedule
            pairs += [
                ("upper_bound", upper, None if best is None else total_of(best)),
                ("optimal", optimum.status == "optimal", upper is not None and upper == lower),
            ]
            if certified is not None and (lower is None or certified > lower):
                reason = f"exceeds the lower bound {lower}"
                raise InvalidValueError(owner, "certified_lower_bound", certified, reason)
        for name, stored, follows in pairs:
            if stored != follows:
                reason = f"is stored, and from what else is stored follows {follows!r}"
                raise InvalidValueError(owner, name, stored, reason)


@lru_cache(maxsize=64)
def _problem(document: str) -> AnyProblem:
    """Policies on one instance stand one after the other."""
    return problem_of(json_cell("instance", "document", document, dict))
