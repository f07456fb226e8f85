"""The same integer program with five non-zeros a start instead of o + 1.

Counting running requests N and memory W from round to round replaces the sums of (3); requests
with equal arrival time and lengths are interchangeable and share one integer column.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyomo.environ as pyo

from .starts import StartSets, group_requests


def build_sparse(starts: StartSets, *, relax: bool = False) -> pyo.ConcreteModel:
    """Time-indexed model in difference form.

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
    groups = group_requests(starts)
    size = {group.representative: len(group.members) for group in groups}
    model = pyo.ConcreteModel(name=instance.name or "sparse")
    pairs = [(g, int(t)) for g in size for t in starts.starts[g]]
    model.x = pyo.Var(
        pairs,
        domain=pyo.NonNegativeReals if relax else pyo.NonNegativeIntegers,
        bounds=lambda model, g, t: (0, size[g]),
    )
    model.rounds = pyo.RangeSet(1, starts.horizon)
    model.running = pyo.Var(model.rounds, domain=pyo.NonNegativeReals)
    model.memory_used = pyo.Var(
        model.rounds, domain=pyo.NonNegativeReals, bounds=(0, instance.memory_limit)
    )
    constant = int(instance.output_lengths.sum() - instance.arrival_times.sum())
    model.total_latency = pyo.Objective(
        expr=pyo.quicksum(t * model.x[g, t] for g, t in model.x) + constant
    )
    model.start_once = pyo.Constraint(
        list(size),
        rule=lambda model, g: pyo.quicksum(model.x[g, int(t)] for t in starts.starts[g]) == size[g],
    )
    _count_running(model, starts, pairs)
    _count_memory(model, starts, pairs)
    return model


def _count_running(model: Any, starts: StartSets, pairs: list[tuple[int, int]]) -> None:
    """N_r = N_{r-1} + starts at r - 1 - completions at r - 1."""
    changes: dict[int, list[Any]] = defaultdict(list)
    for g, t in pairs:
        changes[t + 1].append(model.x[g, t])
        changes[t + 1 + starts.instance[g].output_length].append(-model.x[g, t])

    def rule(model: Any, r: int) -> Any:
        before = model.running[r - 1] if r > 1 else 0
        return model.running[r] == before + pyo.quicksum(changes[r])

    model.count_running = pyo.Constraint(model.rounds, rule=rule)


def _count_memory(model: Any, starts: StartSets, pairs: list[tuple[int, int]]) -> None:
    """W_r = W_{r-1} + N_r + s of those starting at r - 1 - (s + o) of those completed at r - 1."""
    changes: dict[int, list[Any]] = defaultdict(list)
    for g, t in pairs:
        request = starts.instance[g]
        if request.prompt_length:
            changes[t + 1].append(request.prompt_length * model.x[g, t])
        changes[t + 1 + request.output_length].append(-request.peak_memory * model.x[g, t])

    def rule(model: Any, r: int) -> Any:
        before = model.memory_used[r - 1] if r > 1 else 0
        return model.memory_used[r] == before + model.running[r] + pyo.quicksum(changes[r])

    model.memory = pyo.Constraint(model.rounds, rule=rule)
