"""Every way to an optimum, or to a bound on one, against one enumeration.

Most draws carry several axes at once: weights, memory rules, replicas, arrivals, idle gaps,
preemption, levels, clocks. Each way that accepts a draw is tried on it; its schedules are checked
from the definitions, and its bounds must hold, by name. In seconds everything is compared in
fractions.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import enumeration
import numpy as np
import pyomo.environ as pyo
import pytest
from effort import sweep
from tiny_problems import (
    InSeconds,
    check_in_rounds,
    check_in_seconds,
    drawn_instance,
    drawn_levels,
    drawn_workload,
    in_rounds,
    total_in_rounds,
)

import hindsight
from instances import Instance, MemoryRule, ServiceLevel, Workload
from online import AffineTime, TiledTime

TOKENS = MemoryRule()
FORMULATIONS: tuple[Any, ...] = ("dense", "sparse")
QUIET: dict[str, Any] = {"progress": False, "threads": 1}


def is_plain(instance: Instance) -> bool:
    """Whether memory is in tokens and there is one machine."""
    return instance.memory_rule == TOKENS and instance.replicas == 1


def is_weighted(instance: Instance) -> bool:
    return int(instance.weights.max()) > 1


def last_round(instance: Instance) -> int:
    """A round by which an optimal schedule can end: after the last arrival none is idle."""
    return int(instance.arrival_times.max() + instance.output_lengths.sum())


def ways(instance: Instance) -> Iterator[tuple[dict[str, Any], bool]]:
    """Options of `hindsight.solve` that accept an instance, and whether they prove the optimum."""
    yield {}, True
    yield {"method": "mip"}, True
    yield {"method": "beams", "time_limit": 0.05}, False
    yield {"time_limit": 0}, False
    if not is_weighted(instance):
        proves = is_plain(instance)
        yield {"method": "paths"}, proves


def optimum_of(model: Any) -> int:
    """The optimum of a Pyomo model by Pyomo's interface of HiGHS."""
    pyo.SolverFactory("appsi_highs").solve(model)
    return round(pyo.value(next(model.component_data_objects(pyo.Objective))))


def check_result(problem: enumeration.Problem, result: Any, best: int, proves: bool) -> None:
    assert result.schedule.is_feasible
    assert total_in_rounds(problem, result.schedule) == result.upper_bound
    assert result.certified_lower_bound <= result.lower_bound <= best <= result.upper_bound
    assert (result.status == "optimal") == (result.lower_bound == result.upper_bound)
    assert result.schedule.problem.digest == result.problem.digest
    if proves:
        assert (result.status, result.stop_reason) == ("optimal", "proof")
    for line in result.log:
        assert line.lower_bound <= best <= line.upper_bound
    document = hindsight.make_certificate(result.schedule, result.proof, search=False)
    verdict = hindsight.check_certificate(document)
    assert verdict.lower_bound <= best <= verdict.upper_bound == result.upper_bound
    assert verdict.digest == result.problem.digest


@pytest.mark.parametrize("seed", sweep(range(400), one_in=20))
def test_total_latency(seed: int) -> None:
    instance = drawn_instance(seed)
    problem = in_rounds(instance)
    best = int(enumeration.least_total_latency(problem))
    for options, proves in ways(instance):
        limit = {} if proves else {"time_limit": 0.2}
        result = hindsight.solve(instance, **{**QUIET, **limit, **options})
        check_result(problem, result, best, proves)
    again = hindsight.solve(instance, start=result.schedule, threads=1, progress=lambda _: True)
    check_result(problem, again, best, False)
    assert again.upper_bound <= result.upper_bound


@pytest.mark.parametrize("seed", sweep(range(1000, 1200), one_in=16))
def test_bounds_and_programs(seed: int) -> None:
    """Relaxations, bounds, the programs themselves, and CBC; horizons are those that are proved."""
    instance = drawn_instance(seed)
    problem = in_rounds(instance)
    best = int(enumeration.least_total_latency(problem))
    horizon = last_round(instance)
    for options in ({}, {"method": "lp"}, {"method": "lagrangian"}):
        relaxed = hindsight.relax(instance, **QUIET, **options)
        assert relaxed.certified_bound <= best
        assert relaxed.objective <= best + 1e-6
        assert relaxed.certified_bound >= relaxed.objective - 1e-3
    for formulation in FORMULATIONS:
        model = hindsight.build_model(instance, formulation, horizon=horizon)
        assert optimum_of(model) == best
    result = hindsight.solve(instance, **QUIET)
    opinion = hindsight.second_opinion(instance, (result.lower_bound, result.upper_bound))
    assert opinion.is_optimal
    assert total_in_rounds(problem, opinion.schedule) == best
    if instance.memory_rule == TOKENS:
        model = hindsight.build_model(instance)
        assert len(model.rounds) <= horizon * min(instance.replicas, len(instance))
        assert optimum_of(model) == best
    if is_plain(instance):
        assert hindsight.transportation_bound(instance) <= best
        schedule = hindsight.best_list_schedule(instance)
        assert total_in_rounds(problem, schedule) == schedule.total_latency >= best


@pytest.mark.parametrize("seed", sweep(range(2000, 2200), one_in=16))
def test_makespan(seed: int) -> None:
    instance = drawn_instance(seed)
    problem = in_rounds(instance)
    best = int(enumeration.least_makespan(problem))
    proves = instance.memory_rule.block_size == 1 and instance.replicas == 1
    result = hindsight.solve(instance, None if proves else 1, goal="makespan", **QUIET)
    times = check_in_rounds(problem, result.schedule)
    ends = [q.arrival + last for q, (_, last) in zip(problem.requests, times, strict=True)]
    assert max(ends) == result.upper_bound
    assert result.certified_lower_bound <= result.lower_bound <= best <= result.upper_bound
    if proves:
        assert (result.status, result.stop_reason) == ("optimal", "proof")
    for formulation in FORMULATIONS:
        model = hindsight.build_model(instance, formulation, goal="makespan")
        assert optimum_of(model) == best


def unweighted(instance: Instance) -> Instance:
    columns = instance.prompt_lengths, instance.output_lengths, instance.arrival_times
    return Instance.from_arrays(
        *columns,
        memory_limit=instance.memory_limit,
        memory_rule=instance.memory_rule,
        replicas=instance.replicas,
    )


@pytest.mark.parametrize("seed", sweep(range(3000, 3200), one_in=16))
def test_preemptive_total_latency(seed: int) -> None:
    instance = unweighted(drawn_instance(seed))
    problem = in_rounds(instance, preemptive=True)
    best = int(enumeration.least_total_latency(problem))
    proves = instance.memory_rule.block_size == 1 and instance.replicas == 1
    for options in ({}, {"time_limit": 0}):
        limit = {} if proves else {"time_limit": 0.2}
        result = hindsight.solve(instance, preemption="keep", **{**QUIET, **limit, **options})
        assert result.preemption == "keep"
        check_result(problem, result, best, proves and not options)


def served(problem: enumeration.Problem, schedule: Any) -> enumeration.Problem:
    """The problem of the requests that a schedule has, by their ids."""
    requests = tuple(problem.requests[i] for i in schedule.problem.ids)
    return problem._replace(requests=requests)


def kept(problem: enumeration.Problem, times: Any) -> int:
    """How many requests keep their levels with these times to the first and last token."""
    return sum(
        all(
            most is None or value <= most
            for value, most in zip(
                (last, first, Fraction(last - first) / max(1, q.output - 1)), q.level, strict=True
            )
        )
        for q, (first, last) in zip(problem.requests, times, strict=True)
    )


@pytest.mark.parametrize("seed", sweep(range(4000, 4300), one_in=16))
def test_most_on_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = drawn_instance(seed)
    levels = drawn_levels(rng, len(instance))
    problem = in_rounds(instance, levels=levels)
    best = enumeration.most_on_time(problem)
    for late in ("drop", "serve"):
        found = hindsight.solve(instance, goal=hindsight.OnTime(levels, late), **QUIET)
        assert (found.lower_bound, found.upper_bound, found.status) == (best, best, "optimal")
        assert found.stop_reason == "proof"
        if late == "serve" or best:
            own = problem if late == "serve" else served(problem, found.schedule)
            assert kept(own, check_in_rounds(own, found.schedule)) == best
            assert late == "serve" or len(own.requests) == best
        else:
            assert found.schedule is None
    assert repr(found).endswith(f" {best} of {len(instance)} requests on time)")
    at_once = hindsight.solve(instance, 0.0, goal=hindsight.OnTime(levels), **QUIET)
    low, high = at_once.lower_bound, at_once.upper_bound
    assert low <= best <= high
    if low < high:
        assert repr(at_once).endswith(f" [{low}, {high}] of {len(instance)} requests on time)")
    wide = hindsight.solve(instance, goal=hindsight.OnTime(levels), gap=0.5, **QUIET)
    assert wide.lower_bound <= best <= wide.upper_bound
    assert wide.gap <= 0.5
    assert (wide.stop_reason == "proof") == (wide.lower_bound == wide.upper_bound)
    for formulation in FORMULATIONS:
        model = hindsight.build_model(instance, formulation, goal=hindsight.OnTime(levels))
        if any(True for _ in model.component_data_objects(pyo.Var)):
            assert optimum_of(model) == len(instance) - best


@pytest.mark.parametrize("seed", sweep(range(5000, 5200), one_in=16))
def test_quantiles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = drawn_instance(seed, 4)
    problem = in_rounds(instance)
    for limit in ("latency", "first_token"):
        place = int(rng.integers(1, len(instance) + 1))
        best = enumeration.least_quantile(problem, place, limit == "first_token")
        found = hindsight.solve(
            instance, goal=hindsight.Tail(place / len(instance), limit), threads=1
        )
        assert (found.lower_bound, found.upper_bound) == (best, best)
        times = check_in_rounds(problem, found.schedule)
        assert sorted(one[limit == "latency"] for one in times)[place - 1] == best


@pytest.mark.parametrize("seed", sweep(range(6000, 6100), one_in=16))
def test_fewest_replicas(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = drawn_instance(seed, 4).replaced(replicas=1)
    level = ServiceLevel(latency=int(rng.integers(2, 7)))
    problem = in_rounds(instance, levels=level)
    for share in (0.5, 1.0):
        best = enumeration.fewest_replicas(problem, Fraction(share))
        found = hindsight.fewest_replicas(instance, hindsight.OnTime(level), share, threads=1)
        assert (found.lower_bound, found.upper_bound) == (best, best)
        for one in found.tried:
            machines = problem._replace(replicas=one.problem.replicas)
            most = enumeration.most_on_time(machines)
            assert one.lower_bound <= most <= one.upper_bound
        hurried = hindsight.fewest_replicas(
            instance, hindsight.OnTime(level), share, 0.0, threads=1
        )
        tried = [one.problem.replicas for one in hurried.tried]
        assert tried == sorted(set(tried))
        if best is not None:
            assert (hurried.lower_bound or 0) <= best <= (hurried.upper_bound or best)
        else:
            assert hurried.upper_bound is None


@pytest.mark.parametrize("seed", sweep(range(7000, 7300), one_in=16))
def test_total_latency_in_seconds(seed: int) -> None:
    workload, time = drawn_workload(seed)
    preemption: Any = ("keep", "recompute")[seed % 2]
    keeps = preemption == "keep"
    case = InSeconds.of(workload, time, preemption)
    best = case.least_total_latency()
    kept_best = best if keeps else InSeconds.of(workload, time).least_total_latency()
    result = hindsight.solve(workload, 0.1, threads=1, preemption=preemption)
    relaxed = hindsight.relax(workload, time_limit=0.1, threads=1)
    first = case.least_first_tokens()
    for found in (result, relaxed):
        own = keeps or found is relaxed
        latencies = check_in_seconds(workload, time, found.schedule, keeps=own)
        assert found.upper_bound == sum(latencies)
        assert found.schedule.is_feasible
        lower, upper = (Fraction(end) * len(workload) for end in found.mean_latency_interval)
        assert lower <= found.lower_bound <= found.upper_bound <= upper
        assert found.lower_bound == max(one.value for one in found.bounds.values())
        assert (found.status == "optimal") == (found.lower_bound == found.upper_bound)
        assert found.certified_lower_bound == found.lower_bound
        truth = best if found is result else kept_best
        if truth is not None:
            for name, bound in found.bounds.items():
                assert bound.value <= kept_best, name
            assert truth <= found.upper_bound
            if isinstance(time, AffineTime | TiledTime):
                document = hindsight.make_certificate(found.schedule, found.proof, time_limit=1)
                verdict = hindsight.check_certificate(document)
                assert verdict.lower_bound <= min(kept_best, found.upper_bound)
                assert verdict.digest == workload.digest
        if first is not None:
            assert Fraction(found.first_token_bound) * len(workload) <= first


@pytest.mark.parametrize("seed", sweep(range(8000, 8300), one_in=16))
def test_most_on_time_in_seconds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    workload, time = drawn_workload(seed, 3)
    levels = drawn_levels(rng, len(workload), 0.5)
    case = InSeconds.of(workload, time, levels=levels)
    best = case.most_on_time()
    for late in ("drop", "serve"):
        found = hindsight.solve(
            workload, 0.1, goal=hindsight.OnTime(levels, late), seed=seed, **QUIET
        )
        if best is not None:
            assert found.lower_bound <= best <= found.upper_bound
        assert found.certified
        assert (found.status == "optimal") == (found.lower_bound == found.upper_bound)
        if found.schedule is None:
            assert found.lower_bound == 0
            continue
        assert found.schedule.violations() == []
        assert (
            int(
                found.schedule.on_time(
                    levels if late == "serve" else [levels[i] for i in found.schedule.problem.ids]
                ).sum()
            )
            >= found.lower_bound
        )
        check_in_seconds(found.schedule.problem, time, found.schedule)
        assert (len(found.schedule.problem) == len(workload)) or late == "drop"


def test_most_on_time_in_seconds_without_a_time_limit() -> None:
    rng = np.random.default_rng(39)
    workload = Workload(
        np.sort(rng.integers(0, 40, 10)) / 8,
        rng.integers(1, 12, 10),
        rng.integers(1, 10, 10),
        memory_limit=30,
        batch_time=AffineTime(0.25, 0.0625, 0.0),
    )
    levels = [ServiceLevel(latency=float(one) / 4) for one in rng.integers(6, 24, 10)]
    found = hindsight.solve(workload, goal=hindsight.OnTime(levels), **QUIET)
    # The rules that it begins with serve four on time.
    assert (found.lower_bound, found.best_bound) == (7, "round-length prices")


@pytest.mark.parametrize("seed", sweep(range(9000, 9100), one_in=16))
def test_quantiles_in_seconds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    workload, time = drawn_workload(seed, 3)
    case = InSeconds.of(workload, time)
    limit: Any = ("latency", "first_token")[seed % 2]
    place = int(rng.integers(1, len(workload) + 1))
    found = hindsight.solve(
        workload, 0.2, goal=hindsight.Tail(place / len(workload), limit), threads=1
    )
    check_in_seconds(workload, time, found.schedule)
    # A quantile is a float; the schedule that reaches it has been checked in fractions.
    rounding = Fraction(case.unit, 10**9)
    above, below = (Fraction(one) * case.unit for one in (found.upper_bound, found.lower_bound))
    assert enumeration.within(case.problem, place, above + rounding, bool(seed % 2))
    assert not enumeration.within(case.problem, place, below - rounding, bool(seed % 2))
