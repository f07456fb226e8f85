"""Scripts that measure: benchmarks, and ratios on the papers' constructions."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from forked_scripts import Ok

OPTIONS = "--family arriving --time-limit 20 --out rows.csv"


def test_a_benchmark_measures_solves_bounds_and_policies(ok: Ok, tmp_path: Path) -> None:
    printed = ok(f"benchmark solve rows mc-sf -n 8 {OPTIONS}")
    found = pd.read_csv(tmp_path / "rows.csv").set_index("method")
    lower, upper, end = found.loc["solve"][["lower", "upper", "ended"]]
    assert found.loc["rows"]["lower"] <= lower <= upper <= found.loc["mc-sf"]["upper"]
    assert (end, (found["peak_mb"] > 10).all()) == ("optimal", True)
    assert "completed" in printed


@pytest.mark.slow
def test_a_benchmark_fits_a_power_law_to_three_sizes(ok: Ok, tmp_path: Path) -> None:
    printed = ok(f"benchmark relax -n 20 -n 30 -n 40 {OPTIONS}")
    assert "arriving, relax: processor time ~ n^" in printed
    assert [*pd.read_csv(tmp_path / "rows.csv")["n"]] == [20, 30, 40]


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
