"""Proofs by paths: what stages leave is checked by brute force, and forged ones are refused."""

from __future__ import annotations

import copy
import functools
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from brute_force import optimal_total_latency
from by_paths import BY_PATHS
from certificates_by_definition import (
    Document,
    bound_by_definition,
    document_of,
    instance_of,
    occurring_states,
    one_by_one,
)
from effort import sweep

import hindsight
from hindsight import CertificateError, check_certificate
from hindsight.certificates import limits, path_proof
from hindsight.certificates.checking import proved_bound, read_proof
from hindsight.certificates.format import (
    LIMIT,
    CertificateTooLargeError,
    MalformedCertificateError,
)
from hindsight.certificates.lighter import lighter
from hindsight.certificates.path_replay import _Sets
from hindsight.certificates.path_states import joined, numbered
from hindsight.certificates.proofs import Proof, SearchFailedError
from hindsight.certificates.writing import make_certificate
from hindsight.configurations.proofs import PathPrices

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
def result_of(name: str) -> hindsight.SolveResult:
    return hindsight.solve(instance_of(*DRAWN[name]), threads=1, method=BY_PATHS)


@functools.cache
def document(name: str = "tracked") -> Document:
    result = result_of(name)
    return make_certificate(result.schedule, result.proof, search=False, tree=False)


@pytest.mark.parametrize("name", DRAWN)
def test_proofs_of_solves_prove_the_optimum(name: str) -> None:
    optimum, _ = optimal_total_latency(instance_of(*DRAWN[name]))
    verdict = check_certificate(document(name))
    assert isinstance(result_of(name).proof, PathPrices)
    assert (verdict.kind, verdict.lower_bound) == ("path-search", optimum)
    assert verdict.is_optimal


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


def any_stages(rng: np.random.Generator, n: int, scale: int) -> list[dict[str, Any]]:
    """Everybody is followed and tracked, in any order and at any start prices."""
    followed: list[int] = []
    tracked: list[int] = []
    stages = []
    while not stages or len(tracked) < n or rng.random() < 0.3:
        start_prices = rng.integers(-2 * scale, 2 * scale, len(followed), endpoint=True).tolist()
        rest = rng.permutation([i for i in range(n) if i not in followed]).tolist()
        new = rest[: rng.integers(len(rest) + 1)]
        known = rng.permutation([i for i in (*followed, *new) if i not in tracked]).tolist()
        more = known[: rng.integers(len(known) + 1)]
        stages.append({"start_prices": start_prices, "followed": new, "tracked": more})
        followed += new
        tracked += more
    return [*stages, {"start_prices": [0] * n, "followed": [], "tracked": []}]


@pytest.mark.parametrize("seed", sweep(range(120), 12))
def test_stages_leave_what_is_within_the_limit_and_in_the_end_no_more(seed: int) -> None:
    """Paths that start each request once are schedules, whatever the stages and prices were."""
    rng = np.random.default_rng(seed)
    limit, scale = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    rows = []
    for _ in range(rng.integers(1, 5)):
        prompt = int(rng.integers(0, min(3, limit)))
        output = int(rng.integers(1, min(4, limit - prompt) + 1))
        rows.append((int(rng.choice([0, 0, 1, 4])), prompt, output))
    states = [list(state) for state in sorted(occurring_states(rows))]
    proof = {
        "kind": "path-search",
        "scale": scale,
        "states": states,
        "prices": rng.integers(0, scale + 1, (rng.integers(9), len(states))).tolist(),
        "stages": any_stages(rng, len(rows), scale),
    }
    optimum, _ = optimal_total_latency(instance_of(rows, limit))
    late = [t + 2 for t in one_by_one(rows)]
    for within in (optimum, optimum + 1):
        with pytest.raises(CertificateError, match="leave paths within"):
            check_certificate(document_of(rows, limit, late, {**proof, "limit": within}))
    below = document_of(rows, limit, late, {**proof, "limit": optimum - 1}, optimum)
    assert check_certificate(below).lower_bound == optimum


def changed(path: tuple[Any, ...], value: Any) -> Document:
    forged = copy.deepcopy(document())
    part = forged["proof"]
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return forged


@pytest.mark.parametrize(
    ("path", "value", "match"),
    [
        (("limit",), 27, "leave paths within 27"),
        (("limit",), 25, "no more than 26"),
        (("prices",), [], "leave paths within"),
        (("stages",), [], "leave paths within"),
        (("stages", 0, "followed"), [0, 3], "leave paths within"),
        (("stages", 1, "start_prices"), [9 << 12] * 3, "leave paths within"),
        (("stages", 1, "start_prices"), [-9 << 12] * 3, "leave paths within"),
    ],
)
def test_what_leaves_paths_is_refused(path: tuple[Any, ...], value: Any, match: str) -> None:
    forged = changed(path, value)
    stages = forged["proof"]["stages"]
    if path[-1] == "followed":  # as whoever forgot a request would write the rest
        stages[1]["start_prices"].pop()
        stages[1]["followed"].append(4)
    if path[-1] in ("followed", "start_prices"):
        del stages[2:]
    with pytest.raises(CertificateError, match=match) as caught:
        check_certificate(forged)
    assert not isinstance(caught.value, MalformedCertificateError)


@pytest.mark.parametrize(
    ("path", "value", "match"),
    [
        (("limit",), -1, "below 0"),
        (("limit",), 2.0, "not a whole number"),
        (("limit",), LIMIT, "too large"),
        (("stages",), {}, "not a list"),
        (("stages", 0), [], "not a JSON object"),
        (("stages", 0, "followed"), [0, 6], "no request 6"),
        (("stages", 0, "followed"), [0, -1], "below 0"),
        (("stages", 0, "followed"), [0, 0], "twice"),
        (("stages", 1, "followed"), [0], "twice"),
        (("stages", 0, "tracked"), [5], "not followed"),
        (("stages", 0, "tracked"), [10**30], "too large"),
        (("stages", 0, "followed"), "all", "not a list"),
        (("stages", 1, "start_prices"), [0], "1 start prices of 3"),
        (("stages", 1, "start_prices"), [0, 0, 0.5], "not a whole number"),
        (("stages", 1, "start_prices"), [0, 0, -LIMIT - 1], "below"),
    ],
)
def test_malformed_stages(path: tuple[Any, ...], value: Any, match: str) -> None:
    with pytest.raises(MalformedCertificateError, match=match):
        check_certificate(changed(path, value))


@pytest.mark.parametrize("k", sweep(range(20, 62), 5))
def test_large_numbers_are_exact_or_refused(k: int) -> None:
    large = [changed(("stages", 1, "start_prices"), [0, price, 0]) for price in (1 << k, -1 << k)]
    # And the same proof in smaller units.
    finer = copy.deepcopy(document())
    proof, factor = finer["proof"], 1 << (k - 20)
    proof["scale"] *= factor
    proof["prices"] = [[factor * price for price in row] for row in proof["prices"]]
    for stage in proof["stages"]:
        stage["start_prices"] = [factor * price for price in stage["start_prices"]]
    for forged in (*large, finer):
        if k >= 60:
            with pytest.raises(CertificateTooLargeError, match="too large"):
                check_certificate(forged)
        elif k <= 50:  # No start prices are wrong: later stages drop what these do not.
            assert check_certificate(forged).is_optimal


def work_of(document: Document) -> int:
    proof = read_proof(document)
    proof.bound()
    return proof.work


def test_work_is_counted_and_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, work = document(), work_of(document())
    monkeypatch.setattr(limits, "LEAST_SIZE", limits.FULL_SIZE)
    monkeypatch.setattr(limits, "LARGEST_WORK", work)
    assert check_certificate(honest).is_optimal
    monkeypatch.setattr(limits, "LARGEST_WORK", work - 1)
    with pytest.raises(CertificateTooLargeError, match="takes more than this checker does"):
        check_certificate(honest)


def test_nodes_are_counted_while_they_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request that may end in a round doubles the nodes: all are counted before the next."""
    events: list[tuple[str, int]] = []
    with_one_more = _Sets.with_one_more

    def spend(proof: Proof, numbers: int) -> None:
        events.append(("spent", numbers))

    def doubled(sets: _Sets, numbers: Any, i: int) -> Any:
        events.append(("doubled", len(numbers)))
        return with_one_more(sets, numbers, i)

    monkeypatch.setattr(Proof, "spend", spend)
    monkeypatch.setattr(_Sets, "with_one_more", doubled)
    rows = [(0, 1, 2), (0, 2, 2), (0, 3, 2)]
    stages = [{"start_prices": [], "followed": [0, 1, 2], "tracked": []}]
    proof = {"kind": "path-search", "scale": 1, "states": [], "prices": [], "stages": stages}
    with pytest.raises(SearchFailedError):
        check_certificate(document_of(rows, 20, [1, 1, 1], {**proof, "limit": 8}))
    following = [(size, after) for (kind, size), after in pairwise(events) if kind == "doubled"]
    assert max(size for size, _ in following) >= 4
    for size, (kind, numbers) in following:
        assert kind == "spent"
        assert numbers >= limits.CALL + 20 * size


def test_the_number_of_stages_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = document()
    monkeypatch.setattr(path_proof, "MOST_STAGES", len(honest["proof"]["stages"]))
    assert check_certificate(honest).is_optimal
    monkeypatch.setattr(path_proof, "MOST_STAGES", len(honest["proof"]["stages"]) - 1)
    with pytest.raises(CertificateTooLargeError, match="stages: too many"):
        check_certificate(honest)


def test_a_short_proof_may_take_a_part_of_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.part_of(1000, limits.FULL_SIZE // 2) == 500
    assert limits.part_of(1000, 10**9) == 1000
    assert limits.part_of(1000, 0) == limits.part_of(1000, limits.LEAST_SIZE) > 0
    honest = document()
    size = read_proof(honest).size  # type: ignore[attr-defined]
    numbers = [*honest["proof"]["prices"], *honest["instance"]["requests"]]
    for stage in honest["proof"]["stages"]:
        numbers += stage.values()
    assert size == sum(map(len, numbers)) > limits.LEAST_SIZE
    monkeypatch.setattr(limits, "LARGEST_WORK", work_of(honest) * limits.FULL_SIZE // size)
    with pytest.raises(CertificateTooLargeError, match="takes more than this checker does"):
        check_certificate(honest)


@pytest.mark.parametrize("limit", ["LARGEST_GRAPH", "LARGEST_TABLES", "LARGEST_AXIS"])
def test_graphs_too_large_are_given_up(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = document()
    monkeypatch.setattr(limits, limit, 3)
    with pytest.raises(CertificateTooLargeError):
        check_certificate(honest)


def test_a_limit_far_off_takes_no_memory() -> None:
    with pytest.raises(CertificateTooLargeError, match="too many epochs"):
        proved_bound(changed(("limit",), 10**9))


def test_what_the_schedule_contradicts_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_proof, "PathReplay", None)
    with pytest.raises(SearchFailedError, match="leave paths within 27"):
        check_certificate(changed(("limit",), 27))


def test_what_the_checker_gives_up_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    result = result_of("tracked")
    monkeypatch.setattr(limits, "LARGEST_GRAPH", 3)
    weaker = make_certificate(result.schedule, result.proof, search=False, tree=False)
    assert check_certificate(weaker).kind == "state-prices"
    assert weaker["lower_bound"] == bound_by_definition(weaker) < result.upper_bound


@pytest.mark.parametrize("largest", [50, 2**61])  # sorted with their places, and without
def test_equal_keys_are_numbered_alike(largest: int) -> None:
    keys = np.random.default_rng(0).integers(0, 50, 400) * (largest // 50)
    chosen, place = numbered(keys, largest)
    assert keys[chosen].tolist() == sorted({*keys.tolist()})
    assert keys[chosen][place].tolist() == keys.tolist()


def test_joined_numbers_differ_where_columns_do() -> None:
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 2, (70, 40)).astype(np.int32)
    columns[:, 20:] = columns[:, :20]
    columns[69, 20:] = 1 - columns[69, :20]
    keys, largest = joined([column * 1000 for column in columns], [1001] * 70)
    assert keys.max() < largest
    assert (keys[:20] != keys[20:]).all()
    columns[69, 20:] = columns[69, :20]
    keys, largest = joined([column * 1000 for column in columns], [1001] * 70)
    assert keys.max() < largest
    assert (keys[:20] == keys[20:]).all()
