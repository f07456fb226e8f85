"""Lighter proofs by paths: they prove the same."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
from by_paths import BY_PATHS
from certificates_by_definition import Document, instance_of

import hindsight
from hindsight import check_certificate
from hindsight.certificates.lighter import lighter
from hindsight.certificates.writing import make_certificate

Row = tuple[int, int, int]

DRAWN: dict[str, tuple[list[Row], int]] = {
    "tracked": ([(1, 3, 4), (3, 1, 1), (1, 3, 2), (0, 1, 3), (1, 2, 6), (1, 1, 1)], 8),
    "all of it tracked": ([(0, 2, 4), (1, 0, 4), (3, 2, 6), (0, 1, 6), (3, 1, 3), (1, 1, 2)], 9),
    "nothing left of the last ones tracked": (
        [(1, 1, 4), (2, 2, 4), (4, 0, 3), (2, 2, 1), (1, 2, 4), (4, 1, 3), (2, 2, 1)],
        6,
    ),
    "twins": ([(3, 1, 3), (0, 2, 3), (1, 0, 4), (1, 2, 1), (1, 2, 1)], 6),
    "after a gap": ([(0, 0, 1), (9, 2, 4), (12, 3, 4), (9, 1, 4), (12, 0, 4), (12, 0, 3)], 7),
}


@functools.cache
def document(name: str = "tracked") -> Document:
    result = hindsight.solve(instance_of(*DRAWN[name]), threads=1, method=BY_PATHS)
    return make_certificate(result.schedule, result.proof, search=False)


@pytest.mark.parametrize("name", DRAWN)
def test_a_lighter_proof_tells_the_same_requests_apart_in_fewer_graphs(name: str) -> None:
    given = document(name)
    before = copy.deepcopy(given)
    light = lighter(given)
    assert given == before
    assert check_certificate(light).lower_bound == check_certificate(given).lower_bound
    old, new = given["proof"]["stages"], light["proof"]["stages"]
    graphs = [sum(bool(one["followed"] or one["tracked"]) for one in some) for some in (old, new)]
    assert graphs[1] < graphs[0] or light == given
    assert len(new) == len(old)
    for key in ("followed", "tracked"):
        told = [sorted(i for stage in stages for i in stage[key]) for stages in (old, new)]
        assert told[0] == told[1]
    # Joined stages keep what each request pays at each of the old ones.
    for was, now in zip(priced(old), priced(new), strict=True):
        assert was.items() <= now.items()
        assert not any(price for i, price in now.items() if i not in was)


def priced(stages: list[dict[str, Any]]) -> list[dict[int, int]]:
    followed: list[int] = []
    by_request = []
    for stage in stages:
        by_request.append(dict(zip(sorted(followed), stage["start_prices"], strict=True)))
        followed += stage["followed"]
    return by_request


def test_some_proofs_become_lighter_and_others_stay() -> None:
    assert any(lighter(document(name)) != document(name) for name in DRAWN)
    other = {**document(), "proof": {**document()["proof"], "kind": "state-prices"}}
    assert lighter(other) == other
    assert lighter(document(), lambda: True) == document()
