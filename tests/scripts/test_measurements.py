"""Scripts that measure, as processes: speeds, ratios, convergence, gaps."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from forked_scripts import Ok

SLOW = pytest.mark.slow


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- simulator, solvers, relaxations -----------------------------------------------------------


def test_the_benchmark_times_and_compares(ok: Ok) -> None:
    sizes = "--requests 20 --requests 60 --plain 15 --plain 30"
    printed = ok(f"benchmark_simulator {sizes} --policy a-min --policy sorted-f-swap")
    assert printed.count("| completed") == 4
    assert ", Python " in printed.splitlines()[0]
    assert printed.count("grows as n^") == 3
    assert "plain rendering, same total latency" in printed


def test_a_table_too_large_is_said_to_be_refused(ok: Ok) -> None:
    printed = ok("benchmark_simulator --requests 1000 --policy sorted-f-dp --plain 15")
    assert "sorted-f-dp | 1000 | refused" in printed
    assert "sorted-f-dp | 100 | " in printed


def test_the_benchmark_in_continuous_time(ok: Ok) -> None:
    printed = ok("benchmark_simulator --continuous --requests 30 --policy sarathi")
    assert "sarathi | 30 | " in printed
    assert "plain rendering" not in printed


@pytest.mark.slow
def test_relaxations_at_scale_agree_and_growth_is_fitted(ok: Ok, tmp_path: Path) -> None:
    sizes = "-n 5 -n 10 -n 15 -n 20 -n 40"
    printed = ok(f"benchmark_scale --family arriving {sizes} --tolerance 0.01 --out rows.csv")
    assert "arriving, scale: processor time ~ n^" in printed
    found = rows(tmp_path / "rows.csv")
    by_size = {row["n"]: row for row in found if row["method"] == "scale"}
    smallest = by_size["5"]
    assert smallest["ended"] == "tolerance"
    assert int(smallest["certified"]) >= float(smallest["value"])
    assert float(smallest["peak_MB"]) > 10
    compared = [row for row in found if row["method"] == "rows" and row["value"]]
    assert compared
    for row in compared:
        scale, value = float(by_size[row["n"]]["value"]), float(row["value"])
        assert 0.99 * value <= scale <= value * (1 + 1e-6)


# --- ratios of the papers' constructions, gaps in the fluid model ------------------------------


@pytest.mark.slow
def test_the_convergence_table_and_plot(ok: Ok, tmp_path: Path) -> None:
    sizes = "--memory 30 --memory 60 --batches 2 --batches 4 --seeds 2"
    outputs = "--plot ratios.png --out ratios.csv"
    lines = ok(f"closed_form_convergence {sizes} --only two-point {outputs}").splitlines()
    assert lines[0].endswith("closed_form | policy/formula | h-sf/formula | evictions/n")
    # Twelve cases; outputs of 20 need more than 30 tokens.
    assert len(lines) == 1 + 12 * 4 - 3 * 2 + 1 + 12
    assert lines[-1].startswith("a-ell on two-point[lower=4,upper=8] | 1.")
    assert len(rows(tmp_path / "ratios.csv")) == 12 * 4 - 3 * 2
    assert (tmp_path / "ratios.png").read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.glob(".*part*")) == []


def test_ratios_on_constructions_as_text_csv_and_figure(ok: Ok, tmp_path: Path) -> None:
    memory = "--memory 16 --memory 36 --memory 64 --memory 100"
    policies = "--policy mc-sf --policy a-random --seeds 2 --out r.csv --plot r.png"
    printed = ok(f"adversary_tables ratios {memory} --construction sqrt-n-adversary {policies}")
    assert "exponent of M" in printed
    found = rows(tmp_path / "r.csv")
    own = [("mc-sf", m) for m in ("16", "36", "64", "100")]
    assert [(row["policy"], row["M"]) for row in found[:5]] == [*own, ("a-random", "16")]
    assert {row["arrivals"] for row in found} == {"adaptive"}
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.glob(".*part*")) == []


def test_the_cascade_as_markdown(ok: Ok, tmp_path: Path) -> None:
    printed = ok("adversary_tables cascade --rounds 50 --policy fcfs-greedy --seeds 2 --out c.md")
    assert printed.count("fcfs-greedy") == 4
    assert (tmp_path / "c.md").read_text("utf-8").startswith("**fcfs-cascade at M = M")


def test_reductions(ok: Ok) -> None:
    printed = ok("adversary_tables reductions --groups 1 --seeds 1")
    assert printed.count("three-partition") == 2
    assert printed.count("partition-makespan") == 3


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("gaps --horizon 20 --horizon 40", 8),
        pytest.param("loads --horizon 20 --horizon 40", 24, marks=SLOW),
        pytest.param("memory --horizon 30", 4, marks=SLOW),
    ],
)
def test_fluid_experiments_as_csv(ok: Ok, tmp_path: Path, line: str, count: int) -> None:
    ok(f"fluid_experiments {line} --seeds 2 --out rows.csv")
    assert len(rows(tmp_path / "rows.csv")) == count
    assert list(tmp_path.glob(".*part*")) == []
