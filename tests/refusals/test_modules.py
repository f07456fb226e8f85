"""What the modules beside the three packages refuse: sources, fits, comparisons, experiments."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doors import NO_INTEGERS, NO_NUMBERS, Door, assert_no_number, assert_same_number
from refusals import Rows, assert_refused, each, every, refused
from scripted import Scripted, start_all

from instances import (
    FileFormatError,
    Instance,
    InvalidTypeError,
    InvalidValueError,
    MemoryRule,
    UnknownNameError,
    Workload,
)
from instances.batch_time import preset
from instances.generators import poisson_arrivals, register_generator
from instances.problem.arrival_source import Arrival
from online import AffineTime, simulate, sweep
from online.batch_time import Measurements, fit_affine_time
from online.headroom import Question, measure_headroom
from online.policy_interface.specs import PolicySpec
from online.simulation import summarize
from online.testing import check_policy
from online.worst_cases.drafts import Space
from online.worst_cases.search import search

SMALL = Instance.from_arrays([2, 1], [1, 2], memory_limit=10)
RULE = {"memory_limit": 8, "memory_rule": MemoryRule(4, "next")}
TWO = Workload([0.0, 0.5], [2, 1], [1, 2], memory_limit=10, batch_time=AffineTime(1.0, 0.5))
WORK = Workload([0.0, 2.5], [1, 1], [10, 1], memory_limit=50)
LATE, BAD = Arrival(4, 1, 1), Arrival(2, 1, 1, "bad")


class Source:
    """An arrival source that hands over what it is given and checks nothing."""

    name, adaptive, memory_limit = None, True, 12

    def __init__(self, *batches: list[Arrival], **attributes: Any) -> None:
        self.batches = batches
        vars(self).update(attributes)

    def reset(self, rng: np.random.Generator) -> None:
        self.left = list(self.batches)

    def next_arrival(self) -> float | None:
        return self.left[0][0].time if self.left else None

    def release(self, now: float) -> list[Arrival]:
        return self.left.pop(0) if self.left and self.left[0][0].time <= now else []

    def observe(self, observation: object) -> None: ...


def released(*batches: list[Arrival], **attributes: Any) -> Callable[[], Any]:
    return lambda: simulate(Source(*batches, **attributes), Scripted(start_all))


def arrivals(types: Any, horizon: float = 1) -> Any:
    return poisson_arrivals(types, horizon, memory_limit=9, rng=np.random.default_rng(0))


def headroom(policy: str = "fcfs", **options: Any) -> Callable[[], Any]:
    return lambda: Question(TWO, policy, **options)


def summed(slos: Any) -> Any:
    return summarize(simulate(SMALL, "fcfs"), slos)


VALUES: Rows = [
    # Sources of arrivals.
    (released([Arrival(0, 2, 3, "x"), Arrival(0, 9, 9, "whale")]), "whale.*18"),
    *every("length", released([Arrival(0, -1, 3)]), released([Arrival(0, 2, 0)])),
    (released([Arrival(3, 1, 1), Arrival(2, 1, 1, "bad")]), "'bad': .* time = 2 is out of order"),
    (released([Arrival(3, 1, 1), Arrival(4, 1, 1, "bad")]), "'bad': .* time = 4 is out of order"),
    (released([Arrival(3, 1, 4)], [LATE, BAD]), "'bad': .* time = 2 is out of order"),
    (released([Arrival(0, 5, 5)], **RULE), "10 exceeds memory_limit = 8 with block_size 4"),
    (partial(arrivals, []), "types"),
    (partial(arrivals, [(0, 1, 1)]), "arrival_rate"),
    (partial(arrivals, [(1, 0, 1)]), "prompt_length"),
    (partial(arrivals, [(1, 1, 1)], float("nan")), "horizon"),
    # Fits, and tests of policies.
    (lambda: fit_affine_time(Measurements(*[np.ones(2)] * 3)), "fewer than 3"),
    (lambda: check_policy("fcfs", 0), "instances = 0"),
    (lambda: check_policy(["fcfs", "mc-sf"]), "is not one policy"),
    # Comparisons, headroom, reports.
    (lambda: sweep([SMALL], PolicySpec("mc-sf", {"alpha": 1})), "alpha"),
    (lambda: sweep([SMALL], ["mc-sf"], jobs=0), "jobs = 0"),
    (lambda: sweep([SMALL, WORK], "vllm"), "batch_time = None is not"),
    (lambda: measure_headroom(Question(TWO), 0), "time_limit"),
    (lambda: measure_headroom(Question(TWO), jobs=0), "jobs"),
    (headroom(error=-1), "error"),
    (headroom(seed=-1), "seed"),
    *each(summed, "slos", {"latency": 1.0}, {"ttft": -1}),
]
TYPES: Rows = [
    (lambda: simulate(Source(batch_time=0.5), "fcfs"), "batch_time = 0.5 is not a batch time"),
    (
        lambda: simulate(Source(replicas=2), "mc-sf", router="random"),
        "what answers a policy has one replica",
    ),
    (released([Arrival(0, 1.5, 2)]), "length"),
    (partial(arrivals, [("1", 1, 1)]), "arrival_rate"),
    (partial(arrivals, [(1, 1, 1.5)]), "output_length"),
    (lambda: TWO.with_batch_time(preset("llama-2-70b-2xa100")), r"preset\(name\)\.batch_time"),
    *each(summed, "slos", {"ttft": "1"}),
]
UNKNOWN: Rows = [
    (lambda: preset("h100"), "llama-2-70b-2xa100"),
    (headroom("no-such"), "no-such"),
]
TWICE: Rows = [(lambda: register_generator("uniform")(lambda rng: None), "registered twice")]
TABLE = {InvalidValueError: VALUES, InvalidTypeError: TYPES, UnknownNameError: UNKNOWN}


@refused({**TABLE, ValueError: TWICE})
def test_bad_arguments_are_refused(error: type[Exception], call: Any, words: str) -> None:
    assert_refused(error, call, words)


@pytest.mark.parametrize(
    ("rounds", "words"),
    [
        ("tokens,seconds\n1,1\n", "kv_tokens"),
        ("tokens,kv_tokens,seconds\n1,2,0\n", "row 2"),
        ("tokens,kv_tokens,seconds\n1.5,2,1\n", "1.5"),
        ("tokens,kv_tokens,seconds\n1,2\n", "row 2"),
        ("tokens,kv_tokens,seconds\n", "no measurements"),
    ],
)
def test_bad_rounds_are_refused(tmp_path: Path, rounds: str, words: str) -> None:
    path = tmp_path / "rounds.csv"
    path.write_text(rounds, encoding="utf-8")
    assert str(path) in assert_refused(FileFormatError, fit_affine_time, words, path)


REALS: dict[str, Door] = {
    "sweep": lambda x: len(sweep([SMALL], ["mc-sf"], time_limit=x)),
    "typed-rate": lambda x: arrivals([(x, 1, 1)]).arrival_times.tolist(),
    "typed-horizon": lambda x: arrivals([(40, 1, 1)], x).arrival_times.tolist(),
    "slos": lambda x: summed({"ttft": x}),
}
INTEGERS: dict[str, Door] = {
    "sweep-seed": lambda x: sweep([SMALL], ["mc-sf"], seeds=[x])[0].seed,
    "space": lambda x: Space(x, 9, x),
}


@pytest.mark.parametrize("name", REALS)
def test_a_number_is_checked_and_the_same_in_every_type(name: str) -> None:
    for value in NO_NUMBERS:
        assert_no_number(REALS[name], value)
    assert_same_number(REALS[name], 0.5, np.float64, np.float32, Fraction)


@pytest.mark.parametrize("name", INTEGERS)
def test_a_whole_number_is_checked_and_the_same_in_every_type(name: str) -> None:
    for value in NO_INTEGERS:
        assert_no_number(INTEGERS[name], value)
    assert_same_number(INTEGERS[name], 2, np.int64, np.int8, np.uint16)


def test_a_search_for_worst_cases_takes_seconds() -> None:
    for value in NO_NUMBERS:
        assert_no_number(lambda x: search("fcfs", Space(1, 2), evaluations=1, seconds=x), value)
