"""Solve an instance in rounds: first bounds, then the parts that fit, and user-defined bounds.

`hindsight.rounds` has the tables of parts (`hindsight.outcomes.flow`).

**Gaps.** In rounds, total latency is minimised after idle gaps are removed, with or without
preemption: the optimum stays the same (`hindsight.prices.idle_gaps`).

**Bounds** in rounds are computed for one machine in tokens
(`hindsight.outcomes.problem.Problem.below`). K replicas hold at most K M tokens in a round, so
every schedule of the fleet is also feasible on a machine with K times the memory
(`instances.problem.memory_translation.pooled`). Every schedule in blocks is also feasible for an
instance in tokens (`instances.problem.memory_translation.relaxed`). So every lower bound for that
machine is a lower bound for the problem, with the same proof. This also holds with preemption, and
for the makespan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.outcomes.proofs import Proof
from hindsight.outcomes.result import Result
from hindsight.prices.idle_gaps import CompressedInstance, compress
from hindsight.prices.volume import small_transportation_bound
from hindsight.runtime.search import Search
from instances import Instance, InvalidValueError, UnknownNameError
from instances.validation import as_name

from .latency import TotalLatency, refusal
from .openings import open_latency, open_makespan
from .own_bounds import OwnBound
from .program import close_makespan
from .stops import close_preemptive

METHODS = ("auto", "paths", "mip", "beams")
"""Names of the methods that minimise total latency (see `hindsight.solve`)."""


def checked_method(method: Any, problem: Problem) -> str:
    """Return the name of a method after checking that it minimises the goal of the problem.

    Raises
    ------
    UnknownNameError
        No method has this name. The message lists the known names.
    InvalidValueError
        The method does not minimise the goal.
    """
    name: str = as_name(method, None, "method")
    if name not in METHODS:
        raise UnknownNameError("method", name, list(METHODS))
    able = METHODS if problem.goal_name == "total latency" else ("auto",)
    if name not in able and not (name == "mip" and problem.goal == "makespan"):
        reason = f"does not minimise the goal {problem.goal_name!r}"
        raise InvalidValueError(None, "method", name, reason)
    return name


def solve_in_rounds(
    problem: Problem, search: Search, method: str, bounds: tuple[OwnBound, ...]
) -> Result:
    """Minimise the total latency or the makespan of an instance.

    Parameters
    ----------
    problem : Problem
        The instance, its goal and its preemption.
    search : Search
        Search options, already checked.
    method : str
        Name of a method that minimises the goal.
    bounds : tuple[OwnBound, ...]
        User-defined lower bounds. They require one machine with memory in tokens.

    Raises
    ------
    InvalidValueError
        The method ``"paths"`` cannot solve this problem, or a user-defined bound is false.
    SolverError
        HiGHS failed.
    """
    given, start, is_makespan = problem.source, search.start, problem.goal == "makespan"
    proved: tuple[int, Proof] | None = None
    # Idle gaps are not removed if the makespan is minimised, because it depends on them.
    moved = CompressedInstance.unmoved(given) if is_makespan else compress(given)
    interval = Interval(replace(problem, source=moved.instance), search)
    with search.clock.listening(), interval.kept_when_interrupted():
        (open_makespan if is_makespan else open_latency)(interval, start and moved.moved(start))
        proved = _take_bounds(bounds, given, interval)
        _close(interval, search, method)
        is_open = not interval.is_proved and interval.stop_reason != "interrupted"
        if is_open and problem.goal_name == "total latency":
            flow_bound = small_transportation_bound(interval.problem.below)
            if flow_bound is not None:
                interval.prove(flow_bound, "transportation")
    interval.refuse_false_claims()
    if interval.proof is not None:
        interval.proof = interval.proof.moved(moved.instance.arrival_times, moved.shifts)
    if proved is not None and proved[0] >= interval.proof_bound:
        # The user's prices prove at least as much as those of the solve, so report them as the
        # proof of the lower bound.
        interval.proof = proved[1]
    interval.schedule = moved.restore(interval.schedule)
    return interval.result(given)


def _close(interval: Interval, search: Search, method: str) -> None:
    """Choose the solver for the goal and the method, and run it until it ends."""
    problem = interval.problem
    is_latency = problem.goal_name == "total latency"
    reason = refusal(interval) if is_latency and method in ("auto", "paths") else ""
    if reason and method == "paths":
        raise InvalidValueError(None, "method", method, reason)
    if interval.is_done():
        return
    if is_latency:
        TotalLatency(interval, search, method, has_states=reason is None).run()
    elif problem.goal == "makespan":
        close_makespan(interval, search)
    else:
        close_preemptive(interval, search)


def _take_bounds(
    bounds: tuple[OwnBound, ...], instance: Instance, interval: Interval
) -> tuple[int, Proof] | None:
    """Record the user-defined bounds. Return the largest bound that prices prove, and the prices.

    The function of a user-defined bound returns a number, which is only claimed, or prices, which
    prove a bound. Prices count only if they are prices of the optimum that is solved for: with
    preemption or without. If no function returns such prices, the result is None.
    """
    best: tuple[int, Proof] | None = None
    problem = interval.problem
    for bound in bounds:
        value, prices = bound.of(replace(problem, source=instance))
        if prices is None:
            interval.claim(value, bound.label)
            continue
        interval.prove(value, bound.label)
        is_own = (problem.preemption == "keep") in prices.optima
        if is_own and (best is None or value > best[0]):
            best = int(value), prices
    return best
