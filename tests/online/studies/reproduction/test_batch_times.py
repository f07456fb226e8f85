"""The same measurement with several batch times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from online.policy_interface.policy import Policy, make_policy
from online.studies.reproduction import Recorded, Setting, Statement
from online.studies.reproduction.batch_times import BATCH_TIMES, by_batch_time
from online.studies.reproduction.conditions import OWN
from online.studies.reproduction.w25 import latency_over_requests
from online.studies.reproduction.w25.latency_over_requests import mean_latency

TP1, TP2 = BATCH_TIMES


def outcome(name: str, *holds: bool, varied: str = "", size: str = "full") -> Recorded:
    statements = tuple(Statement(f"part {place}", held) for place, held in enumerate(holds))
    return Recorded(name, "J25", "Table 1", "says.", size, "5 s.", statements, "1.", {}, varied)


def test_the_batch_time_that_bears_out_most_is_named() -> None:
    own = [outcome("a", True, False, False, False), outcome("b", True), outcome("c", True, False)]
    experiments = [
        outcome("a", True, True, True, False, varied=f"batch-time={TP1}"),
        outcome("a", False, False, False, False, varied=f"batch-time={TP2}"),
        outcome("a", True, True, True, True, varied="memory=5"),
        outcome("c", False, True, varied="batch-time=affine:1"),
        outcome("b", True, varied=f"batch-time={TP1}", size="quick"),
    ]
    page = by_batch_time(own, experiments)
    heading, _, *rows = [line for line in page.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in (heading, *rows)]
    assert cells == [
        ["item", "as it is", TP1, TP2, "affine:1", "most is borne out", "what remains"],
        [
            *("[a](#a)", "not reproduced (1 of 4)", "in part (3 of 4)", "not reproduced (0 of 4)"),
            *("", TP1, "part 3"),
        ],
        [
            *("[c](#c)", "in part (1 of 2)", "", "", "in part (1 of 2)"),
            *("as it is, affine:1", "part 1"),
        ],
    ]
    assert by_batch_time(own, experiments[2:3]) == ""


def test_one_relaxation_serves_every_batch_time(monkeypatch: pytest.MonkeyPatch) -> None:
    solved: list[int] = []

    class Counted:
        def __init__(self, *given: object) -> None:
            solved.append(1)

        def policy(self, name: str) -> Policy:
            return make_policy({"sorted-lp": "mc-sf", "lp-swap": "fcfs"}[name])

    monkeypatch.setattr(latency_over_requests, "KnownRelaxation", Counted)
    monkeypatch.setattr(latency_over_requests, "QUICK_SIZES", (8, 12))
    monkeypatch.setattr(latency_over_requests, "_KNOWN", {})
    rows = {}
    for name in (None, *BATCH_TIMES, "affine:1"):
        setting = Setting(quick=True, conditions=replace(OWN, batch_time=name))
        rows[name] = [row[2] for row in mean_latency(setting).rows]
    # Two sizes; those of a batch time that is none of the presets are made anew.
    assert len(solved) == 2 + 2
    # Rounds of tensor parallel 1 are longer, whoever is served first.
    assert all(one > other for one, other in zip(rows[TP1], rows[TP2], strict=True))
    assert len({tuple(each) for each in rows.values()}) == 4
