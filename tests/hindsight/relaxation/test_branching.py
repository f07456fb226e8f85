"""Bounds by cases of when requests start, against brute force and the relaxation."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from brute_force import all_feasible_schedules, optimal_total_latency, sound_horizon
from drawn_instances import drawn_instance
from effort import sweep

from hindsight import best_list_schedule, relax
from hindsight.bounds.branched_prices import LATEST, BranchedPrices, leaf_bound
from hindsight.certificates.checking import check_certificate, proved_bound
from hindsight.certificates.format import MalformedCertificateError
from hindsight.certificates.writing import make_certificate
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.relaxation.branching import BranchedRelaxation
from hindsight.runtime.clock import Clock
from instances import Instance, generate


def branched_bound(instance: Instance, prices: BranchedPrices) -> int:
    """The least bound of the leaves; a leaf without starts for some request has none."""
    bounds = []
    walk = [(instance.arrival_times, np.full(len(instance), LATEST))]
    for node in prices.nodes:
        first, last = walk.pop()
        if isinstance(node, MemoryPrices):
            if np.all(first <= last):
                bounds.append(leaf_bound(instance, node, first, last))
            continue
        i, t = node
        later, earlier = first.copy(), last.copy()
        later[i], earlier[i] = max(later[i], t + 1), min(earlier[i], t)
        walk += [(later, last), (first, earlier)]
    return min(bounds)


def tiny(seed: int) -> Instance:
    last = 6 if seed % 2 else None
    return drawn_instance([91, seed], (2, 5), (3, 9), outputs=5, last_arrival=last)


def random_tree(instance: Instance, rng: np.random.Generator) -> BranchedPrices:
    """Any splits, some of which leave nothing, and any prices."""
    nodes: list[tuple[int, int] | MemoryPrices] = []

    def grow(depth: int) -> None:
        if depth and rng.random() < 0.7:
            nodes.append((int(rng.integers(len(instance))), int(rng.integers(12))))
            grow(depth - 1)
            grow(depth - 1)
        else:
            numerators = rng.integers(0, 4, int(rng.integers(9))).astype(np.int64)
            nodes.append(MemoryPrices(numerators, int(rng.integers(3, 40))))

    grow(4)
    return BranchedPrices(tuple(nodes))


def document_of(instance: Instance, proof: BranchedPrices) -> dict[str, Any]:
    """A certificate that claims this proof, whatever it proves."""
    document = make_certificate(best_list_schedule(instance), search=False, tree=False)
    document["proof"] = {
        "kind": "branched-memory-prices",
        "scale": 1,
        "nodes": [
            list(node)
            if isinstance(node, tuple)
            else {"scale": node.denominator, "prices": node.numerators.tolist()}
            for node in proof.nodes
        ],
    }
    return document


@pytest.mark.parametrize("seed", sweep(range(40)))
def test_any_tree_is_a_bound_and_the_checker_finds_the_same(seed: int) -> None:
    instance = tiny(seed)
    optimum, _ = optimal_total_latency(instance)
    rng = np.random.default_rng([6, seed])
    for _ in range(5):
        proof = random_tree(instance, rng)
        bound = branched_bound(instance, proof)
        assert bound <= optimum
        assert proved_bound(document_of(instance, proof)) == bound


@pytest.mark.parametrize("seed", sweep(range(20)))
def test_a_leaf_bounds_the_schedules_in_its_windows(seed: int) -> None:
    instance = tiny(seed)
    rng = np.random.default_rng([7, seed])
    starts = [np.array(x) for x in all_feasible_schedules(instance, sound_horizon(instance))]
    first = instance.arrival_times + rng.integers(0, 4, len(instance))
    last = np.where(rng.random(len(instance)) < 0.5, LATEST, first + 3)
    within = [t for t in starts if np.all(t >= first) and np.all(t <= last)]
    prices = MemoryPrices(rng.integers(0, 4, 8).astype(np.int64), 11)
    bound = leaf_bound(instance, prices, first, last)
    own = instance.output_lengths - instance.arrival_times
    for t in within:
        assert bound <= int((t + own).sum())


@pytest.mark.parametrize("seed", sweep(range(8)))
def test_branching_gains_and_stays_below_the_optimum(seed: int) -> None:
    instance = tiny(seed)
    optimum, _ = optimal_total_latency(instance)
    prices = relax(instance).memory_prices
    clock = Clock()
    search = BranchedRelaxation(instance, prices, clock)
    root = search.certified_bound
    bounds: list[int] = []

    def told(one: BranchedRelaxation) -> None:
        bounds.append(one.certified_bound)
        if one.splits == 10:
            clock.interrupt()

    search.go_on(told)
    assert bounds == sorted(bounds)
    assert root <= search.certified_bound <= optimum
    assert branched_bound(instance, search.proof()) == search.certified_bound


@pytest.mark.slow
def test_a_split_gains_where_few_requests_fill_the_memory() -> None:
    instance = generate("mixed-long-short", n=30, seed=4, arrival_rate=0.2)
    assert isinstance(instance, Instance)
    relaxed = relax(instance)
    clock = Clock(60.0)
    search = BranchedRelaxation(instance, relaxed.memory_prices, clock)

    def told(one: BranchedRelaxation) -> None:
        if one.splits == 2:
            clock.interrupt()

    search.go_on(told)
    assert search.splits == 2
    # Above the relaxation's value, not only above what its prices prove.
    assert search.certified_bound > np.ceil(relaxed.objective)


def test_it_ends_when_told_to_with_what_it_has() -> None:
    instance = generate("mixed-long-short", n=60, seed=1, arrival_rate=0.4)
    assert isinstance(instance, Instance)
    prices = relax(instance, time_limit=2).memory_prices
    search = BranchedRelaxation(instance, prices, Clock(should_stop=lambda: True))
    root = search.certified_bound
    search.go_on()
    assert search.splits == 0
    assert search.certified_bound == root == branched_bound(instance, search.proof())


def test_a_certificate_holds_the_tree() -> None:
    instance = tiny(3)
    proof = BranchedPrices(
        (
            (0, int(instance.arrival_times[0])),
            MemoryPrices(np.array([1, 0, 2]), 9),
            MemoryPrices(np.array([2, 1]), 9),
        )
    )
    document = json.loads(json.dumps(document_of(instance, proof)))
    document["lower_bound"] = 0
    verdict = check_certificate(document)
    assert (verdict.kind, verdict.leaves, verdict.price_sets) == ("branched-memory-prices", 2, 2)
    nodes = document["proof"]["nodes"]
    for broken, why in (
        (nodes[:-1], "does not end"),
        ([*nodes, nodes[-1]], "has ended"),
        ([[len(instance), 0], *nodes[1:]], "there is no request"),
        ([nodes[0], {"scale": 0, "prices": []}, nodes[2]], "below 1"),
        ([], "does not end"),
    ):
        document["proof"]["nodes"] = broken
        with pytest.raises(MalformedCertificateError, match=why):
            check_certificate(document)


def test_splits_move_with_their_blocks() -> None:
    instance = Instance.from_arrays([2, 2], [3, 3], [0, 50], memory_limit=5)
    proof = BranchedPrices(
        ((1, 4), MemoryPrices(np.array([0, 0, 0, 1]), 7), MemoryPrices(np.array([1]), 7))
    )
    moved = proof.moved(np.array([0, 3]), np.array([0, 47]))
    assert isinstance(moved, BranchedPrices)
    assert moved.nodes[0] == (1, 51)
    assert branched_bound(instance, moved) <= 6


@pytest.mark.parametrize("outputs", [(2, 2), (3, 2), (2, 4)])
def test_leaves_whose_best_prices_are_none_are_split_too(outputs: tuple[int, int]) -> None:
    instance = Instance.from_arrays([1, 1], outputs, [0, 1], memory_limit=8)
    # Dear rounds in which everything fits: the best prices are 0, and smeared starts remain.
    prices = MemoryPrices(np.ones(6, dtype=np.int64), 8)
    search = BranchedRelaxation(instance, prices, Clock(2.0))
    search.go_on(lambda one: one._clock.interrupt() if one.splits > 8 else None)
    assert search.certified_bound == optimal_total_latency(instance)[0]
    assert branched_bound(instance, search.proof()) == search.certified_bound
