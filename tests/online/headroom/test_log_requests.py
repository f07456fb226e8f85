"""Requests of a log for `headroom`: what is said beside them."""

from __future__ import annotations

import json
from pathlib import Path

from instances import MemoryRule, read_log
from online.headroom.log_requests import requests_of_log


def test_shared_tokens_are_told_with_the_requests_kept(tmp_path: Path) -> None:
    path = tmp_path / "moon.jsonl"
    rows = [(0, 600, [1, 2]), (1000, 1100, [1, 3, 4]), (2000, 900, [1, 3]), (3000, 4000, [9] * 8)]
    path.write_text(
        "".join(
            json.dumps({"timestamp": at, "input_length": s, "output_length": 9, "hash_ids": ids})
            + "\n"
            for at, s, ids in rows
        )
    )
    options = {"too_long": "drop", "start_seconds": 1, "memory_rule": MemoryRule(512)}
    # The window leaves out the first request, which supplies a block all the same.
    log = read_log(path, block_hashes=True)
    whole, _, shared, facts = requests_of_log(log, 2048, **options)
    assert (whole.prompt_lengths.tolist(), shared.tolist()) == ([1100, 900], [512, 512])
    assert facts["shared prompts"].startswith("23.3 % of all prompt tokens in whole blocks")
    assert requests_of_log(read_log(path), 2048, **options)[2] is None


def test_a_latency_measured_beside_other_requests_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = "".join(f"{at},5,3,{latency}\n" for at, latency in ((0, 1.0), (1, 9.0), (2, 9.5)))
    path.write_text(f"t,p,o,l\n{rows}")
    columns = {"arrival": "t", "prompt": "p", "output": "o", "latency": "l"}
    log = read_log(path, columns=columns)
    _, measured, _, facts = requests_of_log(log, 100)
    assert measured is not None
    assert "measured latency" not in facts
    for window in ({"start_seconds": 1}, {"max_requests": 2}, {"duration_seconds": 1.5}):
        _, measured, _, facts = requests_of_log(log, 100, **window)
        assert measured is None
        assert (
            facts["measured latency"] == "left out: other requests of the log ran at the same time"
        )


def test_a_latency_of_0_throughout_is_none(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("t,p,o,l\n0,5,3,0\n1,5,3,0\n")
    log = read_log(path, columns={"arrival": "t", "prompt": "p", "output": "o", "latency": "l"})
    _, measured, _, facts = requests_of_log(log, 100)
    assert measured is None
    assert facts["measured latency"] == "left out: it is 0 throughout"
