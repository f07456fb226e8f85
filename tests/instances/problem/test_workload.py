"""Requests at real arrival times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from instances import Instance, Workload, generate, read_workload


def test_lengths_of_an_instance_at_the_times_of_a_process() -> None:
    lengths = Instance.from_arrays([1, 2], [3, 4], memory_limit=10, name="pair")
    workload = Workload.with_arrivals(lengths, 2.0, seed=3)
    assert workload.prompt_lengths.tolist() == [1, 2]
    many = Workload.with_arrivals(generate("two-point", n=20_000), 2.0, seed=3)
    assert workload.arrival_times.tolist() == many.arrival_times[:2].tolist()
    assert workload.metadata["arrivals"] == {"rate": 2.0, "seed": 3}
    gaps = np.diff(many.arrival_times, prepend=0) * 2.0
    assert stats.kstest(gaps, "expon").pvalue > 1e-3
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 0.03


def test_faster() -> None:
    workload = Workload([1.0, 3.0], [1, 1], [1, 1], memory_limit=9, name="w").faster(4)
    assert workload.arrival_times.tolist() == [0.25, 0.75]
    assert workload.name == "w x4"


def test_a_trace_at_its_own_times(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.5000000,10,4\n"
        "2023-11-16 18:15:46.7500000,0,4\n"
        "2023-11-16 18:15:47.0000000,20,8\n"
        "2023-11-16 18:15:49.2500000,90,20\n"
    )
    arguments: dict[str, Any] = {"memory_limit": 100}
    workload, report = read_workload(path, **arguments)
    assert workload.arrival_times.tolist() == [0.0, 0.5]
    assert workload.ids == ("row2", "row4")
    assert (report.dropped_empty, report.dropped_too_long, report.round_seconds) == (1, 1, None)
    assert "arrivals in seconds" in str(report)
    clipped, report = read_workload(path, start_seconds=0.5, too_long="clip", **arguments)
    assert clipped.arrival_times.tolist() == [0.0, 2.25]
    assert clipped.output_lengths.tolist() == [8, 10]
    assert report.clipped == 1
