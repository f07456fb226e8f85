"""Command lines given pipes and logs in odd orders; what a report says of rounded input."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forked_scripts import SCRIPTS, Ok, Process
from log_files import vllm_bench
from process_groups import end, press_ctrl_c, start

import instances

LOG = "id;created_at;in;out\na;2024-01-01 00:00:05;10;3\nb;2024-01-01 00:00:01;12;3\n"
COLUMNS = "arrival=created_at, prompt=in, output=out"
TRACE = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n4.3,396,109\n"


def piped(content: bytes, settings: str, out: Path) -> Process:
    source = f"trace:/dev/stdin(memory_limit=9999, {settings})"
    return subprocess.run(
        [sys.executable, SCRIPTS / "generate.py", source, "--out", out],
        input=content.decode("latin-1"),
        encoding="latin-1",
        capture_output=True,
        timeout=120,
    )


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="no such device")
@pytest.mark.parametrize(
    ("content", "settings", "told", "arrivals"),
    [
        (LOG.encode(), f"round_seconds=1, {COLUMNS}", "sorted, 1 out of order", [0, 4]),
        (
            gzip.compress(vllm_bench().encode()),
            "round_seconds=0.25",
            "sorted, 1 out of order; 1 failed and left out",
            [0, 2, 5, 12],
        ),
    ],
    ids=["completions", "gzip"],
)
def test_a_log_through_a_pipe(
    content: bytes, settings: str, told: str, arrivals: list[int], tmp_path: Path
) -> None:
    out = tmp_path / "x.json"
    process = piped(content, settings, out)
    assert process.returncode == 0, process.stderr
    assert told in process.stdout
    assert instances.load(out).arrival_times.tolist() == arrivals


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_nobody_writes_to_is_waited_for_until_ctrl_c(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = start(SCRIPTS / "generate.py", f"trace:{pipe}(memory_limit=9)")
    time.sleep(1.5)
    assert process.poll() is None
    press_ctrl_c(process)
    printed, complained = end(process)
    assert (process.returncode, printed) == (130, "")
    assert complained == "error: interrupted\n"


def test_what_the_optimum_is_of_is_told(ok: Ok, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    out, page = tmp_path / "t.json", tmp_path / "page.md"
    scaled = "'trace:t.csv(memory_limit=10, token_scale=64, round_seconds=3.2)'"
    told = "bounds are of the rounded instance, not of the log: tokens are rounded up to"
    assert told in ok(f"generate {scaled} --out t.json")
    for command in ("", "--method relaxation-lagrangian"):
        assert told in ok(f"solve t.json {command} --time-limit 0")
    ratios = "competitive_ratios --policy mc-sf --jobs 1 --time-limit 0"
    assert ok(f"{ratios} {scaled} --out page.md").count(told) == 1
    assert told in page.read_text("utf-8")
    assert ok(f"{ratios} t.json t.json").count(told) == 1
    document = json.loads(out.read_text("utf-8"))
    del document["metadata"]
    out.write_text(json.dumps(document))
    assert "rounded" not in ok("solve t.json --time-limit 0")
