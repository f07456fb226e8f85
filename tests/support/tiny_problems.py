"""Tiny problems with several axes at once, as `enumeration` takes them, and checks of schedules.

Schedules are checked round by round from the definitions: nothing is asked of the schedule but its
starts, stretches or rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import enumeration
import numpy as np
from enumeration import ANY, Level, Problem, Request, Work
from seconds_by_definition import replay

from instances import (
    FleetSchedule,
    Instance,
    MemoryRule,
    PreemptiveSchedule,
    SecondsSchedule,
    ServiceLevel,
    Workload,
)
from instances.batch_time.seconds_schedule import COLUMNS
from instances.service_level import Limits
from online import AffineTime, IterationTime, TiledTime


def decimal(number: float | Fraction) -> Fraction:
    """The number as it is written."""
    return number if isinstance(number, Fraction) else Fraction(repr(float(number)))


def limits_of(levels: Any, count: int) -> list[Level]:
    """Levels of all requests as the enumeration takes them."""
    if levels is None:
        return [ANY] * count
    if isinstance(levels, Limits):
        return [
            tuple(None if one == math.inf else decimal(one) for one in row)
            for row in zip(*levels, strict=True)
        ]
    each = [levels] * count if isinstance(levels, ServiceLevel) else levels
    return [
        tuple(
            None if one is None else decimal(one)
            for one in (level.latency, level.first_token, level.time_per_token)
        )
        for level in each
    ]


def in_rounds(instance: Instance, *, preemptive: bool = False, levels: Any = None) -> Problem:
    """An instance for the enumeration."""
    requests = [
        Request(q.arrival_time, q.prompt_length, q.output_length, q.weight, level)
        for q, level in zip(instance, limits_of(levels, len(instance)), strict=True)
    ]
    rule = dataclasses.astuple(instance.memory_rule)
    preemption = "keep" if preemptive else "never"
    return Problem(tuple(requests), instance.memory_limit, rule, instance.replicas, preemption)


def _table(tokens: Sequence[float], seconds: Sequence[float]) -> Callable[[int], Fraction]:
    xs, ys = [decimal(one) for one in tokens], [decimal(one) for one in seconds]

    def at(x: int) -> Fraction:
        if x <= xs[0]:
            return ys[0]
        k = next((k for k in range(1, len(xs)) if x <= xs[k]), len(xs) - 1)
        return ys[k - 1] + (ys[k] - ys[k - 1]) * (x - xs[k - 1]) / (xs[k] - xs[k - 1])

    return at


def seconds_of(time: Any) -> Callable[[Sequence[Work]], Fraction]:
    """Exact seconds of a round, from the definition of each batch time."""
    if all(hasattr(time, name) for name in ("d0", "d1", "d2")):
        d0, d1, d2 = map(decimal, (time.d0, time.d1, time.d2))
        return lambda works: d0 + sum(d1 * one.tokens + d2 * one.stored for one in works)
    if isinstance(time, IterationTime):
        d0, d1 = map(decimal, (time.d0, time.d1))
        return lambda works: d0 + d1 * sum(one.stored for one in works if one.tokens)
    at = _table(time.tokens, time.seconds)
    assert isinstance(time, TiledTime)
    kernel, kv_token, square, past = map(
        decimal, (time.kernel, time.kv_token, time.prompt_square, time.prompt_past)
    )

    def tiled(works: Sequence[Work]) -> Fraction:
        active = [one for one in works if one.tokens]
        total = at(math.ceil(sum(one.tokens for one in active) / time.tile) * time.tile)
        total += kernel * len({one.is_prompt for one in active})
        for one in active:
            total += kv_token * one.stored
            if one.is_prompt:
                total += square * one.tokens**2 + past * one.tokens * one.before
        return total

    return tiled


@dataclasses.dataclass
class InSeconds:
    """A workload for the enumeration, whose times are integers of 1 / ``unit`` seconds."""

    problem: Problem
    unit: int

    @classmethod
    def of(
        cls, workload: Workload, time: Any, preemption: str = "keep", levels: Any = None
    ) -> InSeconds:
        arrivals = [decimal(one) for one in workload.arrival_times.tolist()]
        lengths = (workload.prompt_lengths.tolist(), workload.output_lengths.tolist())
        limits = limits_of(levels, len(workload))
        seconds = seconds_of(time)
        # Every round is a sum of these, to the denominators.
        unit = math.lcm(
            *(one.denominator for one in arrivals),
            *(
                seconds([Work(*one, flag)]).denominator
                for one in [(1, 1, 0), (1, 0, 1), *((x, 0, 0) for x in range(1, 12))]
                for flag in (False, True)
            ),
        )
        requests = [
            Request(int(a * unit), s, o, 1, tuple(x if x is None else x * unit for x in level))
            for a, s, o, level in zip(arrivals, *lengths, limits, strict=True)
        ]

        def units(works: Sequence[Work]) -> int:
            length = seconds(works) * unit
            assert length.denominator == 1
            return int(length)

        def least(work: Work) -> int:
            most = int(workload.memory_limit) + 1
            return min(units([work._replace(tokens=x, is_prompt=False)]) for x in range(1, most))

        problem = Problem(
            tuple(requests),
            workload.memory_limit,
            dataclasses.astuple(workload.memory_rule),
            workload.replicas,
            preemption,
            units,
            least if isinstance(time, TiledTime) else None,
        )
        return cls(problem, unit)

    def least_total_latency(self, states: int = 6_000) -> Fraction | None:
        return self._of(enumeration.least_total_latency, states)

    def least_first_tokens(self, states: int = 6_000) -> Fraction | None:
        return self._of(enumeration.least_first_tokens, states)

    def most_on_time(self, states: int = 6_000) -> int | None:
        try:
            return enumeration.most_on_time(self.problem, states)
        except enumeration.TooManyStatesError:
            return None

    def _of(self, goal: Callable[[Problem, int], Any], states: int) -> Fraction | None:
        try:
            return Fraction(goal(self.problem, states)) / self.unit
        except enumeration.TooManyStatesError:
            return None


def rounds_of(schedule: Any) -> list[list[int]]:
    """The rounds in which each request of a schedule of one machine runs."""
    if isinstance(schedule, PreemptiveSchedule):
        return [[r for a, b in own for r in range(a, b + 1)] for own in schedule.stretches]
    outputs = [q.output_length for q in schedule.instance]
    starts = schedule.start_times.tolist()
    return [list(range(t + 1, t + o + 1)) for t, o in zip(starts, outputs, strict=True)]


def machines_of(schedule: Any) -> list[tuple[list[int], Any]]:
    """Of each machine that serves requests: their positions, and its schedule."""
    if not isinstance(schedule, FleetSchedule):
        return [(list(range(len(schedule.problem))), schedule)]
    assert len(schedule.parts) == schedule.problem.replicas
    assert len(schedule.assignment) == len(schedule.problem)
    found = []
    for k, part in enumerate(schedule.parts):
        own = [i for i, where in enumerate(schedule.assignment.tolist()) if where == k]
        assert bool(own) == (part is not None)
        if part is not None:
            found.append((own, part))
    return found


def check_in_rounds(problem: Problem, schedule: Any) -> list[tuple[int, int]]:
    """Times to the first and last token of each request of a schedule that breaks no rule."""
    size, emitted, _ = problem.rule
    times: dict[int, tuple[int, int]] = {}
    machines = machines_of(schedule)
    assert len(machines) <= problem.replicas
    for own, part in machines:
        held: dict[int, int] = {}
        rounds = rounds_of(part)
        assert len(rounds) == len(own)
        for i, runs in zip(own, rounds, strict=True):
            q = problem.requests[i]
            assert len(runs) == q.output
            assert runs[0] > q.arrival
            assert runs == sorted(set(runs))
            if problem.preemption == "never":
                assert runs[-1] - runs[0] == q.output - 1
            for k, r in enumerate(runs, 1):
                stored = q.prompt + k - (emitted == "next")
                held[r] = held.get(r, 0) + math.ceil(stored / size)
            assert i not in times
            times[i] = (runs[0] - q.arrival, runs[-1] - q.arrival)
        assert max(held.values()) <= problem.limit // size
    assert len(times) == len(problem.requests)
    return [times[i] for i in range(len(times))]


def total_in_rounds(problem: Problem, schedule: Any) -> int:
    """Total latency of a schedule that breaks no rule."""
    times = check_in_rounds(problem, schedule)
    return sum(q.weight * last for q, (_, last) in zip(problem.requests, times, strict=True))


def replayed(
    schedule: SecondsSchedule, time: Any, *, keeps: bool = True
) -> tuple[set[str], list[Fraction | None]]:
    """Rules that a schedule of one machine breaks, and exact completions, by definition."""
    workload = schedule.workload
    return replay(
        [decimal(one) for one in workload.arrival_times.tolist()],
        workload.prompt_lengths.tolist(),
        workload.output_lengths.tolist(),
        workload.memory_limit,
        list(zip(*(getattr(schedule, name).tolist() for name in COLUMNS), strict=True)),
        [decimal(one) for one in schedule.round_starts.tolist()],
        seconds_of(time),
        slack=Fraction(1, 10**9),
        rule=dataclasses.astuple(workload.memory_rule),
        keeps=keeps,
    )


def check_in_seconds(
    workload: Workload, time: Any, schedule: Any, *, keeps: bool = True
) -> list[Fraction]:
    """Exact latencies of a schedule that breaks no rule."""
    latencies = {}
    for own, part in machines_of(schedule):
        for name in ("arrival_times", "prompt_lengths", "output_lengths"):
            of_fleet, alone = (getattr(one, name) for one in (workload, part.workload))
            assert of_fleet[own].tolist() == alone.tolist()
        assert part.workload.memory_limit == workload.memory_limit
        assert part.workload.memory_rule == workload.memory_rule
        broken, ends = replayed(part, time, keeps=keeps)
        assert broken == set()
        for i, end in zip(own, ends, strict=True):
            assert end is not None
            latencies[i] = end - decimal(workload.arrival_times[i])
    assert len(latencies) == len(workload)
    return [latencies[i] for i in range(len(latencies))]


RULES = (
    MemoryRule(),
    MemoryRule(1, "next"),
    MemoryRule(1, "now", "chunks"),
    MemoryRule(2),
    MemoryRule(2, "next", "chunks"),
    MemoryRule(3, "next"),
)


def _chosen(rng: np.random.Generator, *values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def drawn_instance(seed: int, requests: int = 5) -> Instance:
    """Up to ``requests`` requests that get in each other's way, on any axes."""
    rng = np.random.default_rng([7, seed])
    n, rule = int(rng.integers(2, requests + 1)), _chosen(rng, *RULES, RULES[0], RULES[0])
    limit = int(rng.integers(5, 11)) // rule.block_size * rule.block_size + int(rng.integers(0, 2))
    prompts = rng.integers(1, 4, n)
    outputs = np.minimum(rng.integers(1, 6, n), rule.limit(limit) - prompts + rule.unstored)
    arrivals = rng.integers(0, 5, n) * _chosen(rng, 0, 1, 1, 2)
    if n > 2 and rng.random() < 0.25:
        arrivals[int(rng.integers(n))] += 9 + int(outputs.sum())
    if n > 2 and rng.random() < 0.3:
        for column in (prompts, outputs, arrivals):
            column[-1] = column[0]
    return Instance.from_arrays(
        prompts,
        outputs,
        arrivals,
        memory_limit=limit,
        memory_rule=rule,
        weights=rng.integers(1, _chosen(rng, 3, 9), n) if rng.random() < 0.5 else None,
        replicas=_chosen(rng, 1, 1, 2, 3),
    )


def drawn_levels(rng: np.random.Generator, count: int, unit: float = 1) -> list[ServiceLevel]:
    """A level of each request; some limits are those of no whole round."""
    return [
        ServiceLevel(
            latency=_chosen(rng, 2, 3, 4.5, 6) * unit,
            first_token=one if (one := _chosen(rng, None, 1, 2, 3.2)) is None else one * unit,
            time_per_token=one if (one := _chosen(rng, None, None, 0.5, 1)) is None else one * unit,
        )
        for _ in range(count)
    ]


def drawn_time(rng: np.random.Generator, scale: float = 1) -> Any:
    """A batch time of any kind, whose numbers have few decimals."""

    def few(*numbers: float) -> list[float]:
        return [round(float(one) * scale, 9) for one in numbers]

    d0, d1, d2 = few(rng.integers(1, 9) / 8, rng.integers(0, 9) / 16, rng.integers(0, 5) / 32)
    steps = np.cumsum(rng.integers(0, 4, 3)) / 8
    seconds = few(*(d0 / scale + steps))
    kernel, square, past = few(rng.integers(0, 3) / 8, *rng.integers(0, 3, 2) / 32)
    tiles = {"tile": 2, "kernel": kernel, "kv_token": d2}
    return _chosen(
        rng,
        AffineTime(d0, d1, d2),
        AffineTime(d0, d1, d2),
        IterationTime(d0, d2),
        AffineTime(d0),
        TiledTime([1, 3, 7], seconds, kv_token=d2),
        TiledTime([2, 4, 8], seconds, prompt_square=square, prompt_past=past, **tiles),
    )


def drawn_workload(seed: int, requests: int = 4) -> tuple[Workload, Any]:
    """A workload on any axes and its batch time; half are exact in floats, half in decimals."""
    rng = np.random.default_rng([11, seed])
    n, rule = int(rng.integers(1, requests + 1)), _chosen(rng, *RULES, RULES[0], RULES[0])
    most = 3 if n < 4 else 2
    prompts, outputs = rng.integers(1, most + 2, n), rng.integers(1, most + 1, n)
    limit = max(int(rng.integers(3, 9)), int((prompts + outputs).max()))
    size, scale = rule.block_size, _chosen(rng, 1.0, 0.8)
    arrivals = np.sort(rng.integers(0, 24, n)) / 8 * _chosen(rng, 0, 1, 1)
    workload = Workload(
        [round(one * scale, 9) for one in arrivals.tolist()],
        prompts,
        outputs,
        memory_limit=-(-limit // size) * size + int(rng.integers(0, size)),
        memory_rule=rule,
        replicas=_chosen(rng, 1, 1, 2),
    )
    time = drawn_time(rng, scale)
    return workload.replaced(batch_time=time), time


def least_total_latency(instance: Instance, *, preemptive: bool = False) -> int:
    """The optimum of an instance, or its preemptive one."""
    return int(enumeration.least_total_latency(in_rounds(instance, preemptive=preemptive)))


def most_on_time(instance: Instance, levels: Any) -> int:
    """The most requests of an instance that can keep their levels together."""
    return enumeration.most_on_time(in_rounds(instance, levels=levels))
