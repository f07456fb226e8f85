"""Generators, batch times, the library and traces: arguments that are refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from refusals import Rows, assert_refused, each, refused

import instances
from instances import (
    FileFormatError,
    InvalidTypeError,
    InvalidValueError,
    UnknownNameError,
    generate,
    read_trace,
    read_workload,
    trace_windows,
)
from instances.batch_time import preset
from instances.generators import poisson_arrivals, register_generator
from online import IterationTime, TiledTime

NAMED = {"arrival": "created_at", "prompt": "in", "output": "out"}
NAN, INFINITE = float("nan"), float("inf")
GENERATORS: dict[str, dict[str, list[Any]]] = {
    "arrival-model-1": {"n": [0], "memory_limit": [5]},
    "arrival-model-2": {"n": [0], "memory_limit": [5]},
    "uniform": {"n": [0], "memory_limit": [99], "maximum_length": [1]},
    "exponential": {"scale": [-1.0, INFINITE, 10**400]},
    "mixed": {"n": [0], "long_share": [0], "short_scale": [0], "long_median": [0]}
    | {"long_sigma": [0], "remap_lower": [50], "output_scale": [0]},
    "geometric": {"q": [0, 1], "upper": [0]},
    "linearly-weighted-geometric": {"prompt_length": [-1]},
    "lmsys-like": {
        "n": [0],
        "arrival_rate": [0, 1e-300],
        "token_scale": [0],
        "memory_limit": [1350],
    },
    "mixed-long-short": {"long_share": [0, 1, NAN], "memory_limit": [8189]},
    "mc-sf-trap": {"memory_limit": [3], "sizes": ["steeper"]},
    "three-partition": {"groups": [0], "target": [7, 8]},
    "fcfs-cascade": {"example": ["three-types"], "arrivals": ["bursty"]}
    | {"convention": ["other"], "rounds": [0]},
    "sqrt-n-adversary": {"memory_limit": [3]},
}
"""Values out of range of each parameter of each generator."""
TYPED_GENERATORS: dict[str, dict[str, list[Any]]] = {
    "arrival-model-1": {"n": [2.0, NAN, True, "3"]},
    "mc-sf-trap": {"memory_limit": [16.0]},
}


def generators(table: dict[str, dict[str, list[Any]]]) -> Rows:
    return [
        (partial(generate, name, **{field: value}), f"^{field} = ")
        for name, fields in table.items()
        for field, values in fields.items()
        for value in values
    ]


def drawn(**parameters: Any) -> Any:
    return generate("arrival-model-1", **parameters)


PROCESSES: list[Any] = [
    *((([],), "types"), (([(0, 1, 1)],), "arrival_rate"), (([(1, 0, 1)],), "prompt_length")),
    (([(1, 1, 1)], NAN), "horizon"),
]
TABLES: list[Any] = [
    *(([0, 1], [1]), ([0, 1], [2, 1]), ([0, 1], [0, 1]), ([4, 8], [1.0], 4)),
    *(([8, 4], [1.0, 2.0], 4), ([0, 4], [1.0, 2.0], 4), ([4, 8], [1.0, 2.0], 0)),
]


def arrivals(types: Any, horizon: float = 1) -> Any:
    return poisson_arrivals(types, horizon, memory_limit=9, rng=np.random.default_rng(0))


def table(tokens: list[float], seconds: list[float], *tile: int) -> Any:
    return TiledTime(tokens, seconds, *tile)


def trace(**options: Any) -> Any:
    """Read a trace that is not there."""
    return read_trace("absent.csv", **{"memory_limit": 100, **options})


def columned(columns: Any) -> Any:
    return trace(columns=columns)


VALUES: Rows = [
    (lambda: read_workload("x", memory_limit=9, token_scale=2), "token_scale = 2 is not for"),
    (lambda: trace(batch_time=IterationTime(1)), "batch_time = .* is not for windows in rounds"),
    *generators(GENERATORS),
    (lambda: generate("fcfs-cascade", imbalanced=True, example="two-types"), "^imbalanced = "),
    (lambda: generate("fcfs-cascade", 34, rounds=1), "gives no request"),
    (lambda: drawn(memory=10), "arrival-model-1.*memory = 10 .*n, memory_limit"),
    # Batch times.
    (lambda: IterationTime(0), "iteration time"),
    *[(partial(table, *bad), "batch time") for bad in TABLES],
    (lambda: table([4, 8], [2.0, 1.0], 4), "batch time"),
    (lambda: table([4, 8], [0.0, 1.0], 4), "batch time"),
    *[(partial(arrivals, *bad), field) for bad, field in PROCESSES],
    # The library.
    (lambda: instances.library()["j25-m1"], r"is a set: .*matching\('j25-m1'\)"),
    # Traces, before the file is opened.
    *each(lambda count: trace_windows("x", memory_limit=9, windows=count), "windows", 0, 2),
    *each(lambda limit: trace(memory_limit=limit), "memory_limit", 0),
    *each(lambda length: trace(round_seconds=length), "round_seconds", 0),
    *each(lambda way: trace(too_long=way), "too_long", "cut"),
    *each(
        lambda way: trace(bad_rows=way),
        "bad_rows = .* is not one of refuse, skip",
        "no",
        None,
        True,
    ),
    *each(columned, "which column holds outputs", {"prompt": "in"}),
    *each(columned, "two columns of arrival", {**NAMED, "arrival_ms": "x"}),
    *each(
        columned,
        "which column holds arrivals",
        {"prompt": "in", "output": "out", "end": "e"},
    ),
    (lambda: trace_windows("x", memory_limit=9, windows=2), "more than one: give duration_seconds"),
    (lambda: trace(format="vidur", columns=NAMED), "format.*columns"),
]
TYPES: Rows = [
    *each(arrivals, "arrival_rate|output_length", [("1", 1, 1)], [(1, 1, 1.5)]),
    *generators(TYPED_GENERATORS),
    (lambda: IterationTime("1"), "iteration time"),
    (lambda: instances.library()[0], "name = 0 is not a string"),
    (lambda: instances.library().matching(["j25-m1"]), r"pattern = \['j25-m1'\] is not a string"),
    (lambda: trace_windows("x", memory_limit=9, windows=1.0), "windows"),
    *each(lambda one: read_workload("x", memory_limit=9, batch_time=one), "batch_time", "h100", 5),
    *each(columned, "not a mapping", "in"),
    *each(columned, "is not the name of a column", {"prompt": 1}, {"worker": 1}),
]
KEYWORDS: Rows = [
    (lambda: trace(limit=3), "limit"),
    (lambda: trace_windows("x", windows=2), "memory_limit"),
]
TWICE: Rows = [(lambda: register_generator("uniform")(lambda rng: None), "registered twice")]
UNKNOWN: Rows = [
    (lambda: preset("h100"), "llama-2-70b-2xa100"),
    *each(lambda name: trace(format=name), r"did you mean 'azure'\? Known: aiperf", "Azure"),
    (lambda: trace(format=3), "unknown trace format 3"),
    *each(columned, "mean 'prompt'.* Known: arrival, .*output", {"prompts": "in"}),
    *each(generate, "unknown generator {}", "arrival-model-3"),
    (lambda: instances.library()["j25-m1-n50-99"], "did you mean 'j25-m1-n50-04'"),
    (lambda: instances.library().matching("j25-m1", "nothing-*"), "nothing-"),
]
ENDLESS: Rows = [
    (lambda: read_trace("/dev/zero", memory_limit=9), "is longer than 16777216 char"),
]
MISSING: Rows = [(trace, "absent.csv")]
TABLE = {InvalidValueError: VALUES, InvalidTypeError: TYPES, UnknownNameError: UNKNOWN}
FILES = {FileFormatError: ENDLESS, FileNotFoundError: MISSING}


@refused({**TABLE, **FILES, TypeError: KEYWORDS, ValueError: TWICE})
def test_bad_arguments_are_refused(error: type[Exception], call: Any, words: str) -> None:
    assert_refused(error, call, words)
