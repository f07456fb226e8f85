"""Archives: round trip, checks that refuse, and the archives that are shipped."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import hindsight
import online
from hindsight import CertificateError
from instances import FileFormatError, Instance
from online import make_policy
from online.comparison import PolicySpec
from online.policy_interface.specs import parameterless_policies
from online.worst_cases.archive import (
    RefutedError,
    archive_path,
    check_case,
    check_endless,
    describe,
    load,
    save,
)
from online.worst_cases.drafts import Draft, Space
from online.worst_cases.scoring import Case, Target, prove
from online.worst_cases.search import EVALUATIONS, ISLANDS, SearchState

SHIPPED = Path(__file__).resolve().parents[3] / "docs" / "worst_cases"
TARGET = Target(PolicySpec("mc-sf"), Space(6, 12))
TRAP = Draft(12, ((0, 11, 1), (0, 11, 1), *[(0, 1, 2)] * 4))


@pytest.fixture(scope="module")
def case() -> Case:
    found = prove(TARGET, TRAP)
    assert found is not None
    return found


def test_archives_round_trip(case: Case, tmp_path: Path) -> None:
    standings = [
        SearchState(TARGET, 3, False, 2, 100, 1, (case,), (Draft(6, ((0, 1, 3),)), "livelock")),
        SearchState(
            Target(TARGET.spec, Space(5, 9, 9, True)), cases=(replace(case, preemptive=True),)
        ),
    ]
    path = archive_path(tmp_path, TARGET.spec)
    save(path, standings)
    assert load(path) == standings
    # What says nothing means the optimum without preemption.
    assert path.read_text("utf-8").count("preemptive") == 1
    assert path.name == "mc-sf.json"
    spec = PolicySpec("alpha-protection", {"alpha": 0.1})
    assert archive_path(tmp_path, spec).name == "alpha-protection_alpha-0.1.json"


def test_a_true_case_passes(case: Case) -> None:
    check = check_case(TARGET, case)
    assert check.backwards == float(case.ratio)  # nothing here hangs on ties


def certificate(case: Case, **entries: Any) -> Case:
    return replace(case, certificate={**(case.certificate or {}), **entries})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda case: replace(case, total=case.total + 1), "latency is 19 in 1 run"),
        (lambda case: replace(case, runs=2), "not 19 in 2"),
        (lambda case: replace(case, optimum=case.optimum - 1), "proves"),
        (lambda case: replace(case, certificate=None), "no certificate"),
        (lambda case: replace(case, draft=Draft(13, TRAP.rows)), "not in the space"),
        (
            lambda case: replace(case, draft=Draft(12, ((0, 11, 1), (0, 11, 1), (0, 1, 2)))),
            "latency is 7 in 1",
        ),
        (lambda case: replace(case, draft=TRAP.reversed()), "another instance"),
        (lambda case: certificate(case, lower_bound=case.optimum - 1), "proves"),
    ],
)
def test_a_false_case_is_refuted(case: Case, change: Any, said: str) -> None:
    with pytest.raises(RefutedError, match=said):
        check_case(TARGET, change(case))


def test_a_certificate_that_proves_nothing_is_refuted(case: Case) -> None:
    with pytest.raises(CertificateError):
        check_case(TARGET, certificate(case, start_times=[0] * 6))


def test_an_endless_run_is_run_again() -> None:
    target = Target(PolicySpec("alpha-protection"), Space(6, 12))
    check_endless(target, Draft(6, ((0, 1, 3),) * 2), "livelock")
    with pytest.raises(RefutedError, match="'completed', not as 'livelock'"):
        check_endless(target, TRAP, "livelock")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not valid JSON"),
        ("[]", "is not an archive"),
        ('{"format": "llm-hindsight/worst-cases", "version": 9}', "version is 9"),
        ('{"format": "llm-hindsight/worst-cases", "version": 1}', "no complete archive"),
        ("[" * 100_000, "is nested more than 100 deep"),
    ],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "archive.json"
    path.write_text(text, "utf-8")
    with pytest.raises(FileFormatError, match=said):
        load(path)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("seed",), "1"),
        (("shapes",), "yes"),
        (("rounds",), "x"),
        (("evaluations",), 1.5),
        (("unproved",), None),
        (("space", "max_memory"), 10**20),
        (("cases", 0, "optimum"), 0),
        (("cases", 0, "runs"), 0),
        (("cases", 0, "total"), 18.0),
        (("cases", 0, "requests", 0, 0), 10**30),
        (("cases", 0, "memory_limit"), -1),
    ],
)
def test_a_search_does_not_go_on_from_what_is_no_number(
    tmp_path: Path, case: Case, place: tuple[Any, ...], value: Any
) -> None:
    path = tmp_path / "archive.json"
    save(path, [SearchState(TARGET, cases=(case,))])
    document = json.loads(path.read_text("utf-8"))
    part = document["searches"][0]
    for key in place[:-1]:
        part = part[key]
    assert part[place[-1]] != value
    part[place[-1]] = value
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(FileFormatError, match="is no complete archive"):
        load(path)


def test_an_instance_in_a_line() -> None:
    rows = ((0, 1, 2), (0, 1, 2), (0, 3, 1), (4, 1, 2))
    assert describe(Draft(7, rows)) == "M=7: 2 x (1, 2), (3, 1), (1, 2) @4"


def shipped() -> list[SearchState]:
    return [one for path in sorted(SHIPPED.glob("*.json")) for one in load(path)]


def named(standing: SearchState) -> str:
    return f"{standing.target.spec.label}: {standing.target.setting}"


def test_every_policy_that_never_pauses_has_a_shipped_archive() -> None:
    wanted = {name for name in parameterless_policies() if not make_policy(name).pauses}
    assert {one.target.spec.label for one in shipped()} == wanted
    # Two certificates of `alpha-beta-clearing` take most of it: six long requests run together.
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 400_000


def test_every_archive_rests_on_a_search_by_default_settings() -> None:
    """A round from scratch, so that one default search finds nothing worse."""
    for one in shipped():
        assert one.evaluations >= ISLANDS * EVALUATIONS, named(one)


def test_sorted_f_with_exchanges_starts_the_long_request_before_eleven_others() -> None:
    """Found by one default search; the archive said 1.54."""
    rows = [(60, 1)] * 5 + [(1, 1), (60, 1), (2, 52), (63, 1), (2, 1)] + [(60, 1)] * 2
    instance = Instance.from_arrays(*zip(*rows, strict=True), memory_limit=64)
    optimum = hindsight.solve(instance, threads=1)
    assert (optimum.status, optimum.upper_bound) == ("optimal", 108)
    for policy in ("sorted-f-swap", "lp-swap"):
        assert online.simulate(instance, policy).total_latency == 567
        (known,) = (one for one in shipped() if named(one).startswith(f"{policy}: all at once"))
        assert known.cases[0].ratio >= Fraction(567, 108)


@pytest.mark.parametrize("standing", shipped(), ids=named)
def test_shipped_cases_stand(standing: SearchState) -> None:
    """The policy runs again, and the optimum's certificate is checked."""
    assert standing.cases
    check_case(standing.target, standing.cases[0])
    if standing.endless is not None:
        check_endless(standing.target, *standing.endless)
