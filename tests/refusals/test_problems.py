"""Instances, workloads and schedules that are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from refusals import Rows, assert_refused, each, every, refused

import instances
from instances import (
    FleetSchedule,
    Instance,
    InvalidTypeError,
    InvalidValueError,
    KnownBounds,
    PreemptiveSchedule,
    Request,
    Schedule,
    SecondsSchedule,
    Workload,
)
from online import AffineTime

NAN, INFINITE = float("nan"), float("inf")
FLAG = "allow_zero_prompt_length"
ONE, BARE = Request(0, 1, 1), Request(0, 0, 2, "bare")

TINY = Instance([ONE], 4)
PAIR = Instance([Request(0, 1, 1, "a"), Request(0, 1, 1, "b")], 4)
LONG = Instance.from_arrays([2], [4], memory_limit=10)
TRIO = Instance([Request(0, 2, 3, "a"), Request(4, 1, 2, "b"), Request(4, 5, 1)], 8, "trio")
FLEET = Instance.from_arrays([2, 3, 1], [4, 2, 3], [0, 0, 1], memory_limit=6, replicas=2)
TIME = AffineTime(0.5, 0.25, 0.125)
TIMED = Workload([0.0, 0.5, 1.0], [2, 3, 1], [4, 2, 3], memory_limit=6, replicas=2, batch_time=TIME)
WORKLOAD = Workload([1.0], [3], [2], memory_limit=6, batch_time=TIME)
PARTS = FleetSchedule.from_starts(FLEET, [0, 1, 1], [0, 0, 2]).parts
WEIGHTED = Instance.from_arrays([1, 2, 1], [3, 2, 1], [0, 1, 1], memory_limit=6, weights=[1, 5, 2])
SERIAL = [0, 4, 6]  # latency 3 + 2 + 3 = 8
CONTROL = "\x1b[31mred", "line\nbreak", "\r", "\x00", "\x7f", "\x9b31m", "\u2028", "\u202eabc"
SURROGATES = {"a": "\ud800"}, {"\udfff": 1}, {"a": [{"b": ("x", "y\udc80")}]}
LARGEST = {"arrival_time": 2**53, "prompt_length": 2**31 - 1, "output_length": 2**31 - 1}
NOT_INTEGERS = [True, np.True_, 1.0, np.float32(3.0), "3", None, [1], 3 + 0j, np.array(1)]
NOT_INTEGERS += [NAN, INFINITE, np.datetime64("2023-01-01"), np.timedelta64(1)]
OUTSIDE = [-1, 10**30]


def of(*requests: Any, **options: Any) -> Instance:
    return Instance(requests, 10, **options)


def limited(limit: Any) -> Instance:
    return Instance([ONE], limit)


def outputs(lengths: Any) -> Instance:
    return Instance.from_arrays([1, 1], lengths, memory_limit=9)


def timed(times: Any, **options: Any) -> Workload:
    return Workload(times, [1, 1], [1, 1], memory_limit=9, **options)


def alike(*ids: Any) -> Instance:
    return Instance([Request(0, 1, 1, one) for one in ids], 4)


def with_field(field: str) -> Callable[[Any], Request]:
    """Make a request whose field has the given value."""
    others = {"arrival_time": 0, "prompt_length": 1, "output_length": 1, "id": "r7"}
    return lambda value: Request(**{**others, field: value})


def ids(*given: Any) -> Workload:
    return timed([0.0, 0.0], ids=given)


def replicas(count: Any) -> Instance:
    return Instance.from_arrays([1], [1], memory_limit=4, replicas=count)


def replicated(count: Any) -> Workload:
    return timed([0.0, 0.0], replicas=count)


def starts(times: Any) -> Schedule:
    return Schedule(PAIR, times)


def stretches(given: Any) -> PreemptiveSchedule:
    return PreemptiveSchedule(LONG, given)


def rows(given: Any, times: Any = None) -> SecondsSchedule:
    return SecondsSchedule(WORKLOAD, given, times)


def assigned(replicas: Any) -> FleetSchedule:
    return FleetSchedule.from_starts(FLEET, replicas, [0, 0, 0])


def reduced(name: str) -> Callable[[Any], Instance]:
    """Generate an instance of given numbers."""
    return lambda numbers: instances.generate(name, numbers=numbers)


def carried(**changes: Any) -> Any:
    """Read bounds of which some are changed in a file."""
    sound = KnownBounds(8, 8, 8, SERIAL).attached_to(TRIO)
    entries = {**sound.metadata["known_bounds"], **changes}
    return instances.known_bounds(sound.replaced(metadata={"known_bounds": entries}))


def bounds(*given: Any, **more: Any) -> Callable[[], Instance]:
    return lambda: KnownBounds(*given, **more).attached_to(TRIO)


VALUES: Rows = [
    # Requests.
    *[row for field in LARGEST for row in each(with_field(field), f"{field} = {{}}", *OUTSIDE)],
    *[row for f, top in LARGEST.items() for row in each(with_field(f), "is above", top + 1)],
    *each(with_field("output_length"), "is below 1", 0),
    # Instances and workloads.
    (lambda: Instance([], 10), "requests = .* empty"),
    *each(limited, "memory_limit = {}", 0, 10**30),
    (lambda: of(ONE, Request(0, 5, 6, "big")), "'big'.* = 11 exceeds memory_limit = 10"),
    (lambda: Workload([0.0], [5], [5], memory_limit=9), "can never run"),
    *every("id = 'a' is used twice", lambda: alike("a", "a"), lambda: ids("a", "a")),
    (lambda: ids("a"), "ids"),
    (lambda: of(BARE), "'bare': prompt_length"),
    (lambda: of(BARE, metadata={FLAG: True}).replaced(metadata={FLAG: False}), "prompt_length"),
    (lambda: Instance.from_arrays([1, 2], [1], memory_limit=9), "output_lengths"),
    *each(outputs, "request 1: output_length = 0", [1, 0]),
    *each(lambda name: Instance([ONE], 4, name), "control character", *CONTROL, "\ud800"),
    *each(with_field("id"), "control character", *CONTROL, "\ud800"),
    *each(lambda given: of(ONE, metadata=given), "surrogate", *SURROGATES),
    *each(replicas, "replicas", 0, 10**9),
    *each(timed, "request 1: arrival time = 0.5", [1.0, 0.5]),
    *each(timed, "request 0: arrival time = -1.0", [-1.0, 0.5]),
    *each(timed([1.0, 3.0]).faster, "factor", 0, -1.0),
    *each(Workload.from_instance, "request 1: weight = 5 is not 1: a Workload has no", WEIGHTED),
    # Schedules.
    *each(starts, "request 'b': start_time", np.array([0, 2**60]), np.array([0, -(2**60)])),
    (lambda: Schedule(TINY, [-1]).memory_profile(), "before round 0"),
    (lambda: starts([2**53 - 10] * 2).memory_profile(), "makespan"),
    *each(stretches, "differs from the 1 requests", []),
    *each(stretches, "differ from output_length 4", [[]], [[(1, 5)]], [[(1, 2**53)]]),
    *each(stretches, "last round", [[(1, 10**30)]], [[(4, 1)]]),
    *each(stretches, "is not after round 4", [[(3, 4), (1, 2)]]),
    *each(rows, "stretches = 0 are too few", []),
    *each(rows, "request = 1 is above 0", [(1, 1, 2)]),
    *each(rows, "last round = 10000001 is above 10000000 rounds", [(0, 10_000_000, 2)]),
    *each(lambda times: rows([(0, 1, 2)], times), "leaves round 2 without a start", [1.0]),
    *each(assigned, r"len\(assignment\)", [0, 1]),
    *each(assigned, "above 1", [0, 1, 2]),
    (lambda: FleetSchedule(FLEET, [1, 0, 0], PARTS), "not a schedule of the 2 requests"),
    *every(
        "replicas = 2",
        lambda: Schedule(FLEET, [0, 0, 0]),
        lambda: PreemptiveSchedule.from_rounds(FLEET, [[1, 2, 3, 4], [1, 2], [2, 3, 4]]),
        lambda: SecondsSchedule(TIMED, [(0, 1, 4)]),
    ),
    # Bounds that contradict their schedule or one another.
    *every("upper_bound", bounds(upper_bound=7, start_times=SERIAL), bounds(-1)),
    (bounds(8, lower_bound=9), "lower_bound"),
    *every("start_times", bounds(8, start_times=[0, 0, 6]), bounds(8, start_times=[0, 4])),
    *every(
        "another instance",
        lambda: instances.known_bounds(
            Instance(TRIO.requests, 9, metadata=bounds(8, 8, 8, SERIAL)().metadata)
        ),
    ),
    (lambda: carried(upper_bound=7), "upper_bound"),
    # Reductions.
    *each(reduced("three-partition"), r"len\(numbers\) = 0", []),
    *each(reduced("three-partition"), r"sum\(numbers\) = 25 is not 2 times T", [4, 4, 4, 4, 4, 5]),
    *each(reduced("three-partition"), "number 0: value = 3 is below 4", [3, 4, 5]),
    *each(reduced("three-partition"), "number 0: value = 6 is above 5", [6, 3, 3]),
    *each(reduced("three-partition"), "number 2: value = 0", [4, 4, 0]),
    *each(reduced("partition-makespan"), "sum", []),
    *each(reduced("partition-makespan"), "number 2: value = 4 is above 3", [1, 1, 4]),
    *each(replicated, "replicas", 0, 10**9),
    *each(rows, "is not an int64 array of 6 columns", np.zeros((1, 5), dtype=np.int64)),
    *each(lambda times: rows([(0, 1, 2)], times), "round start = nan", [1.0, NAN]),
]
TYPES: Rows = [
    *[row for field in LARGEST for row in each(with_field(field), f"'r7': {field}", *NOT_INTEGERS)],
    *each(with_field("id"), "id", 1.5, True, b"a", (1,), [], np.float64(3)),
    *each(limited, "memory_limit = {}", 10.0, NAN, None),
    (lambda: of(ONE, (0, 1, 1)), "request 1"),
    (lambda: of(ONE, metadata=[("a", 1)]), "metadata"),
    *each(outputs, "output_length", np.array([1.0, 2.0]), np.array([True, False]), [1, None]),
    (lambda: of(ONE, memory_rule="blocks"), "memory_rule"),
    *each(starts, "request 'b': start_time", [0, 1.0], [0, None]),
    *each(stretches, "first round", [[(1.0, 4)]]),
    *each(stretches, "is not a whole number", [[{"first": 1, "last": 4}]]),
    *every("upper_bound", bounds(8.0)),
    (lambda: instances.known_bounds(TRIO.replaced(metadata={"known_bounds": [8]})), "known_bounds"),
    *each(reduced("three-partition"), "number 2", [4, 4, 4.0]),
    *each(replicated, "replicas", 2.5),
]
FROZEN: Rows = [
    *each(lambda name: setattr(TINY, name, None), "{}", "requests", "memory_limit", "metadata"),
    *each(lambda name: setattr(ONE, name, 5), "{}", "arrival_time", "prompt_length", "id"),
    *each(lambda name: setattr(TIMED, name, None), "{}", "name", "batch_time"),
    (lambda: setattr(starts([0, 0]), "start_times", None), "start_times"),
]
READ_ONLY: Rows = [
    *each(lambda name: getattr(TINY, name).fill(9), "read-only", "arrival_times", "prompt_lengths"),
    (lambda: TIMED.prompt_lengths.fill(9), "read-only"),
]


@refused({InvalidValueError: VALUES, InvalidTypeError: TYPES})
def test_bad_problems_are_refused(error: type[Exception], call: Any, words: str) -> None:
    assert_refused(error, call, words)


@refused({AttributeError: FROZEN, ValueError: READ_ONLY})
def test_problems_cannot_be_changed(error: type[Exception], call: Any, words: str) -> None:
    assert_refused(error, call, words)
