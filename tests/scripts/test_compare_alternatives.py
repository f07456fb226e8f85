"""What is compared with other tools is the same problem."""

from __future__ import annotations

import csv
from pathlib import Path

from brute_force import optimal_total_latency
from compare_alternatives import by_hand, compare_alternatives, solvers

from instances import generate


def test_without_other_tools_the_solvers_agree_with_enumeration() -> None:
    instance = generate("arrival-model-2", seed=4, n=4, memory_limit=12)
    optimum, _ = optimal_total_latency(instance)
    assert list(solvers(None)) == ["hindsight.solve", "program in HiGHS"]
    for solve in solvers(None).values():
        answer = solve(instance, 30)
        assert (answer["upper"], answer["lower"]) == (optimum, optimum)


def test_a_program_without_time_has_no_schedule() -> None:
    answer = by_hand(generate("arrival-model-1", seed=0, n=12), 1e-3)
    assert answer["upper"] is None or answer["upper"] >= 914  # the proved optimum
    assert answer["lower"] is None or answer["lower"] <= 914


def test_the_command_writes_a_row_for_each_tool(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    compare_alternatives(requests=[3], simulated=5, out=out)
    with out.open(encoding="utf-8") as stream:
        tools = [row["tool"] for row in csv.DictReader(stream)]
    assert tools == ["hindsight.solve", "program in HiGHS", "online.simulate"]
