"""scripts/competitive_ratios.py as a process."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest
from forked_scripts import Refused, Script

import instances
from instances import Instance
from online.commands.demo_instances import POLICIES

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT.parent / "shared" / "traces" / "azure_llm_inference_2023_conv.csv"

ROWS = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:46.9951690,396,109
2023-11-16 18:15:47.2243670,879,55
2023-11-16 18:15:47.9951690,91,0
2023-11-16 18:15:48.0000000,9000,16
2023-11-16 18:15:48.1000000,91,16
"""


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """[W25] Example 1: optimum 45, MC-SF 64."""
    path = tmp_path / "example.json"
    one = Instance.from_arrays([63] + [1] * 21, [1] + [2] * 21, memory_limit=64, name="Example 1")
    instances.save(one, path)
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(ROWS, "utf-8")
    return path


def test_example_1_on_the_terminal_and_on_disk(
    script: Script, example: Path, tmp_path: Path
) -> None:
    out, page, latex = (tmp_path / f"out.{kind}" for kind in ("csv", "md", "tex"))
    for path in (out, page, latex):
        process = script(
            *("competitive_ratios", example, "--policy", "mc-sf"),
            *("--policy", "fcfs", "--wide", "--out", path),
        )
        assert process.returncode == 0, process.stderr
        assert process.stderr == ""
    assert "Example 1 22 64 mc-sf 64 45 1.4222 21 2 10.5000" in " ".join(process.stdout.split())
    assert "mc-sf 1 0 1/1 1.4222 1.4222 1.4222 10.5000" in " ".join(process.stdout.split())
    rows = list(csv.DictReader(out.open(encoding="utf-8")))
    assert [row["policy"] for row in rows] == ["mc-sf", "fcfs"]
    assert rows[0]["total_latency"] == "64"
    assert (rows[0]["optimum_lower"], rows[0]["optimum_upper"]) == ("45", "45")
    assert rows[0]["ratio_lower"] == rows[0]["ratio_upper"] == str(64 / 45)
    assert rows[0]["proved"] == "true"
    assert "| mc-sf | 1 | 0 | 1/1 | 1.4222 | 1.4222 | 1.4222 | 10.5000 |" in page.read_text("utf-8")
    assert "\nmc-sf & 1 & 0 & 1/1 & 1.4222 & 1.4222 & 1.4222 & 10.5000 " in latex.read_text("utf-8")


@pytest.mark.slow
def test_drawn_instances_do_not_depend_on_jobs(script: Script, tmp_path: Path) -> None:
    shown = []
    for jobs in (1, 2):
        process = script(
            *("competitive_ratios", "generator:arrival-model-1(n=4, count=2, seed=2)"),
            *("--seed", 2, "--jobs", jobs),
        )
        assert process.returncode == 0, process.stderr
        shown.append(process.stdout)
    assert shown[0] == shown[1]
    assert "2/2" in shown[0]


def test_a_trace_says_what_was_dropped(script: Script, trace: Path) -> None:
    process = script(
        "competitive_ratios",
        f"trace:{trace}(memory_limit=40, token_scale=32, round_seconds=1.6)",
        *("--policy", "mc-sf", "--jobs", 1, "--wide"),
    )
    assert process.returncode == 0, process.stderr
    assert "4 of 6 rows kept (1 empty, 1 too long, 0 clipped)" in process.stdout
    assert "1/1" in process.stdout


def test_consecutive_windows_of_a_trace(script: Script, trace: Path) -> None:
    process = script(
        "competitive_ratios",
        f"trace:{trace}(memory_limit=400, token_scale=32, duration_seconds=0.8, windows=2, "
        "too_long=clip)",
        *("--policy", "fcfs", "--jobs", 1, "--wide"),
    )
    assert process.returncode == 0, process.stderr
    assert "trace[0s+3]: trace.csv: 3 of 3 rows kept" in process.stdout
    assert "trace[0.8s+2]: trace.csv: 2 of 3 rows kept (1 empty" in process.stdout
    assert "2/2" in process.stdout


def test_another_format_is_told_from_its_columns(script: Script, tmp_path: Path) -> None:
    path = tmp_path / "mooncake.jsonl.gz"
    rows = '{"timestamp": 0, "input_length": 3, "output_length": 2, "hash_ids": [0]}\n' * 2
    path.write_bytes(gzip.compress(rows.encode()))
    process = script(
        *("competitive_ratios", f"trace:{path}(memory_limit=5)", "--policy", "fcfs", "--wide")
    )
    assert process.returncode == 0, process.stderr
    assert "mooncake[0s+2] 2 5 fcfs 6 6 1.0000" in " ".join(process.stdout.split())


def test_what_is_synthetic_says_so_above_the_tables(script: Script, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    process = script(
        *("competitive_ratios", "generator:lmsys-like(n=2, token-scale=100, count=2)"),
        *("--policy", "fcfs", "--jobs", 1, "--out", page),
    )
    assert process.returncode == 0, process.stderr
    for shown in (process.stdout, page.read_text("utf-8")):
        assert shown.count("synthetic: lengths drawn from laws") == 1
        assert "lmsys-like (synthetic)[seed=0," in shown


@pytest.mark.skipif(not TRACE.exists(), reason=f"{TRACE.name} is not beside the project")
def test_a_window_of_the_real_trace(script: Script) -> None:
    process = script(
        "competitive_ratios",
        f"trace:{TRACE}(memory_limit=257, token_scale=64, round_seconds=3.2, start_seconds=1200, "
        "max_requests=80)",
        *("--policy", "mc-sf", "--policy", "fcfs", "--time-limit", 2),
    )
    assert process.returncode == 0, process.stderr
    assert "80 of 80 rows kept" in process.stdout
    assert "1 optimum unproved" in process.stdout
    for total in ("652", "840"):
        assert total in process.stdout.split()


def test_every_number_says_which_optimum_it_is_of(script: Script, tmp_path: Path) -> None:
    """Two requests of which a third of each fits: the engine preempts, and keeps the tokens."""
    path, out = tmp_path / "pair.json", tmp_path / "out.csv"
    instances.save(Instance.from_arrays([1, 1], [4, 4], memory_limit=6, name="pair"), path)
    engine = "vllm-v0:preemption=recompute,watermark=0"
    for options, named in (
        ((), ["optimum", "preemptive optimum"]),
        (("--preemptive",), ["preemptive optimum"] * 2),
    ):
        process = script(
            *("competitive_ratios", path, "--policy", "mc-sf", "--policy", engine),
            *("--out", out, *options),
        )
        assert process.returncode == 0, process.stderr
        assert "compared_with" in process.stdout
        rows = list(csv.DictReader(out.read_text("utf-8").splitlines()))
        assert [row["compared_with"] for row in rows] == named
        assert all(float(row["ratio_lower"]) >= 1 for row in rows)


# --- in seconds --------------------------------------------------------------------------------


def test_a_file_in_seconds_by_hand(script: Script, tmp_path: Path) -> None:
    """Three requests, 1 s a round and half a second a token processed.

    Round 1 processes two tokens, 2 s; requests 1 and 2 arrived meanwhile, and their prompts of one
    token each take 2 s as well; the second token of request 2 takes 1.5 s. Latencies 2, 3 and 4.5.
    """
    path, out, page = (tmp_path / name for name in ("three.json", "out.csv", "out.md"))
    three = Instance.from_arrays([2, 1, 1], [1, 1, 2], [0, 1, 1], memory_limit=9, name="three")
    instances.save(three, path)
    for file in (out, page):
        process = script(
            *("competitive_ratios", "--batch-time", "affine:1,0.5,0", path),
            *("--policy", "fcfs", "--policy", "vllm-v0", "--time-limit", 0, "--out", file),
            "--wide",
        )
        assert process.returncode == 0, process.stderr
        assert process.stderr == ""
    words = " ".join(process.stdout.split())
    assert "three: best possible mean latency [" in words
    assert ", certified" in words
    columns = "policy total latency, s mean latency, s best possible mean, s compared_with ratio"
    assert columns in words
    assert "three 3 9 fcfs 9.5000 3.1666" in words or "three 3 9 fcfs 9.5000 3.1667" in words
    assert "total latency / optimum in seconds" in words
    rows = list(csv.DictReader(out.open(encoding="utf-8")))
    assert (rows[0]["total_latency"], rows[0]["unit"]) == ("9.5", "seconds")
    assert {row["compared_with"] for row in rows} == {"optimum in seconds"}
    assert all(float(row["ratio_lower"]) >= 1 for row in rows)
    assert "mean latency, s" in page.read_text("utf-8")
    assert "- three: best possible mean latency [" in page.read_text("utf-8")


def test_a_trace_at_its_own_times_and_faster(script: Script, trace: Path, tmp_path: Path) -> None:
    """The preset has a memory limit; only alone is a row of 9,000 tokens."""
    out = tmp_path / "out.csv"
    kept = []
    for options in ("", "(faster=1000)", "(duration_seconds=0.8, windows=2)"):
        process = script(
            *("competitive_ratios", "--batch-time", "llama-2-70b-2xa100"),
            f"trace:{trace}{options}",
            *("--policy", "fcfs", "--time-limit", 0, "--jobs", 1, "--out", out),
        )
        assert process.returncode == 0, process.stderr
        assert "arrivals in seconds" in process.stdout
        rows = list(csv.DictReader(out.open(encoding="utf-8")))
        assert {row["memory_limit"] for row in rows} == {"16492"}
        kept.append([row["n"] for row in rows])
    assert kept == [["5"], ["5"], ["3", "2"]]
    assert "trace[0.8s+2]: best possible mean latency" in process.stdout


@pytest.mark.slow
def test_conversations_do_not_depend_on_jobs(script: Script) -> None:
    shown = []
    for jobs in (1, 2):
        process = script(
            *("competitive_ratios", "--batch-time", "llama-2-70b-2xa100"),
            "generator:conversations(n=6, rate=5, count=2)",
            *("--policy", "fcfs", "--time-limit", 0, "--jobs", jobs),
        )
        assert process.returncode == 0, process.stderr
        assert "synthetic: lengths drawn from laws with the mean and median" in process.stdout
        shown.append(process.stdout)
    assert shown[0] == shown[1]
    assert "conversations (synthetic)[seed=1,n=6,rate=5]" in shown[0]


@pytest.mark.slow
def test_the_demo_proves_every_optimum(script: Script) -> None:
    process = script("competitive_ratios", "--demo")
    assert process.returncode == 0, process.stderr
    assert "unproved" not in process.stdout
    assert next(line for line in process.stdout.splitlines() if line.startswith("mc-sf ")).split()[
        1:3
    ] == ["optimum", "14"]
    last = process.stdout.splitlines()[-1]
    assert last.startswith("On average over these 14 instances, total latency exceeds the least ")
    for policy in POLICIES:
        assert f" % with {policy}" in last


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give either SOURCEs or --demo"),
        (["--demo", "generator:uniform"], "give either SOURCEs or --demo"),
        (["--demo", "--policy", "zzz"], "unknown policy 'zzz'; known: a-ell, a-max"),
        (["--demo", "--policy", "mc-sf:alpha=1"], "alpha = 1 is not one of its parameters"),
        (["--demo", "--policy", "mc-sf", "--policy", "mc-sf"], "'mc-sf' is given twice"),
        (["--demo", "--out", "out.json"], "does not end in .csv or .md"),
        (["--demo", "--out", "missing/out.csv"], "missing/out.csv: cannot be written"),
        (["--demo", "--jobs", "0"], "--jobs"),
        (["--demo", "--bogus"], "--bogus"),
        (["generator:zzz"], "unknown generator 'zzz'; known: a-max-trap, arrival-model-1"),
        (["generator:arrival-model-1(k=1)"], "k = 1 is not one of its"),
        (["missing.json"], "missing.json: No such file or directory"),
        (["."], ".: Is a directory"),
        (["trace:missing.csv(memory_limit=9)"], "No such file or directory"),
        (["trace:.(memory_limit=9)"], "Is a directory"),
        (["trace:TRACE"], "needs memory_limit"),
        (["trace:TRACE(memory_limit=0)"], "memory_limit = 0 is below 1"),
        (["trace:TRACE(memory_limit=9, token_scale=0)"], "token_scale = 0"),
        (["trace:TRACE(memory_limit=9, round_seconds=nan)"], "round_seconds"),
        (["trace:TRACE(memory_limit=9, too_long=x)"], "too_long = 'x'"),
        (["trace:TRACE(memory_limit=9, format=x)"], "trace format 'x'"),
        (["trace:TRACE(memory_limit=9, windows=2)"], "windows = 2 is more than one"),
        (["trace:TRACE(memory_limit=9)"], "no request is left"),
        (["--demo", "--batch-time", "a100"], "unknown batch time 'a100'; known: llama-2-70b-2xa1"),
        (["--demo", "--batch-time", "affine:nan,0,0"], "d0 = nan is not a finite number"),
        (["--demo", "--batch-time", "affine:1,-1,0"], "d1 = -1.0 is below 0"),
        (["--demo", "--batch-time", "affine:0,0,0"], "d0 = 0.0 is not above 0"),
        (["--demo", "--batch-time", "affine:"], "is not of the form affine:d0,d1,d2"),
        (
            ["--demo", "--batch-time", "affine:0.1,0.2"],
            "three numbers, the seconds of a round, of ",
        ),
        (["--demo", "--batch-time", "affine:1,2,3,4"], "is not of the form affine:d0,d1,d2"),
        (["--demo", "--batch-time", "linear:1"], "unknown batch time 'linear:1'"),
        (["--demo", "--batch-time", "affine:1,0,0", "--preemptive"], "goes without --batch-time"),
        (
            ["generator:uniform(faster=0)", "--batch-time", "affine:1,0,0"],
            "factor = 0 is not above 0",
        ),
        (["generator:uniform(faster=2)"], "faster = 2 is not one of its parameters"),
        (["worst-n7-00(faster=2)"], "unknown setting of library:worst-n7-00 'faster'"),
        (["trace:TRACE", "--batch-time", "affine:1,0,0"], "needs memory_limit"),
        (
            ["trace:TRACE(round_seconds=1)", "--batch-time", "llama-2-70b-2xa100"],
            "round_seconds = '1' goes without --batch-time",
        ),
        (["generator:conversations(rate=5)"], "in seconds: give --batch-time"),
    ],
)
def test_errors_are_one_line(
    refused: Refused, trace: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    given = [argument.replace("TRACE", str(trace)) for argument in arguments]
    assert said in refused("competitive_ratios", *given)
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ROWS.replace("GeneratedTokens", "Tokens"), "column 'GeneratedTokens' is missing"),
        (ROWS.replace("109", "10.9"), "row 3: GeneratedTokens '10.9' is not a whole number"),
        (ROWS.replace("109", "nan"), "row 3: GeneratedTokens 'nan' is not a whole number"),
        (ROWS.replace("109", "-1"), "row 3: GeneratedTokens -1 is negative"),
        (ROWS.replace("396", ""), "row 3: ContextTokens is missing"),
        (ROWS.replace("2023-11-16 18:15:47.2", "yesterday"), "row 4: TIMESTAMP"),
        ("", "bad.csv: is empty"),
        ("\n\n", "bad.csv: is empty"),
        ("{}\n", "bad.csv: holds no record that has fields"),
        ("a,b,c\n", "the columns (a, b, c) fit no format (azure: TIMESTAMP, "),
        (ROWS.splitlines()[0] + "\n", "the window holds no rows"),
    ],
)
def test_a_bad_trace_is_one_line(refused: Refused, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text, "utf-8")
    assert said in refused("competitive_ratios", f"trace:{path}(memory_limit=9999)")
