"""Side by side: how long each exact method takes, or how far it gets."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from hindsight.integer_program.cbc import solve_with_cbc
from hindsight.solver import solve
from instances import Instance, Schedule, UnknownNameError

from .cp_sat import minimise_in_a_process


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """Result of a method on an instance.

    Attributes
    ----------
    instance_name, requests : str, int
        The instance and its size.
    solver : str
        Name of the method.
    seconds : float
        Wall-clock time to proof, or until it stopped.
    is_proved : bool
        Whether the bounds met.
    upper_bound, lower_bound : int or None
        Best interval; None where there is none. CBC reports no bound.
    """

    instance_name: str
    requests: int
    solver: str
    seconds: float
    is_proved: bool
    upper_bound: int | None
    lower_bound: int | None

    @property
    def gap(self) -> float | None:
        """(upper - lower) / upper, or None."""
        if self.upper_bound is None or self.lower_bound is None:
            return None
        return (self.upper_bound - self.lower_bound) / self.upper_bound


@dataclass(frozen=True, slots=True)
class BenchmarkSummary:
    """Summary of a method over several instances.

    Attributes
    ----------
    solver : str
        Name of the method.
    trials, proved : int
        Instances, and those proved within the limit.
    median_seconds : float
        To proof; infinite where half were not proved.
    median_gap : float or None
        At the end; None where half have no interval.
    ratio : float
        Median over instances of its seconds over the first method's, unproved counting as the
        seconds spent, hence a lower bound on the ratio.
    """

    solver: str
    trials: int
    proved: int
    median_seconds: float
    median_gap: float | None
    ratio: float


Answer = tuple[int | None, int | None]


def _by_paths(instance: Instance, time_limit: float, seed: int) -> Answer:
    result = solve(instance, time_limit, threads=1, seed=seed)
    return result.upper_bound, result.lower_bound


def _by_highs(instance: Instance, time_limit: float, seed: int) -> Answer:
    result = solve(instance, time_limit, threads=1, seed=seed, method="mip")
    return result.upper_bound, result.lower_bound


def _by_cbc(instance: Instance, time_limit: float, seed: int) -> Answer:
    # The shortest horizon known to be enough: a longer one would only slow CBC down.
    horizon = solve(instance, time_limit=0).horizon
    opinion = solve_with_cbc(instance, horizon, time_limit)
    if opinion.schedule is None:
        return None, None
    latency = opinion.schedule.total_latency
    return latency, latency if opinion.is_optimal else None


def _by_cp_sat(instance: Instance, time_limit: float, seed: int) -> Answer:
    answer = minimise_in_a_process(instance, time_limit, threads=1)
    if answer["start_times"] is None:
        return None, None
    latency = Schedule(instance, answer["start_times"]).total_latency
    return latency, latency if answer["optimal"] else math.ceil(answer["lower_bound"] - 1e-6)


SOLVERS: dict[str, Callable[[Instance, float, int], Answer]] = {
    "paths": _by_paths,
    "highs-dense": _by_highs,
    "pulp-cbc": _by_cbc,
    "cp-sat": _by_cp_sat,
}
"""This package's search, the dense integer program in HiGHS with reduced-cost fixing, the same
program in CBC, and CP-SAT; each on one thread."""


def run_benchmark(
    instance: Instance, solver: str, time_limit: float, seed: int = 0
) -> BenchmarkRow:
    """Time one method on one instance.

    Raises
    ------
    UnknownNameError
        No such method.
    RuntimeError
        The method failed.
    """
    if solver not in SOLVERS:
        raise UnknownNameError("solver", solver, list(SOLVERS))
    began = time.perf_counter()
    upper, lower = SOLVERS[solver](instance, time_limit, seed)
    seconds = time.perf_counter() - began
    proved = upper is not None and upper == lower
    name = instance.name or instance.digest[:12]
    return BenchmarkRow(name, len(instance), solver, seconds, proved, upper, lower)


def summarise_benchmark(rows: Sequence[BenchmarkRow]) -> list[BenchmarkSummary]:
    """Medians per method, in order of appearance."""
    solvers = list(dict.fromkeys(row.solver for row in rows))
    base = {row.instance_name: row.seconds for row in rows if row.solver == solvers[0]}
    return [_summary([row for row in rows if row.solver == name], base) for name in solvers]


def _summary(rows: Sequence[BenchmarkRow], base: dict[str, float]) -> BenchmarkSummary:
    gaps = [math.inf if row.gap is None else row.gap for row in rows]
    gap = median(gaps)
    return BenchmarkSummary(
        solver=rows[0].solver,
        trials=len(rows),
        proved=sum(row.is_proved for row in rows),
        median_seconds=median(row.seconds if row.is_proved else math.inf for row in rows),
        median_gap=None if math.isinf(gap) else gap,
        ratio=median(row.seconds / base[row.instance_name] for row in rows),
    )
