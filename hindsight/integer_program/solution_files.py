"""Solutions of an exported model as other solvers write them: HiGHS, Gurobi, SCIP.

All three list variables by name, one a line with its value. Gurobi [1]_ puts comments before them,
of which one tells the objective; SCIP puts the status and the objective, and leaves out zeros;
HiGHS [2]_ (its raw and its sparse style) puts sections around them, of which rows and duals follow.
Names are those that `hindsight.export_model` writes: x(i_t), where request i starts at t.

References
----------
.. [1] Gurobi Optimization, "SOL format", Gurobi Optimizer Reference Manual.
.. [2] Q. Huangfu, J. A. J. Hall, "Parallelizing the dual revised simplex method", Mathematical
       Programming Computation 10 (2018), 119-142; the software is HiGHS.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import cast

from instances import FileFormatError, Instance, InvalidTypeError, Schedule
from instances.files import read_bytes

from .starts import group_requests, start_sets

INTEGRAL = 1e-4
"""Values this close to an integer are taken for it: solvers keep to 1e-5 or less."""

_OBJECTIVE = re.compile(r"(?:# )?objective(?: value)?(?::| =)?\s+(\S+)", re.IGNORECASE)
_STATUS = re.compile(r"solution status:\s+(.+)", re.IGNORECASE)
_START = re.compile(r"x[(\[](\d{1,15})[_,](\d{1,15})[)\]]")
_NO_VALUES = ("none", "no solution available")


class RefusedSolutionError(FileFormatError):
    """A solution that was read, and is none of the instance."""


@dataclass
class _Listed:
    """What a file says, not yet held against an instance."""

    values: dict[str, float] = field(default_factory=dict)
    objective: float | None = None
    status: str = ""
    has_none: bool = False


def read_solution(path: str | os.PathLike[str], instance: Instance) -> Schedule:
    """The schedule in a solution file of a model that `export_model` wrote, checked.

    Files of HiGHS (raw or sparse style), Gurobi (``.sol``) and SCIP (``write solution``) are told
    apart by what is in them. Variables that a file does not list are 0. Of the sparse formulation,
    whose columns count the starts of identical requests, these get theirs in turn.

    The schedule is feasible for ``instance`` and its cost is the objective in the file, if one is
    there; nothing else of the file is believed, least of all that the solution is optimal.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    instance : Instance
        The instance whose model was solved.

    Raises
    ------
    FileFormatError
        No solution in it, a value that is fractional, or a request without a start or with several.
    RefusedSolutionError
        A `FileFormatError` as well: a start that the instance does not have or that breaks its
        memory, or another cost than the file says: of another model.
    InvalidTypeError
        ``instance`` is none.
    OSError
        The file cannot be read.
    """
    if not isinstance(instance, Instance):
        raise InvalidTypeError(None, "instance", instance, "is not an Instance")
    return solution_in(read_bytes(path), path, instance)


def solution_in(content: bytes, path: str | os.PathLike[str], instance: Instance) -> Schedule:
    """The same of what a file holds.

    Raises
    ------
    FileFormatError
        As there.
    """
    listed = _read(content, path)
    if listed.has_none:
        ended = f": it ended as {listed.status}" if listed.status else ""
        raise FileFormatError(path, f"holds no solution{ended}")
    schedule = Schedule(instance, _start_times(listed, path, instance))
    violations = schedule.violations()
    if violations:
        raise RefusedSolutionError(path, f"is no schedule of this instance: {violations[0]}")
    costs = (schedule.total_latency, schedule.makespan)
    if listed.objective is not None and not any(abs(listed.objective - c) < 0.5 for c in costs):
        raise RefusedSolutionError(
            path,
            f"has objective {listed.objective:g}, but its starts have total latency {costs[0]} "
            f"here: it is of another model",
        )
    return schedule


def _read(content: bytes, path: str | os.PathLike[str]) -> _Listed:
    listed = _Listed()
    lines = [line.strip() for line in content.decode("utf-8", "replace").splitlines()]
    for number, line in enumerate(lines):
        if line.startswith("# Rows"):
            break
        if found := _OBJECTIVE.match(line):
            listed.objective = _number(found[1], path, number)
        elif found := _STATUS.fullmatch(line):
            listed.status = found[1]
        elif line.lower() in _NO_VALUES:
            listed.has_none = True
        elif number and lines[number - 1] == "Model status":
            listed.status = line
        elif line and not line.startswith("#") and len(words := line.split()) > 1:
            name, value = words[:2]
            if not _START.fullmatch(name):
                continue
            if name in listed.values:
                raise FileFormatError(path, f"{name} is there twice", row=number + 1)
            listed.values[name] = _number(value, path, number)
    if "infeasible" in listed.status.lower() and not listed.values:
        listed.has_none = True
    return listed


def _number(text: str, path: str | os.PathLike[str], number: int) -> float:
    try:
        return float(text)
    except ValueError:
        raise FileFormatError(path, f"{text!r} is no number", row=number + 1) from None


def _start_times(listed: _Listed, path: str | os.PathLike[str], instance: Instance) -> list[int]:
    found: list[list[int]] = [[] for _ in instance]
    for name, value in listed.values.items():
        index, start = map(int, cast("re.Match[str]", _START.fullmatch(name)).groups())
        if index >= len(instance) or start < instance[index].arrival_time:
            reason = f"{name} is no start of this instance: it is of another model"
            raise RefusedSolutionError(path, reason)
        # Not `round` of what is no finite number.
        is_count = -INTEGRAL <= value < len(instance) + 1
        if not is_count or abs(value - round(value)) > INTEGRAL:
            reason = "is fractional" if is_count else "is not a count of starts"
            raise FileFormatError(path, f"{name} = {value:g} {reason}")
        found[index].extend([start] * round(value))
    if not listed.values:
        raise FileFormatError(path, "names no start x(i_t): it is no solution of an exported model")
    for group in group_requests(start_sets(instance, [instance.arrival_times[:1]] * len(instance))):
        shared = found[group.representative]
        if len(shared) == len(group.members) and not any(found[i] for i in group.members[1:]):
            for member, start in zip(group.members, sorted(shared), strict=True):
                found[member] = [start]
    for index, starts in enumerate(found):
        if len(starts) != 1:
            many = f"{len(starts)} starts" if starts else "no start: a variable is missing"
            raise FileFormatError(path, f"request {instance.ids[index]!r} has {many}")
    return [starts[0] for starts in found]
