"""Read solution files of an exported model, as HiGHS, Gurobi and SCIP write them.

All three formats list one variable per line, with name and value. Gurobi [1]_ writes comments
before the variables. SCIP writes the status and the objective before the variables, and omits
zeros. HiGHS [2]_ (raw and sparse style) writes the variables in a section that rows and duals
follow. Names are those of `hindsight.build_model`: x(i_t) for the start of request i at t.

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
"""Largest accepted distance of a variable's value from an integer. Solvers allow up to 1e-5."""

_VARIABLE = re.compile(r"x[(\[](\d{1,15})[_,](\d{1,15})[)\]]\s+(\S+)")
"""Line of a variable x(i_t) in a solution file: index i of the request, start t, and value."""


def read_solution(path: str | os.PathLike[str], instance: Instance) -> Schedule:
    """Read the schedule in a solution file of a model that `build_model` wrote, and check it.

    The formats of HiGHS (raw or sparse style), Gurobi (``.sol``) and SCIP (``write solution``) are
    accepted. Variables that a file does not list are 0. In the sparse formulation each variable
    counts the starts of a class of requests, which differ only in their arrival. These starts are
    assigned to the requests in order of arrival.

    The schedule must be feasible for ``instance``. Other entries of the file, such as the objective
    or optimality, are ignored.

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
        Or the file belongs to another model: it has a start that the instance does not allow, or
        its schedule exceeds the memory limit.
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
    schedule = Schedule(instance, _start_times(_counts(path, instance), path, instance))
    for violation in schedule.violations():
        raise FileFormatError(path, f"is not a schedule of this instance: {violation}")
    return schedule


def _counts(path: str | os.PathLike[str], instance: Instance) -> dict[tuple[int, int], int]:
    """Return the value of each variable x(i_t) in a solution file, under the key (i, t).

    Raises
    ------
    FileFormatError
        The file has no variable, a value that is not a count of starts, or a start that the
        instance does not allow.
    """
    counts = {}
    columns = read_bytes(path).decode("utf-8", "replace").partition("\n# Rows")[0]
    for row, line in enumerate(columns.splitlines(), 1):
        if not (found := _VARIABLE.match(line.strip())):
            continue
        index, start, value = int(found[1]), int(found[2]), found[3]
        name = f"x({index}_{start})"
        if index >= len(instance) or start < instance[index].arrival_time:
            reason = "is not a start of this instance: the file belongs to another model"
            raise FileFormatError(path, f"{name} {reason}", row=row)
        try:
            counts[index, start] = count = round(float(value))
        except (ValueError, OverflowError):
            raise FileFormatError(path, f"{value!r} is not a number", row=row) from None
        if not (0 <= count <= len(instance) and abs(float(value) - count) <= INTEGRAL):
            raise FileFormatError(path, f"{name} = {value} is not a count of starts", row=row)
    if not counts:
        advice = "export with symbolic_solver_labels, write HiGHS solutions in style 0 or 4"
        raise FileFormatError(path, f"has no variable x(i_t) of build_model: {advice}")
    return counts


def _start_times(
    counts: dict[tuple[int, int], int], path: str | os.PathLike[str], instance: Instance
) -> list[int]:
    """Return the start of each request, from the values of the variables x(i_t) by (i, t).

    In the dense formulation, x(i_t) is 1 if request i starts at t. In the sparse one, it is the
    number of requests of the class of request i that start at t. The requests of a class differ
    only in their arrival.

    Raises
    ------
    FileFormatError
        A request has no start, or several.
    """
    found: list[list[int]] = [[] for _ in instance]
    for (index, start), count in counts.items():
        found[index].extend([start] * count)
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
