"""[W25] Figure 8 with several batch times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from online import Policy, make_policy
from studies.reproduction import OWN, Setting
from studies.reproduction.w25 import latency_over_requests
from studies.reproduction.w25.latency_over_requests import BATCH_TIMES, mean_latency

TP1, TP2 = BATCH_TIMES


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
    for name in (None, *BATCH_TIMES, "affine:1,0,0"):
        setting = Setting(quick=True, conditions=replace(OWN, batch_time=name))
        rows[name] = [row[2] for row in mean_latency(setting).rows]
    # Two sizes; those of a batch time that is none of the presets are made anew.
    assert len(solved) == 2 + 2
    # Rounds of tensor parallel 1 are longer, whoever is served first.
    assert all(one > other for one, other in zip(rows[TP1], rows[TP2], strict=True))
    assert len({tuple(each) for each in rows.values()}) == 4
