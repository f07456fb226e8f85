"""The integer program (1)-(4) of [J25] written a second time, in PuLP, and solved by CBC.

Nothing is shared with the Pyomo models or HiGHS: the point is to disagree when one of them errs.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulp

from instances import Instance, InvalidValueError, Schedule
from instances.validation import as_time_limit

from .exact import solve
from .results import SolveResult, require_total_latency


class DisagreementError(RuntimeError):
    """Two solvers proved different optima for one instance."""


@dataclass(frozen=True, eq=False)
class SecondOpinion:
    """What PuLP and CBC found.

    Attributes
    ----------
    schedule : CBC's best schedule, checked; None where it found none in time.
    is_optimal : whether CBC proved it.
    status : CBC's own word.
    """

    schedule: Schedule | None
    is_optimal: bool
    status: str


def solve_with_cbc(
    instance: Instance, horizon: int, time_limit: float | None = None
) -> SecondOpinion:
    """Solve (1)-(4) of [J25] over rounds 1 .. ``horizon`` with PuLP and CBC.

    Parameters
    ----------
    horizon : last round; must contain an optimal schedule for the answer to be the optimum.
    time_limit : seconds for CBC.
    """
    time_limit = as_time_limit(time_limit)
    problem = pulp.LpProblem("hindsight", pulp.LpMinimize)
    begins = {
        (i, t): pulp.LpVariable(f"x_{i}_{t}", cat="Binary")
        for i, request in enumerate(instance.requests)
        for t in range(request.arrival_time, horizon - request.output_length + 1)
    }
    problem += pulp.lpSum(
        (t + instance[i].output_length - instance[i].arrival_time) * begin
        for (i, t), begin in begins.items()
    )
    once: dict[int, list[pulp.LpVariable]] = {}
    for (i, _), begin in begins.items():
        once.setdefault(i, []).append(begin)
    for choices in once.values():
        problem += pulp.lpSum(choices) == 1
    used: dict[int, list[pulp.LpAffineExpression]] = {}
    for (i, t), begin in begins.items():
        for age in range(1, instance[i].output_length + 1):
            used.setdefault(t + age, []).append((instance[i].prompt_length + age) * begin)
    for tokens in used.values():
        problem += pulp.lpSum(tokens) <= instance.memory_limit
    solver = pulp.PULP_CBC_CMD(msg=False, gapRel=0.0, gapAbs=0.0, timeLimit=time_limit, threads=1)
    problem.solve(solver)
    chosen: dict[int, int] = {}
    for (i, t), begin in begins.items():
        if (begin.value() or 0.0) > 0.5:
            chosen[i] = t
    solved = problem.sol_status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible)
    schedule = None
    if solved and len(chosen) == len(instance):
        schedule = Schedule(instance, [chosen[i] for i in range(len(instance))])
        violations = schedule.violations()
        if violations:
            raise DisagreementError(f"CBC's schedule is infeasible: {violations[0]}")
    proved = problem.sol_status == pulp.LpSolutionOptimal and schedule is not None
    return SecondOpinion(schedule, proved, pulp.LpSolution[problem.sol_status])


def crosscheck(
    instance: Instance, result: SolveResult | None = None, time_limit: float | None = None
) -> SecondOpinion:
    """Compare `solve` with PuLP and CBC on one instance.

    Parameters
    ----------
    result : a result of `solve` to check; None solves here.
    time_limit : seconds for each solver.

    Returns
    -------
    SecondOpinion : CBC's answer, which agrees.

    Raises
    ------
    InvalidValueError: ``result`` belongs to another instance or is about the makespan.
    DisagreementError: CBC's schedule beats a proved optimum or lower bound, or both proved
        different optima.
    """
    result = result or solve(instance, time_limit=time_limit)
    require_total_latency(result)
    if result.instance.digest != instance.digest:
        raise InvalidValueError(None, "result", result, "belongs to another instance")
    # Not the result's own horizon, which is among the things to be checked: by the last arrival
    # plus all work everything is done, since some request runs in every round after it.
    horizon = int(instance.arrival_times.max() + instance.output_lengths.sum())
    opinion = solve_with_cbc(instance, horizon, time_limit)
    if opinion.schedule is None:
        if opinion.status == pulp.LpSolution[pulp.LpSolutionInfeasible]:
            raise DisagreementError(
                f"CBC finds no schedule at all, but one of {result.upper_bound} exists"
            )
        return opinion
    latency = opinion.schedule.total_latency
    if latency < result.lower_bound:
        raise DisagreementError(
            f"CBC has a schedule of {latency}, below the lower bound {result.lower_bound}"
        )
    if opinion.is_optimal and latency > result.upper_bound:
        raise DisagreementError(
            f"CBC proves {latency}, but a schedule of {result.upper_bound} exists"
        )
    return opinion
