"""Results together: a data frame and a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from instances import Instance, save
from online.experiment import (
    parse_experiment,
    ratio_rows,
    ratio_table,
    read_results,
    run_experiment,
)


def test_a_frame_has_a_line_for_each_trial(tiny_results: Path) -> None:
    pytest.importorskip("pandas")
    results = read_results(tiny_results)
    frame = results.frame()
    assert len(frame) == len(results)
    assert frame["total_latency"].tolist() == [trial.total_latency for trial in results]
    assert frame["family"].tolist() == [result.family for result in results]
    lower, upper = frame["ratio_lower"].tolist(), frame["ratio_upper"].tolist()
    assert list(zip(lower, upper, strict=True)) == [
        trial.ratio.ends for trial in results if trial.ratio
    ]


def test_the_table_is_that_of_the_command(tiny_results: Path) -> None:
    results = read_results(tiny_results)
    assert results.ratios() == ratio_table(ratio_rows(results))
    assert "<table" in results._repr_html_()
    for one in (results, results[0]):
        assert len(repr(one)) < 120


EDITED = """
name = "edited"
policies = ["fcfs"]
solver = false
batch_time = "affine:0.1,%g,0"
[[instances]]
file = "given.json"
"""


def test_what_was_declared_before_under_the_name_is_not_averaged_with_what_is_now(
    tmp_path: Path,
) -> None:
    path = tmp_path / "results.sqlite"
    save(Instance.from_arrays([1, 2], [2, 1], memory_limit=9), tmp_path / "given.json")
    first, second = (parse_experiment(EDITED % d1, folder=tmp_path) for d1 in (0.25, 0.5))
    latencies = []
    for experiment, computed in ((first, 1), (second, 1), (first, 0)):
        assert run_experiment(experiment, path).computed == computed
        (result,) = read_results(path)
        latencies.append(result.total_latency)
    assert latencies[0] == latencies[2] != latencies[1]
