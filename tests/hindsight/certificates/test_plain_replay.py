"""What the checker computes in numpy and in packed integers is what plain loops give.

On certificates of the library, on mutated ones, and on numbers as large as a file may have.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from certificates_by_definition import Document, document_of, occurring_states, one_by_one, places
from documents import drawn
from effort import examples, sweep
from plain_replay import PlainPaths, PlainSearch, heaviest_beside

import instances
from hindsight import (
    CertificateError,
    MalformedCertificateError,
    check_certificate,
    read_certificate,
)
from hindsight.certificates import path_layers, path_states, state_proofs
from hindsight.certificates.checking import read_proof
from hindsight.certificates.format import LIMIT
from hindsight.certificates.path_states import OtherRequests, numbered
from hindsight.certificates.state_proofs import StateProof

NO_PRICES: dict[str, Any] = {"kind": "state-prices", "scale": 1, "states": [], "prices": []}

CERTIFICATES = Path(instances.__file__).parent / "catalogue" / "certificates"

LONGER = ("worst-n9-00", "adversary-cascade-two-types-n24-00")


def certificate(name: str) -> Document:
    return read_certificate(CERTIFICATES / f"{name}.json.xz")


def mutate(rng: np.random.Generator, part: dict[str, Any], how: str) -> None:
    """Flip the lowest bit of a number, drop, repeat or enlarge one; it keeps the length of rows."""
    path = list(places(part))[rng.integers(len(list(places(part))))]
    row: Any = part
    for key in path[:-1]:
        row = row[key]
    if type(row) is not list or type(row[path[-1]]) is not int:
        return
    k, value = path[-1], row[path[-1]]
    if how == "drop":
        row[k:] = [*row[k + 1 :], 0]
    elif how == "repeat":
        row[k:] = [value, *row[k:-1]]
    else:
        row[k] = {"flip": value ^ 1, "shift": value << 3, "large": 2**30, "huge": LIMIT // 4096}[
            how
        ]


@pytest.mark.parametrize("how", ["none", "flip", "drop", "repeat", "shift", "large", "huge"])
@pytest.mark.parametrize("name", ["worst-n12-14", "c25-linearly-weighted-n20-01", "worst-n7-01"])
def test_capacities(name: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a certificate by prices, by paths and by a search."""
    rng = np.random.default_rng(0)
    document = certificate(name)
    part = document["proof"]
    part["prices"] = part["prices"][:6]
    for _ in range(0 if how == "none" else 10):
        mutate(rng, {"prices": part["prices"]}, how)
    proof = cast(StateProof, read_proof(document))
    proof.read_prices()
    searched = {"kept": 0, "budget": 0, **part}
    plain = PlainSearch(proof.rows, proof.limit, searched).capacities
    assert proof.capacities() == plain
    assert max(plain) >= 2**30 or how not in ("large", "huge")
    monkeypatch.setattr(state_proofs, "CELLS", 1)  # each epoch by itself
    assert proof.capacities() == plain
    proof.prices = np.repeat(proof.prices, (1, 3, 1, 2, 1, 2), axis=0)
    assert proof.capacities() == np.repeat(plain, (1, 3, 1, 2, 1, 2)).tolist()


@pytest.mark.parametrize("how", ["none", "flip", "drop", "repeat", "shift", "large", "huge"])
@pytest.mark.parametrize(
    "name",
    [
        "worst-n7-00",
        "worst-n7-01",
        "adversary-sqrt-n-n33-00",
        *(pytest.param(name, marks=pytest.mark.slow) for name in LONGER),
    ],
)
def test_searches_keep_as_many(name: str, how: str) -> None:
    """And fail where the plain one does, whatever the prices, the budget and the states are."""
    rng = np.random.default_rng(1)
    for _ in range(1 if how == "none" else 3):
        document = certificate(name)
        proof = document["proof"]
        for _ in range(0 if how == "none" else 1 + rng.integers(6)):
            mutate(rng, {key: proof[key] for key in ("prices", "states")}, how)
        if how != "none":
            document["lower_bound"] = 0
            proof["budget"] += int(rng.integers(-3, 1))
        try:
            kept: int | None = check_certificate(document).leaves
        except MalformedCertificateError:
            continue
        except CertificateError:
            kept = None
        part = document["instance"]
        assert kept == PlainSearch(part["requests"], part["memory_limit"], proof).kept()
        assert kept is not None or how != "none"


@pytest.mark.parametrize("largest", [9, 2**27, 2**31, 2**40])
@pytest.mark.parametrize("seed", sweep(range(40), 4))
def test_the_most_beside_followed_requests(
    seed: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    limit = int(rng.integers(6, 14))
    rows = [(0, 0, limit)]  # so that none of those followed runs longer than all others
    for _ in range(6):
        prompt = int(rng.integers(0, 4))
        rows.append((int(rng.integers(3)), prompt, int(rng.integers(1, limit - prompt))))
    followed, others = [4, 5, 6], [0, 1, 2, 3]
    proof = read_proof(document_of(rows, limit, one_by_one(rows), NO_PRICES))
    tau = int(rng.integers(3))
    prices = np.zeros((limit + 1, limit + 1), dtype=np.int64)
    for state in occurring_states(rows):
        prices[state] = rng.integers(0, largest) * (rng.random() < 0.7)
    prices[min(tau, limit - 1), limit - min(tau, limit - 1)] = 1  # the first request, at most
    prices[0, limit] = 1
    left = np.array(
        [[rng.integers(rows[i][2]) * rng.integers(2) for i in followed] for _ in range(30)],
        dtype=np.int16,
    )
    ends = np.array([[False] * 7] + [[False] * 4 + list(map(bool, rng.integers(0, 2, 3)))] * 3)
    base, ended = np.repeat(np.arange(30), 4), np.tile(np.arange(4), 30)
    monkeypatch.setattr(path_states, "CELLS", 1 << int(rng.integers(4, 12)))
    beside = OtherRequests(proof, others, followed, 10**6)
    beside.set_epoch(tau, prices, left.T)
    found = beside.heaviest(base, ended, ends)
    copies: Counter[tuple[int, int]] = Counter()
    for a, s, o in (rows[i] for i in others):
        copies += Counter((s + age, o - age) for age in range(min(o - 1, tau - a) + 1))
    weights = {state: int(prices[state]) for state in copies if prices[state]}
    priced = {state: copies[state] for state in weights}
    for b, e, most in zip(base.tolist(), ended.tolist(), found.tolist(), strict=True):
        known = []
        for k, i in enumerate(followed):
            _, s, o = rows[i]
            known += [(s + o - left[b, k] - 1, left[b, k] + 1)] if left[b, k] else []
            known += [(s + o - 1, 1)] if ends[e, i] else []
        known = [(int(m), int(r)) for m, r in known]
        expected = heaviest_beside(known, priced, weights, limit)
        if expected is None:
            assert most < -(2**59)
        else:
            assert most == sum(int(prices[state]) for state in known) + expected


def test_numbers_differ_where_columns_do() -> None:
    """Also where a single key of all columns does not fit into 64 bits."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 2, (70, 40)).astype(np.int32)
    columns[:, 20:] = columns[:, :20]
    columns[69, 20:] = 1 - columns[69, :20]
    place = numbered([column * 1000 for column in columns], [1001] * 70)[1]
    assert len({*place.tolist()}) == 40
    columns[69, 20:] = columns[69, :20]
    place = numbered([column * 1000 for column in columns], [1001] * 70)[1]
    assert len({*place.tolist()}) == 20
    assert (place[:20] == place[20:]).all()


@pytest.mark.parametrize("name", ["path-search, machine", "path-search, late"])
def test_graphs_have_the_nodes_of_the_definition(name: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(path_layers, "AT_ONCE", 3)
    closed = 0
    for seed in range(examples(40)):
        document = drawn(name, seed)
        part, proof = document["instance"], document["proof"]
        proof["limit"] += seed % 3 // 2
        try:
            leaves: int | None = check_certificate(document).leaves
        except CertificateError:
            leaves = None
        assert leaves == PlainPaths(part["requests"], part["memory_limit"], proof).nodes()
        closed += bool(leaves)
    assert closed > 3
