"""Certificates of every kind of proof on every axis: drawn at random, and the table of tight ones.

The tight ones are stored: their prices were changed one by one as long as they proved more.
Numbers are drawn from `random.Random.random`, whose stream is the same in every version.
"""

from __future__ import annotations

import copy
import functools
import json
import operator
import random  # noqa: TID251  (its stream is the same in every version)
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from certificates_by_definition import (
    Document,
    digest_of,
    document_of,
    occurring_states,
    one_by_one,
    places,
    relaxed,
    rule_of,
    searched_optimum,
    total_latency_of,
)
from tiny_problems import InSeconds

from hindsight import CertificateError, check_certificate
from instances import MemoryRule, Workload
from online import AffineTime, TiledTime

Rows = list[tuple[int, int, int]]
Places = tuple[Any, ...]


class Axis(NamedTuple):
    """What the instances of a column of the table have in common."""

    arrivals: tuple[int, ...] = (0, 0, 1, 2)
    rule: MemoryRule = MemoryRule()
    replicas: int = 1
    is_weighted: bool = False


PLAIN = {
    "machine": Axis(),
    "late": Axis(arrivals=(3, 5, 9)),
    "blocks": Axis(rule=MemoryRule(block_size=2)),
    "late blocks": Axis((1, 4, 6), MemoryRule(3, "next")),
    "fleet": Axis(replicas=2),
    "late fleet of blocks": Axis((2, 3, 7), MemoryRule(block_size=2), 3),
}
WEIGHTED = {
    "weighted": Axis(is_weighted=True),
    "weighted late fleet of blocks": Axis((2, 3, 7), MemoryRule(2, "next"), 2, True),
}
PRICES = ("memory-prices", "state-prices", "preemptive-memory-prices", "preemptive-prices")
SEARCHES = ("state-search", "path-search")
SECONDS = ("round-length-prices", "machine-bounds")
CLOCKS = ("affine", "tiled", "late blocks", "fleet")
TIMES = {"affine": AffineTime(0.5, 0.125, 0.0625), "tiled": TiledTime((1, 2, 4), (0.5, 1.0, 1.25))}
"""The table is above a line and above a constant."""

AXES = {
    **{(kind, axis): PLAIN[axis] for kind in (*PRICES, *SEARCHES) for axis in PLAIN},
    **{("memory-prices", axis): WEIGHTED[axis] for axis in WEIGHTED},
}
IN_ROUNDS = [", ".join(names) for names in AXES]
IN_SECONDS = [f"{kind}, {clock}" for kind in SECONDS for clock in CLOCKS]
NAMES = [*IN_ROUNDS, *IN_SECONDS]


def generator(seed: object) -> random.Random:
    return random.Random(str(seed))


def number(rng: random.Random, least: int, most: int) -> int:
    return least + int(rng.random() * (most - least + 1))


def numbers(rng: random.Random, count: int, least: int, most: int) -> list[int]:
    return [number(rng, least, most) for _ in range(count)]


def some(rng: random.Random, values: Sequence[Any]) -> list[Any]:
    """A part of them, in any order."""
    return sorted((v for v in values if rng.random() < 0.6), key=lambda _: rng.random())


# Documents in rounds.


def drawn(name: str, seed: int) -> Document:
    """Any certificate of this kind and axis, whose claim is 0; searches end below the optimum."""
    kind, axis = name.split(", ")[0], AXES[tuple(name.split(", "))]
    rng = random.Random(f"{name} {seed}")
    unstored, size = int(axis.rule.emitted_token == "next"), axis.rule.block_size
    limit = number(rng, 4, 8)
    room = limit // size * size
    rows: Rows = []
    for _ in range(number(rng, 2, 4)):
        prompt = number(rng, unstored, min(3, room - 1))
        output = number(rng, 1, min(4, room - prompt + unstored))
        rows.append((axis.arrivals[number(rng, 0, len(axis.arrivals) - 1)], prompt, output))
    other: dict[str, Any] = {}
    if axis.is_weighted:
        other["weights"] = [2, *numbers(rng, len(rows) - 1, 1, 7)]
    if axis.replicas > 1:
        other["replicas"] = axis.replicas
    document = document_of(rows, limit, one_by_one(rows), {"kind": kind}, rule=axis.rule, **other)
    if "stretches" in document:  # the last one stops for a round
        own = max(document["stretches"])
        (first, last), *_ = own
        own[:] = [[first, first], [first + 2, last + 1]] if last > first else [[last + 1] * 2]
        document["upper_bound"] += 1
    document["proof"] = drawn_proof(rng, kind, document)
    return document


def drawn_proof(rng: random.Random, kind: str, document: Document) -> Document:
    rows, limit, _ = relaxed(document["instance"])
    scale, epochs = number(rng, 1, 24), number(rng, 0, 8)
    proof: Document = {"kind": kind, "scale": scale}
    if kind.endswith("memory-prices"):
        return {**proof, "prices": numbers(rng, epochs, 0, scale)}
    if kind == "preemptive-prices":
        tokens = sorted(some(rng, range(1, limit + 1)))
        prices = [numbers(rng, len(tokens), 0, 2 * scale) for _ in range(epochs)]
        return {**proof, "tokens": tokens, "prices": prices}
    states = some(rng, sorted(occurring_states(rows)))
    proof["states"] = [list(state) for state in states]
    proof["prices"] = [numbers(rng, len(states), 0, 2 * scale) for _ in range(epochs)]
    if kind == "state-prices":
        return proof
    within = searched_optimum({**document, "proof": proof}) - 1
    if kind == "state-search":
        return {**proof, "budget": within, "kept": 10**5}
    return {**proof, "limit": within, "stages": drawn_stages(rng, len(rows), scale)}


def drawn_stages(rng: random.Random, n: int, scale: int) -> list[Document]:
    """Everybody is followed and tracked, in any order and at any start prices."""
    followed: list[int] = []
    tracked: list[int] = []
    stages = []
    while not stages or len(tracked) < n or rng.random() < 0.3:
        start_prices = numbers(rng, len(followed), -2 * scale, 2 * scale)
        new = some(rng, [i for i in range(n) if i not in followed])
        more = some(rng, [i for i in (*followed, *new) if i not in tracked])
        stages.append({"start_prices": start_prices, "followed": new, "tracked": more})
        followed += new
        tracked += more
    return [*stages, {"start_prices": [0] * n, "followed": [], "tracked": []}]


# Documents in seconds.


def drawn_seconds(name: str, seed: int) -> Document:
    kind, clock = name.split(", ")
    rng = random.Random(f"{name} {seed}")
    n = number(rng, 1, 3)
    late = clock == "late blocks"
    workload = Workload(
        sorted(one / 8 for one in numbers(rng, n, 0, 24 * late)),
        numbers(rng, n, 1, 3),
        numbers(rng, n, 1, 2),
        memory_limit=number(rng, 6, 9),
        memory_rule=MemoryRule(2, "next") if late else MemoryRule(),
        replicas=2 if clock == "fleet" else 1,
    )
    time = TIMES["tiled" if clock == "tiled" else "affine"]
    rows = (workload.arrival_times, workload.prompt_lengths, workload.output_lengths)
    part = {
        "memory_limit": workload.memory_limit,
        "requests": [list(row) for row in zip(*(one.tolist() for one in rows), strict=True)],
        "digest": workload.digest,
    }
    if late:
        part["memory_rule"] = {"block_size": 2, "emitted_token": "next"}
    if clock == "fleet":
        part["replicas"] = 2
    stored: Any = {"tokens": [1, 2, 4], "seconds": [0.5, 1.0, 1.25]}
    document = {
        "format": "llm-hindsight/certificate",
        "version": 1,
        "instance": part,
        "batch_time": stored if clock == "tiled" else [time.d0, time.d1, time.d2],
        "lower_bound": 0,
        "proof": {"kind": kind},
    }
    if kind == "round-length-prices":
        step = 2.0 ** -number(rng, 3, 6)
        cell = step * 2 ** number(rng, 1, 4)
        cells = int((2 + 6 * rng.random()) / cell) + 1
        firsts = numbers(rng, n, 0, cells)
        document["proof"] |= {
            "scale": 64,
            "minorant": number(rng, 0, 1) if clock == "tiled" else 0,
            "cell": cell,
            "prices": numbers(rng, cells, 0, int(64 * n * (0.3 + rng.random()))),
            "gammas": numbers(rng, cells, 0, 1000),
            "step": step,
            "block": (1, 2, 16)[number(rng, 0, 2)],
            "allowances": numbers(rng, n, 0, int(12 / cell) + 2),
            "attendances": numbers(rng, cells, 0, 1000),
            "firsts": firsts,
            "levels": [numbers(rng, number(rng, 0, cells - k), 0, 9) for k in firsts],
        }
    return document


def workload_of(document: Document) -> Workload:
    part = document["instance"]
    columns = zip(*part["requests"], strict=True)
    replicas = part.get("replicas", 1)
    limit, rule = part["memory_limit"], rule_of(part)
    return Workload(*columns, memory_limit=limit, memory_rule=rule, replicas=replicas)


def seconds_optimum(document: Document) -> Fraction | None:
    """The least total seconds where requests keep their tokens; None where it takes too long."""
    return _seconds_optimum(json.dumps([document["instance"], document["batch_time"]]))


@functools.cache
def _seconds_optimum(given: str) -> Fraction | None:
    """A table that falls is replaced by a shorter one: the enumeration takes no other."""
    part, stored = json.loads(given)
    time: Any = AffineTime(*stored) if isinstance(stored, list) else None
    if time is None:
        least = np.minimum.accumulate(np.array(stored["seconds"])[::-1])[::-1]
        time = TiledTime(tuple(stored["tokens"]), tuple(least.tolist()))

    return InSeconds.of(workload_of({"instance": part}), time).least_total_latency(1_000)


# The table.


def proved(document: Document) -> float:
    """What the proof of a document proves, as the refusal of a claim far above it says."""
    try:
        check_certificate({**document, "lower_bound": 2**53})
    except CertificateError as error:
        found = re.search(r"proves no more than ([^ ]+)", str(error))
        if found is None:
            raise
        return float(found[1]) if "batch_time" in document else int(found[1])
    raise AssertionError("that is proved")


def prices_of(document: Document) -> list[Places]:
    """Where the prices of a proof are."""
    found = [path for path in places(document) if path[:2] == ("proof", "prices")]
    return [path for path in found if type(part_of(document, path)) is int]


def tight(name: str) -> Document:
    """The stored certificate of that name, which claims all that its proof proves."""
    return copy.deepcopy(TIGHT[name])


# Changed documents.


def part_of(document: Document, path: Sequence[Any]) -> Any:
    return functools.reduce(operator.getitem, path, document)


def changed(document: Any, path: Sequence[Any], value: Any) -> Any:
    """The document with another value at a place; the rest is shared."""
    key, *rest = path
    forged = copy.copy(document)
    forged[key] = changed(document[key], rest, value) if rest else value
    return forged


def mutants(document: Document) -> Iterator[tuple[Places, Document]]:
    """The document with one number changed, or one entry of a list left out or repeated."""
    for path in places(document):
        value = part_of(document, path)
        others: list[Any] = []
        if type(value) is int:
            others = [value - 1, value + 1, 2 * value, 0, value + 7]
        elif type(value) is float:
            others = [value - 1, value + 1, 2 * value, value / 2, 0.0, value * (1 + 1e-6)]
        yield from ((path, changed(document, path, other)) for other in others if other != value)
        if isinstance(path[-1], int):
            *before, k = path
            own = part_of(document, before)
            for copies in ([], [value, value]):
                yield path, changed(document, before, [*own[:k], *copies, *own[k + 1 :]])


def consistent(document: Document) -> Document:
    """The document with the digest and the upper bound that it should have."""
    in_seconds = "batch_time" in document
    digest = workload_of(document).digest if in_seconds else digest_of(document["instance"])
    forged: Document = changed(document, ("instance", "digest"), digest)
    return forged if in_seconds else {**forged, "upper_bound": total_latency_of(forged)}


def enlarged(document: Document, how: str, factor: int) -> Document:
    """The document with prices, their scale or both as large."""
    forged = copy.deepcopy(document)
    proof = forged["proof"]
    if how != "prices":
        proof["scale"] *= factor
    if how != "scale":
        prices = proof["prices"]
        lists = [prices, *(one for one in prices if isinstance(one, list))]
        for own in [*lists, *(stage["start_prices"] for stage in proof.get("stages", ()))]:
            own[:] = [one if isinstance(one, list) else factor * one for one in own]
    return forged


FILE = Path(__file__).parents[1] / "data" / "certificates.json"

TIGHT, LEAST_LIMITS = json.loads(FILE.read_text("utf-8")).values()
