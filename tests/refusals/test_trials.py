"""Ratios, comparisons, experiments, pictures and closed forms: arguments that are refused."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from refusals import Rows, assert_refused, each, refused
from scripted import Scripted, hold_after_the_first_token

import hindsight
import online
from hindsight import Bound, OnTime, Result, Tail
from instances import (
    Instance,
    InvalidTypeError,
    InvalidValueError,
    Request,
    ServiceLevel,
    UnknownNameError,
    Workload,
    library,
)
from online import AffineTime, IncompleteRunError, NoScheduleError, pictures, ratio, simulate, sweep
from online.fluid.balance import PromptType, equilibrium, is_stable
from online.fluid.nested_design import NestedPlan, group, nested_thresholds
from online.fluid.wait_design import WaitPlan, batch_cap_thresholds, wait_thresholds
from online.headroom import Question, measure_headroom
from online.testing import check_policy
from online.theory.fluid_limit import fluid_latency
from online.theory.geometric_ratios import geometric_slicing_ratio
from online.theory.interval_ratios import a_min_ratio
from online.theory.paper_bounds import volume_bound
from online.theory.rayleigh import rayleigh_maximum
from online.trials.intervals import MismatchError

NAN, INFINITE = float("nan"), float("inf")
SECOND = AffineTime(1.0, 0.5)
LEVEL, SOON = ServiceLevel(latency=4), ServiceLevel(first_token=1)
SMALL = Instance.from_arrays([2, 1], [1, 2], memory_limit=10)
OTHER = Instance.from_arrays([1], [1], memory_limit=4)
ALIKE = Instance.from_arrays([3, 3, 3], [2, 2, 2], memory_limit=5)
ONE = Instance.from_arrays([1], [3], memory_limit=9)
FLEET = Instance([Request(k, 2 + k % 3, 3 + k % 4) for k in range(10)], 14, replicas=2)
TWO = Workload([0.0, 0.5], [2, 1], [1, 2], memory_limit=10, batch_time=SECOND)
WORK = Workload([0.0, 2.5], [1, 1], [10, 1], memory_limit=50)
HEAVY = Instance([Request(0, 1, 2, weight=2)], 9)
LATE = Instance.from_arrays([1, 1], [1, 1], [0, 1], memory_limit=9)
PAIR = Instance.from_arrays([8, 8], [5, 5], memory_limit=22)
KEEPING = online.make_policy("vllm-v0", preemption="recompute")
THREE = [PromptType(3, 10, 4), PromptType(2, 10, 8), PromptType(1, 10, 16)]
GROUPED = group(THREE)
PLAN = NestedPlan(GROUPED, (12, 7, 3), 1.0, 0.0005)
EXAMPLE, UNIT, FULL = ([PromptType(rate, 1, 1)] for rate in (4, 1, 1 / 0.15))


def bounds(problem: Any) -> Any:
    """Bounds of an optimum in rounds."""
    return SimpleNamespace(problem=problem, upper_bound=5, lower_bound=4)


def timed_bounds(work: Any = TWO, clock: Any = SECOND) -> Any:
    """Bounds of an optimum in seconds."""
    return SimpleNamespace(problem=work.replaced(batch_time=clock), upper_bound=5, lower_bound=4)


class Drifting:
    """Every round is longer than the one before."""

    rounds = 0

    def durations(self, stretch: Any) -> Any:
        self.rounds += stretch.rounds
        return np.full(stretch.rounds, float(self.rounds))


def run(problem: Any = SMALL, policy: Any = "fcfs", **options: Any) -> Any:
    return simulate(problem, policy, **options)


def timed(**options: Any) -> Any:
    return simulate(TWO, "fcfs", **options)


def attainable(problem: Instance) -> Result:
    late = {"by hand": Bound(len(problem) - 1, certified=True)}
    return Result(problem, OnTime(SOON), "never", None, len(problem) - 1, late, "stalled")


def held() -> Any:
    return simulate(ONE, Scripted(hold_after_the_first_token))


UNRECORDED = ("makespan", OnTime(ServiceLevel(latency=1)))
"""Goals of no record of the rows below."""


def recorded(name: str, **options: Any) -> None:
    sweep([library()[name].instance], "fcfs", optimum="records", **options)


def compared(**options: Any) -> Callable[[], Any]:
    return lambda: sweep([SMALL], "fcfs", **options)


VALUES: Rows = [
    # Sweeps.
    *each(lambda names: sweep([SMALL], names), "is given twice", ["mc-sf", "mc-sf"]),
    (lambda: sweep([FLEET], "mc-sf"), "replicas = 2 needs a router"),
    (lambda: sweep([SMALL], ["mc-sf"], jobs=0), "jobs = 0"),
    (lambda: measure_headroom(Question(TWO), 0), "time_limit"),
    (lambda: measure_headroom(Question(TWO), jobs=0), "jobs"),
    *each(lambda error: Question(TWO, error=error), "error", -1),
    (lambda: check_policy("fcfs", 0), "instances = 0"),
    (compared(router="round-robin"), "but there is one machine"),
    (lambda: sweep([TWO], "fcfs", preemption="never"), "is not available in seconds"),
    *each(lambda name: sweep([ALIKE], ["fcfs", name]), "needs a service level", "edf"),
    *[(compared(goal=goal), "^goal = ") for goal in (OnTime([LEVEL] * 3), "tail")],
    *[(compared(preemption=one), "^preemption = ") for one in ("no", "recompute")],
    (compared(optimum="guess"), "optimum = 'guess' is not one of solve, records"),
    *each(
        lambda goal: recorded("j25-m1-n10-00", goal=goal),
        "'latency', which the record of j25-m1-n10-00",
        *UNRECORDED,
    ),
    *each(
        lambda goal: recorded("service-j25-m1-n20-00", goal=goal), "'latency <= 50'", *UNRECORDED
    ),
    *each(
        lambda name: recorded(name, preemption="keep"),
        "'never', which the record",
        "w25-lmsys-like-n50-00",
        "service-j25-m1-n20-00",
    ),
    (lambda: recorded("preemptive-j25-m1-n10-00", preemption="never"), "'keep', which the record"),
    (compared(seeds=[-1]), "seeds = -1"),
    (compared(time_limit=-1), "time_limit = -1"),
    (compared(predictions=["exact", "exact"]), "predictions = 'exact' is given twice"),
    (compared(predictions=[]), "predictions = .* is empty"),
    # Pictures.
    *each(pictures.latency_curves, "is empty", {"fcfs": {10: []}}),
    # The fluid model.
    *each(lambda rate: PromptType(rate, 1, 1), "arrival_rate = ", 0, INFINITE),
    (lambda: equilibrium([], 1, 0), "types = "),
    (lambda: equilibrium(FULL, 0.4, 0.05), "load = "),
    (lambda: is_stable(UNIT, 1, 0, 0), "memory_limit = "),
    (lambda: group([*THREE, PromptType(1, 9, 3)]), "prefill_length = "),
    *each(lambda count: group(THREE, count), "segments = ", 4, 0),
    (lambda: PLAN.memory_requirement(0, 0.1), "horizon = "),
    (lambda: nested_thresholds(GROUPED, 1, 1), "load with margins = "),
    (lambda: wait_thresholds(EXAMPLE, 0.4, 0.1), "load = "),
    (lambda: wait_thresholds(EXAMPLE, 0.4, 0.05, 2), "memory_limit = "),
    (lambda: WaitPlan(tuple(EXAMPLE), (4, 4), 0.4, 0.05), "thresholds = "),
    (lambda: batch_cap_thresholds(EXAMPLE, 0), "batch_cap = "),
    # Closed forms.
    (lambda: volume_bound(HEAVY), "weight = 2"),
    *each(geometric_slicing_ratio, "factor", 1, 0.5, INFINITE),
    *each(lambda x: a_min_ratio(x, 0, 1), "^x = ", [], [0.0], [-1.0, 2.0]),
    *each(rayleigh_maximum, "u = 0 is below 1", 0),
    *each(lambda x: fluid_latency(x, 0, 1, 5, "h-sf"), "^x = ", [], [-1.0, 2.0]),
]
TYPES: Rows = [
    (compared(predictions="noisy"), "predictions 'noisy': delta = None is not given"),
    (compared(predictions=3), "predictions = 3 is not text and has no method predict"),
    (lambda: ratio(bounds(SMALL), run()), r"^run = .* write ratio\(run, result\)$"),
    (lambda: ratio(run(), run()), "^result = Run.* is not a result of"),
    (lambda: sweep([1], ["mc-sf"]), "is not an Instance, a Workload or an arrival source"),
]
UNKNOWN: Rows = [
    (lambda: Question(TWO, "no-such"), "no-such"),
    (compared(predictions="x"), "unknown prediction model 'x'"),
    (lambda: sweep([SMALL], "x"), "unknown policy 'x'; known: "),
    (
        lambda: sweep([FLEET], "mc-sf", router="nope"),
        "unknown router 'nope'; known: least-requests",
    ),
]
OTHERS: Rows = [
    (lambda: ratio(run(), bounds(OTHER)), "different requests"),
    (lambda: ratio(run(), timed_bounds()), "different requests or batch times"),
    (lambda: ratio(timed(), timed_bounds(WORK)), "different requests"),
    (lambda: ratio(timed(), timed_bounds(TWO, AffineTime(1.0))), "or batch times"),
    (lambda: ratio(timed(), bounds(SMALL)), "different requests or batch times"),
    (lambda: pictures.policy_and_optimum(run(OTHER), hindsight.solve(SMALL)), "different"),
    (lambda: ratio(run(), hindsight.solve(SMALL, goal=Tail(0.5))), "of a quantile"),
]
INCOMPLETE: Rows = [
    (lambda: ratio(run(max_rounds=1), bounds(SMALL)), "1 of 2 requests unserved"),
]
NONE: Rows = [
    (lambda: ratio(run(PAIR, KEEPING), hindsight.solve(PAIR)), "kept their tokens"),
    (lambda: run(TWO.replaced(batch_time=Drifting())).schedule, "asked again"),
    (lambda: ratio(held(), attainable(ONE)), "without pauses fewer are on time"),
]
TABLE = {InvalidValueError: VALUES, InvalidTypeError: TYPES, UnknownNameError: UNKNOWN}


@refused({**TABLE, MismatchError: OTHERS, IncompleteRunError: INCOMPLETE, NoScheduleError: NONE})
def test_bad_arguments_are_refused(error: type[Exception], call: Any, words: str) -> None:
    assert_refused(error, call, words)
