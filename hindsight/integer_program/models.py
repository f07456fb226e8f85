"""Construction, export and reading of the Pyomo models."""

from __future__ import annotations

import operator
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from hindsight.bounds.makespan import makespan_lower_bound
from hindsight.outcomes.results import OBJECTIVES, Objective
from hindsight.runtime.memory_use import available_bytes
from instances import FleetSchedule, Instance, InvalidTypeError, InvalidValueError, Schedule
from instances.arrays import IntArray
from instances.files import write_atomically
from instances.problem.memory_rule import TOKENS
from instances.problem.memory_translation import pooled
from instances.service_level import AnyLevel, limits_of
from instances.validation import as_integer

from .highs import CompiledModel
from .horizon import proved_horizon
from .starts import (
    StartSets,
    all_starts,
    from_timeline,
    group_requests,
    latest_starts,
    on_timeline,
    starts_until,
    useful_replicas,
)

if TYPE_CHECKING:
    import pyomo.environ as pyo

Formulation = Literal["dense", "sparse"]
EXPORT_SUFFIXES = (".lp", ".mps")


def _builder(formulation: Formulation) -> Callable[..., pyo.ConcreteModel]:
    # Loading Pyomo takes longer than most searches that end without a model.
    def build(starts: StartSets, *, relax: bool = False) -> pyo.ConcreteModel:
        from . import formulations

        build_it = getattr(formulations, f"build_{formulation}")
        return build_it(starts, relax=relax)

    return build


BUILDERS = {"dense": _builder("dense"), "sparse": _builder("sparse")}


BYTES_PER_NAME, BYTES_PER_ENTRY = 1_200, 250
"""Bytes that Pyomo takes per row or column, and per non-zero, until a model is written: measured on
models of 60,000 to a million non-zeros."""


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Size of a model of all starts, before it is built.

    Attributes
    ----------
    formulation : Formulation
        Formulation of the model.
    rows, columns, non_zeros : int
        Counts for its constraint matrix.
    """

    formulation: Formulation
    rows: int
    columns: int
    non_zeros: int

    @property
    def bytes(self) -> int:
        """Return the approximate bytes of memory needed to build and write it."""
        return BYTES_PER_NAME * (self.rows + self.columns) + BYTES_PER_ENTRY * self.non_zeros

    def refuse_too_large(self) -> None:
        """Refuse a model that does not fit into the available memory.

        Raises
        ------
        InvalidValueError
            The model does not fit.
        """
        available = available_bytes()
        if self.bytes > available:
            raise InvalidValueError(
                None,
                "formulation",
                self.formulation,
                f"is too large here: at least {self.rows:,} rows, {self.columns:,} columns, "
                f"{self.non_zeros:,} non-zeros, about {self.bytes / 1e9:,.1f} GB of memory, "
                f"and {available / 1e9:,.1f} GB are free",
            )


def model_size(
    instance: Instance, formulation: Formulation, horizon: int, last: IntArray | None = None
) -> ModelSize:
    """Size the model of all starts that complete by ``horizon``, with total latency.

    With ``last``, of the starts of each request up to that round.
    """
    s, o, a = instance.prompt_lengths, instance.output_lengths, instance.arrival_times
    replicas = useful_replicas(instance)
    latest = horizon - o if last is None else last
    numbers = np.maximum(latest - a + 1, 0) * replicas
    rounds = horizon * replicas
    if formulation == "dense":
        entries = sum(map(operator.mul, numbers.tolist(), (o + 1).tolist()))
        return ModelSize(formulation, len(instance) + rounds, sum(numbers.tolist()), entries)
    kinds = np.unique(np.column_stack([a, s, o, instance.weights, latest, numbers]), axis=0)
    columns = sum(kinds[:, -1].tolist())
    # A start enters and leaves both counts, and each count refers to the round before.
    return ModelSize(
        formulation, len(kinds) + 2 * rounds, columns + 2 * rounds, 5 * columns + 5 * rounds
    )


def build_model(
    instance: Instance,
    formulation: Formulation = "dense",
    relax: bool = False,
    horizon: int | None = None,
    objective: Objective = "total_latency",
    level: AnyLevel | None = None,
) -> pyo.ConcreteModel:
    """Build the hindsight integer program of an instance as a Pyomo model ([J25] Section 3).

    With a service level it minimises late requests instead, which need not start: its variables are
    the starts in time, and its objective is ``late``.

    A fleet is one timeline with a segment of H rounds for each replica: ``x[i, k H + t]`` starts
    request i at t on replica k. The i-th request to arrive may use the first i replicas only.

    Parameters
    ----------
    instance : Instance
        The problem.
    formulation : Formulation, default "dense"
        ``"dense"``, the program (1)-(4) as printed, or ``"sparse"``, the equivalent program in
        difference form with columns shared by identical requests.
    relax : bool, default False
        Build the linear relaxation.
    horizon : int or None, default None
        Last round, of each replica; None uses one that is proved to admit an optimal schedule.
    objective : Objective, default "total_latency"
        ``"total_latency"``, or ``"makespan"``: the number of rounds up to the last completion,
        counted by binaries ``busy[r]`` that do not increase.
    level : ServiceLevel or Sequence[ServiceLevel] or None, default None
        A service level in rounds, of all requests or of each; no horizon and objective beside it.

    Raises
    ------
    InvalidTypeError
        ``instance`` is not an instance.
    InvalidValueError
        An unknown formulation or objective, the sparse formulation under a memory rule other than
        tokens, a horizon that some request cannot meet, or a model that does not fit into memory;
        its size is known before anything is built.
    """
    if not isinstance(instance, Instance):
        raise InvalidTypeError(None, "instance", instance, "is not an Instance")
    if formulation not in BUILDERS:
        raise InvalidValueError(
            None, "formulation", formulation, f"is not one of {', '.join(BUILDERS)}"
        )
    if objective not in OBJECTIVES:
        known = ", ".join(OBJECTIVES)
        raise InvalidValueError(None, "objective", objective, f"is not one of {known}")
    counts_tokens = instance.memory_rule == TOKENS
    if formulation == "sparse" and not counts_tokens:
        reason = "counts tokens held from the round that emits them; dense takes any memory rule"
        raise InvalidValueError(None, "formulation", formulation, reason)
    if level is not None:
        if horizon is not None or objective != "total_latency":
            reason = "decides the horizon and the objective: give neither"
            raise InvalidValueError(None, "level", str(level), reason)
        last = latest_starts(instance, limits_of(level, len(instance)))
        end = int((last + instance.output_lengths).max())
        model_size(instance, formulation, end, last).refuse_too_large()
        return BUILDERS[formulation](starts_until(instance, last), relax=relax)
    if horizon is None and (objective == "makespan" or not counts_tokens):
        # Once all requests have arrived, an idle round can be removed, whatever a request holds.
        horizon = int(instance.arrival_times.max() + instance.output_lengths.sum())
    if horizon is None:
        # Refuse before proving a horizon if even the shortest possible one is too long.
        least = makespan_lower_bound(pooled(instance))
        model_size(instance, formulation, least).refuse_too_large()
        horizon = proved_horizon(instance).horizon
    rounds = as_integer(horizon, None, "horizon", minimum=1)
    model_size(instance, formulation, rounds).refuse_too_large()
    starts = all_starts(instance, rounds)
    model = BUILDERS[formulation](starts, relax=relax)
    if objective == "makespan":
        _minimise_makespan(model, starts, relax=relax)
    return model


def _minimise_makespan(model: Any, starts: StartSets, *, relax: bool) -> None:
    """Replace total latency by sum_r busy[r], with x[i,t] <= size_i busy[t + o_i]."""
    import pyomo.environ as pyo

    model.del_component(model.total_latency)
    model.busy = pyo.Var(
        model.rounds, domain=pyo.NonNegativeReals if relax else pyo.Binary, bounds=(0, 1)
    )
    model.makespan = pyo.Objective(expr=pyo.quicksum(model.busy[r] for r in model.rounds))
    model.no_gap = pyo.Constraint(
        range(2, starts.horizon + 1), rule=lambda model, r: model.busy[r] <= model.busy[r - 1]
    )
    model.completed = pyo.Constraint(
        list(model.x),
        rule=lambda model, i, t: (
            model.x[i, t]
            <= (model.x[i, t].ub or 1)
            * model.busy[t % starts.rounds + starts.instance[i].output_length]
        ),
    )


def export_model(model: pyo.ConcreteModel, path: str | os.PathLike[str]) -> None:
    """Write a model as an LP or free MPS file, by the suffix of ``path``.

    Raises
    ------
    InvalidValueError
        The path has another suffix.
    OSError
        The path cannot be written; no partial file is left.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in EXPORT_SUFFIXES:
        raise InvalidValueError(
            None, "path", str(path), f"does not end in {' or '.join(EXPORT_SUFFIXES)}"
        )
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / f"model{suffix}"
        model.write(str(draft), io_options={"symbolic_solver_labels": True})
        write_atomically(path, draft.read_bytes())


def _sharing(starts: StartSets, compiled: CompiledModel) -> list[list[int]]:
    """List the requests that share columns: each alone, or identical ones in the sparse model."""
    if any(component == "running" for component, _ in compiled.columns):
        return group_requests(starts)
    return [[index] for index in range(len(starts.instance))]


def start_weights(
    starts: StartSets, compiled: CompiledModel, values: npt.NDArray[np.float64]
) -> list[dict[int, float]]:
    """Return for each request the weight of each start in a solution of either formulation.

    Members of a group of identical requests get the group's weights divided by its size.
    """
    weights: list[dict[int, float]] = [{} for _ in starts.instance]
    for (name, key), value in zip(compiled.columns, values, strict=True):
        if name == "x" and value > 0:
            index, start = key
            weights[index][start] = float(value)
    for group in _sharing(starts, compiled):
        shared = weights[group[0]]
        for member in group:
            weights[member] = {t: weight / len(group) for t, weight in shared.items()}
    return weights


def schedule_from_values(
    starts: StartSets, compiled: CompiledModel, values: npt.NDArray[np.float64]
) -> Schedule | FleetSchedule:
    """Return the schedule of an integer solution: columns rounded, identical requests in turn.

    Raises
    ------
    InvalidValueError
        The rounded columns do not start every request exactly once.
    """
    return from_timeline(starts, starts_from_values(starts, compiled, values))


def starts_from_values(
    starts: StartSets, compiled: CompiledModel, values: npt.NDArray[np.float64]
) -> IntArray:
    """Return the starts of an integer solution, -1 of requests that are left out, shape (n,).

    Raises
    ------
    InvalidValueError
        The rounded columns start a request more than once, or one that must start not at all.
    """
    found: dict[int, list[int]] = {i: [] for i in range(len(starts.instance))}
    for (name, key), value in zip(compiled.columns, values, strict=True):
        if name == "x":
            index, start = key
            found[index].extend([start] * round(float(value)))
    start_times = np.full(len(starts.instance), -1, dtype=np.int64)
    for group in _sharing(starts, compiled):
        shared = sorted(found[group[0]])
        if len(shared) > len(group) or (len(shared) < len(group) and not starts.optional):
            owner = f"request {starts.instance.ids[group[0]]!r}"
            raise InvalidValueError(owner, "starts", shared, f"are not exactly {len(group)}")
        for member, start in zip(group, shared, strict=False):
            start_times[member] = start
    return start_times


def column_values(
    starts: StartSets, compiled: CompiledModel, schedule: Schedule | FleetSchedule
) -> npt.NDArray[np.float64]:
    """Return a schedule as a point of the compiled model, for a warm start.

    Raises
    ------
    InvalidValueError
        The schedule uses a start that the model does not contain.
    """
    owner = {i: group[0] for group in _sharing(starts, compiled) for i in group}
    counts: Counter[tuple[int, int]] = Counter()
    times, instance = on_timeline(starts, schedule), starts.instance
    for index, start in enumerate(times.tolist()):
        if start not in starts.starts[index]:
            raise InvalidValueError(
                f"request {instance.ids[index]!r}", "start_time", start, "is not modelled"
            )
        counts[owner[index], start] += 1
    running, held = np.zeros((2, starts.horizon + 1), dtype=np.int64)
    for start, request in zip(times.tolist(), instance, strict=True):
        life = slice(start + 1, start + request.output_length + 1)
        running[life] += 1
        held[life] += request.prompt_length + 1 + np.arange(request.output_length)
    values = np.zeros(len(compiled.columns))
    for position, (name, index) in enumerate(compiled.columns):
        if name == "x":
            values[position] = counts[index]
        elif name == "running":
            values[position] = running[index]
        else:
            values[position] = held[index]
    return values
