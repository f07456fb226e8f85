"""Policies on instances of the library, beside the golden tables and the simulator."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from golden import FOLDER

import instances
import online
from instances import InvalidValueError
from online.experiment import ExperimentProgress
from online.leaderboard.scores import EXACT, INTERVAL, KEEPS_TOKENS, Score, play, registered
from online.policy_interface.specs import parameterless_policies

NAMES = (
    "j25-m1-n10-00",
    "preemptive-j25-m1-n10-00",
    "reduction-partition-yes-n10-00",
    "c25-two-point-n20-00",
    "seconds-azure-conv-n20-00",
    "blocks-j25-m2-n10-00",
)
POLICIES = ("mc-sf", "a-max", "a-random")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("played") / "results.sqlite"


@pytest.fixture(scope="module")
def scores(results: Path) -> list[Score]:
    return play(instances.library().matching(*NAMES), results, policies=POLICIES)


def of(scores: list[Score], name: str, told: str = EXACT) -> dict[str, Score]:
    found = {one.policy: one for one in scores if (one.instance, one.told) == (name, told)}
    assert len(found) == sum((one.instance, one.told) == (name, told) for one in scores)
    return found


def test_scores_are_those_of_the_library_s_golden_tables(scores: list[Score]) -> None:
    digests = {one.instance: one.digest for one in scores}
    assert digests == {name: instances.library(name).digest for name in NAMES}
    for name in NAMES:
        entry = instances.library(name)
        rows = csv.DictReader((FOLDER / "library" / f"{entry.set}.csv").read_text().splitlines())
        (row,) = (row for row in rows if row["instance"] == name)
        found = of(scores, name)
        assert set(found) == set(POLICIES)
        if entry.goal == "makespan":
            run = online.simulate(entry.problem, "mc-sf")
            assert found["mc-sf"].figure == run.schedule.makespan
        else:
            for policy, score in found.items():
                assert float(score.figure or 0) == pytest.approx(float(row[policy])), policy


def test_intervals_are_the_least_and_largest_output(scores: list[Score]) -> None:
    name = "c25-two-point-n20-00"
    instance = instances.library(name).problem
    outputs = instance.output_lengths
    told = online.IntervalPredictions(int(outputs.min()), int(outputs.max()))
    run = online.simulate(instance, "a-max", predictions=told)
    found = of(scores, name, INTERVAL)
    assert found["a-max"].figure == run.total_latency
    assert found["a-max"].figure != of(scores, name)["a-max"].figure
    # It needs lengths, and says so.
    assert found["a-random"].figure is None
    assert "only known to lie in" in (found["a-random"].reason or "")


def test_nothing_is_run_twice(scores: list[Score], results: Path) -> None:
    news: list[ExperimentProgress] = []
    again = play(
        instances.library().matching(*NAMES), results, policies=POLICIES, progress=news.append
    )
    assert again == scores
    assert {one.computed for one in news} == {0}
    assert news[-1].done == news[-1].total == len(scores)


def test_kept_tokens_have_no_ratio_to_the_optimum_without_preemption(tmp_path: Path) -> None:
    entries = instances.library().matching("j25-m1-n15-00", "preemptive-j25-m1-n15-00")
    without, preemptive = play(entries, tmp_path / "r.sqlite", policies=["vllm"])
    run = online.simulate(entries[0].problem, "vllm")
    assert run.keeps_tokens
    assert (without.figure, without.reason) == (None, KEEPS_TOKENS)
    assert preemptive.figure == run.total_latency


def test_engines_are_played_in_two_orders() -> None:
    labels = [spec.label for spec in registered()]
    assert {"vllm", "vllm(order=shortest-output)", "sglang(order=shortest-output)"} < set(labels)
    assert {label.partition("(")[0] for label in labels} == set(parameterless_policies())
    assert len(labels) == len(set(labels)) == len(parameterless_policies()) + 5


@pytest.mark.parametrize(
    ("name", "policy", "message"),
    [
        ("azure-conv-n200-00", "sorted-lp", "not run with more than 30 requests"),
        ("reduction-partition-no-n20-00", "vllm", "not run with more than 1000000 blocks"),
    ],
)
def test_what_would_take_minutes_is_not_run(
    tmp_path: Path, name: str, policy: str, message: str
) -> None:
    (score,) = play(instances.library().matching(name), tmp_path / "r.sqlite", policies=[policy])
    assert score.figure is None
    assert (score.reason or "").startswith(message)


def test_policies_are_told_the_level_and_late_requests_counted(tmp_path: Path) -> None:
    names = (NAMES[0], "service-j25-m2-n20-00", "service-seconds-azure-conv-n30-00")
    entries = instances.library().matching(*names)
    scores = play(entries, tmp_path / "r.sqlite", policies=["edf", "mc-sf", "vllm"])
    assert [one.policy for one in scores if one.instance == NAMES[0]] == ["mc-sf", "vllm"]
    for entry in entries[1:]:
        assert entry.level is not None
        for policy, score in of(scores, entry.name).items():
            run = online.simulate(entry.instance, policy, level=entry.level)
            if run.batch_time is None and run.keeps_tokens:
                assert (policy, score.reason) == ("vllm", KEEPS_TOKENS)
            else:
                assert score.figure == len(entry.instance) - run.on_time(entry.level).sum()
    with pytest.raises(InvalidValueError, match="needs a service level"):
        play(entries[:1], tmp_path / "r.sqlite", policies=["edf"])
