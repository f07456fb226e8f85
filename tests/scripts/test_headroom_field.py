"""Logs for which right figures were once sold as others, answered by the command."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked_scripts import Script, fields

FIELD = Path(__file__).parents[1] / "data" / "field"
QUICK = ("--policy", "fcfs", "--prediction-error", 0, "--time-limit", 8, "--jobs", 1)
SGLANG = ("--batch-time", "affine:0.02,5e-5,1e-6", "--memory-limit", 100_000)


@pytest.fixture
def answer(script: Script, tmp_path: Path) -> Any:
    """The first paragraph, the record, and the page of a log."""

    def run(log: object, *options: object) -> tuple[str, dict[str, Any], str]:
        figures, page = tmp_path / "figures.json", tmp_path / "page.html"
        given = (*options, *QUICK, "--json", figures, "--out", page)
        process = script("headroom", log, *given)
        assert process.returncode in (0, 1), process.stderr
        said = fields(process.stdout.split("\n\n")[1])
        record = {**json.loads(figures.read_text("utf-8")), "facts": said}
        return record["answer"], record, page.read_text("utf-8")

    return run


def closed_loop() -> dict[str, Any]:
    """A run of SGLang's benchmark, whose loop of four requests has no start times."""
    with gzip.open(FIELD / "sglang_closed.jsonl.gz", "rt", encoding="utf-8") as stream:
        found: dict[str, Any] = json.load(stream)
    return found


def test_what_simulation_and_log_differ_by_is_no_saving(answer: Any) -> None:
    options = ("--batch-time", "affine:0.02,1e-7,1e-9", "--memory-limit", 100_000)
    said, record, page = answer(FIELD / "idle.json.gz", *options)
    assert said.startswith("The log has a mean latency of 2.799 s, and vllm simulated is 21.6 %")
    assert "below it (-0.605 s, and -0.604 s to the first token). This difference is no" in said
    limit = "no scheduler could save more than 0.001 s (0.1 %) of it; no schedule that saves 1 %"
    assert f"In this simulation, without a prefix cache, {limit}" in said
    (saving,) = record["savings"]
    assert saving["could_be_saved_share"][1] < 0.001
    assert "at most 0.1 % of the mean latency simulated" in page.replace("\N{NO-BREAK SPACE}", " ")
    assert "headroom, %" not in page
    # Memory and requests stay far below what limits them.
    assert not {"prefix_caching", "max_num_seqs"} & set(record["facts"]["assumed"].split("="))


def test_limits_hold_for_schedulers_that_reuse_prompts(answer: Any) -> None:
    options = ("--batch-time", "affine:0.02,5e-4,0", "--memory-limit", 16_492)
    said, record, _ = answer(FIELD / "shared_prefix.jsonl", *options)
    best = record["best_possible"]
    # The second and third request could compute 428 and 16 tokens, or fewer with smaller blocks.
    reused = 16 * 0.02 + 5e-4 * ((3072 + 428 + 16) / 3 + 15)
    assert best["mean_latency"][0] <= 0.570 < reused < best["mean_latency"][1]
    assert best["lower_bound_without_reuse"] == pytest.approx(1.9348, abs=1e-4)
    assert said.startswith("By the hashes of the log, a prefix cache could supply up to 95.7 % of")
    assert "no scheduler could save more than the 0.020 s (1.0 %) of it that a known" in said
    assert "With one, no scheduler could save more than 1.559 s (79.8 %), the reuse of" in said
    assert "% of what could be saved without one, and" in said
    assert "prefix_caching" not in record["facts"]["assumed"]


def test_hashes_of_some_prompts_show_nothing(answer: Any, tmp_path: Path) -> None:
    rows = (FIELD / "shared_prefix.jsonl").read_text("utf-8").splitlines()
    last = json.loads(rows.pop())
    del last["hash_ids"]
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join([*rows, json.dumps(last)]), "utf-8")
    said, record, _ = answer(path, "--batch-time", "affine:0.02,5e-4,0", "--memory-limit", 16_492)
    assert "every limit is for schedulers without a prefix cache" in said
    assert "lacks the hashes of 1 of 3 prompts" in record["facts"]["shared prompts"]


def test_a_closed_loop_without_start_times_is_played(answer: Any, tmp_path: Path) -> None:
    said, record, _ = answer(FIELD / "sglang_closed.jsonl.gz", *SGLANG)
    assert said.startswith("The log has no start times. Its closed loop of at most 4 requests at")
    assert "All figures, limits too, hold for these arrivals only." in said
    # The log is of such a machine.
    assert record["simulated_over_measured"] == pytest.approx(1, abs=0.001)
    assert "too slow" not in said
    # A fit takes the token times of the loop that the log had.
    fitted = answer(FIELD / "sglang_closed.jsonl.gz", "--batch-time", "fit", *SGLANG[2:])[1]
    assert fitted["facts"]["a round lasts"].startswith("0.02 s + 5e-05 s a token processed")
    path = tmp_path / "log.csv"
    run = closed_loop()
    rows = zip(run["input_lens"], run["output_lens"], strict=True)
    path.write_text("asked,answered\n" + "".join(f"{s},{o}\n" for s, o in rows), "utf-8")
    columns = f"{path}(prompt=asked, output=answered"
    asked = answer(f"{columns}, max_concurrency=4)", *SGLANG)[1]
    assert asked["savings"][0]["mean_latency"] == record["savings"][0]["mean_latency"]
    said, record, _ = answer(f"{columns})", *SGLANG)
    assert said.startswith("The log has no start times: the requests are all put at second 0")
    assert record["arrivals_made_up"]


def test_no_more_requests_than_the_loop_has_are_sent(answer: Any, tmp_path: Path) -> None:
    path = tmp_path / "rate.json"
    path.write_text(json.dumps({**closed_loop(), "request_rate": 0.2}), "utf-8")
    said, record, _ = answer(path, *SGLANG)
    assert "closed loop of at most 4 requests" in said
    # So slow a rate seldom meets the limit: a request every 5 s, of up to 5 s.
    assert record["facts"]["arrivals over"] == "395.0 s"


def test_a_closed_loop_with_start_times_is_recognised(answer: Any, tmp_path: Path) -> None:
    run = closed_loop()
    free, starts = [0.0] * 4, []
    for first, rest in zip(run["ttfts"], run["itls"], strict=True):
        starts.append(min(free))
        free[free.index(min(free))] += first + sum(rest) + 0.01
    path = tmp_path / "closed.json"
    path.write_text(json.dumps({**run, "start_times": starts}), "utf-8")
    said, record, _ = answer(path, *SGLANG)
    assert said.startswith("The log is of a closed loop: a request was sent when another one ended")
    assert (record["max_concurrency"], record["arrivals_made_up"]) == (4, False)
    path.write_text(json.dumps({**run, "start_times": np.arange(80).tolist()}), "utf-8")
    assert answer(path, *SGLANG)[1]["max_concurrency"] is None
