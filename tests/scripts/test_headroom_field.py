"""Logs for which right figures were once sold as others, answered by the command."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked_scripts import Script

FIELD = Path(__file__).parents[1] / "data" / "field"
QUICK = ("--policy", "fcfs", "--time-limit", 8, "--details")
SGLANG = ("--batch-time", "affine:0.02,5e-5,1e-6", "--memory", 100_000)


@pytest.fixture
def answer(script: Script, tmp_path: Path) -> Any:
    """The answer without its line breaks, the record, and the page of a log."""

    def run(log: object, *options: object) -> tuple[str, dict[str, Any], str]:
        figures, page = tmp_path / "figures.json", tmp_path / "page.html"
        given = (*options, *QUICK, "--json", figures, "--out", page)
        process = script("headroom", log, *given)
        assert process.returncode in (0, 1), process.stderr
        record = json.loads(figures.read_text("utf-8"))
        said = " ".join(" ".join(record["answer"]).split())
        return said, {**record, "printed": process.stdout}, page.read_text("utf-8")

    return run


def closed_loop() -> dict[str, Any]:
    """A run of SGLang's benchmark, whose loop of four requests has no start times."""
    with gzip.open(FIELD / "sglang_closed.jsonl.gz", "rt", encoding="utf-8") as stream:
        found: dict[str, Any] = json.load(stream)
    return found


def test_what_simulation_and_log_differ_by_is_no_saving(answer: Any) -> None:
    options = ("--batch-time", "affine:0.02,1e-7,1e-9", "--memory", 100_000)
    said, record, page = answer(FIELD / "idle.json.gz", *options)
    assert "mean latency 2.799 s, p50/p99" in said
    assert "Today vllm simulated: mean latency 2.194 s, 21.6 % below the log" in said
    assert "at most 0.001 s (0.1 %) can be saved" in said
    assert "no prefix cache" in record["holds_for"]
    assert record["saving_share"][1] < 0.001
    assert "at most 0.001 s (0.1 %) can be saved" in page
    assert "differ by more than 10 %, which is not a saving" in record["printed"]


def test_limits_hold_for_schedulers_that_reuse_prompts(answer: Any) -> None:
    options = ("--batch-time", "affine:0.02,5e-4,0", "--memory", 16_492)
    said, record, _ = answer(FIELD / "shared_prefix.jsonl", *options)
    best = record["best_possible"]
    # The second and third request could compute 428 and 16 tokens, or fewer with smaller blocks.
    reused = 16 * 0.02 + 5e-4 * ((3072 + 428 + 16) / 3 + 15)
    assert best["interval"][0] <= 0.570 < reused < best["interval"][1]
    assert best["without_reuse"] == pytest.approx(1.9348, abs=1e-4)
    assert "a prefix cache could supply 95.7 %" in record["holds_for"]
    limit = r"below 0\.39\d s with a prefix cache, 1\.934 s without: at most 1\.559 s \(79\.8 %\)"
    assert re.search(limit, said), said


def test_latencies_of_a_closed_loop_give_back_its_arrivals(answer: Any, tmp_path: Path) -> None:
    said, record, _ = answer(FIELD / "sglang_closed.jsonl.gz", *SGLANG)
    assert "the arrivals of a closed loop of 4, as logged" in record["holds_for"]
    # The log is of such a machine.
    assert record["simulated_over_measured"] == pytest.approx(1, abs=0.005)
    assert "too slow" not in said
    # A fit takes the token times of the loop that the log had.
    fitted = answer(FIELD / "sglang_closed.jsonl.gz", "--batch-time", "fit", *SGLANG[2:])[1]
    assert fitted["facts"]["a round lasts"].startswith("0.02 s + 5e-05 s a token processed")
    path = tmp_path / "log.csv"
    run = closed_loop()
    took = [first + sum(rest) for first, rest in zip(run["ttfts"], run["itls"], strict=True)]
    rows = zip(run["input_lens"], run["output_lens"], took, strict=True)
    lines = "".join(f"{s},{o},{seconds}\n" for s, o, seconds in rows)
    path.write_text(f"asked,answered,took\n{lines}", "utf-8")
    columns = f"{path}(prompt=asked, output=answered, latency=took"
    asked = answer(f"{columns}, max_concurrency=4)", *SGLANG)[1]
    mean = asked["today"]["mean_latency"]
    assert mean == pytest.approx(record["today"]["mean_latency"], rel=0.01)
    record = answer(f"{columns})", *SGLANG)[1]
    assert "made-up arrivals; all requests at once" in record["holds_for"]
    assert (record["arrivals_made_up"], record["simulated_over_measured"]) == (True, None)


def test_a_closed_loop_with_start_times_is_recognised(answer: Any, tmp_path: Path) -> None:
    run = closed_loop()
    free, starts = [0.0] * 4, []
    for first, rest in zip(run["ttfts"], run["itls"], strict=True):
        starts.append(min(free))
        free[free.index(min(free))] += first + sum(rest) + 0.01
    path = tmp_path / "closed.json"
    path.write_text(json.dumps({**run, "start_times": starts}), "utf-8")
    record = answer(path, *SGLANG)[1]
    assert "the arrivals of a closed loop of 4, as logged" in record["holds_for"]
    assert (record["max_concurrency"], record["arrivals_made_up"]) == (4, False)
    path.write_text(json.dumps({**run, "start_times": np.arange(80).tolist()}), "utf-8")
    assert answer(path, *SGLANG)[1]["max_concurrency"] is None
