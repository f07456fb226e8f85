"""Certificates of fleets: what they prove, and that no replica and no assignment can be forged."""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_paths import BY_PATHS
from certificates_by_definition import occurring_states
from fleets import is_feasible, least_total_latency, rows_of, rule_of
from optimum_by_rule import optimum
from tiny_fleets import first_fit, tiny_fleet

import hindsight
from hindsight import CertificateError, check_certificate, make_certificate
from hindsight.certificates.checking import proved_bound
from hindsight.certificates.format import MalformedCertificateError, instance_part
from hindsight.configurations.proofs import StatePrices
from instances import FleetSchedule, Instance, MemoryRule, PreemptiveSchedule
from instances.problem.memory_translation import pooled, relaxed

# Two of the three fit beside each other only on different replicas.
COLUMNS = ([2, 3, 1], [4, 2, 3], [0, 0, 1])
FLEET = Instance.from_arrays(*COLUMNS, memory_limit=6, replicas=2)
SCHEDULE = FleetSchedule.from_starts(FLEET, [0, 1, 1], [0, 0, 2])
ORIGINAL = make_certificate(SCHEDULE)


def digest_of(document: dict[str, Any], **changed: Any) -> str:
    """The digest of the instance of a document in tokens, with something changed."""
    part = document["instance"]
    arrivals, prompts, outputs = map(list, zip(*part["requests"], strict=True))
    options = {"memory_limit": part["memory_limit"], "replicas": part.get("replicas", 1)}
    return Instance.from_arrays(prompts, outputs, arrivals, **(options | changed)).digest


def check_bounds(seed: int, requests: int) -> None:
    """The bound holds for the fleet, whichever proof; the file says what the schedule costs."""
    rng = np.random.default_rng(seed)
    fleet = tiny_fleet(rng, requests)
    schedule = first_fit(fleet, rng)
    found = hindsight.solve(pooled(fleet), progress=False)
    document = make_certificate(schedule, found.proof if rng.integers(0, 3) else None)
    assert document["instance"]["replicas"] == fleet.replicas
    verdict = check_certificate(document)
    shape = (fleet.memory_limit, fleet.replicas, rule_of(fleet))
    best = least_total_latency(rows_of(fleet), *shape)
    assert verdict.lower_bound <= best <= verdict.upper_bound == schedule.total_latency
    assert (verdict.replicas, verdict.digest) == (fleet.replicas, fleet.digest)
    # Each request elsewhere: refused exactly where the definition says so.
    for moved in range(len(fleet)):
        forged = copy.deepcopy(document)
        forged["assignment"][moved] = (forged["assignment"][moved] + 1) % fleet.replicas
        fits = is_feasible(
            rows_of(fleet), shape[0], shape[2], forged["assignment"], forged["start_times"]
        )
        if fits:
            assert check_certificate(forged).upper_bound == schedule.total_latency
        else:
            with pytest.raises(
                CertificateError, match="start_times: replica . round|replica .: round"
            ):
                check_certificate(forged)


@pytest.mark.parametrize("seed", range(12))
def test_bounds_hold_for_the_fleet(seed: int) -> None:
    check_bounds(seed, 4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_more_bounds_hold_for_the_fleet(seed: int) -> None:
    check_bounds(seed, 6)


@pytest.mark.parametrize(
    ("kind", "seed", "limit", "longest"),
    [("state-search", 0, 8, 5), ("window-tree", 0, 8, 5), ("path-search", 3, 9, 6)],
)
def test_searches_and_trees_prove_the_optimum(
    kind: str, seed: int, limit: int, longest: int
) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 4, 6), rng.integers(2, longest + 1, 6), rng.integers(0, 3, 6)
    fleet = Instance.from_arrays(*lengths, memory_limit=limit, replicas=2)
    method = BY_PATHS if kind == "path-search" else "auto"
    found = hindsight.solve(pooled(fleet), method=method, progress=False)
    search = {"search": kind == "state-search", "tree": kind == "window-tree"}
    document = make_certificate(best_schedule(fleet), found.proof, **search)
    best = least_total_latency(rows_of(fleet), limit, 2)
    verdict = check_certificate(document)
    assert (verdict.kind, verdict.lower_bound, verdict.upper_bound) == (kind, best, best)
    # The proof of one machine is none of the fleet, which has twice its memory.
    alone = hindsight.solve(fleet.alone(), method=method, progress=False)
    forged = document | {"proof": make_certificate(alone.schedule, alone.proof, **search)["proof"]}
    forged["lower_bound"] = alone.upper_bound
    with pytest.raises(CertificateError):
        check_certificate(forged)
    with contextlib.suppress(CertificateError):
        assert proved_bound(forged) <= best


def check_any_prices(seed: int) -> None:
    """Whatever prices and tables of states a file has, they prove no false bound."""
    rng = np.random.default_rng(seed)
    fleet = tiny_fleet(rng, 5, weighted=False)
    document = make_certificate(first_fit(fleet, rng))
    best = least_total_latency(rows_of(fleet), fleet.memory_limit, fleet.replicas, rule_of(fleet))
    states = sorted(occurring_states([row[:3] for row in rows_of(relaxed(fleet))]))
    prices = rng.integers(0, 3, (int(rng.integers(1, 12)), len(states)))
    tables = [[[m, r, int(w)] for (m, r), w in zip(states, row, strict=True)] for row in prices[:2]]
    entries = [[k, t, int(rng.integers(1, 3))] for k in range(len(tables)) for t in range(4)]
    proofs: list[dict[str, Any]] = [
        {"kind": "state-prices", "states": list(map(list, states)), "prices": prices.tolist()},
        {"kind": "window-tree", "tables": tables, "prices": [entries], "tree": [0]},
    ]
    for proof in proofs:
        assert proved_bound(document | {"proof": proof | {"scale": 2}}) <= best


@pytest.mark.parametrize("seed", range(10))
def test_prices_of_what_runs_together_prove_nothing_false(seed: int) -> None:
    check_any_prices(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_more_prices_of_what_runs_together_prove_nothing_false(seed: int) -> None:
    check_any_prices(seed)


def test_what_runs_together_is_counted_on_a_replica() -> None:
    # Each holds 4 of 6 tokens: one runs on each replica, where a machine of 12 has room for three.
    fleet = Instance.from_arrays([3] * 6, [1] * 6, memory_limit=6, replicas=2)
    schedule = FleetSchedule.from_starts(fleet, [0, 1] * 3, [0, 0, 1, 1, 2, 2])
    prices = [[2], [1]]
    proof = {"kind": "state-prices", "scale": 1, "states": [[3, 1]], "prices": prices}
    document = make_certificate(schedule) | {"proof": proof, "lower_bound": 12}
    # The six pay 3 each at best, for a start and a round of waiting; two at most pay at a time.
    assert check_certificate(document).is_optimal
    # Without replicas there are three at a time: 18 - 3 (2 + 1).
    assert proved_bound(document | {"instance": instance_part(pooled(fleet))}) == 9


def test_prices_of_a_replica_are_certified() -> None:
    fleet = Instance.from_arrays([3] * 6, [1] * 6, memory_limit=6, replicas=2)
    found = hindsight.solve(fleet, progress=False)
    assert isinstance(found.proof, StatePrices)
    verdict = check_certificate(make_certificate(found.schedule, found.proof))
    assert (verdict.lower_bound, verdict.upper_bound) == (12, 12)


def best_schedule(fleet: Instance) -> FleetSchedule:
    """The best of some schedules at random."""
    drawn = [first_fit(fleet, np.random.default_rng(seed)) for seed in range(200)]
    return min(drawn, key=lambda schedule: schedule.total_latency)


@pytest.mark.parametrize("seed", range(6))
def test_preemptive_bounds_hold_for_the_fleet(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fleet = tiny_fleet(rng, 4, weighted=False)
    schedule = first_fit(fleet, rng)
    # One part may stop requests, the others are as they were.
    parts = list(schedule.parts)
    first = next(k for k, part in enumerate(parts) if part is not None)
    parts[first] = PreemptiveSchedule.from_schedule(parts[first])
    document = make_certificate(FleetSchedule(fleet, schedule.assignment, parts))
    assert "start_times" not in document
    verdict = check_certificate(document)
    assert verdict.preemptive
    best = least_total_latency(
        rows_of(fleet),
        fleet.memory_limit,
        fleet.replicas,
        rule_of(fleet),
        lambda rows, limit, rule: optimum([r[:3] for r in rows], limit, rule, preemptive=True),
    )
    assert verdict.lower_bound <= best <= verdict.upper_bound == schedule.total_latency


def test_files_are_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(ORIGINAL))
    verdict = check_certificate(hindsight.read_certificate(path))
    assert (verdict.replicas, verdict.upper_bound, verdict.lower_bound) == (2, 10, 9)


def test_with_one_replica_the_file_is_that_of_the_machine() -> None:
    machine = FLEET.alone()
    fleet = FleetSchedule.from_starts(machine, [0, 0, 0], [0, 4, 6])
    document = make_certificate(fleet)
    assert document == make_certificate(fleet.parts[0])
    assert "replicas" not in document["instance"]
    assert "assignment" not in document


def mutated(**changes: Any) -> dict[str, Any]:
    """The certificate with keys set, or removed where the value is None."""
    document = copy.deepcopy(ORIGINAL)
    for name, value in changes.items():
        part = document["instance"] if name in ("replicas", "digest") else document
        if value is None:
            del part[name]
        else:
            part[name] = value
    return document


@pytest.mark.parametrize(
    "changes",
    [
        {"assignment": None},
        {"assignment": [0, 1, 2]},
        {"assignment": [0, 1, -1]},
        {"assignment": [0, 1]},
        {"assignment": [0, 1, 1, 1]},
        {"assignment": [0, 1, True]},
        {"assignment": [0, 1, 1.0]},
        {"assignment": "011"},
        {"assignment": {"0": 0}},
        {"replicas": 1},
        {"replicas": 0},
        {"replicas": -2},
        {"replicas": 2.0},
        {"replicas": True},
        {"replicas": 10**6},
        {"replicas": 2**62},
        {"replicas": "2"},
        # One machine, whose memory both of the schedule's replicas were given.
        {"replicas": None, "digest": digest_of(ORIGINAL, replicas=1)},
    ],
    ids=str,
)
def test_malformed_fleets(changes: dict[str, Any]) -> None:
    with pytest.raises(MalformedCertificateError):
        check_certificate(mutated(**changes))


def test_one_machine_has_no_assignment() -> None:
    document = make_certificate(FleetSchedule.from_starts(FLEET.alone(), [0] * 3, [0, 4, 6]))
    with pytest.raises(MalformedCertificateError, match="assignment"):
        check_certificate(document | {"assignment": [0, 0, 0]})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # 2 + 2 and 3 + 2 tokens in round 2.
        ({"assignment": [1, 1, 0]}, "replica 1: round 2 holds 9 of 6 tokens"),
        ({"assignment": [0, 0, 0]}, "replica 0: round"),
        ({"start_times": [0, 0, 1]}, "replica 1: round 2 holds 7 of 6 tokens"),
        ({"start_times": [0, 0, 0]}, "starts before it arrives"),
        ({"replicas": 3}, "digest does not belong"),
        ({"replicas": None}, "digest does not belong"),
        ({"lower_bound": 10}, "proves no more than 9"),
        ({"upper_bound": 9}, "schedule's total latency is 10"),
        # The memory of two replicas on one machine: the digest is right, the requests still fit.
        (
            {"replicas": 3, "digest": digest_of(ORIGINAL, replicas=3), "lower_bound": 10},
            "proves no more than 9",
        ),
    ],
    ids=str,
)
def test_no_claim_can_be_forged(changes: dict[str, Any], message: str) -> None:
    assert check_certificate(mutated()).lower_bound == 9
    with pytest.raises(CertificateError, match=message):
        check_certificate(mutated(**changes))


def test_memory_of_one_replica_is_no_part_of_another() -> None:
    # In blocks of 4 two replicas of 7 tokens have a block each, not the three of 14 tokens.
    rule = MemoryRule(block_size=4)
    fleet = Instance.from_arrays([1] * 3, [3] * 3, memory_limit=7, memory_rule=rule, replicas=2)
    schedule = FleetSchedule.from_starts(fleet, [0, 1, 1], [0, 0, 3])
    document = make_certificate(schedule)
    assert check_certificate(document).upper_bound == 12
    for starts in ([0, 0, 0], [0, 0, 2]):
        with pytest.raises(CertificateError, match="replica 1: round 3 holds 2 of 1 blocks"):
            check_certificate(document | {"start_times": starts, "upper_bound": 9 + starts[2]})
