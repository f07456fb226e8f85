"""scripts/headroom.py as a process."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

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
QUICK = ("--policy", "fcfs", "--time-limit", 10)
SMALL = ("--memory", 900)
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


def complaints(text: str) -> list[str]:
    """Lines of the error output but those that tell how far it is."""
    return [line for line in text.splitlines() if not re.match(r"\d+ (s|min|h): ", line)]


def measured(script: Script, log: object, *options: object) -> Process:
    """A measurement of ``log`` that complains of nothing."""
    process = script("headroom", log, *QUICK, *options)
    assert (complaints(process.stderr), process.returncode in (0, 1)) == ([], True)
    return process


def facts(process: Process) -> dict[str, str]:
    """What --details says of the log, by name."""
    (part,) = (one for one in process.stdout.split("\n\n") if one.startswith("requests "))
    return fields(part)


def answer(script: Script, log: object, folder: Path, *options: object) -> tuple[str, Any]:
    """The answer printed, in one line, and the record, which has it too."""
    figures = folder / "figures.json"
    process = measured(script, log, *options, "--json", figures)
    record = json.loads(figures.read_text("utf-8"))
    assert process.stdout.startswith("\n".join(record["answer"]) + "\n")
    return " ".join(" ".join(record["answer"]).split()), record


def test_requests_on_time_by_replicas(script: Script, tmp_path: Path) -> None:
    """Requests that are alone: half of them take 60 rounds of 0.02 s, and no scheduler less."""
    log = tmp_path / "idle.csv"
    rows = "".join(f"{8 * k},40,{20 + 40 * (k % 2)}\n" for k in range(6))
    log.write_text(IDLE + rows, "utf-8")
    options = (*SMALL, "--batch-time", AFFINE, "--slo", "latency=1", "--slo", "ttft=0.5")
    said, record = answer(script, log, tmp_path, *options)
    assert "Replicas 99 % on time: not even with 2, whatever the scheduler" in said
    level = record["service_level"]
    assert level["limits"] == {"latency": 1, "first_token": 0.5, "time_per_token": None}
    assert [one["replicas"] for one in level["by_replicas"]] == [1, 2]
    assert {tuple(one["attainable"]) for one in level["by_replicas"]} == {(0.5, 0.5)}
    quick = measured(script, log, *options, "--quick").stdout
    assert quick.startswith("Log       6 requests in 40.0 s\nToday     vllm simulated")
    assert "simulations only, without bounds" in quick
    half = measured(script, log, *options, "--quick", "--slo-share", 0.5).stdout
    assert "Replicas  50 % on time: 1 simulated (p99 latency 1.2" in half
    table = quick.partition("\n\n")[2].splitlines()
    assert table[0] == "On time within latency <= 1 s, TTFT <= 0.5 s, of 6 requests, by replicas"
    assert table[3].split()[:4] == ["1", "50.0", "[50.0,", "100.0]"]


def test_a_fit_takes_the_whole_log(script: Script, bench: Path) -> None:
    """Five requests alone would be too few, and their rounds served others too."""
    some = f"{bench}(max_requests=5)"
    said = facts(measured(script, some, "--memory", 3000, "--batch-time", "fit", "--details"))
    assert said["requests"].startswith("5 requests in ")
    assert said["a round lasts"].startswith("0.02 s + 0.0002")


@pytest.mark.parametrize(
    ("role", "step", "doubt"),
    [
        ("latency", 12.8, "the mean latency is 4,650 s, or 46.5 s per output token in the"),
        ("latency_ms", 6.4, None),
        ("latency_ms", 12800, "the load is"),
        ("latency_ms", 0.001, "per second: are arrivals (seconds) and the batch time"),
    ],
)
def test_units_in_doubt_are_asked_about_above_the_answer(
    script: Script, tmp_path: Path, role: str, step: float, doubt: str | None
) -> None:
    path = tmp_path / "log.csv"
    rows = [f"{k * step},1000,100,{4600 + 10 * k}\n" for k in range(11)]
    path.write_text("t,in,out,took\n" + "".join(rows), "utf-8")
    named = f"{path}(arrival=t, prompt=in, output=out, {role}=took)"
    given = ("--memory", 9999, "--batch-time", "affine:0.01,1e-5,0")
    above = measured(script, named, *given, "--quick").stdout.splitlines()[0]
    assert above.startswith("In doubt: ") == (doubt is not None)
    assert doubt is None or doubt in above


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
    assert said["skipped"] == (
        "2 of 6 rows skipped: 1 because num_decode_tokens is missing (row 3), "
        "1 because num_decode_tokens is not a whole number from 0 to 2147483647 (row 6)"
    )


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
    assert (process.returncode, complaints(complained)) == (130, [])
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


def test_a_log_that_names_workers_is_routed_as_logged(script: Script, tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(PODS, "utf-8")
    columns = "arrival=received, prompt=asked, output=answered, worker=pod, latency=took"
    options = ("--memory", 60, "--batch-time", "affine:0.1,0.002,2e-4")
    said, record = answer(script, f"{path}({columns})", tmp_path, *options)
    assert "Log 4 requests in 0.3 s, mean latency 0.875 s" in said
    assert "2 replicas, routed as logged" in record["holds_for"]
