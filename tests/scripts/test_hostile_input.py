"""Command lines given pipes, logs in odd orders, control characters and devices without end."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from forked_scripts import Process, Script
from log_files import vllm_bench

import instances

ROOT = Path(__file__).resolve().parents[2]

LOG = "id;created_at;in;out\na;2024-01-01 00:00:05;10;3\nb;2024-01-01 00:00:01;12;3\n"
COLUMNS = "arrival=created_at, prompt=in, output=out"
TRACE = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n4.3,396,109\n"


def piped(content: bytes, *arguments: object) -> Process:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        input=content.decode("latin-1"),
        encoding="latin-1",
        capture_output=True,
        timeout=120,
    )


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="no such device")
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_log_of_completions_through_a_pipe(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    generate, out = ROOT / "scripts" / "generate.py", tmp_path / "x.json"
    source = f"trace:/dev/stdin(memory_limit=99, round_seconds=1, {COLUMNS})"
    process = piped(pack(LOG.encode()), generate, source, "--out", out)
    assert process.returncode == 0, process.stderr
    assert "sorted, 1 out of order" in process.stdout
    assert instances.load(out).arrival_times.tolist() == [0, 4]
    assert instances.load(out).prompt_lengths.tolist() == [12, 10]


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="no such device")
def test_a_benchmark_through_a_pipe(tmp_path: Path) -> None:
    generate, out = ROOT / "scripts" / "generate.py", tmp_path / "x.json"
    source = "trace:/dev/stdin(memory_limit=9999, round_seconds=0.25)"
    process = piped(gzip.compress(vllm_bench().encode()), generate, source, "--out", out)
    assert process.returncode == 0, process.stderr
    assert "sorted, 1 out of order; 1 failed and left out" in process.stdout
    assert instances.load(out).arrival_times.tolist() == [0, 2, 5, 12]
    process = piped(vllm_bench(ttfts=[-1] * 5).encode(), generate, source, "--out", out)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.count("\n") == 1
    assert "row 1: ttfts -1 is below 0" in process.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_nobody_writes_to_is_waited_for_until_ctrl_c(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [sys.executable, ROOT / "scripts" / "generate.py", f"trace:{pipe}(memory_limit=9)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background has left Ctrl-C ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        time.sleep(3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out) == (130, "")
    assert err in ("", "error: interrupted\n")


def test_what_the_optimum_is_of_is_told(script: Script, tmp_path: Path) -> None:
    trace, out = tmp_path / "t.csv", tmp_path / "t.json"
    trace.write_text(TRACE)
    scaled = f"trace:{trace}(memory_limit=10, token_scale=64, round_seconds=3.2)"
    told = "bounds are of the rounded instance, not of the log: tokens are rounded up to"
    assert told in script("generate", scaled, "--out", out).stdout
    assert told in script("solve", out).stdout
    assert told in script("relax", out).stdout
    page = tmp_path / "page.md"
    ratios = ("competitive_ratios", "--policy", "mc-sf", "--jobs", 1)
    assert script(*ratios, scaled, "--out", page).stdout.count(told) == 1
    assert told in page.read_text("utf-8")
    assert script(*ratios, out, out).stdout.count(told) == 1
    document = json.loads(out.read_text("utf-8"))
    del document["metadata"]
    out.write_text(json.dumps(document))
    assert "rounded" not in script("solve", out).stdout
