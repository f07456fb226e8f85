"""Cross-check of `hindsight.solve` and CBC on one instance: they must not contradict each other."""

from __future__ import annotations

import pulp

from instances import Instance, InvalidValueError

from .integer_program.cbc import SecondOpinion, refuse_too_large, safe_horizon, solve_with_cbc
from .outcomes.errors import DisagreementError
from .outcomes.results import SolveResult, require_total_latency
from .solver import solve


def crosscheck(
    instance: Instance, result: SolveResult | None = None, time_limit: float | None = None
) -> SecondOpinion:
    """Compare `solve` with PuLP and CBC on one instance; raise if they disagree.

    Parameters
    ----------
    instance : Instance
        The problem.
    result : SolveResult or None, default None
        A result of `solve` to check; None calls `solve` here.
    time_limit : float or None, default None
        Seconds for each solver.

    Returns
    -------
    SecondOpinion
        CBC's answer, which agrees with ``result``.

    Raises
    ------
    InvalidValueError
        ``result`` belongs to another instance or is about the makespan, or the program does not fit
        into memory.
    DisagreementError
        CBC's schedule beats a proved optimum or lower bound, or both proved different optima.
    """
    instance.alone().require_tokens()
    refuse_too_large(instance)
    result = result or solve(instance, time_limit=time_limit, progress=False)
    require_total_latency(result)
    if result.instance.digest != instance.digest:
        raise InvalidValueError(None, "result", result, "belongs to another instance")
    opinion = solve_with_cbc(instance, safe_horizon(instance), time_limit)
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
