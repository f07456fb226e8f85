"""One optimum for each policy of a table, and one for each axis; rows cover the same instances."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import hindsight
import instances
import online
from instances import InvalidValueError
from online import pictures
from online.comparison import (
    Records,
    Trial,
    compare_many,
    records_csv,
    records_table,
    report_markdown,
    summarise,
    summary_table,
)
from online.experiment import Experiment, Family, Solver, read_results, run_experiment
from online.report import build_report

SRPT = f"{Path(__file__).parents[2] / 'data' / 'field' / 'srpt.py'}:SRPT"
SEEDS = (2, 5, 8, 11)
"""SRPT preempts with seeds 5 and 11 only."""

DRAWN = [instances.generate("arrival-model-2", seed, n=6) for seed in SEEDS]
SRPT_TOTALS, PLAIN_TOTALS = (43, 113, 85, 91), (43, 141, 85, 135)
WHOLE, PARTS = (43, 113, 85, 91), (43, 107, 79, 86)
"""The optima without preemption and with it, proved by `hindsight.solve`."""

PREEMPTIVE = "preemptive optimum"


def mean(totals: tuple[int, ...], optima: tuple[int, ...]) -> Fraction:
    return sum(map(Fraction, totals, optima), Fraction()) / len(totals)


@pytest.fixture(scope="module")
def compared() -> Records:
    return Records(compare_many(DRAWN, [SRPT, "mc-sf"]).records)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mix") / "mix.sqlite"
    family = Family("arrival-model-2", {"n": 6}, SEEDS, "AM2")
    run_experiment(Experiment("mix", [family], [SRPT, "mc-sf"], solver=Solver()), path)
    return path


@pytest.mark.parametrize("way", ["compare_many", "experiment"])
def test_a_policy_that_preempts_on_some_instances_has_one_row(
    compared: Records, stored: Path, way: str
) -> None:
    records = compared if way == "compare_many" else read_results(stored)
    assert [one.ratio for one in records if one.policy == "SRPT"] == [
        online.comparison.Interval(Fraction(total, best), Fraction(total, best))
        for total, best in zip(SRPT_TOTALS, PARTS, strict=True)
    ]
    srpt, plain = summarise(records)
    assert (srpt.compared_with, plain.compared_with) == (PREEMPTIVE, "optimum")
    for row, totals in ((srpt, SRPT_TOTALS), (plain, PLAIN_TOTALS)):
        assert (row.trials, row.proved, row.missing) == (4, 4, ())
        assert row.to_optimum.lower == row.to_optimum.upper == mean(totals, WHOLE)
        assert row.to_preemptive_optimum.lower == mean(totals, PARTS)
    tables = (records_table(records), summary_table([srpt, plain]))
    names = {"compared_with", "to_optimum", "to_preemptive_optimum"}
    assert all(names <= set(table.columns) for table in tables)
    assert "to_preemptive_optimum_upper" in records_csv(records).splitlines()[0]
    assert "to_preemptive_optimum" in report_markdown(records, [srpt, plain])


def test_the_report_crowns_by_one_optimum_and_draws_one_on_each_axis(stored: Path) -> None:
    page = build_report(read_results(stored))
    figure = f"{float(mean(SRPT_TOTALS, PARTS)):.4f}"
    assert f"<h1>SRPT has the least mean ratio to the preemptive optimum, {figure}</h1>" in page
    for name in (PREEMPTIVE, "optimum"):
        assert f"<option>ratios to the {name}</option>" in page


def test_a_policy_that_says_so_is_always_compared_with_the_preemptive_optimum() -> None:
    calm = instances.Instance.from_arrays([1, 1], [2, 2], memory_limit=20)
    (engine,) = online.compare(calm, "vllm")
    assert not engine.run.keeps_tokens
    assert engine.compared_with == PREEMPTIVE
    (served,) = online.compare(calm, "vllm-v0")
    assert served.compared_with == "optimum"


def test_a_row_on_fewer_instances_says_which_it_lacks(compared: Records) -> None:
    fewer = [one for one in compared if one.policy == "mc-sf" or "seed=2" in one.instance]
    srpt, plain = summarise(fewer)
    assert (plain.missing, plain.instances) == ((), 4)
    assert srpt.missing == tuple(f"arrival-model-2[seed={seed},n=6]" for seed in SEEDS[1:])
    table = summary_table([srpt, plain])
    place = table.columns.index("instances")
    assert [row[place] for row in table.rows] == ["1/4", "4/4"]
    note = "SRPT has no ratio on 3 of the 4 instances of other rows: arrival-model-2[seed=5"
    for page in (build_report(fewer), report_markdown(fewer, [srpt, plain])):
        assert note in page
    # SRPT's one ratio is 1, and crowned would be a policy on one instance.
    assert "<h1>mc-sf has a mean ratio" in build_report(fewer)


def test_no_axis_has_ratios_to_both_optima(compared: Records) -> None:
    own = {name: [one for one in compared if one.policy == name] for name in ("SRPT", "mc-sf")}
    groups = {name: [one.ratio for one in trials] for name, trials in own.items()}
    with pytest.raises(InvalidValueError, match="are different optima: draw ratios to one"):
        pictures.ratio_histogram([one.ratio for one in compared])
    same = {name: [one.to_preemptive_optimum for one in trials] for name, trials in own.items()}
    axes = pictures.ratio_histogram(same["SRPT"])
    assert axes.get_xlabel() == "total latency / preemptive optimum"
    axes = pictures.ratio_histogram(groups["mc-sf"])
    assert axes.get_xlabel() == "total latency / hindsight optimum"


def test_one_trial_has_one_interval_by_whichever_command(tmp_path: Path) -> None:
    """Without time to search, the best policy's schedule is the best known: in every command."""
    drawn = [instances.generate("arrival-model-1", seed, n=14) for seed in range(3)]
    policies = ["mc-sf", "fcfs", SRPT]
    compared = compare_many(drawn, policies, time_limit=0).records
    family = Family("arrival-model-1", {"n": 14}, range(3))
    path = tmp_path / "r.sqlite"
    run_experiment(Experiment("same", [family], policies, solver=Solver(time_limit=0)), path)
    figures: list[list[tuple[object, ...]]] = [
        [
            (one.policy, one.optimum_lower, one.optimum_upper, one.ratio, one.compared_with)
            for one in trials
        ]
        for trials in (compared, read_results(path))
    ]
    assert figures[0] == figures[1]
    for one in compared:
        assert isinstance(one, Trial)
        assert one.ratio.lower >= 1
        assert one.optimum_upper == min(
            other.optimum_upper
            for other in compared
            if (other.digest, other.preemptive) == (one.digest, one.preemptive)
        )


def test_a_ratio_takes_the_optimum_that_is_given() -> None:
    calm, busy = DRAWN[0], DRAWN[1]
    for drawn in (calm, busy):
        run = online.simulate(drawn, online.make_policy("mc-sf"))
        assert online.ratio(run, hindsight.solve(drawn, preemption="keep")).preemptive
        assert not online.ratio(run, hindsight.solve(drawn)).preemptive
