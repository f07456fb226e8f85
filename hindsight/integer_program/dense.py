"""The integer program, [J25] Equations (1)-(4), written as the paper writes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from .starts import StartSets


def build_dense(starts: StartSets, *, relax: bool = False) -> pyo.ConcreteModel:
    """Time-indexed model with one variable a start and one dense memory row a round.

    ``x[i, t]``: 1 if request i starts at t, 0 otherwise. Only starts that complete by the horizon
    exist, so every round that a start occupies has its memory row.

    Parameters
    ----------
    starts : StartSets
        The (request, start) pairs to include.
    relax : bool, default False
        Replace x in {0, 1} by x >= 0; (2) keeps x <= 1.
    """
    model = pyo.ConcreteModel(name=starts.instance.name or "dense")
    pairs = [(i, int(t)) for i, allowed in enumerate(starts.starts) for t in allowed]
    model.x = pyo.Var(pairs, domain=pyo.NonNegativeReals if relax else pyo.Binary)
    model.rounds = pyo.RangeSet(1, starts.horizon)
    _total_latency(model, starts)
    _start_once(model, starts)
    _memory(model, starts)
    return model


def _total_latency(model: Any, starts: StartSets) -> None:
    """(1): minimise sum_i ( sum_t t x[i,t] + o_i - a_i )."""
    instance = starts.instance
    constant = int(instance.output_lengths.sum() - instance.arrival_times.sum())
    model.total_latency = pyo.Objective(
        expr=pyo.quicksum(t * model.x[i, t] for i, t in model.x) + constant
    )


def _start_once(model: Any, starts: StartSets) -> None:
    """(2): sum_t x[i,t] = 1 for every request i."""

    def rule(model: Any, i: int) -> Any:
        return pyo.quicksum(model.x[i, int(t)] for t in starts.starts[i]) == 1

    model.start_once = pyo.Constraint(range(len(starts.instance)), rule=rule)


def _memory(model: Any, starts: StartSets) -> None:
    """(3): sum_i sum_{k=max(a_i, t-o_i)}^{t-1} (s_i + t - k) x[i,k] <= M for every round t.

    By another memory rule, what it makes of s_i + t - k and of M.
    """
    instance = starts.instance
    memory = instance.memory_rule
    limit = memory.limit(instance.memory_limit)

    def rule(model: Any, t: int) -> Any:
        terms: list[Any] = []
        for i, request in enumerate(instance):
            allowed = starts.starts[i]
            first = np.searchsorted(allowed, t - request.output_length, "left")
            last = np.searchsorted(allowed, t - 1, "right")
            terms.extend(
                memory.held(request.prompt_length - memory.unstored + t - int(k))
                * model.x[i, int(k)]
                for k in allowed[first:last]
            )
        return pyo.quicksum(terms) <= limit if terms else pyo.Constraint.Skip

    model.memory = pyo.Constraint(model.rounds, rule=rule)
