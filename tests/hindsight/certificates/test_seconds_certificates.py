"""Certificates of bounds in seconds: true where they are accepted, whatever was changed in them."""

from __future__ import annotations

import copy
import functools
import json
import math
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from priced_request import least_cost
from seconds_cases import drawn_workload, exhaustive_optimum

import hindsight
from hindsight import CertificateError, CertificateTooLargeError, MalformedCertificateError
from hindsight.certificates import limits
from hindsight.certificates.seconds_proof import proved_seconds
from hindsight.outcomes.proofs import NO_PRICES
from hindsight.seconds.minorants import affine_minorants
from hindsight.seconds.results import rounded_down
from hindsight.seconds.round_length_prices import RoundLengthPrices
from instances import (
    Instance,
    InvalidTypeError,
    InvalidValueError,
    MemoryRule,
    SecondsSchedule,
    Workload,
)
from instances.batch_time import AffineTime, PiecewiseLinearTime, TiledTime, UnitTime

Document = dict[str, Any]

AFFINE = AffineTime(0.5, 0.125, 0.0625)
TILED = TiledTime((1, 2, 4), (0.5, 1.0, 1.25))
"""A table above a line and above a constant."""

WORKLOAD = Workload([0.0, 0.125], [1, 2], [2, 1], memory_limit=4)


def document_of(workload: Workload, time: Any, part: Document, claim: float = 0) -> Document:
    """A certificate, by the table of its keys."""
    columns = (workload.arrival_times, workload.prompt_lengths, workload.output_lengths)
    stored = (
        [time.d0, time.d1, time.d2]
        if isinstance(time, AffineTime)
        else {"tokens": list(time.tokens), "seconds": list(time.seconds)}
    )
    return {
        "format": "llm-hindsight/certificate",
        "version": 1,
        "instance": {
            "memory_limit": workload.memory_limit,
            "requests": [list(row) for row in zip(*(one.tolist() for one in columns), strict=True)],
            "digest": workload.digest,
        },
        "batch_time": stored,
        "lower_bound": claim,
        "proof": part,
    }


def part_of(rng: np.random.Generator, n: int, minorant: int = 0) -> Document:
    """Any prices, on any grid."""
    step = 2.0 ** -int(rng.integers(2, 7))
    cell = step * 2 ** int(rng.integers(0, 4))
    cells = int(rng.uniform(2, 12) / cell) + 1
    scale = 64
    return {
        "kind": "round-length-prices",
        "scale": scale,
        "minorant": minorant,
        "cell": cell,
        "prices": rng.integers(0, int(n * scale * rng.choice([0.3, 1, 2])), cells).tolist(),
        "gammas": rng.integers(0, 1001, cells).tolist(),
        "step": step,
        "block": int(rng.choice([1, 2, 16])),
        "spread": float(rng.choice([1.05, 1.3, 2])),
        "allowances": rng.integers(0, int(12 / cell) + 2, n).tolist(),
    }


def optimum(workload: Workload, time: Any) -> Fraction | None:
    """The exhaustive optimum where requests keep their tokens.

    Of a table that falls it is that of a shorter time: the search takes only what does not fall.
    """
    if isinstance(time, TiledTime):
        least = np.minimum.accumulate(time.seconds[::-1])[::-1]
        time = PiecewiseLinearTime(time.tokens, least.tolist())
    return exhaustive_optimum(workload, time, states=4_000, keeps=True)


@pytest.mark.parametrize("seed", range(30))
def test_no_claim_that_is_accepted_is_above_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    workload = drawn_workload(rng, (1, 4), 3, seed % 2 == 1)
    time = TILED if seed % 3 == 0 else AFFINE
    best = optimum(workload, time)
    if best is None:
        pytest.skip("too many states")
    for _ in range(6):
        minorant = int(rng.integers(len(affine_minorants(time, workload.memory_limit))))
        part = part_of(rng, len(workload), minorant)
        proved = proved_seconds(workload, time, part)
        assert proved <= best
        if proved < 0:
            continue
        claim = rounded_down(proved)
        verdict = hindsight.check_certificate(document_of(workload, time, part, claim))
        assert (verdict.lower_bound, verdict.batch_time) == (claim, time)
        above = document_of(workload, time, part, math.nextafter(claim, math.inf))
        with pytest.raises(CertificateError, match="proves no more than"):
            hindsight.check_certificate(above)
    proved = proved_seconds(workload, time, {"kind": "machine-bounds"})
    assert 0 < proved <= best


@pytest.mark.parametrize("seed", range(12))
def test_prices_prove_what_trying_rounds_allows(seed: int) -> None:
    """Each request alone, by trying rounds: nobody pays more than that."""
    rng = np.random.default_rng(seed)
    workload = drawn_workload(rng, (1, 4), 6, seed % 2 == 1)
    (minorant,) = affine_minorants(AFFINE, workload.memory_limit)
    part = part_of(rng, len(workload))
    part |= {"step": 2.0**-6, "cell": 1.0, "allowances": [30] * len(workload)}
    part |= {"prices": sorted(part["prices"][:8], reverse=True), "gammas": part["gammas"][:8]}
    count = len(part["prices"])
    prices = RoundLengthPrices(
        1.0, np.array(part["prices"]) / 64, np.array(part["gammas"][:count]) / 1000
    )
    rows = zip(
        workload.arrival_times, workload.prompt_lengths, workload.output_lengths, strict=True
    )
    alone = [Workload([a], [s], [o], memory_limit=workload.memory_limit) for a, s, o in rows]
    possible = sum(least_cost(one, minorant, prices, 2.0**-5) for one in alone)
    proved = float(proved_seconds(workload, AFFINE, part) + prices.integral)
    assert 0.8 * possible <= proved <= possible


def result_of(time: Any = AFFINE) -> hindsight.SecondsResult:
    rng = np.random.default_rng(5)
    workload = Workload(np.sort(rng.random(6)), [3] * 6, [1, 5, 2, 4, 3, 6], memory_limit=12)
    return hindsight.relax(workload, batch_time=time, time_limit=2)


@pytest.mark.parametrize("time", [AFFINE, TiledTime((1, 8), (0.5, 2.0), kernel=0.125)])
def test_the_result_of_a_solve_is_certified(time: Any, tmp_path: Path) -> None:
    result = result_of(time)
    path = tmp_path / "certificate.json"
    verdict = hindsight.write_certificate(result, path)
    assert verdict == hindsight.check_certificate(hindsight.read_certificate(path))
    assert (verdict.batch_time, verdict.upper_bound, verdict.is_optimal) == (time, None, False)
    # The same grids, but for prices rounded to 16 bits.
    assert verdict.lower_bound >= 0.995 * result.certified_lower_bound
    assert verdict.lower_bound <= result.upper_bound
    hurried = hindsight.make_certificate(result.schedule, result.proof, time_limit=0)
    assert hurried["proof"] == {"kind": "machine-bounds"}
    bare = hindsight.make_certificate(result.schedule)
    assert hurried["lower_bound"] == bare["lower_bound"] <= verdict.lower_bound


def test_a_memory_rule_travels_with_the_requests() -> None:
    blocks = WORKLOAD.under(MemoryRule(block_size=2))
    document = hindsight.make_certificate(SecondsSchedule.from_start_rounds(blocks, AFFINE, [0, 2]))
    verdict = hindsight.check_certificate(document)
    assert (verdict.digest, verdict.memory_rule) == (blocks.digest, blocks.memory_rule.told)
    del document["instance"]["memory_rule"]
    with pytest.raises(CertificateError, match="digest does not belong"):
        hindsight.check_certificate(document)


def test_what_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    result = result_of()
    path = tmp_path / "certificate.json"
    unit = SecondsSchedule.from_start_rounds(WORKLOAD, UnitTime(), [0, 2])
    with pytest.raises(InvalidTypeError, match="files hold an AffineTime or a TiledTime"):
        hindsight.make_certificate(unit)
    other = SecondsSchedule.from_start_rounds(WORKLOAD, AFFINE, [0, 2])
    with pytest.raises(InvalidValueError, match="is of other requests"):
        hindsight.make_certificate(other, result.proof)
    in_rounds = hindsight.best_list_schedule(Instance.from_arrays([1], [2], memory_limit=4))
    with pytest.raises(InvalidValueError, match="is of another optimum"):
        hindsight.make_certificate(other, NO_PRICES)
    with pytest.raises(InvalidValueError, match="is of another optimum"):
        hindsight.make_certificate(in_rounds, result.proof)
    assert not path.exists()


SMALL: Document = {
    "kind": "round-length-prices",
    "scale": 2,
    "minorant": 0,
    "cell": 1.0,
    "prices": [3, 2, 1],
    "gammas": [1000, 500, 0],
    "step": 0.125,
    "block": 4,
    "spread": 1.3,
    "allowances": [4, 4],
}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"scale": 0}, "below 1"),
        ({"scale": True}, "not a whole number"),
        ({"minorant": 1}, "there is no number 1"),
        ({"minorant": -1}, "below 0"),
        ({"cell": 0.75}, "is not as declared"),
        ({"cell": math.nan}, "is not between"),
        ({"cell": -1.0}, "is not between"),
        ({"step": 0.1}, "is not a power of two"),
        ({"step": 2.0}, "at most a cell"),
        ({"step": "0.125"}, "is not a number"),
        ({"spread": 1.0}, "is not between 1.05 and 2"),
        ({"block": 0}, "below 1"),
        ({"prices": [], "gammas": []}, "is not as declared"),
        ({"prices": [3, 2, -1]}, "below 0"),
        ({"prices": [3, 2, 0.5]}, "not a whole number"),
        ({"gammas": [1000, 500]}, "2 entries, not 3"),
        ({"gammas": [1001, 500, 0]}, "is not as declared"),
        ({"allowances": [4]}, "1 entries, not 2"),
        ({"kind": "memory-prices"}, "unknown in seconds"),
        ({"more": 1}, "unknown key"),
    ],
)
def test_a_malformed_proof_is_none(change: Document, match: str) -> None:
    document = document_of(WORKLOAD, AFFINE, {**SMALL, **change})
    with pytest.raises(MalformedCertificateError, match=match) as raised:
        hindsight.check_certificate(document)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    ("where", "value", "match"),
    [
        (["batch_time"], [0.5, 0.1, 0.1, 0.1], "batch_time"),
        (["batch_time"], [0.0, 0.1, 0.1], "d0"),
        (["batch_time"], [0.5, math.inf, 0.1], "d1"),
        (["batch_time"], "llama", "is not a list"),
        (["batch_time"], {"tokens": [1, 2], "seconds": [1.0]}, "batch_time"),
        (["batch_time"], {"tokens": [1, 2], "second": [1.0, 1.0]}, "batch_time"),
        (["lower_bound"], math.nan, "is not between"),
        (["lower_bound"], None, "is not a number"),
        pytest.param(["lower_bound"], 10**400, "lower_bound", id="huge"),
        (["instance", "requests"], [], "instance"),
        (["instance", "requests", 0], [0.0, 1], "instance"),
        (["instance", "requests", 0, 0], 1e300 * 1e10, "arrival time"),
        (["instance", "requests", 1, 0], -1.0, "arrival time"),
        (["instance", "requests", 1, 2], 1.5, "output"),
        (["instance", "memory_limit"], 2, "memory"),
        (["start_times"], [0, 0], "unknown key"),
    ],
)
def test_a_malformed_document_is_none(where: list[Any], value: Any, match: str) -> None:
    document = document_of(WORKLOAD, AFFINE, copy.deepcopy(SMALL))
    functools.reduce(lambda part, key: part[key], where[:-1], document)[where[-1]] = value
    with pytest.raises(MalformedCertificateError, match=match):
        hindsight.check_certificate(document)


def hostile() -> Iterator[tuple[Document, str]]:
    """What would take hours, or all memory."""
    long = Workload([0.0] * 400, [1] * 400, [900_000] * 400, memory_limit=10**6)
    cells = 1 << 18
    wide = {**SMALL, "prices": [1] * cells, "gammas": [0] * cells}
    yield document_of(long, AFFINE, {"kind": "machine-bounds"}), "takes more"
    yield (
        document_of(
            long, AffineTime(0.5, 0, 0), {**SMALL, "block": 1, "allowances": [4 * 10**5] * 400}
        ),
        "takes more",
    )
    yield document_of(WORKLOAD, AFFINE, {**SMALL, "allowances": [2**61, 1]}), "too many points"
    yield document_of(WORKLOAD, AFFINE, {**SMALL, "cell": 2.0**30}), "too many points"
    yield document_of(WORKLOAD, AFFINE, {**SMALL, "step": 2.0**-30}), "too many points"
    yield document_of(WORKLOAD, AFFINE, {**SMALL, "step": 2.0**-12}), "is far from the overhead"
    yield document_of(WORKLOAD, AffineTime(1e-9, 0, 0), SMALL), "is far from the overhead"
    yield document_of(WORKLOAD, AffineTime(0.5, 1e300, 0), SMALL), "too many points"
    more = {name: [*wide[name], 1] for name in ("prices", "gammas")}
    yield document_of(WORKLOAD, AFFINE, {**wide, **more}), "more than 262144 cells"
    table = TiledTime(tuple(range(1, 10_003)), (1.0,) * 10_002)
    yield document_of(WORKLOAD, table, SMALL), "more than 10000 entries"


def test_what_takes_too_much_is_refused_before_it_begins() -> None:
    for document, match in hostile():
        with pytest.raises(CertificateTooLargeError, match=match):
            hindsight.check_certificate(document)


def test_memory_does_not_grow_with_the_numbers_in_a_file() -> None:
    tracemalloc.start()
    proved = [proved_seconds(WORKLOAD, AFFINE, {**SMALL, "block": n}) for n in (2, 2**60)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert proved[0] == proved[1]
    assert peak < 2_000_000


def test_a_late_arrival_has_no_place_on_the_grid() -> None:
    late = Workload([0.0, 1e300], [1, 2], [2, 1], memory_limit=4)
    with pytest.raises(MalformedCertificateError, match="steps of the grid"):
        hindsight.check_certificate(document_of(late, AFFINE, SMALL))


# Mutants.


def places(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all that is in a document."""
    entries = part.items() if isinstance(part, dict) else enumerate(part)
    for key, value in entries:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))


def mutated(value: Any, rng: np.random.Generator) -> Any:
    """Another value in its place."""
    others: list[Any] = [None, True, "1", [], {}, [value], -1, 0, 10**30, math.nan, math.inf]
    if isinstance(value, dict) and value:
        some = rng.choice(list(value))
        return [{k: v for k, v in value.items() if k != some}, {**value, "more": 1}][rng.choice(2)]
    if isinstance(value, list):
        others = [value[:-1], value[1:], [*value, *value[-1:]], value[::-1], [*value, 1]]
    elif isinstance(value, str):
        others += [value[::-1], value + "0", value[:-1]]
    elif isinstance(value, int | float) and rng.random() < 0.8:
        others = [value + 1, value - 1, 2 * value, value / 2, value * (1 + 1e-6), value // 1]
        others += [value * 0.9, value + 3]
    return others[rng.choice(len(others))]


def mutant(document: Document, rng: np.random.Generator) -> Document:
    """The document with one change, or two of which one is often its claim."""
    made = copy.deepcopy(document)
    for _ in range(1 if rng.random() < 0.6 else 2):
        known = [*places(made)]
        often = {("lower_bound",), ("proof", "minorant")}.intersection(known)
        known += 2 * sorted(often)
        *path, last = known[rng.choice(len(known))]
        part = functools.reduce(lambda part, key: part[key], path, made)
        part[last] = mutated(part[last], rng)
    return made


def bases(share: float = 1.0) -> list[Document]:
    """Two certificates that claim a share of what they prove."""
    found = []
    for time, minorant in ((AFFINE, 0), (TILED, 1)):
        part = {**SMALL, "minorant": minorant}
        claim = rounded_down(proved_seconds(WORKLOAD, time, part))
        assert claim > 0
        found.append(document_of(WORKLOAD, time, part, share * claim))
    return found


@functools.cache
def true_optimum(batch_time: str) -> Fraction:
    """The optimum of the only requests whose digest was not changed."""
    stored = json.loads(batch_time)
    time = TiledTime(**stored) if isinstance(stored, dict) else AffineTime(*stored)
    best = optimum(WORKLOAD, time)
    assert best is not None
    return best


@pytest.mark.parametrize("share", [1, 0.8])
def test_a_mutant_is_refused_or_true(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LARGEST_WORK", 10**7)
    rng = np.random.default_rng(0)
    verdicts: Counter[str] = Counter()
    for document, full in zip(bases(share), bases(), strict=True):
        for _ in range(250):
            changed = mutant(document, rng)
            try:
                verdict = hindsight.check_certificate(changed)
            except CertificateError:
                verdicts["refused"] += 1
                assert json.dumps(changed) != json.dumps(document)
                continue
            verdicts["true"] += 1
            assert changed["instance"] == document["instance"]
            assert verdict.lower_bound <= true_optimum(json.dumps(changed["batch_time"]))
            if {**changed, "lower_bound": 0} == {**full, "lower_bound": 0}:
                assert verdict.lower_bound <= full["lower_bound"]
    assert verdicts["refused"] >= 250
    assert verdicts["true"] >= (30 if share == 1 else 60)


@pytest.mark.parametrize("which", [0, 1])
def test_a_claim_above_what_is_evaluated_is_refused(which: int) -> None:
    document = bases()[which]
    claim = document["lower_bound"]
    assert hindsight.check_certificate(document).lower_bound == claim
    for raised in (math.nextafter(claim, math.inf), claim * 1.001, claim + 1, 10**9):
        with pytest.raises(CertificateError, match="proves no more than"):
            hindsight.check_certificate({**document, "lower_bound": raised})
