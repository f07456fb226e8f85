"""Certificates of weighted instances: what they prove, and that no weight can be forged."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hindsight
from hindsight import CertificateError, check_certificate, make_certificate
from hindsight.bounds.branched_prices import BranchedPrices
from hindsight.bounds.memory_prices import round_prices
from hindsight.certificates.checking import proved_bound
from hindsight.certificates.format import MalformedCertificateError
from hindsight.certificates.writing import bound_of_prices
from hindsight.configurations.proofs import StatePrices
from hindsight.outcomes.proofs import MemoryPrices
from instances import Instance, InvalidValueError, PreemptiveSchedule, Schedule

WEIGHTS = [1, 7, 1, 3, 20]
COLUMNS = ([1, 2, 3, 1, 2], [3, 2, 2, 4, 1], [0, 0, 1, 2, 1])
INSTANCE = Instance.from_arrays(*COLUMNS, memory_limit=6, weights=WEIGHTS)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found = hindsight.solve(INSTANCE, progress=False)
    return make_certificate(found.schedule, found.proof)


def bound_by_definition(numerators: list[int], scale: int) -> int:
    """The memory prices' bound, priced round by round over more starts than can be cheapest."""
    total = -INSTANCE.memory_limit * sum(numerators)
    for request in INSTANCE.requests:
        a, s, o, w = (
            request.arrival_time,
            request.prompt_length,
            request.output_length,
            request.weight,
        )
        total += min(
            scale * w * (t + o - a)
            + sum(
                numerators[r - 1] * (s + r - t)
                for r in range(t + 1, t + o + 1)
                if r <= len(numerators)
            )
            for t in range(a, a + len(numerators) + 2)
        )
    return -(-total // scale)


def test_the_bound_counts_latencies_by_weight(document: dict[str, Any]) -> None:
    assert document["instance"]["weights"] == WEIGHTS
    proof = document["proof"]
    assert proof["kind"] == "memory-prices"
    verdict = check_certificate(document)
    assert verdict.lower_bound == bound_by_definition(proof["prices"], proof["scale"])
    assert verdict.lower_bound > INSTANCE.total_output_length
    ends = Schedule(INSTANCE, document["start_times"]).completion_times - INSTANCE.arrival_times
    assert verdict.upper_bound == sum(w * c for w, c in zip(WEIGHTS, ends.tolist(), strict=True))
    assert verdict.digest == INSTANCE.digest


@pytest.mark.parametrize("seed", range(20))
def test_any_prices_prove_what_they_do_by_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    prices = round_prices(rng.random(int(rng.integers(0, 9))) * rng.integers(1, 9), INSTANCE, 64)
    bound = bound_by_definition(prices.numerators.tolist(), prices.denominator)
    assert bound_of_prices(INSTANCE, prices) == bound
    assert hindsight.bounds.memory_prices.price_bound(INSTANCE, prices).bound == bound
    split = BranchedPrices(((4, 3), prices, MemoryPrices(prices.numerators, prices.denominator)))
    assert bound_of_prices(INSTANCE, split) >= bound


def test_files_of_weighted_instances_are_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    verdict = hindsight.write_certificate(hindsight.solve(INSTANCE, progress=False), path)
    assert check_certificate(hindsight.read_certificate(path)) == verdict
    assert json.loads(path.read_text())["instance"]["weights"] == WEIGHTS


def test_an_instance_without_weights_has_none_in_its_file() -> None:
    plain = Instance.from_arrays(*COLUMNS, memory_limit=6)
    found = hindsight.solve(plain, progress=False)
    assert "weights" not in make_certificate(found.schedule, found.proof)["instance"]


def with_weights(document: dict[str, Any], weights: Any, *, digest: bool) -> dict[str, Any]:
    forged = copy.deepcopy(document)
    forged["instance"]["weights"] = weights
    if digest:
        changed = Instance.from_arrays(*COLUMNS, memory_limit=6, weights=weights)
        forged["instance"]["digest"] = changed.digest
    return forged


@pytest.mark.parametrize("position", range(5))
@pytest.mark.parametrize("change", [1, 5])
def test_no_weight_can_be_changed(document: dict[str, Any], position: int, change: int) -> None:
    weights = [w + change * (k == position) for k, w in enumerate(WEIGHTS)]
    with pytest.raises(CertificateError, match="digest does not belong"):
        check_certificate(with_weights(document, weights, digest=False))
    forged = with_weights(document, weights, digest=True)
    with pytest.raises(CertificateError, match="upper_bound is"):
        check_certificate(forged)
    # With the cost of the new weights, the bound claimed must follow from the new weights too.
    changed = Instance.from_arrays(*COLUMNS, memory_limit=6, weights=weights)
    forged["upper_bound"] = Schedule(changed, forged["start_times"]).total_latency
    forged["lower_bound"] = proved_bound(forged) + 1
    with pytest.raises(CertificateError, match="proves no more than|exceeds the feasible"):
        check_certificate(forged)
    forged["lower_bound"] -= 1
    assert check_certificate(forged).lower_bound <= forged["upper_bound"]


@pytest.mark.parametrize("lighter", [1, 3, 4])
def test_heavier_weights_than_the_instance_has_prove_nothing_of_it(
    document: dict[str, Any], lighter: int
) -> None:
    # The bound of the true weights is claimed of an instance in which one request is lighter.
    weights = [1 if k == lighter else w for k, w in enumerate(WEIGHTS)]
    forged = with_weights(document, weights, digest=True)
    changed = Instance.from_arrays(*COLUMNS, memory_limit=6, weights=weights)
    found = hindsight.solve(changed, progress=False)
    forged["upper_bound"] = found.upper_bound
    forged["start_times"] = found.schedule.start_times.tolist()
    with pytest.raises(CertificateError, match="proves no more than"):
        check_certificate(forged)


@pytest.mark.parametrize(
    "weights",
    [
        [1, 7, 1, 3],
        [1, 7, 1, 3, 20, 1],
        [0, 7, 1, 3, 20],
        [-1, 7, 1, 3, 20],
        [1.0, 7, 1, 3, 20],
        [True, 7, 1, 3, 20],
        [2**21, 7, 1, 3, 20],
        {"0": 1},
        None,
    ],
)
def test_malformed_weights(document: dict[str, Any], weights: Any) -> None:
    with pytest.raises(MalformedCertificateError):
        check_certificate(with_weights(document, weights, digest=False))


def test_the_weights_cannot_be_left_out(document: dict[str, Any]) -> None:
    forged = copy.deepcopy(document)
    del forged["instance"]["weights"]
    with pytest.raises(CertificateError, match="digest does not belong"):
        check_certificate(forged)


STATES: dict[str, Any] = {"scale": 1, "states": [[1, 2]], "prices": [[1]]}


@pytest.mark.parametrize(
    "proof",
    [
        {**STATES, "kind": "state-prices"},
        {**STATES, "kind": "state-search", "budget": 5, "kept": 5},
        {**STATES, "kind": "path-search", "limit": 5, "stages": []},
        {"kind": "window-tree", "scale": 1, "tables": [], "prices": [[]], "tree": [0]},
    ],
    ids=lambda proof: str(proof["kind"]),
)
def test_kinds_without_weights_refuse_them(document: dict[str, Any], proof: dict[str, Any]) -> None:
    message = f"{proof['kind']} counts every request alike: it takes no weights"
    with pytest.raises(MalformedCertificateError, match=message):
        check_certificate({**document, "proof": proof})


def test_preemptive_schedules_and_state_prices_are_refused_in_a_line() -> None:
    schedule = hindsight.solve(INSTANCE, progress=False).schedule
    with pytest.raises(InvalidValueError, match="preemptive optimum counts every request alike"):
        make_certificate(PreemptiveSchedule.from_schedule(schedule))
    states = StatePrices(np.zeros((1, 7, 7), dtype=np.int64), 1)
    with pytest.raises(InvalidValueError, match="takes no weights"):
        bound_of_prices(INSTANCE, states)
