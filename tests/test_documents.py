"""Certificates of every kind of proof on every axis: what they prove, and what is refused.

The table is in `documents`; some documents more are made to hurt whoever checks them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
import tracemalloc
from dataclasses import asdict
from typing import Any

import pytest
from certificates_by_definition import (
    Document,
    bound_by_definition,
    document_of,
    is_feasible,
    one_by_one,
    optimum_of,
    places,
    searched_optimum,
)
from documents import (
    IN_ROUNDS,
    IN_SECONDS,
    NAMES,
    PRICES,
    SEARCHES,
    changed,
    consistent,
    drawn,
    drawn_seconds,
    enlarged,
    generator,
    mutants,
    number,
    part_of,
    prices_of,
    proved,
    seconds_optimum,
    tight,
)
from effort import examples, sweep

from hindsight import CertificateError, MalformedCertificateError, check_certificate
from hindsight.certificates.format import CertificateTooLargeError
from instances import MemoryRule

LARGEST_INTEGER, LARGEST_TOKEN_COUNT = 2**53, 2**31 - 1

PRICED = [name for name in IN_ROUNDS if name.startswith(PRICES)]
SEARCHED = [name for name in IN_ROUNDS if name.startswith(SEARCHES)]
NOTHING: Document = {"kind": "memory-prices", "scale": 1, "prices": []}


def truth(document: Document) -> Any:
    """The optimum by enumeration; None where that takes too long."""
    return seconds_optimum(document) if "batch_time" in document else optimum_of(document)


# 1. The bound is that of the definition.


@pytest.mark.parametrize("name", PRICED)
def test_prices_prove_what_the_definition_says(name: str) -> None:
    for document in (tight(name), *(drawn(name, seed) for seed in range(examples(48)))):
        bound = bound_by_definition(document)
        assert proved(document) == bound <= optimum_of(document)
        if bound >= 0:
            verdict = check_certificate({**document, "lower_bound": bound})
            assert (verdict.lower_bound, verdict.upper_bound) == (bound, document["upper_bound"])


@pytest.mark.parametrize("name", SEARCHED)
def test_searches_prove_all_that_is_below_the_optimum_and_no_more(name: str) -> None:
    """Paths end below the optimum whatever the stages are, if all requests are told apart."""
    key = "budget" if name.startswith("state") else "limit"
    for document in (tight(name), *(drawn(name, seed) for seed in range(examples(20, 5)))):
        below = searched_optimum(document) - 1
        starts = [t + 2 for t in document["start_times"]]  # no claim tried exceeds the upper bound
        document = consistent({**document, "start_times": starts, "lower_bound": below})
        more = {"kept": 10**5} if key == "budget" else {}
        assert below < optimum_of(document)
        assert proved(changed(document, ("proof", key), below)) == below + 1
        for within in (below + 1, below + 2):
            with pytest.raises(CertificateError, match="a schedule within|total latency within"):
                proved({**document, "proof": {**document["proof"], key: within, **more}})
        if key == "budget":
            kept = check_certificate(document).leaves
            assert check_certificate(changed(document, ("proof", "kept"), kept)).leaves == kept
            with pytest.raises(CertificateError, match="needs more than"):
                check_certificate(changed(document, ("proof", "kept"), kept - 1))


@pytest.mark.parametrize("name", IN_SECONDS)
def test_in_seconds_nothing_above_the_optimum_is_proved(name: str) -> None:
    for document in (tight(name), *(drawn_seconds(name, seed) for seed in range(examples(12)))):
        best, bound = truth(document), proved(document)
        assert best is None or bound <= best
        assert bound > 0 or name.startswith("round")
        if bound >= 0:
            assert check_certificate({**document, "lower_bound": bound}).lower_bound == bound


# 2. and 3. What does not follow the format is malformed.


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def malformed(document: Document, match: str | None = None) -> None:
    with pytest.raises(MalformedCertificateError, match=match) as caught:
        check_certificate(document)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


WRONG = (None, True, 1.5, math.inf, "x" * 10**4, {"x": 1}, deep(900), 10**4299, -1)


@pytest.mark.parametrize("name", sweep(NAMES))
def test_a_wrong_type_anywhere_is_malformed(name: str) -> None:
    document = tight(name)
    assert check_certificate(document).kind == name.split(",")[0]
    for path in places(document):
        for bad in WRONG:
            forged = changed(document, path, bad)
            fits = path[-1] == "digest" and isinstance(bad, str)
            fits |= "start_prices" in path[:-1] and bad == -1
            # In seconds arrivals have decimals, and true is 1.0.
            fits |= name in IN_SECONDS and (bad == 1.5 or (bad is True and "requests" in path[:-1]))
            if not fits:
                malformed(forged)


OPTIONAL = {"memory_rule", "weights", "replicas", *asdict(MemoryRule())}
DEFAULTS = [*asdict(MemoryRule()).values()]


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_or_unknown_key_is_malformed(name: str) -> None:
    document = tight(name)
    for path in [(), *places(document)]:
        place = part_of(document, path)
        if not isinstance(place, dict):
            continue
        malformed(changed(document, (*path, "x\n" * 10**4), 1), "unknown|batch_time")
        for key in place:
            forged = changed(document, (*path, key), None)
            del part_of(forged, path)[key]
            if key not in OPTIONAL:
                malformed(forged, "missing|batch_time|kind None")
            elif place[key] not in DEFAULTS:
                with pytest.raises(CertificateError, match="digest|assignment|exceed"):
                    check_certificate(forged)


FEW = [
    f"{kind}, {axis}"
    for kind, axis in (
        ("memory-prices", "machine"),
        ("memory-prices", "late blocks"),
        ("memory-prices", "fleet"),
        ("memory-prices", "weighted"),
        ("state-search", "machine"),
        ("path-search", "machine"),
        ("preemptive-prices", "machine"),
        ("round-length-prices", "affine"),
        ("round-length-prices", "tiled"),
    )
]
OUT_OF_RANGE = """
0 | format | "llm-hindsight/instance" | format or version
0 | version | 2 | format or version
0 | instance requests | [] | no requests
0 | instance requests 0 | [0, 1] | 2 entries, not 3
0 | instance requests 0 2 | 0 | output_length = 0 is below 1
0 | instance requests 0 2 | 9 | exceeds memory_limit
0 | instance requests 0 0 | 9007199254740993 | arrival
0 | instance memory_limit | 2147483648 | memory_limit
0 | instance memory_rule | {"block_size": 0} | memory rule: block_size
0 | instance replicas | 1 | below 2
0 | start_times | [0, 1] | 2 entries, not 4
0 | start_times 0 | 4611686018427387904 | too large
0 | assignment | [0, 0, 0, 0] | there is one replica
0 | stretches | [] | unknown key 'start_times'
0 | proof kind | "window-tree" | kind 'window-tree' is unknown
0 | proof scale | 0 | below 1
1 | instance requests 0 1 | 0 | prompt_length = 0 is below 1
2 | assignment 0 | 2 | replica 2 of 2
2 | instance replicas | 1000000 | replicas
3 | instance weights 0 | 0 | weight
3 | instance weights 0 | 2097152 | weight
3 | proof | {"kind": "state-prices", "scale": 1, "states": [], "prices": []} | takes no weights
4 | proof states 0 | [9, 9] | no request passes through
4 | proof budget | 4611686018427387904 | too large
5 | proof stages 0 followed | [4] | no request 4
5 | proof stages 0 | {"start_prices": [], "followed": [], "tracked": [0]} | not followed
5 | proof stages 0 tracked | [1000000000000000000000] | too large
5 | proof stages 0 start_prices | [0] | 1 start prices for 0
5 | proof stages -1 start_prices | [0, 0, 0, -4611686018427387905] | below
6 | stretches 0 | [[2, 1]] | is before
6 | stretches 0 0 1 | 4611686018427387904 | too large
6 | proof tokens | [3, 2] | not increasing
6 | proof tokens | [2, 9] | above memory_limit
6 | proof prices 0 | [1] | entries, not
7 | proof minorant | 1 | index 1 is out of range
7 | proof cell | 0.75 | is not a power of two
7 | proof step | 0.1 | is not a power of two
7 | proof block | 0 | below 1
7 | proof gammas 0 | 1001 | is above 1000
7 | proof attendances 0 | 1001 | is above 1000
7 | proof firsts 0 | 999 | after the last of
7 | proof levels 0 0 | 9007199254740992 | their sum is 2.53
7 | proof kind | "memory-prices" | unknown in seconds
7 | batch_time | [0.5, 0.1, 0.1, 0.1] | batch_time
7 | lower_bound | NaN | is not between
7 | instance requests 0 2 | 1.5 | output
8 | batch_time seconds | [1.0] | batch_time
"""


@pytest.mark.parametrize("row", OUT_OF_RANGE.strip().split("\n"))
def test_what_is_out_of_range_is_malformed(row: str) -> None:
    name, places, value, match = row.split(" | ")
    path = [int(key) if key.lstrip("-").isdigit() else key for key in places.split()]
    malformed(changed(tight(FEW[int(name)]), path, json.loads(value)), match)


# 4. Mutants are true or refused.


@pytest.mark.parametrize("name", NAMES)
def test_a_mutant_is_true_or_refused(name: str) -> None:
    """As it is, and with the digest and the bounds that it should have."""
    document, passed = tight(name), 0
    some = [*mutants(document)]
    for path, mutant in some[:: -(-len(some) // examples(200, 120))]:
        passed += is_true(mutant)
        if path[0] in ("instance", "start_times", "stretches", "assignment"):
            try:
                forged = consistent(mutant)
            except (ValueError, TypeError, IndexError):
                continue  # there is no such instance, or no such schedule
            passed += is_true(forged)
            try:
                forged["lower_bound"] = max(0, proved(forged))
            except CertificateError:
                continue
            passed += is_true(forged)
    assert passed > 0


def is_true(document: Document) -> bool:
    """Whether a document passes; what passes has to be true."""
    try:
        verdict = check_certificate(document)
    except CertificateError:
        return False
    best = truth(document)
    assert best is None or verdict.lower_bound <= best
    assert verdict.lower_bound == document["lower_bound"]
    if "upper_bound" in document:
        assert is_feasible(document)
        assert verdict.upper_bound == consistent(document)["upper_bound"]
    return True


@pytest.mark.parametrize("name", IN_ROUNDS)
def test_a_schedule_passes_where_it_is_feasible(name: str) -> None:
    document = {**tight(name), "lower_bound": 0}
    rows, rng, seen = document["instance"]["requests"], generator(name), set()
    given = [(t - row[0], row) for t, row in zip(one_by_one(rows), rows, strict=True)]
    for _ in range(examples(80)):
        if "assignment" in document:
            replicas = document["instance"]["replicas"] - 1
            document["assignment"] = [number(rng, 0, replicas) for _ in rows]
        starts = [number(rng, 0, 2) * t + number(rng, -1, 2) + a for t, (a, _, _) in given]
        if "start_times" in document:
            document["start_times"] = [max(0, t) for t in starts]
        else:
            document["stretches"] = [
                [
                    [r, r]
                    for r in itertools.accumulate(
                        [max(1, t + 1)] + [number(rng, 1, 5) // 4 + 1 for _ in range(1, o)]
                    )
                ]
                for t, (_, (_, _, o)) in zip(starts, given, strict=True)
            ]
        document = consistent(document)
        seen.add(is_feasible(document))
        if is_feasible(document):
            assert check_certificate(document).upper_bound == document["upper_bound"]
        else:
            with pytest.raises(
                CertificateError, match="before it arrives|round .* holds"
            ) as caught:
                check_certificate(document)
            assert not isinstance(caught.value, MalformedCertificateError)
    assert seen == {False, True}


# 5. Forged claims are refused.


@pytest.mark.parametrize("name", NAMES)
def test_a_forged_claim_is_refused(name: str) -> None:
    document = tight(name)
    part, claim = document["instance"], document["lower_bound"]
    above = [math.nextafter(claim, math.inf), claim * 1.001, 10**9]
    forged = [
        (("lower_bound",), value, "no more than")
        for value in (above if name in IN_SECONDS else (claim + 1, 10**9))
    ]
    forged += [
        (("instance", "digest"), "0" * 64, "digest does not belong"),
        (("instance", "memory_limit"), part["memory_limit"] + 1, "digest does not belong"),
        (("instance", "memory_rule"), {"block_size": 4}, "digest does not belong|exceed|memory"),
        (
            ("instance", "replicas"),
            part.get("replicas", 1) + 1,
            "digest does not belong|assignment",
        ),
    ]
    if "upper_bound" in document:
        other = "preemptive-memory-prices" if "start_times" in document else "memory-prices"
        forged += [
            (("upper_bound",), document["upper_bound"] - 1, "total latency is"),
            (("upper_bound",), document["upper_bound"] + 1, "total latency is"),
            (("instance", "weights"), [1, 1, 1, 2], "digest does not belong|takes no weights"),
        ]
        if "weights" not in part:
            forged.append((("proof",), {**NOTHING, "kind": other}, "for another optimum"))
    for path, value, match in forged:
        with pytest.raises(CertificateError, match=match):
            check_certificate(changed(document, path, value))


def test_the_optimum_without_preemption_is_no_bound_with_it() -> None:
    """To stop the long request once beats any schedule without that."""
    rows, limit = [(0, 1, 9), (1, 8, 1)], 10
    document = document_of(rows, limit, [0, 9], {**NOTHING, "kind": "preemptive-memory-prices"})
    assert check_certificate(document).upper_bound == 18
    document.update(stretches=[[[1, 1], [3, 10]], [[2, 2]]], upper_bound=11)
    assert check_certificate(document).upper_bound == 11
    for stretches, match in (
        ([[[1, 2], [3, 10]], [[2, 2]]], "runs 10 rounds, not 9"),
        ([[[1, 9]], [[2, 2]]], "round 2 holds 12 of 10"),
        ([[[1, 5], [5, 8]], [[2, 2]]], "again by round 5"),
    ):
        with pytest.raises(CertificateError, match=match):
            check_certificate({**document, "stretches": stretches})


# 6. Memory follows the size of the file.


@pytest.mark.parametrize("name", sweep(NAMES, 5))
def test_memory_does_not_follow_the_numbers_in_a_file(name: str) -> None:
    document = tight(name)
    check_certificate(document)  # what is imported or compiled at first is not counted
    for path in places(document):
        value = part_of(document, path)
        if type(value) not in (int, float) or (path[0] == "proof" and any(path[2:])):
            continue  # of the lists of a proof the first numbers are enough
        if path[-2:-1] == ("allowances",):
            continue  # a window may have LARGEST_WINDOW points
        is_arrival = "requests" in path and path[-1] == 0
        forged = changed(document, path, LARGEST_INTEGER if is_arrival else 10**6)
        with contextlib.suppress(ValueError, TypeError):
            forged = consistent(forged)
        assert peak_of(forged)[0] < (2_000_000 if name in IN_SECONDS else 300_000)


def peak_of(document: Document) -> tuple[int, str | None]:
    """The most memory in use during a check, and why the document was refused."""
    reason = None
    tracemalloc.start()
    try:
        check_certificate(document)
    except CertificateError as error:
        reason = str(error)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, reason


def priced(kind: str, epochs: int = 0, **proof: Any) -> Document:
    """A proof without prices of any state, for so many epochs."""
    return {"kind": kind, "scale": 1, "states": [], "prices": [[]] * epochs, **proof}


def rounds(epochs: int = 0) -> Document:
    return {"kind": "preemptive-prices", "scale": 1, "tokens": [], "prices": [[]] * epochs}


def stage(count: int) -> Document:
    """All of so many requests are followed and tracked at once."""
    return {"start_prices": [], "followed": [*range(count)], "tracked": [*range(count)]}


MANY_SHAPES = [(0, s, o) for s in range(20) for o in range(1, 11)]
MIXED = [(0, 1, 1 + i % 9) for i in range(60)]
FAR = [(0, 1, 1), (LARGEST_INTEGER, 1, 1)]
LONG_PATHS = [(0, 1, 2), (100_000, 2, 2), (0, 1, 2)]
LONG_ROUNDS: Document = {"kind": "preemptive-memory-prices", "scale": 10**6, "prices": [1]}
DEAR = LONG_ROUNDS | {"kind": "preemptive-prices", "tokens": [2, 3], "prices": [[0, 0], [2**61, 0]]}
MOST = LARGEST_TOKEN_COUNT
SEARCH, PATHS = "state-search", "path-search"
HURTFUL: dict[str, tuple[Any, int, Document, str | None]] = {
    "long output": ([(0, 1, 10**6)], MOST, NOTHING, None),
    "long output in blocks": ([(0, 1, 10**6)], MOST, NOTHING, None),
    "late arrival": (FAR, 4, priced(SEARCH, budget=1, kept=9), None),
    "many shapes": (MANY_SHAPES, 30, priced("state-prices", 4000), None),
    "many shapes of a search": (MANY_SHAPES[:40], 30, priced(SEARCH, 4000, budget=9, kept=9), None),
    "many subsets": (MIXED, 60, priced(SEARCH, budget=900, kept=1000), "needs more than 1000 part"),
    "many starts of paths": (
        *([(0, 1, 1)] * 4000, 2, priced(PATHS, 3000, limit=1, stages=[])),
        "too many for a search",
    ),
    "long paths": (LONG_PATHS, 4, priced(PATHS, limit=6, stages=[stage(0)]), "too many epochs"),
    "many ends of paths": (
        *(MIXED[:40], 1000, priced(PATHS, limit=300, stages=[stage(40)])),
        "takes more work|more nodes",
    ),
    "much memory": ([(0, 1, 1)], MOST, rounds(), "memory_limit .* is too large"),
    "long stretches": ([(0, 1, 10**6)], MOST, LONG_ROUNDS, None),
    "many rounds": (MANY_SHAPES, 30, rounds(4000), None),
    "dear round behind a free one": ([(0, 1, 1)] * 4, 8, DEAR, "are too large"),
}


@pytest.mark.parametrize("name", HURTFUL)
def test_memory_follows_the_size_of_the_file(name: str) -> None:
    rows, limit, proof, match = HURTFUL[name]
    rule = MemoryRule(2 if "blocks" in name else 1)
    document = document_of(rows, limit, one_by_one(rows), proof, rule=rule)
    size, kind = len(json.dumps(document)), proof["kind"]
    check_certificate(tight(IN_ROUNDS[0]))  # what is imported at first is not counted
    peak, reason = peak_of(document)
    assert (reason is None) if match is None else re.search(match, reason or "")
    # Some arrays of (M + 1)^2 and, for a search, of requests and epochs.
    arrays = 0 if kind.endswith("memory-prices") or limit > 10**6 else 40 * (limit + 1) ** 2
    if kind == "state-search":
        arrays += 24 * len(rows) * len(proof["prices"]) + 2_000 * proof["kept"]
    assert peak < arrays + 60 * size + 100_000


LONG: Document = {"memory_limit": 10**6, "requests": [[0.0, 1, 900_000]] * 400}
HOURS: dict[str, tuple[Document, str]] = {
    "long outputs": ({"instance": LONG, "proof": {"kind": "machine-bounds"}}, "takes more"),
    "small blocks": (
        {
            "instance": LONG,
            "batch_time": [0.5, 0, 0],
            "block": 1,
            "allowances": [4 * 10**5] * 400,
            "firsts": [0] * 400,
            "levels": [[]] * 400,
        },
        "takes more",
    ),
    "late": ({"allowances": [2**61, 1, 1]}, "too many points"),
    "wide cells": ({"cell": 2.0**30}, "too many points"),
    "tiny steps": ({"step": 2.0**-30}, "too many points"),
    "small steps": ({"step": 2.0**-12}, "is far from the overhead"),
    "no overhead": ({"batch_time": [1e-9, 0, 0]}, "is far from the overhead"),
    "many cells": ({"prices": [1] * 262_145, "gammas": [0] * 262_145}, "more than 262144 cells"),
    "long table": (
        {"batch_time": {"tokens": [*range(1, 10_003)], "seconds": [1.0] * 10_002}},
        "more than 10000 entries",
    ),
}


@pytest.mark.parametrize("name", HOURS)
def test_in_seconds_what_takes_hours_is_refused_before_it_begins(name: str) -> None:
    document = tight("round-length-prices, affine")
    document["proof"] |= {"cell": 1.0, "step": 0.125, "block": 4}
    changes, match = HOURS[name]
    for key, value in changes.items():
        (document if key in document else document["proof"])[key] = value
    with pytest.raises(CertificateTooLargeError, match=match):
        check_certificate(consistent(document))


# 7. Numbers are exact.


@pytest.mark.parametrize("name", IN_ROUNDS)
@pytest.mark.parametrize("how", ["scale", "both", "prices"])
def test_large_numbers_are_exact_or_refused(name: str, how: str) -> None:
    """Prices alone, the scale alone, or both, which is the same proof in finer units."""
    is_priced = any(part_of(tight(name), path) for path in prices_of(tight(name)))
    if how == "prices" and not (is_priced and name in PRICED):
        return
    for k in (8, 24, 30, 36, 45, 57, 62):
        document = enlarged(tight(name), how, 2**k)
        try:
            found = proved(document)
        except CertificateTooLargeError:
            assert k > 24
        except CertificateError:
            assert (how, name in SEARCHED) == ("scale", True)  # paths or partial schedules are left
        else:
            assert k < 62
            assert how != "both" or found == tight(name)["lower_bound"]
            assert name not in PRICED or found == bound_by_definition(document)
