"""Certificates that are to hurt whoever checks them: what is no certificate is told from what does
not hold, in a line, and neither memory nor time grows with the numbers in a file."""

from __future__ import annotations

import copy
import functools
import gzip
import json
import lzma
import operator
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates_by_definition import (
    Document,
    Rows,
    bound_by_definition,
    document_of,
    instance_of,
    occurring_states,
    one_by_one,
    places,
)

from hindsight import CertificateError, check_certificate, read_certificate
from hindsight.certificates import format as certificate_format
from hindsight.certificates import limits, replay
from hindsight.certificates.checking import proved_bound
from hindsight.certificates.format import (
    LIMIT,
    CertificateTooLargeError,
    MalformedCertificateError,
)
from hindsight.certificates.writing import make_certificate
from hindsight.configurations.proofs import StatePrices
from instances import FileFormatError, Instance, MemoryRule, Schedule
from instances.validation import LARGEST_INTEGER, LARGEST_TOKEN_COUNT

NOTHING: dict[str, Any] = {"kind": "memory-prices", "scale": 1, "prices": []}
ROWS = [(0, 1, 2), (1, 2, 2), (1, 0, 1)]
STATES: dict[str, Any] = {
    "kind": "state-prices",
    "scale": 4,
    "states": [[1, 2], [2, 1]],
    "prices": [[1, 0], [0, 2]],
}
PROOFS: dict[str, dict[str, Any]] = {
    "memory-prices": {"kind": "memory-prices", "scale": 4, "prices": [1, 2]},
    "state-prices": STATES,
    "state-search": {**STATES, "kind": "state-search", "budget": 5, "kept": 50},
    "path-search": {
        **STATES,
        "kind": "path-search",
        "limit": 5,
        "stages": [
            {"start_prices": [], "followed": [0, 2], "tracked": [2]},
            {"start_prices": [1, 0], "followed": [1], "tracked": [0, 1]},
        ],
    },
    "window-tree": {
        "kind": "window-tree",
        "scale": 4,
        "tables": [[[1, 2, 1], [2, 1, 2]]],
        "prices": [[[0, 0, 1]], [[0, 1, 2]]],
        "tree": [[0, 1], 0, 1],
    },
    "branched-memory-prices": {
        "kind": "branched-memory-prices",
        "scale": 1,
        "nodes": [[0, 1], {"scale": 4, "prices": [1]}, {"scale": 3, "prices": []}],
    },
    "preemptive-memory-prices": {"kind": "preemptive-memory-prices", "scale": 4, "prices": [1, 2]},
    "preemptive-prices": {
        "kind": "preemptive-prices",
        "scale": 4,
        "tokens": [2, 3],
        "prices": [[1, 0], [0, 2]],
    },
}
"""A small one of every kind; all are good for a bound of 1."""


MEMORY, STATE, TREE, ROUNDS = "memory-prices", "state-prices", "window-tree", "preemptive-prices"
LATE, FOR_ALL = "late memory-prices", "preemptive-memory-prices"


def small(kind: str, *path: str) -> Document:
    """A certificate of that kind, or a part of one."""
    document = document_of(ROWS, 4, one_by_one(ROWS), copy.deepcopy(PROOFS[kind]), 1)
    return part_of(document, path)


def part_of(document: Document, path: Sequence[Any]) -> Any:
    return functools.reduce(operator.getitem, path, document)


def tree_of(tables: list[Any], prices: list[Any], nodes: list[Any]) -> dict[str, Any]:
    return {"kind": TREE, "scale": 1, "tables": tables, "prices": prices, "tree": nodes}


# Memory. What the checker allocated before it followed the file is given with each.


def long_output() -> Document:
    """Rounds were the keys of a dictionary: 100 MB, and 4 GB for an output of 4 * 10^7."""
    return document_of([(0, 1, 10**6)], LARGEST_TOKEN_COUNT, [0], NOTHING, 10**6)


def long_output_in_blocks() -> Document:
    """Blocks were such keys: 40 MB, and 40 bytes for each token of an output."""
    document = long_output()
    part = document["instance"]
    part["memory_rule"] = {"block_size": 2}
    rows, limit = part["requests"], part["memory_limit"]
    part["digest"] = instance_of(rows, limit, MemoryRule(2)).digest
    return document


def late_arrival() -> Document:
    """A list with an entry for every round before the last arrival: MemoryError."""
    rows = [(0, 1, 1), (LARGEST_INTEGER, 1, 1)]
    proof = {**STATES, "kind": "state-search", "states": [], "prices": [], "budget": 1, "kept": 9}
    return document_of(rows, 4, [0, LARGEST_INTEGER], proof, 2)


def late_epochs() -> Document:
    """An array up to the last priced epoch for each set of prices: 1 GB."""
    rows = [(0, 1, 1), (0, 1, 2)]
    sets = [[[0, 9_999_999 - p, 1], [0, 0, 1]] for p in range(3)]
    return document_of(rows, 4, [0, 1], tree_of([[[1, 1, 1]]], sets, [[0, 0], 0, [0, 1], 1, 2]))


def many_tables() -> Document:
    """(M + 1)^2 weights for every table: 140 MB."""
    return document_of([(0, 1, 1)], 300, [0], tree_of([[]] * 200, [[]], [0]))


def many_shapes() -> Document:
    """A cost for every start and pair (s, o): 60 MB."""
    rows = [(0, s, o) for s in range(20) for o in range(1, 11)]
    proof = {**STATES, "states": [], "prices": [[]] * 4000}
    return document_of(rows, 30, one_by_one(rows), proof)


def many_shapes_of_a_search() -> Document:
    """And that as Python's integers for a search: 600 MB."""
    proof = {**many_shapes()["proof"], "kind": "state-search", "budget": 9, "kept": 9}
    document = many_shapes()
    document["instance"]["requests"] = document["instance"]["requests"][:40]
    rows = document["instance"]["requests"]
    return document_of(rows, 30, one_by_one(rows), proof, 10)


def many_starts_of_paths() -> Document:
    """A cost for every request and start: 300 MB, and 158 GB for a file of 11 kB."""
    rows = [(0, 1, 1)] * 4000
    proof = {**PROOFS["path-search"], "states": [], "prices": [[]] * 3000, "stages": []}
    return document_of(rows, 2, list(range(4000)), proof)


def long_paths() -> Document:
    """Some arrays for every epoch up to the limit: 90 MB for a file of 500 bytes."""
    stages = [{"start_prices": [], "followed": [], "tracked": []}]
    proof = {**PROOFS["path-search"], "stages": stages, "limit": limits.LONGEST_PATH + 100}
    # A schedule as long: none of less shows that there are paths.
    late = [t + limits.LONGEST_PATH for t in one_by_one(ROWS)]
    return document_of(ROWS, 4, late, proof)


def deep_tree() -> Document:
    """All windows of every part still to come: 50 MB."""
    rows = [(0, 1, 1)] * 2000
    splits = [[0, 3000 - t] for t in range(3000)]
    return document_of(rows, 2, list(range(2000)), tree_of([], [[]], splits))


def deep_branches() -> Document:
    """The same of memory prices, with a window for each of many requests."""
    rows = [(0, 1, 1)] * 2000
    nodes = [[i % 2000, 3000 - i] for i in range(3000)]
    proof = {"kind": "branched-memory-prices", "scale": 1, "nodes": nodes}
    return document_of(rows, 2, list(range(2000)), proof)


def all_states() -> Document:
    """Every state that occurs, as a tuple: 30 MB."""
    rows = [(0, 0, o) for o in range(1, 500)]
    return document_of(rows, 500, one_by_one(rows), tree_of([], [[]], [0]), 500 * 499 // 2)


ROUND_PRICES: dict[str, Any] = {"kind": "preemptive-prices", "scale": 1, "tokens": [], "prices": []}


def much_memory() -> Document:
    """A knapsack over 2^31 tokens: 16 GB for a file of 300 bytes."""
    return document_of([(0, 1, 1)], LARGEST_TOKEN_COUNT, [0], ROUND_PRICES, 1)


def long_stretches() -> Document:
    """A step of the dynamic program for each token of 10^6, before any price."""
    proof = {**PROOFS["preemptive-memory-prices"], "prices": [1]}
    return document_of([(0, 1, 10**6)], LARGEST_TOKEN_COUNT, [0], {**proof, "scale": 10**6}, 0)


def many_paths() -> Document:
    """Costs to go for every length and round at once: 60 MB."""
    rows = [(0, s, o) for s in range(20) for o in range(1, 11)]
    proof = {**ROUND_PRICES, "prices": [[]] * 4000}
    return document_of(rows, 30, one_by_one(rows), proof)


@pytest.mark.parametrize(
    ("build", "outcome"),
    [
        (long_output, None),
        (long_output_in_blocks, None),
        (late_arrival, None),
        (late_epochs, None),
        (many_tables, None),
        (many_shapes, None),
        (many_shapes_of_a_search, None),
        (many_starts_of_paths, "too many for a search"),
        (long_paths, "too many epochs"),
        (deep_tree, "3001 parts are not covered"),
        (deep_branches, "does not end"),
        (all_states, None),
        (much_memory, "not priced for memory_limit"),
        (long_stretches, None),
        (many_paths, None),
    ],
)
def test_memory_follows_the_file(build: Callable[[], Document], outcome: str | None) -> None:
    document = build()
    size = len(json.dumps(document))
    tracemalloc.start()
    try:
        if outcome is None:
            check_certificate(document)
        else:
            with pytest.raises(CertificateError, match=outcome):
                check_certificate(document)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Some arrays of (M + 1)^2 and, for a search, of requests and epochs.
    M, kind = document["instance"]["memory_limit"], document["proof"]["kind"]
    arrays = 0 if kind.endswith("memory-prices") or M > 10**6 else 40 * (M + 1) ** 2
    if kind == "state-search":
        arrays += 24 * len(document["start_times"]) * len(document["proof"]["prices"])
    assert peak < arrays + 60 * size + 100_000


def test_idle_epochs_of_a_search_are_passed_at_once() -> None:
    """The second pair arrives when nothing has run for very long; one more would not do."""
    late = LARGEST_INTEGER - 5
    rows = [(0, 1, 2), (0, 1, 2), (late, 1, 2), (late, 1, 2)]
    starts = [0, 2, late, late + 2]
    proof = {**STATES, "kind": "state-search", "states": [], "prices": [], "budget": 11}
    document = document_of(rows, 3, starts, {**proof, "kept": 20}, 12)
    assert check_certificate(document).is_optimal
    document["proof"]["budget"] = 12
    with pytest.raises(CertificateError, match="a schedule within"):
        check_certificate(document)


def test_prices_of_idle_epochs_are_not_lost() -> None:
    """What is priced while nothing runs is part of what the bound takes off: W must come back."""
    rows = [(0, 1, 1), (9, 1, 2), (9, 2, 2)]
    for tau in range(12):
        prices = [[0, 0]] * tau + [[1, 1]]
        proof = {**STATES, "kind": "state-search", "prices": prices, "budget": 6, "kept": 99}
        document = document_of(rows, 4, [0, 9, 11], proof, 7)
        assert check_certificate(document).is_optimal
        document["proof"]["budget"] = 7
        with pytest.raises(CertificateError, match="a schedule within"):
            check_certificate(document)


# Time.


@pytest.mark.parametrize("kind", PROOFS)
def test_work_is_counted_and_limited(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_certificate(small(kind))
    monkeypatch.setattr(limits, "LARGEST_WORK", 10)
    with pytest.raises(CertificateTooLargeError, match="takes more than this checker does"):
        check_certificate(small(kind))


@pytest.mark.parametrize("limit", ["LARGEST_SEARCH", "LARGEST_LAYER"])
def test_a_search_is_given_up(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, limit, 10)
    with pytest.raises(CertificateTooLargeError, match="search takes more"):
        check_certificate(small("state-search"))


def test_a_search_ends_as_soon_as_too_much_is_left() -> None:
    """60 requests fit at once: 2^60 sets of them may start in the first epoch."""
    rows = [(0, 1, 1 + i % 9) for i in range(60)]
    proof = {**STATES, "kind": "state-search", "states": [], "prices": [], "kept": 1000}
    document = document_of(rows, 60, one_by_one(rows), {**proof, "budget": 900}, 901)
    with pytest.raises(CertificateError, match="needs more than 1000 states"):
        check_certificate(document)


def test_a_proof_beyond_the_checker_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = Instance.from_arrays([1, 2], [2, 2], memory_limit=5)
    prices = StatePrices(np.zeros((2, 6, 6), dtype=np.int64))
    monkeypatch.setattr(limits, "LARGEST_TABLE_MEMORY", 4)
    document = make_certificate(Schedule(instance, [0, 2]), prices, tree=False)
    assert document["proof"]["kind"] == "memory-prices"
    monkeypatch.setattr(limits, "LARGEST_EPOCH", 0)
    document = make_certificate(Schedule(instance, [0, 2]), prices, tree=False)
    assert document["proof"] == NOTHING
    assert check_certificate(document).lower_bound == 4


# Numbers: exact in 64 bits, or refused.


def proof_of_size(kind: str, size: int, epochs: int, rows: Rows) -> dict[str, Any]:
    """Prices of this size at every epoch; "scale" is a denominator of this size, and no prices."""
    states = [list(state) for state in sorted(occurring_states(rows))[-3:]]
    prices: dict[str, dict[str, Any]] = {
        MEMORY: {"prices": [size] * epochs},
        LATE: {"kind": MEMORY, "prices": [0] * (epochs - 1) + [size]},
        STATE: {"states": states, "prices": [[size] * len(states)] * epochs},
        "scale": {"kind": STATE, "scale": size, "states": [], "prices": [[]] * epochs},
        "weights": {
            "tables": [[[0, 1, size], [1, 1, size]]],
            "prices": [[[0, epochs, 2]]],
            "tree": [0],
        },
        TREE: {
            "tables": [[[0, 1, 1], [1, 1, 3]]],
            "prices": [[[0, tau, size] for tau in range(epochs)]],
            "tree": [0],
        },
        FOR_ALL: {"prices": [size] * epochs},
        ROUNDS: {"tokens": [1, 3], "prices": [[size, size]] * epochs},
    }
    first = {"kind": TREE if kind == "weights" else kind, "scale": 3}
    return first | prices[kind]


@pytest.mark.parametrize("epochs", [1, 2, 12])
@pytest.mark.parametrize("kind", [MEMORY, STATE, TREE, ROUNDS, LATE, "weights", "scale", FOR_ALL])
def test_large_numbers_are_exact_or_refused(kind: str, epochs: int) -> None:
    shapes: list[tuple[list[tuple[int, int, int]], int]] = [
        ([(0, 0, 1)] * 8, 8),
        ([(0, 1, 1), (3, 1, 1)], 4),
        ([(0, 0, 1), (1, 1, 40)], 64),
        ([(0, 1, 1), (50, 0, 20)], 64),
    ]
    if kind.startswith("preemptive-"):  # by definition, all ways to choose o rounds are tried
        shapes = [([(0, 0, 1)] * 4, 4), ([(0, 1, 1), (3, 1, 1)], 4), ([(0, 1, 2), (2, 0, 3)], 5)]
    elif "memory" in kind:
        shapes.append(([(0, LARGEST_TOKEN_COUNT - 2, 1), (2, 1, 2)], LARGEST_TOKEN_COUNT))
    for rows, limit in shapes:
        refused = []
        for size in [2**k for k in range(24, 63)] + [3 * 2**k for k in range(40, 60, 3)]:
            proof = proof_of_size(kind, size, epochs, rows)
            document = document_of(rows, limit, one_by_one(rows), proof)
            try:
                assert proved_bound(document) == bound_by_definition(document)
            except CertificateTooLargeError:
                refused.append(size)
        assert 2**62 in refused
        assert 2**24 not in refused


def test_starts_up_to_the_last_price_count() -> None:
    """Few and small prices over many rounds: a late start costs more than int64 holds."""
    rows = [(0, 1, 1)]
    for scale, refused in ((2**51, False), (2**53, True)):
        proof = {"kind": "memory-prices", "scale": scale, "prices": [0] * 1023 + [1]}
        document = document_of(rows, 2, one_by_one(rows), proof)
        if refused:
            with pytest.raises(CertificateTooLargeError):
                proved_bound(document)
        else:
            assert proved_bound(document) == bound_by_definition(document)


def test_no_sum_reaches_the_limit() -> None:
    """A price y and a start at epoch 1 of a request of output 1: 2 scale + y."""
    rows = [(0, 1, 1)]
    proof = {**STATES, "scale": LIMIT // 2 - 1, "states": [[1, 1]], "prices": [[1]]}
    document = document_of(rows, 2, [0], proof)
    assert proved_bound(document) == 1
    proof["prices"] = [[2]]
    with pytest.raises(CertificateTooLargeError, match="too large"):
        proved_bound({**document, "proof": proof})
    # And M times a weight: 8 members may have it.
    rows = [(0, 0, 1)] * 8
    for weight, refused in ((LIMIT // 8 - 1, False), (LIMIT // 8, True)):
        proof = {**STATES, "scale": 1, "states": [[0, 1]], "prices": [[weight]]}
        document = document_of(rows, 8, [0] * 8, proof)
        if refused:
            with pytest.raises(CertificateTooLargeError, match="weight is too large"):
                proved_bound(document)
        else:
            assert proved_bound(document) == bound_by_definition(document)


def test_the_number_of_prices_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """3 requests; 2 states and one column of nothing at 2 epochs; 2 rounds; epochs 0 and 1."""
    for kind, name, most in (
        ("memory-prices", "LARGEST_EPOCH", 2),
        ("state-prices", "LARGEST_EPOCH", 6),
        ("state-search", "LARGEST_EPOCH", 6),
        ("path-search", "LARGEST_EPOCH", 6),
        ("window-tree", "LARGEST_EPOCH", 2),
        ("window-tree", "LARGEST_AXIS", 2),
        ("state-prices", "LARGEST_TABLE_MEMORY", 4),
        ("preemptive-memory-prices", "LARGEST_EPOCH", 2),
        ("preemptive-prices", "LARGEST_EPOCH", 6),
        ("preemptive-prices", "LARGEST_TABLE_MEMORY", 4),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(limits, name, most)
            assert check_certificate(small(kind)).lower_bound == 1
            patch.setattr(limits, name, most - 1)
            with pytest.raises(CertificateTooLargeError):
                check_certificate(small(kind))


# What is no certificate.


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("kind", PROOFS)
def test_wrong_types_are_malformed_wherever_they_are(kind: str) -> None:
    check_certificate(small(kind))
    for path in places(small(kind)):
        for bad in (None, True, 1.5, float("inf"), "x" * 10**4, {"x": 1}, deep(900), 10**4299, -1):
            document = small(kind)
            part_of(document, path[:-1])[path[-1]] = bad
            if path == ("instance", "digest") and isinstance(bad, str):
                continue
            if "start_prices" in path[:-1] and bad == -1:
                continue
            with pytest.raises(MalformedCertificateError) as caught:
                check_certificate(document)
            assert len(str(caught.value)) < 200
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", PROOFS)
def test_missing_and_unknown_keys_are_malformed(kind: str) -> None:
    for part in ((), ("instance",), ("proof",)):
        for name in [*small(kind, *part), "x\n" * 10**4]:
            document = small(kind)
            place = part_of(document, part)
            if name in place:
                del place[name]
            else:
                place[name] = 1
            with pytest.raises(MalformedCertificateError, match="missing|unknown") as caught:
                check_certificate(document)
            assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        (TREE, ("instance", "requests"), []),
        (TREE, ("instance", "requests", 0), [0, 1]),
        (TREE, ("instance", "requests", 0, 2), 0),
        (TREE, ("instance", "requests", 0, 2), 4),
        (TREE, ("instance", "requests", 0, 0), LARGEST_INTEGER + 1),
        (TREE, ("instance", "memory_limit"), 2**31),
        (TREE, ("start_times",), [0, 1]),
        (TREE, ("start_times", 0), LIMIT),
        (TREE, ("proof", "tree", 0), [3, 1]),
        (TREE, ("proof", "tree", 1), 2),
        (TREE, ("proof", "prices", 0, 0, 0), 1),
        (TREE, ("proof", "prices", 0, 0, 1), 10**9),
        (TREE, ("proof", "prices", 0), [[0, 0, 1], [0, 0, 1]]),
        (TREE, ("proof", "tables", 0, 0), [1, 0, 1]),
        (TREE, ("proof", "tables", 0, 0), [2, 3, 1]),
        (TREE, ("proof", "tables", 0), [[1, 2, 1], [1, 2, 1]]),
        (STATE, ("proof", "states", 0), [3, 3]),
        (STATE, ("proof", "states", 0), [2, 1]),
        (ROUNDS, ("stretches",), [[[1, 2]], [[3, 4]]]),
        (ROUNDS, ("stretches", 0), [[1, 2, 3]]),
        (ROUNDS, ("stretches", 0), [[2, 1]]),
        (ROUNDS, ("stretches", 0, 0, 1), LIMIT),
        (ROUNDS, ("proof", "tokens"), [3, 2]),
        (ROUNDS, ("proof", "tokens"), [2, 2]),
        (ROUNDS, ("proof", "tokens"), [0, 2]),
        (ROUNDS, ("proof", "tokens"), [2, 5]),
        (ROUNDS, ("proof", "tokens"), [2]),
        (ROUNDS, ("proof", "prices", 0), [1]),
        (ROUNDS, ("proof", "scale"), 0),
    ],
)
def test_what_is_out_of_range_is_malformed(kind: str, path: tuple[Any, ...], value: Any) -> None:
    document = small(kind)
    part_of(document, path[:-1])[path[-1]] = value
    with pytest.raises(MalformedCertificateError):
        check_certificate(document)


@pytest.mark.parametrize(
    ("path", "value", "match"),
    [
        (("upper_bound",), 6, "total latency is"),
        (("lower_bound",), 9, "no more than"),
        (("instance", "digest"), "0" * 64, "digest"),
        (("instance", "memory_limit"), 5, "digest"),
        (("instance", "requests", 0, 1), 0, "digest"),
        (("start_times", 1), 0, "before it arrives"),
        (("start_times", 1), 1, "round 2 holds"),
        (("proof", "tree"), [], "not covered"),
        (("proof", "tree"), [0, 0], "left over"),
        (("proof", "tree"), [[0, 1], 0], "not covered"),
        (("proof", "tree"), [[1, 0], 0, 0], "outside its window"),
        (("proof", "tree"), [[0, 1], [0, 1], 0, 0, 0], "outside its window"),
    ],
)
def test_what_does_not_hold_is_refused_and_not_malformed(
    path: tuple[Any, ...], value: Any, match: str
) -> None:
    document = small(TREE)
    part_of(document, path[:-1])[path[-1]] = value
    with pytest.raises(CertificateError, match=match) as caught:
        check_certificate(document)
    assert not isinstance(caught.value, MalformedCertificateError)


TEXT = json.dumps(small("memory-prices"))
FILES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "not valid JSON"),
    "a list": (b"[]", "not a certificate"),
    "another format": (b'{"format": "llm-hindsight/instance"}', "not a certificate"),
    "another version": (TEXT.replace('"version": 1', '"version": 2').encode(), "version is 2"),
    "true": (TEXT.replace('"version": 1', '"version": true').encode(), "version is True"),
    "nested": (b"[" * 10**5, "nested|not valid"),
    "nested in an object": (b'{"a":' * 10**5, "nested|not valid"),
    "digits": (TEXT.replace('"scale": 4', '"scale": ' + "9" * 5000).encode(), "4300 digits"),
    "not a number": (TEXT.replace('"scale": 4', '"scale": NaN').encode(), "NaN is not a number"),
    "infinite": (TEXT.replace('"scale": 4', '"scale": -Infinity').encode(), "not a number"),
    "repeated key": (
        TEXT.replace('"scale": 4', '"scale": 4, "scale": 4').encode(),
        "'scale' is there twice",
    ),
    "repeated long key": (
        ('{"' + "x" * 10**5 + '": 1, "' + "x" * 10**5 + '": 1}').encode(),
        "is there twice",
    ),
    "gzip": (gzip.compress(TEXT.encode()), "not valid JSON"),
    "half a gzip": (gzip.compress(TEXT.encode())[:50], "not valid JSON"),
    "more behind xz": (lzma.compress(TEXT.encode()) + b"more", "goes on after the end"),
    "twice in xz": (2 * lzma.compress(TEXT.encode()), "goes on after the end"),
    "half": (TEXT[:200].encode(), "not valid JSON"),
    "Latin 1": (TEXT.replace("memory", "m\xe9moire").encode("latin-1"), "not valid JSON"),
    "UTF-16": (TEXT.encode("utf-16"), "not valid JSON"),
    "zeros": (bytes(10**5), "not valid JSON"),
    "long version": (
        TEXT.replace('"version": 1', f'"version": "{"x" * 10**5}"').encode(),
        "version is 'xxx",
    ),
    "list for a version": (
        TEXT.replace('"version": 1', '"version": ' + "[" * 900 + "]" * 900).encode(),
        "version is a list",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_none_are_refused_in_a_line(name: str, tmp_path: Path) -> None:
    content, match = FILES[name]
    path = tmp_path / "certificate.json"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=match) as caught:
        read_certificate(path)
    assert len(caught.value.reason) < 200


def test_a_file_is_read_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "certificate.json"
    path.write_text(TEXT, "utf-8")
    monkeypatch.setattr(certificate_format, "LARGEST_FILE", len(TEXT))
    assert read_certificate(path) == small("memory-prices")
    monkeypatch.setattr(certificate_format, "LARGEST_FILE", len(TEXT) - 1)
    with pytest.raises(FileFormatError, match="larger than"):
        read_certificate(path)
    with pytest.raises(FileFormatError, match="larger than"):
        read_certificate("/dev/zero")
