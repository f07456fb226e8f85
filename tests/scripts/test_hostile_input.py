"""Command lines given pipes and logs in odd orders; what a report says of rounded input."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from forked_scripts import SCRIPTS, Ok
from log_files import vllm_bench

import instances

LOG = b"id;created_at;in;out\na;2024-01-01 00:00:05;10;3\nb;2024-01-01 00:00:01;12;3\n"
COLUMNS = "round_seconds=1, arrival=created_at, prompt=in, output=out"
TRACE = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n4.3,396,109\n"
PACKED = gzip.compress(vllm_bench().encode())


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="no such device")
@pytest.mark.parametrize(
    ("content", "settings", "told", "arrivals"),
    [
        (LOG, COLUMNS, "1 out of order", [0, 4]),
        (PACKED, "round_seconds=0.25", "1 out of order; 1 failed and left out", [0, 2, 5, 12]),
    ],
    ids=["completions", "gzip"],
)
def test_a_log_through_a_pipe(
    content: bytes, settings: str, told: str, arrivals: list[int], tmp_path: Path
) -> None:
    out = tmp_path / "x.json"
    source = f"trace:/dev/stdin(memory_limit=9999, {settings})"
    command = [sys.executable, SCRIPTS / "generate.py", source, "--out", out]
    process = subprocess.run(command, input=content, capture_output=True, timeout=120)
    assert process.returncode == 0, process.stderr
    assert told in " ".join(process.stdout.decode().split())
    assert instances.load(out).arrival_times.tolist() == arrivals


def test_what_the_optimum_is_of_is_told(ok: Ok, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    out, page = tmp_path / "t.json", tmp_path / "page.md"
    scaled = "'trace:t.csv(memory_limit=10, token_scale=64, round_seconds=3.2)'"
    told = "bounds are of the rounded instance, not of the log: tokens are rounded up to"
    assert told in ok(f"generate {scaled} --out t.json")
    for command in ("", "--method relaxation-lagrangian"):
        assert told in ok(f"solve t.json {command} --time-limit 0")
    ratios = "competitive_ratios --policy mc-sf --jobs 1 --time-limit 0"
    assert ok(f"{ratios} {scaled} t.json t.json --out page.md").count(told) == 1
    assert told in page.read_text("utf-8")
    document = json.loads(out.read_text("utf-8"))
    del document["metadata"]
    out.write_text(json.dumps(document))
    assert "rounded" not in ok("solve t.json --time-limit 0")
