"""The integer program, [J25] Equations (1)-(4), as the paper writes it and in difference form.

The *dense* model has o + 1 non-zeros a start. The *sparse* one has five: counting running requests
N and memory W from round to round replaces the sums of (3), and requests with equal arrival time
and lengths are interchangeable and share one integer column.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyomo.environ as pyo

from .starts import StartSets, group_requests


def build_dense(starts: StartSets, *, relax: bool = False) -> pyo.ConcreteModel:
    """Build the time-indexed model with one variable a start and one dense memory row a round.

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
    _start_all(model, starts, dict.fromkeys(range(len(starts.instance)), 1))

    def memory(model: Any, t: int) -> Any:
        """(3): sum_i sum_{k=max(a_i, t-o_i)}^{t-1} (s_i + t - k) x[i,k] <= M for every round t.

        Under another memory rule, that rule replaces s_i + t - k and M.
        """
        rule = starts.instance.memory_rule
        terms: list[Any] = []
        for i, request in enumerate(starts.instance):
            allowed = starts.starts[i]
            first = np.searchsorted(allowed, t - request.output_length, "left")
            last = np.searchsorted(allowed, t - 1, "right")
            terms.extend(
                rule.held(request.prompt_length - rule.unstored + t - int(k)) * model.x[i, int(k)]
                for k in allowed[first:last]
            )
        limit = rule.limit(starts.instance.memory_limit)
        return pyo.quicksum(terms) <= limit if terms else pyo.Constraint.Skip

    model.memory = pyo.Constraint(model.rounds, rule=memory)
    return model


def _start_all(model: Any, starts: StartSets, size: dict[int, int]) -> None:
    """Add rounds, (1) and (2) for groups of requests that share columns, with their sizes.

    (1): minimise sum_i w_i ( sum_t t x[i,t] + o_i - a_i ). (2): sum_t x[i,t] = size_i for every i.
    Of a fleet, t counts from the beginning of its replica's segment in (1).

    Where requests may be left out, (1) counts those instead, and (2) has <= for =.
    """
    instance = starts.instance
    model.rounds = pyo.RangeSet(1, starts.horizon)
    if starts.optional:
        placed = pyo.quicksum(model.x[i, t] for i, t in model.x)
        model.late = pyo.Objective(expr=len(instance) - placed)
        model.start_once = pyo.Constraint(
            [i for i in size if len(starts.starts[i])],
            rule=lambda model, i: (
                pyo.quicksum(model.x[i, int(t)] for t in starts.starts[i]) <= size[i]
            ),
        )
        return
    weights = instance.weights.tolist()
    constant = instance.total_output_length - int(instance.weights @ instance.arrival_times)
    model.total_latency = pyo.Objective(
        expr=pyo.quicksum(weights[i] * (t % starts.rounds) * model.x[i, t] for i, t in model.x)
        + constant
    )
    model.start_once = pyo.Constraint(
        list(size),
        rule=lambda model, i: pyo.quicksum(model.x[i, int(t)] for t in starts.starts[i]) == size[i],
    )


def build_sparse(starts: StartSets, *, relax: bool = False) -> pyo.ConcreteModel:
    """Build the time-indexed model in difference form.

    ``x[g, t]``: number of requests of group g (named by its first member) that start at t.
    ``running[r]``: N_r, requests running in round r. ``memory_used[r]``: W_r <= M, tokens held.

    Parameters
    ----------
    starts : StartSets
        The (request, start) pairs to include.
    relax : bool, default False
        Drop integrality.
    """
    instance = starts.instance
    size = {group[0]: len(group) for group in group_requests(starts)}
    model = pyo.ConcreteModel(name=instance.name or "sparse")
    pairs = [(g, int(t)) for g in size for t in starts.starts[g]]
    model.x = pyo.Var(
        pairs,
        domain=pyo.NonNegativeReals if relax else pyo.NonNegativeIntegers,
        bounds=lambda model, g, t: (0, size[g]),
    )
    _start_all(model, starts, size)
    model.running = pyo.Var(model.rounds, domain=pyo.NonNegativeReals)
    model.memory_used = pyo.Var(
        model.rounds, domain=pyo.NonNegativeReals, bounds=(0, instance.memory_limit)
    )
    # Change of the counts in round r by starts and completions at epoch r - 1.
    running: dict[int, list[Any]] = defaultdict(list)
    held: dict[int, list[Any]] = defaultdict(list)
    for g, t in pairs:
        request, end = instance[g], t + 1 + instance[g].output_length
        running[t + 1].append(model.x[g, t])
        running[end].append(-model.x[g, t])
        if request.prompt_length:
            held[t + 1].append(request.prompt_length * model.x[g, t])
        held[end].append(-request.peak_memory * model.x[g, t])

    def count_running(model: Any, r: int) -> Any:
        """N_r = N_{r-1} + starts at r - 1 - completions at r - 1."""
        before = model.running[r - 1] if r > 1 else 0
        return model.running[r] == before + pyo.quicksum(running[r])

    def memory(model: Any, r: int) -> Any:
        """W_r = W_{r-1} + N_r + s of starts at r - 1 - (s + o) of completions at r - 1."""
        before = model.memory_used[r - 1] if r > 1 else 0
        return model.memory_used[r] == before + model.running[r] + pyo.quicksum(held[r])

    model.count_running = pyo.Constraint(model.rounds, rule=count_running)
    model.memory = pyo.Constraint(model.rounds, rule=memory)
    return model
