"""Pyomo models of the integer program, and their export to LP and MPS files.

Both formulations are the program of `hindsight.exact.program`. In the *dense* formulation each
request is a class of its own: [J25] Equations (1)-(4) as printed, with o + 1 non-zeros per start.
In the *sparse* formulation, requests that differ only in their arrival share columns. If memory is
counted in tokens, it is counted by differences between rounds, with five non-zeros per start; under
another memory rule the memory rows are those of the dense formulation.

`hindsight.solve` and `hindsight.relax` do not use Pyomo: they pass arrays to HiGHS.
"""

from __future__ import annotations

import operator
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from hindsight.outcomes.goals import Goal, OnTime, Tail
from hindsight.outcomes.problem import Problem, busy_end
from hindsight.prices.horizon import proved_horizon
from hindsight.prices.volume import makespan_lower_bound
from hindsight.runtime.resources import available_bytes
from hindsight.schedules.lists import best_list_schedule
from instances import Instance, InvalidTypeError, InvalidValueError
from instances.arrays import FloatArray, IntArray
from instances.files import write_atomically
from instances.problem.memory_rule import TOKENS
from instances.problem.memory_translation import pooled
from instances.service_level import limits_of
from instances.validation import as_choice, as_integer

from .program import Program, classes_of
from .starts import StartSets, all_starts, latest_starts, starts_until, useful_replicas

if TYPE_CHECKING:
    import pyomo.environ as pyo

Formulation = Literal["dense", "sparse"]
FORMULATIONS = get_args(Formulation)
EXPORT_SUFFIXES = (".lp", ".mps")
"""Suffixes of the files to which Pyomo can write a model: CPLEX LP and free MPS format."""

BYTES_PER_NAME, BYTES_PER_ENTRY = 1_200, 250
"""Bytes of memory that Pyomo needs to build and write a model: for each row or column, and for each
non-zero coefficient. Measured on models of 60,000 to a million non-zeros."""


class ModelSize(NamedTuple):
    """Formulation of a model, and its numbers of rows, columns and non-zero coefficients.

    The formulation is ``"dense"`` or ``"sparse"`` (`build_model`). The numbers are computed before
    the model is built.
    """

    formulation: str
    rows: int
    columns: int
    non_zeros: int

    @property
    def bytes(self) -> int:
        """Return about how many bytes of memory Pyomo needs to build and write the model."""
        return BYTES_PER_NAME * (self.rows + self.columns) + BYTES_PER_ENTRY * self.non_zeros

    def refuse_too_large(self) -> None:
        """Raise an error if the model does not fit into the memory that this computer has free.

        Raises
        ------
        InvalidValueError
            The model does not fit.
        """
        available = available_bytes()
        if self.bytes > available:
            reason = f"is too large here: at least {self.rows:,} rows, {self.columns:,} columns, "
            reason += f"{self.non_zeros:,} non-zeros, about {self.bytes / 1e9:,.1f} GB of memory, "
            reason += f"and {available / 1e9:,.1f} GB are free"
            raise InvalidValueError(None, "formulation", self.formulation, reason)


def model_size(
    instance: Instance, formulation: str, horizon: int, last: IntArray | None = None
) -> ModelSize:
    """Compute the size of the model for total latency, without building it.

    The model has a variable for each start with which a request completes by round ``horizon``.
    With ``last``, shape (n,), it has one for each start of request i from its arrival to last[i]
    instead. In the sparse formulation, the rows that forbid starts before arrivals (Equation (4) of
    [J25]) are not counted.
    """
    o, replicas = instance.output_lengths, useful_replicas(instance)
    latest = horizon - o if last is None else last
    numbers = np.maximum(latest - instance.arrival_times + 1, 0) * replicas
    groups = classes_of(instance, last, are_alone=formulation == "dense")
    # Use Python's integers from here on, because products of numbers of columns, rows and rounds
    # may exceed 64 bits.
    columns = [int(numbers[own].max()) for own in groups]
    outputs = [int(o[own[0]]) for own in groups]
    rounds, rows = horizon * replicas, len(groups)
    if formulation == "sparse" and instance.memory_rule == TOKENS:
        # The variable of a start has five non-zeros. One is in the row that limits the starts of
        # its class. Two are in rows that define N_r, the number of running requests, and two are in
        # rows that define W_r, the used memory: r is the request's first round, or the round after
        # its last. The variables N_r and W_r of a round r together have five too. Each has one in
        # the row that defines it, and one in the row of the same kind for round r + 1. N_r has one
        # more in the row that defines W_r.
        many = 5 * (sum(columns) + rounds)
        return ModelSize(formulation, rows + 2 * rounds, sum(columns) + 2 * rounds, many)
    entries = sum(map(operator.mul, columns, (one + 1 for one in outputs)))
    return ModelSize(formulation, rows + rounds, sum(columns), entries)


def build_model(
    instance: Instance,
    formulation: Formulation = "dense",
    relax: bool = False,
    horizon: int | None = None,
    goal: Goal = "latency",
    path: str | os.PathLike[str] | None = None,
) -> pyo.ConcreteModel:
    """Build the integer program of an instance as a Pyomo model ([J25] Section 3).

    The variable ``x[i, t]`` is 1 if request i starts at t. The optimum is the least total latency
    or makespan of all schedules. For the goal `OnTime` the model minimises the number of late
    requests, which need not start. It then has variables only for starts that are on time, and its
    objective is named ``late``.

    A fleet is modelled as one timeline with a segment of H rounds per replica: ``x[i, k H + t]``
    starts request i at t on replica k. Replicas are interchangeable, so the i-th request to arrive
    may use only the first i replicas.

    Parameters
    ----------
    instance : Instance
        The problem.
    formulation : Formulation, default "dense"
        ``"dense"``, the program (1)-(4) as printed in [J25], or ``"sparse"``, the equivalent
        program in which requests that differ only in their arrival share variables.
    relax : bool, default False
        Build the linear relaxation.
    horizon : int or None, default None
        Last round H of each replica, by which all requests must complete. If None, a round by which
        an optimal schedule is proved to end.
    goal : {"latency", "makespan"} or OnTime, default "latency"
        Cost to minimise: total latency, the makespan, or the number of late requests. The makespan
        is the sum of binaries ``busy[r]``, which are 1 for each round r up to the last completion.
        For late requests, ``horizon`` must be None.
    path : str or os.PathLike or None, default None
        File to which the model is also written: LP or free MPS format, by its suffix.

    Raises
    ------
    InvalidTypeError
        ``instance`` is not an instance.
    InvalidValueError
        The formulation, goal or suffix of the path is unknown, some request cannot complete by the
        horizon, or the model does not fit into memory (tested before the model is built).
    OSError
        The path cannot be written; no partial file is left.

    Examples
    --------
    >>> import hindsight
    >>> from instances import Instance
    >>> instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)
    >>> len(hindsight.build_model(instance, horizon=5).x)
    12
    """
    if not isinstance(instance, Instance):
        raise InvalidTypeError(None, "instance", instance, "is not an Instance")
    if isinstance(Problem.checked(instance, goal).goal, Tail):
        raise InvalidValueError(None, "goal", goal, "needs several programs: use solve() instead")
    as_choice(formulation, None, "formulation", FORMULATIONS)
    if path is not None and Path(path).suffix.lower() not in EXPORT_SUFFIXES:
        reason = f"does not end in {' or '.join(EXPORT_SUFFIXES)}"
        raise InvalidValueError(None, "path", str(path), reason)
    if isinstance(goal, OnTime):
        if horizon is not None:
            reason = "must be None for late requests: the service levels limit the starts"
            raise InvalidValueError(None, "horizon", horizon, reason)
        last = latest_starts(instance, limits_of(goal.level, len(instance)))
        end = int((last + instance.output_lengths).max())
        model_size(instance, formulation, end, last).refuse_too_large()
        starts = starts_until(instance, last)
    else:
        rounds = last_round(instance, formulation, horizon, goal)
        starts = all_starts(instance, rounds)
    model = model_of(starts, formulation, relax=relax, goal=goal)
    if path is not None:
        _export(model, path)
    return model


def last_round(instance: Instance, formulation: str, horizon: int | None, goal: Goal) -> int:
    """Return the last round of a model: the given ``horizon``, or a proved one if it is None.

    A proved horizon is a round by which some optimal schedule completes.

    Raises
    ------
    InvalidValueError
        The model with all starts that complete by this round does not fit into memory.
    """
    if horizon is None and (goal == "makespan" or instance.memory_rule != TOKENS):
        horizon = busy_end(instance)
    if horizon is None:
        # A lower bound on the makespan takes less time than the proof of a horizon. A model with
        # this bound as its horizon is at most as large as the model that is built. Raise an error
        # here if even the smaller model does not fit into memory.
        model_size(instance, formulation, makespan_lower_bound(pooled(instance))).refuse_too_large()
        horizon = proved_horizon(instance, best_list_schedule(instance))[1]
    rounds = as_integer(horizon, None, "horizon", minimum=1)
    model_size(instance, formulation, rounds).refuse_too_large()
    return rounds


def model_of(
    starts: StartSets, formulation: str, *, relax: bool = False, goal: Goal = "latency"
) -> pyo.ConcreteModel:
    """Build the Pyomo model with a variable for each of the given starts.

    In the dense formulation, ``x[i, t]`` is 1 if request i starts at t. In the sparse formulation,
    requests that differ only in their arrival form a class, and ``x[i, t]`` is the number of starts
    at t in the class whose first request to arrive is i. If memory is counted in tokens, this
    formulation also has the number of running requests ``running[r]`` and the memory
    ``memory_used[r]`` of each round r as variables.
    """
    # Pyomo is imported here because loading it takes longer than most solves.
    import pyomo.environ as pyo
    from pyomo.core.expr import LinearExpression

    program = Program(
        starts,
        relax=relax,
        differences=formulation == "sparse" and starts.instance.memory_rule == TOKENS,
        are_alone=formulation == "dense",
        makespan=goal == "makespan",
    )
    linear, (labels, row_labels) = program.linear, program.labels()
    model: Any = pyo.ConcreteModel(name=starts.instance.name or formulation)
    model.rounds = pyo.RangeSet(1, starts.horizon)
    bounds: dict[str, dict[Any, tuple[int, float | None]]] = {"x": {}}
    domains = {"x": pyo.NonNegativeReals}
    whole = pyo.Binary if formulation == "dense" else pyo.NonNegativeIntegers
    columns = zip(labels, linear.column_upper.tolist(), linear.integer.tolist(), strict=True)
    for (name, key), most, is_integer in columns:
        bounds.setdefault(name, {})[key] = 0, None if most == np.inf else most
        domains[name] = whole if is_integer else pyo.NonNegativeReals
    for name, own in bounds.items():
        model.add_component(name, pyo.Var(list(own), domain=domains[name], bounds=own))
    variables = [model.component(name)[key] for name, key in labels]

    def combined(places: IntArray, factors: FloatArray, constant: float = 0.0) -> Any:
        terms = [variables[place] for place in places]
        return LinearExpression(constant=constant, linear_coefs=factors.tolist(), linear_vars=terms)

    name = "makespan" if goal == "makespan" else "total_latency"
    costly = np.flatnonzero(linear.costs)
    cost = combined(costly, linear.costs[costly], linear.offset)
    model.add_component("late" if starts.optional else name, pyo.Objective(expr=cost))
    matrix, rows = linear.matrix.tocsr(), dict[str, dict[Any, Any]]()
    for row, (name, key) in enumerate(row_labels):
        part = slice(matrix.indptr[row], matrix.indptr[row + 1])
        body, upper = combined(matrix.indices[part], matrix.data[part]), linear.row_upper[row]
        if part.start < part.stop:
            is_equation = linear.row_lower[row] == upper
            rows.setdefault(name, {})[key] = body == upper if is_equation else body <= upper
    for name, own in rows.items():
        model.add_component(name, pyo.Constraint(list(own), rule=own))
    if not starts.optional:
        # `solve_model` reads the attribute ``built_of``. It is not a component of the Pyomo model,
        # so solvers and files ignore it.
        model.built_of = starts.instance, goal, program
    return model


def _export(model: pyo.ConcreteModel, path: str | os.PathLike[str]) -> None:
    """Write a model as an LP or free MPS file, by the suffix of ``path``."""
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / f"model{Path(path).suffix.lower()}"
        model.write(str(draft), io_options={"symbolic_solver_labels": True})
        write_atomically(path, draft.read_bytes())
