"""Solves, relaxations, bounds, models and certificates that are refused."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import pyomo.environ as pyo
from refusals import Rows, assert_refused, each, refused

import hindsight
from hindsight import (
    OnTime,
    build_model,
    make_certificate,
    relax,
    second_opinion,
    solve,
    solve_model,
)
from instances import (
    Instance,
    InvalidTypeError,
    InvalidValueError,
    MemoryRule,
    PreemptiveSchedule,
    Schedule,
    SecondsSchedule,
    ServiceLevel,
    Workload,
)
from online import AffineTime, IterationTime
from online.theory import paper_bounds

NAN, INFINITE = float("nan"), float("inf")
TIME = AffineTime(0.5, 0.25, 0.125)
ONE = Instance.from_arrays([1], [1], memory_limit=2)
SMALL = Instance.from_arrays([1, 2, 1, 3, 2], [4, 3, 6, 2, 5], [0, 3, 0, 1, 2], memory_limit=8)
OTHER = Instance(SMALL.requests, 9)
GAP = Instance.from_arrays([2, 2, 2], [1, 1, 1], memory_limit=5)
WIDE = Instance.from_arrays([1, 1], [2, 2], memory_limit=256)
PAIR = Instance.from_arrays([1, 8], [9, 1], [0, 1], memory_limit=10)
WEIGHTED = Instance.from_arrays([1, 1], [3, 3], memory_limit=4, weights=[1, 5])
BLOCKS = Instance.from_arrays([1] * 4, [1] * 4, memory_limit=8, memory_rule=MemoryRule(4))
LARGE = Instance.from_arrays([5] * 300, [50] * 300, memory_limit=100)
WORK = Workload([0.0], [3], [2], memory_limit=8, batch_time=TIME)
LONG = Workload([0.0], [5], [10**8], memory_limit=10**9, batch_time=TIME)
LEVEL = ServiceLevel(latency=1)
FAR = Instance.from_arrays([1, 1], [1, 1], [0, 10**9], memory_limit=2)
UNIT = SecondsSchedule(WORK.replaced(batch_time=IterationTime(1.0)), [(0, 1, 2)])
WHOLE = PreemptiveSchedule(WEIGHTED, [[(1, 3)], [(4, 6)]])
NO_LENGTH = "batch time: durations = .* must all be above 0"


@cache
def best() -> Schedule:
    return hindsight.best_list_schedule(SMALL)


@cache
def solution() -> hindsight.Result:
    return solve(SMALL, threads=1)


@cache
def shortest() -> hindsight.Result:
    return solve(GAP, goal="makespan", threads=1)


@cache
def parts() -> hindsight.Result:
    return solve(PAIR, preemption="keep")


class Constant:
    """Every round takes as long."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def durations(self, stretch: Any) -> Any:
        return np.full(stretch.rounds, self.seconds)


def bold(_: Instance) -> int:
    """Exceed every schedule's total latency."""
    return solution().upper_bound + 1


def solved(**options: Any) -> Any:
    return solve(**{"problem": SMALL, **options})


def preempted(**options: Any) -> Any:
    return solve(**{"problem": SMALL, "preemption": "keep", **options})


def timed(clock: Any = TIME, **options: Any) -> Any:
    return solve(WORK.replaced(batch_time=clock), **options)


def compared(lower: int, upper: int) -> Any:
    return second_opinion(SMALL, (lower, upper))


def relaxed(**options: Any) -> Any:
    return relax(SMALL, **options)


def given(call: Any, **options: list[Any]) -> Rows:
    """A row for each value of each option, whose name is in the message."""
    return [
        (partial(call, **{name: one}), name) for name, values in options.items() for one in values
    ]


NO_ROUNDS: dict[str, list[Any]] = {"method": ["mip"], "bounds": [lambda _: 1]}
NO_TOKENS = (hindsight.transportation_bound,)
VALUES: Rows = [
    # Options of solve.
    *given(solved, time_limit=[-1, NAN, INFINITE], threads=[0], seed=[-1], gap=[2]),
    (lambda: solved(goal="total_latency"), "'total_latency' is not 'latency', 'makespan', OnTime"),
    *each(lambda way: solved(goal="makespan", method=way), "not minimise the goal", "beams"),
    *each(lambda starts: solved(start=Schedule(SMALL, starts)), "infeasible", [0] * 5, [3] * 5),
    (lambda: solve(OTHER, start=best()), "another instance"),
    # Weights, blocks.
    *each(lambda way: solve(WEIGHTED, method=way), "counts every request alike: it takes", "paths"),
    (lambda: solve(WEIGHTED, preemption="keep"), "with preemption every request counts alike"),
    (lambda: Workload.from_instance(WEIGHTED, TIME), "a Workload has no weights"),
    (lambda: make_certificate(WHOLE), "preemptive optimum counts every request alike"),
    *[(partial(call, BLOCKS), "is not counted in tokens") for call in NO_TOKENS],
    (lambda: solve(WIDE, method="paths"), "needs a memory_limit of at most 255 and few rounds"),
    # Preemption.
    (lambda: parts().known_bounds(), "preemption = 'keep' is not 'never'"),
    # The makespan.
    (lambda: shortest().known_bounds(), "goal = 'makespan' is not 'latency'"),
    (lambda: hindsight.write_certificate(shortest(), "proof.json"), "goal = 'makespan'"),
    # Seconds.
    *[(row[0], f"parameter = '{row[1]}' is not") for row in given(timed, **NO_ROUNDS)],
    (lambda: timed(goal="makespan"), "goal = 'makespan' requires an Instance"),
    (lambda: timed(None), r"batch_time = None is not known: give it as replaced"),
    *each(lambda d: timed(Constant(d)), NO_LENGTH, NAN, INFINITE, 0.0, -1.0, 1e308),
    (lambda: solve(LONG), "last round = 100000000 is above 10000000 rounds"),
    # Service levels.
    (lambda: solve(ONE, goal=OnTime([LEVEL, LEVEL])), "differs from the number of requests, 1"),
    (lambda: build_model(ONE, goal=OnTime(LEVEL), horizon=3), "horizon = 3 must be None"),
    (lambda: build_model(FAR, goal=OnTime(ServiceLevel(time_per_token=1))), "is too large here"),
    *each(
        lambda share: hindsight.fewest_replicas(ONE, hindsight.OnTime(LEVEL), share),
        "share",
        0,
        1.5,
    ),
    # Bounds, relaxations, models and certificates.
    *given(relaxed, method=["columns"], tolerance=[0, NAN]),
    (lambda: hindsight.transportation_bound(LARGE), "use mean_busy_time_bound"),
    (lambda: solved(bounds=bold), "exceeds the total latency .* bound 'bold' does"),
    (lambda: build_model(SMALL, "denser"), "dense, sparse"),
    *each(lambda form: build_model(SMALL, form, horizon=5), "horizon", "dense", "sparse"),
    (lambda: build_model(SMALL, path="model.txt"), r"path = 'model.txt' does not end in .lp or"),
    (lambda: solve_model(pyo.ConcreteModel()), "must be made by build_model"),
    *given(partial(solve_model, build_model(SMALL)), time_limit=[-1, NAN], threads=[0], seed=[-1]),
    (lambda: solved(bounds="volume"), "bound = 'volume' is not FILE.py:NAME"),
    (lambda: paper_bounds.optimum_lower_bound(WEIGHTED), "lemma counts every request alike"),
    (lambda: preempted(goal="makespan"), "preemption = 'keep' requires the goal 'latency'"),
    (lambda: shortest().share_interval, "goal = 'makespan' is not OnTime"),
    (lambda: OnTime(LEVEL, "keep"), "late = 'keep' is not one of drop, serve"),
    (lambda: ServiceLevel(), "sets no limit"),
    (lambda: build_model(ONE, goal=hindsight.Tail(0.5)), "needs several programs"),
]
TYPES: Rows = [
    *given(solved, time_limit=["10", True], threads=[1.5], seed=[0.5], start=[[0] * 5]),
    *each(solve, "is neither an Instance nor a Workload", 3),
    *each(lambda value: solved(bounds=lambda _: value), "no prices: value = .* neither", "12"),
    (lambda: solve_model("model.lp"), "ConcreteModel"),  # type: ignore[arg-type]
    (lambda: solved(bounds=3), "is neither a function nor FILE.py:NAME of one"),
    (lambda: second_opinion(WORK), "is not an Instance"),  # type: ignore[arg-type]
    (lambda: solve(ONE, goal=OnTime([30])), r"level = \[30\] is neither a ServiceLevel nor a list"),
    *each(
        lambda level: solve(ONE, goal=OnTime(level)), "neither a ServiceLevel nor", None, "latency"
    ),
    (lambda: make_certificate(UNIT), "files hold an AffineTime or a TiledTime"),
]
CONTRADICTIONS: Rows = [
    (lambda: compared(37, 41), r"proves the optimum 36, outside the interval \[37, 41\]"),
]
OPERANDS: Rows = [(lambda: LEVEL & 30, "unsupported operand"), (lambda: solved(treads=1), "treads")]
TABLE = {InvalidValueError: VALUES, InvalidTypeError: TYPES, TypeError: OPERANDS}


@refused({**TABLE, hindsight.ScheduleCheckError: CONTRADICTIONS})
def test_bad_arguments_are_refused(error: type[Exception], call: Any, words: str) -> None:
    assert_refused(error, call, words)
