"""Read solution files of an exported model, as HiGHS, Gurobi and SCIP write them.

All three formats list one variable per line, with name and value. Gurobi [1]_ writes comments
before the variables, one of which gives the objective. SCIP writes the status and the objective
before the variables, and omits zeros. HiGHS [2]_ (raw and sparse style) writes the variables in a
section that rows and duals follow. Names are those of `hindsight.build_model`: x(i_t) for the start
of request i at t.

References
----------
.. [1] Gurobi Optimization, "SOL format", Gurobi Optimizer Reference Manual.
.. [2] Q. Huangfu, J. A. J. Hall, "Parallelizing the dual revised simplex method", Mathematical
       Programming Computation 10 (2018), 119-142; the software is HiGHS.
"""

from __future__ import annotations

import os
import re

from instances import FileFormatError, Instance, InvalidTypeError, Schedule
from instances.files import read_bytes

from .program import classes_of

INTEGRAL = 1e-4
"""Largest accepted distance of a variable's value in a file from an integer. Solvers allow 1e-5."""

_OBJECTIVE = re.compile(r"(?:# )?objective(?: value)?(?::| =)?\s+(\S+)", re.IGNORECASE)
_STATUS = re.compile(r"solution status:\s+(.+)", re.IGNORECASE)
_START = re.compile(r"x[(\[](\d{1,15})[_,](\d{1,15})[)\]]")
_NO_VALUES = ("none", "no solution available")


class RefusedSolutionError(FileFormatError):
    """Raised if the solution in a file does not belong to a model of the given instance."""


def read_solution(path: str | os.PathLike[str], instance: Instance) -> Schedule:
    """Read the schedule in a solution file of a model that `build_model` wrote, and check it.

    The formats of HiGHS (raw or sparse style), Gurobi (``.sol``) and SCIP (``write solution``) are
    recognised by their content. Variables that a file does not list are 0. In the sparse
    formulation each variable counts the starts of a class of requests, which differ only in their
    arrival. These starts are assigned to the requests in order of arrival.

    The schedule must be feasible for ``instance``, and its cost must equal the objective in the
    file, if there is one. Other claims in the file, such as optimality, are ignored.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    instance : Instance
        The instance whose model was solved.

    Raises
    ------
    FileFormatError
        The file has no solution, a fractional value, or a request without a start or with several.
    RefusedSolutionError
        Also a `FileFormatError`: the file belongs to another model. It has a start that the
        instance does not allow or that exceeds its memory, or an objective that is not the cost of
        the schedule.
    InvalidTypeError
        ``instance`` is not an instance.
    InvalidValueError
        The instance has several replicas.
    OSError
        The file cannot be read.
    """
    if not isinstance(instance, Instance):
        raise InvalidTypeError(None, "instance", instance, "is not an Instance")
    instance.require_one_replica()
    values, objective = _read(read_bytes(path), path)
    schedule = Schedule(instance, _start_times(values, path, instance))
    violations = schedule.violations()
    if violations:
        raise RefusedSolutionError(path, f"is not a schedule of this instance: {violations[0]}")
    costs = (schedule.total_latency, schedule.makespan)
    if objective is not None and not any(abs(objective - cost) < 0.5 for cost in costs):
        reason = f"has objective {objective:g}, but its starts have total latency {costs[0]}"
        raise RefusedSolutionError(path, f"{reason} in this instance: it belongs to another model")
    return schedule


def _read(
    content: bytes, path: str | os.PathLike[str]
) -> tuple[dict[tuple[int, int], float], float | None]:
    """Return the values of the variables x(i_t) in a solution file, and the objective.

    The dictionary has the value of x(i_t), the start of request i at t, under the key (i, t). The
    objective is None if the file does not state it.
    """
    values: dict[tuple[int, int], float] = {}
    objective, status, has_none, before = None, "", False, ""

    def number(text: str, row: int) -> float:
        try:
            return float(text)
        except ValueError:
            raise FileFormatError(path, f"{text!r} is not a number", row=row) from None

    for row, text in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        line, words = text.strip(), text.split()
        if line.startswith("# Rows"):
            break
        if found := _OBJECTIVE.match(line):
            objective = number(found[1], row)
        if found := _STATUS.fullmatch(line):
            status = found[1]
        if before == "Model status":
            status = line
        has_none = has_none or line.lower() in _NO_VALUES
        if len(words) > 1 and (found := _START.fullmatch(words[0])):
            start = int(found[1]), int(found[2])
            if start in values:
                raise FileFormatError(path, f"{words[0]} is listed twice", row=row)
            values[start] = number(words[1], row)
        before = line
    if has_none or ("infeasible" in status.lower() and not values):
        ended = f": the solver reported {status}" if status else ""
        raise FileFormatError(path, f"contains no solution{ended}")
    if not values:
        raise FileFormatError(path, "has no variable x(i_t) of a model that build_model wrote")
    return values, objective


def _start_times(
    values: dict[tuple[int, int], float], path: str | os.PathLike[str], instance: Instance
) -> list[int]:
    """Return the start of each request, from the values of the variables x(i_t) by (i, t).

    The variable x(i_t) is 1 if request i starts at t, or the number of requests of its class that
    start at t.

    Raises
    ------
    FileFormatError
        A value is fractional, or a request has no start or several. The error is a
        `RefusedSolutionError` if the instance does not allow a start.
    """
    found: list[list[int]] = [[] for _ in instance]
    for (index, start), value in values.items():
        name = f"x({index}_{start})"
        if index >= len(instance) or start < instance[index].arrival_time:
            reason = "is not a start of this instance: the file belongs to another model"
            raise RefusedSolutionError(path, f"{name} {reason}")
        # Test the range of the value first, because `round` fails on numbers that are not finite.
        is_count = -INTEGRAL <= value < len(instance) + 1
        if not is_count or abs(value - round(value)) > INTEGRAL:
            reason = "is fractional" if is_count else "is not a count of starts"
            raise FileFormatError(path, f"{name} = {value:g} {reason}")
        found[index].extend([start] * round(value))
    for own in classes_of(instance):
        group: list[int] = own.tolist()
        shared = found[group[0]]
        if len(shared) == len(group) and not any(found[i] for i in group[1:]):
            for member, start in zip(group, sorted(shared), strict=True):
                found[member] = [start]
    for index, starts in enumerate(found):
        if len(starts) != 1:
            many = f"{len(starts)} starts" if starts else "no start: a variable is missing"
            raise FileFormatError(path, f"request {instance.ids[index]!r} has {many}")
    return [starts[0] for starts in found]
