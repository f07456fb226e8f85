"""The checker of certificates against adversaries: no false claim passes, whatever a file says."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
from collections.abc import Callable
from typing import Any

import pytest
from brute_force import (
    is_feasible_by_definition,
    optimal_total_latency,
    total_latency_by_definition,
)
from by_paths import BY_PATHS
from certificates_by_definition import (
    Document,
    bound_by_definition,
    document_of,
    instance_of,
    occurring_states,
    one_by_one,
    places,
)
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from preemptive_by_definition import is_feasible_in_rounds, preemptive_optimum, rounds_of

import hindsight
from hindsight import CertificateError, check_certificate
from hindsight.certificates.checking import proved_bound
from hindsight.certificates.writing import make_certificate

Row = tuple[int, int, int]

NOTHING: dict[str, Any] = {"kind": "memory-prices", "scale": 1, "prices": []}
"""The proof that every request runs for its output length."""


@st.composite
def problems(draw: DrawFn, most_requests: int = 4) -> tuple[list[Row], int]:
    """Rows (a, s, o), prompts of length 0 included, and M; few lengths, so that twins occur."""
    limit = draw(st.integers(2, 8))
    rows = []
    for _ in range(draw(st.integers(1, most_requests))):
        prompt = draw(st.integers(0, min(3, limit - 1)))
        output = draw(st.integers(1, min(4, limit - prompt)))
        rows.append((draw(st.sampled_from([0, 0, 1, 2, 5])), prompt, output))
    return rows, limit


@st.composite
def memory_proofs(draw: DrawFn, rows: list[Row], limit: int) -> dict[str, Any]:
    scale = draw(st.integers(1, 12))
    prices = draw(st.lists(st.integers(0, scale), max_size=9))
    return {"kind": "memory-prices", "scale": scale, "prices": prices}


@st.composite
def state_proofs(draw: DrawFn, rows: list[Row], limit: int) -> dict[str, Any]:
    scale = draw(st.integers(1, 5))
    occurring = sorted(occurring_states(rows))
    states = draw(st.lists(st.sampled_from(occurring), unique=True))
    prices = st.lists(st.integers(0, 2 * scale), min_size=len(states), max_size=len(states))
    return {
        "kind": "state-prices",
        "scale": scale,
        "states": [list(state) for state in states],
        "prices": draw(st.lists(prices, max_size=7)),
    }


@st.composite
def tree_proofs(draw: DrawFn, rows: list[Row], limit: int) -> dict[str, Any]:
    scale = draw(st.integers(1, 6))
    anywhere = [(m, r) for m in range(limit) for r in range(1, limit - m + 1)]
    states = st.sampled_from(sorted(occurring_states(rows))) | st.sampled_from(anywhere)
    tables = draw(
        st.lists(st.dictionaries(states, st.integers(0, 4), max_size=6), min_size=1, max_size=2)
    )
    entries = st.dictionaries(
        st.tuples(st.integers(0, len(tables) - 1), st.integers(0, 8)),
        st.integers(0, scale),
        max_size=8,
    )
    sets = draw(st.lists(entries, min_size=1, max_size=3))
    nodes: list[Any] = []

    def grow(windows: list[tuple[int, int | None]], depth: int) -> None:
        i = draw(st.integers(0, len(rows) - 1))
        first, last = windows[i]
        if depth and draw(st.booleans()) and (last is None or first < last):
            t = draw(st.integers(first, first + 6 if last is None else last - 1))
            nodes.append([i, t])
            grow([*windows[:i], (first, t), *windows[i + 1 :]], depth - 1)
            grow([*windows[:i], (t + 1, last), *windows[i + 1 :]], depth - 1)
        else:
            nodes.append(draw(st.integers(0, len(sets) - 1)))

    grow([(a, None) for a, _, _ in rows], 3)
    return {
        "kind": "window-tree",
        "scale": scale,
        "tables": [[[m, r, w] for (m, r), w in table.items()] for table in tables],
        "prices": [[[k, tau, y] for (k, tau), y in prices.items()] for prices in sets],
        "tree": nodes,
    }


@st.composite
def preemptive_memory_proofs(draw: DrawFn, rows: list[Row], limit: int) -> dict[str, Any]:
    return {**draw(memory_proofs(rows, limit)), "kind": "preemptive-memory-prices"}


@st.composite
def preemptive_proofs(draw: DrawFn, rows: list[Row], limit: int) -> dict[str, Any]:
    scale = draw(st.integers(1, 5))
    tokens = sorted(draw(st.sets(st.integers(1, limit), max_size=6)))
    prices = st.lists(st.integers(0, 2 * scale), min_size=len(tokens), max_size=len(tokens))
    return {
        "kind": "preemptive-prices",
        "scale": scale,
        "tokens": tokens,
        "prices": draw(st.lists(prices, max_size=6)),
    }


PROOFS = {
    "memory": memory_proofs,
    "states": state_proofs,
    "tree": tree_proofs,
    "preemptive-memory": preemptive_memory_proofs,
    "preemptive": preemptive_proofs,
}


@pytest.mark.parametrize("kind", PROOFS)
@given(data=st.data())
def test_any_prices_prove_what_the_definition_says(kind: str, data: st.DataObject) -> None:
    rows, limit = data.draw(problems())
    proof = data.draw(PROOFS[kind](rows, limit))
    document = document_of(rows, limit, one_by_one(rows), proof)
    bound = proved_bound(document)
    assert bound == bound_by_definition(document)
    assert bound <= optimum_of(tuple(rows), limit, "stretches" in document)
    if bound > 0:
        assert check_certificate({**document, "lower_bound": bound}).lower_bound == bound
    with pytest.raises(CertificateError, match="no more than"):
        check_certificate({**document, "lower_bound": max(bound, -1) + 1})


@given(data=st.data())
def test_a_search_exhausts_what_is_below_the_optimum_and_no_more(data: st.DataObject) -> None:
    rows, limit = data.draw(problems())
    starts = one_by_one(rows)
    late = [t + 2 for t in starts]  # so that no claim tried exceeds the upper bound
    optimum = optimal_total_latency(instance_of(rows, limit))[0]
    budget = optimum + data.draw(st.integers(-2, 1))
    proof = {
        **data.draw(state_proofs(rows, limit)),
        "kind": "state-search",
        "budget": max(budget, 0),
        "kept": 10**5,
    }
    document = document_of(rows, limit, late, proof, max(budget, 0) + 1)
    if budget < optimum:
        verdict = check_certificate(document)
        assert verdict.lower_bound <= optimum
        least = {**document, "proof": {**proof, "kept": verdict.leaves}}
        assert check_certificate(least).leaves == verdict.leaves
        with pytest.raises(CertificateError, match="needs more than"):
            check_certificate({**document, "proof": {**proof, "kept": verdict.leaves - 1}})
    else:
        with pytest.raises(CertificateError, match="a schedule within"):
            check_certificate(document)


def test_a_search_counts_on_later_starts_that_are_cheaper() -> None:
    """Prices fall after epoch 0: what a request still costs is the least from here on, not so far.

    Two requests of one round, one at a time, have the optimum 1 + 2. Starting at 0 costs each
    1 + 5, at 1 only 2; counted with 6 both, the search would be over before it began, and prove 4.
    """
    rows, limit = [(0, 1, 1), (0, 1, 1)], 2
    assert optimal_total_latency(instance_of(rows, limit))[0] == 3
    proof = {"kind": "state-search", "scale": 1, "states": [[1, 1]], "prices": [[5]], "kept": 9}
    honest = document_of(rows, limit, [2, 3], {**proof, "budget": 2}, 3)
    assert check_certificate(honest).lower_bound == 3
    with pytest.raises(CertificateError, match="a schedule within"):
        check_certificate(document_of(rows, limit, [2, 3], {**proof, "budget": 3}, 4))


@given(data=st.data())
def test_only_feasible_schedules_pass(data: st.DataObject) -> None:
    rows, limit = data.draw(problems())
    starts = [data.draw(st.integers(0, 7)) for _ in rows]
    document = document_of(rows, limit, starts, NOTHING)
    if any(t < a for (a, _, _), t in zip(rows, starts, strict=True)):
        with pytest.raises(CertificateError, match="before it arrives|below 0"):
            check_certificate(document)
    elif is_feasible_by_definition(instance_of(rows, limit), starts):
        verdict = check_certificate(document)
        assert verdict.upper_bound == document["upper_bound"]
    else:
        with pytest.raises(CertificateError, match="round . holds|round .. holds"):
            check_certificate(document)


@pytest.mark.parametrize("beside", range(9))
def test_any_number_of_twins_may_be_the_heaviest(beside: int) -> None:
    """Nine fill the memory by themselves; so many of them fit beside a heavy one."""
    rows = [(0, 0, 1)] * 9 + [(0, 8 - beside, 1)]
    states = [[0, 1], [8 - beside, 1]] if beside < 8 else [[0, 1]]
    proof = {
        "kind": "state-prices",
        "scale": 1,
        "states": states,
        "prices": [[1, 100][: len(states)]],
    }
    document = document_of(rows, 9, one_by_one(rows), proof)
    # Ten start at 1 instead, where nothing is paid; the heaviest configuration comes off.
    assert proved_bound(document) == 20 - (100 + beside if beside < 8 else 9)
    assert proved_bound(document) == bound_by_definition(document)


# Mutations of certificates that prove the optimum.


@functools.cache
def optimum_of(rows: tuple[Row, ...], limit: int, preemptive: bool = False) -> int:
    if preemptive:
        return preemptive_optimum(rows, limit)
    return optimal_total_latency(instance_of(rows, limit))[0]


VALID: dict[str, tuple[list[Row], int]] = {
    "memory-prices": ([(0, 0, 2), (0, 1, 1), (1, 3, 2), (0, 0, 2)], 5),
    "state-prices": ([(0, 1, 3), (1, 2, 3), (1, 1, 2), (4, 3, 2)], 6),
    "state-search": ([(0, 2, 2), (0, 2, 2), (1, 1, 2), (0, 3, 1)], 5),
    "path-search": ([(1, 3, 4), (3, 1, 1), (1, 3, 2), (0, 1, 3), (1, 2, 6), (1, 1, 1)], 8),
    "window-tree": ([(0, 1, 1), (0, 1, 1), (0, 1, 4), (0, 3, 4)], 8),
    "preemptive-memory-prices": ([(0, 0, 2), (0, 1, 1), (1, 3, 2), (0, 0, 2)], 5),
    "preemptive-prices": ([(0, 1, 4), (1, 3, 1), (2, 3, 1)], 5),
}


@functools.cache
def valid(kind: str) -> Document:
    """A certificate of an optimum whose proof is of that kind."""
    rows, limit = VALID[kind]
    instance = instance_of(rows, limit)
    if kind.startswith("preemptive-"):
        found = hindsight.solve(instance, preemptive=True)
        proof = found.proof if kind == "preemptive-prices" else None
        document = make_certificate(found.schedule, proof)
        assert document["proof"]["kind"] == kind
        assert check_certificate(document).is_optimal
        return document
    method = BY_PATHS if kind == "path-search" else "auto"
    result = hindsight.solve(instance, method=method)
    proof = None if kind in ("memory-prices", "window-tree") else result.proof
    document = make_certificate(
        result.schedule, proof, search=kind == "state-search", tree=kind == "window-tree"
    )
    assert document["proof"]["kind"] == kind
    assert check_certificate(document).is_optimal
    return document


def change_one_thing(draw: Callable[..., Any], document: Document) -> None:
    path = draw(st.sampled_from(places(document)))
    for key in path[:-1]:
        document = document[key]
    place, key = document, path[-1]
    how = draw(st.sampled_from(["number", "drop", "repeat", "swap", "other"]))
    if how == "number" and type(place[key]) is int:
        near = [place[key] + step for step in (-2, -1, 1, 2)]
        place[key] = draw(st.sampled_from([*near, 0, 1, 2 * place[key], 1000 * place[key]]))
    elif isinstance(place, list) and how == "drop":
        del place[key]
    elif isinstance(place, list) and how == "repeat":
        place.insert(key, copy.deepcopy(place[key]))
    elif isinstance(place, list) and how == "swap":
        other = draw(st.integers(0, len(place) - 1))
        place[key], place[other] = place[other], place[key]
    elif how == "other":
        place[key] = draw(st.sampled_from([None, True, 1.0, "0", [], {}, [0], -1, 2**70]))


def make_consistent(draw: Callable[..., Any], document: Document) -> None:
    """What an adversary does after a change: digest and bounds that fit, claim what is proved."""
    with contextlib.suppress(Exception):
        part = document["instance"]
        part["digest"] = instance_of(part["requests"], part["memory_limit"]).digest
        if draw(st.booleans()):
            starts = one_by_one(part["requests"])
            proof = document["proof"]
            for key in ("start_times", "stretches"):
                if key in document:
                    document[key] = document_of(part["requests"], 10**6, starts, proof)[key]
    with contextlib.suppress(Exception):
        rows = document["instance"]["requests"]
        if "stretches" in document:
            ends = [own[-1][-1] for own in document["stretches"]]
        else:
            starts = document["start_times"]
            ends = [t + o for (_, _, o), t in zip(rows, starts, strict=True)]
        document["upper_bound"] = sum(ends) - sum(a for a, _, _ in rows)
    with contextlib.suppress(CertificateError, KeyError, TypeError):
        document["lower_bound"] = max(0, proved_bound(document))


@pytest.mark.parametrize("kind", VALID)
@settings(max_examples=examples(4000, brief=100))
@given(data=st.data())
def test_no_mutated_certificate_proves_what_is_false(kind: str, data: st.DataObject) -> None:
    document = copy.deepcopy(valid(kind))
    for _ in range(data.draw(st.integers(1, 3) | st.integers(1, 6))):
        change_one_thing(data.draw, document)
    if data.draw(st.integers(0, 3)):
        make_consistent(data.draw, document)
    accepts_only_what_is_true(document)


def accepts_only_what_is_true(document: Document) -> None:
    try:
        verdict = check_certificate(json.loads(json.dumps(document)))
    except CertificateError:
        return
    part = document["instance"]
    rows = tuple(tuple(row) for row in part["requests"])
    limit, preemptive = part["memory_limit"], "stretches" in document
    assert verdict.preemptive == preemptive == verdict.kind.startswith("preemptive-")
    if max(a for a, _, _ in rows) > 20 or sum(o for _, _, o in rows) > (16 if preemptive else 40):
        return  # brute force would walk through all of these rounds
    if preemptive:
        rounds = rounds_of(document["stretches"])
        assert is_feasible_in_rounds(rows, limit, rounds)
        total = sum(own[-1] - a for (a, _, _), own in zip(rows, rounds, strict=True))
    else:
        instance = instance_of(rows, limit)
        assert is_feasible_by_definition(instance, document["start_times"])
        total = total_latency_by_definition(instance, document["start_times"])
    assert total == document["upper_bound"] == verdict.upper_bound
    assert document["lower_bound"] == verdict.lower_bound
    assert verdict.lower_bound <= optimum_of(rows, limit, preemptive) <= verdict.upper_bound


@pytest.mark.parametrize("kind", VALID)
def test_one_more_than_the_optimum_is_never_proved(kind: str) -> None:
    """Not by the proof as it is, nor by a search for more; a later schedule leaves room for it."""
    document = copy.deepcopy(valid(kind))
    optimum = document["upper_bound"]
    rows = document["instance"]["requests"]
    limit = document["instance"]["memory_limit"]
    document = document_of(rows, limit, [t + 1 for t in one_by_one(rows)], document["proof"])
    document["lower_bound"] = optimum
    assert document["upper_bound"] > optimum
    assert check_certificate(document).lower_bound == optimum
    document["lower_bound"] = optimum + 1
    with pytest.raises(CertificateError, match="no more than"):
        check_certificate(document)
    if kind == "state-search":
        document["proof"].update(budget=optimum, kept=10**6)
        with pytest.raises(CertificateError, match="a schedule within"):
            check_certificate(document)


@pytest.mark.parametrize("proof_kind", VALID)
@pytest.mark.parametrize("kind", VALID)
def test_proofs_of_the_two_optima_are_not_mixed(kind: str, proof_kind: str) -> None:
    """A proof that holds without preemption only says nothing of schedules that stop requests."""
    rows, limit = VALID[proof_kind]
    document = document_of(rows, limit, one_by_one(rows), valid(kind)["proof"])
    document["proof"] = valid(proof_kind)["proof"]
    if kind.startswith("preemptive-") == proof_kind.startswith("preemptive-"):
        assert check_certificate(document).kind == proof_kind
    else:
        with pytest.raises(CertificateError, match="of another optimum"):
            check_certificate(document)
    both = {**document, "start_times": one_by_one(rows), "stretches": []}
    with pytest.raises(CertificateError, match="unknown key 'start_times'"):
        check_certificate(both)


def test_the_optimum_without_preemption_is_no_bound_with_it() -> None:
    """Why they are not mixed: to stop the long request once beats any schedule without that."""
    rows, limit = [(0, 1, 9), (1, 8, 1)], 10
    assert optimum_of(tuple(rows), limit) == 12
    assert optimum_of(tuple(rows), limit, preemptive=True) == 11
    document = document_of(rows, limit, [0, 9], {**NOTHING, "kind": "preemptive-memory-prices"})
    assert check_certificate(document).upper_bound == 18
    document.update(stretches=[[[1, 1], [3, 10]], [[2, 2]]], upper_bound=11)
    assert check_certificate(document).upper_bound == 11
    document.update(stretches=[[[1, 2], [3, 10]], [[2, 2]]], upper_bound=11)
    with pytest.raises(CertificateError, match="runs 10 rounds, not 9"):
        check_certificate(document)
    document.update(stretches=[[[1, 9]], [[2, 2]]], upper_bound=10)
    with pytest.raises(CertificateError, match="round 2 holds 12 of 10"):
        check_certificate(document)


@given(data=st.data())
def test_only_feasible_stretches_pass(data: st.DataObject) -> None:
    rows, limit = data.draw(problems())
    rounds = []
    for a, _, o in rows:
        steps = data.draw(st.lists(st.sampled_from([1, 1, 1, 2, 3]), min_size=o, max_size=o))
        first = data.draw(st.integers(max(0, a - 1), a + 3))
        rounds.append([first + sum(steps[:k]) + 1 for k in range(o)])
    document = document_of(
        rows, limit, one_by_one(rows), {**NOTHING, "kind": "preemptive-memory-prices"}
    )
    document["stretches"] = [[[r, r] for r in own] for own in rounds]
    document["upper_bound"] = sum(own[-1] - a for (a, _, _), own in zip(rows, rounds, strict=True))
    if is_feasible_in_rounds(rows, limit, rounds):
        assert check_certificate(document).upper_bound == document["upper_bound"]
    else:
        with pytest.raises(CertificateError, match="before it arrives|holds"):
            check_certificate(document)
