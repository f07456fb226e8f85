"""Solve [J25] Equations (1)-(4) a second time, formulated in PuLP and solved by CBC.

The formulation shares no code with `hindsight.exact.program` and HiGHS. So a different optimum
reveals an error in one of them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import pulp

from hindsight.outcomes.errors import ScheduleCheckError
from hindsight.schedules.timetables import schedule_on
from instances import FleetSchedule, Instance, InvalidTypeError, Schedule
from instances.validation import as_time_limit

from .pyomo_model import model_size


class Opinion(NamedTuple):
    """Result of the solver CBC for the integer program of an instance, built with PuLP.

    Attributes
    ----------
    schedule : Schedule, FleetSchedule or None
        CBC's best schedule, which was checked to be feasible, or None if CBC found none in time.
    is_optimal : bool
        Whether CBC proved that the schedule is optimal.
    """

    schedule: Schedule | FleetSchedule | None
    is_optimal: bool


def second_opinion(
    instance: Instance, interval: tuple[int, int] | None = None, time_limit: float | None = None
) -> Opinion:
    """Solve [J25] Equations (1)-(4) with PuLP and CBC, and compare the result with an interval.

    Let L be the last arrival plus the sum of all output lengths. The program has a variable for
    each start from which a request completes by L. This is enough, because some optimal schedule
    completes by L: after the last arrival, each of its replicas runs a request in every round until
    the last completion on it, and each such round produces at least one output token.

    Parameters
    ----------
    instance : Instance
        The problem, with any weights, replicas and memory rule.
    interval : tuple[int, int] or None, default None
        Lower and upper bound on the least total latency, with which the result of CBC is compared.
    time_limit : float or None, default None
        Time limit of CBC in seconds, or None for no limit.

    Returns
    -------
    Opinion
        The best schedule that CBC found, and whether CBC proved it optimal.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        An argument is invalid, or the program does not fit into memory.
    ScheduleCheckError
        The result of CBC is not a feasible schedule, or contradicts the interval.

    Examples
    --------
    >>> import hindsight
    >>> from instances import Instance
    >>> instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)
    >>> hindsight.second_opinion(instance, (7, 7)).schedule.total_latency
    7
    """
    if not isinstance(instance, Instance):
        raise InvalidTypeError(None, "instance", instance, "is not an Instance")
    problem, begins = _program(instance)
    options = {"gapRel": 0.0, "gapAbs": 0.0, "timeLimit": as_time_limit(time_limit), "threads": 1}
    problem.solve(pulp.COIN_CMD(path=pulp.PULP_CBC_CMD.pulp_cbc_path, msg=False, **options))
    if problem.sol_status == pulp.LpSolutionInfeasible:
        raise ScheduleCheckError("CBC reports that no schedule exists, but every instance has one")
    if problem.sol_status not in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible):
        return Opinion(None, is_optimal=False)
    chosen = sorted(key for key, begin in begins.items() if (begin.value() or 0.0) > 0.5)
    _, starts, replicas = np.array(chosen).T
    schedule = schedule_on(instance, replicas, starts)
    for violation in schedule.violations():
        raise ScheduleCheckError(f"CBC's schedule is infeasible: {violation}")
    total, is_optimal = schedule.total_latency, problem.sol_status == pulp.LpSolutionOptimal
    lower, upper = interval or (total, total)
    if total < lower or (is_optimal and total > upper):
        word = "proves the optimum" if is_optimal else "has a schedule of total latency"
        raise ScheduleCheckError(f"CBC {word} {total}, outside the interval [{lower}, {upper}]")
    return Opinion(schedule, is_optimal)


def _program(instance: Instance) -> tuple[pulp.LpProblem, dict[tuple[int, int, int], Any]]:
    """Return the integer program (1)-(4) of [J25] in PuLP, and its binary variables by (i, t, k).

    Variable (i, t, k) is 1 if request i starts at t on replica k. Replicas are interchangeable, so
    they can be numbered in the order of the smallest index of a request on each. Then request i is
    on one of the replicas 0 .. i, and has variables for these only.
    """
    horizon = int(instance.arrival_times.max() + instance.output_lengths.sum())
    model_size(instance, "dense", horizon).refuse_too_large()
    rule, problem = instance.memory_rule, pulp.LpProblem("hindsight", pulp.LpMinimize)
    begins = {
        (i, t, k): problem.add_variable(f"x_{i}_{t}_{k}", cat="Binary")
        for i, request in enumerate(instance.requests)
        for k in range(min(i + 1, instance.replicas))
        for t in range(request.arrival_time, horizon - request.output_length + 1)
    }
    latency, once, used = [], defaultdict(list), defaultdict(list)
    for (i, t, k), begin in begins.items():
        request = instance[i]
        latency.append(request.weight * (t + request.output_length - request.arrival_time) * begin)
        once[i].append(begin)
        for age in range(1, request.output_length + 1):
            tokens = rule.held(request.prompt_length - rule.unstored + age)
            used[t + age, k].append(tokens * begin)
    problem += pulp.lpSum(latency)
    for choices in once.values():
        problem += pulp.lpSum(choices) == 1
    limits = rule.limits(instance.memory_limit, np.arange(horizon + 1)).tolist()
    for (r, _), held in used.items():
        problem += pulp.lpSum(held) <= limits[r]
    return problem, begins
