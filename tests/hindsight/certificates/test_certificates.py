"""Certificates: what is written proves what it claims, and what was tampered with does not."""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from brute_force import optimal_total_latency
from drawn_instances import drawn_instance
from effort import examples, sweep
from hypothesis import given, settings
from hypothesis import strategies as st
from preemptive_by_definition import preemptive_optimum
from strategies import instances as any_instances

import hindsight
from hindsight import CertificateError, check_certificate, read_certificate
from hindsight.bounds.idle_gaps import compress
from hindsight.certificates import proofs
from hindsight.certificates.checking import proved_bound
from hindsight.certificates.format import MalformedCertificateError
from hindsight.certificates.reading import state_prices_of
from hindsight.certificates.replay import Prices, TooManyStatesError, count_states
from hindsight.certificates.writing import bound_of_prices, make_certificate
from hindsight.configurations.proofs import PathPrices, StatePrices
from hindsight.exact_search.branch_and_bound import prove_by_windows, suits_tree
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.preemption.prices import PreemptivePrices, preemptive_price_bound
from hindsight.runtime import clock as clock_module
from hindsight.strategies.configurations import Configurations
from hindsight.strategies.paths import Paths
from instances import (
    FileFormatError,
    Instance,
    InvalidValueError,
    PreemptiveSchedule,
    Schedule,
    generate,
)

Document = dict[str, Any]


def tiny(seed: int) -> Instance:
    last = 5 if seed % 2 else None
    return drawn_instance([71, seed], (2, 5), (5, 12), prompts=(1, 3), last_arrival=last)


HARD = Instance.from_arrays([3, 1, 2, 1, 3, 2], [6, 9, 4, 7, 3, 8], memory_limit=12)
"""The root's prices do not prove its optimum: the tree has splits."""


def optimal_schedule(instance: Instance) -> Schedule:
    return Schedule(instance, optimal_total_latency(instance)[1])


@pytest.fixture(scope="module")
def tree() -> Document:
    document = make_certificate(optimal_schedule(HARD))
    assert document["proof"]["kind"] == "window-tree"
    assert any(isinstance(node, list) for node in document["proof"]["tree"])
    return document


@pytest.fixture(scope="module")
def states() -> Document:
    result = hindsight.solve(HARD)
    document = make_certificate(result.schedule, result.proof, search=False, tree=False)
    assert document["proof"]["kind"] == "state-prices"
    return document


@pytest.fixture(scope="module")
def search() -> Document:
    result = hindsight.solve(HARD)
    document = make_certificate(result.schedule, result.proof, tree=False)
    assert document["proof"]["kind"] == "state-search"
    return document


@pytest.fixture(scope="module")
def memory() -> Document:
    document = make_certificate(optimal_schedule(HARD), tree=False)
    assert document["proof"]["kind"] == "memory-prices"
    return document


@pytest.mark.parametrize("seed", sweep(range(60)))
def test_trees_prove_the_optimum(seed: int) -> None:
    instance = tiny(seed)
    optimum, starts = optimal_total_latency(instance)
    document = make_certificate(Schedule(instance, starts))
    verdict = check_certificate(json.loads(json.dumps(document)))
    assert (verdict.lower_bound, verdict.upper_bound) == (optimum, optimum)
    assert verdict.is_optimal


@pytest.mark.parametrize("seed", sweep(range(20)))
def test_prices_of_a_solve_round_trip(seed: int, tmp_path: Path) -> None:
    instance = tiny(seed)
    result = hindsight.solve(instance)
    path = tmp_path / "certificate.json"
    written = hindsight.write_certificate(result, path, search=False, tree=False)
    assert check_certificate(read_certificate(path)) == written
    assert written.lower_bound <= result.upper_bound == optimal_total_latency(instance)[0]
    if result.root_bound is not None and not compress(instance).shifts.any():
        assert written.lower_bound >= result.root_bound


def test_a_suboptimal_schedule_is_certified_as_an_interval() -> None:
    optimum, starts = optimal_total_latency(HARD)
    later = Schedule(HARD, [t + 1 for t in starts])
    tree = prove_by_windows(HARD, later)
    assert tree.lower_bound <= optimum
    assert not tree.is_complete
    verdict = check_certificate(make_certificate(later))
    assert verdict.lower_bound <= optimum < verdict.upper_bound


@given(any_instances(max_requests=4, max_memory=9))
@settings(max_examples=examples(25))
def test_any_instance_can_be_certified(instance: Instance) -> None:
    optimum, starts = optimal_total_latency(instance)
    verdict = check_certificate(make_certificate(Schedule(instance, starts)))
    assert verdict.is_optimal
    assert verdict.lower_bound == optimum


def test_a_prompt_of_length_zero() -> None:
    instance = Instance.from_arrays(
        [0, 0, 1, 0], [3, 4, 3, 2], memory_limit=5, metadata={"allow_zero_prompt_length": True}
    )
    assert check_certificate(make_certificate(optimal_schedule(instance))).is_optimal


def test_idle_gaps() -> None:
    instance = Instance.from_arrays(
        [3, 1, 2, 3, 1, 2], [4, 5, 3, 4, 5, 3], [0, 0, 1, 500, 500, 501], memory_limit=8
    )
    result = hindsight.solve(instance)
    verdict = check_certificate(make_certificate(result.schedule, result.proof, tree=False))
    assert verdict.lower_bound <= verdict.upper_bound == result.upper_bound
    assert check_certificate(make_certificate(result.schedule, result.proof)).is_optimal


def test_prices_move_with_their_blocks() -> None:
    shifts, arrivals = np.array([0, 7]), np.array([0, 2])
    memory = MemoryPrices(np.array([1, 2, 3, 4]), 5)
    moved = memory.moved(arrivals, shifts)
    assert isinstance(moved, MemoryPrices)
    assert moved.numerators.tolist() == [1, 2, 0, 0, 0, 0, 0, 0, 0, 3, 4]
    Q = np.arange(16, dtype=np.int64).reshape(4, 2, 2)
    states = StatePrices(Q).moved(arrivals, shifts)
    assert isinstance(states, StatePrices)
    assert states.prices[9:].tolist() == Q[2:].tolist()
    assert states.without_gaps(arrivals, shifts).prices.tolist() == Q.tolist()
    # Prices of epochs that end within the gap, and of none.
    assert StatePrices(Q).without_gaps(arrivals, shifts).prices.tolist() == Q[:2].tolist()
    assert len(StatePrices(Q[:0]).without_gaps(arrivals, shifts).prices) == 0
    assert memory.moved(arrivals, np.zeros(2, dtype=np.int64)) is memory
    # Row r is that of round r, which follows epoch r - 1; row 0 stays.
    by_round = np.array([[0, 0], [1, 2], [3, 4], [5, 6], [7, 8]])
    rounds = PreemptivePrices(by_round, 5).moved(arrivals, shifts)
    assert isinstance(rounds, PreemptivePrices)
    assert rounds.numerators[:, 0].tolist() == [0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 5, 7]
    assert rounds.denominator == 5


@pytest.mark.parametrize("kind", ["state-prices", "path-search"])
def test_prices_are_read_back(kind: str) -> None:
    instance = generate("arrival-model-2", 0, n=8)
    method = Paths(Configurations(moves=10, move_slice=10, corridor_states=1, states=1))
    result = hindsight.solve(instance, method=method, threads=1)
    assert isinstance(result.proof, PathPrices)
    known = result.proof if kind == "path-search" else result.proof.prices
    document = make_certificate(result.schedule, known, search=False, tree=False)
    assert document["proof"]["kind"] == kind
    prices = state_prices_of(document)
    assert prices is not None
    assert prices.prices.shape[1:] == (instance.memory_limit + 1,) * 2
    proved = bound_of_prices(instance, prices)
    assert bound_of_prices(instance, result.proof.prices) - 1 <= proved <= result.lower_bound
    assert state_prices_of(make_certificate(result.schedule, None)) is None
    document["proof"]["prices"][0].pop()
    with pytest.raises(MalformedCertificateError, match="prices"):
        state_prices_of(document)
    with pytest.raises(MalformedCertificateError, match="instance"):
        state_prices_of({"proof": document["proof"]})


@pytest.mark.parametrize("seed", sweep(range(8)))
def test_preemptive_results_are_certified_by_their_prices(seed: int, tmp_path: Path) -> None:
    """The verified lower bound is that of prices alone; the solver's may be above it."""
    instance = tiny(seed)
    if len(instance) > 4:
        instance = Instance(instance.requests[:4], instance.memory_limit)
    rows = [(q.arrival_time, q.prompt_length, q.output_length) for q in instance]
    result = hindsight.solve(instance, preemptive=True)
    verdict = hindsight.write_certificate(result, tmp_path / "c.json")
    assert verdict.preemptive
    assert (
        verdict.upper_bound == result.upper_bound == preemptive_optimum(rows, instance.memory_limit)
    )
    assert verdict.lower_bound <= result.lower_bound
    if result.proof is not None:
        assert isinstance(result.proof, PreemptivePrices)
        assert verdict.lower_bound >= preemptive_price_bound(instance, result.proof)
    assert check_certificate(read_certificate(tmp_path / "c.json")) == verdict


def test_proofs_of_the_other_optimum_are_not_written() -> None:
    instance = Instance.from_arrays([1, 2], [2, 2], memory_limit=5)
    schedule = Schedule(instance, [0, 2])
    stopping = PreemptiveSchedule.from_schedule(schedule)
    rounds, states = np.zeros((3, 6), dtype=np.int64), np.zeros((2, 6, 6), dtype=np.int64)
    with pytest.raises(InvalidValueError, match="of another optimum"):
        make_certificate(schedule, PreemptivePrices(rounds, 1))
    with pytest.raises(InvalidValueError, match="of another optimum"):
        make_certificate(stopping, StatePrices(states))
    # Prices of a token hold for both.
    prices = MemoryPrices(np.array([1]), 4)
    for shown, kind in ((schedule, "memory-prices"), (stopping, "preemptive-memory-prices")):
        document = make_certificate(shown, prices, search=False, tree=False)
        assert document["proof"]["kind"] == kind
        assert check_certificate(document).upper_bound == schedule.total_latency


def test_a_time_limit_leaves_a_valid_tree() -> None:
    tree = prove_by_windows(HARD, optimal_schedule(HARD), time_limit=0)
    assert tree.leaves >= 1
    assert tree.lower_bound <= optimal_total_latency(HARD)[0]


def test_a_proof_is_taken_only_where_it_can_be_checked_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a clock that the checker's own count of its work drives."""
    result = hindsight.solve(HARD)
    clock = 0.0
    spend = proofs.Proof._spend

    def spend_time(self: Any, numbers: int) -> None:
        nonlocal clock
        clock += numbers
        spend(self, numbers)

    monkeypatch.setattr(proofs.Proof, "_spend", spend_time)
    monkeypatch.setattr(clock_module, "time", SimpleNamespace(monotonic=lambda: clock))

    def written(limit: float | None) -> tuple[str, int, float]:
        nonlocal clock
        clock = 0.0
        document = make_certificate(result.schedule, result.proof, tree=False, time_limit=limit)
        verdict = check_certificate(document)
        return verdict.kind, verdict.lower_bound, clock

    least = written(0)
    assert least[:2] == ("memory-prices", sum(request.output_length for request in HARD))
    whole = written(None)
    assert (whole[0], whole[1]) == ("state-search", result.upper_bound)
    kinds, bounds = [], []
    for share in (0.0, 0.05, 0.1, 0.2, 0.5, 0.9, 1.0, 1.5):
        limit = share * whole[2]
        kind, bound, taken = written(limit)
        # A look at the clock comes after the work that it stops: some at every proof.
        assert taken <= limit + 0.1 * whole[2]
        kinds.append(kind)
        bounds.append(bound)
    assert bounds == sorted(bounds)
    assert (kinds[0], kinds[-1]) == ("memory-prices", "state-search")
    assert len(set(bounds)) > 2


def test_many_requests_get_memory_prices() -> None:
    rng = np.random.default_rng(3)
    instance = Instance.from_arrays(
        rng.integers(1, 60, 1500), rng.integers(1, 200, 1500), memory_limit=4000
    )
    result = hindsight.solve(instance, time_limit=0)
    assert not suits_tree(instance, result.schedule)
    verdict = check_certificate(make_certificate(result.schedule, result.proof))
    assert verdict.kind == "memory-prices"
    assert 0 < verdict.lower_bound <= result.upper_bound


def test_an_infeasible_schedule_gets_no_certificate() -> None:
    with pytest.raises(InvalidValueError, match="infeasible"):
        make_certificate(Schedule(HARD, [0] * len(HARD)))
    with pytest.raises(InvalidValueError, match="not feasible"):
        prove_by_windows(HARD, Schedule(HARD, [0] * len(HARD)))


def changed(document: Document, *path: Any, to: Any) -> Document:
    """A copy with one entry replaced."""
    other = copy.deepcopy(document)
    place = other
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return other


def refuses(document: Document, match: str) -> None:
    with pytest.raises(CertificateError, match=match):
        check_certificate(document)


def test_starts_and_bounds_cannot_be_changed(tree: Document) -> None:
    optimum = tree["upper_bound"]
    refuses(changed(tree, "lower_bound", to=optimum + 1), "lower_bound is")
    refuses(changed(tree, "upper_bound", to=optimum - 1), "total latency is")
    refuses(changed(tree, "upper_bound", to=optimum + 1), "total latency is")
    for i, start in enumerate(tree["start_times"]):
        refuses(changed(tree, "start_times", i, to=start + 1), "total latency is|holds")
        if start:
            # An optimum with one start earlier holds too much, or has another latency.
            refuses(changed(tree, "start_times", i, to=start - 1), "total latency is|holds")
        refuses(changed(tree, "start_times", i, to=-1), "below 0")
    refuses(changed(tree, "start_times", to=tree["start_times"][:-1]), "entries, not")
    # A smaller claim is proved as well: the certificate stays valid, for less.
    assert check_certificate(changed(tree, "lower_bound", to=optimum - 1)).lower_bound < optimum


def test_a_start_before_its_arrival_is_refused() -> None:
    instance = Instance.from_arrays([1, 1], [2, 2], [0, 3], memory_limit=9)
    document = make_certificate(Schedule(instance, [0, 3]))
    early = changed(document, "start_times", to=[0, 2])
    refuses(changed(early, "upper_bound", to=3), "before it arrives")


def test_the_instance_cannot_be_changed(tree: Document) -> None:
    requests = tree["instance"]["requests"]
    for i in range(len(requests)):
        for field in range(3):
            worse = requests[i][field] + 1
            refuses(changed(tree, "instance", "requests", i, field, to=worse), "digest")
    limit = tree["instance"]["memory_limit"]
    refuses(changed(tree, "instance", "memory_limit", to=limit + 1), "digest")
    refuses(changed(tree, "instance", "memory_limit", to=3), "exceed")
    refuses(changed(tree, "instance", "digest", to="0" * 64), "digest")
    refuses(changed(tree, "instance", "requests", to=requests[:-1]), "digest")
    refuses(changed(tree, "instance", "requests", to=[]), "no requests")


def test_more_memory_with_its_digest_makes_the_capacities_grow(tree: Document) -> None:
    """The tables' capacities are computed, not read: what no longer holds proves less."""
    larger = HARD.memory_limit + 4
    relaxed = Instance(HARD.requests, larger)
    document = changed(tree, "instance", "memory_limit", to=larger)
    document["instance"]["digest"] = relaxed.digest
    assert proved_bound(document) <= optimal_total_latency(relaxed)[0] < tree["upper_bound"]
    refuses(document, "proves no more than")


def test_the_tree_cannot_lose_or_gain_nodes(tree: Document) -> None:
    nodes = tree["proof"]["tree"]
    refuses(changed(tree, "proof", "tree", to=nodes[:-1]), "not covered")
    refuses(changed(tree, "proof", "tree", to=[]), "not covered")
    refuses(changed(tree, "proof", "tree", to=[*nodes, 0]), "left over")
    for position in range(len(nodes)):
        refuses(
            changed(tree, "proof", "tree", to=nodes[:position] + nodes[position + 1 :]),
            "not covered|left over|missing|outside|no more than",
        )
    leaf = next(p for p, node in enumerate(nodes) if not isinstance(node, list))
    refuses(changed(tree, "proof", "tree", leaf, to=10**6), "missing prices")
    refuses(changed(tree, "proof", "tree", leaf, to=True), "whole number")
    split = next(p for p, node in enumerate(nodes) if isinstance(node, list))
    refuses(changed(tree, "proof", "tree", split, to=[99, 0]), "splits request 99")
    refuses(changed(tree, "proof", "tree", split, to=[0]), "1 entries, not 2")


def test_a_moved_split_is_refused_or_still_proves(tree: Document) -> None:
    """A tree with other splits covers everything too: it is only ever a question of its bound."""
    optimum = tree["upper_bound"]
    rejected = 0
    for position, node in enumerate(tree["proof"]["tree"]):
        if not isinstance(node, list):
            continue
        for step in (-3, -1, 1, 3):
            moved = changed(tree, "proof", "tree", position, 1, to=node[1] + step)
            try:
                assert check_certificate(moved).lower_bound == optimum
            except CertificateError:
                rejected += 1
    assert rejected > 0


def test_raised_prices_and_coefficients_prove_no_more(tree: Document) -> None:
    """Any prices and tables are good for some bound: one above the optimum never comes out."""
    optimum = tree["upper_bound"]
    rng = np.random.default_rng(5)
    proof = tree["proof"]
    for _ in range(40):
        p = int(rng.integers(len(proof["prices"])))
        if proof["prices"][p]:
            q = int(rng.integers(len(proof["prices"][p])))
            factor = int(rng.choice([0, 2, 10, 1000]))
            y = proof["prices"][p][q][2] * factor
            assert proved_bound(changed(tree, "proof", "prices", p, q, 2, to=y)) <= optimum
        k = int(rng.integers(len(proof["tables"])))
        e = int(rng.integers(len(proof["tables"][k])))
        weight = int(rng.choice([0, 1, 59, 61, 1000]))
        assert proved_bound(changed(tree, "proof", "tables", k, e, 2, to=weight)) <= optimum


def test_removed_prices_are_noticed(tree: Document) -> None:
    refuses(changed(tree, "proof", "prices", 0, to=[]), "no more than")
    refuses(changed(tree, "proof", "prices", to=[]), "missing prices")
    refuses(changed(tree, "proof", "tables", to=[]), "does not exist")
    refuses(changed(tree, "proof", "scale", to=tree["proof"]["scale"] * 4), "no more than")
    refuses(changed(tree, "proof", "scale", to=0), "below 1")


def test_malformed_tables_and_prices(tree: Document) -> None:
    first = tree["proof"]["tables"][0][0]
    refuses(changed(tree, "proof", "tables", 0, 0, to=[first[0], 0, 1]), "is no state")
    refuses(changed(tree, "proof", "tables", 0, 0, to=[12, 12, 1]), "is no state")
    refuses(changed(tree, "proof", "tables", 0, to=[first, first]), "twice")
    refuses(changed(tree, "proof", "tables", 0, 0, 2, to=2**62), "too large")
    refuses(changed(tree, "proof", "tables", 0, 0, 2, to=-1), "below 0")
    refuses(changed(tree, "proof", "tables", 0, 0, 2, to=1.0), "whole number")
    refuses(changed(tree, "proof", "prices", 0, to=[[0, 0, 2**62]]), "too large")
    refuses(changed(tree, "proof", "prices", 0, to=[[0, 10**9, 1]]), "too late")
    refuses(changed(tree, "proof", "prices", 0, to=[[0, 0, 1], [0, 0, 1]]), "two prices")
    refuses(changed(tree, "proof", "prices", 0, to=[[0, 0, -1]]), "below 0")


@pytest.mark.parametrize(
    "key", ["instance", "start_times", "upper_bound", "lower_bound", "proof", "format"]
)
def test_missing_and_unknown_keys(tree: Document, key: str) -> None:
    refuses({name: value for name, value in tree.items() if name != key}, "missing")
    refuses({**tree, "more": 1}, "unknown key")
    with pytest.raises(CertificateError):
        check_certificate(changed(tree, key, to=None))


@pytest.mark.parametrize("kind", ["prices", "", None, 3])
def test_unknown_proofs(tree: Document, kind: object) -> None:
    refuses(changed(tree, "proof", "kind", to=kind), "unknown")
    refuses(changed(tree, "proof", to=[]), "unknown")


def test_state_prices_are_checked(states: Document) -> None:
    bound = states["lower_bound"]
    proof = states["proof"]
    rows = proof["prices"]
    refuses(changed(states, "lower_bound", to=bound + 1), "no more than")
    refuses(changed(states, "proof", "prices", to=rows[: len(rows) // 2]), "no more than")
    refuses(changed(states, "proof", "prices", 0, to=rows[0][:-1]), "entries, not")
    refuses(changed(states, "proof", "prices", 0, 0, to=-1), "below 0")
    refuses(changed(states, "proof", "prices", 0, 0, to=2**62), "too large")
    refuses(changed(states, "proof", "states", 0, to=[12, 12]), "does not occur")
    refuses(changed(states, "proof", "states", 0, to=proof["states"][1]), "given twice")
    refuses(changed(states, "proof", "scale", to=proof["scale"] * 4), "no more than")


def test_searches_are_checked(search: Document) -> None:
    optimum = search["upper_bound"]
    proof = search["proof"]
    assert check_certificate(search).is_optimal
    refuses(changed(search, "lower_bound", to=optimum + 1), "no more than")
    refuses(changed(search, "proof", "budget", to=optimum), "a schedule within")
    refuses(changed(search, "proof", "budget", to=optimum - 2), "no more than")
    refuses(changed(search, "proof", "kept", to=proof["kept"] - 1), "needs more than")
    # Worse prices prune less: more states are needed than the certificate says.
    refuses(changed(search, "proof", "prices", to=[]), "needs more than")


@pytest.mark.parametrize("seed", sweep(range(60)))
def test_searches_exhaust_what_is_below_the_optimum_and_no_more(seed: int) -> None:
    instance = tiny(seed)
    optimum, _ = optimal_total_latency(instance)
    rows = [(q.arrival_time, q.prompt_length, q.output_length) for q in instance]
    free = Prices(1, [], [[o - a] for a, _, o in rows], lambda tau, m, r: 0)
    assert count_states(rows, instance.memory_limit, free, optimum, 10**6) is None
    assert count_states(rows, instance.memory_limit, free, optimum - 1, 10**6) is not None
    with pytest.raises(TooManyStatesError):
        count_states(rows, instance.memory_limit, free, optimum, 10**6, lambda: True)


@pytest.mark.parametrize("seed", sweep(range(30)))
def test_searches_of_solves_prove_the_optimum(seed: int) -> None:
    instance = tiny(seed)
    result = hindsight.solve(instance)
    document = make_certificate(result.schedule, result.proof)
    assert check_certificate(document).is_optimal
    assert document["lower_bound"] == optimal_total_latency(instance)[0]


def test_memory_prices_are_checked(memory: Document) -> None:
    proof = memory["proof"]
    refuses(changed(memory, "lower_bound", to=memory["lower_bound"] + 1), "no more than")
    refuses(changed(memory, "proof", "prices", to=[]), "no more than")
    refuses(changed(memory, "proof", "scale", to=proof["scale"] * 4), "no more than")
    refuses(changed(memory, "proof", "prices", 0, to=2**62), "too large")
    refuses(changed(memory, "proof", "prices", 0, to="1"), "whole number")


@given(data=st.data())
@settings(max_examples=examples(60))
@pytest.mark.parametrize("kind", ["tree", "states", "search", "memory"])
def test_no_mutation_proves_more_than_the_optimum(
    kind: str, request: pytest.FixtureRequest, data: st.DataObject
) -> None:
    document: Document = copy.deepcopy(request.getfixturevalue(kind))
    optimum = optimal_total_latency(HARD)[0]
    for _ in range(data.draw(st.integers(1, 4))):
        mutate(data, document["proof"])
    document["lower_bound"] = data.draw(st.sampled_from([optimum + 1, document["lower_bound"]]))
    with contextlib.suppress(CertificateError):
        assert check_certificate(document).lower_bound <= optimum


def mutate(data: st.DataObject, place: Any) -> None:
    """Change one thing somewhere below ``place``."""
    while True:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if isinstance(place[key], (dict, list)) and place[key] and data.draw(st.integers(0, 9)):
            place = place[key]
            continue
        value = place[key]
        choice = data.draw(st.integers(0, 5))
        if choice == 0 and isinstance(place, list):
            del place[key]
        elif choice == 1 and isinstance(place, list):
            place.insert(key, copy.deepcopy(value))
        elif isinstance(value, int):
            other = [0, 1, value + 1, value - 1, 2 * value, value + 1000]
            place[key] = data.draw(st.sampled_from(other))
        else:
            place[key] = data.draw(st.sampled_from([None, [], {}, 0, 1.5, "x"]))
        return


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "not valid JSON"),
        ("[1, 2", "not valid JSON"),
        ("[" * 100_000, "nested|not valid"),
        ("[]", "not a certificate"),
        ('{"format": "llm-hindsight/instance"}', "not a certificate"),
        ('{"format": "llm-hindsight/certificate", "version": 2}', "version is 2"),
        ('{"format": "llm-hindsight/certificate", "version": true}', "version is True"),
        ('{"format": "llm-hindsight/certificate", "version": NaN}', "not valid JSON"),
    ],
)
def test_files_that_are_no_certificates(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "certificate.json"
    path.write_text(text, "utf-8")
    with pytest.raises(FileFormatError, match=match):
        read_certificate(path)
    with pytest.raises(OSError, match="missing"):
        read_certificate(tmp_path / "missing.json")
