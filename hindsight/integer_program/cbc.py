"""A second formulation of [J25] Equations (1)-(4), in PuLP, solved by CBC.

It shares nothing with the Pyomo models or HiGHS, so that it disagrees when one of them errs.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulp

from hindsight.outcomes.errors import DisagreementError
from instances import FleetSchedule, Instance, Schedule
from instances.validation import as_time_limit

from .models import model_size


@dataclass(frozen=True, eq=False)
class SecondOpinion:
    """Result of PuLP and CBC.

    Attributes
    ----------
    schedule : Schedule, FleetSchedule or None
        CBC's best schedule, checked; None if it found none in time.
    is_optimal : bool
        Whether CBC proved optimality.
    status : str
        Status as CBC reports it.
    """

    schedule: Schedule | FleetSchedule | None
    is_optimal: bool
    status: str


def solve_with_cbc(
    instance: Instance, horizon: int, time_limit: float | None = None
) -> SecondOpinion:
    """Solve [J25] Equations (1)-(4) over rounds 1 .. ``horizon`` with PuLP and CBC.

    Parameters
    ----------
    instance : Instance
        The problem.
    horizon : int
        Last round; it must admit an optimal schedule for the result to be the optimum.
    time_limit : float or None, default None
        Seconds for CBC.
    """
    instance.alone().require_tokens()
    time_limit = as_time_limit(time_limit)
    problem = pulp.LpProblem("hindsight", pulp.LpMinimize)
    begins = {
        (i, t, k): problem.add_variable(f"x_{i}_{t}_{k}", cat="Binary")
        for i, request in enumerate(instance.requests)
        for k in range(min(i + 1, instance.replicas))
        for t in range(request.arrival_time, horizon - request.output_length + 1)
    }
    problem += pulp.lpSum(
        instance[i].weight * (t + instance[i].output_length - instance[i].arrival_time) * begin
        for (i, t, _), begin in begins.items()
    )
    once: dict[int, list[pulp.LpVariable]] = {}
    for (i, _, _), begin in begins.items():
        once.setdefault(i, []).append(begin)
    for choices in once.values():
        problem += pulp.lpSum(choices) == 1
    used: dict[tuple[int, int], list[pulp.LpAffineExpression]] = {}
    for (i, t, k), begin in begins.items():
        for age in range(1, instance[i].output_length + 1):
            used.setdefault((t + age, k), []).append((instance[i].prompt_length + age) * begin)
    for tokens in used.values():
        problem += pulp.lpSum(tokens) <= instance.memory_limit
    options = {"gapRel": 0.0, "gapAbs": 0.0, "timeLimit": time_limit, "threads": 1}
    problem.solve(pulp.COIN_CMD(path=pulp.PULP_CBC_CMD.pulp_cbc_path, msg=False, **options))
    chosen: dict[int, tuple[int, int]] = {}
    for (i, t, k), begin in begins.items():
        if (begin.value() or 0.0) > 0.5:
            chosen[i] = t, k
    solved = problem.sol_status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible)
    schedule: Schedule | FleetSchedule | None = None
    if solved and len(chosen) == len(instance):
        starts, replicas = zip(*(chosen[i] for i in range(len(instance))), strict=True)
        schedule = (
            FleetSchedule.from_starts(instance, replicas, starts)
            if instance.replicas > 1
            else Schedule(instance, starts)
        )
        violations = schedule.violations()
        if violations:
            raise DisagreementError(f"CBC's schedule is infeasible: {violations[0]}")
    proved = problem.sol_status == pulp.LpSolutionOptimal and schedule is not None
    return SecondOpinion(schedule, proved, pulp.LpSolution[problem.sol_status])


def safe_horizon(instance: Instance) -> int:
    """Return the last arrival plus all work: every request is complete by then.

    Some request runs in every round after the last arrival, on each replica that is not done. A
    result's own horizon is not used, because it is among the things to be checked.
    """
    return int(instance.arrival_times.max() + instance.output_lengths.sum())


def refuse_too_large(instance: Instance) -> None:
    """Refuse a `crosscheck` whose program does not fit into memory.

    Raises
    ------
    InvalidValueError
        The program would not fit into memory.
    """
    model_size(instance, "dense", safe_horizon(instance)).refuse_too_large()
