"""scripts/headroom.py as a process."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_files import vllm_bench_of
from forked_scripts import Process, Script, fields
from process_groups import end, press_ctrl_c, start, wait_until_gone
from trace_files import SIX_ROWS, WITH_GAPS

import instances
import online
from instances import Workload
from online import AffineTime

ROOT = Path(__file__).resolve().parents[2]
AFFINE = "affine:0.02,2e-4,1e-6"
QUICK = ("--policy", "fcfs", "--time-limit", 3)
SMALL = ("--memory", 900)
FIELD = ROOT / "tests" / "data" / "field"
SGLANG = ("--batch-time", "affine:0.02,5e-5,1e-6", "--memory", 100_000, "--quick")
IDLE = "arrived_at,num_prefill_tokens,num_decode_tokens\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(SIX_ROWS, "utf-8")
    return path


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What vLLM's benchmark would have logged of a first come, first served machine."""
    drawn = instances.generate("conversations", 5, n=60, rate=30)
    columns = (drawn.arrival_times, drawn.prompt_lengths, drawn.output_lengths)
    workload = Workload(*columns, memory_limit=3000, batch_time=AffineTime(0.02, 2e-4, 1e-6))
    run = online.simulate(workload, "fcfs")
    path = tmp_path_factory.mktemp("bench") / "bench.json"
    path.write_text(vllm_bench_of(run), "utf-8")
    return path


def measured(script: Script, log: object, *options: object) -> Process:
    """A measurement of ``log`` that complains of nothing."""
    process = script("headroom", log, *QUICK, *options)
    assert (process.stderr, process.returncode in (0, 1)) == ("", True)
    return process


def facts(process: Process) -> dict[str, str]:
    """What --details says of the log, by name."""
    (part,) = (one for one in process.stdout.split("\n\n") if one.startswith("requests "))
    return fields(part)


@pytest.fixture
def answer(script: Script, tmp_path: Path) -> Any:
    """The answer without its line breaks, the record, and all that is printed."""

    def run(log: object, *options: object) -> tuple[str, dict[str, Any], str]:
        figures = tmp_path / "figures.json"
        printed = measured(script, log, *options, "--details", "--json", figures).stdout
        record = json.loads(figures.read_text("utf-8"))
        assert "\n".join(record["answer"]) + "\n" in printed
        return " ".join(" ".join(record["answer"]).split()), record, printed

    return run


def test_requests_on_time_by_replicas(answer: Any, script: Script, tmp_path: Path) -> None:
    """Requests that are alone: half of them take 60 rounds of 0.02 s, and no scheduler less."""
    log = tmp_path / "idle.csv"
    rows = "".join(f"{8 * k},40,{20 + 40 * (k % 2)}\n" for k in range(6))
    log.write_text(IDLE + rows, "utf-8")
    options = (*SMALL, "--batch-time", AFFINE, "--slo", "latency=1", "--slo", "ttft=0.5")
    options += ("--time-limit", 20)
    said, record, _ = answer(log, *options)
    assert "Replicas 99 % on time: not even with 2, whatever the scheduler (proved)" in said
    level = record["service_level"]
    assert level["limits"] == {"latency": 1, "first_token": 0.5, "time_per_token": None}
    assert [one["replicas"] for one in level["by_replicas"]] == [1, 2]
    assert {tuple(one["attainable"]) for one in level["by_replicas"]} == {(0.5, 0.5)}
    quick = measured(script, log, *options, "--quick").stdout
    assert quick.startswith("Log       6 requests in 40.0 s\nToday     vllm simulated")
    assert "simulations only, without bounds" in quick
    half = measured(script, log, *options, "--quick", "--slo-share", 0.5).stdout
    assert "50 % on time: 1 today (simulated), no scheduler needs fewer (proved)" in half
    table = quick.partition("\n\n")[2].splitlines()
    assert table[0] == "On time within latency <= 1 s, TTFT <= 0.5 s, of 6 requests, by replicas"
    assert table[3].split()[:4] == ["1", "50.0", "[50.0,", "100.0]"]


def test_a_fit_takes_the_whole_log(script: Script, bench: Path) -> None:
    """Five requests alone would be too few, and their rounds served others too."""
    some = f"{bench}(max_requests=5)"
    options = ("--memory", 3000, "--batch-time", "fit", "--details", "--quick")
    said = facts(measured(script, some, *options))
    assert said["requests"].startswith("5 requests in ")
    assert said["a round lasts"].startswith("0.02 s + 0.0002")


@pytest.mark.parametrize(("step", "load"), [(6.4, "load 0."), (64000, "load 2e-06 (in doubt: ")])
def test_a_load_that_no_server_has_is_in_doubt(
    answer: Any, tmp_path: Path, step: float, load: str
) -> None:
    path = tmp_path / "log.csv"
    path.write_text("t,in,out\n" + "".join(f"{k * step},1000,100\n" for k in range(11)), "utf-8")
    given = ("--memory", 9999, "--batch-time", "affine:0.01,1e-5,0", "--quick")
    record = answer(f"{path}(arrival=t, prompt=in, output=out)", *given)[1]
    assert f"bounds; {load}" in record["holds_for"]


def test_dropped_and_skipped_requests_are_counted(
    script: Script, log: Path, tmp_path: Path
) -> None:
    fewer = f"{log}(too_long=drop, faster=2)"
    options = ("--details", "--quick")
    said = facts(measured(script, fewer, "--memory", 600, "--batch-time", AFFINE, *options))
    assert said["requests"] == "4 requests in 0.1 s"
    assert "5 of 6 requests kept (1 empty)" in said["read"]
    assert said["dropped"] == "1 requests that need more than M"
    assert said["measured latency"].endswith("of 4 requests, and arrivals are not those of the log")
    log.write_text(WITH_GAPS, "utf-8")
    pairs = [(t, k) for t in range(1, 200, 9) for k in (100, 900, 5000)]
    lines = [f"{t},{k},{0.02 + 2e-4 * t + 1e-6 * k}" for t, k in pairs]
    (tmp_path / "rounds.csv").write_text("tokens,kv_tokens,seconds\n" + "\n".join(lines), "utf-8")
    given = ("--batch-time", tmp_path / "rounds.csv", *options)
    said = facts(measured(script, f"{log}(bad_rows=skip)", *SMALL, *given))
    assert said["a round lasts"].startswith(
        "0.02 s + 0.0002 s a token processed + 1e-06 s a token held (fitted to"
    )
    assert "3 of 6 requests kept (2 skipped, 1 empty)" in said["read"]


@pytest.mark.slow
def test_ctrl_c_shows_and_writes_what_is_done(tmp_path: Path) -> None:
    page, log = tmp_path / "page.html", tmp_path / "log.csv"
    drawn = instances.generate("conversations", 5, n=1500, rate=40)
    columns = (drawn.arrival_times, drawn.prompt_lengths, drawn.output_lengths)
    log.write_text(IDLE + "".join(f"{t},{s},{o}\n" for t, s, o in zip(*columns, strict=True)))
    given = f"--memory 4000 --time-limit 1500 --batch-time {AFFINE} --details".split()
    process = start(ROOT / "scripts" / "headroom.py", log, *given, "--out", page)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=40)
    press_ctrl_c(process)
    printed, complained = end(process)
    assert (process.returncode, complained) == (130, "")
    assert "Today     vllm simulated: mean latency " in printed
    assert ": interrupted." in printed
    assert page.exists()
    wait_until_gone(process.pid)


PODS = """\
received,asked,answered,pod,took
0.0,40,6,b,0.9
0.1,10,3,a,0.5
0.2,40,6,b,1.6
0.3,10,3,a,0.5
"""


def test_a_log_that_names_workers_is_routed_as_logged(answer: Any, tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(PODS, "utf-8")
    columns = "arrival=received, prompt=asked, output=answered, worker=pod, latency=took"
    options = ("--memory", 60, "--batch-time", "affine:0.1,0.002,2e-4")
    said, record, _ = answer(f"{path}({columns})", *options)
    assert "Log 4 requests in 0.3 s, measured mean latency 0.875, p99 1.600 s" in said
    assert "2 replicas, routed as logged" in record["holds_for"]


def closed_loop() -> dict[str, Any]:
    """A run of SGLang's benchmark, whose loop of four requests has no start times."""
    with gzip.open(FIELD / "sglang_closed.jsonl.gz", "rt", encoding="utf-8") as stream:
        found: dict[str, Any] = json.load(stream)
    return found


def test_what_simulation_and_log_differ_by_is_no_saving(answer: Any, tmp_path: Path) -> None:
    options = ("--batch-time", "affine:0.02,1e-7,1e-9", "--memory", 100_000)
    page = tmp_path / "page.html"
    said, record, printed = answer(FIELD / "idle.json.gz", *options, "--details", "--out", page)
    assert "measured mean latency 2.799, p99" in said
    assert "Today vllm simulated: mean latency 2.194 s, 21.6 % below the log" in said
    assert "saves <= 0.001 s (0.1 %)" in said
    assert "no prefix cache" in record["holds_for"]
    assert record["saving"][1] < 0.002
    assert "saves &lt;= 0.001 s (0.1 %)" in page.read_text("utf-8")
    assert "differ by more than 10 %, which is not a saving" in printed


def test_limits_hold_for_schedulers_that_reuse_prompts(answer: Any) -> None:
    options = ("--batch-time", "affine:0.02,5e-4,0", "--memory", 16_492)
    said, record, _ = answer(FIELD / "shared_prefix.jsonl", *options)
    best = record["best_possible"]
    # The second and third request could compute 428 and 16 tokens, or fewer with smaller blocks.
    reused = 16 * 0.02 + 5e-4 * ((3072 + 428 + 16) / 3 + 15)
    assert best["interval"][0] <= 0.570 < reused < best["interval"][1]
    assert best["without_reuse"] == pytest.approx(1.9348, abs=1e-4)
    assert "a prefix cache could supply 95.7 %" in record["holds_for"]
    limit = r"below 0\.39\d s with a prefix cache, 1\.934 s without \(proved\): saves <= "
    limit += r"1\.559 s \(79\.8 %\)"
    assert re.search(limit, said), said


def test_latencies_of_a_closed_loop_give_back_its_arrivals(answer: Any, tmp_path: Path) -> None:
    said, record, _ = answer(FIELD / "sglang_closed.jsonl.gz", *SGLANG)
    assert "at most 4 requests in flight, as logged" in record["holds_for"]
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
    assert record["holds_for"].startswith("made-up arrivals; simulations only, without bounds;")
    assert "; all requests at once;" in record["holds_for"]
    assert (record["arrivals_made_up"], record["simulated_over_measured"]) == (True, None)


def test_start_times_of_a_closed_loop_are_kept(answer: Any, tmp_path: Path) -> None:
    path = tmp_path / "closed.json"
    path.write_text(json.dumps({**closed_loop(), "start_times": np.arange(80).tolist()}), "utf-8")
    said, record, _ = answer(path, *SGLANG)
    assert "Log 80 requests in 79.0 s" in said
    assert "at most 4 requests in flight, as logged" in record["holds_for"]
    assert (record["max_concurrency"], record["arrivals_made_up"]) == (4, False)
