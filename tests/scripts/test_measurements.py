"""Scripts that measure: benchmarks, and ratios on the papers' constructions."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from forked_scripts import Ok


def test_a_benchmark_measures_solves_bounds_and_policies(ok: Ok, tmp_path: Path) -> None:
    sizes = "-n 6 -n 8 -n 10 --family arriving --time-limit 20"
    printed = ok(f"benchmark solve rows mc-sf {sizes} --out rows.csv")
    found = pd.read_csv(tmp_path / "rows.csv").set_index(["method", "n"])
    for n in (6, 8, 10):
        lower, upper = found.loc["solve", n][["lower", "upper"]]
        assert found.loc["rows", n]["lower"] <= lower <= upper <= found.loc["mc-sf", n]["upper"]
        assert found.loc["solve", n]["ended"] == "optimal"
    assert (found["peak_mb"] > 10).all()
    assert "completed" in printed


def test_ratios_on_constructions(ok: Ok, tmp_path: Path) -> None:
    sizes = "--memory 16 --memory 36 --memory 64 --memory 100"
    policies = "--policy mc-sf --policy a-random --seeds 2 --out r.csv"
    printed = ok(f"adversaries {sizes} --construction sqrt-n-adversary {policies}")
    assert printed.count("exponent of M") == 2
    found = pd.read_csv(tmp_path / "r.csv")
    assert [*zip(found["policy"], found["M"], strict=True)][:5] == [
        *(("mc-sf", m) for m in (16, 36, 64, 100)),
        ("a-random", 16),
    ]
    # The theorem is about deterministic policies where arrivals answer.
    assert [*found["claim"].isna()] == [False] * 4 + [True] * 4
