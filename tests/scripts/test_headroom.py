"""scripts/headroom.py as a process."""

from __future__ import annotations

import json
import re
import subprocess
from html import unescape
from pathlib import Path

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
QUICK = ("--policy", "fcfs", "--jobs", 1, "--time-limit", 10)


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


def says(page: Path, text: str) -> bool:
    """Whether a page shows a text, in one line or more."""
    shown = unescape(re.sub(r"<[^>]*>", "", page.read_text("utf-8")))
    return "".join(text.split()) in "".join(shown.split())


def complaints(text: str) -> list[str]:
    """Lines of the error output but those that tell how far it is."""
    return [line for line in text.splitlines() if not re.match(r"\d+ (s|min|h): ", line)]


def facts(process: Process) -> dict[str, str]:
    """What it says of the log, by name."""
    return fields(process.stdout.split("\n\n")[1])


SMALL = ("--memory-limit", 900, "--prediction-error", 0)


def measured(script: Script, log: object, *options: object) -> Process:
    """A measurement of ``log`` on one process; it complains of nothing."""
    process = script("headroom", log, *QUICK, *options)
    assert (complaints(process.stderr), process.returncode in (0, 1)) == ([], True)
    return process


def answers(script: Script, log: Path, batch_time: str, folder: Path) -> str:
    """The first line printed, which is the answer on the page and in the record too."""
    page, figures = folder / "page.html", folder / "figures.json"
    process = measured(
        script, log, "--batch-time", batch_time, *SMALL, "--out", page, "--json", figures
    )
    answer = process.stdout.splitlines()[0]
    assert says(page, answer)
    assert json.loads(figures.read_text("utf-8"))["answer"] == answer
    return answer


def test_a_log_faster_than_the_batch_time_allows_comes_first(
    script: Script, tmp_path: Path
) -> None:
    """Three requests in rounds of 0.02 s, and a batch time of 0.5 s a round."""
    log, outputs = tmp_path / "fast.json", [30, 5, 10]
    bench = {
        "start_times": [0.0, 0.1, 0.2],
        "input_lens": [40, 10, 20],
        "output_lens": outputs,
        "ttfts": [0.02] * 3,
        "itls": [[0.02] * (length - 1) for length in outputs],
        "errors": [""] * 3,
    }
    log.write_text(json.dumps(bench), "utf-8")
    answer = answers(script, log, "affine:0.5,0,0", tmp_path)
    # 45 tokens of 0.02 s, over three requests; no token takes less than a round.
    found = re.fullmatch(
        r"The log's own mean latency is 0\.300 s, but with this batch time no scheduler could "
        r"reach less than ([\d.]+) s: the batch time is too slow for the machine of the log, the "
        r"memory limit too small, or prompts were reused\. So no savings are given\. The log .*",
        answer,
    )
    assert found is not None, answer
    assert 45 * 0.5 / 3 <= float(found[1]) <= 45 * 0.5
    for text in (answer, (tmp_path / "page.html").read_text("utf-8")):
        assert "headroom, %" not in text
        assert "could be saved, %" not in text
    record = json.loads((tmp_path / "figures.json").read_text("utf-8"))
    assert record["savings"] == []


def test_where_nobody_waits_little_could_be_saved(script: Script, tmp_path: Path) -> None:
    log = tmp_path / "idle.csv"
    rows = "".join(f"{3 * k},40,20\n" for k in range(6))
    log.write_text(f"arrived_at,num_prefill_tokens,num_decode_tokens\n{rows}", "utf-8")
    answer = answers(script, log, "affine:0.02,2e-4,1e-6", tmp_path)
    # Alone: 20 rounds, 40 + 19 tokens processed, 41 + .. + 60 tokens held.
    alone = 20 * 0.02 + 59 * 2e-4 + 1010 * 1e-6
    found = re.fullmatch(
        rf"vllm \(simulated\) has a mean latency of {alone:.3f} s\. Without a prefix cache, no "
        r"scheduler could save more than 0\.0\d\d s \((\d\.\d) %\) of it; no schedule that saves "
        r"1 % is known\. The log does not show shared prefixes, so every limit .*",
        answer,
    )
    assert found is not None, answer
    assert float(found[1]) < 10
    assert "headroom, %" not in (tmp_path / "page.html").read_text("utf-8")


def test_requests_on_time_come_first(script: Script, tmp_path: Path) -> None:
    """Requests that are alone: half of them take 60 rounds of 0.02 s, and no scheduler less."""
    log, figures = tmp_path / "idle.csv", tmp_path / "figures.json"
    rows = "".join(f"{8 * k},40,{20 + 40 * (k % 2)}\n" for k in range(6))
    log.write_text(f"arrived_at,num_prefill_tokens,num_decode_tokens\n{rows}", "utf-8")
    process = measured(
        script,
        log,
        *("--batch-time", "affine:0.02,2e-4,1e-6", *SMALL, "--json", figures),
        *("--slo", "latency=1", "--slo", "ttft=0.5", "--time-limit", 30),
    )
    assert process.stdout.startswith(
        "On time within latency <= 1 s, first token <= 0.5 s, of 6 requests: vllm (simulated) has "
        "50.0 %, no scheduler can have more than 50.0 %, which a known schedule has. "
    )
    found = json.loads(figures.read_text("utf-8"))["service_level"]
    assert found["limits"] == {"latency": 1, "first_token": 0.5, "time_per_token": None}
    at = {(one["limits_times"], one["faster"]): one["attainable"] for one in found["points"]}
    assert len(at) == 11
    assert at[1, 1] == at[1, 0.5] == [0.5, 0.5]
    assert at[0.25, 1] == [0, 0]
    assert at[1.5, 1] == [1, 1]


def test_a_fit_takes_the_whole_log(script: Script, bench: Path) -> None:
    """Five requests alone would be too few, and their rounds served others too."""
    some = f"{bench}(max_requests=5)"
    said = facts(measured(script, some, *SMALL, "--memory-limit", 3000, "--batch-time", "fit"))
    assert said["requests"] == "5"
    assert said["a round lasts"].startswith("0.02 s + 0.0002")


def test_settings_that_a_log_states_need_not_be_said(
    script: Script, bench: Path, tmp_path: Path
) -> None:
    settings = {"max_num_seqs": "4", "block_size": "16", "num_gpu_blocks": "101"}
    stated = {**json.loads(bench.read_text("utf-8")), **settings}
    path, figures = tmp_path / "stated.json", tmp_path / "figures.json"
    path.write_text(json.dumps(stated), "utf-8")
    options = ("--batch-time", AFFINE, "--prediction-error", 0, "--json", figures)
    said = facts(measured(script, f"{path}(max_requests=5)", *options))
    assert said["stated in the log"] == "block_size=16, max_num_seqs=4, num_gpu_blocks=101"
    assert said["memory limit M"] == "1600 tokens in blocks of 16; tokens are stored next"
    # Five small requests do not reach the engine's budget.
    assert said["assumed"].startswith("long_prefill_token_threshold=0, prefill_schedule_interval=1")
    record = json.loads(figures.read_text("utf-8"))
    names = [record["baseline"], record["challenger"]]
    assert names == ["vllm(max_num_seqs=4)", "vllm(max_num_seqs=4, order=shortest-output)"]
    said = facts(measured(script, f"{path}(max_requests=5)", *options, "--memory-rule", "blocks:8"))
    assert said["memory limit M"] == "1600 tokens in blocks of 8; tokens are stored next"


@pytest.mark.parametrize(
    ("role", "step", "doubt"),
    [
        (
            "latency",
            12.8,
            "the mean latency of 4,650 s is longer than the log, whose arrivals span",
        ),
        ("latency_ms", 6.4, None),
        ("latency_ms", 12800, "the load of"),
        ("latency_ms", 0.001, "is above 20: are arrivals (seconds) and the batch time"),
    ],
)
def test_units_in_doubt_are_asked_about_above_the_answer(
    script: Script, tmp_path: Path, role: str, step: float, doubt: str | None
) -> None:
    path = tmp_path / "log.csv"
    rows = [f"{k * step},1000,100,{4600 + 10 * k}\n" for k in range(11)]
    path.write_text("t,in,out,took\n" + "".join(rows), "utf-8")
    named = f"{path}(arrival=t, prompt=in, output=out, {role}=took)"
    given = ("--memory-limit", 9999, "--batch-time", "affine:0.01,1e-5,0")
    above = measured(script, named, *SMALL, *given).stdout.splitlines()[0]
    assert above.startswith("In doubt: ") == (doubt is not None)
    assert doubt is None or doubt in above


def test_dropped_requests_are_counted(script: Script, log: Path) -> None:
    fewer = f"{log}(too_long=drop, faster=2)"
    process = measured(script, fewer, *SMALL, "--memory-limit", 600, "--batch-time", AFFINE)
    said = facts(process)
    assert said["requests"] == "4"
    assert "5 of 6 requests kept (1 empty)" in said["read"]
    assert said["dropped"] == "1 requests that need more than M"
    assert said["arrivals"] == "2 times as fast as in the log"
    assert said["arrivals over"] == "0.1 s"
    assert "predicted" not in process.stdout


def test_skipped_rows_are_named_and_measured_rounds_give_a_batch_time(
    script: Script, log: Path, tmp_path: Path
) -> None:
    log.write_text(WITH_GAPS, "utf-8")
    pairs = [(t, k) for t in range(1, 200, 9) for k in (100, 900, 5000)]
    lines = [f"{t},{k},{0.02 + 2e-4 * t + 1e-6 * k}" for t, k in pairs]
    (tmp_path / "rounds.csv").write_text("tokens,kv_tokens,seconds\n" + "\n".join(lines), "utf-8")
    page, figures = tmp_path / "page.html", tmp_path / "figures.json"
    given = ("--batch-time", tmp_path / "rounds.csv", "--json", figures, "--out", page)
    said = facts(measured(script, f"{log}(bad_rows=skip)", *SMALL, *given))
    assert said["a round lasts"].startswith(
        "0.02 s + 0.0002 s a token processed + 1e-06 s a token held (fitted to"
    )
    skipped = (
        "2 of 6 rows skipped: 1 because num_decode_tokens is missing (row 3), "
        "1 because num_decode_tokens is not a whole number (row 6)"
    )
    assert said["skipped"] == skipped
    assert skipped in page.read_text("utf-8")
    missing, odd = (f"num_decode_tokens is {what}" for what in ("missing", "not a whole number"))
    assert json.loads(figures.read_text("utf-8"))["skipped_rows"] == {
        "rows": 6,
        "counts": {missing: 1, odd: 1},
        "first_rows": {missing: [3], odd: [6]},
    }


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_shows_and_writes_what_is_done(jobs: int, tmp_path: Path) -> None:
    page, log = tmp_path / "page.html", tmp_path / "log.csv"
    drawn = instances.generate("conversations", 5, n=1500, rate=40)
    rows = zip(drawn.arrival_times, drawn.prompt_lengths, drawn.output_lengths, strict=True)
    log.write_text(
        "arrived_at,num_prefill_tokens,num_decode_tokens\n"
        + "\n".join(",".join(map(str, row)) for row in rows),
        "utf-8",
    )
    given = f"--memory-limit 4000 --time-limit 1500 --batch-time {AFFINE} --jobs {jobs}".split()
    process = start(ROOT / "scripts" / "headroom.py", log, *given, "--out", page)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=40)
    press_ctrl_c(process)
    printed, complained = end(process)
    assert (process.returncode, complaints(complained)) == (130, [])
    assert " (simulated) has a mean latency of " in printed
    assert "Not done, interrupted: " in printed
    assert says(page, printed.splitlines()[0])
    wait_until_gone(process.pid)


PODS = """\
received,asked,answered,pod,took
0.0,40,6,b,0.9
0.1,10,3,a,0.5
0.2,40,6,b,1.6
0.3,10,3,a,0.5
"""


def test_a_log_that_names_workers_tells_what_its_router_loses(
    script: Script, tmp_path: Path
) -> None:
    path, figures = tmp_path / "pods.csv", tmp_path / "figures.json"
    path.write_text(PODS, "utf-8")
    columns = "arrival=received, prompt=asked, output=answered, worker=pod, latency=took"
    options = ("--memory-limit", 60, "--batch-time", "affine:0.1,0.002,2e-4", *QUICK)
    options = (*options, "--prediction-error", 0, "--time-limit", 30, "--router", "round-robin")
    options = (*options, "--worker-names")
    process = script("headroom", f"{path}({columns})", *options, "--json", figures)
    assert process.returncode in (0, 1), process.stderr
    assert facts(process)["replicas"] == "0 is a, 1 is b"
    assert process.stdout.startswith(
        "The log has a mean latency of 0.875 s, and vllm simulated is "
    )
    assert " s simulated, the router loses " in process.stdout
    fleet = json.loads(figures.read_text("utf-8"))["fleet"]
    assert fleet["replicas"] == 2
    assert fleet["routers"] == ["as in the log", "round-robin"]
    today = next(one for one in fleet["losses"] if one["policy"] == "vllm")
    low, high = today["lost_by_router"]
    # The optimum in seconds is an interval, so the lower end may be 0.
    assert 0 <= low <= high
    assert high > 0
