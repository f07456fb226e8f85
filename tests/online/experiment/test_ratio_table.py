"""Tables of experiments: golden figures, trials that are missing, and optima that are."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from experiment_processes import TINY
from golden import check_text

from instances import Instance, save
from online.experiment import (
    Experiment,
    Family,
    parse_experiment,
    ratio_csv,
    ratio_rows,
    ratio_table,
    read_results,
    run_experiment,
)
from online.experiment.plan import make_plan
from online.experiment.store import Store
from online.experiment.work import perform


def test_golden_ratios_of_an_experiment(tiny_results: Path) -> None:
    """All rows, and those of one family, where fewer columns tell them apart."""
    results = read_results(tiny_results)
    parts = []
    last = [one for one in results if one.family == results[-1].family]
    for level, some in ((0.95, results), (0.8, last)):
        rows = ratio_rows(some, confidence_level=level)
        written = ratio_csv(rows).replace(f",{results[0].version},", ",VERSION,")
        parts += [ratio_table(rows).to_text(), written]
    check_text("experiment.txt", "\n".join(parts) + "\n")


def test_what_has_not_been_run_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "half.sqlite"
    plan = make_plan(parse_experiment(TINY))
    with Store(path) as store:
        store.enter(plan)
        assert ratio_table(ratio_rows(read_results(path))).title.endswith("; 16 trials not yet run")
        done = perform(plan.trials[plan.members[0].trial])
        assert store.add(*done)
        assert not store.add(*done)
    rows = ratio_rows(read_results(path))
    assert [row.missing for row in rows] == [1, 2, 4, 2, 2, 4]
    # A trial without an optimum has no ratio, and says so.
    assert str(rows[0].summary.mean_ratio) == "[?, ?]"
    assert str(rows[1].summary.mean_ratio) == "[?, ?]"
    assert [row.pending for row in rows] == [1, 0, 0, 0, 0, 0]
    assert ratio_table(rows).title.endswith(
        "; 1 trials whose optimum has not been computed: ? is not known; 15 trials not yet run"
    )
    with pytest.raises(ValueError, match="which holds: tiny"):
        read_results(path, "other")


def test_what_is_solved_has_ratios_though_the_rest_is_not(tiny_results: Path) -> None:
    """As after Ctrl-C: of one instance in two the optimum is missing, of one family every one."""
    results = read_results(tiny_results)
    unsolved = results[-1].family
    stopped = [
        replace(one, optimum_upper=None, optimum_lower=None)
        if (one.draw or 0) % 2 or one.family == unsolved
        else one
        for one in results
    ]
    solved = [one for one in results if (one.draw or 0) % 2 == 0 and one.family != unsolved]
    rows = ratio_rows(stopped)
    halves = [row for row in rows if row.family != unsolved]
    assert [replace(row, pending=0) for row in halves] == ratio_rows(solved)
    left_out, unknown = (
        sum(row.pending for row in rows if row.is_solved is k) for k in (True, False)
    )
    assert left_out + unknown == sum(one.is_pending for one in stopped)
    title = ratio_table(rows).title
    assert f"; {left_out} trials whose optimum has not been computed enter no ratio; " in title
    assert f"; {unknown} trials whose optimum has not been computed: ? is not known" in title
    assert "without a proved optimum" not in title
    lines = list(csv.DictReader(io.StringIO(ratio_csv(rows))))
    assert sum(int(line["pending"]) for line in lines) == left_out + unknown


def test_optima_of_scaled_lengths_are_told_as_such(tmp_path: Path) -> None:
    families = [
        Family("lmsys-like", {"n": 2, "token_scale": scale}, label=f"scale {scale}")
        for scale in (64, 1)
    ]
    run_experiment(Experiment("scaled", families, ["mc-sf"], solver=None), tmp_path / "r.sqlite")
    rows = ratio_rows(read_results(tmp_path / "r.sqlite"))
    scaled, whole = (ratio_table([row]).title for row in rows)
    assert "not of the drawn lengths: tokens are rounded up to multiples of 64" in scaled
    assert "rounded" not in whole


def test_a_frame_has_a_line_for_each_trial(tiny_results: Path) -> None:
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
