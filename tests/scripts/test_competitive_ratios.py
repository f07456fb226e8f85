"""scripts/competitive_ratios.py as a process."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from forked_scripts import Ok

import instances
import online
from instances import Instance

ROWS = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:46.9951690,396,109
2023-11-16 18:15:47.2243670,879,55
2023-11-16 18:15:47.9951690,91,0
2023-11-16 18:15:48.0000000,9000,16
2023-11-16 18:15:48.1000000,91,16
"""
FCFS = "competitive_ratios --policy fcfs --jobs 1"
SECONDS = f"{FCFS} --time-limit 0 --out out.csv --batch-time"


@pytest.fixture(autouse=True)
def trace(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(ROWS, "utf-8")


def rows(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "out.csv").read_text("utf-8").splitlines()))


def words(printed: str) -> str:
    return " ".join(printed.split())


def test_example_1_on_the_terminal_and_on_disk(ok: Ok, tmp_path: Path) -> None:
    """[W25] Example 1: optimum 45, MC-SF 64."""
    one = Instance.from_arrays([63] + [1] * 21, [1] + [2] * 21, memory_limit=64, name="Example 1")
    instances.save(one, tmp_path / "example.json")
    files = " ".join(f"--out out.{kind}" for kind in ("csv", "md", "tex", "html"))
    printed = words(ok(f"{FCFS} example.json --policy mc-sf {files} --json out.json"))
    assert "Example 1 mc-sf 64 45 1.4222" in printed
    assert "mc-sf 1 0 1 1.4222 1.4222" in printed
    fcfs, row = rows(tmp_path)
    assert (fcfs["policy"], row["policy"], row["cost"]) == ("fcfs", "mc-sf", "64")
    assert (row["lower"], row["upper"], row["proved"]) == ("45", "45", "True")
    assert row["ratio_lower"] == row["ratio_upper"] == str(64 / 45)
    text = {kind: (tmp_path / f"out.{kind}").read_text("utf-8") for kind in ("md", "tex", "html")}
    assert "| mc-sf | 1 | 0 | 1 | 1.4222 |" in text["md"]
    assert "\nmc-sf & 1 & 0 & 1 & 1.4222 & " in text["tex"]
    assert "optimum, 1 instance of Example 1}" in text["tex"]
    assert "total latency / optimum" in text["html"]
    assert "<svg" in text["html"]
    document = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert document["policies"][1]["mean ratio"] == [64 / 45] * 2


def test_requests_on_time_beside_the_most_possible(ok: Ok, tmp_path: Path) -> None:
    """Of three requests that run one at a time, two rounds each, two end within four rounds."""
    one = Instance.from_arrays([3, 3, 3], [2, 2, 2], memory_limit=5, name="alike")
    instances.save(one, tmp_path / "alike.json")
    line = "competitive_ratios alike.json --policy fcfs --policy edf --jobs 1 --out out.csv"
    printed = words(ok(f"{line} --slo latency=4 --slo ttft=3"))
    assert "on time: latency <= 4, first_token <= 3, in rounds" in printed
    assert "alike fcfs 2 2 1.0000" in printed
    assert [(row["cost"], row["upper"]) for row in rows(tmp_path)] == [("2", "2")] * 2


STUDY = """\
policy = ["fcfs", "mine.py:Mine"]
predictions = ["exact", "noisy(delta=1)"]
seed = [0, 1]
time_limit = 5

[sources]
small = ["generator:uniform(n=3, maximum_length=4, memory_limit=9, count=2)"]
named = ["one.json"]
"""
MINE = """\
from online import PriorityPolicy

class Mine(PriorityPolicy):
    def priority(self, request):
        return request.prediction.upper
"""


def test_a_file_names_what_lies_beside_it_and_a_store_continues(ok: Ok, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY, "utf-8")
    (folder / "mine.py").write_text(MINE, "utf-8")
    one = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6, name="one")
    instances.save(one, folder / "one.json")
    line = "competitive_ratios study/study.toml --store s.jsonl --jobs 1 --out out.csv"
    printed = ok(line)
    trials = online.read_trials(tmp_path / "s.jsonl")
    # On each of three instances each policy with exact lengths, and twice with noisy ones.
    assert len(trials) == 3 * 2 * (1 + 2)
    assert [row["group"] for row in rows(tmp_path)] == ["small"] * 12 + ["named"] * 6
    written = (tmp_path / "s.jsonl").read_text("utf-8")
    assert ok(line) == printed
    assert (tmp_path / "s.jsonl").read_text("utf-8") == written
    # Options of the command line replace those of the file; its files are in the working folder.
    ok(f"{line} --policy study/mine.py:Mine --predictions exact")
    assert len(rows(tmp_path)) == 3


def test_what_is_synthetic_says_so_above_the_tables(ok: Ok, tmp_path: Path) -> None:
    source = "generator:lmsys-like(n=2, token-scale=100, count=2)"
    printed = ok(f"{FCFS} '{source}' --time-limit 5 --out page.md")
    for shown in (printed, (tmp_path / "page.md").read_text("utf-8")):
        assert shown.count("synthetic: lengths drawn from laws") == 1
        assert "lmsys-like (synthetic)[seed=0," in shown


@pytest.mark.parametrize(
    ("option", "named"),
    [("", ["optimum", "preemptive optimum"]), ("--preemption keep", ["preemptive optimum"] * 2)],
)
def test_every_number_says_which_optimum_it_is_of(
    ok: Ok, tmp_path: Path, option: str, named: list[str]
) -> None:
    """Two requests of which a third of each fits: the engine preempts, and keeps the tokens."""
    pair = Instance.from_arrays([1, 1], [4, 4], memory_limit=6, name="pair")
    instances.save(pair, tmp_path / "pair.json")
    engine = "--policy vllm-v0:preemption=recompute,watermark=0"
    printed = ok(f"competitive_ratios pair.json --policy mc-sf {engine} --out out.csv {option}")
    assert all(name in printed for name in named)
    assert ("--preemption keep divides all costs" in printed) == (len(set(named)) == 2)
    assert [row["preemption"] == "keep" for row in rows(tmp_path)] == [
        name == "preemptive optimum" for name in named
    ]
    assert all(float(row["ratio_lower"]) >= 1 for row in rows(tmp_path))
    on_time = ok(f"competitive_ratios pair.json {engine} --slo latency=9 {option}")
    assert ("pause need --preemption keep, and no --optimum records" in on_time) == (not option)
    assert ("2 2 1.0000" in words(on_time)) == bool(option)


def test_one_policy_without_a_ratio_leaves_the_other_its_own(ok: Ok, tmp_path: Path) -> None:
    policies = "--policy mc-sf --policy alpha-protection --jobs 1 --out out.csv"
    printed = ok(f"competitive_ratios 'generator:arrival-model-1(n=6)' {policies}")
    assert "mc-sf 224 224 1.0000" in words(printed)
    assert "alpha-protection 1 livelock " in words(printed)
    own, other = rows(tmp_path)
    assert (own["policy"], own["ratio_upper"], own["reason"]) == ("mc-sf", "1.0", "")
    assert (other["policy"], other["ratio_upper"]) == ("alpha-protection", "")
    assert other["reason"] in printed


def test_library_instances_beside_their_records(ok: Ok, tmp_path: Path) -> None:
    ok(f"{FCFS} 'j25-m1-n10-*' --optimum records --out out.csv")
    for row in rows(tmp_path):
        record = instances.library()[row["instance"]].record
        assert record is not None
        assert (row["lower"], row["upper"]) == (str(record.lower_bound), str(record.upper_bound))


# --- in seconds --------------------------------------------------------------------------------


def test_a_file_in_seconds_by_hand(ok: Ok, tmp_path: Path) -> None:
    """Three requests, 1 s a round and half a second a token processed.

    Round 1 processes two tokens, 2 s; requests 1 and 2 arrived meanwhile, and their prompts of one
    token each take 2 s as well; the second token of request 2 takes 1.5 s. Latencies 2, 3 and 4.5.
    """
    three = Instance.from_arrays([2, 1, 1], [1, 1, 2], [0, 1, 1], memory_limit=9, name="three")
    instances.save(three, tmp_path / "three.json")
    printed = words(ok(f"{SECONDS} affine:1,0.5,0 three.json --policy vllm-v0"))
    assert "three fcfs 9.5000 " in printed
    assert "total latency / optimum in seconds" in printed
    assert "mean latency, s" in printed
    found = rows(tmp_path)
    assert found[0]["cost"] == "9.5"
    assert all(float(row["ratio_lower"]) >= 1 for row in found)
    assert all(float(row["certified"]) <= float(row["lower"]) for row in found)


@pytest.mark.parametrize(
    ("settings", "kept"),
    [("(faster=1000)", ["5"]), ("(duration_seconds=0.8, windows=2)", ["3", "2"])],
)
def test_a_trace_at_its_own_times_and_faster(
    ok: Ok, tmp_path: Path, settings: str, kept: list[str]
) -> None:
    """The preset has a memory limit; only alone is a row of 9,000 tokens."""
    printed = ok(f"{SECONDS} llama-2-70b-2xa100 'trace:trace.csv{settings}'")
    assert "arrivals in seconds" in printed
    assert [row["requests"] for row in rows(tmp_path)] == kept
    assert {row["memory_limit"] for row in rows(tmp_path)} == {"16492"}
