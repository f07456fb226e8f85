"""Results files read back: each trial held against its instance, all together as tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, cast

from instances import (
    FileFormatError,
    InvalidTypeError,
    InvalidValueError,
    PreemptiveSchedule,
    Schedule,
    SecondsSchedule,
    ServiceLevel,
    Workload,
)
from instances.batch_time.presets import StorableTime, batch_time_of
from instances.service_level import Limits
from online.comparison.ratio_tables import Records, cells_of
from online.comparison.trial import (
    COMPLETED,
    FAILED,
    NO_OPTIMUM,
    NOT_RUN,
    OF_OPTIMUM,
    UNSERVED,
    AnyProblem,
    Stay,
    Trial,
    TrialSchedule,
    held_alike,
    total_of,
)
from online.runtime.table import Table
from online.trials.intervals import NOTHING, Interval, Latency

from .declaration import BATCH_TIME, LEVEL, PREEMPTING
from .documents import problem_of, schedule_of_document, seconds_of_text
from .plan import PREEMPTIVE, SEARCH
from .ratio_table import ratio_rows, ratio_table
from .store import (
    ON_TIME,
    OPTIMUM_COLUMNS,
    TRIAL_COLUMNS,
    OptimumRow,
    PlaceRow,
    TrialRow,
    has_on_time,
    json_cell,
    open_for_reading,
    row_of,
)


class Results(Records):
    """Trials in the order of their experiments, run or not."""

    def __repr__(self) -> str:
        return f"Results({len(self)} trials, {len(self.run)} of them run)"

    @property
    def run(self) -> Records:
        """Trials that have been run."""
        return Records(trial for trial in self if trial.status != NOT_RUN)

    def frame(self) -> Any:
        """Make a pandas DataFrame, one line a trial that was run; intervals are two columns."""
        import pandas

        names = ("experiment", "version", "family", "draw", "predictions")
        places = ({name: getattr(one, name) for name in names} for one in self.run)
        cells = cells_of(self.run)
        return pandas.DataFrame([place | own for place, own in zip(places, cells, strict=True)])

    def ratios(self, *, confidence_level: float = 0.95) -> Table:
        """Make the table of ratios with confidence intervals, to be printed in any format."""
        return ratio_table(ratio_rows(self, confidence_level=confidence_level))


def read_results(path: str | os.PathLike[str], experiment: str | None = None) -> Results:
    """Read every trial asked for, in the order of the experiments: run or not.

    Parameters
    ----------
    path : str | os.PathLike[str]
        A results file.
    experiment : str or None, default None
        Name of one; None reads all that the file holds.

    Raises
    ------
    OSError, FileFormatError
        The file is not there, is not a results file, or holds what cannot be true.
    InvalidValueError
        It holds no such experiment.
    """
    columns = ", ".join(f"{one}.{name}" for one in "opa" for name in OPTIMUM_COLUMNS)
    same = "AND {0}.version = e.version AND {0}.sources = e.sources"
    level = f"json_extract(e.declaration, '$.{LEVEL}')"
    with open_for_reading(path) as database:
        held = set(TRIAL_COLUMNS) - (set() if has_on_time(database) else {ON_TIME})
        trial = ", ".join(f"t.{name}" if name in held else "NULL" for name in TRIAL_COLUMNS)
        rows = database.execute(
            "SELECT e.name, e.version, m.position, m.family, m.draw, m.name, m.policy,"
            f" m.predictions, i.document, json_extract(e.declaration, '$.{BATCH_TIME}'),"
            f" {level}, json_extract(e.declaration, '$.{PREEMPTING}'), {trial}, {columns}"
            " FROM members m JOIN experiments e ON e.id = m.experiment"
            " LEFT JOIN trials t ON t.key = m.trial"
            " LEFT JOIN optima o ON o.instance = t.instance AND o.solver = e.solver"
            f" {same.format('o')}"
            " LEFT JOIN optima p ON p.instance = t.instance AND p.solver ="
            f""" '{{"{PREEMPTIVE}":' || e.solver || '}}' {same.format("p")}"""
            " LEFT JOIN optima a ON a.instance = t.instance AND a.solver ="
            f""" '{{"{LEVEL}":' || {level} || ',"{SEARCH}":' || e.solver || '}}'"""
            f" {same.format('a')}"
            " LEFT JOIN instances i ON i.digest = t.instance"
            " ORDER BY e.id, m.position"
        ).fetchall()
    results = Results(held_alike(_trial(path, row) for row in rows))
    if experiment is None:
        return results
    chosen = Results(trial for trial in results if trial.experiment == experiment)
    if not chosen:
        known = ", ".join(dict.fromkeys(trial.experiment for trial in results)) or "none"
        reason = f"is not in {os.fspath(path)}, which holds: {known}"
        raise InvalidValueError(None, "experiment", experiment, reason)
    return chosen


def _trial(path: str | os.PathLike[str], cells: tuple[Any, ...]) -> Trial:
    left = iter(cells)
    kinds = (PlaceRow, TrialRow, OptimumRow, OptimumRow, OptimumRow)
    head, trial, *searches = (tuple(islice(left, len(fields(kind)))) for kind in kinds)
    try:
        return trial_of_rows(
            row_of(PlaceRow, head),
            None if trial[0] is None else row_of(TrialRow, trial),
            *(None if one[0] is None else row_of(OptimumRow, one) for one in searches),
        )
    except (FileFormatError, InvalidValueError, InvalidTypeError) as error:
        where = f"place {head[2]} of experiment {head[0]!r}"
        raise FileFormatError(path, f"{where}: {error}") from None


def trial_of_rows(
    place: PlaceRow,
    row: TrialRow | None,
    optimum: OptimumRow | None,
    preemptive: OptimumRow | None = None,
    most: OptimumRow | None = None,
) -> Trial:
    """Make the trial at a place, believing no figure that follows from what else is stored.

    Parameters
    ----------
    place : PlaceRow
        In its experiment.
    row : TrialRow or None
        None while it has not been run.
    optimum, preemptive : OptimumRow or None
        Of the optimum without preemption, or in seconds, and of the preemptive one; None while it
        has not been looked for, and where the experiment leaves it out.
    most : OptimumRow or None, default None
        Of the most requests on time; None as for the optimum, and without a service level.

    Raises
    ------
    FileFormatError, InvalidValueError, InvalidTypeError
        What was stored cannot be, or is not what the start times give.
    """
    shared = ("experiment", "version", "position", "family", "draw", "predictions")
    where: dict[str, Any] = {
        **{name: getattr(place, name) for name in shared},
        "instance": place.name,
        "batch_time": None if place.batch_time is None else _batch_time(place.batch_time),
    }
    if row is None:
        where |= {"status": NOT_RUN, "reason": "not yet run"}
        return Trial.of_schedules(None, place.policy, **where)
    # Of a schedule of stretches, and of a policy that declares it, the optimum is preemptive.
    kept = (row.start_rounds or "").startswith("[[") or place.policy in json_cell(
        "experiment", PREEMPTING, place.preempting or "[]", list
    )
    own, other = (preemptive, optimum) if kept else (optimum, preemptive)
    stored = _Stored(place, row, own, most)
    trial = stored.trial(where | {"preemptive": kept})
    stored.check(trial)
    if other is not None:
        trial = replace(trial, other=_Stored(place, row, other, None).known())
    return trial


@dataclass(frozen=True)
class _Stored:
    """Rows of one trial."""

    place: PlaceRow
    row: TrialRow
    optimum: OptimumRow | None
    most: OptimumRow | None

    def trial(self, where: dict[str, Any]) -> Trial:
        row, problem = self.row, self.problem
        if row.instance is not None and problem is None:
            raise InvalidValueError(self.owner, "instance", row.instance, "is not in the file")
        known = self.known()
        starts = row.start_rounds if row.status == COMPLETED else None
        schedule = self.schedule("trial", "start_rounds", starts)
        return Trial.of_schedules(
            problem,
            row.policy,
            schedule,
            known.pop("optimum_schedule"),
            status=row.status,
            stays=self.stays,
            digest=row.instance,
            requests=row.requests or 0,
            memory_limit=row.memory_limit or 0,
            params=json_cell("trial", "params", row.params, dict),
            seed=row.seed,
            evictions=row.evictions or 0,
            traceback=row.traceback,
            versions=json_cell("trial", "versions", row.versions, dict),
            level=self.level,
            on_time=row.on_time,
            attainable=self.attainable(schedule),
            **known,
            **where,
        )

    def known(self) -> dict[str, Any]:
        """Return what is known of the optimum, held against what follows from its schedule."""
        row = self.optimum
        known: dict[str, Any] = dict.fromkeys(OF_OPTIMUM) | {"reason": self.reason}
        if row is None:
            return known
        found = self.schedule("optimum", "start_times", row.start_times)
        if found is not None and (violations := found.violations()):
            raise InvalidValueError(
                "optimum", "start_times", "a schedule", f"breaks: {violations[0]}"
            )
        upper, lower, certified = self.bounds
        total = None if found is None else total_of(found)
        if total is not None and lower is not None and total < lower:
            reason = f"exceeds the total latency {total} of optimum"
            raise InvalidValueError(self.owner, "optimum_lower", lower, reason)
        _refuse_difference(self.owner, "upper_bound", upper, total)
        proved = upper is not None and upper == lower
        _refuse_difference(self.owner, "optimal", row.status == "optimal", proved)
        if certified is not None and (lower is None or certified > lower):
            reason = f"exceeds the lower bound {lower}"
            raise InvalidValueError(self.owner, "certified_lower_bound", certified, reason)
        named = None
        if self.place.batch_time is not None and row.start_times is not None:
            told = json_cell("optimum", "start_times", row.start_times, dict)
            named = told.get("lower_bound")
        values = (upper, lower, certified, row.stop_reason, None, named, found)
        return known | dict(zip(OF_OPTIMUM, values, strict=False))

    @property
    def owner(self) -> str:
        return f"trial of {self.row.policy!r}"

    @cached_property
    def level(self) -> ServiceLevel | None:
        if self.place.level is None:
            return None
        limits = json_cell("experiment", LEVEL, self.place.level, dict)
        if not limits.keys() <= set(Limits._fields):
            raise InvalidValueError("experiment", LEVEL, limits, "is no service level")
        return ServiceLevel(**limits)

    def kept(self, schedule: TrialSchedule | None) -> int | None:
        """Count the requests on time in a schedule of the kind that the most on time is of."""
        if self.level is None or not isinstance(schedule, Schedule | SecondsSchedule):
            return None
        return int(schedule.on_time(self.level).sum())

    def attainable(self, schedule: TrialSchedule | None) -> Interval | None:
        """Bound the most requests on time; None where no schedule has as many as the run.

        The policy's schedule is one of the schedules: `online.trials.intervals.attainable_beside`.
        """
        row, kept, most = self.row, self.kept(schedule), self.most
        if row.on_time is None or kept is None or kept < row.on_time:
            return None
        if most is None or most.status == FAILED:
            return NOTHING
        found = self.schedule("most on time", "start_times", most.start_times)
        # Beside those on time that it is for, the schedule may have others by chance.
        least = 0 if found is None or found.violations() else self.kept(found) or 0
        lower, upper = most.lower_bound, most.upper_bound
        if not isinstance(lower, int) or lower > least:
            reason = f"is more than its schedule has, which is {least}"
            raise InvalidValueError("most on time", "lower_bound", lower, reason)
        known = max(kept, lower)
        if not isinstance(upper, int) or upper < known:
            reason = f"is below the {known} of a schedule"
            raise InvalidValueError("most on time", "upper_bound", upper, reason)
        return Interval.between(known, upper)

    @cached_property
    def problem(self) -> AnyProblem | None:
        """Realised instance, in seconds the workload, named as in the experiment."""
        if self.place.document is None:
            return None
        found = _problem(self.place.document)
        if isinstance(found, Workload):
            seconds = _batch_time(self.place.batch_time or "")
            found = found.with_batch_time(seconds)
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
            return schedule_of_document(problem, document)
        rounds = json_cell(table, column, stored, list)
        lists = [isinstance(own, list) for own in rounds]
        if not any(lists):
            return Schedule(problem, cast("Sequence[int]", rounds))
        if not all(lists) or not all(isinstance(one, list) for own in rounds for one in own):
            reason = "are neither starts nor stretches"
            raise InvalidTypeError("schedule", "rounds", rounds, reason)
        return PreemptiveSchedule(problem, rounds)

    @property
    def reason(self) -> str | None:
        """Return why there is no ratio, in one line; None if there is one, or none yet."""
        for row, missing in ((self.row, ""), (self.optimum, NO_OPTIMUM)):
            if row is not None and row.status == FAILED and row.error is not None:
                return missing + " ".join(row.error.split())
        return UNSERVED.get(self.row.status)

    def latency(self, name: str, stored: int | str | None) -> Latency | None:
        """Return rounds as they are, and read seconds from text."""
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
        row, names = self.optimum, ("upper_bound", "lower_bound", "certified_lower_bound")
        if row is None:
            return None, None, None
        upper, lower, certified = (self.latency(name, getattr(row, name)) for name in names)
        return upper, lower, certified

    def check(self, trial: Trial) -> None:
        """Hold what is stored against what follows from it."""
        row, problem = self.row, trial.problem
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
            spans = zip(starts.tolist(), ends.tolist(), strict=True)
            served = [(request, start, end, True) for request, (start, end) in enumerate(spans)]
            pairs += [
                ("evictions", row.evictions, len(trial.stays) - len(served)),
                ("completed attempts", sorted(stay for stay in trial.stays if stay[3]), served),
            ]
            # Of a run that paused first tokens are not stored, and those of its schedule are later.
            pairs += (
                [] if row.on_time is None else [(ON_TIME, row.on_time, self.kept(trial.schedule))]
            )
        for name, stored, follows in pairs:
            _refuse_difference(self.owner, name, stored, follows)


def _refuse_difference(owner: str, name: str, stored: Any, follows: Any) -> None:
    """Refuse a figure that is not the one that follows from what else is stored."""
    if stored != follows:
        reason = f"is stored, and from what else is stored follows {follows!r}"
        raise InvalidValueError(owner, name, stored, reason)


@lru_cache(maxsize=64)
def _batch_time(document: str) -> StorableTime:
    """Read a batch time."""
    kind: Any = dict if document.startswith("{") else list
    return batch_time_of(json_cell("experiment", "batch_time", document, kind))


@lru_cache(maxsize=64)
def _problem(document: str) -> AnyProblem:
    """Read an instance; policies on one instance stand one after the other."""
    return problem_of(json_cell("instance", "document", document, dict))
